"""``to_csv`` and ``to_json(lines=True)``: streaming writers of exactly the text that pandas writes.

pandas formats CSV in chunks, and the format of a date depends on the other dates of its chunk, so chunks here have the same
boundaries. The kernel formats the dtypes for which its text equals pandas' text; pandas formats the other columns, one chunk of a
column at a time.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import infer_dtype
from pandas.core.indexes.base import get_values_for_csv
from pandas.io.common import get_handle

from craton import warning_filters
from craton.errors import Unsupported
from craton.pandas.core.array_conversion import to_array
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.dtypes import OBJECT, STR, DtypeObj, family, is_float, kind_of
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.core.view import IndexSpec, Value
from craton.pandas.io.output_rows import OutputRows, batch_to_frame, output_rows, write_batches
from craton.pandas.values.lists.text_objects import as_strings, holds_text
from craton.refusals import Refusal

#: The number of fields in a chunk of CSV, as in pandas, and of rows in a chunk of JSON lines.
_CHUNK_FIELDS = 100_000
_JSON_ROWS = 50_000
#: Separators that do not occur in numbers, dates and booleans, which are therefore never quoted.
_PLAIN_SEPARATORS = frozenset(",;\t|")
_FORMATS = {
    "na_rep",
    "float_format",
    "date_format",
    "quoting",
    "quotechar",
    "lineterminator",
    "doublequote",
    "escapechar",
    "decimal",
}
_OPTIONS = _FORMATS | {
    "sep",
    "columns",
    "header",
    "index",
    "index_label",
    "mode",
    "encoding",
    "compression",
    "chunksize",
    "errors",
}


def write_csv(frame: Any, path: Any, given: dict[str, Any]) -> str | None:
    """Write a frame as delimited text; return the text if ``path`` is ``None``.

    Raises
    ------
    Unsupported
        If pandas must write the frame. It is raised before anything is written.
    """
    if unknown := given.keys() - _OPTIONS:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(unknown)))
    if given.get("mode", "w") != "w":
        raise Unsupported(Refusal.PARAMETER, f"mode={given['mode']!r}")
    size = given.get("chunksize")
    if size is not None and (type(size) is not int or size < 1):
        raise Unsupported(Refusal.PARAMETER, f"chunksize={size!r}")
    if path is None and given.get("compression") not in (None, "infer"):
        raise Unsupported(Refusal.WRITE_COMPRESSED_TEXT)
    columns = given.get("columns")
    if columns is not None:
        if (
            not isinstance(columns, list)
            or isinstance(frame.columns, pd.MultiIndex)
            or not frame.columns.is_unique
            or any(one not in frame.columns for one in columns)
        ):
            raise Unsupported(Refusal.WRITE_COLUMNS)
        frame = frame[columns]
    index = given.get("index", True)
    if not isinstance(index, bool):
        raise Unsupported(Refusal.PARAMETER, f"index={index!r}")
    rows = output_rows(_with_strings(frame), index=index)
    _refuse_labels(rows.view.index, given)
    options = {key: value for key, value in given.items() if key in _FORMATS or key in ("sep", "index", "encoding")}
    try:
        head = rows.template.to_csv(
            None, **{k: v for k, v in given.items() if k not in ("columns", "compression", "chunksize")}
        )
    except Exception as error:
        raise Unsupported(Refusal.WRITE_FOR_PANDAS, error) from error
    width = len(rows.view.values)
    size = size or _CHUNK_FIELDS // width or 1
    text = _CsvFormatter(rows, options) if _is_default_dialect(rows, options) else None
    start = 0

    def write_to(write: Callable[[str], Any]) -> None:
        def chunk(batch: pl.DataFrame) -> None:
            nonlocal start
            if text is not None:
                write(text.chunk(batch, start))
            else:
                part = batch_to_frame(rows, batch, start)
                write(part.to_csv(None, header=False, chunksize=len(part), **options))
            start += batch.height

        write(head)
        write_batches(rows, chunk, size)

    return _write_text(path, write_to, given)


def _with_strings(frame: Any) -> Any:
    """The frame with columns of strings in place of Python objects that are strings, which are written alike."""
    if is_lazy(frame):
        held = view(frame)
        if not any(map(holds_text, held.values)):
            return frame
        values = [as_strings(value) if holds_text(value) else value for value in held.values]
        return lazy(type(frame), held.with_values(values), frame)
    if not isinstance(frame, pd.DataFrame) or OBJECT not in set(frame.dtypes):
        return frame
    with plain_pandas():
        arrays = [frame._ixs(i, axis=1)._values for i in range(frame.shape[1])]
        texts = {i: _as_texts(array) for i, array in enumerate(arrays) if array.dtype == OBJECT}
        found = {i: array for i, array in texts.items() if array is not None}
        if not found:
            return frame
        made = pd.DataFrame({i: found.get(i, array) for i, array in enumerate(arrays)}, index=frame.index, copy=False)
        made.columns = frame.columns
    return as_craton(made)


def _as_texts(objects: Any) -> Any:
    """Python objects as an array of strings; None if another object than a string is not missing."""
    if infer_dtype(objects, skipna=True) != "string":
        return None
    try:
        return pd.array(np.asarray(objects, dtype=object), dtype=STR)
    except (ValueError, TypeError, UnicodeError):  # half a surrogate pair
        return None


def _refuse_labels(index: IndexSpec, given: dict[str, Any]) -> None:
    """Refuse row labels that pandas does not format chunk by chunk, as it formats columns.

    It formats a level of a MultiIndex as a whole, so that the format of a date depends on those of other chunks. With ``date_format``,
    the missing labels of a DatetimeIndex are empty, whatever ``na_rep`` is.
    """
    if not any(map(_has_dates, index.values)):
        return
    if index.kind == "multi" or (given.get("date_format") is not None and given.get("na_rep", "") != ""):
        raise Unsupported(Refusal.WRITE_DATES_TOGETHER)


def _has_dates(labels: Value) -> bool:
    dtype = labels.dtype
    return kind_of(dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype) in "mM"


def write_json_lines(frame: Any, path: Any, given: dict[str, Any]) -> str | None:
    """Write a frame as one JSON object per line; return the text if ``path`` is ``None``.

    Raises
    ------
    Unsupported
        If pandas must write the frame. It is raised before anything is written.
    """
    rows = output_rows(frame, index=False)
    if any(kind_of(value.dtype) in "mM" for value in view(frame).index.values):
        raise Unsupported(Refusal.WRITE_DATES_AS_LABELS)
    options = {key: value for key, value in given.items() if key not in ("compression", "mode", "storage_options")}
    try:
        rows.template.to_json(None, **options)
    except Exception as error:
        raise Unsupported(Refusal.WRITE_FOR_PANDAS, error) from error
    written = 0

    def write_to(write: Callable[[str], Any]) -> None:
        def chunk(batch: pl.DataFrame) -> None:
            nonlocal written
            with warning_filters.ignoring():  # the template has warned
                write(batch_to_frame(rows, batch, written).to_json(None, **options))
            written += batch.height

        write_batches(rows, chunk, _JSON_ROWS)
        if not written:
            with warning_filters.ignoring():
                write(rows.template.to_json(None, **options))

    return _write_text(path, write_to, given)


def _write_text(path: Any, write_to: Callable[[Callable[[str], Any]], None], given: dict[str, Any]) -> str | None:
    if path is None:
        parts: list[str] = []
        write_to(parts.append)
        return "".join(parts)
    named = {key: given[key] for key in ("encoding", "errors", "compression") if key in given}
    named.setdefault("compression", "infer")
    with get_handle(path, "w", **named) as handles:
        write_to(handles.handle.write)
    return None


def _is_default_dialect(rows: OutputRows, options: dict[str, Any]) -> bool:
    """Whether the kernel writes the lines: in pandas' default CSV dialect, with more than one field per row."""
    defaults = {
        "float_format": (None,),
        "quoting": (None, csv.QUOTE_MINIMAL),
        "quotechar": ('"',),
        "doublequote": (True,),
        "escapechar": (None,),
        "decimal": (".",),
        "lineterminator": (None, "\n"),
    }
    if os.linesep != "\n" or any(options.get(key, known[0]) not in known for key, known in defaults.items()):
        return False
    missing = options.get("na_rep", "")
    if options.get("sep", ",") not in _PLAIN_SEPARATORS or not isinstance(missing, str):
        return False
    fields = len(rows.values) + (options.get("index", True) and rows.view.index.kind == "default")
    return fields > 1


