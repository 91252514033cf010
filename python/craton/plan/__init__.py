"""The immutable operator tree, its expressions, its functions and its rewrite rules."""

from craton.plan.registry import FUNCTIONS

__all__ = ["FUNCTIONS"]


def _register() -> None:
    from craton.plan import functions  # noqa: F401


FUNCTIONS.register = _register
