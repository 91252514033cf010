"""Lowers file sources to Polars scans."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

import polars as pl

from craton.lower.expressions import lower_expr
from craton.lower.json_lines import scan_json_lines
from craton.lower.remote import scan_remote
from craton.plan.expr import Expr, Options, is_costly, roots
from craton.plan.operators import Operator, Scan, Slice
from craton.plan.origin import same_rows
from craton.plan.sources import FileSource
from craton.plan.visit import topological

#: The time to decode a value, in that of an encoded byte; the kernel looks up each value of a category as a text.
_VALUE, _TEXT, _CATEGORY = 2, 4, 16


def scan_files(
    source: FileSource,
    row_number: str | None,
    wanted: Collection[str],
    predicate: Expr | None = None,
    *,
    divided: bool = False,
) -> pl.LazyFrame:
    """A lazy scan of a file source with the columns that the source declares, or with those that are needed.

    Parameters
    ----------
    source
        The files.
    row_number
        The name of an extra first column that numbers the rows, or ``None``.
    wanted
        The columns that are needed; the scan may have more.
    predicate
        Selects the rows; the numbers are those of all rows.
    divided
        Whether columns may be decoded beside one another. The kernel reads all rows of such a scan if the last rows are sought.

    Raises
    ------
    SourceChanged
        If a file has changed since the plan was built.
    """
    parts = _parts(source, wanted, predicate) if divided else []
    if len(parts) > 1:
        return _side_by_side(source, row_number, parts, predicate)
    frame = _scan_whole(source, row_number, wanted)
    return frame if predicate is None else frame.filter(lower_expr(predicate))


def _scan_whole(source: FileSource, row_number: str | None, wanted: Collection[str]) -> pl.LazyFrame:
    if source.filesystem is not None:
        frame = scan_remote(source)
        return frame if row_number is None else frame.with_row_index(row_number)
    options: dict[str, Any] = dict(source.options)
    paths: Any = list(source.paths)
    if source.held is not None:  # a hive-partitioned scan needs the folder names, which contain values
        paths = source.held.current() if options.get("hive_partitioning") else source.held.readable()
    common: dict[str, Any] = {"row_index_name": row_number, "storage_options": source.storage_options}
    match source.format:
        case "parquet":
            if "hive_schema" in options and paths != list(source.paths):
                frame = _moved(source, paths)
                return frame if row_number is None else frame.with_row_index(row_number)
            return pl.scan_parquet(paths, glob=False, **common, **parquet_options(source.options))
        case "ipc":
            return pl.scan_ipc(paths, glob=False, **common, **options)
        case "csv":
            null_values = options.pop("null_values", None)
            return pl.scan_csv(
                paths,
                has_header=False,
                schema=dict(source.columns),
                null_values=None if null_values is None else list(null_values),
                glob=False,
                **common,
                **options,
            )
        case "ndjson":
            (path,) = paths
            frame = scan_json_lines(path, dict(source.columns), options["parsed"], wanted)
            return frame if row_number is None else frame.with_row_index(row_number)
        case _:
            raise NotImplementedError(
                f"files of format {source.format!r} cannot be scanned; use parquet, ipc, csv or ndjson"
            )


def sliced_scans(root: Operator) -> set[Operator]:
    """The scans of which something in a plan reads some rows by position."""
    found: set[Operator] = set()
    for op in topological(root):
        below: Operator | None = op.input if isinstance(op, Slice) else None
        while below is not None:
            if isinstance(below, Scan):
                found.add(below)
            below = same_rows(below)
    return found


def _parts(source: FileSource, wanted: Collection[str], predicate: Expr | None) -> list[list[str]]:
    """The needed columns in groups that take similar times to decode; the columns of the predicate are in the first one.

    The kernel decodes the row groups of files at the same time, but the columns of a row group one after another. So columns are
    divided if there are fewer row groups than threads. Every group decodes the columns of the predicate, too.
    """
    local = source.format == "parquet" and not source.options and source.storage_options is None
    if not local or source.filesystem is not None or not source.rows or not source.row_groups:
        return []
    stored, rows = dict(source.stored_bytes), source.rows
    costs = {name: stored.get(name, 0) + rows * _cost(dtype) for name, dtype in source.columns if name in wanted}
    tested = set() if predicate is None else roots(predicate)
    count = min(len(costs.keys() - tested), pl.thread_pool_size() // source.row_groups)
    if count < 2 or (predicate is not None and is_costly(predicate)):
        return []
    repeated = sum(costs[name] for name in tested)
    if 2 * count * repeated > sum(costs.values()):
        return []
    parts = [[name for name in costs if name in tested], *([] for _ in range(count - 1))]
    taken = [0] * count
    for name in sorted(costs.keys() - tested, key=lambda name: (-costs[name], name)):
        place = taken.index(min(taken))
        parts[place].append(name)
        taken[place] += costs[name]
    return parts


def _side_by_side(
    source: FileSource, row_number: str | None, parts: Sequence[Sequence[str]], predicate: Expr | None
) -> pl.LazyFrame:
    paths: Any = list(source.paths) if source.held is None else source.held.readable()
    frames: list[pl.LazyFrame] = []
    for part in parts:
        numbered = row_number if not frames else None
        frame = pl.scan_parquet(paths, glob=False, row_index_name=numbered)
        if predicate is not None:
            frame = frame.filter(lower_expr(predicate))
        frames.append(frame.select(part if numbered is None else [numbered, *part]))
    return pl.concat(frames, how="horizontal")


def _cost(dtype: pl.DataType) -> int:
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return _CATEGORY
    return _TEXT if dtype in (pl.String(), pl.Binary()) or dtype.is_nested() else _VALUE


def scan_pages(source: FileSource, row_number: str | None, runs: Sequence[tuple[int, int, int]]) -> pl.LazyFrame:
    """A lazy scan of some rows of local Parquet or Arrow files, in their order.

    Parameters
    ----------
    row_number
        The name of an extra first column with the number of each row among all rows, or ``None``.
    runs
        The number of a file, the first row in it, and the number of rows.
    """
    paths = list(source.paths) if source.held is None else source.held.readable({file for file, _, _ in runs})
    scan: Callable[..., pl.LazyFrame] = pl.scan_ipc
    if source.format == "parquet":
        scan = partial(pl.scan_parquet, **parquet_options(source.options))
    assert source.layout is not None
    before = list(itertools.accumulate(map(sum, source.layout.pages), initial=0))
    frames = []
    for file, start, rows in runs:
        frame = scan(paths[file], glob=False, row_index_name=row_number, row_index_offset=before[file])
        frames.append(frame.slice(start, rows))
    if frames:
        return pl.concat(frames)
    numbers = {} if row_number is None else {row_number: pl.UInt32()}
    return pl.DataFrame(schema=numbers | dict(source.columns)).lazy()


def parquet_options(options: Options) -> dict[str, Any]:
    """The options of a source of Parquet files as parameters of ``pl.scan_parquet``."""
    named: dict[str, Any] = dict(options)
    if "hive_schema" in named:
        named["hive_schema"] = dict(named["hive_schema"])
    return named


def _moved(source: FileSource, paths: Sequence[str]) -> pl.LazyFrame:
    """A scan of hive-partitioned files that are read from other paths; the values come from their original folder names."""
    hive: dict[str, pl.DataType] = parquet_options(source.options)["hive_schema"]
    frames = []
    for name, path in zip(source.paths, paths, strict=True):
        texts = dict(part.split("=") for part in os.path.dirname(name).split("/") if "=" in part)
        values = [pl.lit(unquote(texts[key])).cast(dtype).alias(key) for key, dtype in hive.items()]
        frames.append(pl.scan_parquet(path, glob=False, hive_partitioning=False).with_columns(values))
    return pl.concat(frames)
