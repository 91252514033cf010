"""The least and the greatest value, its position, and the label in its row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, WindowCall, dtype_of
from craton.plan.functions.strategies import (
    BOOL,
    INT,
    Named,
    Phases,
    Spec,
    as_stated,
    by_phases,
    combined_by_itself,
    single_row_value,
)
from craton.plan.names import hidden_name
from craton.plan.operators import AggregateCall
from craton.plan.registry import (
    ANY,
    FLOATS,
    INTEGERS,
    ORDERED,
    Argument,
    Cost,
    Kind,
    NaNs,
    Nulls,
    Order,
    cast_to,
    register,
    same,
)

_extreme = partial(
    register, kind=Kind.AGGREGATE, nans=NaNs.SKIPPED, tiling=by_phases, holds_values=False, cost=Cost.VALUES
)


@_extreme(
    "min",
    "max",
    signature=(Argument("value", ORDERED),),
    result=cast_to(FLOATS, lambda dtypes: dtypes[0]),
    nulls=Nulls.SKIPPED,
    order=Order.ANY,
    phases=combined_by_itself,
    one_row=single_row_value,
)
def _min_max(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return as_stated(args[0].min() if spec.function == "min" else args[0].max(), spec)


# ---- positions ----


def _position_in_phases(call: AggregateCall) -> Phases:
    """The position among all rows is the position in the tile plus the number of rows in the tiles before it."""
    (arg,) = call.args
    function = "min" if call.function == "arg_min" else "max"
    rows, best, part, place, found = (hidden_name() for _ in range(5))
    rows_, part_ = Column(rows, INT), Column(part, call.dtype)

    def before(keys: Sequence[Expr]) -> list[Named]:
        until = Call("sub", (WindowCall("cum_sum", (rows_,), INT, tuple(keys)), rows_), INT)
        return [(place, Call("add", (part_, Call("cast", (until,), call.dtype)), call.dtype))]

    partial = (
        (rows, AggregateCall("len", (), INT)),
        (best, AggregateCall(function, (arg,), dtype_of(arg))),
        (part, call),
    )
    again = AggregateCall(f"label_of_{function}", (Column(place, call.dtype), Column(best, dtype_of(arg))), call.dtype)
    return Phases(partial, ((found, again),), Column(found, call.dtype), before, in_order=True)


def _position_of_one(call: AggregateCall) -> Expr:
    missing = Call("is_null", call.args, BOOL)
    return Call("when", (missing, Literal(None, call.dtype), Literal(0, call.dtype)), call.dtype)


@_extreme(
    "arg_min",
    "arg_max",
    signature=(Argument("value", ORDERED),),
    result=cast_to(INTEGERS, INT),
    nulls=Nulls.VALUES,  # they are skipped, but count as positions
    order=Order.ROWS,
    phases=_position_in_phases,
    one_row=_position_of_one,
)
def _position(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The position of the first of several equal extremes; the kernel's own functions return any of them."""
    (arg,) = args
    extreme = arg.min() if spec.function == "arg_min" else arg.max()
    return pl.int_range(0, pl.len()).filter(arg == extreme).min().cast(spec.dtype)


# ---- labels ----


def _label_in_phases(call: AggregateCall) -> Phases:
    _, value = call.args
    extreme = "min" if call.function == "label_of_min" else "max"
    best, part, found = hidden_name(), hidden_name(), hidden_name()
    partial = ((best, AggregateCall(extreme, (value,), dtype_of(value))), (part, call))
    again = AggregateCall(call.function, (Column(part, call.dtype), Column(best, dtype_of(value))), call.dtype)
    return Phases(partial, ((found, again),), Column(found, call.dtype), in_order=True)


def _label_of_one(call: AggregateCall) -> Expr:
    label, value = call.args
    return Call("when", (Call("is_null", (value,), BOOL), Literal(None, call.dtype), label), call.dtype)


@_extreme(
    "label_of_min",
    "label_of_max",
    signature=(Argument("label", ANY), Argument("value", ORDERED)),
    result=same(),
    nulls=Nulls.SKIPPED,
    order=Order.NUMBERED,
    phases=_label_in_phases,
    one_row=_label_of_one,
)
def _label(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``label_of_min(label, value)``: the label in the row of the least value that is not null; the first of several.

    The third argument is a row number by which the first is found; without it, the rows must be in order.
    """
    label, value, *row = args
    extreme = value.min() if spec.function == "label_of_min" else value.max()
    if not row:
        return label.filter(value == extreme).first()  # of equal values, arg_max does not always return the first
    return label.min_by(pl.when(value == extreme).then(row[0]))
