"""Cells: operators, casts, fills, text, dates, and functions of them."""
