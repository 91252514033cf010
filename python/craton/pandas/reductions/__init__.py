"""Columns to single values, and counts of values."""
