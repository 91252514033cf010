"""Columns of lists of strings, and of the strings that such lists give."""
