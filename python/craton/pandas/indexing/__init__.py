"""Rows and columns by label, mask and position; assignment; columns to row labels and back."""
