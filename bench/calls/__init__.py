"""Everyday calls of pandas, in families: Craton against pandas, and against Polars if it has an equivalent call."""
