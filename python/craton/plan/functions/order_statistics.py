"""Medians and quantiles: aggregates of the values at a few positions in the sorted order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil, floor

import polars as pl

from craton.plan.expr import dtype_of, options
from craton.plan.functions.aggregates import averaged
from craton.plan.functions.strategies import AllRows, SelectedPositions, Spec, as_stated
from craton.plan.operators import AggregateCall
from craton.plan.registry import (
    BOOLEANS,
    FLOATS,
    NUMBERS,
    ORDERED,
    TEMPORALS,
    Argument,
    Cost,
    Kind,
    NaNs,
    Nulls,
    Order,
    Strategy,
    cast_to,
    derived,
    register,
)

#: Interpolations of a quantile that depend only on the two values next to it.
_BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")

_aggregate = partial(
    register,
    kind=Kind.AGGREGATE,
    nulls=Nulls.SKIPPED,
    nans=NaNs.GREATEST,
    order=Order.ANY,
    phases=None,
    one_row=None,
    holds_values=True,
    cost=Cost.TABLE,
)


def _is_sampled(call: AggregateCall) -> bool:
    """Whether the values can be exchanged by sampled ranges."""
    return dtype_of(call.args[0]) in NUMBERS | TEMPORALS and call.option("interpolation", "linear") in _BETWEEN


# ---- medians ----


def _median_positions(call: AggregateCall, rows: int) -> tuple[list[int], AggregateCall]:
    return sorted({(rows - 1) // 2, rows // 2}), call


def _median_tiling(call: AggregateCall) -> Strategy:
    return SelectedPositions(_median_positions) if _is_sampled(call) else AllRows()


@_aggregate(
    "median",
    signature=(Argument("value", NUMBERS | BOOLEANS | TEMPORALS),),
    result=cast_to(FLOATS, averaged),
    tiling=_median_tiling,
)
def _median(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    kind = dtype_of(spec.args[0])
    if kind.is_temporal():
        return as_stated(arg.median(), spec)
    # Half the sum of the two middle values. The kernel's own median adds half their difference, which is NaN for two infinities.
    number = arg if kind.is_float() else arg.cast(pl.Float64)
    return as_stated(_quantile_of(number, 0.5, "midpoint"), spec)


# ---- quantiles ----


def _quantile_of(values: pl.Expr, q: float, how: str) -> pl.Expr:
    """The quantile by selection in linear time: the kernel's own aggregate over all rows, or over nulls, sorts the values."""
    return values.drop_nulls().implode().list.agg(pl.element().quantile(q, interpolation=how))  # type: ignore[arg-type]


def _quantile_positions(call: AggregateCall, rows: int) -> tuple[list[int], AggregateCall]:
    position = (rows - 1) * call.option("q")
    share = position - floor(position)
    return sorted({floor(position), ceil(position)}), replace(
        call, options=options(**{**dict(call.options), "q": share})
    )


def _quantile_tiling(call: AggregateCall) -> Strategy:
    return SelectedPositions(_quantile_positions) if _is_sampled(call) else AllRows()


@_aggregate(
    "quantile",
    signature=(Argument("value", NUMBERS),),
    result=cast_to(NUMBERS, averaged),  # integers for the interpolations "lower" and "higher"
    tiling=_quantile_tiling,
)
def _quantile(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,), q, how = args, spec.option("q"), spec.option("interpolation", "linear")
    found = _quantile_of(arg, q, how)
    if how == "linear" and dtype_of(spec.args[0]) in FLOATS:
        # As in pandas, linear interpolation from -inf or between equal infinities is NaN; the kernel returns an infinity.
        position = (arg.count() - 1.0) * q
        both = (found == float("-inf")) | ((arg == float("inf")).sum() >= arg.count() - position.floor())
        found = pl.when(found.is_infinite() & (position % 1 != 0) & both).then(float("nan")).otherwise(found)
    if spec.dtype == pl.Int64():
        # A float outside the range of 64-bit integers becomes the least integer, as the processor's conversion does.
        beyond = (found >= 2.0**63) | (found < -(2.0**63))
        return pl.when(beyond).then(pl.lit(-(2**63), pl.Int64)).otherwise(found.cast(pl.Int64, strict=False))
    return as_stated(found, spec)


# ---- order statistics ----


def _statistics_positions(call: AggregateCall, rows: int) -> tuple[list[int], AggregateCall]:
    last = rows - 1
    before = [floor(float(last) * share) for share in call.option("q")]
    positions = sorted({position for first in before for position in (first, min(first + 1, last))})
    # Only the values at these positions remain, and each new share must point between the same two of them.
    numbers = [positions.index(first) for first in before]
    most = len(positions) - 1
    shares = tuple(1.0 if number == most else (number + 0.5) / most for number in numbers)
    return positions, replace(call, options=options(q=shares))


def _statistics_tiling(call: AggregateCall) -> Strategy:
    return SelectedPositions(_statistics_positions) if _is_sampled(call) else AllRows()


@_aggregate(
    "order_statistics",
    signature=(Argument("value", ORDERED),),
    result=derived("lists of the values", lambda dtypes: pl.List(dtypes[0])),
    tiling=_statistics_tiling,
)
def _order_statistics(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """For each share ``q``, the two sorted values that are next to the position ``q * (n - 1)``."""
    values = args[0].drop_nulls().sort()
    last = args[0].count().cast(pl.Float64) - 1.0  # values.len() would sort them again for each position
    positions: list[pl.Expr] = []
    for share in spec.option("q"):
        before = (last * share).floor()
        positions += [before, pl.min_horizontal(before + 1.0, last)]
    indices = pl.concat_list([position.clip(0.0).cast(pl.UInt32) for position in positions])
    return values.implode().list.gather(indices, null_on_oob=True)
