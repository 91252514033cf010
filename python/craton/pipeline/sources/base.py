"""Where the tables come from that a pipeline starts with: files, sets of the store, plans, and tables in memory."""

from __future__ import annotations

import abc
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from craton import callers
from craton._native import content_hash
from craton.pipeline.conversion import form_of, outputs_of
from craton.pipeline.returned import NotATable, Returned
from craton.pipeline.sources.selection import selected
from craton.pipeline.steps.forms import FORMS
from craton.pipeline.steps.functions import Place
from craton.pipeline.tasks import Form
from craton.records import dataclass
from craton.store.sets import LocalitySet
from craton.store.store import Store

__all__ = ["InMemory", "Loaded", "NamedSet", "Query", "TableSource", "source_of", "store_tables"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows of a source in the store.

    Parameters
    ----------
    pages, form
        The set that has them, and what they were.
    rows, nbytes
        Their number, and bytes of their buffers.
    new, copied, shared
        Bytes that were made, of these those that were copied into the store, and bytes that were there already.
    """

    pages: LocalitySet
    form: Form
    rows: int
    nbytes: int
    new: int
    copied: int
    shared: int


class TableSource(abc.ABC):
    """A table that a pipeline starts with.

    Attributes
    ----------
    name : str or None
        Its name in pipelines.
    form : {"arrow", "pandas", "polars", "craton", "numpy"} or None
        The form in which steps take it that ask for none; None for the one that it has when it is read.
    place : Place
        The line of the program that made it.
    """

    form: Form | None = None

    def __init__(self, name: str | None) -> None:
        self.name = name
        location = callers.user_location(2)
        self.place = Place("<unknown>", 0) if location is None else Place(*location)

    @abc.abstractmethod
    def schema(self) -> pa.Schema | None:
        """Its columns; None if they are not known before it is read."""

    @abc.abstractmethod
    def version(self, store: Store) -> bytes | None:
        """Bytes that change when its rows do; None if nothing can be said, so that steps that take it always run."""

    @abc.abstractmethod
    def load(self, store: Store, columns: Sequence[str] | None, where: Any, index: bool) -> Loaded:
        """Put columns of the rows that a condition selects into the store.

        Parameters
        ----------
        store
            The store.
        columns
            Their names; None for all.
        where
            A condition; None for all rows.
        index
            Whether the columns are read that are pandas' row labels, even if they are not among the columns.
        """

    def problems(self) -> list[str]:
        """What is wrong with it, as far as that is known before it is read."""
        return []

    def partitions(self) -> list[TableSource]:
        """The parts that it has by nature, such as files; itself, if it has none."""
        return [self]

    def column_names(self) -> list[str] | None:
        """The names of its columns; None if they are not known."""
        schema = None if self.problems() else self.schema()
        return None if schema is None else schema.names

    def memory(self) -> int:
        """Bytes that reading it takes besides the store's; an estimate."""
        return 0

    def detail(self) -> str:
        """What it reads, for drawings."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{'' if self.name is None else f' {self.name}'}>"


def source_of(given: Any) -> TableSource:
    """A source, or a table in memory as one."""
    return given if isinstance(given, TableSource) else InMemory(given)


class NamedSet(TableSource):
    """A set of the store that has a name, such as a step with ``persist=`` made.

    Parameters
    ----------
    set_name
        Its name in the store.
    name
        Its name in pipelines; by default the same.
    form
        The form in which steps take it that ask for none; by default the one that it had when it was made.
    """

    def __init__(self, set_name: str, *, name: str | None = None, form: Form | None = None) -> None:
        super().__init__(name or set_name)
        self.set_name, self.form = set_name, form

    def schema(self) -> pa.Schema | None:
        """See :meth:`TableSource.schema`."""
        return None

    def version(self, store: Store) -> bytes | None:
        """See :meth:`TableSource.version`. Pages never change, so their numbers say which rows the set has."""
        if self.set_name not in store:
            return None
        pages = store.get_set(self.set_name)
        return repr((pages.number, [(info.number, info.rows, info.nbytes) for info in pages.pages()])).encode()

    def load(self, store: Store, columns: Sequence[str] | None, where: Any, index: bool) -> Loaded:
        """See :meth:`TableSource.load`."""
        pages = store.get_set(self.set_name)
        form = _form_of_tag(pages.tag)
        table = selected(pages.to_arrow(), form, columns, where, index)
        return store_tables(store, self.form or form, [table], stored=where is None)


def _form_of_tag(tag: bytes) -> Form:
    """What a set was that a step has kept; other sets are Arrow data."""
    try:
        form = json.loads(tag)["form"]
    except (ValueError, KeyError, TypeError):
        return "arrow"
    return form if form in FORMS else "arrow"  # type: ignore[no-any-return]


class Query(TableSource):
    """A plan: a lazy frame of ``craton.pandas``, or a function that makes one.

    Parameters
    ----------
    plan
        The frame, or a function without parameters, which is called in each run. It may return any table.
    name
        Its name in pipelines; by default that of the function.
    form
        The form in which steps take it that ask for none; by default that of the frame.
    """

    def __init__(self, plan: Any, *, name: str | None = None, form: Form | None = None) -> None:
        super().__init__(name or (getattr(plan, "__name__", None) if callable(plan) else None))
        if not callable(plan) and form_of(plan) is None:
            raise TypeError(f"a query is a frame or a function that makes one, not {type(plan).__name__}")
        self.plan = plan
        self.form = form

    def schema(self) -> pa.Schema | None:
        """See :meth:`TableSource.schema`."""
        return None

    def column_names(self) -> list[str] | None:
        """See :meth:`TableSource.column_names`."""
        return (
            None
            if callable(self.plan) or not hasattr(self.plan, "columns")
            else [str(one) for one in self.plan.columns]
        )

    def version(self, store: Store) -> bytes | None:
        """See :meth:`TableSource.version`. A function may read anything, so nothing can be said of it."""
        return None

    def load(self, store: Store, columns: Sequence[str] | None, where: Any, index: bool) -> Loaded:
        """See :meth:`TableSource.load`. Columns that are not needed are not computed."""
        frame = self.plan() if callable(self.plan) else self.plan
        if where is None and columns is not None and form_of(frame) in ("craton", "pandas", "polars"):
            frame = frame[list(columns)] if hasattr(frame, "__getitem__") else frame
        return store_selected(store, frame, self.form, columns, where, index)


class InMemory(TableSource):
    """A table in memory, of any library.

    Parameters
    ----------
    table
        The table. It must not be changed while the pipeline has it.
    name
        Its name in pipelines.
    """

    def __init__(self, table: Any, *, name: str | None = None) -> None:
        super().__init__(name)
        output = only_output(table)
        self.form = self._made = output.form
        self._table = pa.concat_tables([_table(one) for one in output.tables])
        self._version: bytes | None = None

    def schema(self) -> pa.Schema | None:
        """See :meth:`TableSource.schema`."""
        return self._table.schema

    def column_names(self) -> list[str] | None:
        """See :meth:`TableSource.column_names`."""
        return None if self._made == "numpy" else super().column_names()

    def version(self, store: Store) -> bytes | None:
        """See :meth:`TableSource.version`."""
        if self._version is None:
            self._version = table_hash(self._table)
        return self._version

    def load(self, store: Store, columns: Sequence[str] | None, where: Any, index: bool) -> Loaded:
        """See :meth:`TableSource.load`."""
        return store_tables(store, self._made, [selected(self._table, self._made, columns, where, index)])


def table_hash(table: pa.Table) -> bytes:
    """A hash of the rows of a table."""
    sink = _Hashing()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.digest()


class _Hashing:
    """A file that only remembers a hash of what is written to it."""

    closed = False

    def __init__(self) -> None:
        self._digest = b""

    def write(self, data: Any) -> int:
        data = bytes(data)
        self._digest = content_hash(self._digest + content_hash(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Nothing is open."""

    def digest(self) -> bytes:
        return self._digest


# ---- what sources share ----


def only_output(value: Any) -> Returned:
    """A table as Arrow tables.

    Raises
    ------
    TypeError
        If it is none.
    """
    try:
        outputs = outputs_of(value)
    except NotATable as error:
        raise TypeError(str(error).replace("the function returned", "a source was given")) from None
    if None not in outputs:
        raise TypeError("a source was given a dict of tables; give each a name: Pipeline(…, sources={name: table})")
    return outputs[None]


def store_selected(
    store: Store, value: Any, form: Form | None, columns: Sequence[str] | None, where: Any, index: bool
) -> Loaded:
    """Put columns of the rows of a table that a condition selects into a new set, in a form; by default that of the table."""
    output = only_output(value)
    tables = [selected(one, output.form, columns, where, index) for one in output.tables]
    return store_tables(store, form or output.form, tables)


def _table(one: Any) -> pa.Table:
    return pa.Table.from_batches([one]) if isinstance(one, pa.RecordBatch) else one


def store_tables(
    store: Store, form: Form, tables: Iterable[pa.Table], *, stored: bool = False, decoded: int = 0
) -> Loaded:
    """Append tables to a new set.

    Parameters
    ----------
    store
        The store.
    form
        What they were.
    tables
        The tables, of one schema.
    stored
        Whether their memory is the store's, so that they are referenced.
    decoded
        Bytes that were decoded for them.
    """
    pages = store.create_set()
    rows = nbytes = 0
    for table in tables:
        rows += table.num_rows
        nbytes += sum(info.nbytes for info in pages.append(table))
    made = decoded + (0 if stored else nbytes)
    return Loaded(pages, form, rows, nbytes, made, made, nbytes if stored else 0)
