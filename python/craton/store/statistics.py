"""Statistics of the pages of data files, for the manifests of durable sets.

A page is a record batch of an Arrow file, or a row group of a Parquet file. Manifests have, for each page and column, the missing values,
the bounds, and the values themselves if there are few different ones; and for each file and column a sketch of the number of its distinct
values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from craton import _native
from craton.plan.sketches import as_text, estimated_distinct, merged
from craton.records import dataclass

__all__ = [
    "MOST_VALUES",
    "PageStatistics",
    "Statistics",
    "about_pages",
    "bounds_of",
    "describe_page",
    "describe_pages",
    "distinct_values",
    "has_bounds",
    "sketches_of",
    "values_of",
]

#: What is known of a file: its pages and the sketches of its columns, its pages, or nothing.
Statistics = Literal["all", "pages", "none"]

#: Longer texts are neither bounds nor among the values of a page.
_LONGEST_TEXT = 64
#: The most different values of a page that manifests have.
MOST_VALUES = 8
#: Values of a page that show, in general, whether it has more different ones.
_SAMPLED = 64


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of a column of a page.

    Parameters
    ----------
    nulls
        The number of missing values.
    bounded
        Whether the manifest has bounds of the column.
    bounds
        The least and the greatest value; None if they are not known.
    values
        All different values, ascending; None if there are many, or they are not known.
    sketch
        The sketch of the values; None if there is none of this column.
    """

    nulls: int
    bounded: bool
    bounds: list[Any] | None
    values: list[Any] | None
    sketch: bytes | None


@dataclass(frozen=True, slots=True)
class PageStatistics:
    """The rows of a page, and what is known of its columns, by name."""

    rows: int
    columns: Mapping[str, ColumnStatistics]


def describe_pages(path: str, form: str, uncounted: Iterable[str], statistics: Statistics) -> dict[str, Any]:
    """What manifests have of the pages of a file, of which several are described at once.

    Parameters
    ----------
    uncounted
        Columns without sketches.
    """
    names = frozenset(uncounted)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return about_pages(list(pool.map(lambda page: describe_page(page, names, statistics), _pages(path, form))))


def about_pages(pages: Sequence[PageStatistics]) -> dict[str, Any]:
    """What manifests have of the pages of a file."""
    columns = {name: [page.columns[name] for page in pages] for name in (pages[0].columns if pages else ())}
    sketches = {name: [one.sketch for one in found if one.sketch is not None] for name, found in columns.items()}
    return {
        "pages": [page.rows for page in pages],
        "bounds": {name: [one.bounds for one in found] for name, found in columns.items() if found[0].bounded},
        "nulls": {name: [one.nulls for one in found] for name, found in columns.items()},
        "values": {
            name: [one.values for one in found]
            for name, found in columns.items()
            if any(one.values is not None for one in found)
        },
        "sketches": {name: as_text(merged(found)) for name, found in sketches.items() if len(found) == len(pages)},
    }


def describe_page(page: pa.RecordBatch | pa.Table, uncounted: frozenset[str], statistics: Statistics) -> PageStatistics:
    """The statistics of a page; those in ``uncounted`` are columns without sketches."""
    columns = {}
    for name, part in zip(page.schema.names, page.columns, strict=True):
        column = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
        counted = statistics == "all" and name not in uncounted and _is_counted(column.type)
        columns[name] = _describe(column, counted)
    return PageStatistics(page.num_rows, columns)


def _is_counted(dtype: pa.DataType) -> bool:
    """Whether a column has a sketch. Floats, which are seldom grouped by, have none: hashing them takes longer than writing them."""
    return not (pa.types.is_nested(dtype) or pa.types.is_floating(dtype))


def _describe(column: pa.Array, counted: bool) -> ColumnStatistics:
    bounded = has_bounds(column.type)
    if column.type in (pa.string(), pa.large_string()):
        different, bounds = _of_texts(column)
    else:
        different = _different(column)
        bounds = _bounds(column if different is None else different) if bounded else None
    values = None if different is None else _as_json(different)
    sketch = _sketch(column if different is None else different) if counted else None
    return ColumnStatistics(column.null_count, bounded, bounds, values, sketch)


def _sketch(column: pa.Array) -> bytes | None:
    """The sketch of a column; None if its type cannot be hashed."""
    try:
        return _native.distinct_sketches(pa.record_batch([column], names=["column"]))[0]
    except TypeError:
        return None


def _pages(path: str, form: str) -> Iterator[pa.RecordBatch | pa.Table]:
    if form == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as opened:
            for group in range(opened.num_row_groups):
                yield opened.read_row_group(group)
        return
    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


# ---- bounds ----


def has_bounds(dtype: pa.DataType) -> bool:
    """Whether the manifest has the bounds of a column."""
    return bool(
        pa.types.is_integer(dtype)
        or dtype in (pa.float64(), pa.float32(), pa.string(), pa.large_string(), pa.date32())
        or pa.types.is_timestamp(dtype)
        or pa.types.is_duration(dtype)
    )


