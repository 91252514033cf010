"""Converts the schema of stored Arrow columns to the dtypes, index and labels of a scan's view.

pandas itself reads an empty table of the schema. The result, the *template*, has the column order, the dtypes and the index. It
does not show whether integer and boolean columns have missing values; the null counts in the file's metadata do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton.errors import SourceChanged, Unsupported
from craton.pandas.core.dtypes import BOOL, OBJECT, DtypeObj, physical, with_missing
from craton.pandas.core.lazy import lazy
from craton.pandas.core.view import IndexSpec, ObjectColumn, Value, View
from craton.plan.expr import Call, Literal, Values
from craton.plan.operators import Operator, schema
from craton.plan.sources import FileSource
from craton.records import dataclass
from craton.refusals import Refusal

Reader = Callable[[pa.Table], pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Template:
    """An empty frame that pandas made from a schema.

    Parameters
    ----------
    frame
        The empty frame.
    dtypes
        The pandas dtype of each stored column that is part of the frame, by its stored name.
    levels
        The stored names of the index columns.
    ranges
        The description of the index in the pandas metadata, if it is a RangeIndex.
    """

    frame: pd.DataFrame
    dtypes: dict[str, DtypeObj]
    levels: tuple[str, ...] = ()
    ranges: Mapping[str, Any] | None = field(default=None)


def template_of(schema: pa.Schema, read: Reader) -> Template:
    """The template of a schema.

    Parameters
    ----------
    schema
        The schema, with its pandas metadata if there is any.
    read
        Converts an empty table to a frame as pandas does when it reads the files.

    Raises
    ------
    Unsupported
        If pandas raises an error, the column labels are not unique strings, or the index has an unsupported form.
    """
    try:
        frame = read(schema.empty_table())
    except Exception as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if not frame.columns.is_unique or isinstance(frame.columns, pd.MultiIndex):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    dtypes: dict[str, DtypeObj] = {}
    for label, dtype in frame.dtypes.items():
        if not isinstance(label, str):
            raise Unsupported(Refusal.LABELS_NOT_STRINGS)
        dtypes[label] = dtype
    entries = (schema.pandas_metadata or {}).get("index_columns", [])
    if len(entries) > 1 and any(isinstance(entry, dict) for entry in entries):
        raise Unsupported(Refusal.FILE_INDEX)  # a range as one of several levels is not supported
    if isinstance(frame.index, pd.RangeIndex):
        ranges = next((entry for entry in entries if isinstance(entry, dict)), None)
        return Template(frame, dtypes, (), ranges)
    levels = tuple(entry for entry in entries if isinstance(entry, str))
    if len(levels) != frame.index.nlevels:
        raise Unsupported(Refusal.FILE_INDEX)
    for i, name in enumerate(levels):
        dtypes[name] = frame.index.get_level_values(i).dtype
    return Template(frame, dtypes, levels)


def requested_backend(backend: Any) -> str | None:
    """The ``dtype_backend`` of a reader; None if it is not given. An explicit None is an error, as in pandas.

    Raises
    ------
    Unsupported
        If the backend is unknown; pandas then raises the error.
    """
    if backend is pd.api.extensions.no_default:
        return None
    if not isinstance(backend, str) or backend not in ("numpy_nullable", "pyarrow"):
        raise Unsupported(Refusal.PARAMETER, f"dtype_backend={backend!r}")
    return backend


def stored_value(base: Operator, name: str, dtype: DtypeObj, missing: int | None) -> Value:
    """A column of a scan with the dtype that pandas would give it.

    Parameters
    ----------
    dtype
        The dtype in the template, which is that of a column without missing values.
    missing
        The number of missing values; ``None`` if it is not known.
    """
    column = base.column(name)
    nulls = missing is None or missing > 0
    if dtype == BOOL and nulls and missing is not None:
        return Value(ObjectColumn(column), OBJECT)
    if dtype == OBJECT and isinstance(column.dtype, (pl.Date, pl.Decimal)):
        return Value(ObjectColumn(column), OBJECT)
    expected = physical(dtype)
    if expected != column.dtype:
        raise Unsupported(Refusal.FILE_COLUMN, f"{name!r} of {column.dtype} as {dtype}")
    # pandas takes NaN for missing in every dtype but Arrow's.
    floating = column.dtype.is_float() and not isinstance(dtype, pd.ArrowDtype)
    if not nulls or with_missing(dtype) == dtype:
        return Value(column, dtype, nulls, nans=floating)
    if dtype.kind == "b":
        raise Unsupported(Refusal.FILE_BOOLEANS, repr(name))
    if missing is None:
        return Value(column, dtype, source=(base, name))
    promoted = with_missing(dtype)
    return Value(Call("cast", (column,), physical(promoted)), promoted)


def categorical_value(
    base: Operator, name: str, categories: pa.Array, dtype: pd.CategoricalDtype, missing: bool
) -> Value:
    """A categorical column of a scan: the codes of its values among known categories."""
    column = base.column(name)
    plain = column.dtype if not isinstance(column.dtype, (pl.Categorical, pl.Enum)) else pl.String()
    keys = pl.Series(categories.to_pylist(), dtype=plain)
    codes = Values.of(pl.Series(range(len(keys)), dtype=pl.Int32))
    return Value(Call("map_values", (column, Values.of(keys), codes), pl.Int32()), dtype, nulls=missing)


def stored_frame(cls: type, view: View, template: Template) -> Any:
    """A lazy frame of a view, with the ``attrs`` that were stored."""
    frame = lazy(cls, view)
    if template.frame.attrs:
        frame.attrs = copy.deepcopy(template.frame.attrs)  # templates are cached, so they must not share ``attrs``
    return frame


def stored_view(base: Operator, values: Mapping[str, Value], template: Template, rows: int | None) -> View:
    """The view of a scan, as a template describes it.

    Raises
    ------
    Unsupported
        If no column is stored, only the number of rows.
    """
    if not schema(base):
        raise Unsupported(Refusal.FILE_NO_COLUMNS)
    labels = template.frame.columns
    names = tuple(template.frame.index.names)
    columns = tuple(values[name] for name in labels)
    if template.levels:
        kind = "multi" if len(template.levels) > 1 else "labels"
        index = IndexSpec(kind, tuple(values[name] for name in template.levels), names)  # type: ignore[arg-type]
        return View(base, columns, labels, index, rows)
    entry = template.ranges
    view = View(base, columns, labels, IndexSpec("default", (), names), rows)
    if entry is None:
        return view
    if (
        len(range(entry["start"], entry["stop"], entry["step"])) != rows
    ):  # the range does not fit the number of rows: a default index
        return replace(view, index=IndexSpec())
    view = replace(view, index=IndexSpec("default", (), (entry["name"],)))
    if entry["start"] == 0 and entry["step"] == 1:
        return view
    view = view.numbered()
    (row,) = view.index.values
    start, step = Literal(entry["start"], pl.Int64()), Literal(entry["step"], pl.Int64())
    label = Call("add", (Call("mul", (row.expr, step), pl.Int64()), start), pl.Int64())
    return replace(view, index=replace(view.index, values=(replace(row, expr=label),)))


def physical_schema(frame: pl.LazyFrame) -> dict[str, pl.DataType]:
    """The columns of files and their types, as the kernel reads them.

    Raises
    ------
    Unsupported
        If the kernel cannot read the files.
    """
    try:
        return dict(frame.collect_schema())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise Unsupported(Refusal.FILE_KERNEL, error) from error


def refuse_if_changed(source: FileSource) -> None:
    """Refuse files that changed while a plan was built from them, so that pandas reads them.

    Raises
    ------
    Unsupported
        If a file changed.
    """
    try:
        source.held.check()
    except SourceChanged as error:
        raise Unsupported(Refusal.FILE_LOST) from error
