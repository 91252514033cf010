"""Window functions, and aggregates over sorted values, as Polars expressions."""

from __future__ import annotations

import polars as pl

from craton.lower.expressions import Spec, lowers


@lowers("order_statistics")
def _order_statistics(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """For each share ``q``, the values before and after that share of the way through the sorted values."""
    values = args[0].drop_nulls().sort()
    last = values.len().cast(pl.Float64) - 1.0
    places: list[pl.Expr] = []
    for share in spec.option("q"):
        before = (last * share).floor()
        places += [before, pl.min_horizontal(before + 1.0, last)]
    indices = pl.concat_list([place.clip(0.0).cast(pl.UInt32) for place in places])
    return values.implode().list.gather(indices, null_on_oob=True)
