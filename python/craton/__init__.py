"""Craton: pandas programs, unchanged and exact, as plans on Polars."""
