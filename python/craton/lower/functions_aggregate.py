"""Aggregates and window functions as Polars expressions."""

from __future__ import annotations

from typing import Any

import polars as pl

from craton.lower.expressions import Spec, lowers
from craton.plan.expr import dtype_of


@lowers(
    "sum",
    "mean",
    "min",
    "max",
    "count",
    "n_unique",
    "product",
    "any",
    "all",
    "null_count",
    "median",
    "arg_min",
    "arg_max",
)
def _simple(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    match spec.function:
        case "sum":
            # 64-bit accumulation; the cast is free where the dtype is the same.
            return _at_least(arg.cast(spec.dtype).sum(), arg, spec)
        case "product":
            return _at_least(arg.cast(spec.dtype).product(), arg, spec)
        case "mean":
            return arg.mean()
        case "count":
            return arg.count().cast(spec.dtype)
        case "n_unique":
            values = arg.drop_nulls() if spec.option("nulls", True) else arg
            return values.n_unique().cast(spec.dtype)
        case "null_count":
            return arg.null_count().cast(spec.dtype)
        case "arg_min" | "arg_max":
            # The first of several; the kernel's own gives any of them.
            extreme = arg.min() if spec.function == "arg_min" else arg.max()
            return pl.int_range(0, pl.len()).filter(arg == extreme).min().cast(spec.dtype)
        case "median":
            kind = dtype_of(spec.args[0])
            if kind.is_temporal():
                return arg.median()
            # Half the sum of the two in the middle; the kernel's own adds half their distance, which two infinities have not.
            number = arg if kind.is_float() else arg.cast(pl.Float64)
            return number.quantile(0.5, interpolation="midpoint")
        case name:
            return getattr(arg, name)()


def _at_least(total: pl.Expr, arg: pl.Expr, spec: Spec) -> pl.Expr:
    """A total, or null where fewer than ``min_count`` values are not missing."""
    least = spec.option("min_count", 0)
    return pl.when(arg.count() >= least).then(total) if least > 0 else total


@lowers("len")
def _len(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return pl.len().cast(spec.dtype)


@lowers("var", "std", "sem")
def _moments(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    (arg,) = args
    ddof = spec.option("ddof", 1)
    if spec.function == "var":
        return arg.var(ddof=ddof)
    if spec.function == "std":
        return arg.std(ddof=ddof)
    return arg.std(ddof=ddof) / arg.count().sqrt()


@lowers("skew", "kurtosis")
def _shape(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return getattr(args[0], spec.function)(bias=False)


@lowers("quantile")
def _quantile(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].quantile(spec.option("q"), interpolation=spec.option("interpolation", "linear"))


@lowers("first", "last")
def _first_last(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The first or last value that is not null; with two arguments, by the second (a row number)."""
    value = args[0]
    if len(args) == 2:
        order = pl.when(value.is_not_null()).then(args[1]) if spec.option("skip_nulls", True) else args[1]
        return value.min_by(order) if spec.function == "first" else value.max_by(order)
    if spec.option("skip_nulls", True):
        value = value.drop_nulls()
    return value.first() if spec.function == "first" else value.last()


@lowers("label_of_min", "label_of_max")
def _label_of_extreme(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``label_of_min(label, value)``: the label beside the least value that is not null, the first of several.

    The third argument, a row number, tells which is first; without it, rows are in order.
    """
    label, value, *row = args
    least = spec.function == "label_of_min"
    if not row:
        return label.get(value.arg_min() if least else value.arg_max(), null_on_oob=True)
    extreme = value.min() if least else value.max()
    return label.min_by(pl.when(value == extreme).then(row[0]))


@lowers("nth")
def _nth(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].get(spec.option("n"), null_on_oob=True)


@lowers("row_number")
def _row_number(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return pl.int_range(0, pl.len()).cast(spec.dtype)


@lowers("cum_sum", "cum_prod", "cum_min", "cum_max", "cum_count")
def _cumulative(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    arg = args[0] if spec.function in ("cum_min", "cum_max", "cum_count") else args[0].cast(spec.dtype)
    return getattr(arg, spec.function)()


@lowers("shift", "diff")
def _shift(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    periods = spec.option("periods", 1)
    if spec.function == "diff":
        return args[0].diff(periods)
    return args[0].shift(periods, fill_value=args[1]) if len(args) == 2 else args[0].shift(periods)


@lowers("forward_fill", "backward_fill")
def _fill(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return getattr(args[0], spec.function)(limit=spec.option("limit"))


@lowers("rank", "rank_max", "rank_min", "rank_dense", "rank_average", "rank_ordinal")
def _rank(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    method: Any = "average" if spec.function == "rank" else spec.function.removeprefix("rank_")
    return args[0].rank(method, descending=spec.option("descending", False)).cast(spec.dtype)


@lowers("is_first_distinct", "is_last_distinct", "is_duplicated")
def _distinct(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    value = args[0] if len(args) == 1 else pl.struct([arg.alias(str(i)) for i, arg in enumerate(args)])
    return getattr(value, spec.function)()
