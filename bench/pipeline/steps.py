"""The steps of the benchmarks' pipelines: functions from Arrow tables to Arrow tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CHAIN", "chained", "lines"]

COLUMNS = 10


def lines(gigabytes: float) -> pa.Table:
    """Return a table of ten columns of random numbers, with so many bytes."""
    rows = int(gigabytes * 1e9 / 8 / COLUMNS)
    random = np.random.default_rng(1)
    return pa.table({f"c{i}": random.random(rows) for i in range(COLUMNS)})


def doubled(lines: pa.Table) -> pa.Table:
    """Add a column."""
    return lines.append_column("double", pc.multiply(lines["c0"], 2.0))


def narrowed(doubled: pa.Table) -> pa.Table:
    """Project to six columns."""
    return doubled.select(["c0", "c1", "c2", "c3", "c4", "double"])


def middle(narrowed: pa.Table) -> pa.Table:
    """Slice off a tenth of the rows."""
    return narrowed.slice(narrowed.num_rows // 20, narrowed.num_rows * 9 // 10)


def summed(middle: pa.Table) -> pa.Table:
    """Add another column."""
    return middle.append_column("sum", pc.add(middle["c1"], middle["double"]))


def rare(summed: pa.Table) -> pa.Table:
    """Filter a twentieth of the rows."""
    return summed.filter(pc.greater(summed["c2"], 0.95))


CHAIN: tuple[Callable[[pa.Table], pa.Table], ...] = (doubled, narrowed, middle, summed, rare)
"""The five steps, in their order. Each takes the table of the step before, by its name."""


def chained(table: pa.Table) -> dict[str, float]:
    """Return what the last step's table is compared by."""
    return {"rows": table.num_rows, "sum": pc.sum(table["sum"]).as_py(), "columns": table.num_columns}
