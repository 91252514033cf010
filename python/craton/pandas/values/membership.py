"""``isin`` and ``between``."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_list_like, is_scalar

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.array_conversion import from_array
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import DtypeObj, family, kind_of, numeric_dtype, physical
from craton.pandas.core.view import Value, View
from craton.pandas.values.batches import COLUMN, batched
from craton.pandas.values.elementwise import binary
from craton.pandas.values.operands import stamp_dtype
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Literal, Member, Values, conjunction
from craton.plan.operators import Operator, Scan
from craton.plan.sources import MemorySource
from craton.refusals import Refusal

MAX_MIXED_VALUES = 1000
"""The largest number of values of mixed types with which ``isin`` is planned: pandas looks them up batch by batch."""

JOIN_FROM = 1_000_000
"""From this many values on, ``isin`` is planned as a join with them instead of a list in the plan."""


def is_in_view(value: Value, other: View) -> Value:
    """Whether a value is among the values of a lazy Series."""
    wanted = other.values[0]
    if not value.definite or not wanted.definite:
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    dtype = _result_dtype(value.dtype, stand_ins.column(wanted.dtype))
    left, right = _in_common_dtype(value, wanted)
    plan: Operator = build.project(other.base, (("value", right.clean.expr),))
    if _is_nullable_number(value.dtype) and (right.nulls or right.nans):
        _refuse_na_among_large_integers(value.dtype)
        present = Call("not", (Call("is_null", (Column("value", right.physical),), pl.Boolean()),), pl.Boolean())
        plan = build.filter(plan, present)
    return Value(Member(left.clean.expr, plan), dtype, nulls=False)


def _in_common_dtype(left: Value, right: Value) -> tuple[Value, Value]:
    """Both columns in the physical dtype in which pandas compares them."""
    one, other = left.dtype, right.dtype
    if isinstance(one, pd.CategoricalDtype) or isinstance(other, pd.CategoricalDtype):
        raise Unsupported(Refusal.MEMBERSHIP_OF_CATEGORICALS)
    if "b" in (kind_of(one), kind_of(other)) and family(one) == "masked":
        raise Unsupported(Refusal.MEMBERSHIP_OF_BOOLEANS)
    if family(one) == "arrow" and left.physical.is_float():
        raise Unsupported(Refusal.MEMBERSHIP_OF_ARROW_FLOATS)
    if left.physical == right.physical and family(one) == family(other):
        return left, right
    if family(one) == family(other) == "numpy" and {kind_of(one), kind_of(other)} <= set("iuf"):
        first, second = numeric_dtype(one), numeric_dtype(other)
        common = np.result_type(first, second)
        if {first.kind, second.kind} == {"i", "u"} and common.kind == "f":
            raise Unsupported(Refusal.MEMBERSHIP_OF_UNSIGNED)
        if first.kind in "iu" and first.itemsize == 8 and second.kind == "f":
            return left, _floats_as_integers(right, left.physical)
        if second.kind in "iu" and second.itemsize == 8 and first.kind == "f":
            return _floats_as_integers(left, right.physical), right
        target = physical(common)
        return _cast(left, target), _cast(right, target)
    raise Unsupported(Refusal.MEMBERSHIP, f"{one} among {other}")


def _floats_as_integers(value: Value, target: pl.DataType) -> Value:
    """Floats as 64-bit integers, because a cast of the integers to floats could make different integers equal.

    A float that is not an integer of the target dtype equals none, so it becomes null.
    """
    wide = _cast(value, pl.Float64()).expr
    low, high = (-(2.0**63), 2.0**63) if target == pl.Int64() else (0.0, 2.0**64)
    bounds: list[Expr] = [
        Call("ge", (wide, Literal(low, pl.Float64())), pl.Boolean()),
        Call("lt", (wide, Literal(high, pl.Float64())), pl.Boolean()),
        Call("eq", (wide, Call("round", (wide,), pl.Float64())), pl.Boolean()),
    ]
    kept = Call("when", (conjunction(bounds), wide, Literal(None, pl.Float64())), pl.Float64())
    return Value(Call("cast", (kept,), target), value.dtype, True)


def _is_nullable_number(dtype: DtypeObj) -> bool:
    return family(dtype) == "masked" and kind_of(dtype) in "iuf"


def _refuse_na_among_large_integers(dtype: DtypeObj) -> None:
    """Refuse 64-bit integers if NA is looked up among nullable numbers.

    pandas then compares floats: NA is never found, and a large integer may match a different one.
    """
    if kind_of(dtype) in "iu" and numeric_dtype(dtype).itemsize == 8:
        raise Unsupported(Refusal.MEMBERSHIP_AND_MISSING)


def _cast(value: Value, target: pl.DataType) -> Value:
    if value.physical == target:
        return value
    expr = Call("cast", (value.expr,), target)
    return Value(expr, value.dtype, value.nulls, value.nans)


def _result_dtype(dtype: DtypeObj, values: Any) -> DtypeObj:
    return stand_ins.probe(stand_ins.column(dtype).isin, values).dtype  # type: ignore[no-any-return]


def is_in_values(value: Value, values: Any, held: View) -> Value:
    """Whether a value is among values in memory: a list, a set, an array, an Index or a Series.

    Parameters
    ----------
    held
        A view over the value's base, on which queries about the data run.

    Raises
    ------
    Unsupported
        If plans have no comparison of the column's dtype with these values.
    """
    if not value.definite:
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    if not is_list_like(values) or isinstance(values, (dict, pd.DataFrame)):
        raise Unsupported(Refusal.MEMBERSHIP_VALUES)
    dtype = _result_dtype(value.dtype, [])
    if kind_of(value.dtype) in "mM":
        _refuse_times_out_of_range(value, values, held)
    try:
        found = _lookup_values(value, values)
    except Unsupported:
        return _in_batches(value, values, dtype)
    if found is None:
        return Value(Literal(False, pl.Boolean()), dtype, nulls=False)
    if _is_nullable_number(value.dtype) and found.null_count():
        _refuse_na_among_large_integers(value.dtype)
        found = found.drop_nulls()
    null = found.null_count() > 0
    found = found.drop_nulls()
    searched = value.clean
    expr: Expr
    if len(found) >= JOIN_FROM:
        source = MemorySource.of(pl.DataFrame({"value": found}))
        expr = Member(searched.expr, Scan(source, ("value",)))
    elif len(found) == 0:
        expr = Literal(False, pl.Boolean())
    else:
        # If neither side has missing values, the expression is a bare ``is_in``, which scans can use to skip data.
        expr = Call("is_in", (searched.expr, Values.of(found)), pl.Boolean())
        if searched.nulls and not null:
            expr = Call("fill_null", (expr, Literal(False, pl.Boolean())), pl.Boolean())
    if null and searched.nulls:
        missing = Call("is_null", (searched.expr,), pl.Boolean())
        if len(found):
            expr = Call("or", (missing, expr), pl.Boolean())
        else:
            expr = missing
    return Value(expr, dtype, nulls=False)


def _refuse_times_out_of_range(value: Value, values: Any, held: View) -> None:
    """Refuse columns with times that are out of range in the finer unit of the values, to which pandas converts them.

    pandas raises that error in the call.
    """
    given = getattr(values, "dtype", None)
    if isinstance(given, pd.CategoricalDtype):
        raise Unsupported(Refusal.MEMBERSHIP_OF_CATEGORICALS)
    if given is None or given == np.dtype(object):
        units = {_unit_of_item(item) for item in values}
    else:
        units = {_unit_of_dtype(given)}
    stored = getattr(value.physical, "time_unit", "ns")
    finest = max(units, key=_UNITS.index, default="s")
    factor = 1000 ** max(_UNITS.index(finest) - _UNITS.index(stored), 0)
    if factor == 1:
        return
    number, bound = Call("cast", (value.clean.expr,), pl.Int64()), Literal((2**63 - 1) // factor, pl.Int64())
    if any_row(held, Call("gt", (Call("abs", (number,), pl.Int64()), bound), pl.Boolean())):
        raise Unsupported(Refusal.TIMES_OUT_OF_UNIT)


#: Units of time, from the coarsest to the finest.
_UNITS = ("s", "ms", "us", "ns")


def _unit_of_dtype(dtype: DtypeObj) -> str:
    if isinstance(dtype, pd.ArrowDtype):
        return getattr(dtype.pyarrow_dtype, "unit", "s")
    if kind_of(dtype) not in "mM":
        return "s"
    unit = dtype.unit if isinstance(dtype, pd.DatetimeTZDtype) else np.datetime_data(dtype)[0]  # type: ignore[arg-type]
    return unit if unit in _UNITS else "ns"


def _unit_of_item(item: Any) -> str:
    """The finest unit that pandas may choose for a time."""
    if isinstance(item, (pd.Timestamp, pd.Timedelta)):
        return item.unit
    return "us" if isinstance(item, dt.datetime) else "ns" if isinstance(item, _TIMES) else "s"


_TIMES = (dt.date, dt.timedelta, np.datetime64, np.timedelta64)


def _in_batches(value: Value, values: Any, dtype: DtypeObj) -> Value:
    """``isin`` by pandas itself, batch by batch, for values of mixed types. The plan contains them, so their number is limited."""
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)) or len(values) > MAX_MIXED_VALUES:
        raise Unsupported(Refusal.MEMBERSHIP_VALUES)
    stand_ins.probe(stand_ins.column(value.dtype, 1).isin, values, warned=True)
    result = batched("method", "isin", [value], dtype, (COLUMN, values))
    return Value(result.expr, dtype, nulls=False)


def _lookup_values(value: Value, values: Any) -> pl.Series | None:
    """The values as a Polars series of the column's physical dtype, with nulls for missing ones; ``None`` if none can match."""
    kind = kind_of(value.dtype)
    if isinstance(values, (pd.Series, pd.Index)):
        array: Any = values._values
    elif isinstance(values, (np.ndarray, pd.api.extensions.ExtensionArray)):
        array = values
    else:
        array = list(values)
    if getattr(array, "ndim", 1) != 1:
        raise Unsupported(Refusal.MEMBERSHIP_VALUES)
    if isinstance(array, list):
        return _from_list(value, kind, array)
    if isinstance(array, np.ndarray) and array.dtype == object:
        return _from_list(value, kind, array.tolist())
    if isinstance(array.dtype, pd.CategoricalDtype) or array.dtype == object:
        return _from_list(value, kind, list(array))
    wanted = Value(Column("v", physical(array.dtype)), array.dtype)
    is_missing_nan = wanted.physical.is_float() and family(array.dtype) == "numpy"
    if value.dtype == array.dtype and not (family(value.dtype) == "arrow" and value.physical.is_float()):
        return from_array("v", array)[0].fill_nan(None) if is_missing_nan else from_array("v", array)[0]
    one, _ = _in_common_dtype(value, wanted)
    if one.physical != value.physical:
        raise Unsupported(Refusal.MEMBERSHIP, f"{value.dtype} among {array.dtype}")
    if one.physical.is_integer() and wanted.physical.is_float():
        bounds = np.iinfo(numeric_dtype(value.dtype))
        array = array[(array == np.floor(array)) & (array >= float(bounds.min)) & (array < float(bounds.max))]
    series = from_array("v", array)[0]
    if is_missing_nan:
        series = series.fill_nan(None)
    return series.cast(one.physical)


