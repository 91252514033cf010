"""The base of the front end: views, dtypes, dispatch of calls, and conversion of a plan's result to pandas objects."""
