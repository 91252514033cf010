"""``read_csv``: delimited text as a streaming scan, with the dtypes that pandas infers from the whole file.

pandas reads the first rows, which yields the column labels, the index, and any error about parameters. A check of the bytes
(:mod:`craton.pandas.io.text.csv_text`) and a query over the text (:mod:`craton.pandas.io.text.csv_inference`) then determine the dtypes.
pandas reads files that fit into memory well (:mod:`craton.pandas.io.text.at_once`), and files that the kernel would split or
parse differently.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_integer

from craton import warning_filters
from craton.errors import Unsupported
from craton.lower.file_versions import Held
from craton.pandas.core.counterparts import as_craton, frame_class
from craton.pandas.core.dtypes import BOOL, FLOAT64, INT64, STR, DtypeObj, physical
from craton.pandas.core.file_cache import memoised
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import is_file_pattern, native_function
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stored import refuse_if_changed
from craton.pandas.core.view import IndexSpec, Value, View
from craton.pandas.indexing.row_labels import index_kind
from craton.pandas.io.locations import Location, locate
from craton.pandas.io.text.at_once import reads_at_once
from craton.pandas.io.text.csv_inference import (
    FieldStatistics,
    TextScan,
    chunk_rows,
    every_chunk_has_text,
    field_name,
    field_statistics,
)
from craton.pandas.io.text.csv_text import BYTE_ORDER_MARK, check_blank_lines, check_text, compression_of, text_blocks
from craton.pandas.values.dates_text import DATE_FORMATS, all_values_are_dates, date_format_of
from craton.plan.expr import Call, Expr, Literal, Values, options
from craton.plan.operators import Scan
from craton.plan.sources import FileSource
from craton.records import dataclass
from craton.refusals import Refusal

_SAMPLE_ROWS = 200
_PLANNED = {
    "sep", "delimiter", "header", "names", "index_col", "usecols", "dtype", "skiprows", "na_values", "keep_default_na",
    "parse_dates", "low_memory", "storage_options",
}  # fmt: skip
#: Parameters that are accepted only with these values, which do not change the plan.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "engine": (None, "c"),
    "compression": ("infer",),
    "encoding": (None, "utf-8", "utf8"),
    "skip_blank_lines": (True,),
    "na_filter": (True,),
    "memory_map": (True, False),
    "cache_dates": (True, False),
    "quotechar": ('"',),
    "quoting": (0,),
    "doublequote": (True,),
    "decimal": (".",),
    "on_bad_lines": ("error",),
    "encoding_errors": ("strict",),
    "skipinitialspace": (False,),
    "skipfooter": (0,),
    "dayfirst": (False,),
    "iterator": (False,),
}
_NONE_BY_DEFAULT = {name for name, parameter in signature(pd.read_csv).parameters.items() if parameter.default is None}
_NA = sorted(pd._libs.parsers.STR_NA_VALUES)  # type: ignore[attr-defined]


@native_function(pd.read_csv, elsewhere=is_file_pattern)
def read_csv(filepath_or_buffer: Any, **given: Any) -> Any:
    """See :func:`pandas.read_csv`."""
    return _read(filepath_or_buffer, given, ",", pd.read_csv)


@native_function(pd.read_table, elsewhere=is_file_pattern)
def read_table(filepath_or_buffer: Any, **given: Any) -> Any:
    """See :func:`pandas.read_table`."""
    return _read(filepath_or_buffer, given, "\t", pd.read_table)


def _read(path: Any, given: dict[str, Any], separator: str, base: Any) -> Any:
    no_default = pd.api.extensions.no_default
    given = {name: value for name, value in given.items() if value is not no_default}
    location = locate(path, given.get("storage_options"))
    if location.filesystem is not None or not isinstance(location.path, str):
        raise Unsupported(Refusal.FILE_NOT_LOCAL)
    local = location.path
    try:
        at_once = reads_at_once(local, given)
    except OSError as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if at_once:
        with plain_pandas():
            return as_craton(base(path, **given))
    unplanned = [name for name, value in given.items() if name not in _PLANNED and not _is_neutral(name, value)]
    unplanned += [
        name
        for name, value in given.items()
        if name in _PLANNED and value is None and name != "header" and name not in _NONE_BY_DEFAULT
    ]
    if unplanned:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(unplanned)))
    layout = _Layout.of(local, given, separator)
    return lazy(frame_class(), layout.view(lambda: base(path, **given)))


def _is_neutral(name: str, value: Any) -> bool:
    """Whether a parameter's value does not change the plan. ``None`` is such a value only if it is pandas' default."""
    if value is None and name in _NONE_BY_DEFAULT:
        return True
    if not isinstance(value, (str, int, bool, type(None))):
        return False
    return any(value is one or value == one for one in _NEUTRAL.get(name, ()))


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a CSV file, and its first rows as pandas reads them.

    Parameters
    ----------
    text
        The scan of all fields as text.
    held
        The file.
    raw
        All fields of the first rows, as text.
    sample
        The first rows, read with the user's parameters.
    fields, levels
        The field number of each column, and of each index level, of the sample.
    requested
        The dtypes that the user specified, by field.
    dates
        The fields that are parsed as dates.
    low_memory
        Whether pandas infers dtypes chunk by chunk.
    """

    text: TextScan
    held: Held
    raw: pd.DataFrame
    sample: pd.DataFrame
    fields: tuple[int, ...]
    levels: tuple[int, ...]
    requested: Mapping[int, DtypeObj]
    dates: frozenset[int]
    low_memory: bool

    @classmethod
    def of(cls, path: str, given: dict[str, Any], separator: str) -> _Layout:
        """Have pandas read the first rows, and derive the layout from them.

        Raises
        ------
        Unsupported
            If pandas must read the whole file because of the parameters or the text, or because reading fails.
        """
        separator = _separator(given, separator)
        if given.get("usecols") is not None and not isinstance(given.get("index_col"), (str, type(None))):
            raise Unsupported(Refusal.CSV_NUMBERED_INDEX)
        held = Location(path).hold([path])
        compression = compression_of(path)
        lines_before_rows = _lines_before_rows(path, given)
        shape: dict[str, Any] = {name: given[name] for name in ("header", "names", "skiprows") if name in given}
        plain: dict[str, Any] = {**shape, "sep": separator, "compression": compression, "nrows": _SAMPLE_ROWS}
        with plain_pandas(), warning_filters.raising():
            try:
                raw = pd.read_csv(path, **plain, dtype="object", na_filter=False)
                rest = {name: value for name, value in given.items() if name not in ("sep", "delimiter")}
                sample = pd.read_csv(path, **rest, sep=separator, nrows=_SAMPLE_ROWS)
            except Exception as error:
                raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
        if not isinstance(raw.index, pd.RangeIndex) or not len(sample) or isinstance(raw.columns, pd.MultiIndex):
            raise Unsupported(Refusal.CSV_UNNAMED_INDEX)
        missing = _missing_texts(given)
        properties = memoised(("text", path, held.versions, separator), lambda: check_text(path, separator))
        quotes = properties.quotes
        named: dict[str, Any] = {
            "separator": separator,
            "skip_lines": lines_before_rows,
            "null_values": missing,
            "quote_char": '"' if quotes else None,
        }
        if given.get("usecols") is not None:
            named["truncate_ragged_lines"] = True
        if quotes and "" not in missing:
            raise Unsupported(Refusal.CSV_EMPTY_FIELDS)
        text = TextScan(path, held.versions, raw.shape[1], options(**named), quotes, properties.blank_fields)
        fields, levels = _fields(raw.columns, sample, given)
        dates = _date_fields(given.get("parse_dates"), raw.columns, sample, fields, levels)
        requested = _requested_dtypes(given.get("dtype"), raw.columns, (*fields, *levels))
        return cls(text, held, raw, sample, fields, levels, requested, dates, bool(given.get("low_memory", True)))

    def view(self, reopen: Any) -> View:
        every = (*self.levels, *self.fields)
        dtypes = [*(level.dtype for level in _index_levels(self.sample.index)), *self.sample.dtypes][-len(every) :]
        expected_kinds = [
            "O" if field in self.dates else _expected_kind(self.requested.get(field, dtype))
            for field, dtype in zip(every, dtypes, strict=True)
        ]
        statistics, blank = field_statistics(self.text, every, expected_kinds)
        if blank:
            memoised((self.text.path, self.text.version, "blank"), lambda: check_blank_lines(self.text.path))
        rows = next(iter(statistics.values())).rows
        columns = {
            field: self._column(field, statistics[field], dtype) for field, dtype in zip(every, dtypes, strict=True)
        }
        physicals = [columns[field].physical if field in columns else pl.String() for field in range(self.text.fields)]
        source = FileSource(
            tuple((field_name(i), dtype) for i, dtype in enumerate(physicals)),
            "csv",
            (self.text.path,),
            self.held.versions,
            self.text.options,
            rows=rows,
            reopen=reopen,
            held=self.held,
        )
        refuse_if_changed(source)
        base = Scan(source, tuple(name for name, _ in source.columns))
        values = {field: column.value(base, field, self.text.quotes) for field, column in columns.items()}
        names = tuple(self.sample.index.names)
        index = IndexSpec("default", (), names)
        if self.levels:
            levels = tuple(values[field] for field in self.levels)
            has_dtype = len(levels) == 1 and self.levels[0] in self.requested  # then pandas does not make a RangeIndex
            index = IndexSpec("labels" if has_dtype else index_kind(levels), levels, names)
        return View(base, tuple(values[field] for field in self.fields), self.sample.columns, index, rows)

    def _column(self, field: int, statistics: FieldStatistics, sampled: DtypeObj) -> _Column:
        if field in self.dates:
            return self._date(field, statistics, sampled)
        if field in self.requested:
            return _requested_column(self.requested[field], statistics)
        column = _inferred_column(statistics)
        if column is None:
            if pd.Series(["x"]).dtype != STR:
                raise Unsupported(Refusal.TEXT_STORAGE)
            column = _Column(pl.String(), STR, not statistics.complete)
            absent = statistics.rows - statistics.present
            size = chunk_rows(self.text.fields)
            last = statistics.rows % size or size
            unsure = statistics.text_count < statistics.present or absent >= min(size, last, statistics.rows)
            if self.low_memory and unsure and not every_chunk_has_text(self.text, field):
                raise Unsupported(Refusal.CSV_CUT)
        if field in self.levels and column.dtype == BOOL:
            raise Unsupported(Refusal.CSV_BOOLEAN_LABELS)
        return column

    def _date(self, field: int, statistics: FieldStatistics, sampled: DtypeObj) -> _Column:
        if field in self.requested:
            raise Unsupported(Refusal.CSV_DATE_DTYPE)
        values = self.raw.iloc[:, field]
        form = date_format_of([value for value in values if value not in _NA])
        if str(sampled) != "datetime64[us]" or not all_values_are_dates(self.text, field, form):
            raise Unsupported(Refusal.DATES_NOT_ISO)
        return _Column(pl.String(), sampled, not statistics.complete, form)


