"""Values of certain rows of a group: the first, the last, the n-th."""

from __future__ import annotations

from functools import partial

import polars as pl

from craton.plan.expr import Column
from craton.plan.functions.strategies import Phases, Spec, all_rows, by_phases, the_value
from craton.plan.names import hidden_name
from craton.plan.operators import AggregateCall
from craton.plan.registry import ANY, Argument, Cost, Kind, NaNs, Nulls, Order, register, same

_pick = partial(
    register,
    kind=Kind.AGGREGATE,
    signature=(Argument("value", ANY),),
    result=same(),
    nans=NaNs.VALUES,
    holds_values=False,
    cost=Cost.VALUES,
)


def _end_in_phases(call: AggregateCall) -> Phases:
    part, found = hidden_name(), hidden_name()
    combine = AggregateCall(call.function, (Column(part, call.dtype),), call.dtype, call.options)
    return Phases(((part, call),), ((found, combine),), Column(found, call.dtype), in_order=True)


@_pick(
    "first",
    "last",
    nulls=Nulls.SKIPPED,  # unless the option ``skip_nulls`` is false
    order=Order.NUMBERED,
    phases=_end_in_phases,
    one_row=the_value,
    tiling=by_phases,
)
def _end(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The first or last value that is not null; with two arguments, by the second (a row number)."""
    value = args[0]
    if len(args) == 2:
        order = pl.when(value.is_not_null()).then(args[1]) if spec.option("skip_nulls", True) else args[1]
        return value.min_by(order) if spec.function == "first" else value.max_by(order)
    if spec.option("skip_nulls", True):
        value = value.drop_nulls()
    return value.first() if spec.function == "first" else value.last()


@_pick("nth", nulls=Nulls.VALUES, order=Order.ROWS, phases=None, one_row=None, tiling=all_rows)
def _nth(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].get(spec.option("n"), null_on_oob=True)
