"""Cuts scans of files into tiles, at row groups where possible."""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from craton.lower.tiled.tiles import KeyRanges
from craton.plan.expr import Call, Expr, Literal, roots
from craton.plan.operators import Filter, Operator, Project, Scan, Slice
from craton.plan.size import value_bytes
from craton.plan.sources import FileSource, Source
from craton.records import dataclass


@dataclass(frozen=True, slots=True)
class RowSlice:
    """A slice of the rows of a source.

    Parameters
    ----------
    files
        The first of its files, and the one after the last.
    rows
        The offset in these files and the number of rows; ``None`` for all.
    first
        The number of its first row in the whole source.
    """

    files: tuple[int, int]
    rows: tuple[int, int] | None
    first: int


def cut(scan: Scan, tiles: int, tile_bytes: int) -> list[Operator] | None:
    """Cut a scan into plans that read consecutive slices of its rows.

    Parameters
    ----------
    scan
        A scan of files.
    tiles
        The least number of slices, if the files have as many rows.
    tile_bytes
        The greatest size of a slice in bytes, as far as row groups allow.

    Returns
    -------
    list of Operator or None
        None if the files cannot be read in slices.
    """
    source, groups = scan.source, row_groups(scan.source)
    if groups is None:
        return None
    total = sum(rows for file in groups for rows in file)
    if not total:
        return [_whole(scan)]
    read = set(scan.columns) | (roots(scan.predicate) if scan.predicate is not None else set())
    texts = dict(source.text_bytes) if isinstance(source, FileSource) else {}
    row_bytes = sum(texts.get(name) or value_bytes(dtype) for name, dtype in source.columns if name in read) or 1
    wanted = min(max(tiles, -(-total * row_bytes // tile_bytes)), total)
    return [_slice_plan(scan, part, groups) for part in _row_slices(groups, total, wanted)]


def cut_by_ranges(scan: Scan, name: str, ranges: KeyRanges) -> list[Operator]:
    """Cut a scan into plans that read ranges of a column for which :func:`extremes_of` returns statistics.

    The rows of each plan are in file order.
    """
    source, rows = scan.source, row_groups(scan.source)
    found = extremes_of(source, name)
    assert rows is not None
    assert found is not None
    ends = list(itertools.accumulate((number for file in rows for number in file), initial=0))
    files = list(itertools.accumulate(map(sum, rows), initial=0))
    plans: list[Operator] = []
    for first, last, least, beyond in covers(found, ranges):
        plan = _slice_plan(scan, _between(ends[first], ends[last], files), rows)
        column = plan.column(name)
        if least is not None and any(low < least for low, _ in found[first:last]):
            plan = Filter(plan, Call("ge", (column, Literal(least, column.dtype)), pl.Boolean()))
        if beyond is not None and any(high >= beyond for _, high in found[first:last]):
            plan = Filter(plan, Call("lt", (column, Literal(beyond, column.dtype)), pl.Boolean()))
        plans.append(plan)
    return plans


def covers(extremes: Sequence[tuple[Any, Any]], ranges: KeyRanges) -> Iterator[tuple[int, int, Any, Any]]:
    """For each range: the first row group with values in it, the one after the last, the range's least value, its end."""
    for least, beyond in itertools.pairwise([None, *ranges.starts, None]):
        there = [
            i
            for i, (low, high) in enumerate(extremes)
            if (least is None or high >= least) and (beyond is None or low < beyond)
        ]
        yield (there[0], there[-1] + 1, least, beyond) if there else (0, 0, least, beyond)


def _whole(scan: Scan) -> Operator:
    return replace(scan, source=_alone(scan.source))  # type: ignore[arg-type]


def _alone(source: FileSource) -> FileSource:
    """A source for other processes, without open descriptors and callbacks of this one."""
    return replace(source, held=None, reopen=None)


def row_groups(source: Source) -> list[tuple[int, ...]] | None:
    """The rows of each row group of each file; None if the files cannot be read in slices."""
    if not isinstance(source, FileSource):
        return None
    if source.filesystem is not None or source.storage_options or any("://" in path for path in source.paths):
        return None
    if source.format == "parquet":
        return [_groups_of(path, str(version)) for path, version in _versioned(source)]
    if source.format == "ipc" and source.rows is not None and len(source.paths) == 1:
        return [(source.rows,)]
    return None


def _versioned(source: FileSource) -> Iterator[tuple[str, object]]:
    versions: Sequence[object] = source.versions or (None,) * len(source.paths)
    return zip(source.paths, versions, strict=True)


@functools.lru_cache(4096)
def _groups_of(path: str, version: str) -> tuple[int, ...]:
    metadata = _metadata(path, version)
    return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))


@functools.lru_cache(64)
def _metadata(path: str, _version: str) -> Any:
    import pyarrow.parquet as pq

    return pq.read_metadata(path)


def extremes_of(source: Source, name: str) -> list[tuple[Any, Any]] | None:
    """The least and the greatest value of a column in each row group.

    None if the files lack statistics, if the column has nulls, and for columns that are neither integers nor dates.
    """
    if not isinstance(source, FileSource) or source.format != "parquet" or row_groups(source) is None:
        return None
    if not (dict(source.columns)[name].is_integer() or dict(source.columns)[name] == pl.Date):
        return None
    found: list[tuple[Any, Any]] = []
    for path, version in _versioned(source):
        of_file = _extremes(path, str(version), name)
        if of_file is None:
            return None
        found += of_file
    kind = datetime.date if dict(source.columns)[name] == pl.Date else int
    if not all(type(value) is kind for pair in found for value in pair):
        return None  # the column in the files has another dtype than in the plan
    return found


@functools.lru_cache(4096)
def _extremes(path: str, version: str, name: str) -> list[tuple[Any, Any]] | None:
    metadata = _metadata(path, version)
    numbers = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
    if len(numbers) != 1:
        return None
    found = []
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        known = group.column(numbers[0]).statistics
        if not group.num_rows:
            continue
        if known is None or not known.has_min_max or not known.has_null_count or known.null_count:
            return None
        found.append((known.min, known.max))
    return found if len(found) == metadata.num_row_groups else None


def _row_slices(groups: Sequence[tuple[int, ...]], total: int, wanted: int) -> Iterator[RowSlice]:
    """Cut all rows into `wanted` slices: at the end of a row group if one is near, else within a row group."""
    ends: list[int] = []  # rows before the end of each row group
    file_starts = [0]
    for file in groups:
        for number in file:
            ends.append((ends[-1] if ends else 0) + number)
        file_starts.append(ends[-1] if ends else 0)
    size = total / wanted
    cuts = [0]
    for i in range(1, wanted):
        ideal = i * size
        near = min(ends, key=lambda end: abs(end - ideal)) if len(ends) < 10_000 else round(ideal)
        place = near if abs(near - ideal) < size / 4 else round(ideal)
        if cuts[-1] < place < total:
            cuts.append(place)
    cuts.append(total)
    for start, stop in itertools.pairwise(cuts):
        yield _between(start, stop, file_starts)


def _between(start: int, stop: int, file_starts: Sequence[int]) -> RowSlice:
    """The slice of rows from ``start`` up to ``stop``, given the number of the first row of each file, and of all rows."""
    first = max(i for i, begin in enumerate(file_starts[:-1]) if begin <= start)
    last = max(min(i for i, begin in enumerate(file_starts) if begin >= stop), first + 1)
    begin, end = file_starts[first], file_starts[last]
    rows = None if (start, stop) == (begin, end) else (start - begin, stop - start)
    return RowSlice((first, last), rows, start)


def _slice_plan(scan: Scan, part: RowSlice, groups: Sequence[tuple[int, ...]]) -> Operator:
    source = _alone(scan.source)  # type: ignore[arg-type]
    first, last = part.files
    rows = sum(map(sum, groups[first:last]))
    source = replace(source, paths=source.paths[first:last], versions=source.versions[first:last], rows=rows)
    read = set(scan.columns) | (roots(scan.predicate) if scan.predicate is not None else set())
    columns = tuple(name for name, _ in source.columns if name in read)
    if part.rows is None and scan.row_number is None:
        return replace(scan, source=source)
    plan: Operator = Scan(source, columns, None, scan.row_number)
    before = part.first
    if part.rows is not None:
        plan = Slice(plan, *part.rows)
        before -= part.rows[0]
    if scan.row_number is not None and before:
        number: Expr = plan.column(scan.row_number)
        number = Call("add", (number, Literal(before, pl.UInt32())), pl.UInt32())
        others = tuple((name, plan.column(name)) for name in columns)
        plan = Project(plan, ((scan.row_number, number), *others))
    if scan.predicate is not None:
        plan = Filter(plan, scan.predicate)
    return plan
