"""Element-wise operations on columns: operators, casts, fills, text, dates, membership."""
