"""``read_csv``: delimited text as a streaming scan, with the dtypes that pandas infers from the whole file.

pandas reads the first rows, which yields the column labels, the index, and any error about parameters. A check of the bytes
(:mod:`craton.pandas.io.text.csv_text`) and a query over the text (:mod:`craton.pandas.io.text.csv_inference`) then determine the dtypes.
pandas reads files that fit into memory well (:mod:`craton.pandas.io.text.at_once`), and files that the kernel would split or
parse differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import polars as pl
from pandas.tseries.api import guess_datetime_format

from craton import warning_filters
from craton.errors import Unsupported
from craton.lower.file_versions import Held
from craton.pandas.core.counterparts import as_craton, frame_class
from craton.pandas.core.data_checks import collect
from craton.pandas.core.dtypes import BOOL, DtypeObj
from craton.pandas.core.file_cache import memoised
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import is_file_pattern, native_function
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stored import refuse_if_changed, requested_backend
from craton.pandas.core.view import IndexSpec, View
from craton.pandas.indexing.row_labels import index_kind
from craton.pandas.io.locations import Location, locate
from craton.pandas.io.text.at_once import reads_at_once
from craton.pandas.io.text.csv_columns import CsvColumn, backend_dtypes, inferred_column, requested_column
from craton.pandas.io.text.csv_inference import (
    FieldStatistics,
    TextScan,
    chunk_rows,
    every_chunk_has_text,
    field_name,
    field_statistics,
)
from craton.pandas.io.text.csv_parameters import (
    Dialect,
    Missing,
    check_compression,
    check_start,
    date_fields,
    dialect_of,
    fields_of,
    lines_before_rows,
    missing_of,
    notation_of,
    pattern_of_format,
    refuse_unplanned,
    requested_dtypes,
)
from craton.pandas.io.text.csv_text import check_blank_lines, check_text
from craton.pandas.values.times.dates_text import DATE_FORMATS, PATTERNS, all_values_are_dates, date_format_of
from craton.plan.expr import options
from craton.plan.operators import Scan
from craton.plan.sources import FileSource
from craton.records import dataclass
from craton.refusals import Refusal

_SAMPLE_ROWS = 200


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
    refuse_unplanned(given)
    layout = _Layout.of(local, given, separator)
    return lazy(frame_class(), layout.view(lambda: base(path, **given)))


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
        The fields that are parsed as dates, and their formats; None for a format that pandas guesses.
    inferred
        The dtypes that pandas gives inferred columns, by kind.
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
    dates: Mapping[int, str | None]
    inferred: Mapping[str, DtypeObj]
    low_memory: bool

    @classmethod
    def of(cls, path: str, given: dict[str, Any], separator: str) -> _Layout:
        """Have pandas read the first rows, and derive the layout from them.

        Raises
        ------
        Unsupported
            If pandas must read the whole file because of the parameters or the text, or because reading fails.
        """
        dialect = dialect_of(given, separator)
        backend = requested_backend(given.get("dtype_backend", pd.api.extensions.no_default))
        missing = missing_of(given)
        held = Location(path).hold([path])
        check_compression(path, given)
        check_start(path, dialect)
        skipped = lines_before_rows(path, given, dialect)
        raw, sample = _first_rows(path, given, dialect)
        text = _text_scan(path, given, dialect, missing, held, raw, skipped)
        _check_first_rows(text, raw, missing)
        fields, levels = fields_of(raw.columns, sample, given)
        dates = date_fields(given, raw.columns, fields, levels)
        requested = requested_dtypes(given.get("dtype"), raw.columns, (*fields, *levels))
        if backend is not None and (levels or dates or requested):
            raise Unsupported(Refusal.PARAMETER, "dtype_backend beside index_col, parse_dates or dtype")
        inferred = backend_dtypes(backend)
        low_memory = bool(given.get("low_memory", True))
        return cls(text, held, raw, sample, fields, levels, requested, dates, inferred, low_memory)

    def view(self, reopen: Any) -> View:
        """The view of a scan of the file."""
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
        physicals = [
            columns[field].scanned(self.text, field) if field in columns else pl.String()
            for field in range(self.text.fields)
        ]
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
        values = {field: column.value(base, self.text, field) for field, column in columns.items()}
        names = tuple(self.sample.index.names)
        index = IndexSpec("default", (), names)
        if self.levels:
            levels = tuple(values[field] for field in self.levels)
            has_dtype = len(levels) == 1 and self.levels[0] in self.requested  # then pandas does not make a RangeIndex
            index = IndexSpec("labels" if has_dtype else index_kind(levels), levels, names)
        return View(base, tuple(values[field] for field in self.fields), self.sample.columns, index, rows)

    def _column(self, field: int, statistics: FieldStatistics, sampled: DtypeObj) -> CsvColumn:
        if field in self.dates:
            return self._date(field, statistics, sampled)
        if field in self.requested:
            return requested_column(self.requested[field], statistics)
        column = inferred_column(statistics, self.inferred)
        if column.dtype == self.inferred["s"]:
            absent = statistics.rows - statistics.present
            size = chunk_rows(self.text.fields)
            last = statistics.rows % size or size
            unsure = statistics.text_count < statistics.present or absent >= min(size, last, statistics.rows)
            if self.low_memory and unsure and not every_chunk_has_text(self.text, field):
                raise Unsupported(Refusal.CSV_CUT)
        if field in self.levels and column.dtype == BOOL:
            raise Unsupported(Refusal.CSV_BOOLEAN_LABELS)
        return column

    def _date(self, field: int, statistics: FieldStatistics, sampled: DtypeObj) -> CsvColumn:
        if field in self.requested:
            raise Unsupported(Refusal.CSV_DATE_DTYPE)
        missing = dict(self.text.options)["null_values"] or ()
        pattern, form = date_form(
            self.dates[field], [value for value in self.raw.iloc[:, field] if value not in missing]
        )
        if str(sampled) != "datetime64[us]" or not all_values_are_dates(self.text, field, pattern, form):
            raise Unsupported(Refusal.DATES_NOT_ISO)
        return CsvColumn(pl.String(), sampled, not statistics.complete, form)


def _first_rows(path: str, given: dict[str, Any], dialect: Dialect) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All fields of the first rows as text, and the frame that pandas reads from these rows.

    Raises
    ------
    Unsupported
        If pandas raises or warns, or finds an index that the header does not name, or no rows.
    """
    shape = {
        name: given[name]
        for name in ("header", "names", "skiprows", "comment", "quotechar", "quoting", "encoding", "compression")
        if name in given
    }
    rest = {name: value for name, value in given.items() if name not in ("sep", "delimiter", "nrows")}
    with plain_pandas(), warning_filters.raising():
        try:
            raw = pd.read_csv(path, **shape, sep=dialect.separator, nrows=_SAMPLE_ROWS, dtype="object", na_filter=False)
            sample = pd.read_csv(path, **rest, sep=dialect.separator, nrows=_SAMPLE_ROWS)
        except Exception as error:
            raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if not isinstance(raw.index, pd.RangeIndex) or not len(sample) or isinstance(raw.columns, pd.MultiIndex):
        raise Unsupported(Refusal.CSV_UNNAMED_INDEX)
    return raw, sample


