"""The immutable operator tree, its expressions and its rewrite rules."""
