"""Queries that methods run to decide how to proceed."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from craton.engine import collect_scalars
from craton.errors import Unsupported
from craton.pandas.core.dtypes import distinguishes_signed_zeros
from craton.pandas.core.execute import count_rows, scalar
from craton.pandas.core.view import Value, View
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Literal, dtype_of, roots
from craton.plan.operators import AggregateCall, JoinHow, Scan
from craton.plan.origin import origin
from craton.refusals import Refusal


def any_row(held: View, predicate: Expr) -> bool:
    """Whether a predicate over the view's base is true for any row; null is not true."""
    if not roots(predicate) and count_rows(held) == 0:
        return False  # without columns, the kernel would evaluate the predicate for one row
    return bool(scalar(held, _any(predicate)))


def _any(predicate: Expr) -> AggregateCall:
    return AggregateCall("any", (predicate,), pl.Boolean())


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
    return distinguishes_signed_zeros(value.dtype) and any_value(held, value, is_negative_zero)


def any_value(held: View, value: Value, predicate: Callable[[Expr], Expr]) -> bool:
    """Whether a predicate is true for any value of a column over the view's base.

    For a stored column the query reads that column alone, and its result serves all views of it. Only if a stored value
    satisfies the predicate does a query over the view's rows decide: rows may have been dropped since.
    """
    expr = value.clean.expr
    stored = (
        origin(held.base, expr.name, joins=SUBSETS, groups=True, positions=True) if isinstance(expr, Column) else None
    )
    if stored is not None:
        scan, name = stored
        alone = Scan(scan.source, (name,))
        found = build.aggregate(alone, (), (("value", _any(predicate(alone.column(name)))),))
        if not collect_scalars([found])[0].item():
            return False
    return any_row(held, predicate(expr))


#: The joins whose left columns hold no value that is not in the left input.
SUBSETS: tuple[JoinHow, ...] = ("inner", "left", "semi", "anti")


def has_odd_floats(held: View, value: Value) -> bool:
    """Whether a column of Arrow floats contains -0.0 or NaN, which pandas distinguishes from 0.0 and from missing values."""
    return distinguishes_signed_zeros(value.dtype) and any_value(held, value, _is_odd)


def _is_odd(expr: Expr) -> Expr:
    return Call("or", (Call("is_nan", (expr,), pl.Boolean()), is_negative_zero(expr)), pl.Boolean())


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
