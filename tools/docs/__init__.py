"""Generators of the documentation's tables."""
