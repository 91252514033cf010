"""Questions about the data that decide how a method goes on: each runs a query."""

from __future__ import annotations

import polars as pl

from craton.errors import Unsupported
from craton.pandas.values.batches import proven
from craton.pandas.core.execute import count_rows, scalar
from craton.pandas.core.view import Value, View
from craton.plan.expr import Call, Expr, roots
from craton.plan.operators import AggregateCall
from craton.refusals import Refusal


def happens(held: View, predicate: Expr) -> bool:
    """Whether a predicate over the view's base holds on any row (null does not hold)."""
    if not roots(predicate) and count_rows(held) == 0:
        return False  # a constant, which the kernel would take to be one row
    return bool(scalar(held, AggregateCall("any", (predicate,), pl.Boolean())))


def tried(held: View, value: Value) -> Value:
    """Compute a column now, so that what makes pandas raise does so in the call that asks for it.

    Returns
    -------
    Value
        The column, known not to raise on any of the view's rows.

    Raises
    ------
    Unsupported
        If it can't be computed: pandas words the error.
    """
    try:
        happens(held, Call("is_null", (value.expr,), pl.Boolean()))
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    return proven(value)