def _text_scan(
    path: str,
    given: Mapping[str, Any],
    dialect: Dialect,
    missing: Missing,
    held: Held,
    raw: pd.DataFrame,
    skipped: int,
) -> TextScan:
    properties = memoised(
        ("text", path, held.versions, dialect),
        lambda: check_text(path, dialect.separator, dialect.quote, dialect.comment),
    )
    if dialect.ascii_only and not properties.is_ascii:
        raise Unsupported(Refusal.CSV_NOT_ASCII)
    named: dict[str, Any] = {
        "separator": dialect.separator,
        "skip_lines": skipped,
        "null_values": tuple(sorted(missing.texts)) or None,
        "quote_char": dialect.quote if properties.quotes else None,
    }
    empty_is_text = "" not in missing.texts
    more = {
        int(raw.columns.get_loc(label)): texts
        for label, texts in missing.more.items()
        if label in raw.columns and texts
    }
    if empty_is_text:
        named |= {"null_values": None, "empty_string_is_null": False}
        more = dict.fromkeys(range(raw.shape[1]), missing.texts) if missing.texts else {}
    if given.get("usecols") is not None:
        named["truncate_ragged_lines"] = True
    return TextScan(
        path,
        held.versions,
        raw.shape[1],
        options(**named),
        properties.quotes,
        properties.blank_fields,
        notation_of(given, dialect),
        empty_is_text,
        tuple((field, tuple(sorted(texts))) for field, texts in more.items()),
        tuple(sorted(missing.numbers)),
    )


def _check_first_rows(scan: TextScan, raw: pd.DataFrame, missing: Missing) -> None:
    """Compare the fields of the first rows, as the kernel splits the text, with pandas'.

    Raises
    ------
    Unsupported
        If they differ.
    """
    found = collect(scan.frame().head(len(raw)), f"reading the first rows of {scan.path}")
    missing_texts = {None, "", *missing.texts}
    for i in range(scan.fields):
        pairs = zip(found.to_series(i).to_list(), raw.iloc[:, i], strict=False)
        if found.height != len(raw) or any(ours != text and {ours, text} - missing_texts for ours, text in pairs):
            raise Unsupported(Refusal.CSV_SPLIT)


def date_form(given: str | None, texts: Sequence[str]) -> tuple[str, str]:
    """A pattern of the dates of a column, and the kernel's format for them.

    Parameters
    ----------
    given
        The format that the user specified; None for the one that pandas guesses from the first date.
    texts
        The first texts that are not missing.

    Raises
    ------
    Unsupported
        If there are no dates, or the kernel does not parse the format as pandas does.
    """
    if given is None:
        try:
            iso = date_format_of(texts)
        except Unsupported:
            given = guess_datetime_format(texts[0]) if texts else None
            if given is None:
                raise
        else:
            return PATTERNS[iso], DATE_FORMATS[iso]
    return pattern_of_format(given), given


def _index_levels(index: pd.Index) -> list[pd.Index]:
    return [index.get_level_values(i) for i in range(index.nlevels)]


def _expected_kind(dtype: DtypeObj) -> str:
    if isinstance(dtype, pd.StringDtype):
        return "O"
    kind = dtype.kind
    return {"u": "i"}.get(kind, kind) if kind in "iufb" else "O"
