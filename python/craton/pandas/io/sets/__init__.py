"""Durable sets of frames: :mod:`~craton.pandas.io.sets.tables` saves and reads them."""
