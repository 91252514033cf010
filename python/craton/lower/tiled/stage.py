"""Stages: a tile's plan as the work of a task, and how its rows are distributed over the parts of the output."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from craton import _native
from craton.kernel.run import collected
from craton.lower import lower
from craton.lower.held import check_files
from craton.lower.single_node import OrderKey
from craton.lower.tiled.tiles import TileSource, bind
from craton.plan.names import HIDDEN
from craton.plan.operators import Attach, Operator, Scan
from craton.plan.size import row_bytes
from craton.plan.sources import FileSource, MemorySource, Source
from craton.plan.visit import topological
from craton.records import dataclass
from craton.schedule.pages import copy_table
from craton.schedule.tasks import Input, Sink
from craton.store.frames import frame_of

#: Rows of a batch at least, where rows are distributed while they are computed.
_FEWEST_ROWS = 1 << 10


class Exchange(Protocol):
    """How a stage's rows become parts."""

    @property
    def parts(self) -> int:
        """How many parts there are."""

    def write(self, frame: pl.DataFrame, sink: Sink) -> Any:
        """Write the rows; returns what the planner wants to know of them."""

    def __str__(self) -> str:
        """What it does, in some words."""


@dataclass(frozen=True, slots=True)
class Keep:
    """One part with all rows."""

    def __str__(self) -> str:
        return "none"

    @property
    def parts(self) -> int:
        """One."""
        return 1

    def write(self, frame: pl.DataFrame, sink: Sink) -> None:
        """Write the rows as they are."""
        if frame.height:
            sink.write(0, to_arrow(frame))