class _CsvFormatter:
    """Formats chunks of rows as lines of CSV."""

    def __init__(self, rows: OutputRows, options: dict[str, Any]) -> None:
        self._rows = rows
        self._separator: str = options.get("sep", ",")
        missing = options.get("na_rep", "")
        quoted = _quoted_characters(self._separator)
        special = set(missing) & set(quoted)
        self._missing = '"' + missing.replace('"', '""') + '"' if special else missing
        self._numbered = bool(options.get("index", True)) and rows.view.index.kind == "default"
        self._special = f"[{''.join(pl.escape_regex(character) for character in quoted)}]"
        self._formats = {
            "na_rep": missing,
            "float_format": None,
            "date_format": options.get("date_format"),
            "quoting": csv.QUOTE_MINIMAL,
            "decimal": ".",
        }

    def chunk(self, batch: pl.DataFrame, start: int) -> str:
        """The lines of a batch; ``start`` is the number of rows before it."""
        columns = [
            self._column(batch.get_column(name), value.dtype)
            for name, value in zip(self._rows.names, self._rows.values, strict=True)
        ]
        if self._numbered:
            columns.insert(0, pl.Series(np.arange(start, start + batch.height)).cast(pl.String))
        frame = pl.DataFrame([column.rename(str(i)) for i, column in enumerate(columns)])
        return frame.write_csv(
            include_header=False, separator=self._separator, null_value=self._missing, quote_style="never"
        )

    def _column(self, column: pl.Series, dtype: DtypeObj) -> pl.Series:
        if column.dtype.is_integer() and not isinstance(dtype, pd.CategoricalDtype):
            return column.cast(pl.String)
        if column.dtype == pl.Boolean():
            return column.cast(pl.Int8).replace_strict([0, 1], ["False", "True"], return_dtype=pl.String)
        if column.dtype == pl.String() and not isinstance(dtype, pd.CategoricalDtype):
            return self._quoted(column)
        if is_float(dtype) and column.dtype == pl.Float64():  # NumPy formats narrower floats by other rules
            return _format_floats(column)
        if isinstance(column.dtype, pl.Datetime) and self._formats["date_format"] is None and family(dtype) == "numpy":
            dates = _format_dates(column) if column.dtype.time_zone in (None, "UTC") else None
            if dates is not None:
                return dates
        values = get_values_for_csv(pd.Series(to_array(column, dtype), copy=False).array, **self._formats)
        texts = pl.Series([str(value) for value in np.asarray(values, dtype=object)], dtype=pl.String)
        if column.null_count():
            texts = pl.select(pl.when(~column.is_null()).then(texts)).to_series()
        return self._quoted(texts)

    def _quoted(self, column: pl.Series) -> pl.Series:
        special = column.str.contains(self._special)
        if not special.any():
            return column
        quoted = '"' + column.str.replace_all('"', '""', literal=True) + '"'
        return pl.select(pl.when(special).then(quoted).otherwise(column)).to_series()


