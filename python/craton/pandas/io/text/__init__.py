"""Readers of text: delimited text (CSV) and lines of JSON."""
