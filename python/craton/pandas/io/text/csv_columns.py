"""The columns of a CSV file: the type as which the kernel parses a field, and its conversion to the pandas dtype."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.dtypes import BOOL, FLOAT64, INT64, STR, DtypeObj, physical
from craton.pandas.core.file_cache import memoised
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value
from craton.pandas.io.text.csv_inference import FieldStatistics, TextScan, field_name
from craton.plan.expr import Call, Expr, Literal, Values, options
from craton.plan.operators import Scan
from craton.records import dataclass
from craton.refusals import Refusal

_TRUES = ["True", "true", "TRUE"]
#: One column of each kind that pandas infers.
_KINDS = "i,f,b,s\n1,1.5,True,x\n"


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """The types of a column: as the kernel parses its numbers, and as pandas returns it.

    Parameters
    ----------
    parsed
        The dtype of the numbers; text for other columns.
    dtype
        The pandas dtype.
    nulls
        Whether values are missing.
    form
        The kernel's format of dates; ``None`` for other columns.
    """

    parsed: pl.DataType
    dtype: DtypeObj
    nulls: bool
    form: str | None = None

    def scanned(self, scan: TextScan, field: int) -> pl.DataType:
        """The dtype that the scan of the file returns: text if expressions parse the numbers."""
        return self.parsed if scan.is_parsed(field) else pl.String()

    def value(self, base: Scan, scan: TextScan, field: int) -> Value:
        """The column of a scan, converted to the pandas dtype."""
        expr: Expr = base.column(field_name(field))
        target = physical(self.dtype)
        if self.scanned(scan, field) == pl.String():
            expr = _without_missing(expr, scan, field)
            if self.parsed != pl.String():
                expr = Call("cast", (_number(expr, scan),), self.parsed)
        if self.form is not None:
            expr = Call("dt_parse", (expr,), target, options(format=self.form))
        elif target == pl.Boolean():
            trues = [*_TRUES, *scan.notation.trues]
            expr = Call("is_in", (expr, Values.of(pl.Series(trues))), target)
        elif self.parsed != target:
            expr = Call("cast", (expr,), target)
        return Value(expr, self.dtype, self.nulls)


def _without_missing(text: Expr, scan: TextScan, field: int) -> Expr:
    """The text of a field, null where it is missing; as :meth:`TextScan.text`."""
    nothing = Literal(None, pl.String())
    if scan.empty_is_text:
        absent = Call("is_null", (text,), pl.Boolean())
        text = Call("when", (absent, Literal("", pl.String()), text), pl.String())
    elif scan.quotes:
        present = Call("ne", (text, Literal("", pl.String())), pl.Boolean())
        text = Call("when", (present, text, nothing), pl.String())
    more = dict(scan.missing).get(field)
    if more is not None:
        missing = Call("is_in", (text, Values.of(pl.Series(more, dtype=pl.String))), pl.Boolean())
        text = Call("when", (missing, nothing, text), pl.String())
    return text


def _number(text: Expr, scan: TextScan) -> Expr:
    """The text of a number as the kernel's parser reads it; as :meth:`Notation.number` of columns that have only numbers."""
    notation = scan.notation
    pairs = [] if notation.thousands is None else [(notation.thousands, "")]
    if notation.decimal != ".":
        pairs.append((notation.decimal, "."))
    for old, new in pairs:
        text = Call("str_replace", (text, Literal(old, pl.String()), Literal(new, pl.String())), pl.String())
    return text


def backend_dtypes(backend: str | None) -> Mapping[str, DtypeObj]:
    """The dtypes that pandas gives inferred integers, floats, booleans and texts, by the letters i, f, b and s.

    Raises
    ------
    Unsupported
        If text is not stored as Arrow strings, because of an option of pandas.
    """
    if backend is None:
        if pd.Series(["x"]).dtype != STR:
            raise Unsupported(Refusal.TEXT_STORAGE)
        return {"i": INT64, "f": FLOAT64, "b": BOOL, "s": STR}

    def read() -> Mapping[str, DtypeObj]:
        with plain_pandas():
            return dict(pd.read_csv(io.StringIO(_KINDS), dtype_backend=backend).dtypes.items())  # type: ignore[call-overload, no-any-return]

    return memoised(("backend", backend, pd.get_option("mode.string_storage")), read)


def inferred_column(statistics: FieldStatistics, dtypes: Mapping[str, DtypeObj]) -> CsvColumn:
    """The column that pandas infers, given the dtypes of each kind of values.

    Raises
    ------
    Unsupported
        If the kernel may read other numbers than pandas, or if a column has booleans and missing values.
    """
    if statistics.ambiguous:
        raise Unsupported(Refusal.CSV_NUMBERS)
    nullable = dtypes["i"] != INT64
    nulls = not statistics.complete
    if nullable and not statistics.present:
        raise Unsupported(Refusal.CSV_NO_VALUES)
    if statistics.numbers == statistics.present:
        if statistics.integers == statistics.present and (statistics.complete or nullable):
            return CsvColumn(pl.Int64(), dtypes["i"], nulls)
        return CsvColumn(pl.Float64(), dtypes["f"], nulls)
    if statistics.booleans == statistics.present:
        if statistics.complete or nullable:
            return CsvColumn(pl.String(), dtypes["b"], nulls)
        raise Unsupported(Refusal.MISSING_BOOLEANS)
    return CsvColumn(pl.String(), dtypes["s"], nulls)


def requested_column(dtype: DtypeObj, statistics: FieldStatistics) -> CsvColumn:
    """The column in the dtype that the user specified.

    Raises
    ------
    Unsupported
        If pandas raises an error, or may read other values than the kernel.
    """
    nulls = not statistics.complete
    if isinstance(dtype, pd.StringDtype):
        return CsvColumn(pl.String(), dtype, nulls)
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
        return CsvColumn(pl.Int64(), dtype, nulls)
    if plain.kind == "f" and statistics.numbers == statistics.present:
        return CsvColumn(pl.Float64(), dtype, nulls)
    if plain.kind == "b" and statistics.booleans == statistics.present and (statistics.complete or masked):
        return CsvColumn(pl.String(), dtype, nulls)
    raise Unsupported(Refusal.CSV_DTYPE, dtype)
