"""Windows that read a row at a fixed distance: shifts and differences."""

from __future__ import annotations

from functools import lru_cache, partial

import polars as pl

from craton.plan.expr import WindowCall
from craton.plan.functions.strategies import Neighbours, Spec
from craton.plan.registry import (
    ANY,
    NUMBERS,
    TEMPORALS,
    Argument,
    Cost,
    Dtypes,
    Kind,
    NaNs,
    Nulls,
    Order,
    Strategy,
    derived,
    register,
    same,
)


def _tiling(call: WindowCall) -> Strategy:
    return Neighbours(int(call.option("periods", 1)))


_neighbour = partial(
    register,
    kind=Kind.WINDOW,
    nulls=Nulls.VALUES,
    order=Order.ROWS,
    phases=None,
    one_row=None,
    tiling=_tiling,
    holds_values=False,
    cost=Cost.VALUES,
)


@_neighbour(
    "shift",
    signature=(Argument("value", ANY), Argument("filling", ANY, scalar=True, optional=True)),
    result=same(),
    nans=NaNs.VALUES,
)
def _shift(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    periods = spec.option("periods", 1)
    return args[0].shift(periods, fill_value=args[1]) if len(args) == 2 else args[0].shift(periods)


@lru_cache(maxsize=64)
def _difference(dtypes: Dtypes) -> pl.DataType:
    return pl.LazyFrame(schema={"value": dtypes[0]}).select(pl.col("value").diff()).collect_schema()["value"]


@_neighbour(
    "diff",
    signature=(Argument("value", NUMBERS | TEMPORALS),),
    result=derived("differences of the values", _difference),
    nans=NaNs.PROPAGATED,
)
def _diff(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].diff(spec.option("periods", 1))
