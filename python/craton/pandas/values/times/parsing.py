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

from craton.engine import collect_rows, may_keep
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import attached
from craton.pandas.core.array_conversion import from_array, to_array
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import FLOAT64, INT64, STR, family, kind_of
from craton.pandas.core.execute import count_rows, resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.batches import COLUMN, batched, computed, mark_proven
from craton.pandas.values.comparison import not_missing
from craton.pandas.values.repeated_values import distinct_values
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal
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
    if may_keep(held.base):
        held, result = _numbers_in_memory(held, value, errors)
        return lazy(type(arg), held.series(result, arg.name))
    fractional = batched("function", "to_numeric", [value], FLOAT64, (COLUMN,), wide=True, errors=errors)
    try:
        wide = any_row(held, Call("is_not_nan", (fractional.expr,), pl.Boolean()))
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    dtype = FLOAT64 if wide else INT64
    result = mark_proven(batched("function", "to_numeric", [value], dtype, (COLUMN,), errors=errors))
    if not wide:
        result = Value(result.expr, dtype, nulls=False)
    return lazy(type(arg), held.series(result, arg.name))


def _numbers_in_memory(held: View, value: Value, errors: str) -> tuple[View, Value]:
    """The numbers of texts in memory, computed at once. Their dtype depends on all of them."""
    (rows,) = collect_rows([build.project(held.base, (("text", value.expr),))], ordered=True)
    column = rows.get_column("text")
    distinct, places = distinct_values(column) or (column, None)
    numbers = stand_ins.probe(pd.to_numeric, pd.Series(to_array(distinct, value.dtype)), errors=errors)
    if numbers.dtype not in (INT64, FLOAT64):
        raise Unsupported(Refusal.OPERATION, f"to_numeric with a result of {numbers.dtype}")
    found, _, _ = from_array("", numbers._values)
    held, (expr,) = attached(held, [found if places is None else found.gather(places)])
    floats = numbers.dtype == FLOAT64
    return held, Value(expr, numbers.dtype, nulls=False, nans=floats)


#: The columns from which ``to_datetime`` of a frame assembles dates, and the number by which pandas multiplies each.
_PARTS = {"year": 10_000, "month": 100, "day": 1}


def _assembled_dates(arg: Any, errors: Any, utc: Any) -> Any:
    """Dates from columns of years, months and days. As in pandas, they become numbers such as 20240131, which are parsed as texts."""
    if errors not in ("raise", "coerce") or not isinstance(utc, bool):
        raise Unsupported(Refusal.PARAMETER, "errors or utc")
    held = resolved(view(arg))
    if sorted(map(str, held.labels)) != sorted(_PARTS) or not all(isinstance(label, str) for label in held.labels):
        raise Unsupported(Refusal.OPERATION, "to_datetime of a frame with other columns than year, month and day")
    total: Expr | None = None
    for name, factor in _PARTS.items():
        part = held.values[held.position(name)]
        if not isinstance(part.dtype, np.dtype) or part.dtype.kind != "i":
            raise Unsupported(Refusal.OPERATION, f"to_datetime of {part.dtype}")
        number = Call("mul", (Call("cast", (part.expr,), pl.Int64()), Literal(factor, pl.Int64())), pl.Int64())
        total = number if total is None else Call("add", (total, number), pl.Int64())
    assert total is not None
    options = {"errors": errors, "utc": utc}
    few = pd.DataFrame({"year": [2000], "month": [1], "day": [1]}, dtype=INT64)
    dtype = stand_ins.probe(pd.to_datetime, few, **options).dtype
    days = Value(total, INT64, nulls=False)
    result = batched("function", "to_datetime", [days], dtype, (COLUMN,), cache=False, format="%Y%m%d", **options)
    held, result = computed(held, result)
    return lazy(series_class(), held.series(result, None))


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
    if isinstance(arg, pd.DataFrame):
        return _assembled_dates(arg, errors, utc)
    if not isinstance(arg, pd.Series) or exact is not True or origin != "unix":
        raise Unsupported(Refusal.PARAMETERS, "arg, exact and origin")
    if not isinstance(dayfirst, bool) or not isinstance(yearfirst, bool):
        raise Unsupported(Refusal.PARAMETERS, "dayfirst and yearfirst")
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
            format = guess_datetime_format(text, dayfirst=dayfirst)
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
    result = batched("function", "to_datetime", [value], dtype, (COLUMN,), cache=False, **options)
    held, result = computed(held, result)
    return lazy(series_class() if not isinstance(arg, series_class()) else type(arg), held.series(result, arg.name))


@native_function(pd.to_timedelta, stays=in_plain_pandas("arg"), convert=False)
def to_timedelta(arg: Any, unit: Any = None, errors: Any = "raise") -> Any:
    """Timedeltas from text or integers; see :func:`pandas.to_timedelta`."""
    if not isinstance(arg, pd.Series) or errors not in ("raise", "coerce"):
        raise Unsupported(Refusal.PARAMETERS, "arg and errors")
    held = resolved(view(arg))
    (value,) = held.values
    options = {"errors": errors}
    if kind_of(value.dtype) == "m" and family(value.dtype) == "numpy" and unit is None:
        return lazy(type(arg), held)
    if value.dtype == STR and unit is None:
        sample: Any = _first_text(held, value)
        if sample is None:
            raise Unsupported(Refusal.DATES_NO_TEXT)
    elif isinstance(value.dtype, np.dtype) and value.dtype.kind == "i" and isinstance(unit, str):
        options["unit"] = unit
        sample = value.dtype.type(0)
    else:
        raise Unsupported(Refusal.OPERATION, f"to_timedelta of {value.dtype}")
    few = stand_ins.probe(pd.to_timedelta, pd.Series([sample], dtype=value.dtype), warned=True, **options)
    if few.isna().any() or kind_of(few.dtype) != "m":
        raise Unsupported(Refusal.OPERATION, f"to_timedelta of {sample!r}")
    result = batched("function", "to_timedelta", [value], few.dtype, (COLUMN,), **options)
    held, result = computed(held, result)
    return lazy(series_class() if not isinstance(arg, series_class()) else type(arg), held.series(result, arg.name))


__all__ = ["to_datetime", "to_numeric", "to_timedelta"]
