"""Scans of files through the decode cache: decoded columns are kept in the store and read from there."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence

import polars as pl

from craton._native import content_hash
from craton.config import options
from craton.kernel.run import collect
from craton.lower.expressions import lower_expr
from craton.lower.scans import scan_files
from craton.plan.expr import Expr, conjuncts, roots
from craton.plan.names import HIDDEN
from craton.plan.operators import Operator, Scan, Slice
from craton.plan.size import UNKNOWN_ROWS, value_bytes
from craton.plan.sources import FileSource
from craton.plan.visit import topological
from craton.store.decoded import DecodeCache, DecodedFile, DecodedPages, DictionaryColumn
from craton.store.process import current_store, default_store

#: Errors on which a scan bypasses the cache and reads the file: no memory, pages or sets that were dropped meanwhile, a closed
#: store, a server that ended, a damaged image. If the file itself is at fault, the scan of the file raises the error.
_WITHOUT = (MemoryError, KeyError, OSError, ValueError)
#: The share of the store's memory limit that the columns of one plan may fill.
MOST_OF_LIMIT = 0.6


def active() -> bool:
    """Whether scans use the decode cache."""
    return options.decode_cache == "on" or (options.decode_cache == "auto" and _connected())


def _connected() -> bool:
    store = current_store()
    return "CRATON_STORE" in os.environ or (store is not None and store.connected)


def prepare(plans: Sequence[Operator]) -> None:
    """Decode the columns that plans scan into the store, as far as they fit. Scans of a few rows only are left out.

    Parameters
    ----------
    plans
        Optimized plans that are about to run.
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
    with contextlib.suppress(*_WITHOUT, pl.exceptions.PolarsError):
        _fill(scans)


def _fill(scans: Mapping[FileSource, Collection[str]]) -> None:
    store = default_store()
    cache = DecodeCache(store)
    room = store.limit * MOST_OF_LIMIT
    for source, names in scans.items():
        file = _file(source)
        columns = _typed(source, names)
        pages = cache.find(file)
        missing = set(names if pages is None else pages.missing(columns))
        room -= sum(_bytes(source, name) for name, _ in columns)
        if missing and room >= 0:
            chosen = [(name, dtype) for name, dtype in columns if name in missing]
            cache.fill(file, chosen, decoder(source, [name for name, _ in chosen]))


def cached_scan(
    source: FileSource,
    row_number: str | None,
    wanted: Collection[str],
    predicate: Expr | None,
    rows: tuple[int, int] | None = None,
) -> pl.LazyFrame | None:
    """A filtered scan of the store's pages; ``None`` if they lack a column of the file's current version.

    Conjuncts of the predicate over one dictionary-encoded string column are evaluated once for each distinct value, and the
    rows are then filtered by their codes.

    Parameters
    ----------
    source
        The file.
    row_number
        The name of an extra first column that numbers the file's rows, or ``None``.
    wanted
        The columns to read.
    predicate
        Only rows for which it is true; ``None`` for all.
    rows
        Only this range of rows, as (first, number); ``None`` for all.
    """
    if not active() or not _cachable(source):
        return None
    try:
        return _cached_scan(source, row_number, wanted, predicate, rows)
    except _WITHOUT:
        return None


def _cached_scan(
    source: FileSource,
    row_number: str | None,
    wanted: Collection[str],
    predicate: Expr | None,
    rows: tuple[int, int] | None,
) -> pl.LazyFrame | None:
    pages = DecodeCache(default_store()).find(_file(source))
    columns = _typed(source, wanted) or _typed(source, [source.columns[0][0]])
    if pages is None or pages.missing(columns, rows):
        return None
    beside: dict[str, DictionaryColumn] = {}
    filters: list[pl.Expr] = []
    for part in () if predicate is None else conjuncts(predicate):
        found = _by_codes(pages, source, part)
        if found is None:
            filters.append(lower_expr(part))
        else:
            name, codes, kept = found
            beside[name] = codes
            filters.insert(0, kept)
    frame = pages.read(columns, beside, rows)
    if frame is None:
        return None
    lazy = frame.lazy()
    if row_number is not None:
        lazy = lazy.with_row_index(row_number, 0 if rows is None else rows[0])
    return lazy.filter(filters) if filters else lazy


def _by_codes(pages: DecodedPages, source: FileSource, part: Expr) -> tuple[str, DictionaryColumn, pl.Expr] | None:
    """A condition on one string column as a condition on its dictionary codes.

    Returns the codes' column name, the codes and the condition; ``None`` if the column has no codes.
    """
    names = roots(part)
    if len(names) != 1:
        return None
    (name,) = names
    if dict(source.columns)[name] != pl.String():
        return None
    try:
        codes = pages.dictionary_column(name)
    except (KeyError, MemoryError):  # evicted meanwhile, or no memory for them
        return None
    if codes is None:
        return None
    values = pl.DataFrame({name: [*codes.values, None]}, schema={name: pl.String})
    kept = values.select(lower_expr(part).alias("kept")).get_column("kept").fill_null(False).to_list()
    coded = pl.col(hidden := f"{HIDDEN}codes {name}")
    condition = coded.is_in(pl.Series([code for code, keep in enumerate(kept[:-1]) if keep], dtype=pl.UInt8))
    return hidden, codes, condition | coded.is_null() if kept[-1] else condition


def _cachable(source: FileSource) -> bool:
    if source.layout is not None and (source.format == "ipc" or "://" in source.paths[0]):
        return False  # Arrow files of sets are not compressed, and mapped as they are; those of object stores have local copies
    return (
        source.format in ("parquet", "ipc", "csv")
        and len(source.paths) == 1
        and source.filesystem is None
        and not source.storage_options
        and bool(source.versions)
        and dict(source.options).get("hive_partitioning") is not True
        and source.rows != 0
    )


def _read_columns(op: Scan) -> list[str]:
    read = set(op.columns) | (set() if op.predicate is None else roots(op.predicate))
    return [name for name, _ in op.source.columns if name in read]


def _typed(source: FileSource, names: Collection[str]) -> list[tuple[str, str]]:
    return [(name, str(dtype)) for name, dtype in source.columns if name in names]


def _bytes(source: FileSource, name: str) -> float:
    width = max(value_bytes(dict(source.columns)[name]), dict(source.text_bytes).get(name, 0))
    return width * (source.rows or UNKNOWN_ROWS)


def _file(source: FileSource) -> DecodedFile:
    (path,) = source.paths
    name = os.path.realpath(path)
    if source.options:
        name += f" read as {content_hash(repr(source.options).encode()).hex()}"
    # Any range of a text file is read from its start, so it is always decoded completely.
    rows = None if source.format == "csv" else source.rows
    group_rows = _group_rows(path, source.versions) if source.format == "parquet" else 1
    return DecodedFile(name, repr(source.versions), rows, group_rows)


@functools.lru_cache(1024)
def _group_rows(path: str, _versions: tuple[object, ...]) -> int:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    return max((metadata.row_group(i).num_rows for i in range(min(metadata.num_row_groups, 1))), default=1)


def decoder(source: FileSource, names: list[str]) -> Callable[[int, int | None], pl.DataFrame]:
    """A function that decodes a range of a file's rows."""

    def decode(start: int, rows: int | None) -> pl.DataFrame:
        frame = collect(scan_files(source, None, names, divided=True).select(names).slice(start, rows))
        if source.held is not None:
            source.held.check()  # the file must not have been overwritten meanwhile
        return frame

    return decode
