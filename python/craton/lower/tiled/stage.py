"""The work of a task: it computes a tile's plan and distributes the rows over the parts of its output by an exchange."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from craton import _native
from craton.kernel.run import collect
from craton.lower import lower
from craton.lower.file_versions import check_files
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

#: The least number of rows of a batch, when rows are exchanged while they are computed.
_FEWEST_ROWS = 1 << 10


class Exchange(Protocol):
    """How a task's rows are distributed over the parts of its output."""

    @property
    def parts(self) -> int:
        """The number of parts."""

    def write(self, frame: pl.DataFrame, sink: Sink) -> Any:
        """Write the rows; returns a value for the planner, such as a sample."""

    def __str__(self) -> str:
        """A short description, for tables of stages."""


@dataclass(frozen=True, slots=True)
class NoExchange:
    """No exchange: one part with all rows."""

    def __str__(self) -> str:
        return "none"

    @property
    def parts(self) -> int:
        return 1

    def write(self, frame: pl.DataFrame, sink: Sink) -> None:
        """Write the rows to the only part."""
        if frame.height:
            sink.write(0, to_arrow(frame))


@dataclass(frozen=True, slots=True)
class Sampled:
    """No exchange, with a sample of some columns for the planner.

    Parameters
    ----------
    names
        The columns to sample.
    most
        The greatest number of rows in the sample, which are evenly spaced.
    kept
        Whether the rows are written too, or only sampled.
    """

    names: tuple[str, ...]
    most: int
    kept: bool = True

    def __str__(self) -> str:
        return f"none, sampled by {_listed(self.names)}" if self.kept else f"a sample of {_listed(self.names)}"

    @property
    def parts(self) -> int:
        return 1

    def write(self, frame: pl.DataFrame, sink: Sink) -> pl.DataFrame:
        """Write the rows, if they are kept, and return the sample."""
        if self.kept:
            NoExchange().write(frame, sink)
        return compact(frame.select(self.names).gather_every(max(1, -(-frame.height // self.most))))


@dataclass(frozen=True, slots=True)
class ByHash:
    """A hash exchange, by a hash that is the same in every process. Rows of a part keep their order.

    Parameters
    ----------
    names
        The columns to hash.
    parts
        The number of parts.
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
    """A range exchange: the parts are ranges in sort order. Rows with equal keys are in one part; its rows keep their order.

    Parameters
    ----------
    keys
        The columns that define the sort order.
    boundaries
        The sorted boundaries between ranges, one row each, with these columns.
    """

    keys: tuple[OrderKey, ...]
    boundaries: pl.DataFrame

    def __str__(self) -> str:
        return f"by ranges of {_listed([key.name for key in self.keys])} into {self.parts}"

    @property
    def parts(self) -> int:
        """The number of ranges."""
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
        """The offsets of the ranges, and the end of the last, if the rows are sorted by the only key and it is an integer."""
        (key, *others) = self.keys
        column = frame.get_column(key.name)
        if others or key.descending or not column.dtype.is_integer() or column.null_count() or not column.is_sorted():
            return None
        boundaries = self.boundaries.get_column(key.name)
        starts = column.search_sorted(boundaries.drop_nulls(), side="left").to_list()
        # No value here is null, so all values are on one side of a null boundary.
        missing = [frame.height if key.nulls_last else 0] * boundaries.null_count()
        return [0, *starts, *missing, frame.height] if key.nulls_last else [0, *missing, *starts, frame.height]


def _listed(names: Sequence[str]) -> str:
    """The names of columns for people, without hidden ones."""
    seen = [name for name in names if not name.startswith(HIDDEN)]
    return ", ".join(seen) or "the order"


@dataclass(frozen=True, slots=True)
class Counted:
    """Another exchange, which also sums up a column of numbers that it does not write.

    Parameters
    ----------
    exchange
        The exchange of the other columns.
    name
        The column to sum up.
    """

    exchange: Exchange
    name: str

    @property
    def parts(self) -> int:
        """The number of parts of the other exchange."""
        return self.exchange.parts

    def write(self, frame: pl.DataFrame, sink: Sink) -> tuple[int, int]:
        """Distribute the rows; returns the column's sum and its maximum."""
        numbers = frame.select(pl.sum(self.name).alias("sum"), pl.max(self.name).fill_null(0).alias("most"))
        self.exchange.write(frame.drop(self.name), sink)
        return numbers["sum"].item(), numbers["most"].item()


def _write_all(found: Sequence[_native.Partition], sink: Sink) -> None:
    for number, part in enumerate(found):
        if len(part):
            sink.write(number, part)


@dataclass(frozen=True, slots=True)
class StageWork:
    """The work of a task of a tiled plan.

    Parameters
    ----------
    plan
        The tile's plan, over files and slots.
    slots
        The slot of each input of the task. Inputs of one slot are concatenated in this order.
    exchange
        How the rows are distributed.
    ordered
        Whether the rows must be in order.
    batch_bytes
        The bytes of a batch in which rows are exchanged while they are computed, so that a tile's result can exceed memory;
        0: in one batch. Exchanges that sample or sum up always use one batch.
    """

    plan: Operator
    slots: tuple[int, ...]
    exchange: Exchange
    ordered: bool
    batch_bytes: int = 0

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        """Compute the tile and write its rows; returns the exchange's value for the planner."""
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
        # The joins are in the order that the planner has chosen by measured sizes, so the kernel must not reorder them.
        plan = lower(bind(self.plan, sources), ordered=self.ordered, rearranged=False)
        value = None
        if self.batch_bytes and not isinstance(self.exchange, Sampled | Counted):
            widths = [
                sum(rows.nbytes for rows in given) // max(sum(rows.rows for rows in given), 1)
                for given in read.values()
            ]
            self._stream(plan, sink, max(row_bytes(self.plan), sum(widths)) or 1)
        else:
            value = self.exchange.write(collect(plan), sink)
        _check_files(files)
        return value

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
        collect(plan.sink_batches(write, chunk_size=rows, lazy=True))
        if failed:
            raise failed[0]


def _check_files(files: Sequence[FileSource]) -> None:
    """Raise SourceChanged if a file has changed since the plan was built."""
    for source in files:
        check_files(source.paths, source.versions)


def _one_frame(frames: list[pl.DataFrame], columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=dict(columns))
    return frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=False)


def from_arrow(table: pa.Table, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    """A table as a frame with these columns and dtypes."""
    frame = frame_of(table)
    if frame.columns != list(columns):
        frame = frame.select(list(columns))
    changed = [name for name, dtype in zip(columns, frame.dtypes, strict=True) if dtype != columns[name]]
    return frame.with_columns(pl.col(name).cast(columns[name]) for name in changed) if changed else frame


def to_arrow(frame: pl.DataFrame) -> pa.Table:
    """A frame as a table with Polars' own layouts, without copying."""
    return frame.to_arrow(compat_level=pl.CompatLevel.newest())


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame whose strings are copied into buffers of their own. Gathered rows would refer to all strings of their origin."""
    if not any(dtype in (pl.String(), pl.Binary()) for dtype in frame.schema.values()):
        return frame
    return from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), dict(frame.schema))


def copy_of(frame: pl.DataFrame) -> pl.DataFrame:
    """A copy of a frame that holds no reference to the memory of the original."""
    return from_arrow(copy_table(to_arrow(frame)), dict(frame.schema))
