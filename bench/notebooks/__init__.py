"""Ten programs of ``examples/notebooks``, with generated data, timed cell by cell under pandas and under Craton."""