def _from_list(value: Value, kind: str, items: list[Any]) -> pl.Series | None:
    if not items:
        return None
    if family(value.dtype) == "arrow":
        return _from_list_for_arrow(value, kind, items)
    if family(value.dtype) in ("category", "object") or (family(value.dtype) == "masked" and kind != "T"):
        raise Unsupported(Refusal.MEMBERSHIP, value.dtype)
    if not all(map(is_scalar, items)):
        raise Unsupported(Refusal.MEMBERSHIP_VALUES)
    missing = [item for item in items if item is None or item is pd.NA or item is pd.NaT or item != item]
    present = [item for item in items if not (item is None or item is pd.NA or item is pd.NaT or item != item)]
    if kind == "T" and any(isinstance(item, np.generic) for item in missing if not isinstance(item, float)):
        raise Unsupported(Refusal.MISSING_AMONG_STRINGS)
    if kind == "T" and all(type(item) is str for item in present):
        if missing and not value.nulls:
            missing = []
        if missing and (family(value.dtype) != "str" or any(item is pd.NaT for item in missing)):
            raise Unsupported(Refusal.MISSING_AMONG_STRINGS)
        return pl.Series("v", [*present, *([None] if missing else [])], dtype=pl.String)
    if missing:
        if kind == "f" and all(isinstance(item, float) for item in missing) and present:
            pass
        else:
            raise Unsupported(Refusal.MISSING_IN_LIST)
    if kind == "M" and all(isinstance(item, pd.Timestamp) for item in present):
        return _from_stamps(value, present)
    return _from_numbers(value, kind, present, bool(missing))


