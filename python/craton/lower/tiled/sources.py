"""Cuts scans of files into tiles, at row groups where possible."""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from craton.lower.skipping import needed_pages, page_runs
from craton.lower.tiled.tiles import KeyRanges
from craton.plan.expr import Call, Expr, Literal, roots
from craton.plan.operators import Filter, Operator, Project, Scan, Slice
from craton.plan.size import value_bytes
from craton.plan.sources import FileLayout, FileSource, Source
from craton.plan.visit import topological
from craton.records import dataclass

#: A partition is read as one tile if it has at most this many times the target size of a tile.
_LARGEST_PARTITION = 4


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
    read = _read_columns(scan)
    texts = dict(source.text_bytes) if isinstance(source, FileSource) else {}
    row_bytes = sum(texts.get(name) or value_bytes(dtype) for name, dtype in source.columns if name in read) or 1
    wanted = min(max(tiles, -(-total * row_bytes // tile_bytes)), total)
    slices = list(_row_slices(groups, total, wanted))
    needed = needed_pages(source, scan.predicate) if isinstance(source, FileSource) else None
    if needed is not None:
        slices = list(_with_pages(slices, groups, needed)) or [replace(slices[0], rows=(0, 0))]
    return [_slice_plan(scan, part, groups) for part in slices]


def cut_by_partitions(scan: Scan, tile_bytes: int) -> list[Operator] | None:
    """Cut a scan into plans that each read one partition of files that are partitioned by the hash of columns.

    None if the files are not partitioned, or if a partition is larger than a tile may be.
    """
    source = scan.source
    layout = source.layout if isinstance(source, FileSource) else None
    if layout is None or not layout.keys or scan.row_number is not None or not isinstance(source, FileSource):
        return None
    if source.filesystem is not None or source.storage_options:
        return None
    needed = needed_pages(source, scan.predicate)
    flags = iter([True] * sum(map(len, layout.pages)) if needed is None else needed)
    read = [any(list(itertools.islice(flags, len(file)))) for file in layout.pages]
    row_bytes = sum(value_bytes(dtype) for name, dtype in source.columns if name in _read_columns(scan)) or 1
    plans: list[Operator] = []
    for part in range(layout.parts):
        files = [i for i, of in enumerate(layout.part_of) if of == part and read[i]]
        rows = sum(sum(layout.pages[i]) for i in files)
        if rows * row_bytes > _LARGEST_PARTITION * tile_bytes:
            return None
        some = files or [0]
        chosen = replace(_alone(source, some), rows=sum(sum(layout.pages[i]) for i in some))
        plan: Operator = replace(scan, source=chosen)
        plans.append(plan if files else Slice(plan, 0, 0))
    return plans


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


def _read_columns(scan: Scan) -> set[str]:
    return set(scan.columns) | (roots(scan.predicate) if scan.predicate is not None else set())


def _with_pages(
    slices: Sequence[RowSlice], pages: Sequence[tuple[int, ...]], needed: Sequence[bool]
) -> Iterator[RowSlice]:
    """The slices of rows that have a row of a needed page."""
    starts = list(itertools.accumulate(map(sum, pages), initial=0))
    runs = [(starts[file] + first, starts[file] + first + rows) for file, first, rows in page_runs(pages, needed)]
    for part in slices:
        stop = starts[part.files[1]] if part.rows is None else part.first + part.rows[1]
        if any(begin < stop and end > part.first for begin, end in runs):
            yield part


def _whole(scan: Scan) -> Operator:
    source = scan.source
    assert isinstance(source, FileSource)
    return replace(scan, source=_alone(source, range(len(source.paths))))


def _alone(source: FileSource, numbers: Sequence[int]) -> FileSource:
    """Some files of a source, for other processes: without open descriptors and callbacks of this one."""
    paths, versions = (tuple(values[i] for i in numbers) for values in (source.paths, source.versions))
    held = None if source.held is None else source.held.elsewhere(numbers)
    return replace(source, paths=paths, versions=versions, held=held, reopen=None, layout=None)


def file_folders(plan: Operator) -> tuple[str, ...]:
    """The folder of each file of this file system that a plan reads; of a link, that of the file which it names."""
    return tuple(
        os.path.dirname(_named_by(path))
        for op in topological(plan)
        if isinstance(op, Scan) and isinstance(op.source, FileSource)
        if op.source.filesystem is None and not op.source.storage_options
        for path in op.source.paths
        if "://" not in path
    )


def _named_by(path: str) -> str:
    """The file that a link names, as files of durable sets in places have them; other paths as they are."""
    with contextlib.suppress(OSError):
        return os.path.abspath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return os.path.abspath(path)


def row_groups(source: Source) -> list[tuple[int, ...]] | None:
    """The rows of each row group of each file; None if the files cannot be read in slices."""
    if not isinstance(source, FileSource):
        return None
    if source.layout is not None:
        return list(source.layout.pages)
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
    if not isinstance(source, FileSource) or row_groups(source) is None:
        return None
    if not (dict(source.columns)[name].is_integer() or dict(source.columns)[name] == pl.Date):
        return None
    if source.layout is not None:
        return _extremes_in(source.layout, name, dict(source.columns)[name])
    if source.format != "parquet":
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


def _extremes_in(layout: FileLayout, name: str, dtype: pl.DataType) -> list[tuple[Any, Any]] | None:
    """The bounds of a column in each page, of which none has a missing value."""
    bounds = layout.bounds.get(name)
    if bounds is None or None in bounds or any(layout.nulls.get(name, (1,))):
        return None
    if dtype != pl.Date:
        return [pair for pair in bounds if pair is not None]
    epoch = datetime.date(1970, 1, 1).toordinal()
    return [
        (datetime.date.fromordinal(epoch + low), datetime.date.fromordinal(epoch + high))
        for low, high in (pair for pair in bounds if pair is not None)
    ]


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
    assert isinstance(scan.source, FileSource)
    first, last = part.files
    source = replace(_alone(scan.source, range(first, last)), rows=sum(map(sum, groups[first:last])))
    read = _read_columns(scan)
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
