"""Infers the dtype that pandas gives each column of a CSV file, with one streaming query over the file's text.

pandas converts a column in chunks (of rows in its serial reader, of bytes in its parallel reader) and concatenates the
chunks. A column is planned only if its dtype does not depend on the chunk boundaries; pandas reads the other files.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from craton.kernel.run import run_all
from craton.pandas.core.data_checks import collect
from craton.pandas.core.file_cache import memoised
from craton.records import dataclass

_BOOLEANS = ["True", "true", "TRUE", "False", "false", "FALSE"]
#: pandas ignores the case of booleans.
_ANY_BOOLEANS = [
    "".join(letters) for word in ("true", "false") for letters in itertools.product(*((c, c.upper()) for c in word))
]
_DIGITS = r"^\s*[+-]?[0-9]{19,}\s*$"
#: The names of the aggregates of a field's text.
_MEASURES = ("present", "integers", "numbers", "booleans", "low", "high", "nans", "padded", "long", "suspects")


@dataclass(frozen=True, slots=True)
class Notation:
    """How numbers and booleans are written.

    Parameters
    ----------
    decimal
        The decimal point.
    thousands
        The separator of thousands; None if there is none.
    trues, falses
        Texts of booleans beside those that pandas always reads as booleans.
    """

    decimal: str
    thousands: str | None
    trues: tuple[str, ...]
    falses: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether the kernel's parser reads the numbers as they are written."""
        return self.decimal == "." and self.thousands is None

    @property
    def booleans(self) -> list[str]:
        """The texts of booleans that are compared as they are written."""
        return [*_BOOLEANS, *self.trues, *self.falses]

    def number(self, text: pl.Expr) -> pl.Expr:
        """The text of a number as the kernel's parser reads it."""
        if self.thousands is not None:
            text = text.str.replace_all(self.thousands, "", literal=True)
        if self.decimal != ".":
            plain = ~text.str.contains(".", literal=True)
            text = pl.when(plain).then(text.str.replace(self.decimal, ".", literal=True))
        return text

    def is_odd(self, text: pl.Expr) -> pl.Expr:
        """Whether the kernel's parser, but perhaps not pandas', reads a number: separators of thousands are not between digits."""
        if self.thousands is None:
            return pl.lit(False)
        digits = rf"^[+-]?\d+(?:{re.escape(self.thousands)}\d+)*(?:{re.escape(self.decimal)}\d*)?(?:[eE][+-]?\d+)?$"
        number = self.number(text).str.strip_chars().cast(pl.Float64, strict=False)
        return text.str.contains(self.thousands, literal=True) & ~text.str.contains(digits) & number.is_not_null()


@dataclass(frozen=True, slots=True)
class TextScan:
    """How the kernel reads a file's fields as text.

    Parameters
    ----------
    path, version
        The file and its version, which changes with its content.
    fields
        The number of fields of a line.
    options
        For ``polars.scan_csv``.
    quotes
        Whether fields may be quoted, so that an empty field may be written as ``""``.
    blank_fields
        Whether a field may consist of blanks. pandas does not read it as a number; the kernel reads it as a missing number.
    notation
        How numbers and booleans are written.
    empty_is_text
        Whether an empty field is an empty text, and not a missing value. The kernel then finds no missing values by their texts.
    missing
        For fields that have missing values of their own: their texts.
    missing_numbers
        Numbers that are missing values, of which pandas compares the value, and the kernel only the text.
    """

    path: str
    version: Any
    fields: int
    options: tuple[tuple[str, Any], ...]
    quotes: bool
    blank_fields: bool
    notation: Notation
    empty_is_text: bool = False
    missing: tuple[tuple[int, tuple[str, ...]], ...] = ()
    missing_numbers: tuple[float, ...] = ()

    def frame(self, kinds: Mapping[int, pl.DataType] = MappingProxyType({})) -> pl.LazyFrame:
        """A scan of all fields, missing ones as null.

        Parameters
        ----------
        kinds
            The dtypes of the fields that are not read as text; the scan fails on a value that does not parse.
        """
        named: dict[str, Any] = {key: list(value) if isinstance(value, tuple) else value for key, value in self.options}
        schema = {field_name(i): kinds.get(i, pl.String()) for i in range(self.fields)}
        return pl.scan_csv(self.path, has_header=False, schema=schema, glob=False, **named)

    def text(self, field: int) -> pl.Expr:
        """The text of a field, null where it is missing."""
        text = pl.col(field_name(field))
        if self.empty_is_text:
            text = text.fill_null("")  # of a row with fewer fields
        elif self.quotes:
            text = pl.when(text != "").then(text)
        more = dict(self.missing).get(field)
        return text if more is None else pl.when(~text.is_in(more)).then(text)

    def is_parsed(self, field: int) -> bool:
        """Whether the kernel can parse the numbers of a field itself, instead of expressions over its text."""
        return self.notation.plain and field not in dict(self.missing)


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """Counts and bounds of the values of one field in the whole file.

    Parameters
    ----------
    rows, present
        The number of rows, and of rows with a value.
    integers, numbers, booleans
        The number of values that pandas reads as int64 (-1 if they were not counted), as numbers, and as booleans.
    ambiguous
        Whether pandas and the kernel may parse a value differently: as a number or as text, or as an integer beyond int64.
    low, high
        The least and greatest integer.
    """

    rows: int
    present: int
    integers: int
    numbers: int
    booleans: int
    ambiguous: bool
    low: int | None
    high: int | None

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return self.present == self.rows

    @property
    def text_count(self) -> int:
        """The number of values that are neither numbers nor booleans."""
        return self.present - self.numbers - self.booleans


