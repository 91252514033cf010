"""Merges: keys, row labels, categories, and joins by the nearest key."""
