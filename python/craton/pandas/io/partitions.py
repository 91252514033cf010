"""Hive partitions of Parquet files: columns whose values are the names of folders, ``year=2024/month=5``.

pyarrow infers 32-bit integers if all values of a column are such integers, and text otherwise. The kernel would also infer dates
and floats, so it is given the schema. Folder names that the two may still parse differently are refused.
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

#: The folder value that stands for a missing value.
_MISSING = "__HIVE_DEFAULT_PARTITION__"
#: Integers that pyarrow and the kernel parse alike; pyarrow also accepts hexadecimal ones.
_INTEGER = re.compile(r"-?[0-9]+")


def hive_schema(paths: Sequence[str], schema: pa.Schema, partitions: Sequence[str]) -> HiveSchema:
    """The columns that the kernel parses from the paths of files: the partitions, and columns of folders above the dataset.

    Parameters
    ----------
    paths
        The paths of the files, as the kernel receives them.
    schema
        The schema of the dataset, including the partitions.

    Raises
    ------
    Unsupported
        If pyarrow and the kernel may parse a folder name differently.
    """
    integers = {name for name in partitions if pa.types.is_integer(_value_type(schema.field(name).type))}
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


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def partition_value(base: Scan, name: str, dtype: DtypeObj, dataset: Any) -> Value:
    """A partition column: a categorical whose categories are the folders' values in pyarrow's order.

    Parameters
    ----------
    dtype
        The dtype of the column in the template. An empty file has no dictionary of integers, so it may be theirs.
    """
    is_dictionary = pa.types.is_dictionary(dataset.schema.field(name).type)
    if not is_dictionary or isinstance(dtype, pd.ArrowDtype):
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


def check_folders_match(dataset: Any, filters: Any) -> None:
    """Refuse filters that exclude all folders: pandas then loses the categories of the partitions.

    Raises
    ------
    Unsupported
        If the filters match no folder.
    """
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    files = ds.FileSystemDataset(dataset.fragments, dataset.schema, ds.ParquetFileFormat())
    if next(iter(files.get_fragments(filter=pq.filters_to_expression(filters))), None) is None:
        raise Unsupported(Refusal.FILTER_FOLDERS)
