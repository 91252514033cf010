"""What every lazy object is made of: views, dtypes, dispatch, and how a plan becomes pandas objects."""
