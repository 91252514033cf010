"""Frames and series over Arrow and Polars data that is already in memory, which they scan without copying where possible."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton.config import options
from craton.errors import Unsupported
from craton.kernel.run import collect
from craton.pandas.core.counterparts import frame_class, series_class
from craton.pandas.core.lazy import lazy
from craton.pandas.core.routing import inside_pandas
from craton.pandas.core.stored import Template, categorical_value, stored_frame, stored_value, stored_view, template_of
from craton.pandas.core.view import Value, View, name_index
from craton.plan.names import column_names
from craton.plan.operators import Scan
from craton.plan.sources import MemorySource
from craton.refusals import Refusal


def from_arrow(data: Any) -> Any:
    """A DataFrame over an Arrow table, or a Series over an Arrow array, without copying where the kernel's layout is Arrow's.

    Parameters
    ----------
    data
        Anything that exports Arrow data through the PyCapsule protocol: a pyarrow Table, RecordBatch, Array or
        ChunkedArray, a Polars DataFrame or Series, a DuckDB relation.

    Returns
    -------
    DataFrame or Series
        Equal to the result of ``pandas.DataFrame.from_arrow`` or ``pandas.Series.from_arrow``.

    Examples
    --------
    >>> import craton.pandas as pd
    >>> import pyarrow as pa
    >>> pd.from_arrow(pa.table({"a": [1, 2]}))["a"].sum()
    np.int64(3)
    """
    if isinstance(data, (pa.Array, pa.ChunkedArray, pl.Series)) and not isinstance(data, pa.StructArray):
        return series_class().from_arrow(data)
    return frame_class().from_arrow(data)


def from_polars(data: Any) -> Any:
    """A DataFrame over a Polars DataFrame or LazyFrame, or a Series over a Polars Series.

    Parameters
    ----------
    data
        A LazyFrame is collected first.

    Raises
    ------
    TypeError
        If ``data`` is not an object of Polars.
    """
    if isinstance(data, pl.LazyFrame):
        data = collect(data)
    if not isinstance(data, (pl.DataFrame, pl.Series)):
        raise TypeError(f"from_polars takes a Polars DataFrame, LazyFrame or Series, got {type(data).__name__}")
    return from_arrow(data)


def read_arrow_data(base: type, data: Any) -> tuple[Any, bool]:
    """The argument of ``from_arrow`` as an Arrow table or array, and whether pandas must read it.

    pandas reads small data, and raises the error for arguments that do not export Arrow data.
    """
    if base is pd.DataFrame:
        if isinstance(data, pl.DataFrame):
            data = data.to_arrow()
        known, read = pa.Table, pa.table
    else:
        known, read = (pa.Array, pa.ChunkedArray), pa.chunked_array
    if not isinstance(data, known):
        if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
            return data, True  # pandas raises
        data = read(data)
    return data, is_small(len(data))


def lazy_data(cls: type, data: Any) -> Any:
    """A lazy frame over a table, or a lazy series over an array."""
    if isinstance(data, pa.Table):
        return stored_frame(cls, *_view_of_arrow(data))
    held, _ = _view_of_arrow(pa.table({"col": data}))
    name = getattr(data, "_name", None)
    return lazy(cls, View(held.base, held.values, name_index(name), held.index, held.rows))


def is_small(rows: int) -> bool:
    """Whether data of this many rows in memory stays in plain pandas."""
    return inside_pandas() or (options.small_rows > 0 and rows <= options.small_rows)


def _view_of_arrow(table: pa.Table) -> tuple[View, Template]:
    """A view that scans an Arrow table, not copied where the kernel's layout is Arrow's, and the template of its schema.

    Raises
    ------
    Unsupported
        If labels repeat, or the kernel has no dtype for a column.
    """
    if len(set(table.column_names)) != table.num_columns or not table.num_columns:
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    template = template_of(table.schema, pd.DataFrame.from_arrow)
    try:
        frame = pl.from_arrow(table)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise Unsupported(Refusal.TABLE_KERNEL, error) from error
    assert isinstance(frame, pl.DataFrame)
    frame.columns = column_names(table.column_names)
    plan_names = dict(zip(table.column_names, frame.columns, strict=True))
    base = Scan(MemorySource.of(frame), tuple(frame.columns))
    values: dict[str, Value] = {}
    for name, dtype in template.dtypes.items():
        column = table.column(name)
        if isinstance(dtype, pd.CategoricalDtype):
            if column.num_chunks == 0:
                raise Unsupported(Refusal.FILE_DICTIONARY)
            found = column.unify_dictionaries().chunk(0)
            dtype = found.slice(0, 0).to_pandas().dtype
            values[name] = categorical_value(base, plan_names[name], found.dictionary, dtype, column.null_count > 0)
        else:
            values[name] = stored_value(base, plan_names[name], dtype, column.null_count)
    return stored_view(base, values, template, table.num_rows), template