@dataclass(frozen=True, slots=True)
class _Column:
    """The types of a column: as the kernel parses it, and as pandas returns it.

    Parameters
    ----------
    physical
        The dtype that the kernel parses.
    dtype
        The pandas dtype.
    nulls
        Whether values are missing.
    form
        The format of dates; ``None`` for other columns.
    """

    physical: pl.DataType
    dtype: DtypeObj
    nulls: bool
    form: str | None = None

    def value(self, base: Scan, field: int, quotes: bool) -> Value:
        """The column of a scan, converted to the pandas dtype."""
        expr: Expr = base.column(field_name(field))
        target = physical(self.dtype)
        if self.physical == pl.String() and quotes:
            present = Call("ne", (expr, Literal("", pl.String())), pl.Boolean())
            expr = Call("when", (present, expr, Literal(None, pl.String())), pl.String())
        if self.form is not None:
            expr = Call("dt_parse", (expr,), target, options(format=DATE_FORMATS[self.form]))
        elif target == pl.Boolean():
            expr = Call("is_in", (expr, Values.of(pl.Series(["True", "true", "TRUE"]))), target)
        elif self.physical != target:
            expr = Call("cast", (expr,), target)
        return Value(expr, self.dtype, self.nulls)


def _separator(given: dict[str, Any], default: str) -> str:
    delimiter = given.get("delimiter")
    if delimiter is not None and "sep" in given:  # pandas raises an error
        raise Unsupported(Refusal.PARAMETERS, "sep and delimiter")
    separator = given.get("sep", default) if delimiter is None else delimiter
    if not isinstance(separator, str) or len(separator) != 1 or ord(separator) > 127 or separator in '"\r\n \\':
        raise Unsupported(Refusal.CSV_SEPARATOR, repr(separator))
    return separator


