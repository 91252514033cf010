"""From plans to what the kernel runs."""

from craton.lower import functions_aggregate, functions_core
from craton.lower.whole import lower

__all__ = ["functions_aggregate", "functions_core", "lower"]