def _as_numbers(column: pa.Array) -> pa.Array:
    """Dates, times and durations as the numbers that they are stored as; other columns as they are."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())


def _bounds(column: pa.Array) -> list[Any] | None:
    """The least and the greatest value of a page; None if there is none, or if one is not finite."""
    column = _as_numbers(column)
    if not len(column):
        return None
    if not column.null_count and pa.types.is_primitive(column.type):
        plain = column.to_numpy()
        values = [plain.min().item(), plain.max().item()]  # NaN if there is one
    else:
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            return None
        found = pc.min_max(column)
        values = [found["min"].as_py(), found["max"].as_py()]
    if values[0] is None:
        return None
    if isinstance(values[0], float) and not all(map(math.isfinite, values)):
        return None  # JSON has no infinity
    return values


# ---- the different values of a page ----


def _of_texts(column: pa.Array) -> tuple[pa.Array | None, list[Any] | None]:
    """The different texts of a page, None if there are many; and the least and the greatest, None if there is none, or one is long."""
    (found,) = _native.text_statistics(pa.record_batch([column], names=["column"]), MOST_VALUES)
    if found is None:
        return column.slice(0, 0), None
    least, greatest, texts = found
    different = None if texts is None else pa.array(texts, column.type)
    return different, [least, greatest] if max(len(least), len(greatest)) <= _LONGEST_TEXT else None


def _different(column: pa.Array) -> pa.Array | None:
    """The different values of a page that are not missing; None if there are more than :data:`MOST_VALUES`, or the type has no sets."""
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        if not has_values(dtype.value_type) or column.dictionary.null_count:
            return None
        codes = _few(column.indices, column.null_count)
        return None if codes is None else column.dictionary.take(codes).unique()
    return _few(column, column.null_count) if has_values(dtype) else None


def has_values(dtype: pa.DataType) -> bool:
    """Whether the manifest has the different values of pages of a column."""
    return bool(has_bounds(dtype) or pa.types.is_boolean(dtype))


def _few(column: pa.Array, nulls: int) -> pa.Array | None:
    """The different values of a column, without null; None if there are many."""
    if len(column) > _SAMPLED:
        sample = pa.array(np.linspace(0, len(column) - 1, _SAMPLED).astype(np.int64))
        if len(column.take(sample).unique()) > MOST_VALUES + 1:
            return None
    found = column.unique()
    if nulls:
        found = found.drop_null()
    return found if len(found) <= MOST_VALUES else None


def _as_json(values: pa.Array) -> list[Any] | None:
    """Values as manifests have them, ascending; None if JSON has one of them not, or if a text is long."""
    found = _as_numbers(values).to_pylist()
    if any(isinstance(one, float) and not math.isfinite(one) for one in found):
        return None
    if any(isinstance(one, str) and len(one) > _LONGEST_TEXT for one in found):
        return None
    return sorted(found)


# ---- what manifests have ----

#: Floats in manifests without values of pages may have changed in their last bits, so their bounds are taken this much wider.
_WIDER = 2.0**-40


def bounds_of(abouts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[tuple[Any, Any] | None, ...]]:
    """By column, for each page of files: its least and its greatest value; None if they are not known."""
    found: dict[str, tuple[tuple[Any, Any] | None, ...]] = {}
    for name in abouts[0]["bounds"] if abouts else ():
        pairs: list[tuple[Any, Any] | None] = []
        for about in abouts:
            wide = "values" not in about
            pairs += [
                None if pair is None else _wider(*pair) if wide else tuple(pair) for pair in about["bounds"][name]
            ]
        found[name] = tuple(pairs)
    return found


def _wider(low: Any, high: Any) -> tuple[Any, Any]:
    if not isinstance(low, float):
        return low, high
    tiny = math.ulp(0.0) * 4
    return low - abs(low) * _WIDER - tiny, high + abs(high) * _WIDER + tiny


def values_of(abouts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[tuple[Any, ...] | None, ...]]:
    """By column, for each page of files: its different values that are not missing; None if they are not known."""
    names = dict.fromkeys(name for about in abouts for name in about.get("values", ()))
    found: dict[str, tuple[tuple[Any, ...] | None, ...]] = {}
    for name in names:
        pages: list[tuple[Any, ...] | None] = []
        for about in abouts:
            known = about.get("values", {}).get(name) or [None] * len(about["pages"])
            pages += [None if one is None else tuple(one) for one in known]
        found[name] = tuple(pages)
    return found


def sketches_of(abouts: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """By column, the sketches of files; without columns of which a file with rows has none, such as those of earlier versions of Craton."""
    counted = [about for about in abouts if sum(about["pages"])]
    names = dict.fromkeys(name for about in counted for name in about["nulls"])
    return {
        name: tuple(about["sketches"][name] for about in counted if name in about["nulls"])
        for name in names
        if all(name in about.get("sketches", ()) for about in counted if name in about["nulls"])
    }


def distinct_values(abouts: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """The estimated number of distinct values of a column of files; None if it is not known."""
    texts = sketches_of(abouts).get(name)
    return None if texts is None else estimated_distinct(texts)
