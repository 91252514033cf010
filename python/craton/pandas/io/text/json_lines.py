"""``read_json(lines=True)``: one flat JSON object a line, as a streaming scan with the dtypes that pandas infers.

pandas reads the first lines, which yields the expected dtypes. pyarrow's strict parser then reads the whole file once, and
so does the kernel's. Together they verify that all keys are known, that no object repeats a key, that the values under a key
have one kind, and that the kernel can parse every line. pandas reads the files that fail this check.
"""

from __future__ import annotations

import io
import json
import os
import re
from itertools import islice
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton import warning_filters
from craton.config import options as settings
from craton.errors import Unsupported
from craton.lower.json_lines import literal, scan_json_lines, scan_number_texts, scan_numbers
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.data_checks import collect
from craton.pandas.core.dtypes import BOOL, FLOAT64, INT64, STR, DtypeObj, physical
from craton.pandas.core.file_cache import memoised
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import is_file_pattern, native_function
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stored import refuse_if_changed
from craton.pandas.core.view import Value, View
from craton.pandas.io.locations import Location, locate
from craton.pandas.io.text.at_once import ROW_BYTES
from craton.pandas.io.text.csv_text import compression_of, open_text
from craton.pandas.values.times.dates_text import DATE_FORMATS, PATTERNS, all_values_are_dates, date_format_of
from craton.plan.expr import Call, Expr, Literal, options
from craton.plan.operators import Scan
from craton.plan.sources import FileSource, refuse_odd_names
from craton.records import dataclass
from craton.refusals import Refusal

_SAMPLE_ROWS = 200
_BLOCK = 4 << 20
#: The largest number of keys, absent from the first lines, whose order of appearance is searched for.
_MAX_LATE_KEYS = 50
#: The parameters, and their values, that a plan can follow.
_PLANNED: dict[str, tuple[Any, ...]] = {
    "lines": (True,),
    "orient": (None, "records", "columns"),
    "typ": ("frame",),
    "dtype": (None, True),
    "convert_axes": (None, True),
    "precise_float": (False,),
    "date_unit": (None,),
    "encoding": (None, "utf-8", "utf8"),
    "encoding_errors": (None, "strict"),
    "chunksize": (None,),
    "nrows": (None,),
    "compression": ("infer",),
    "storage_options": (None,),
    "engine": ("ujson",),
}
#: The dtype of each kind of value in pyarrow and in the kernel. A column of nulls only is read as one of numbers.
_ARROW = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_(), "null": pa.null()}
_KERNEL: dict[str, pl.DataType] = {
    "int": pl.Int64(),
    "float": pl.Float64(),
    "str": pl.String(),
    "bool": pl.Boolean(),
    "null": pl.Float64(),
}
_INFERRED = {pl.Int64(): "int", pl.Float64(): "float", pl.String(): "str", pl.Boolean(): "bool", pl.Null(): "null"}
#: pandas does not convert a column to dates if one of its numbers is this (a year in seconds) or less.
_LEAST_STAMP = 31_536_000
_MISSING_STAMP = -(2**63)
#: Matches a letter that occurs in no number, in "inf" or "nan" either.
_NEVER_A_NUMBER = "[b-dg-hj-mo-su-xzB-DG-HJ-MO-SU-XZ]"
_LINE_START = re.compile(rb"\n[^{]")


@native_function(pd.read_json, elsewhere=is_file_pattern)
def read_json(path_or_buf: Any, **given: Any) -> Any:
    """See :func:`pandas.read_json`."""
    no_default = pd.api.extensions.no_default
    given = {name: value for name, value in given.items() if value is not no_default}
    unplanned = [
        name
        for name, value in given.items()
        if not any(type(value) is type(one) and value == one for one in _PLANNED.get(name, ()))
    ]
    if unplanned or "lines" not in given:
        raise Unsupported(Refusal.PARAMETER, f"{', '.join(sorted(unplanned)) or 'lines=False, the default'}")
    location = locate(path_or_buf)
    if location.filesystem is not None or not isinstance(location.path, str):
        raise Unsupported(Refusal.FILE_NOT_LOCAL)
    path = location.path
    if compression_of(path) is not None:
        raise Unsupported(Refusal.FILE_COMPRESSION)
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if size < settings.small_rows * ROW_BYTES:
        with plain_pandas():
            return frame_class()(pd.read_json(path_or_buf, **given))
    return lazy(frame_class(), _view(path, lambda: pd.read_json(path_or_buf, **given)))


