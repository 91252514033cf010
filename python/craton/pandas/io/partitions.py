"""Hive partitions of Parquet files: columns whose values are the names of folders, ``year=2024/month=5``.

pyarrow decides what they are: 32-bit integers if all of a column's are, and text otherwise. The kernel has rules of its
own (dates, floats), so it is told; folders in which the two might still find different values are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton.errors import Unsupported
from craton.pandas.core.dtypes import DtypeObj
from craton.pandas.core.view import Value
from craton.plan.expr import Call, Values
from craton.plan.operators import Scan
from craton.refusals import Refusal

HiveSchema = tuple[tuple[str, pl.DataType], ...]

#: The name that stands for a missing value.
_MISSING = "__HIVE_DEFAULT_PARTITION__"
#: Integers that pyarrow and the kernel read alike: pyarrow takes hexadecimal ones, too.
_INTEGER = re.compile(r"-?[0-9]+")


def hive_schema(paths: Sequence[str], schema: pa.Schema, partitions: Sequence[str]) -> HiveSchema:
    """The columns that the kernel finds in the folders of files: the partitions, and those above what pandas reads.

    Parameters
    ----------
    paths
        Of the files, as the kernel gets them.
    schema
        Of the dataset, with the partitions among its columns.

    Raises
    ------
    Unsupported
        If pyarrow's and the kernel's ideas of a folder's name may differ.
    """
    integers = {name for name in partitions if pa.types.is_integer(_stored(schema.field(name).type))}
    names: list[str] | None = None
    for path in paths:
        entries = [part.split("=") for part in os.path.dirname(path).split("/") if "=" in part]
        if any(len(entry) != 2 for entry in entries):
            raise Unsupported(Refusal.PARTITION_FOLDERS, path)
        found = dict(entries)
        if (
            len(found) != len(entries)
            or not found.keys() >= set(partitions)
            or (names is not None and found.keys() != set(names))
            or any(found[name] == _MISSING for name in partitions)
            or not all(_INTEGER.fullmatch(found[name]) for name in integers)
        ):
            raise Unsupported(Refusal.PARTITION_FOLDERS, path)
        names = list(found) if names is None else names
    above = [name for name in names or () if name not in partitions]
    if not set(above).isdisjoint(schema.names):
        raise Unsupported(Refusal.PARTITION_FOLDERS, paths[0])
    return tuple((name, pl.Int32() if name in integers else pl.String()) for name in names or ())


def _stored(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def partition_value(base: Scan, name: str, dtype: DtypeObj, dataset: Any) -> Value:
    """A partition: a categorical whose categories are the folders' values, as pyarrow lists them."""
    if not isinstance(dtype, pd.CategoricalDtype):
        raise Unsupported(Refusal.PARTITION_DTYPE, f"{name!r} as {dtype}")
    partitioning = dataset.partitioning
    found = partitioning.dictionaries[partitioning.schema.get_field_index(name)]
    if found is None or len(found.unique()) != len(found):
        raise Unsupported(Refusal.PARTITION_VALUES, repr(name))
    column = base.column(name)
    keys = pl.Series(found.to_pylist(), dtype=column.dtype)
    categories = pd.CategoricalDtype(found.to_pandas(), ordered=False)
    codes = Values.of(pl.Series(range(len(keys)), dtype=pl.Int32))
    return Value(Call("map_values", (column, Values.of(keys), codes), pl.Int32()), categories, nulls=False)


def some_folder_matches(dataset: Any, filters: Any) -> None:
    """Refuse filters that leave no file at all: then pandas' categories are lost.

    Raises
    ------
    Unsupported
        If every file lies in a folder whose name the filters exclude.
    """
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    files = ds.FileSystemDataset(dataset.fragments, dataset.schema, ds.ParquetFileFormat())
    if next(iter(files.get_fragments(filter=pq.filters_to_expression(filters))), None) is None:
        raise Unsupported(Refusal.FILTER_FOLDERS)