def field_name(field: int) -> str:
    """The column name of a field in plans."""
    return f"field{field}"


def chunk_rows(fields: int) -> int:
    """The number of rows in a chunk of pandas' serial reader: the largest power of two with fewer than 2**20 fields."""
    rows = 1
    while rows * 2 < 2**20 // fields:
        rows *= 2
    return rows


def field_statistics(
    scan: TextScan, fields: Sequence[int], expected_kinds: Sequence[str]
) -> tuple[dict[int, FieldStatistics], bool]:
    """The statistics of some fields, and whether a row may be blank: no value in any of these fields.

    Parameters
    ----------
    expected_kinds
        The NumPy kind that is expected of each field (``i``, ``f``, ``b``, or ``O`` for text). A first, cheaper query
        only verifies these; a second query computes the statistics of the fields with another kind.
    """
    return memoised(
        (scan, tuple(fields), tuple(expected_kinds)), lambda: _compute_statistics(scan, fields, expected_kinds)
    )


def _compute_statistics(
    scan: TextScan, fields: Sequence[int], expected_kinds: Sequence[str]
) -> tuple[dict[int, FieldStatistics], bool]:
    expected = dict(zip(fields, expected_kinds, strict=True))
    try:
        found, blank = _statistics_of_guesses(scan, expected)
    except pl.exceptions.PolarsError:  # a value has another kind, or the kernel cannot read the file
        found, blank = {}, None
    if scan.blank_fields or scan.empty_is_text:
        found = {field: one for field, one in found.items() if expected[field] not in "if" or one.complete}
    again = [field for field in fields if field not in found]
    if again or blank is None:
        exprs = [pl.len().alias("rows"), _may_be_blank(scan, fields, {}).alias("blank")]
        for field in again:
            exprs += [expr.alias(f"{name} {field}") for name, expr in _statistics_exprs(scan, scan.text(field)).items()]
        row = collect(scan.frame().select(exprs), f"finding the types in {scan.path}").row(0, named=True)
        blank = bool(row["blank"])
        found |= {field: _statistics_of_row(row, field) for field in again}
    return found, blank


def _may_be_blank(scan: TextScan, fields: Sequence[int], kinds: Mapping[int, pl.DataType]) -> pl.Expr:
    """Whether any row may come from a line of blanks only. Such a line gives a text of blanks in the first field."""
    texts = {field: scan.text(field) for field in (0, *fields) if field not in kinds}
    if scan.empty_is_text:
        texts = {field: pl.when(text != "").then(text) for field, text in texts.items()}
    empty = [pl.col(field_name(field)).is_null() if field in kinds else texts[field].is_null() for field in fields]
    if 0 not in kinds:
        first = texts[0]
        empty = [one for one, field in zip(empty, fields, strict=True) if field != 0]
        empty.append(first.is_null() | (first.str.strip_chars() == ""))
    return pl.all_horizontal(empty).any()


