"""The keys by which the rows of a durable set are partitioned."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton.store.frames import frame_of

__all__ = ["boundaries_of", "check_keys", "parts_for"]

#: The target size of a partition in bytes, the most partitions, and the rows that are sampled for their boundaries.
_PART_BYTES, _MOST_PARTS, _SAMPLE = 64 << 20, 4096, 1 << 20
_KINDS = ("hash", "range")


def check_keys(keys: Sequence[str], kind: str, partitions: int | None, table: Any) -> None:
    """Check how the rows of a table are to be partitioned.

    Raises
    ------
    KeyError
        If a column is missing.
    ValueError
        If a column occurs twice or has a type that cannot be a key, or the kind or the number of partitions is not valid.
    """
    if kind not in _KINDS:
        raise ValueError(f"kind is one of {_KINDS}, not {kind!r}")
    given: object = partitions
    if given is not None and not (isinstance(given, int) and 1 <= given <= _MOST_PARTS):
        raise ValueError(f"partitions is a number from 1 to {_MOST_PARTS}, not {partitions!r}")
    if len(set(keys)) != len(keys):
        raise ValueError(f"the columns of partition_by must be different, not {list(keys)}")
    arrow = isinstance(table, pa.Table)
    for key in keys:
        if key not in (table.column_names if arrow else table.columns):
            raise KeyError(key)
        if not (_is_key(table.schema.field(key).type) if arrow else _is_key_of_pandas(table.dtypes[key])):
            raise ValueError(f"column {key!r} cannot be a key: it has neither numbers, dates nor texts")


def _is_key(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(dtype) or pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _is_key_of_pandas(dtype: Any) -> bool:
    return isinstance(dtype, pd.StringDtype) or (dtype.kind in "iufbMm" and not isinstance(dtype, pd.CategoricalDtype))


def parts_for(nbytes: int) -> int:
    """The number of partitions of a table of this size: at least one for each core."""
    return min(max(-(-nbytes // _PART_BYTES), os.cpu_count() or 1), _MOST_PARTS)


def boundaries_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema, keys: Sequence[str], count: int) -> pa.Table:
    """Sorted keys that divide rows into about `count` ranges of about equal size; fewer if there are fewer keys."""
    frames = [frame_of(pa.Table.from_batches([batch.select(list(keys))])) for batch in batches]
    rows = sum(map(len, frames))
    step = max(rows // _SAMPLE, 1)
    some = pl.concat([frame.gather_every(step) for frame in frames]) if frames else pl.DataFrame()
    some = some.drop_nulls().sort(list(keys)) if rows else some
    ideal = sorted({len(some) * number // count for number in range(1, count)})
    chosen = some[ideal].unique(maintain_order=True) if len(some) else some
    fields = [schema.field(name) for name in keys]
    found = [chosen[name].to_list() if len(chosen) else [] for name in keys]
    arrays = [
        pa.array(values, pa.large_string() if pa.types.is_string(field.type) else field.type)
        for values, field in zip(found, fields, strict=True)
    ]
    return pa.Table.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)], list(keys)
    )
