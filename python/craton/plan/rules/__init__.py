"""Rewrite rules: each takes a plan and returns one that means the same."""
