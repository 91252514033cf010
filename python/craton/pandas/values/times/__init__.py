"""Dates and times: their parts, and columns that are parsed from text."""
