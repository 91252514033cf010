"""Running windows: row numbers, cumulative sums, products and extremes, forward and backward fills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, WindowCall, dtype_of, options
from craton.plan.functions.aggregates import widest
from craton.plan.functions.strategies import BOOL, AllRows, Neighbours, Running, Spec, Step
from craton.plan.operators import AggregateCall
from craton.plan.registry import (
    ANY,
    BOOLEANS,
    DURATIONS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    Argument,
    Cost,
    Kind,
    NaNs,
    Nulls,
    Order,
    Strategy,
    always,
    cast_to,
    register,
    same,
)

_running = partial(
    register,
    kind=Kind.WINDOW,
    order=Order.ROWS,
    phases=None,
    one_row=None,
    holds_values=False,
    cost=Cost.VALUES,
)


def after(*functions: str, periods: int = 1) -> tuple[Step, ...]:
    """The steps from the totals of all tiles to the prefix of each: window functions, then a shift by one row."""
    return (*((function, ()) for function in functions), ("shift", options(periods=periods)))


def _total(function: str) -> Callable[[WindowCall], AggregateCall]:
    return lambda call: AggregateCall(function, call.args, call.dtype)


def _with(function: str, neutral: int) -> Callable[[Expr, Expr], Expr]:
    def join(value: Expr, carried: Expr) -> Expr:
        kind = dtype_of(carried)
        before = Call("coalesce", (carried, Literal(neutral, kind)), kind)
        return Call(function, (value, before), dtype_of(value))

    return join


# ---- row numbers and counts ----

_NUMBERED = Running(lambda call: AggregateCall("len", (), call.dtype), after("cum_sum"), _with("add", 0))
_COUNTED = Running(_total("count"), after("cum_sum"), _with("add", 0))


@_running(
    "row_number",
    signature=(),
    result=cast_to(NUMBERS, pl.Int64()),
    nulls=Nulls.VALUES,
    nans=NaNs.NOT_ACCEPTED,
    tiling=lambda call: _NUMBERED,
)
def _row_number(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return pl.int_range(0, pl.len()).cast(spec.dtype)


@_running(
    "cum_count",
    signature=(Argument("value", ANY),),
    result=always(pl.UInt32()),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    tiling=lambda call: _COUNTED,
)
def _cum_count(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].cum_count()


# ---- sums and products ----


def in_64_bits(value: pl.Expr, spec: Spec, running: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """A running sum or product. 32-bit floats are computed in 64 bits, which the kernel does or not by its number of threads."""
    if spec.dtype == pl.Float32():
        return running(value.cast(pl.Float64)).cast(pl.Float32)
    return running(value.cast(spec.dtype))


def added_up(value: pl.Expr, spec: Spec) -> pl.Expr:
    """A running sum. With the option ``compensated``, it is NaN after an infinity, as pandas' compensated (Kahan) sum is."""
    found = in_64_bits(value, spec, pl.Expr.cum_sum)
    if not spec.option("compensated", False) or not spec.dtype.is_float():
        return found
    infinite = found.is_finite().not_()
    return pl.when(infinite.cum_sum() > infinite.cast(pl.UInt32)).then(float("nan")).otherwise(found)


_SUMMED = Running(_total("sum"), after("cum_sum"), _with("add", 0))


def _compensated(value: Expr, carried: Column) -> Expr:
    # An infinity minus itself is NaN: so the compensation becomes NaN once a prefix is infinite, and so do all later values.
    lost = Call("sub", (carried, carried), carried.dtype)
    return _with("add", 0)(_with("add", 0)(value, carried), lost)


_COMPENSATED = Running(_total("sum"), after("cum_sum"), _compensated)
_MULTIPLIED = Running(_total("product"), after("cum_prod"), _with("mul", 1))


def _sum_tiling(call: WindowCall) -> Strategy:
    return _COMPENSATED if call.option("compensated", False) and call.dtype.is_float() else _SUMMED


@_running(
    "cum_sum",
    signature=(Argument("value", NUMBERS | BOOLEANS | DURATIONS),),
    result=cast_to(NUMBERS, widest),
    nulls=Nulls.SKIPPED,
    nans=NaNs.PROPAGATED,
    tiling=_sum_tiling,
)
def _cum_sum(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return added_up(args[0], spec)


@_running(
    "cum_prod",
    signature=(Argument("value", INTEGERS | FLOATS | BOOLEANS),),
    result=cast_to(INTEGERS | FLOATS, widest),
    nulls=Nulls.SKIPPED,
    nans=NaNs.PROPAGATED,
    # The product of a tile can overflow where the running product of all rows does not.
    tiling=lambda call: AllRows() if call.dtype.is_float() else _MULTIPLIED,
)
def _cum_prod(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return in_64_bits(args[0], spec, pl.Expr.cum_prod)


# ---- extremes ----


def _lesser(value: Expr, carried: Column) -> Expr:
    # NaN is the greatest value here: a carried number is less than NaN, and a carried NaN is never less.
    return Call("when", (Call("lt", (carried, value), BOOL), carried, value), dtype_of(value))


def _greater(value: Expr, carried: Column) -> Expr:
    better: Expr = Call("gt", (carried, value), BOOL)
    if dtype_of(value) in FLOATS:
        better = Call("or", (better, Call("is_nan", (value,), BOOL)), BOOL)
        better = Call("and", (better, Call("is_not_nan", (carried,), BOOL)), BOOL)
    return Call("when", (better, carried, value), dtype_of(value))


_LEAST = Running(_total("min"), after("cum_min", "forward_fill"), _lesser)
_GREATEST = Running(_total("max"), after("cum_max", "forward_fill"), _greater)


def _extreme_tiling(call: WindowCall) -> Strategy:
    return _LEAST if call.function == "cum_min" else _GREATEST


@_running(
    "cum_min",
    "cum_max",
    signature=(Argument("value", ORDERED),),
    result=same(),
    nulls=Nulls.SKIPPED,
    nans=NaNs.SKIPPED,
    tiling=_extreme_tiling,
)
def _cum_extreme(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].cum_min() if spec.function == "cum_min" else args[0].cum_max()


# ---- fills ----


def _coalesced(value: Expr, carried: Column) -> Expr:
    return Call("coalesce", (value, carried), dtype_of(value))


_FORWARD = Running(_total("last"), after("forward_fill"), _coalesced)
_BACKWARD = Running(_total("first"), after("backward_fill", periods=-1), _coalesced)


def _fill_tiling(call: WindowCall) -> Strategy:
    limit, forward = call.option("limit"), call.function == "forward_fill"
    if limit is None:
        return _FORWARD if forward else _BACKWARD
    return Neighbours(int(limit) if forward else -int(limit))


@_running(
    "forward_fill",
    "backward_fill",
    signature=(Argument("value", ANY),),
    result=same(),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    tiling=_fill_tiling,
)
def _fill(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    limit = spec.option("limit")
    return args[0].forward_fill(limit) if spec.function == "forward_fill" else args[0].backward_fill(limit)