@lru_cache
def _quoted_characters(separator: str) -> str:
    """The characters that make Python's csv module quote a field. Its versions differ in the lone carriage return."""

    def quotes(character: str) -> bool:
        text = io.StringIO()
        csv.writer(text, delimiter=separator, lineterminator="\n").writerow([f"x{character}", "x"])
        return text.getvalue().startswith('"')

    return "".join(filter(quotes, (separator, '"', "\n", "\r")))


def _format_floats(column: pl.Series) -> pl.Series:
    """Format floats as Python does: with an exponent below 1e-4 and from 1e16 on."""
    texts = column.cast(pl.String)
    size = column.abs()
    needs_exponent = (size >= 1e16) & size.is_finite() | (size < 1e-4) & (column != 0)
    if needs_exponent.any():
        rows = needs_exponent.fill_null(False).arg_true()
        texts = texts.scatter(rows, pl.Series(column.gather(rows).to_numpy().astype(str).tolist(), dtype=pl.String))
    return texts


def _format_dates(column: pl.Series) -> pl.Series | None:
    """Format dates without a zone or in UTC; None unless all have four-digit years and no fractions of seconds.

    As in pandas, the time of day is left out if all dates are at midnight. Those in UTC are then left to pandas.
    """
    present = column.drop_nulls()
    if not len(present) or present.dt.year().min() < 1000 or present.dt.year().max() > 9999:  # type: ignore[operator]
        return None
    zone = "" if column.dtype.time_zone is None else "+00:00"  # type: ignore[attr-defined]
    if (present == present.dt.truncate("1d")).all():
        return None if zone else column.dt.strftime("%Y-%m-%d")
    if (present == present.dt.truncate("1s")).all():
        return column.dt.strftime(f"%Y-%m-%d %H:%M:%S{zone}")
    return None
