"""Reductions of columns to single values, and counts of distinct values."""
