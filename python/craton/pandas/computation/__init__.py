"""Expressions in strings: ``query`` and ``eval``."""
