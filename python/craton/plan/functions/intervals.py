"""The number of the interval in which a value is, among intervals that are given by their edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from craton.plan.expr import Values
from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.strategies import INT, Spec
from craton.plan.registry import INTEGERS, Argument, Cost, NaNs, Nulls, always


@rowwise(
    "interval_number",
    signature=(Argument("value", INTEGERS), Argument("edges", INTEGERS, scalar=True)),
    result=always(INT),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.NOT_ACCEPTED,
    cost=Cost.VALUES,
)
def _interval_number(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``interval_number(x, edges, right)``: from 0; the intervals include their right edges if ``right``, else their left edges.

    Values outside of all intervals are counted to the first or the last.
    """
    edges = spec.args[1]
    assert isinstance(edges, Values)
    inner = edges.series.to_numpy()[1:-1]
    side: Literal["left", "right"] = "left" if spec.option("right", False) else "right"

    def number(columns: Sequence[pl.Series]) -> pl.Series:
        (values,) = columns
        found = pl.Series(values.name, np.searchsorted(inner, values.fill_null(0).to_numpy(), side), dtype=pl.Int64)
        if not values.null_count():
            return found
        return pl.select(pl.when(values.is_not_null()).then(found).alias(values.name)).to_series()

    return pl.map_batches([args[0]], number, return_dtype=pl.Int64, is_elementwise=True)