def _statistics_of_guesses(scan: TextScan, expected: Mapping[int, str]) -> tuple[dict[int, FieldStatistics], bool]:
    """The statistics of the fields that have the expected kind.

    The kernel's CSV reader parses the numbers. It accepts the numbers that pandas accepts and fails on all other values,
    with two exceptions, whose text the second query inspects: integers of more than 18 digits, and "NAN", which pandas
    reads as text.
    """
    kinds: dict[int, pl.DataType] = {}
    for field, kind in expected.items():
        if kind in "if" and scan.is_parsed(field):
            kinds[field] = pl.Int64() if kind == "i" else pl.Float64()
    exprs = [pl.len().alias("rows"), _may_be_blank(scan, list(expected), kinds).alias("blank")]
    numbers = list(scan.missing_numbers)
    expected = {field: kind for field, kind in expected.items() if kind not in "if" or field in kinds}
    for field, kind in expected.items():
        column = pl.col(field_name(field)) if field in kinds else scan.text(field)
        measures = {"present": column.count()}
        if kind == "i":
            measures |= {"low": column.min(), "high": column.max(), "ambiguous": column.is_in(numbers).any()}
        elif kind == "f":
            finite = column.filter(column.is_finite()).abs().max()
            odd = column.is_nan().any() | column.is_in(numbers).any()
            measures |= {"ambiguous": odd | (finite.fill_null(0) >= 9e18)}
        else:
            boolean = column.is_in(_ANY_BOOLEANS)
            exact = column.is_in(scan.notation.booleans)
            measures |= {"booleans": (boolean | exact).sum(), "exact_booleans": exact.sum()}
            measures["numbers"] = scan.notation.number(column).str.strip_chars().cast(pl.Float64, strict=False).count()
        exprs += [expr.alias(f"{name} {field}") for name, expr in measures.items()]
    what = f"finding the types in {scan.path}"
    row = run_all([scan.frame(kinds).select(exprs)], expected_rows=1 << 20, describe=lambda: what)[0].row(0, named=True)
    rows = row["rows"]
    found: dict[int, FieldStatistics] = {}
    for field, kind in expected.items():
        present = row[f"present {field}"]
        if kind == "i" and not row[f"ambiguous {field}"]:
            low, high = row[f"low {field}"], row[f"high {field}"]
            found[field] = FieldStatistics(rows, present, present, present, 0, False, low, high)
        elif kind == "f":
            if not row[f"ambiguous {field}"]:
                found[field] = FieldStatistics(rows, present, -1, present, 0, False, None, None)
        elif kind == "b":
            if row[f"exact_booleans {field}"] == present and not row[f"numbers {field}"]:
                found[field] = FieldStatistics(rows, present, 0, 0, present, False, None, None)
        elif kind == "O" and not row[f"numbers {field}"] and not row[f"booleans {field}"]:
            found[field] = FieldStatistics(rows, present, 0, 0, 0, False, None, None)
    return found, bool(row["blank"])


def _statistics_exprs(scan: TextScan, text: pl.Expr) -> dict[str, pl.Expr]:
    """The aggregates of a field's text from which its statistics follow."""
    notation = scan.notation
    written = notation.number(text)
    integer = written.cast(pl.Int64, strict=False)
    number = written.cast(pl.Float64, strict=False)
    boolean = text.is_in(notation.booleans)
    padded = written.str.strip_chars().cast(pl.Float64, strict=False)
    return {
        "present": text.count(),
        "integers": integer.count(),
        "numbers": number.count(),
        "booleans": boolean.sum(),
        "low": integer.min(),
        "high": integer.max(),
        "nans": number.is_nan().any() | number.is_in(list(scan.missing_numbers)).any() | notation.is_odd(text).any(),
        "padded": padded.count(),
        "long": (written.str.contains(_DIGITS) & integer.is_null()).any(),
        "suspects": (text.is_in(_ANY_BOOLEANS) & ~boolean).any(),
    }


def _statistics_of_row(row: Mapping[str, Any], field: int) -> FieldStatistics:
    found = {name: row[f"{name} {field}"] for name in _MEASURES}
    ambiguous = bool(found["nans"] or found["long"] or found["suspects"] or found["padded"] != found["numbers"])
    counts = (found["integers"], found["numbers"], found["booleans"])
    return FieldStatistics(row["rows"], found["present"], *counts, ambiguous, found["low"], found["high"])


def every_chunk_has_text(scan: TextScan, field: int) -> bool:
    """Whether pandas infers text for each chunk of its serial reader: a value is text, or numbers and booleans are mixed."""
    size = chunk_rows(scan.fields)

    def compute() -> bool:
        text = scan.text(field)
        number = scan.notation.number(text).cast(pl.Float64, strict=False).is_not_null()
        boolean = text.is_in(scan.notation.booleans)
        certain = (text.is_not_null() & ~number & ~boolean).any() | (number.any() & boolean.any())
        frame = scan.frame().with_row_index("row").group_by(pl.col("row") // size).agg(certain.alias("certain"))
        return bool(collect(frame.select(pl.col("certain").all()), f"finding the types in {scan.path}").item())

    return bool(memoised((scan, field, "text in every chunk"), compute))
