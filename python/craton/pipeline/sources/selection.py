"""Columns and rows of tables of all forms. Columns are views; rows that a condition selects are copied.

A table that was a pandas frame or an array has a description in its schema of how it is restored. It is restored before anything is taken
from it, so that labels and dtypes stay what they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from craton.pipeline.conversion import given, outputs_of
from craton.pipeline.returned import RESTORE
from craton.pipeline.steps.conditions import bound
from craton.pipeline.tasks import Form

__all__ = ["columns_read", "index_columns", "rows_of", "selected", "taken_names"]


def selected(table: pa.Table, form: Form, columns: Sequence[str] | None, where: Any, index: bool = True) -> pa.Table:
    """Columns of the rows for which a condition is true, in their order.

    As in pandas, rows with NaN or null on either side of a comparison are not taken.

    Parameters
    ----------
    table, form
        The table, and what it was when it was made.
    columns
        Names; None for all.
    where
        A condition, as :func:`craton.pipeline.steps.conditions.condition` returns it; None for all rows.
    index
        Whether the columns that are pandas' row labels are taken in any case.

    Raises
    ------
    KeyError
        If there is no such column.
    TypeError
        If the condition cannot be evaluated.
    """
    if columns is None and where is None:
        return table
    if _restored(table):
        return _of_restored(table, form, columns, where)
    _require_columns(columns, table.column_names)
    if where is not None:
        where = bound(table.schema, where)
        columns_read(table.schema, where)
        table = table.filter(_mask(table, where))
    return table if columns is None else table.select(taken_names(table.schema, columns, index))


def rows_of(table: pa.Table, form: Form, rows: slice | Any) -> pa.Table:
    """A range of rows, which is a view, or the rows with some numbers."""
    if _restored(table):
        value = given(table, form, "numpy" if form == "numpy" else "pandas")
        return _stored(value[rows] if form == "numpy" else value.iloc[rows])
    return table.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else table.take(pa.array(rows))


def columns_read(schema: pa.Schema, where: Any) -> list[str]:
    """The columns that a condition reads.

    Raises
    ------
    KeyError
        If it reads one that is not there.
    TypeError
        If it compares values of types that cannot be compared.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> columns_read(pa.schema({"a": "int64", "b": "int64"}), pc.field("b") > 1)
    ['b']
    """
    if where is None:
        return []
    try:
        _mask(schema.empty_table(), where)
    except pa.ArrowException as error:
        if "No match for FieldRef" in str(error):
            raise KeyError(f"the condition {where} reads a column that is not there: {_first_line(error)}") from None
        raise TypeError(f"the condition {where} cannot be evaluated: {_first_line(error)}") from None
    found = []
    for number, name in enumerate(schema.names):
        try:
            _mask(schema.remove(number).empty_table(), where)
        except pa.ArrowInvalid:
            found.append(name)
    return found


def index_columns(schema: pa.Schema) -> list[str]:
    """The columns that are the row labels of the pandas frame that a file was written from."""
    described = schema.pandas_metadata or {}
    return [one for one in described.get("index_columns", ()) if isinstance(one, str) and one in schema.names]


def taken_names(schema: pa.Schema, columns: Sequence[str] | None, index: bool) -> list[str]:
    """The columns that are read: those wanted, and the row labels if they are."""
    if columns is None:
        return list(schema.names)
    return [*columns, *(one for one in index_columns(schema) if index and one not in columns)]


def _mask(table: pa.Table, where: Any) -> pa.ChunkedArray:
    return ds.dataset(table).to_table(columns={"taken": where}).column(0)


def _restored(table: pa.Table) -> bool:
    return RESTORE in (table.schema.metadata or {})


def _of_restored(table: pa.Table, form: Form, columns: Sequence[str] | None, where: Any) -> pa.Table:
    """The same for a table that was a pandas object; an array has no columns."""
    if form == "numpy":
        raise TypeError("an array has no columns to take, and no condition on them; take all of it")
    frame = given(table, form, "pandas")
    frame = frame.to_frame() if frame.ndim == 1 else frame
    _require_columns(columns, [str(name) for name in frame.columns])
    if where is not None:
        # Without the description the columns are as other libraries know them; a column of several types is refused.
        schema = pa.schema([pa.field(str(name), _arrow_type(frame[name])) for name in frame.columns])
        where = bound(schema, where)
        read = columns_read(schema, where)
        values = pa.Table.from_pandas(frame[read], preserve_index=False)
        frame = frame[_mask(values, where).fill_null(False).to_numpy().astype(np.bool_)]
    return _stored(frame if columns is None else frame[list(columns)])


def _arrow_type(column: Any) -> pa.DataType:
    try:
        return pa.array(column, from_pandas=True).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.null()


def _stored(value: Any) -> pa.Table:
    (output,) = outputs_of(value).values()
    (table,) = output.tables
    return table


def _require_columns(columns: Sequence[str] | None, known: Sequence[str]) -> None:
    for name in columns or ():
        if name not in known:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(known)}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
