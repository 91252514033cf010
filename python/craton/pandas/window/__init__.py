"""Columns whose values depend on other rows."""
