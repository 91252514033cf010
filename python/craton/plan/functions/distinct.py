"""Functions of distinct values: their number, and marks for rows with duplicate values."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import polars as pl

from craton.plan.expr import Column, dtype_of
from craton.plan.functions.strategies import BOOL, INT, DistinctValues, EqualValues, Phases, Spec
from craton.plan.names import hidden_name
from craton.plan.operators import AggregateCall
from craton.plan.registry import ANY, NUMBERS, Argument, Cost, Kind, NaNs, Nulls, Order, always, cast_to, register


def _in_phases(call: AggregateCall) -> Phases:
    """Each tile keeps one row for each distinct value; the values of a group are then counted."""
    (arg,) = call.args
    value, found = hidden_name(), hidden_name()
    again = replace(call, args=(Column(value, dtype_of(arg)),))
    return Phases((), ((found, again),), Column(found, call.dtype), keys=((value, arg),))


@register(
    "n_unique",
    kind=Kind.AGGREGATE,
    signature=(Argument("value", ANY),),
    result=cast_to(NUMBERS, INT),
    nulls=Nulls.SKIPPED,  # unless the option ``nulls`` is false
    nans=NaNs.GREATEST,
    order=Order.ANY,
    phases=_in_phases,
    one_row=None,
    tiling=lambda call: DistinctValues(),
    holds_values=True,
    cost=Cost.TABLE,
)
def _n_unique(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    values = args[0].drop_nulls() if spec.option("nulls", True) else args[0]
    return values.n_unique().cast(spec.dtype)


_mark = partial(
    register,
    kind=Kind.WINDOW,
    signature=(Argument("values", ANY, repeated=True),),
    result=always(BOOL),
    nulls=Nulls.VALUES,
    nans=NaNs.GREATEST,
    phases=None,
    one_row=None,
    tiling=lambda call: EqualValues(),
    holds_values=True,
    cost=Cost.TABLE,
)


def _together(args: list[pl.Expr]) -> pl.Expr:
    return args[0] if len(args) == 1 else pl.struct([arg.alias(str(i)) for i, arg in enumerate(args)])


@_mark("is_first_distinct", "is_last_distinct", order=Order.ROWS)
def _ends(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    values = _together(args)
    return values.is_first_distinct() if spec.function == "is_first_distinct" else values.is_last_distinct()


@_mark("is_duplicated", order=Order.ANY)
def _is_duplicated(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return _together(args).is_duplicated()