def _from_list_for_arrow(value: Value, kind: str, items: list[Any]) -> pl.Series:
    """The values for a column of an Arrow dtype: strings for strings, or integers for 64-bit integers, and none missing.

    Arrow infers a dtype from the values and casts them to the column's, or the column to theirs; here the two are the same.
    """
    if kind == "T" and all(type(item) is str for item in items):
        return pl.Series("v", items, dtype=pl.String)
    integers = value.physical == pl.Int64() and kind == "i" and all(type(item) is int for item in items)
    if integers and all(-(2**63) <= item < 2**63 for item in items):
        return pl.Series("v", items, dtype=pl.Int64)
    raise Unsupported(Refusal.MEMBERSHIP, value.dtype)


def _from_numbers(value: Value, kind: str, present: list[Any], missing: bool) -> pl.Series | None:
    if kind in "iu" and all(_is_integer(item) for item in present):
        bounds = np.iinfo(numeric_dtype(value.dtype))
        if any(not -(2**63) <= int(item) < 2**63 for item in present):
            raise Unsupported(Refusal.LARGE_INTEGER)
        fitting = [int(item) for item in present if bounds.min <= int(item) <= bounds.max]
        return pl.Series("v", fitting, dtype=value.physical) if fitting else None
    if kind == "f" and all(_is_integer(item) or isinstance(item, (float, np.floating)) for item in present):
        if value.physical != pl.Float64() or any(abs(int(item)) > 2**53 for item in present if _is_integer(item)):
            raise Unsupported(Refusal.MEMBERSHIP_OF_FLOAT32)
        numbers: list[float | None] = [float(item) for item in present]
        return pl.Series("v", [*numbers, *([None] if missing else [])], dtype=pl.Float64)
    raise Unsupported(Refusal.MEMBERSHIP_VALUES)


def _is_integer(item: Any) -> bool:
    return type(item) is int or (isinstance(item, np.integer) and not isinstance(item, np.timedelta64))


def _from_stamps(value: Value, stamps: list[pd.Timestamp]) -> pl.Series:
    zone = getattr(value.dtype, "tz", None)
    if zone is not None or any(stamp.tz is not None for stamp in stamps):
        raise Unsupported(Refusal.MEMBERSHIP_AND_ZONES)
    unit = value.dtype.name[11:-1] if isinstance(value.dtype, np.dtype) else ""
    try:
        array = pd.array([stamp.as_unit(unit, round_ok=False) for stamp in stamps], dtype=stamp_dtype(unit, None))
    except (ValueError, OverflowError) as error:
        raise Unsupported(Refusal.TIMES_OUT_OF_UNIT) from error
    return from_array("v", array)[0]


def between(value: Value, left: Any, right: Any, inclusive: str) -> Value:
    """``value.between(left, right)`` as two comparisons."""
    lower, upper = {
        "both": ("ge", "le"),
        "left": ("ge", "lt"),
        "right": ("gt", "le"),
        "neither": ("gt", "lt"),
    }[inclusive]
    return binary("and", binary(lower, value, left), binary(upper, value, right))
