"""Variance, standard deviation, standard error, skewness and kurtosis; covariance and correlation of two columns."""

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
    """Combine variances of tiles by adding the squared deviations of their means from the group's (Chan et al., 1979)."""
    (arg,) = call.args
    value = as_float(arg)
    n, mean, var, least, most, squares = (hidden_name() for _ in range(6))
    count_, least_, most_ = Column(n, INT), Column(least, FLOAT), Column(most, FLOAT)
    mean_, var_ = _within(Column(mean, FLOAT), Column(var, FLOAT), least_, most_)
    rows = Call("cast", (count_,), FLOAT)
    sums = Call("mul", (mean_, rows), FLOAT)

    def before(keys: Sequence[Expr]) -> list[Named]:
        def over_all(total: Expr) -> Expr:
            count = WindowCall("sum", (rows,), FLOAT, tuple(keys))
            return Call("truediv", (WindowCall("sum", (total,), FLOAT, tuple(keys)), count), FLOAT)

        # The mean of the group is corrected for its rounding error, so that equal numbers have a variance of exactly 0.
        rounded = over_all(sums)
        error = over_all(Call("mul", (Call("sub", (mean_, rounded), FLOAT), rows), FLOAT))
        of_all = Call("add", (rounded, error), FLOAT)
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
    if call.function == "sem" and call.option("of_groups", False):
        final = _root(Call("truediv", (final, Call("cast", (Column(count, INT),), FLOAT)), FLOAT))
    elif call.function != "var":
        final = _root(final)
        if call.function == "sem":
            final = Call("truediv", (final, _root(Call("cast", (Column(count, INT),), FLOAT))), FLOAT)
    enough = Call("gt", (free, Literal(0, INT)), BOOL)
    final = Call("when", (enough, final, Literal(None, FLOAT)), FLOAT)
    if call.dtype != FLOAT:
        final = Call("cast", (final,), call.dtype)
    partial = (
        (n, AggregateCall("count", (arg,), INT)),
        (mean, AggregateCall("mean", (value,), FLOAT)),
        (var, AggregateCall("var", (value,), FLOAT, (("ddof", 0),))),
        (least, AggregateCall("min", (value,), FLOAT)),
        (most, AggregateCall("max", (value,), FLOAT)),
    )
    return Phases(partial, combine, final, before)


def _root(value: Expr) -> Expr:
    return Call("pow", (value, Literal(0.5, FLOAT)), FLOAT)


def _within(mean: Expr, var: Expr, least: Expr, most: Expr) -> tuple[Expr, Expr]:
    """Correct a tile's mean and variance for rounding: clip the mean to the extremes; variance 0 if the extremes are equal."""

    def when(test: Expr, value: Expr, other: Expr) -> Expr:
        return Call("when", (test, value, other), FLOAT)

    low, high = Call("lt", (mean, least), BOOL), Call("gt", (mean, most), BOOL)
    # The variance of infinities is NaN, and must stay NaN.
    equal = Call("and", (Call("eq", (least, most), BOOL), Call("is_not_nan", (var,), BOOL)), BOOL)
    return when(low, least, when(high, most, mean)), when(equal, Literal(0.0, FLOAT), var)


@_aggregate(
    "var",
    "std",
    "sem",
    result=cast_to(FLOATS, averaged),
    phases=_in_phases,
    one_row=lambda call: Call("sub", (call.args[0], call.args[0]), call.dtype),  # 0; NaN for an infinity
    tiling=by_phases,
    holds_values=False,
    cost=Cost.VALUES,
)
def _moments(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    ddof = spec.option("ddof", 1)
    if spec.function == "var":
        value = arg.var(ddof=ddof)
    elif spec.function == "std":
        value = arg.std(ddof=ddof)
    else:
        value = standard_error(arg.var(ddof=ddof), arg.count(), spec)
    if ddof < 1:  # the kernel returns 0 for a single null
        value = pl.when(arg.count() > 0).then(value)
    return value.cast(spec.dtype) if spec.function == "sem" else as_stated(value, spec)


def standard_error(variance: pl.Expr, count: pl.Expr, spec: Spec) -> pl.Expr:
    """The standard error of the mean. pandas rounds it differently for groups and for a whole column."""
    return (variance / count).sqrt() if spec.option("of_groups", False) else variance.sqrt() / count.sqrt()


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


@register(
    "covariance",
    "correlation",
    kind=Kind.AGGREGATE,
    signature=(Argument("value", NUMBERS), Argument("other", NUMBERS)),
    result=cast_to(FLOATS, FLOAT),
    nulls=Nulls.SKIPPED,  # with the other value of the row
    nans=NaNs.MISSING,
    order=Order.ANY,
    phases=None,
    one_row=None,
    tiling=all_rows,
    holds_values=True,
    cost=Cost.VALUES,
)
def _of_two(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """Pearson's, of the rows in which both values are present; null for fewer than two rows, and for a constant column."""
    given = [arg.cast(pl.Float64) for arg in args]
    both = given[0].is_not_null() & given[1].is_not_null()
    # The kernel masks whole columns faster than it filters groups, and leaves out the rows in which one value is null.
    one, other = (pl.when(both).then(arg) for arg in given)
    if spec.function == "covariance":
        return as_stated(pl.when(both.sum() > 1).then(pl.cov(one, other)), spec)
    # The kernel divides rounding errors by each other where all values are equal.
    varies = (one.min() < one.max()) & (other.min() < other.max())
    return as_stated(pl.when(varies).then(pl.corr(one, other).clip(-1.0, 1.0)), spec)
