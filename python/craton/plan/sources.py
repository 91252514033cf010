"""The sources of scans: files, and data that is in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import polars as pl

from craton.errors import Unsupported
from craton.plan.expr import Options
from craton.plan.names import may_name_a_column
from craton.plan.node import Node
from craton.records import dataclass
from craton.refusals import Refusal


def refuse_odd_names(names: Iterable[str]) -> None:
    """Refuse files with columns whose names a plan cannot use."""
    if odd := [name for name in names if not may_name_a_column(name)]:
        raise Unsupported(Refusal.COLUMNS_NAMED, odd)


@dataclass(frozen=True, slots=True, eq=False)
class Source(Node):
    """The base of sources; ``columns`` are (name, physical dtype) pairs in file order."""

    columns: tuple[tuple[str, pl.DataType], ...]


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Which rows are in which part of the files of a source, as the manifest of a durable set has it.

    Parameters
    ----------
    pages
        For each file the rows of each of its pages, which are the row groups or record batches.
    bounds
        By column, for each page of all files: the least and the greatest value, as numbers of the physical type if the column has dates
        or durations; None if they are unknown, or if the page has only missing values. Columns without bounds are left out.
    nulls
        By column: the number of missing values of each page.
    values
        By column, for each page of all files: all different values that are not missing, in the form of the bounds; None if they are
        unknown. Columns of which nothing is known are left out.
    sketches
        By column: sketches whose union has the distinct values of all rows (:mod:`craton.plan.sketches`). Columns of which a part has none
        are left out.
    keys, parts
        If the rows are partitioned by the hash of columns: these, and the number of partitions.
    part_of
        The number of the partition of each file.
    position
        The column with the number of each row, from 0 on and without gaps, in the order in which the rows were written; empty if there is
        none.
    ranged_by
        If the files have ranges of a column: that column.
    in_order
        Whether the rows are in the order of their numbers.
    name
        What ``explain`` shows: how the rows are partitioned, and why this replica is read.
    """

    pages: tuple[tuple[int, ...], ...]
    bounds: Mapping[str, tuple[tuple[Any, Any] | None, ...]]
    nulls: Mapping[str, tuple[int, ...]]
    values: Mapping[str, tuple[tuple[Any, ...] | None, ...]] = field(default_factory=dict)
    sketches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    parts: int = 0
    part_of: tuple[int, ...] = ()
    position: str = ""
    ranged_by: str = ""
    in_order: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class FileSource(Source):
    """Files of one format that hold one dataset, in the order in which they are read.

    Parameters
    ----------
    format
        ``parquet``, ``csv``, ``ndjson``, ``ipc``, ``orc``, ``dataset`` (of pyarrow), or ``iceberg``.
    paths
        Paths or URLs.
    versions
        The version of each file, by which changes are detected: a (size, mtime in ns) pair or an etag.
    options
        Options of the reader; :mod:`craton.lower` interprets them.
    rows
        Rows in all files, if the metadata has it.
    text_bytes
        Estimated bytes in memory of a value of each text column, where the metadata has it.
    row_groups
        Row groups in all files, if the metadata has it.
    stored_bytes
        Bytes of each column in the files, encoded and not compressed, where the metadata has it.
    complete
        Columns without missing values, where the metadata has it. A NaN is a value.
    reopen
        Reads the files with pandas; called when a run fails, so that the user gets pandas' error.
    storage_options
        The options with which the kernel's object store opens URLs.
    filesystem
        A file system that the kernel does not support, in which ``paths`` are paths; or the dataset, or the scan of pyiceberg.
    held
        The files as they were when the plan was built: an object whose ``current()`` returns where they are now.
    layout
        Which rows are in which part of the files, if a manifest has it.
    alternatives
        Replicas: sources of the same columns and rows in other files, each of which has the column of positions.
    """

    format: str
    paths: tuple[str, ...]

    versions: tuple[Any, ...] = ()
    options: Options = ()
    rows: int | None = field(default=None, compare=False)
    text_bytes: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)
    row_groups: int | None = field(default=None, compare=False, repr=False)
    stored_bytes: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)
    complete: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    reopen: Callable[[], Any] | None = field(default=None, compare=False, repr=False)
    storage_options: Any = field(default=None, compare=False, repr=False)
    filesystem: Any = field(default=None, compare=False, repr=False)
    held: Any = field(default=None, compare=False, repr=False)
    layout: FileLayout | None = field(default=None, compare=False, repr=False)
    alternatives: tuple[FileSource, ...] = field(default=(), compare=False, repr=False)

    def _validate(self) -> None:
        refuse_odd_names(name for name, _ in self.columns)

    def __repr__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        name = f" [{self.layout.name}]" if self.layout is not None and self.layout.name else ""
        return f"{self.format} {self.paths[0] if self.paths else '(no file)'}{more}{name}"


