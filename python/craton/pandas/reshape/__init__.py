"""Whole tables: merge, concat, sort, pivot, melt, duplicates."""
