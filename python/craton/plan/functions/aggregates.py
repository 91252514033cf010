"""Sums, products, means, counts, ``any`` and ``all``: aggregates that can be combined from parts of a group."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import polars as pl

from craton.plan.expr import Call, Expr, Literal, dtype_of
from craton.plan.functions.strategies import (
    BOOL,
    FLOAT,
    INT,
    NamedCall,
    Phases,
    Spec,
    all_rows,
    as_stated,
    by_phases,
    combined_by_itself,
    counted,
    single_row_value,
)
from craton.plan.operators import AggregateCall
from craton.plan.registry import (
    ANY,
    BOOLEANS,
    DURATIONS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    TEMPORALS,
    Argument,
    Cost,
    Dtypes,
    Kind,
    NaNs,
    Nulls,
    Order,
    always,
    cast_to,
    register,
)

_aggregate = partial(register, kind=Kind.AGGREGATE, order=Order.ANY, tiling=by_phases)


# ---- sums and products ----


def widest(dtypes: Dtypes) -> pl.DataType:
    """The dtype in which numbers are added: 64-bit integers for integers and booleans, else the numbers' own."""
    (dtype,) = dtypes
    if dtype.is_unsigned_integer():
        return pl.UInt64()
    return pl.Int64() if dtype in INTEGERS or dtype in BOOLEANS else dtype


def _total(call: AggregateCall) -> Phases | None:
    """Phases of a sum or a product, which is null if fewer than ``min_count`` values are not null."""
    least = call.option("min_count", 0)
    (arg,) = call.args
    # Partial sums of 32-bit floats are not rounded: see `_sum`.
    in_64_bits = call.function == "sum" and call.dtype == pl.Float32()
    plain = (
        AggregateCall("sum", (as_float(arg),), FLOAT)
        if in_64_bits
        else AggregateCall(call.function, (arg,), call.dtype)
    )
    found = combined_by_itself(plain)
    total = found.final if plain.dtype == call.dtype else Call("cast", (found.final,), call.dtype)
    if least <= 0:
        return replace(found, final=total)
    partial, count = counted_values(arg)
    return Phases((*found.partial, *partial), (*found.combine, *count.combine), if_enough(total, count, least))


def counted_values(arg: Expr) -> tuple[tuple[NamedCall, ...], Phases]:
    """The partial results and phases of the count of values that are not null."""
    found = counted(AggregateCall("count", (arg,), INT))
    return found.partial, found


def if_enough(value: Expr, count: Phases, least: int) -> Expr:
    """A value of combined results, or null if fewer than ``least`` values were counted."""
    dtype = dtype_of(value)
    enough = Call("ge", (count.final, Literal(least, INT)), BOOL)
    return Call("when", (enough, value, Literal(None, dtype)), dtype)


def at_least(total: pl.Expr, arg: pl.Expr, spec: Spec) -> pl.Expr:
    """A total, or null if fewer than ``min_count`` values are not null."""
    least = spec.option("min_count", 0)
    return pl.when(arg.count() >= least).then(total) if least > 0 else total


_total_of = partial(
    register,
    kind=Kind.AGGREGATE,
    result=cast_to(NUMBERS, widest),
    nulls=Nulls.SKIPPED,
    nans=NaNs.PROPAGATED,
    one_row=single_row_value,
    cost=Cost.VALUES,
)
_in_any_order = partial(_total_of, order=Order.ANY, phases=_total, tiling=by_phases, holds_values=False)


