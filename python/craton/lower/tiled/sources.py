"""Scans as tiles: files cut at their row groups, data in memory by rows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from craton.plan.expr import Call, Expr, Literal, roots
from craton.plan.operators import Filter, Operator, Project, Scan, Slice
from craton.plan.size import value_bytes
from craton.plan.sources import FileSource


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a source: which files, which rows of them, and the number of the first in the whole source."""

    files: tuple[int, int]
    rows: tuple[int, int] | None
    first: int


def cut(scan: Scan, tiles: int, tile_bytes: int) -> list[Operator] | None:
    """Plans that read the rows of a scan, one after another.

    Parameters
    ----------
    scan
        Of files.
    tiles
        How many there should be at least, if the files have as many rows.
    tile_bytes
        How many bytes each should have at most, where row groups allow.

    Returns
    -------
    list of Operator or None
        None if the files cannot be read in pieces.
    """
    source = scan.source
    if not isinstance(source, FileSource):
        return None
    groups = _row_groups(source)
    if groups is None:
        return None
    total = sum(rows for file in groups for rows in file)
    if not total:
        return [_whole(scan)]
    read = set(scan.columns) | (roots(scan.predicate) if scan.predicate is not None else set())
    row_bytes = sum(value_bytes(dtype) for name, dtype in source.columns if name in read) or 1
    wanted = min(max(tiles, -(-total * row_bytes // tile_bytes)), total)
    return [_piece(scan, piece, groups) for piece in _pieces(groups, total, wanted)]


def _whole(scan: Scan) -> Operator:
    return replace(scan, source=_alone(scan.source))  # type: ignore[arg-type]


def _alone(source: FileSource) -> FileSource:
    """A source as it is read in another process: without descriptors and callbacks of this one."""
    return replace(source, held=None, reopen=None)


def _row_groups(source: FileSource) -> list[tuple[int, ...]] | None:
    """Rows of each row group of each file."""
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
def _groups_of(path: str, _version: str) -> tuple[int, ...]:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))


def _pieces(groups: Sequence[tuple[int, ...]], total: int, wanted: int) -> Iterator[Piece]:
    """Cut at `wanted` - 1 places: at the end of a row group where one is near, else within it."""
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
        first = max(i for i, begin in enumerate(file_starts[:-1]) if begin <= start)
        last = min(i for i, begin in enumerate(file_starts) if begin >= stop)
        begin, end = file_starts[first], file_starts[last]
        rows = None if (start, stop) == (begin, end) else (start - begin, stop - start)
        yield Piece((first, last), rows, start)


def _piece(scan: Scan, piece: Piece, groups: Sequence[tuple[int, ...]]) -> Operator:
    source = _alone(scan.source)  # type: ignore[arg-type]
    first, last = piece.files
    rows = sum(map(sum, groups[first:last]))
    source = replace(source, paths=source.paths[first:last], versions=source.versions[first:last], rows=rows)
    read = set(scan.columns) | (roots(scan.predicate) if scan.predicate is not None else set())
    columns = tuple(name for name, _ in source.columns if name in read)
    if piece.rows is None and scan.row_number is None:
        return replace(scan, source=source)
    plan: Operator = Scan(source, columns, None, scan.row_number)
    before = piece.first
    if piece.rows is not None:
        plan = Slice(plan, *piece.rows)
        before -= piece.rows[0]
    if scan.row_number is not None and before:
        number: Expr = plan.column(scan.row_number)
        number = Call("add", (number, Literal(before, pl.UInt32())), pl.UInt32())
        others = tuple((name, plan.column(name)) for name in columns)
        plan = Project(plan, ((scan.row_number, number), *others))
    if scan.predicate is not None:
        plan = Filter(plan, scan.predicate)
    return plan
