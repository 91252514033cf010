"""What the kernel's optimiser may do."""

from __future__ import annotations

import polars as pl

#: Not that it decides who sees the order of rows: it takes a result's rows for unordered where only single columns are computed of
#: them, and windows (``over``) then put their rows elsewhere. Plans say themselves where no order is wanted.
KEPT_ORDER = pl.QueryOptFlags(check_order_observe=False)


def collected(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a frame, in their order."""
    return frame.collect(engine="streaming", optimizations=KEPT_ORDER)