@_in_any_order("sum", signature=(Argument("value", NUMBERS | BOOLEANS | DURATIONS),))
def _sum(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    # 32-bit floats are added in 64 bits too: the kernel's threads add in any order, and in 32 bits that changes the first
    # seven digits. A cast to the same dtype costs nothing.
    if spec.dtype == pl.Float32():
        return at_least(arg.cast(FLOAT).sum().cast(spec.dtype), arg, spec)
    return at_least(arg.cast(spec.dtype).sum(), arg, spec)


def _product(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    return at_least(arg.cast(spec.dtype).product(), arg, spec)


_in_any_order(
    "product",
    signature=(Argument("value", INTEGERS | BOOLEANS),),
    result=cast_to(INTEGERS, widest),
    nans=NaNs.NOT_ACCEPTED,
)(_product)
# A partial product can overflow where the product of all rows does not, so rows are multiplied in order, as pandas does.
_total_of(
    "float_product",
    signature=(Argument("value", FLOATS),),
    order=Order.ROWS,
    phases=None,
    tiling=all_rows,
    holds_values=True,
)(_product)


# ---- means ----


def as_float(arg: Expr) -> Expr:
    """An expression as 64-bit floats."""
    return arg if dtype_of(arg) == FLOAT else Call("cast", (arg,), FLOAT)


def is_plain_number(dtype: pl.DataType) -> bool:
    """Whether values of a dtype are numbers or booleans, which can be converted to floats."""
    return dtype in NUMBERS or dtype in BOOLEANS


def averaged(dtypes: Dtypes) -> pl.DataType:
    """The dtype of a mean: floats for numbers, datetimes for dates."""
    (dtype,) = dtypes
    if dtype == pl.Date:
        return pl.Datetime("us")
    return dtype if dtype == pl.Float32 or dtype in TEMPORALS else FLOAT


def _mean_in_phases(call: AggregateCall) -> Phases | None:
    (arg,) = call.args
    if not is_plain_number(dtype_of(arg)):
        return None
    total = combined_by_itself(AggregateCall("sum", (as_float(arg),), FLOAT))
    partial, count = counted_values(arg)
    mean = Call("truediv", (total.final, Call("cast", (count.final,), FLOAT)), FLOAT)
    final = if_enough(mean, count, 1)
    if call.dtype != FLOAT:
        final = Call("cast", (final,), call.dtype)
    return Phases((*total.partial, *partial), (*total.combine, *count.combine), final)


@_aggregate(
    "mean",
    signature=(Argument("value", NUMBERS | BOOLEANS | TEMPORALS),),
    result=cast_to(FLOATS, averaged),
    nulls=Nulls.SKIPPED,
    nans=NaNs.PROPAGATED,
    phases=_mean_in_phases,
    one_row=single_row_value,
    holds_values=False,
    cost=Cost.VALUES,
)
def _mean(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return as_stated(args[0].mean(), spec)


# ---- counts ----

_count_of = partial(_aggregate, result=cast_to(NUMBERS, INT), phases=counted, holds_values=False, cost=Cost.VALUES)


def _flagged(test: Expr, call: AggregateCall) -> Expr:
    return Call("cast", (test,), call.dtype)


@_count_of(
    "count",
    signature=(Argument("value", ANY),),
    nans=NaNs.VALUES,
    nulls=Nulls.SKIPPED,
    one_row=lambda call: _flagged(Call("not", (Call("is_null", call.args, BOOL),), BOOL), call),
)
def _count(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].count().cast(spec.dtype)


@_count_of(
    "null_count",
    signature=(Argument("value", ANY),),
    nans=NaNs.VALUES,
    nulls=Nulls.VALUES,
    one_row=lambda call: _flagged(Call("is_null", call.args, BOOL), call),
)
def _null_count(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].null_count().cast(spec.dtype)


@_count_of("len", signature=(), nulls=Nulls.VALUES, nans=NaNs.NOT_ACCEPTED, one_row=lambda call: Literal(1, call.dtype))
def _len(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return pl.len().cast(spec.dtype)


# ---- any and all ----


@_aggregate(
    "any",
    "all",
    signature=(Argument("value", BOOLEANS),),
    result=always(BOOL),
    nulls=Nulls.SKIPPED,
    nans=NaNs.NOT_ACCEPTED,
    phases=combined_by_itself,
    one_row=single_row_value,
    holds_values=False,
    cost=Cost.VALUES,
)
def _question(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].any() if spec.function == "any" else args[0].all()
