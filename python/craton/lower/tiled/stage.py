"""Stages: a tile's plan as the work of a task, and how its rows are distributed over the parts of the output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from craton import _native
from craton.errors import SourceChanged
from craton.lower.held import version_of
from craton.lower.tiled.tiles import TileSource, bind
from craton.lower.whole import OrderKey, lower
from craton.plan.operators import Operator, Scan
from craton.plan.order import topological
from craton.plan.sources import FileSource, MemorySource, Source
from craton.schedule.tasks import Input, Sink


class Exchange(Protocol):
    """How a stage's rows become parts."""

    @property
    def parts(self) -> int:
        """How many parts there are."""

    def write(self, frame: pl.DataFrame, sink: Sink) -> Any:
        """Write the rows; returns what the planner wants to know of them."""


@dataclass(frozen=True, slots=True)
class Keep:
    """One part with all rows."""

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
    """

    names: tuple[str, ...]
    most: int

    @property
    def parts(self) -> int:
        """One."""
        return 1

    def write(self, frame: pl.DataFrame, sink: Sink) -> pl.DataFrame:
        """Write the rows as they are, and return the sample."""
        Keep().write(frame, sink)
        return frame.select(self.names).gather_every(max(1, -(-frame.height // self.most)))


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

    @property
    def parts(self) -> int:
        """How many ranges there are."""
        return self.boundaries.height + 1

    def write(self, frame: pl.DataFrame, sink: Sink) -> None:
        """Distribute the rows."""
        if frame.height:
            found = _native.partition_by_ranges(
                to_arrow(frame),
                [key.name for key in self.keys],
                to_arrow(self.boundaries.rechunk()),
                descending=[key.descending for key in self.keys],
                nulls_first=[not key.nulls_last for key in self.keys],
                threads=pl.thread_pool_size(),
            )
            _write_all(found, sink)


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
    """

    plan: Operator
    slots: tuple[int, ...]
    exchange: Exchange
    ordered: bool

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        """Compute the tile."""
        _check_files(self.plan)
        columns = _slot_columns(self.plan)
        given: dict[int, list[pl.DataFrame]] = {slot: [] for slot in columns}
        for slot, rows in zip(self.slots, inputs, strict=True):
            if rows.rows and slot in columns:
                given[slot].append(from_arrow(rows.table(), dict(columns[slot])))
        sources: dict[int, Source] = {
            slot: MemorySource.of(_one_frame(frames, columns[slot])) for slot, frames in given.items()
        }
        # Joins stand in the order that measured sizes have given them.
        plan = lower(bind(self.plan, sources), ordered=self.ordered, rearranged=False)
        frame = plan.collect(engine="streaming")
        return self.exchange.write(frame, sink)


def _slot_columns(plan: Operator) -> dict[int, tuple[tuple[str, pl.DataType], ...]]:
    found = {}
    for op in topological(plan):
        source = getattr(op, "source", None)
        if isinstance(source, TileSource):
            found[source.slot] = source.columns
    return found


def _check_files(plan: Operator) -> None:
    """Raise if a file is not what it was when the plan was built."""
    for op in topological(plan):
        if isinstance(op, Scan) and isinstance(op.source, FileSource) and op.source.filesystem is None:
            for path, version in zip(op.source.paths, op.source.versions, strict=False):
                if isinstance(version, tuple) and len(version) == 3 and "://" not in path:
                    try:
                        now: Any = version_of(os.stat(path))
                    except OSError:
                        now = None
                    if now != version:
                        gone = "removed" if now is None else "changed"
                        raise SourceChanged(f"{path!r} was {gone} after it was read into a lazy frame")


def _one_frame(frames: list[pl.DataFrame], columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=dict(columns))
    return frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=False)


def from_arrow(table: pa.Table, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    """A table as a frame with these columns and types."""
    frame = pl.DataFrame(table).select(list(columns))
    changed = [name for name, dtype in columns.items() if frame.schema[name] != dtype]
    return frame.with_columns(pl.col(name).cast(columns[name]) for name in changed) if changed else frame


def to_arrow(frame: pl.DataFrame) -> pa.Table:
    """A frame as a table of the same types, without copying."""
    return frame.to_arrow(compat_level=pl.CompatLevel.newest())
