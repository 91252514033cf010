"""Variance, and what is made of powers of deviations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, WindowCall
from craton.plan.functions.aggregates import as_float, averaged
from craton.plan.functions.strategies import BOOL, FLOAT, INT, Named, Phases, Spec, all_rows, as_stated, by_phases
from craton.plan.names import hidden_name
from craton.plan.operators import AggregateCall
from craton.plan.registry import (
    BOOLEANS,
    FLOATS,
    NUMBERS,
    Argument,
    Cost,
    Kind,
    NaNs,
    Nulls,
    Order,
    cast_to,
    register,
)

_aggregate = partial(
    register,
    kind=Kind.AGGREGATE,
    signature=(Argument("value", NUMBERS | BOOLEANS),),
    nulls=Nulls.SKIPPED,
    nans=NaNs.PROPAGATED,
    order=Order.ANY,
)


def _in_phases(call: AggregateCall) -> Phases:
    """Variance and what is made of it: squares of deviations of each tile's mean from the group's are added (Chan)."""
    (arg,) = call.args
    value = as_float(arg)
    n, mean, var, squares = (hidden_name() for _ in range(4))
    count_, mean_, var_ = Column(n, INT), Column(mean, FLOAT), Column(var, FLOAT)
    rows = Call("cast", (count_,), FLOAT)
    sums = Call("mul", (mean_, rows), FLOAT)

    def before(keys: Sequence[Expr]) -> list[Named]:
        of_all = Call(
            "truediv",
            (WindowCall("sum", (sums,), FLOAT, tuple(keys)), WindowCall("sum", (rows,), FLOAT, tuple(keys))),
            FLOAT,
        )
        off = Call("sub", (mean_, of_all), FLOAT)
        between = Call("mul", (Call("mul", (off, off), FLOAT), rows), FLOAT)
        within = Call("mul", (var_, rows), FLOAT)
        return [(squares, Call("add", (within, between), FLOAT))]

    total, count = hidden_name(), hidden_name()
    combine = (
        (total, AggregateCall("sum", (Column(squares, FLOAT),), FLOAT)),
        (count, AggregateCall("sum", (count_,), INT)),
    )
    ddof = call.option("ddof", 1)
    free = Call("sub", (Column(count, INT), Literal(ddof, INT)), INT)
    final: Expr = Call("truediv", (Column(total, FLOAT), Call("cast", (free,), FLOAT)), FLOAT)
    if call.function in ("std", "sem"):
        final = Call("pow", (final, Literal(0.5, FLOAT)), FLOAT)
    if call.function == "sem":
        root = Call("pow", (Call("cast", (Column(count, INT),), FLOAT), Literal(0.5, FLOAT)), FLOAT)
        final = Call("truediv", (final, root), FLOAT)
    enough = Call("gt", (free, Literal(0, INT)), BOOL)
    final = Call("when", (enough, final, Literal(None, FLOAT)), FLOAT)
    if call.dtype != FLOAT:
        final = Call("cast", (final,), call.dtype)
    partial = (
        (n, AggregateCall("count", (arg,), INT)),
        (mean, AggregateCall("mean", (value,), FLOAT)),
        (var, AggregateCall("var", (value,), FLOAT, (("ddof", 0),))),
    )
    return Phases(partial, combine, final, before)


@_aggregate(
    "var",
    "std",
    "sem",
    result=cast_to(FLOATS, averaged),
    phases=_in_phases,
    one_row=lambda call: Call("sub", (call.args[0], call.args[0]), call.dtype),  # 0; an infinite number has none
    tiling=by_phases,
    holds_values=False,
    cost=Cost.VALUES,
)
def _moments(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    ddof = spec.option("ddof", 1)
    if spec.function == "var":
        return as_stated(arg.var(ddof=ddof), spec)
    if spec.function == "std":
        return as_stated(arg.std(ddof=ddof), spec)
    return (arg.std(ddof=ddof) / arg.count().sqrt()).cast(spec.dtype)


@_aggregate(
    "skew",
    "kurtosis",
    result=cast_to(FLOATS, FLOAT),
    phases=None,
    one_row=None,
    tiling=all_rows,
    holds_values=True,
    cost=Cost.VALUES,
)
def _shape(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    value = args[0].skew(bias=False) if spec.function == "skew" else args[0].kurtosis(bias=False)
    return as_stated(value, spec)
