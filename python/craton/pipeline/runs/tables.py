"""Tables in the store as steps take them: their columns and rows, their partitions, and several joined to one."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from craton.pipeline.conversion import given, outputs_of
from craton.pipeline.pandas_tables import joined as joined_frames
from craton.pipeline.returned import RESTORE, NotATable
from craton.pipeline.sources.selection import rows_of, selected
from craton.pipeline.steps.conditions import condition_bytes
from craton.pipeline.steps.inputs import Input
from craton.pipeline.tasks import Form, Stored
from craton.records import dataclass
from craton.store.sets import LocalitySet
from craton.store.store import Store

__all__ = ["InputPages", "Table", "TableRequest", "divided", "joined", "part_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table in the store.

    Parameters
    ----------
    stored
        All of it.
    parts
        Its partitions; None if it has none.
    """

    stored: Stored
    parts: tuple[Stored, ...] | None = None


class InputPages:
    """The pages of a step's inputs; :class:`craton.pipeline.manager.Inputs`. It does not keep the sets that have them."""

    def __init__(self, sets: Sequence[LocalitySet]) -> None:
        self._references = list(map(weakref.ref, sets))

    @property
    def _sets(self) -> list[LocalitySet]:
        return [one for reference in self._references if (one := reference()) is not None]

    def absent(self) -> int:
        """Bytes of those that are not in memory."""
        return sum(info.nbytes for one in self._sets for info in one.pages() if info.location == "disk")

    def pin(self) -> tuple[list[Any], list[tuple[int, Callable[[], Any]]]]:
        """Pin those in memory: what keeps them pinned; and for each of the others its bytes, and a function that reads and pins it."""
        pinned: list[Any] = []
        absent: list[tuple[int, Callable[[], Any]]] = []
        for one in self._sets:
            for info in one.pages():
                if info.location == "disk":
                    absent.append((info.nbytes, partial(one.pin, info)))
                else:
                    pinned.append(one.pin(info))
        return pinned, absent


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The part of a table that a step takes.

    Parameters
    ----------
    name, output
        The step or source, and which of its tables.
    columns, condition
        The columns, and the bytes of the condition on rows.
    index
        Whether pandas' row labels are taken with the columns.
    by_part
        Whether each partition is taken by itself.
    shown
        The condition as a text.
    """

    name: str
    output: str | None
    columns: tuple[str, ...] | None
    condition: bytes
    index: bool
    by_part: bool = False
    shown: str = field(default="", compare=False)

    @property
    def whole(self) -> bool:
        """Whether it is all of the table."""
        return self.columns is None and not self.condition

    @classmethod
    def of(
        cls, producer: tuple[str, str | None], given: Input, form: Form | None, *, by_part: bool = False
    ) -> TableRequest:
        """What an input of a step stands for, taken in a form."""
        columns = None if given.columns is None else tuple(given.columns)
        index = form in ("pandas", "craton")
        shown = "" if given.where is None else str(given.where)
        return cls(*producer, columns, condition_bytes(given.where), index, by_part, shown)

    def label(self) -> str:
        """A text for people."""
        name = self.name if self.output is None else f"{self.name}.{self.output}"
        columns = self.columns or ()
        more = [", ".join(columns) if len(columns) < 3 else f"{len(columns)} columns"] if columns else []
        more += [self.shown] if self.condition else []
        more += ["by partition"] if self.by_part else []
        return f"{name} ({'; '.join(more)})" if more else name


def part_of(store: Store, stored: Stored, request: TableRequest, where: Any) -> Stored:
    """The columns and rows of a table that a request names. Columns are referenced; rows that a condition selects are copied.

    Raises
    ------
    KeyError
        If it does not have a column.
    """
    if request.whole:
        return stored
    try:
        table = selected(stored.pages.to_arrow(), stored.form, request.columns, where, request.index)
    except KeyError as error:
        raise KeyError(f"{request.name!r}: {error.args[0]}") from None
    return keep(store, table, stored.form)


def divided(store: Store, table: Table, how: int | tuple[str, ...] | None) -> tuple[Stored, ...]:
    """The partitions of a table: ranges of rows, rows with the same values in columns, or those that it has."""
    if how is None:
        return table.parts or (table.stored,)
    rows, form = table.stored.pages.to_arrow(), table.stored.form
    places: list[Any]
    if isinstance(how, int):
        ends = [table.stored.rows * number // how for number in range(how + 1)]
        places = [slice(start, end) for start, end in itertools.pairwise(ends)]
    else:
        places = _by_values(selected(rows, form, how, None, False), how)
    return tuple(keep(store, rows_of(rows, form, one), form) for one in places)


def joined(store: Store, parts: Sequence[Stored]) -> Stored:
    """Several tables as one, in their order, by reference.

    Raises
    ------
    ValueError
        If their columns are not the same.
    """
    if len(parts) == 1:
        return parts[0]
    forms = dict.fromkeys(part.form for part in parts)
    if len(forms) > 1:
        raise ValueError(f"the partitions have different forms: {', '.join(forms)}")
    tables = [part.pages.to_arrow() for part in parts]
    first = tables[0].schema
    for number, table in enumerate(tables[1:], 1):
        if table.schema.names != first.names:
            raise ValueError(
                f"partition {number} has the columns {', '.join(table.schema.names)}, and partition 0 {', '.join(first.names)}"
            )
        for one, other in zip(first, table.schema, strict=True):
            if one.type != other.type:
                raise ValueError(
                    f"the column {one.name!r} is {other.type} in partition {number}, and {one.type} in partition 0"
                )
    if RESTORE in (first.metadata or {}):
        try:
            tables = _joined_arrays(tables) if parts[0].form == "numpy" else joined_frames(tables)
        except NotATable as error:
            raise ValueError(str(error).replace("batch", "partition").replace(" of the iterator", "")) from None
    else:
        tables = [table.replace_schema_metadata(first.metadata) for table in tables]
    return keep(store, pa.concat_tables(tables), parts[0].form)


def _joined_arrays(tables: Sequence[pa.Table]) -> list[pa.Table]:
    (output,) = outputs_of(iter([given(table, "numpy", "numpy") for table in tables])).values()
    return output.tables


def keep(store: Store, table: pa.Table, form: Form) -> Stored:
    """A table in a new set of the store; memory that is the store's is referenced."""
    pages = store.create_set()
    nbytes = sum(info.nbytes for info in pages.append(table))
    return Stored(pages, form, table.num_rows, nbytes)


def _by_values(table: pa.Table, columns: Sequence[str]) -> list[Any]:
    """The numbers of the rows with each combination of values, in the order in which these first occur."""
    if RESTORE in (table.schema.metadata or {}):
        frame = given(table, "pandas", "pandas")
        groups = frame.groupby(list(columns), sort=False, dropna=False, observed=True)
        return list(groups.indices.values()) if len(frame) else []
    numbers = pa.array(np.arange(table.num_rows))
    grouped = (
        table.append_column("\0row", numbers).group_by(list(columns), use_threads=False).aggregate([("\0row", "list")])
    )
    return [rows.values.to_numpy() for rows in grouped.column("\0row_list")]
