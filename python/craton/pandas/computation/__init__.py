"""Expressions in text: ``query`` and ``eval``."""