def _lines_before_rows(path: str, given: dict[str, Any]) -> int:
    """The number of lines before the first row: skipped lines and the header."""
    skipped, header = given.get("skiprows") or 0, given.get("header", "infer")
    if header == "infer":
        header = 0 if given.get("names") is None else None
    for number in (skipped, header):
        if number is not None and (not is_integer(number) or number < 0):
            raise Unsupported(Refusal.PARAMETERS, "header and skiprows")
    lines = int(skipped) + (0 if header is None else int(header) + 1)
    head = next(text_blocks(path, 1 << 20), b"")
    *first, rest = head.split(b"\n", lines)
    if rest.startswith(BYTE_ORDER_MARK):  # the kernel would skip it
        raise Unsupported(Refusal.CSV_BYTE_ORDER_MARK)
    if len(first) < lines or any(line.count(b'"') % 2 or not line.strip() for line in first):
        raise Unsupported(Refusal.CSV_HEADER)
    return lines


def _missing_texts(given: dict[str, Any]) -> tuple[str, ...]:
    """The texts that are read as missing values."""
    extra = given.get("na_values")
    if extra is None:
        extra = []
    elif isinstance(extra, str):
        extra = [extra]
    elif not isinstance(extra, (list, tuple, set, frozenset)):
        raise Unsupported(Refusal.PARAMETER, "na_values")
    if not all(isinstance(text, str) and not _is_number(text) for text in extra):
        raise Unsupported(Refusal.CSV_MISSING_NUMBERS)
    default = _NA if given.get("keep_default_na", True) else []
    found = {*default, *extra}
    if "" not in found:
        raise Unsupported(Refusal.CSV_EMPTY_FIELDS)
    return tuple(sorted(found))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?inf(inity)?\s*", text, re.I) is not None