def _view(path: str, reopen: Any) -> View:
    held = Location(path).hold([path])
    records, sample = _sample(path)
    escapes = memoised(("json text", path, held.versions), lambda: _check_text(path))
    lines = _find_kinds(path, held.versions, records, escapes)
    labels = _labels([name for name, _ in lines.kinds])
    parsed = tuple(name for name, kind in lines.kinds if kind == "float")
    if any(json.dumps(name) != f'"{name}"' or "/" in name for name in parsed):
        raise Unsupported(Refusal.JSON_ESCAPES)
    statistics = memoised((lines, "statistics"), lambda: _file_statistics(lines, escapes))
    source = FileSource(
        tuple((name, _KERNEL[kind]) for name, kind in lines.kinds),
        "ndjson",
        (path,),
        held.versions,
        options(parsed=parsed),
        rows=statistics.rows,
        reopen=reopen,
        held=held,
    )
    base = Scan(source, tuple(name for name, _ in source.columns))
    values = tuple(_value(base, lines, statistics, name, kind, records, sample) for name, kind in lines.kinds)
    refuse_if_changed(source)
    return View(base, values, labels, rows=statistics.rows)


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file of flat objects.

    Parameters
    ----------
    path, version
        The file and its version, which changes with its content.
    kinds
        All keys in order of first appearance, each with the kind of its values.
    """

    path: str
    version: Any
    kinds: tuple[tuple[str, str], ...]

    def frame(self) -> pl.LazyFrame:
        """A scan that fails on a value of another kind."""
        return scan_json_lines(self.path, {name: _KERNEL[kind] for name, kind in self.kinds}, (), ())

    def text(self, field: str) -> pl.Expr:
        """The column of a key whose values are text."""
        return pl.col(field)


@dataclass(frozen=True, slots=True)
class _FileStatistics:
    """Counts over all lines of a file.

    Parameters
    ----------
    rows
        The number of lines.
    present
        For each key, the number of values that are not null.
    text_keys
        The keys of which at least one value is text that cannot be parsed as a number.
    extremes
        The least and the greatest value of each key of integers that may be dates; None without values.
    """

    rows: int
    present: dict[str, int]
    text_keys: frozenset[str]
    extremes: dict[str, tuple[int | None, int | None]]


def _sample(path: str) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """The objects in the first lines, and the frame that pandas reads from these lines.

    Raises
    ------
    Unsupported
        If pandas raises or warns, or a line is not an object.
    """
    with plain_pandas(), warning_filters.raising():
        try:
            with open(path, encoding="utf-8", newline="") as file:
                text = ",".join(islice(file, _SAMPLE_ROWS))
            records = pd.io.json.ujson_loads(f"[{text}]")
            sample = pd.read_json(path, lines=True, nrows=_SAMPLE_ROWS)
        except Exception as error:
            raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if not records or not all(type(record) is dict for record in records) or len(sample) != len(records):
        raise Unsupported(Refusal.JSON_NOT_OBJECTS)
    return records, sample


def _check_text(path: str) -> bool:
    r"""Check every byte of a file: each line must begin with a brace.

    Returns
    -------
    bool
        Whether the text has ``\u`` escapes, so that a key may be written in several ways.

    Raises
    ------
    Unsupported
        If a line, possibly an empty one, does not begin with a brace, or if the text is not UTF-8.
    """
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    tail, escapes = b"\n", False
    with open_text(path) as file:
        while block := file.read(_BLOCK):
            try:
                if not block.isascii() or decoder.getstate()[0]:
                    decoder.decode(block)
            except UnicodeDecodeError as error:
                raise Unsupported(Refusal.CSV_NOT_UTF8) from error
            data = tail + block
            if _LINE_START.search(data):
                raise Unsupported(Refusal.JSON_NOT_OBJECTS)
            escapes = escapes or b"\\u" in data
            tail = data[-1:]
    if decoder.getstate()[0]:
        raise Unsupported(Refusal.CSV_CUT_CHARACTER)
    return escapes


def _find_kinds(path: str, version: Any, records: list[dict[str, Any]], escapes: bool) -> _Lines:
    """The keys of a file, and the kinds of their values, verified for all lines.

    Raises
    ------
    Unsupported
        If the values of a key have several kinds or are nested, or if pyarrow and pandas may read the file differently.
    """
    expected = tuple(
        (name, _kind_of_key(name, records)) for name in dict.fromkeys(name for one in records for name in one)
    )

    def find() -> _Lines:
        found = _Lines(path, version, expected)
        try:
            _check_with_pyarrow(found)
        except pa.ArrowInvalid:
            found = _Lines(path, version, _infer_kinds(path, [name for name, _ in expected], escapes))
            try:
                _check_with_pyarrow(found)
            except pa.ArrowInvalid as error:
                raise Unsupported(Refusal.JSON_NOT_FLAT, error) from error
        return found

    return memoised(("json kinds", path, version, expected), find)  # type: ignore[no-any-return]


def _kind_of_key(name: str, records: list[dict[str, Any]]) -> str:
    found = {type(record[name]).__name__ for record in records if record.get(name) is not None}
    if found <= {"int"} or found == {"int", "float"}:
        found = {"float"} if "float" in found else found
    if len(found) > 1 or not found <= _ARROW.keys():
        raise Unsupported(Refusal.JSON_NESTED_KEY, repr(name))
    return found.pop() if found else "null"


def _infer_kinds(path: str, known: list[str], escapes: bool) -> tuple[tuple[str, str], ...]:
    """The keys and kinds that the kernel infers from all lines."""
    try:
        schema = pl.scan_ndjson(literal(path), infer_schema_length=None).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if any(dtype.is_nested() or dtype not in _INFERRED for dtype in schema.values()):
        raise Unsupported(Refusal.JSON_NESTED)
    names = [*known, *_order_of_appearance(path, [name for name in schema if name not in known], escapes)]
    return tuple((name, _INFERRED[schema[name]]) for name in names)


def _order_of_appearance(path: str, names: list[str], escapes: bool) -> list[str]:
    """The keys in order of their first appearance in the file.

    Raises
    ------
    Unsupported
        If a key may be written in several ways, or if there are more than ``_MAX_LATE_KEYS``.
    """
    if len(names) < 2:
        return names
    if escapes or len(names) > _MAX_LATE_KEYS or any(json.dumps(name) != f'"{name}"' or "/" in name for name in names):
        raise Unsupported(Refusal.JSON_LATE_KEYS)
    scan = pl.scan_lines(literal(path), name="line").with_row_index("row")
    firsts = [
        pl.col("row").filter(pl.col("line").str.contains(rf'"{pl.escape_regex(name)}"[ \t\r]*:')).min().alias(str(i))
        for i, name in enumerate(names)
    ]
    rows = sorted(
        {row for row in collect(scan.select(firsts), f"finding the keys in {path}").row(0) if row is not None}
    )
    lines = collect(scan.filter(pl.col("row").is_in(rows)).sort("row").select("line"), f"finding the keys in {path}")
    found = dict.fromkeys(key for line in lines.to_series() for key in json.loads(line))
    ordered = [key for key in found if key in names]
    if len(ordered) != len(names):
        raise Unsupported(Refusal.JSON_KEY_SPELLINGS)
    return ordered


def _check_with_pyarrow(lines: _Lines) -> None:
    """Have pyarrow read the file. It fails on an unknown key, a repeated key, and a value of another kind."""
    import pyarrow.json as pj

    refuse_odd_names(name for name, _ in lines.kinds)
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in lines.kinds])
    with pj.open_json(
        lines.path,
        read_options=pj.ReadOptions(block_size=_BLOCK),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    ) as batches:
        for _ in batches:
            pass


def _file_statistics(lines: _Lines, escapes: bool) -> _FileStatistics:
    """Have the kernel read the file, and count its values.

    Raises
    ------
    Unsupported
        If the kernel cannot read the file, or may read a number differently from pandas.
    """
    what = f"finding the types in {lines.path}"
    measures = [pl.len().alias("rows")]
    for name, kind in lines.kinds:
        column = pl.col(name)
        measures.append(column.count().alias(f"present {name}"))
        if kind == "float":
            measures.append(column.abs().max().alias(f"size {name}"))
        if kind == "str":
            measures.append(column.str.contains(_NEVER_A_NUMBER).any().alias(f"text {name}"))
        if kind == "int" and _is_date_name(name):
            measures += [column.min().alias(f"least {name}"), column.max().alias(f"most {name}")]
    row = collect(lines.frame().select(measures), what).row(0, named=True)
    parsed = [name for name, kind in lines.kinds if kind == "float"]
    if any((row[f"size {name}"] or 0) >= 9e18 for name in parsed):
        raise Unsupported(Refusal.JSON_BIG_NUMBERS)
    present = {name: row[f"present {name}"] for name, _ in lines.kinds}
    if escapes and parsed:  # a key may be written with escapes
        found = collect(scan_number_texts(lines.path, parsed).select(pl.all().count()), what).row(0, named=True)
        if any(found[name] != present[name] for name in parsed):
            raise Unsupported(Refusal.JSON_ESCAPES)
    text_keys = frozenset(name for name, kind in lines.kinds if kind == "str" and row[f"text {name}"])
    extremes = {
        name: (row[f"least {name}"], row[f"most {name}"])
        for name, kind in lines.kinds
        if kind == "int" and _is_date_name(name)
    }
    return _FileStatistics(row["rows"], present, text_keys, extremes)


def _labels(names: list[str]) -> pd.Index:
    """The column labels. pandas converts labels if all of them look like numbers or dates."""
    if not names:
        raise Unsupported(Refusal.JSON_NO_KEYS)
    line = json.dumps(dict.fromkeys(names)) + "\n"
    with plain_pandas(), warning_filters.raising():
        try:
            labels = pd.read_json(io.StringIO(line), lines=True).columns
        except Exception as error:
            raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if len(labels) != len(names) or not labels.is_unique:
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    return labels


def _value(
    base: Scan,
    lines: _Lines,
    statistics: _FileStatistics,
    name: str,
    kind: str,
    records: list[dict[str, Any]],
    sample: pd.DataFrame,
) -> Value:
    """The column of a key, in the dtype that pandas infers."""
    column = base.column(name)
    complete = statistics.present[name] == statistics.rows
    present_values = [record[name] for record in records if record.get(name) is not None]
    positions = list(dict.fromkeys(key for record in records for key in record))
    sampled: DtypeObj | None = sample.dtypes.iloc[positions.index(name)] if present_values else None
    if kind == "str":
        if _is_date_name(name) and sampled != STR:
            form = date_format_of(present_values)
            if str(sampled) != "datetime64[us]" or not all_values_are_dates(
                lines, name, PATTERNS[form], DATE_FORMATS[form]
            ):
                raise Unsupported(Refusal.DATES_NOT_ISO)
            assert sampled is not None
            parsed = Call("dt_parse", (column,), physical(sampled), options(format=DATE_FORMATS[form]))
            return Value(parsed, sampled, nulls=not complete)
        if pd.Series(["x"]).dtype != STR or (sampled != STR and name not in statistics.text_keys):
            raise Unsupported(Refusal.JSON_TEXT_NUMBERS)
        return Value(column, STR, nulls=not complete)
    if kind == "bool":
        if not complete or _is_date_name(name):
            raise Unsupported(Refusal.MISSING_BOOLEANS)
        return Value(column, BOOL, nulls=False)
    if kind == "int" and complete and _is_date_name(name):
        return _stamps(column, name, *statistics.extremes[name])
    if _is_date_name(name) and not any(_MISSING_STAMP < value <= _LEAST_STAMP for value in present_values):
        raise Unsupported(Refusal.JSON_DATES)
    if kind == "int" and complete:
        return Value(column, INT64, nulls=False)
    if kind == "int":
        return Value(Call("cast", (column,), pl.Float64()), FLOAT64)
    if kind == "float" and complete and sampled == INT64 and _all_integral(lines, name):
        return Value(Call("cast", (column,), pl.Int64()), INT64, nulls=False)
    return Value(column, FLOAT64, nulls=not complete)


def _stamps(column: Expr, name: str, least: int | None, most: int | None) -> Value:
    """A column of integers that pandas converts to dates, unless one of them is too small.

    The unit, seconds to nanoseconds, depends on the least and the greatest value only, so pandas is asked for the dates of these.
    """
    assert least is not None
    assert most is not None
    if _MISSING_STAMP < least <= _LEAST_STAMP:
        return Value(column, INT64, nulls=False)
    if least <= _LEAST_STAMP:
        raise Unsupported(Refusal.JSON_DATES)
    lines = "".join(json.dumps({name: number}) + "\n" for number in (least, most))
    with plain_pandas(), warning_filters.raising():
        try:
            dates = pd.read_json(io.StringIO(lines), lines=True).iloc[:, 0]
        except Exception as error:
            raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    factor = int(dates.astype("int64").iloc[0]) // least
    numbers = Call("mul", (column, Literal(factor, pl.Int64())), pl.Int64()) if factor != 1 else column
    return Value(Call("cast", (numbers,), physical(dates.dtype)), dates.dtype, nulls=False)


def _is_date_name(name: str) -> bool:
    """Whether pandas tries to parse a column of this name as dates."""
    lower = name.lower()
    return (
        lower.endswith(("_at", "_time")) or lower in ("modified", "date", "datetime") or lower.startswith("timestamp")
    )


def _all_integral(lines: _Lines, name: str) -> bool:
    """Whether all floats of a column are integral; pandas then returns integers.

    Raises
    ------
    Unsupported
        If some are so large (from 2**53 on) that rounding may have made them integral.
    """

    def compute() -> tuple[bool, float]:
        column = pl.col(name)
        found = scan_numbers(lines.path, [name]).select(
            (column == column.round()).all().alias("integral"), column.abs().max()
        )
        return collect(found, f"finding the types in {lines.path}").row(0)

    integral, size = memoised((lines, "integral", name), compute)
    if integral and size >= 2.0**53:
        raise Unsupported(Refusal.JSON_LARGE)
    return bool(integral)
