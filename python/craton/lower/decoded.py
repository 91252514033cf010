"""Scans of files that read decoded columns from the store, where the decode cache has them or is to have them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Sequence

import polars as pl

from craton.config import options
from craton.plan.expr import roots
from craton.plan.operators import Operator, Scan, Slice
from craton.plan.order import topological
from craton.plan.sources import FileSource
from craton.store.decoded import DecodeCache, DecodedFile
from craton.store.process import current_store, default_store

#: Of the store's memory limit: what one plan's columns may fill.
MOST_OF_LIMIT = 0.6
#: Bytes of a value of a column of text, about: a view, and the text beside it.
_TEXT_BYTES = 32


def active() -> bool:
    """Whether scans look into the store at all."""
    return options.decode_cache == "on" or (options.decode_cache == "auto" and _connected())


def _connected() -> bool:
    store = current_store()
    return "CRATON_STORE" in os.environ or (store is not None and store.connected)


def prepare(plans: Sequence[Operator], scan: Callable[..., pl.LazyFrame]) -> None:
    """Leave the columns that plans scan in the store, as far as they fit and a whole scan is worth it.

    Parameters
    ----------
    plans
        Optimized plans that are about to run.
    scan
        How files are scanned: :func:`craton.lower.scans.scan_files`.
    """
    if not active():
        return
    scans: dict[FileSource, dict[str, None]] = {}
    for plan in plans:
        operators = topological(plan)
        cut = {op.input for op in operators if isinstance(op, Slice)}
        for op in operators:
            if isinstance(op, Scan) and isinstance(op.source, FileSource) and op not in cut and _cachable(op.source):
                scans.setdefault(op.source, {}).update(dict.fromkeys(_read_columns(op)))
    if not scans:
        return
    store = default_store()
    cache = DecodeCache(store)
    room = options.memory_limit * MOST_OF_LIMIT
    for source, names in scans.items():
        file = _file(source)
        columns = _typed(source, names)
        missing = set(cache.missing(file, columns))
        room -= sum(_bytes(source, name) for name, _ in columns)
        if missing and room >= 0:
            chosen = [(name, dtype) for name, dtype in columns if name in missing]
            try:
                cache.fill(file, chosen, decoder(source, [name for name, _ in chosen], scan))
            except MemoryError:
                return


def cached_scan(source: FileSource, row_number: str | None, wanted: Collection[str]) -> pl.LazyFrame | None:
    """A scan of pages of the store, if it has every column that is wanted of the file as it is now."""
    if not active() or not _cachable(source):
        return None
    columns = _typed(source, wanted) or _typed(source, [source.columns[0][0]])
    frame = DecodeCache(default_store()).read(_file(source), columns)
    if frame is None:
        return None
    lazy = frame.lazy()
    return lazy if row_number is None else lazy.with_row_index(row_number)


def _cachable(source: FileSource) -> bool:
    return (
        source.format == "parquet"
        and len(source.paths) == 1
        and source.filesystem is None
        and not source.storage_options
        and not source.options
        and bool(source.rows)
    )


def _read_columns(op: Scan) -> list[str]:
    read = set(op.columns) | (set() if op.predicate is None else roots(op.predicate))
    return [name for name, _ in op.source.columns if name in read]


def _typed(source: FileSource, names: Collection[str]) -> list[tuple[str, str]]:
    return [(name, str(dtype)) for name, dtype in source.columns if name in names]


def _bytes(source: FileSource, name: str) -> float:
    dtype = dict(source.columns)[name]
    width = 8 if dtype.is_numeric() or dtype.is_temporal() else _TEXT_BYTES
    return width * (source.rows or 0)


def _file(source: FileSource) -> DecodedFile:
    (path,) = source.paths
    return DecodedFile(
        os.path.realpath(path), repr(source.versions), source.rows or 0, _group_rows(path, source.versions)
    )


@functools.lru_cache(1024)
def _group_rows(path: str, _versions: tuple[object, ...]) -> int:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    return max((metadata.row_group(i).num_rows for i in range(min(metadata.num_row_groups, 1))), default=1)


def decoder(
    source: FileSource, names: list[str], scan: Callable[..., pl.LazyFrame]
) -> Callable[[int, int], pl.DataFrame]:
    """What decodes some rows of a file, given how it is scanned."""

    def decode(start: int, rows: int) -> pl.DataFrame:
        return scan(source, None, names, cached=False).select(names).slice(start, rows).collect(engine="streaming")

    return decode
