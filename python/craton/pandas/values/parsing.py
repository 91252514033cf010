"""``to_datetime`` and ``to_numeric`` of a lazy Series.

The dtype of the result, the date format, and whether the text can be parsed at all depend on the data. A query over the
column finds them when the function is called, so errors are raised by the same call as in pandas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.tseries.api import guess_datetime_format

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import FLOAT64, INT64, DtypeObj, family, kind_of
from craton.pandas.core.execute import count_rows, resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.batches import COLUMN, batched, computed, computed_if_in_memory, mark_proven
from craton.pandas.values.comparison import not_missing
from craton.pandas.values.dates_text import DATE_FORMATS, PATTERNS, is_date
from craton.plan import build
from craton.plan.expr import Call, Literal
from craton.plan.operators import Slice
from craton.refusals import Refusal


def _first_text(held: View, value: Value) -> str | None:
    """The first string that is not missing."""
    first = (
        held.series(value, None)
        .filtered(not_missing(value).expr)
        .with_rows_from(lambda base, _: Slice(base, 0, 1))
        .projected()
    )
    found = collect_rows([build.project(first.base, (("text", first.values[0].expr),))], ordered=True)[0].get_column(
        "text"
    )
    return None if not len(found) else str(found[0])


@native_function(pd.to_numeric, stays=in_plain_pandas("arg"), convert=False)
def to_numeric(arg: Any, errors: Any = "raise", downcast: Any = None, dtype_backend: Any = None) -> Any:
    """Numbers from text; see :func:`pandas.to_numeric`."""
    if not isinstance(arg, pd.Series) or downcast is not None or dtype_backend is not None:
        raise Unsupported(Refusal.PARAMETERS, "arg, downcast and dtype_backend")
    if errors not in ("raise", "coerce"):
        raise Unsupported(Refusal.PARAMETER, "errors")
    held = resolved(view(arg))
    (value,) = held.values
    if kind_of(value.dtype) in "iuf":
        return lazy(type(arg), held)
    if family(value.dtype) != "str":
        raise Unsupported(Refusal.OPERATION, f"to_numeric of {value.dtype}")
    if not count_rows(held):
        raise Unsupported(Refusal.NO_ROWS)
    fractional = batched("function", "to_numeric", [value], FLOAT64, (COLUMN,), wide=True, errors=errors)
    try:
        wide = any_row(held, Call("is_not_nan", (fractional.expr,), pl.Boolean()))
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    dtype = FLOAT64 if wide else INT64
    result = mark_proven(batched("function", "to_numeric", [value], dtype, (COLUMN,), errors=errors))
    if not wide:
        result = Value(result.expr, dtype, nulls=False)
    held, result = computed_if_in_memory(held, result)
    return lazy(type(arg), held.series(result, arg.name))


#: The ISO formats of pandas, and the kinds of text that the kernel parses alike.
_ISO_FORMATS = {
    "%Y-%m-%d": ("date",),
    "%Y-%m-%d %H:%M": ("minutes",),
    "%Y-%m-%d %H:%M:%S": ("seconds",),
    "%Y-%m-%dT%H:%M": ("minutes T",),
    "%Y-%m-%dT%H:%M:%S": ("seconds T",),
    "%Y-%m-%d %H:%M:%S.%f": ("millis", "micros"),
    "%Y-%m-%dT%H:%M:%S.%f": ("millis T", "micros T"),
}


def _iso_dates(held: View, value: Value, text: str, format: str, dtype: DtypeObj) -> Value | None:
    """Dates that the kernel parses. ``None`` unless all texts have the ISO format of the first one, with all digits."""
    form = next((form for form in _ISO_FORMATS.get(format, ()) if is_date(text, form)), None)
    if form is None or dtype != np.dtype("M8[us]"):
        return None
    parsed = Call("dt_parse", (value.expr,), pl.Datetime("us"), (("format", DATE_FORMATS[form]), ("strict", False)))
    pattern = Literal(rf"\A{PATTERNS[form]}\z", pl.String())
    shaped = Call("str_contains", (value.expr, pattern), pl.Boolean(), (("literal", False),))
    present = Call("not", (Call("is_null", (parsed,), pl.Boolean()),), pl.Boolean())
    right = Call("and", (shaped, present), pl.Boolean())
    wrong = Call("and", (not_missing(value).expr, Call("not", (right,), pl.Boolean())), pl.Boolean())
    return None if any_row(held, wrong) else Value(parsed, dtype, nulls=value.nulls)


@native_function(pd.to_datetime, stays=in_plain_pandas("arg"), convert=False)
def to_datetime(
    arg: Any,
    errors: Any = "raise",
    dayfirst: Any = False,
    yearfirst: Any = False,
    utc: Any = False,
    format: Any = None,
    exact: Any = True,
    unit: Any = None,
    origin: Any = "unix",
    cache: Any = True,
) -> Any:
    """Dates and times from text or numbers; see :func:`pandas.to_datetime`."""
    if not isinstance(arg, pd.Series) or dayfirst or yearfirst or exact is not True or origin != "unix":
        raise Unsupported(Refusal.PARAMETERS, "arg, dayfirst, yearfirst, exact and origin")
    if errors not in ("raise", "coerce") or not isinstance(utc, bool):
        raise Unsupported(Refusal.PARAMETER, "errors or utc")
    held = resolved(view(arg))
    (value,) = held.values
    options = {"errors": errors, "utc": utc}
    if kind_of(value.dtype) == "M" and family(value.dtype) == "numpy" and not utc and format is None and unit is None:
        return lazy(type(arg), held)
    if family(value.dtype) == "str" and unit is None:
        text = _first_text(held, value)
        if text is None:
            raise Unsupported(Refusal.DATES_NO_TEXT)
        if format is None:
            format = guess_datetime_format(text)
        if not isinstance(format, str) or format in ("mixed", "ISO8601"):
            raise Unsupported(Refusal.DATES_FORMAT)
        options["format"] = format
        sample = text
    elif isinstance(value.dtype, np.dtype) and value.dtype.kind == "i" and format is None and isinstance(unit, str):
        options["unit"] = unit
        sample = value.dtype.type(0)
    else:
        raise Unsupported(Refusal.OPERATION, f"to_datetime of {value.dtype}")
    few = pd.Series([sample], dtype=value.dtype)
    dtype = stand_ins.probe(pd.to_datetime, few, warned=True, **options).dtype
    if kind_of(dtype) != "M":
        raise Unsupported(Refusal.DATES_OBJECTS)
    result = None
    if family(value.dtype) == "str":
        result = _iso_dates(held, value, sample, str(format), dtype)
    if result is None:
        result = batched("function", "to_datetime", [value], dtype, (COLUMN,), cache=False, **options)
    held, result = computed(held, result)
    return lazy(series_class() if not isinstance(arg, series_class()) else type(arg), held.series(result, arg.name))


__all__ = ["to_datetime", "to_numeric"]
