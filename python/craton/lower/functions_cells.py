"""Row-wise functions on cells as Polars expressions."""

from __future__ import annotations

import polars as pl

from craton.lower.expressions import Spec, lowers


@lowers("batch")
def _batch(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``payload.run(columns)`` on each batch of rows."""
    run = spec.payload.run  # type: ignore[union-attr]
    return pl.map_batches(args, run, return_dtype=spec.dtype, is_elementwise=True)


@lowers("concat_str")
def _concat_str(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The strings joined; null if one is null."""
    return pl.concat_str(args, separator=spec.option("separator", ""))
