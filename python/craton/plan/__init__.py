"""The immutable operator tree, its expressions, its functions and its rewrite rules."""

import craton.plan.functions as functions

__all__ = ["functions"]
