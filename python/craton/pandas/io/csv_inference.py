"""Which dtype pandas infers for each column of a CSV file: one streaming query over the file's text.

pandas converts a column chunk by chunk (by rows in its serial reader, by bytes in its parallel one) and puts the chunks
together. A column is planned only if every way to cut it gives the same dtype; the rare rest is left to pandas.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from craton.kernel.run import run_all
from craton.pandas.core.data_checks import collect
from craton.pandas.core.memo import memoised
from craton.records import dataclass

_BOOLEANS = ["True", "true", "TRUE", "False", "false", "FALSE"]
#: In whatever case, as pandas takes them.
_ANY_BOOLEANS = [
    "".join(letters) for word in ("true", "false") for letters in itertools.product(*((c, c.upper()) for c in word))
]
_DIGITS = r"^\s*[+-]?[0-9]{19,}\s*$"


@dataclass(frozen=True, slots=True)
class TextScan:
    """How the kernel reads a file's fields as text.

    Parameters
    ----------
    path, version
        The file and what tells that it changed.
    fields
        The number of fields of a line.
    options
        For ``polars.scan_csv``.
    quotes
        Whether an empty field may stand between quotes.
    """

    path: str
    version: Any
    fields: int
    options: tuple[tuple[str, Any], ...]
    quotes: bool

    def frame(self, kinds: Mapping[int, pl.DataType] = MappingProxyType({})) -> pl.LazyFrame:
        """A scan of all fields, missing ones as null.

        Parameters
        ----------
        kinds
            Fields that are parsed as something else than text; a value that is not such is an error.
        """
        named: dict[str, Any] = {key: list(value) if isinstance(value, tuple) else value for key, value in self.options}
        schema = {field_name(i): kinds.get(i, pl.String()) for i in range(self.fields)}
        return pl.scan_csv(self.path, has_header=False, schema=schema, glob=False, **named)

    def text(self, field: int) -> pl.Expr:
        """A field's text."""
        column = pl.col(field_name(field))
        return pl.when(column != "").then(column) if self.quotes else column


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a field over the whole file.

    Parameters
    ----------
    rows, present
        Rows, and those with a value.
    integers, numbers, booleans
        Values that pandas reads as an int64, as a number, as a boolean.
    odd
        Whether a value is a number to pandas and text to the kernel or the other way round, or no int64.
    low, high
        The least and greatest integer.
    """

    rows: int
    present: int
    integers: int
    numbers: int
    booleans: int
    odd: bool
    low: int | None
    high: int | None

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return self.present == self.rows

    @property
    def texts(self) -> int:
        """Values that are nothing but text."""
        return self.present - self.numbers - self.booleans


def field_name(field: int) -> str:
    """The plan's name of a field."""
    return f"field{field}"


def chunk_rows(fields: int) -> int:
    """The rows of a chunk of pandas' serial reader: a power of two, so that a chunk has about 2**20 fields."""
    rows = 1
    while rows * 2 < 2**20 // fields:
        rows *= 2
    return rows


def facts_of(scan: TextScan, fields: Sequence[int], guesses: Sequence[str]) -> tuple[dict[int, Facts], bool]:
    """Facts of some fields, and whether a row has no value in any of them.

    Parameters
    ----------
    guesses
        The NumPy kind that is expected of each (``i``, ``f``, ``b``, or ``O`` for text). Only what tells whether that
        holds is computed first.
    """
    return memoised((scan, tuple(fields), tuple(guesses)), lambda: _facts(scan, fields, guesses))


def _facts(scan: TextScan, fields: Sequence[int], guesses: Sequence[str]) -> tuple[dict[int, Facts], bool]:
    guessed = dict(zip(fields, guesses, strict=True))
    try:
        found, blank = _as_guessed(scan, guessed)
    except pl.exceptions.PolarsError:  # a value is not what was guessed, or pandas must read the file
        found, blank = {}, None
    again = [field for field in fields if field not in found]
    if again or blank is None:
        exprs = [pl.len().alias("rows"), _blank(scan, fields, {}).alias("blank")]
        for field in again:
            exprs += [expr.alias(f"{name} {field}") for name, expr in _measures(scan.text(field)).items()]
        row = collect(scan.frame().select(exprs), f"finding the types in {scan.path}").row(0, named=True)
        blank = bool(row["blank"])
        found |= {field: _measured(row, field) for field in again}
    return found, blank


def _blank(scan: TextScan, fields: Sequence[int], kinds: Mapping[int, pl.DataType]) -> pl.Expr:
    """Whether a row may be a line of nothing but blanks."""
    empty = [pl.col(field_name(field)).is_null() if field in kinds else scan.text(field).is_null() for field in fields]
    if 0 not in kinds:
        first = scan.text(0)
        empty = [one for one, field in zip(empty, fields, strict=True) if field != 0]
        empty.append(first.is_null() | (first.str.strip_chars() == ""))
    return pl.all_horizontal(empty).any()


