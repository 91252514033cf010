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
    return args[0].rank(method, descending=spec.option("descending", False)).cast(spec.dtype)


_rank("rank", "rank_average", "rank_min", "rank_max", "rank_dense", order=Order.ANY, tiling=_tiling)(_ranked)
_rank("rank_ordinal", order=Order.ROWS, tiling=_tiling)(_ranked)
