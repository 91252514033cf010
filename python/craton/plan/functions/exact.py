"""Aggregates of floats that give the same bits for any order of the rows: sums are computed exactly and rounded once.

The kernel's own sums depend on the order in which its threads and the tiles add. Where results must be reproducible
(``craton.options.reproducible``), these functions replace them: the values of each group become a list, which the native
module adds up. The partial result of a tile is a short list of terms whose exact sum is that of the tile's values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import polars as pl

from craton import _native
from craton.plan.expr import Call, Column, Expr, WindowCall, dtype_of
from craton.plan.functions.aggregates import (
    as_float,
    at_least,
    averaged,
    counted_values,
    if_enough,
    is_plain_number,
)
from craton.plan.functions.moments import standard_error
from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.running import added_up, in_64_bits
from craton.plan.functions.strategies import (
    FLOAT,
    INT,
    Phases,
    Spec,
    all_rows,
    by_phases,
    single_row_value,
)
from craton.plan.names import hidden_name
from craton.plan.operators import AggregateCall
from craton.plan.registry import (
    BOOLEANS,
    FLOATS,
    FUNCTIONS,
    LISTS,
    NUMBERS,
    TEMPORALS,
    Argument,
    Cost,
    Kind,
    NaNs,
    Nulls,
    Order,
    always,
    cast_to,
    register,
)

_C = TypeVar("_C", AggregateCall, WindowCall)

#: Terms: a few numbers whose exact sum is that of many.
TERMS = pl.List(pl.Float64)

_aggregate = partial(
    register,
    kind=Kind.AGGREGATE,
    nulls=Nulls.SKIPPED,
    order=Order.ANY,
    holds_values=True,
    cost=Cost.VALUES,
)


def exact_variant(call: _C) -> _C:
    """The variant of a call whose value does not depend on the order of rows; the call itself if it has no such variant."""
    name = f"exact_{call.function}"
    if name not in FUNCTIONS or any(dtype_of(arg) not in FUNCTIONS[name].argument(0).accepts for arg in call.args):
        return call
    return replace(call, function=name)


# ---- lists of numbers ----


def _lists(arg: pl.Expr, aggregated: Callable[[pl.Series], pl.Series], dtype: pl.DataType = FLOAT) -> pl.Expr:
    """Aggregate the list of each group's numbers; ``aggregated`` is called once for all groups."""
    return arg.implode().map_batches(aggregated, return_dtype=dtype, is_elementwise=True)