@dataclass(frozen=True, slots=True)
class Sampled:
    """One part with all rows, and a sample of some columns.

    Parameters
    ----------
    names
        The columns.
    most
        How many rows are sampled at the most, evenly.
    kept
        Whether the rows are written, too.
    """

    names: tuple[str, ...]
    most: int
    kept: bool = True

    def __str__(self) -> str:
        return f"none, sampled by {_listed(self.names)}" if self.kept else f"a sample of {_listed(self.names)}"

    @property
    def parts(self) -> int:
        """One."""
        return 1

    def write(self, frame: pl.DataFrame, sink: Sink) -> pl.DataFrame:
        """Write the rows as they are, if they are kept, and return the sample."""
        if self.kept:
            Keep().write(frame, sink)
        return compact(frame.select(self.names).gather_every(max(1, -(-frame.height // self.most))))


@dataclass(frozen=True, slots=True)
class ByHash:
    """Parts by the stable hash of some columns. Rows of a part keep their order.

    Parameters
    ----------
    names
        The columns.
    parts
        How many.
    """

    names: tuple[str, ...]
    parts: int

    def __str__(self) -> str:
        return f"by the hash of {_listed(self.names)} into {self.parts}"

    def write(self, frame: pl.DataFrame, sink: Sink) -> None:
        """Distribute the rows."""
        if frame.height:
            found = _native.partition(to_arrow(frame), self.names, self.parts, threads=pl.thread_pool_size())
            _write_all(found, sink)


@dataclass(frozen=True, slots=True)
class ByRange:
    """Parts by ranges between boundaries, in order. Equal rows are in one part. Rows of a part keep their order.

    Parameters
    ----------
    keys
        The columns that are sorted by.
    boundaries
        One row a boundary, with these columns, sorted.
    """

    keys: tuple[OrderKey, ...]
    boundaries: pl.DataFrame

    def __str__(self) -> str:
        return f"by ranges of {_listed([key.name for key in self.keys])} into {self.parts}"

    @property
    def parts(self) -> int:
        """How many ranges there are."""
        return self.boundaries.height + 1

    def write(self, frame: pl.DataFrame, sink: Sink) -> None:
        """Distribute the rows."""
        if not frame.height:
            return
        if (cuts := self._cuts(frame)) is not None:
            for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
                if start < stop:
                    sink.write(number, to_arrow(frame.slice(start, stop - start)))
        else:
            found = _native.partition_by_ranges(
                to_arrow(frame),
                [key.name for key in self.keys],
                to_arrow(self.boundaries.rechunk()),
                descending=[key.descending for key in self.keys],
                nulls_first=[not key.nulls_last for key in self.keys],
                threads=pl.thread_pool_size(),
            )
            _write_all(found, sink)

    def _cuts(self, frame: pl.DataFrame) -> list[int] | None:
        """Where the rows of each range begin, and where the last ends, if rows come in order of the only key, a number."""
        (key, *others) = self.keys
        column = frame.get_column(key.name)
        if others or key.descending or not column.dtype.is_integer() or column.null_count() or not column.is_sorted():
            return None
        boundaries = self.boundaries.get_column(key.name)
        starts = column.search_sorted(boundaries.drop_nulls(), side="left").to_list()
        # No value here is null: all are on one side of a boundary that is.
        missing = [frame.height if key.nulls_last else 0] * boundaries.null_count()
        return [0, *starts, *missing, frame.height] if key.nulls_last else [0, *missing, *starts, frame.height]


def _listed(names: Sequence[str]) -> str:
    """The names of columns; those that no user sees are left out."""
    seen = [name for name in names if not name.startswith(HIDDEN)]
    return ", ".join(seen) or "the order"


@dataclass(frozen=True, slots=True)
class Counted:
    """Another exchange, and what a column of numbers comes to, which is not written.

    Parameters
    ----------
    exchange
        Where the other columns go.
    name
        The column.
    """

    exchange: Exchange
    name: str

    @property
    def parts(self) -> int:
        """How many parts the other exchange has."""
        return self.exchange.parts

    def write(self, frame: pl.DataFrame, sink: Sink) -> tuple[int, int]:
        """Distribute the rows; returns the column's sum and its greatest value."""
        numbers = frame.select(pl.sum(self.name).alias("sum"), pl.max(self.name).fill_null(0).alias("most"))
        self.exchange.write(frame.drop(self.name), sink)
        return numbers["sum"].item(), numbers["most"].item()


def _write_all(found: Sequence[_native.Partition], sink: Sink) -> None:
    for number, part in enumerate(found):
        if len(part):
            sink.write(number, part)


@dataclass(frozen=True, slots=True)
class StageWork:
    """What a task of a tiled plan does.

    Parameters
    ----------
    plan
        The tile's plan, over files and over slots.
    slots
        Which slot each input of the task is of; those of one slot follow each other.
    exchange
        How the rows are distributed.
    ordered
        Whether their order is to be the logical one.
    batch_bytes
        Rows are distributed while they are computed, about so many bytes of them at a time, so that there may be more than fit
        into memory; 0: all at once. What is sampled always is.
    """

    plan: Operator
    slots: tuple[int, ...]
    exchange: Exchange
    ordered: bool
    batch_bytes: int = 0

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        """Compute the tile."""
        sources_read = [op.source for op in topological(self.plan) if isinstance(op, Scan | Attach)]
        files = [source for source in sources_read if isinstance(source, FileSource) and source.filesystem is None]
        columns = {source.slot: source.columns for source in sources_read if isinstance(source, TileSource)}
        _check_files(files)
        given: dict[int, list[pl.DataFrame]] = {slot: [] for slot in columns}
        read: dict[int, list[Input]] = {slot: [] for slot in columns}
        for slot, rows in zip(self.slots, inputs, strict=True):
            if slot in columns:
                read[slot].append(rows)
            if rows.rows and slot in columns:
                given[slot].append(from_arrow(rows.table(), dict(columns[slot])))
        sources: dict[int, Source] = {
            slot: MemorySource.of(_one_frame(frames, columns[slot])) for slot, frames in given.items()
        }
        # Joins stand in the order that measured sizes have given them.
        plan = lower(bind(self.plan, sources), ordered=self.ordered, rearranged=False)
        told = None
        if self.batch_bytes and not isinstance(self.exchange, Sampled | Counted):
            widths = [
                sum(rows.nbytes for rows in given) // max(sum(rows.rows for rows in given), 1)
                for given in read.values()
            ]
            self._stream(plan, sink, max(row_bytes(self.plan), sum(widths)) or 1)
        else:
            told = self.exchange.write(collected(plan), sink)
        _check_files(files)
        return told

    def _stream(self, plan: pl.LazyFrame, sink: Sink, row_bytes: int) -> None:
        failed: list[BaseException] = []

        def write(batch: pl.DataFrame) -> bool:
            try:
                self.exchange.write(batch, sink)
            except BaseException as error:
                failed.append(error)
                return True
            return False

        rows = max(self.batch_bytes // row_bytes, _FEWEST_ROWS)
        collected(plan.sink_batches(write, chunk_size=rows, lazy=True))
        if failed:
            raise failed[0]


def _check_files(files: Sequence[FileSource]) -> None:
    """Raise if a file is not what it was when the plan was built."""
    for source in files:
        check_files(source.paths, source.versions)


def _one_frame(frames: list[pl.DataFrame], columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=dict(columns))
    return frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=False)


def from_arrow(table: pa.Table, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    """A table as a frame with these columns and types."""
    frame = frame_of(table)
    if frame.columns != list(columns):
        frame = frame.select(list(columns))
    changed = [name for name, dtype in zip(columns, frame.dtypes, strict=True) if dtype != columns[name]]
    return frame.with_columns(pl.col(name).cast(columns[name]) for name in changed) if changed else frame


def to_arrow(frame: pl.DataFrame) -> pa.Table:
    """A frame as a table of the same types, without copying."""
    return frame.to_arrow(compat_level=pl.CompatLevel.newest())


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows whose text has memory of its own, as long as it is: that of rows which were picked is all that they were picked from."""
    if not any(dtype in (pl.String(), pl.Binary()) for dtype in frame.schema.values()):
        return frame
    return from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), dict(frame.schema))


def copy_of(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame in memory of its own: nothing of what it was made of is held by it."""
    return from_arrow(copy_table(to_arrow(frame)), dict(frame.schema))
