"""Expressions of the plan as Polars expressions: one registered function each.

Families live in modules of their own and register with :func:`lowers`; a test proves that every declared function has
exactly one implementation.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from craton.errors import PlanError
from craton.imported import imported_pandas
from craton.plan.expr import Call, Column, Expr, Literal, Values, WindowCall
from craton.plan.functions import FUNCTIONS
from craton.plan.operators import AggregateCall

Spec = Call | WindowCall | AggregateCall
Implementation = Callable[[list[pl.Expr], Spec], pl.Expr]

IMPLEMENTATIONS: dict[str, Implementation] = {}


def lowers(*names: str) -> Callable[[Implementation], Implementation]:
    """Register the implementation of functions: ``f(arguments, spec) -> pl.Expr``."""

    def register(function: Implementation) -> Implementation:
        for name in names:
            if name not in FUNCTIONS:
                raise PlanError(f"{name!r} is implemented but not declared in craton.plan.functions")
            if name in IMPLEMENTATIONS:
                raise PlanError(f"{name!r} is implemented twice")
            IMPLEMENTATIONS[name] = function
        return function

    return register


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
            # Without a partition Polars broadcasts an aggregate beside columns of full length.
            return result.over([lower_expr(key) for key in expr.partition]) if expr.partition else result
        case _:
            raise PlanError(f"no lowering for {type(expr).__name__}")


def lower_aggregate(call: AggregateCall) -> pl.Expr:
    """The Polars expression of an aggregate, for ``group_by().agg`` or ``select``."""
    return _apply(call, [lower_expr(arg) for arg in call.args])


def _apply(spec: Spec, args: list[pl.Expr]) -> pl.Expr:
    implementation = IMPLEMENTATIONS.get(spec.function)
    if implementation is None:
        raise PlanError(f"function {spec.function!r} has no implementation")
    return implementation(args, spec)


def _literal(expr: Literal) -> pl.Expr:
    value = expr.value
    pandas = imported_pandas()
    if pandas is not None and isinstance(value, pandas.Timestamp | pandas.Timedelta):
        unit = expr.dtype.time_unit  # type: ignore[attr-defined]
        if unit == "ns":
            return pl.lit(value.as_unit("ns").value).cast(expr.dtype)
        if isinstance(value, pandas.Timedelta):
            return pl.lit(value.to_pytimedelta(), dtype=expr.dtype)
        return pl.lit(value.to_pydatetime(), dtype=expr.dtype)
    return pl.lit(value, dtype=expr.dtype)
