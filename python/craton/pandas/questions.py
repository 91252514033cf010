"""Questions about the data that decide how a method goes on: each runs a query."""

from __future__ import annotations

import polars as pl

from craton.pandas.execute import count_rows, scalar
from craton.pandas.view import View
from craton.plan.expr import Expr, roots
from craton.plan.operators import AggregateCall


def happens(held: View, predicate: Expr) -> bool:
    """Whether a predicate over the view's base holds on any row (null does not hold)."""
    if not roots(predicate) and count_rows(held) == 0:
        return False  # a constant, which the kernel would take to be one row
    return bool(scalar(held, AggregateCall("any", (predicate,), pl.Boolean())))
