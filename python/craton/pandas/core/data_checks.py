"""Queries that methods run to decide how to proceed."""

from __future__ import annotations

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.dtypes import distinguishes_signed_zeros
from craton.pandas.core.execute import count_rows, scalar
from craton.pandas.core.view import Value, View
from craton.plan.expr import Call, Expr, Literal, dtype_of, roots
from craton.plan.operators import AggregateCall
from craton.refusals import Refusal


def any_row(held: View, predicate: Expr) -> bool:
    """Whether a predicate over the view's base is true for any row; null is not true."""
    if not roots(predicate) and count_rows(held) == 0:
        return False  # without columns, the kernel would evaluate the predicate for one row
    return bool(scalar(held, AggregateCall("any", (predicate,), pl.Boolean())))


def any_missing(held: View, value: Value) -> bool:
    """Whether a column over the view's base has a missing value. A query is run only if it may have one."""
    value = value.clean
    return value.nulls and any_row(held, Call("is_null", (value.expr,), pl.Boolean()))


def is_negative_zero(expr: Expr) -> Expr:
    """A predicate: whether a float is -0.0."""
    kind = dtype_of(expr)
    zero = Literal(0.0, kind)
    reciprocal = Call("truediv", (Literal(1.0, kind), expr), kind)
    return Call(
        "and", (Call("eq", (expr, zero), pl.Boolean()), Call("lt", (reciprocal, zero), pl.Boolean())), pl.Boolean()
    )


def has_negative_zero(held: View, value: Value) -> bool:
    """Whether a column contains -0.0, and pandas distinguishes it from 0.0. It is computed for such dtypes only."""
    return distinguishes_signed_zeros(value.dtype) and any_row(held, is_negative_zero(value.clean.expr))


def collect(frame: pl.LazyFrame, what: str) -> pl.DataFrame:
    """Run a query over a file's text. ``what`` describes it in the progress display.

    Raises
    ------
    Unsupported
        If the kernel cannot read the file; pandas then raises the error.
    """
    from craton.kernel.run import run_all

    try:
        return run_all([frame], expected_rows=1 << 20, describe=lambda: what)[0]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
