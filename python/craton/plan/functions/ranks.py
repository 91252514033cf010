"""Ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

from craton.plan.expr import WindowCall, dtype_of
from craton.plan.functions.strategies import FLOAT, AllRows, RankByRange, Spec
from craton.plan.registry import (
    NUMBERS,
    ORDERED,
    Argument,
    Cost,
    Kind,
    NaNs,
    Nulls,
    Order,
    Strategy,
    cast_to,
    register,
)

#: Texts are ranked by their distinct values if an estimated share of at most this of them is distinct.
FEW_TEXTS = 0.2

_rank = partial(
    register,
    kind=Kind.WINDOW,
    signature=(Argument("value", ORDERED),),
    result=cast_to(NUMBERS, FLOAT),
    nulls=Nulls.SKIPPED,
    nans=NaNs.MISSING,
    phases=None,
    one_row=None,
    holds_values=True,
    cost=Cost.TABLE,
)


def _tiling(call: WindowCall) -> Strategy:
    dtype = dtype_of(call.args[0])
    plain = dtype.is_integer() or dtype.is_float() or dtype.is_temporal() or dtype in (pl.Boolean, pl.String)
    return RankByRange(distinct=call.function == "rank_dense") if plain else AllRows()


def _ranked(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    method: Any = "average" if spec.function == "rank" else spec.function.removeprefix("rank_")
    descending = spec.option("descending", False)
    if dtype_of(spec.args[0]) == pl.String and isinstance(spec, WindowCall) and not spec.partition:
        ranked = partial(_ranked_texts, method=method, descending=descending, dtype=spec.dtype)
        return args[0].map_batches(ranked, return_dtype=spec.dtype)
    return args[0].rank(method, descending=descending).cast(spec.dtype)


def _ranked_texts(texts: pl.Series, method: Any, descending: bool, dtype: pl.DataType) -> pl.Series:
    """The ranks of texts. If few are distinct, only these are sorted as texts."""
    if has_many_texts(texts):
        return texts.rank(method, descending=descending).cast(dtype)
    numbers = text_ranks(texts)
    if method == "dense" and not descending:
        return numbers.cast(dtype) + 1
    return numbers.rank(method, descending=descending).cast(dtype)


def has_many_texts(column: pl.Series) -> bool:
    """Whether most values of a column are distinct texts, by an estimate that is much faster than a sort."""
    if column.dtype != pl.String:
        return False
    distinct: Any = column.approx_n_unique()
    return bool(distinct > FEW_TEXTS * len(column))


def text_ranks(texts: pl.Series) -> pl.Series:
    """The rank of each text among the distinct texts, from 0; null for null."""
    return texts.cast(pl.Enum(distinct_texts(texts))).to_physical()


def distinct_texts(texts: pl.Series) -> pl.Series:
    """The distinct texts, without null, sorted."""
    return texts.unique().drop_nulls().sort()


_rank("rank", "rank_average", "rank_min", "rank_max", "rank_dense", order=Order.ANY, tiling=_tiling)(_ranked)
_rank("rank_ordinal", order=Order.ROWS, tiling=_tiling)(_ranked)
