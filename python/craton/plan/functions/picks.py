"""The first, last or n-th value of a group, and the positions of the first and last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, WindowCall
from craton.plan.functions.strategies import BOOL, INT, Named, Phases, Spec, all_rows, by_phases, single_row_value
from craton.plan.names import hidden_name
from craton.plan.operators import AggregateCall
from craton.plan.registry import ANY, INTEGERS, Argument, Cost, Kind, NaNs, Nulls, Order, cast_to, register, same

# ---- values ----

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
    one_row=single_row_value,
    tiling=by_phases,
)
def _end(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The first or last value that is not null; by the row numbers in the second argument, if there is one."""
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


# ---- positions ----


def _place_in_phases(call: AggregateCall) -> Phases:
    """The position among all rows is the position in the tile plus the number of rows in the tiles before it."""
    rows, part, place, found = (hidden_name() for _ in range(4))
    rows_, part_ = Column(rows, INT), Column(part, call.dtype)

    def before(keys: Sequence[Expr]) -> list[Named]:
        until = Call("sub", (WindowCall("cum_sum", (rows_,), INT, tuple(keys)), rows_), INT)
        return [(place, Call("add", (part_, Call("cast", (until,), call.dtype)), call.dtype))]

    end = AggregateCall("min" if call.function == "arg_first" else "max", (Column(place, call.dtype),), call.dtype)
    partial = ((rows, AggregateCall("len", (), INT)), (part, call))
    return Phases(partial, ((found, end),), Column(found, call.dtype), before, in_order=True)


def _place_of_one(call: AggregateCall) -> Expr:
    missing = Call("is_null", call.args, BOOL)
    return Call("when", (missing, Literal(None, call.dtype), Literal(0, call.dtype)), call.dtype)


@register(
    "arg_first",
    "arg_last",
    kind=Kind.AGGREGATE,
    signature=(Argument("value", ANY),),
    result=cast_to(INTEGERS, INT),
    nulls=Nulls.VALUES,  # they are skipped, but count as positions
    nans=NaNs.VALUES,
    order=Order.ROWS,
    phases=_place_in_phases,
    one_row=_place_of_one,
    tiling=by_phases,
    holds_values=False,
    cost=Cost.VALUES,
)
def _place(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The position of the first or last value that is not null; null if all values are."""
    places = pl.int_range(0, pl.len()).filter(args[0].is_not_null())
    return (places.min() if spec.function == "arg_first" else places.max()).cast(spec.dtype)