def _index_levels(index: pd.Index) -> list[pd.Index]:
    return [index.get_level_values(i) for i in range(index.nlevels)]


def _fields(labels: pd.Index, sample: pd.DataFrame, given: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The field numbers of the sample's columns, and of its index levels."""
    if not labels.is_unique or not sample.columns.is_unique or isinstance(sample.columns, pd.MultiIndex):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    fields = labels.get_indexer(sample.columns)
    if (fields < 0).any():
        raise Unsupported(Refusal.CSV_UNNAMED_COLUMNS)
    argument = given.get("index_col")
    if argument is None or argument is False:
        if argument is False or not isinstance(sample.index, pd.RangeIndex):
            raise Unsupported(Refusal.CSV_UNNAMED_INDEX)
        return tuple(map(int, fields)), ()
    keys = list(argument) if isinstance(argument, (list, tuple)) else [argument]
    levels = []
    for key in keys:
        if isinstance(key, str) and key in labels:
            levels.append(int(labels.get_loc(key)))
        elif isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(labels):
            levels.append(key)
        else:
            raise Unsupported(Refusal.PARAMETER, "index_col")
    if len(levels) != sample.index.nlevels or set(levels) & set(fields):
        raise Unsupported(Refusal.PARAMETER, "index_col")
    return tuple(map(int, fields)), tuple(levels)


def _date_fields(
    argument: Any, labels: pd.Index, sample: pd.DataFrame, fields: tuple[int, ...], levels: tuple[int, ...]
) -> frozenset[int]:
    if argument is None or argument is False:
        return frozenset()
    if argument is True:
        return frozenset(levels)
    if not isinstance(argument, (list, tuple)):
        raise Unsupported(Refusal.PARAMETER, "parse_dates")
    found = set()
    for key in argument:
        if not isinstance(key, str) or key not in labels:
            raise Unsupported(Refusal.PARAMETER, "parse_dates")
        found.add(int(labels.get_loc(key)))
    if not found <= {*fields, *levels}:
        raise Unsupported(Refusal.CSV_DATE_UNREAD)
    return frozenset(found)


def _requested_dtypes(argument: Any, labels: pd.Index, fields: tuple[int, ...]) -> dict[int, DtypeObj]:
    if argument is None:
        return {}
    if not isinstance(argument, dict):
        try:
            every: DtypeObj = pd.api.types.pandas_dtype(argument)
        except TypeError as error:
            raise Unsupported(Refusal.DTYPE_UNKNOWN) from error
        return {field: every for field in fields}  # noqa: C420 - mypy finds no key type in fromkeys
    if type(argument) is not dict:
        raise Unsupported(Refusal.CSV_DTYPE_DEFAULT)
    if any(_base_label(label) in argument and label not in argument for label in labels):
        raise Unsupported(Refusal.CSV_DTYPE_REPEATED)
    found: dict[int, DtypeObj] = {}
    for label, dtype in argument.items():
        if not isinstance(label, Hashable) or label not in labels:
            raise Unsupported(Refusal.CSV_DTYPE_COLUMN)
        try:
            found[int(labels.get_loc(label))] = pd.api.types.pandas_dtype(dtype)
        except TypeError as error:
            raise Unsupported(Refusal.DTYPE_UNKNOWN) from error
    return {field: dtype for field, dtype in found.items() if field in fields}


def _base_label(label: Any) -> str | None:
    """The label ``a`` if the label is ``a.1``, which pandas may have given to the second of two columns ``a``; otherwise None."""
    base, point, number = str(label).rpartition(".")
    return base if point and number.isdecimal() else None


def _expected_kind(dtype: DtypeObj) -> str:
    if isinstance(dtype, pd.StringDtype):
        return "O"
    kind = dtype.kind
    return {"u": "i"}.get(kind, kind) if kind in "iufb" else "O"


def _inferred_column(statistics: FieldStatistics) -> _Column | None:
    """The column that pandas infers; ``None`` for text."""
    if statistics.ambiguous:
        raise Unsupported(Refusal.CSV_NUMBERS)
    if statistics.numbers == statistics.present:
        if statistics.integers == statistics.present and statistics.complete:
            return _Column(pl.Int64(), INT64, False)
        return _Column(pl.Float64(), FLOAT64, not statistics.complete)
    if statistics.booleans == statistics.present:
        if statistics.complete:
            return _Column(pl.String(), BOOL, False)
        raise Unsupported(Refusal.MISSING_BOOLEANS)
    return None


def _requested_column(dtype: DtypeObj, statistics: FieldStatistics) -> _Column:
    """The column in the dtype that the user specified."""
    if isinstance(dtype, pd.StringDtype):
        return _Column(pl.String(), dtype, not statistics.complete)
    if statistics.ambiguous:
        raise Unsupported(Refusal.CSV_NUMBERS)
    masked = isinstance(dtype, pd.api.extensions.ExtensionDtype)
    plain = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(plain, np.dtype) or isinstance(dtype, pd.ArrowDtype):
        raise Unsupported(Refusal.CSV_DTYPE, dtype)
    if plain.kind in "iu":
        bounds = np.iinfo(plain)
        inside = statistics.low is None or (statistics.low >= bounds.min and (statistics.high or 0) <= bounds.max)
        if statistics.integers != statistics.present or not inside or not (statistics.complete or masked):
            raise Unsupported(Refusal.NUMBERS_TEXT, dtype)
        return _Column(pl.Int64(), dtype, not statistics.complete)
    if plain.kind == "f" and statistics.numbers == statistics.present:
        return _Column(pl.Float64(), dtype, not statistics.complete)
    if plain.kind == "b" and statistics.booleans == statistics.present and (statistics.complete or masked):
        return _Column(pl.String(), dtype, not statistics.complete)
    raise Unsupported(Refusal.CSV_DTYPE, dtype)