_tokens = itertools.count(1)


class LateColumn(Protocol):
    """A column in memory that is converted to the kernel's layout when it is first read."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def dtype(self) -> pl.DataType:
        """The dtype in the kernel."""

    @property
    def has_nulls(self) -> bool:
        """Whether a value is missing, without converting the column."""

    def read(self) -> pl.Series:
        """Convert the column, or return what an earlier call converted."""

    def renamed(self, name: str) -> LateColumn:
        """The same column under another name."""


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource(Source):
    """An immutable table in memory; its identity is a token, unique in the process.

    The code that makes one guarantees that it is not written to: columns of a user's arrays are copied
    (:func:`craton.pandas.core.array_conversion.from_array`), and columns of pandas' own memory are watched for writes
    (:mod:`craton.pandas.core.scanning`).

    Parameters
    ----------
    token
        The identity.
    rows
        The number of rows.
    ready
        The columns that are in the kernel's layout.
    late
        The columns that are converted when they are read, by name.
    """

    token: int
    rows: int = field(compare=False)
    ready: pl.DataFrame = field(compare=False, repr=False)
    late: Mapping[str, LateColumn] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, frame: pl.DataFrame) -> MemorySource:
        return cls(tuple(frame.schema.items()), next(_tokens), frame.height, frame)

    @classmethod
    def of_columns(cls, columns: Sequence[pl.Series | LateColumn], rows: int) -> MemorySource:
        """A source of columns, each of which has the given number of rows."""
        ready = pl.DataFrame(
            {one.name: one for one in columns if isinstance(one, pl.Series)}
        )  # a list would rename the name ""
        late = {one.name: one for one in columns if not isinstance(one, pl.Series)}
        return cls(tuple((one.name, one.dtype) for one in columns), next(_tokens), rows, ready, late)

    @property
    def frame(self) -> pl.DataFrame:
        """All columns."""
        return self.select([name for name, _ in self.columns]) if self.late else self.ready

    def select(self, names: Collection[str]) -> pl.DataFrame:
        """Some columns. A frame without columns has no rows."""
        if not self.late and list(names) == self.ready.columns:
            return self.ready
        return pl.DataFrame({name: self.get_column(name) for name in names})

    def get_column(self, name: str) -> pl.Series:
        """A column."""
        late = self.late.get(name)
        return self.ready.get_column(name) if late is None else late.read()

    def has_nulls(self, name: str) -> bool:
        """Whether a value of a column is missing."""
        late = self.late.get(name)
        return self.ready.get_column(name).null_count() > 0 if late is None else late.has_nulls

    def renamed(self, names: Mapping[str, str]) -> MemorySource:
        """A source of the same columns under other names."""
        columns = tuple((names[name], dtype) for name, dtype in self.columns)
        late = {names[name]: column.renamed(names[name]) for name, column in self.late.items()}
        ready = self.ready.rename({name: names[name] for name in self.ready.columns})
        return MemorySource(columns, next(_tokens), self.rows, ready, late)

    def __repr__(self) -> str:
        return f"memory #{self.token}"


class Kept(Protocol):
    """A frame that is stored elsewhere and read when it is needed."""

    height: int

    @property
    def readable(self) -> bool:
        """Whether it can be read in this process."""

    def read(self) -> pl.DataFrame:
        """Load the rows."""

    def drop(self) -> None:
        """Delete the stored rows."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptSource(Source):
    """A frame that is stored elsewhere, and in memory only while it is read; its identity is a token."""

    token: int
    kept: Kept = field(compare=False, repr=False)

    @classmethod
    def of(cls, kept: Kept, schema: Mapping[str, pl.DataType]) -> KeptSource:
        return cls(tuple(schema.items()), next(_tokens), kept)

    @property
    def rows(self) -> int:
        return self.kept.height

    def __repr__(self) -> str:
        return f"kept #{self.token}"


@dataclass(frozen=True, slots=True, eq=False)
class SharedSource(Source):
    """A lowered plan that several plans of one run read, and that is computed once."""

    token: int
    frame: pl.LazyFrame = field(compare=False, repr=False)

    @classmethod
    def of(cls, frame: pl.LazyFrame, schema: Mapping[str, pl.DataType]) -> SharedSource:
        return cls(tuple(schema.items()), next(_tokens), frame)