def _as_guessed(scan: TextScan, guessed: Mapping[int, str]) -> tuple[dict[int, Facts], bool]:
    """The facts of the fields for which the guess holds.

    Numbers are parsed by the kernel's reader, which takes what pandas takes, and fails on anything else. The text of a
    number of more than 18 digits must be seen, and so must "NAN", which is text to pandas.
    """
    kinds: dict[int, pl.DataType] = {}
    for field, guess in guessed.items():
        if guess in "if":
            kinds[field] = pl.Int64() if guess == "i" else pl.Float64()
    exprs = [pl.len().alias("rows"), _blank(scan, list(guessed), kinds).alias("blank")]
    for field, guess in guessed.items():
        column = pl.col(field_name(field)) if field in kinds else scan.text(field)
        measures = {"present": column.count()}
        if guess == "i":
            measures |= {"low": column.min(), "high": column.max()}
        elif guess == "f":
            finite = column.filter(column.is_finite()).abs().max()
            measures |= {"odd": column.is_nan().any() | (finite.fill_null(0) >= 9e18)}
        else:
            boolean = column.is_in(_ANY_BOOLEANS)
            measures |= {"booleans": boolean.sum(), "plain": column.is_in(_BOOLEANS).sum()}
            if guess == "O":
                measures["numbers"] = column.str.strip_chars().cast(pl.Float64, strict=False).count()
        exprs += [expr.alias(f"{name} {field}") for name, expr in measures.items()]
    what = f"finding the types in {scan.path}"
    row = run_all([scan.frame(kinds).select(exprs)], expected_rows=1 << 20, describe=lambda: what)[0].row(0, named=True)
    rows = row["rows"]
    found: dict[int, Facts] = {}
    for field, guess in guessed.items():
        present = row[f"present {field}"]
        if guess == "i":
            low, high = row[f"low {field}"], row[f"high {field}"]
            found[field] = Facts(rows, present, present, present, 0, False, low, high)
        elif guess == "f":
            if not row[f"odd {field}"]:
                found[field] = Facts(rows, present, -1, present, 0, False, None, None)
        elif guess == "b":
            if row[f"plain {field}"] == present:
                found[field] = Facts(rows, present, 0, 0, present, False, None, None)
        elif not row[f"numbers {field}"] and not row[f"booleans {field}"]:
            found[field] = Facts(rows, present, 0, 0, 0, False, None, None)
    return found, bool(row["blank"])


def _measures(text: pl.Expr) -> dict[str, pl.Expr]:
    """All that tells what a field holds."""
    integer = text.cast(pl.Int64, strict=False)
    number = text.cast(pl.Float64, strict=False)
    boolean = text.is_in(_BOOLEANS)
    padded = text.str.strip_chars().cast(pl.Float64, strict=False)
    return {
        "present": text.count(),
        "integers": integer.count(),
        "numbers": number.count(),
        "booleans": boolean.sum(),
        "low": integer.min(),
        "high": integer.max(),
        "nans": number.is_nan().any(),
        "padded": padded.count(),
        "long": (text.str.contains(_DIGITS) & integer.is_null()).any(),
        "suspects": (text.is_in(_ANY_BOOLEANS) & ~boolean).any(),
    }


def _measured(row: Mapping[str, Any], field: int) -> Facts:
    found = {name: row[f"{name} {field}"] for name in _measures(pl.col("x"))}
    odd = bool(found["nans"] or found["long"] or found["suspects"] or found["padded"] != found["numbers"])
    counts = (found["integers"], found["numbers"], found["booleans"])
    return Facts(row["rows"], found["present"], *counts, odd, found["low"], found["high"])


def texts_everywhere(scan: TextScan, field: int) -> bool:
    """Whether pandas finds text in each chunk of its serial reader: a value is text, or numbers are beside booleans."""
    size = chunk_rows(scan.fields)

    def compute() -> bool:
        text = scan.text(field)
        number, boolean = text.cast(pl.Float64, strict=False).is_not_null(), text.is_in(_BOOLEANS)
        certain = (text.is_not_null() & ~number & ~boolean).any() | (number.any() & boolean.any())
        frame = scan.frame().with_row_index("row").group_by(pl.col("row") // size).agg(certain.alias("certain"))
        return bool(collect(frame.select(pl.col("certain").all()), f"finding the types in {scan.path}").item())

    return bool(memoised((scan, field, "texts"), compute))
