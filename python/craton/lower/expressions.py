"""Lowers the plan's expressions and aggregates to Polars expressions."""

from __future__ import annotations

import polars as pl

from craton.errors import PlanError
from craton.imported import imported_pandas
from craton.plan.expr import Call, Column, Expr, Literal, Values, WindowCall
from craton.plan.operators import AggregateCall
from craton.plan.registry import FUNCTIONS, Order


def lower_expr(expr: Expr) -> pl.Expr:
    """The Polars expression that computes ``expr``."""
    match expr:
        case Column():
            return pl.col(expr.name)
        case Literal():
            return _literal(expr)
        case Values():
            return pl.lit(expr.series)
        case Call():
            return _apply(expr, [lower_expr(arg) for arg in expr.args])
        case WindowCall():
            result = _apply(expr, [lower_expr(arg) for arg in expr.args])
            # Without a partition, Polars broadcasts the aggregate to the length of the other columns.
            return result.over([lower_expr(key) for key in expr.partition]) if expr.partition else result
        case _:
            raise PlanError(f"no lowering for {type(expr).__name__}")


def lower_aggregate(call: AggregateCall, row: str | None = None) -> pl.Expr:
    """The Polars expression of an aggregate, for ``group_by().agg`` or ``select``.

    Parameters
    ----------
    row
        The column of row numbers, if the rows are not in order.
    """
    args = [lower_expr(arg) for arg in call.args]
    if row is not None and FUNCTIONS[call.function].order is Order.NUMBERED:
        args.append(pl.col(row))
    return _apply(call, args)


def _apply(call: Call | WindowCall | AggregateCall, args: list[pl.Expr]) -> pl.Expr:
    return FUNCTIONS[call.function].lower(args, call)


#: Days before and after 1970 that Python's datetimes surely cover.
_PYTHONS_DAYS = 700_000


def _literal(expr: Literal) -> pl.Expr:
    value = expr.value
    pandas = imported_pandas()
    if pandas is not None and isinstance(value, pandas.Timestamp | pandas.Timedelta):
        unit = expr.dtype.time_unit  # type: ignore[attr-defined]
        count = value.as_unit(unit)._value
        # Python's datetimes end with the year 9999 and have no nanoseconds.
        if unit == "ns" or abs(count) > _PYTHONS_DAYS * (86_400_000 if unit == "ms" else 86_400_000_000):
            return pl.lit(count).cast(expr.dtype)
        if isinstance(value, pandas.Timedelta):
            return pl.lit(value.to_pytimedelta(), dtype=expr.dtype)
        return pl.lit(value.to_pydatetime(), dtype=expr.dtype)
    return pl.lit(value, dtype=expr.dtype)
