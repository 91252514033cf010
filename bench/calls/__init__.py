"""Everyday calls of pandas, in families: Craton against pandas, and against Polars where it has the call."""