def _numbers(lists: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """The concatenated numbers of all lists, without nulls, and the offsets of the lists in them."""
    found = lists.rechunk().to_arrow()
    if found.values.null_count:
        found = lists.list.drop_nulls().rechunk().to_arrow()
    return found.values.to_numpy(), found.offsets.to_numpy()


def _aggregated(lists: pl.Series, name: str, ddof: int = 1) -> pl.Series:
    out = np.empty(len(lists))
    _native.exact_aggregate(name, *_numbers(lists), out, ddof)  # type: ignore[arg-type]
    return pl.Series(lists.name, out)


def _exact(arg: pl.Expr, name: str, ddof: int = 1) -> pl.Expr:
    """An aggregate of a group's numbers, as 64-bit floats."""
    return _lists(arg.cast(FLOAT), partial(_aggregated, name=name, ddof=ddof))


def _terms(lists: pl.Series) -> pl.Series:
    terms, ends = _native.exact_terms(*_numbers(lists))
    import pyarrow as pa

    array = pa.LargeListArray.from_arrays(np.frombuffer(ends, np.int64), np.frombuffer(terms, np.float64))
    return pl.Series(lists.name, array, dtype=TERMS)


def _of_numbers(value: pl.Expr, arg: pl.Expr, spec: Spec, least: int) -> pl.Expr:
    """A value in the call's dtype, or null if fewer than ``least`` numbers are not null."""
    return pl.when(arg.count() >= least).then(value).cast(spec.dtype)


# ---- terms ----


@_aggregate(
    "exact_terms",
    signature=(Argument("value", FLOATS),),
    result=always(TERMS),
    nans=NaNs.PROPAGATED,
    phases=None,
    one_row=lambda call: Call("as_terms", call.args, TERMS),
    tiling=all_rows,
)
def _exact_terms(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The terms of a group's values."""
    return _lists(args[0].cast(FLOAT), _terms, TERMS)


@_aggregate(
    "joined_terms",
    signature=(Argument("terms", LISTS),),
    result=always(TERMS),
    nans=NaNs.NOT_ACCEPTED,
    phases=None,
    one_row=single_row_value,
    tiling=all_rows,
)
def _joined_terms(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The terms of a group, from those of its parts."""
    return _lists(args[0].explode(), _terms, TERMS)


_of_each_row = partial(rowwise, nulls=Nulls.SKIPPED, cost=Cost.VALUES)


@_of_each_row("as_terms", signature=(Argument("value", FLOATS),), result=always(TERMS), nans=NaNs.PROPAGATED)
def _as_terms(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """A value as a list of one term; an empty list for null."""
    return pl.concat_list(args[0].cast(FLOAT)).list.drop_nulls()


@_of_each_row("sum_of_terms", signature=(Argument("terms", LISTS),), result=always(FLOAT), nans=NaNs.NOT_ACCEPTED)
def _sum_of_terms(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].map_batches(partial(_aggregated, name="sum"), return_dtype=FLOAT, is_elementwise=True)


@_of_each_row(
    "mean_of_terms",
    signature=(Argument("terms", LISTS), Argument("count", NUMBERS)),
    result=always(FLOAT),
    nans=NaNs.PROPAGATED,
)
def _mean_of_terms(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The mean of ``count`` values from their terms: the same bits as the exact mean of the values."""
    return pl.map_batches(args, _means, return_dtype=FLOAT, is_elementwise=True)


def _means(columns: Sequence[pl.Series]) -> pl.Series:
    lists, counts = columns
    out = np.empty(len(lists))
    _native.exact_means(*_numbers(lists), counts.cast(INT).fill_null(0).to_numpy(), out)
    return pl.Series(lists.name, out)


# ---- sums, means, products ----


def _sum_in_phases(call: AggregateCall) -> Phases:
    return _in_phases(call, call.option("min_count", 0), lambda terms, count: Call("sum_of_terms", (terms,), FLOAT))


def _mean_in_phases(call: AggregateCall) -> Phases | None:
    if not is_plain_number(dtype_of(call.args[0])):
        return None
    return _in_phases(call, 1, lambda terms, count: Call("mean_of_terms", (terms, count), FLOAT))


def _in_phases(call: AggregateCall, least: int, value: Callable[[Expr, Expr], Expr]) -> Phases:
    (arg,) = call.args
    part, whole = hidden_name(), hidden_name()
    terms = AggregateCall("exact_terms", (as_float(arg),), TERMS)
    joined = AggregateCall("joined_terms", (Column(part, TERMS),), TERMS)
    partial, count = counted_values(arg)
    final = value(Column(whole, TERMS), count.final)
    if least > 0:
        final = if_enough(final, count, least)
    if call.dtype != FLOAT:
        final = Call("cast", (final,), call.dtype)
    return Phases(((part, terms), *partial), ((whole, joined), *count.combine), final)


_total_of = partial(
    _aggregate,
    signature=(Argument("value", FLOATS),),
    result=cast_to(FLOATS, lambda dtypes: dtypes[0]),
    nans=NaNs.PROPAGATED,
)


@_total_of("exact_sum", phases=_sum_in_phases, one_row=single_row_value, tiling=by_phases)
@_total_of("exact_float_product", phases=None, one_row=None, tiling=all_rows)
def _total(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    return at_least(_exact(arg, "sum" if spec.function == "exact_sum" else "product").cast(spec.dtype), arg, spec)


@_aggregate(
    "exact_mean",
    signature=(Argument("value", NUMBERS | BOOLEANS | TEMPORALS),),
    result=cast_to(FLOATS, averaged),
    nans=NaNs.PROPAGATED,
    phases=_mean_in_phases,
    one_row=single_row_value,
    tiling=by_phases,
)
def _mean(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    if spec.dtype.is_float():
        return _of_numbers(_exact(arg, "mean"), arg, spec, 1)
    steps = arg.cast(spec.dtype).to_physical()
    return _of_numbers(_exact(steps, "mean").cast(INT, strict=False), arg, spec, 1)


# ---- moments ----


@_aggregate(
    "exact_var",
    "exact_std",
    "exact_sem",
    signature=(Argument("value", NUMBERS | BOOLEANS),),
    result=cast_to(FLOATS, averaged),
    nans=NaNs.PROPAGATED,
    phases=None,
    one_row=None,
    tiling=all_rows,
)
def _moments(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    ddof = spec.option("ddof", 1)
    variance = _exact(arg, "var", ddof)
    value = variance if spec.function == "exact_var" else variance.sqrt()
    if spec.function == "exact_sem":
        value = standard_error(variance, arg.count(), spec)
    return _of_numbers(value, arg, spec, ddof + 1)


@_aggregate(
    "exact_skew",
    "exact_kurtosis",
    signature=(Argument("value", NUMBERS | BOOLEANS),),
    result=cast_to(FLOATS, FLOAT),
    nans=NaNs.PROPAGATED,
    phases=None,
    one_row=None,
    tiling=all_rows,
)
def _shape(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    name = spec.function.removeprefix("exact_")
    return _of_numbers(_exact(arg, name), arg, spec, 3 if name == "skew" else 4)


# ---- running sums and products ----


@register(
    "exact_cum_sum",
    "exact_cum_prod",
    kind=Kind.WINDOW,
    signature=(Argument("value", FLOATS),),
    result=cast_to(FLOATS, lambda dtypes: dtypes[0]),
    nulls=Nulls.SKIPPED,
    nans=NaNs.PROPAGATED,
    order=Order.ROWS,
    phases=None,
    one_row=None,
    tiling=all_rows,
    holds_values=False,
    cost=Cost.VALUES,
)
def _running(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """A running sum or product, row by row as the kernel does it; unlike the plain function, it never adds totals of tiles."""
    return added_up(args[0], spec) if spec.function == "exact_cum_sum" else in_64_bits(args[0], spec, pl.Expr.cum_prod)
