"""``Series.dt`` over a plan: components of dates and durations, calendar arithmetic, time zones.

As in :mod:`craton.pandas.values.text.strings`, a call on a stand-in gives the dtype and the errors of a member. The most used
members become expressions of the kernel, other row-wise ones run pandas' code batch by batch, and the rest runs in pandas.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.accessor import Accessor
from pandas.core.indexes.accessors import (
    ArrowTemporalProperties,
    CombinedDatetimelikeProperties,
    DatetimeProperties,
    TimedeltaProperties,
)

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.data_checks import any_missing
from craton.pandas.core.dtypes import FLOAT64, INT64, DtypeObj, family, kind_of, physical
from craton.pandas.core.inherit import counterpart
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import Native
from craton.pandas.core.routing import stays_in_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.accessors import LazyAccessor, member, member_property
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal

_PARTS = {
    "year": "year",
    "month": "month",
    "day": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "quarter": "quarter",
    "day_of_year": "ordinal_day",
    "dayofyear": "ordinal_day",
    "days_in_month": "days_in_month",
    "daysinmonth": "days_in_month",
}
_FLAGS = [
    "is_month_start",
    "is_month_end",
    "is_quarter_start",
    "is_quarter_end",
    "is_year_start",
    "is_year_end",
    "is_leap_year",
]
_BATCHED_PROPERTIES = {"microsecond", "nanosecond", "microseconds", "nanoseconds", "seconds", "days"}
_BATCHED_METHODS = {
    "normalize",
    "floor",
    "ceil",
    "round",
    "strftime",
    "day_name",
    "month_name",
    "total_seconds",
    "as_unit",
    "tz_convert",
    "tz_localize",
}
_CONSTANTS = {"unit", "tz"}
#: Properties whose values are Python objects.
_OBJECTS = {"date", "time", "timetz"}
_SPECIAL: dict[str, Callable[..., Any]] = {}


def _probe_dtype(dtype: DtypeObj, read: Callable[[Any], Any]) -> DtypeObj:
    result = stand_ins.probe(read, stand_ins.column(dtype).dt, warned=True)
    if not isinstance(result, pd.Series) or result.dtype == object:
        raise Unsupported(Refusal.OBJECT_RESULT)
    physical(result.dtype)
    return result.dtype  # type: ignore[no-any-return]


def _with_dtype(held: View, value: Value, expr: Expr, dtype: DtypeObj) -> Value:
    """The column of a member. One of NumPy integers becomes floats if a date is missing, so its dtype depends on the data."""
    nulls = value.nulls
    if not nulls:
        return Value(expr, dtype, nulls=False)
    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        return Value(expr, dtype, nulls=True, source=(build.project(held.base, (("date", value.expr),)), "date"))
    return Value(expr, dtype, nulls=True, nans=False)


def _property(name: str) -> Callable[[Any], Any]:
    def run(self: Any) -> Any:
        held, value = self._held
        if not value.definite:
            raise Unsupported(Refusal.DTYPE_OF_DATA)
        if name in _OBJECTS and family(value.dtype) == "numpy":
            from craton.pandas.values.whole_results import computed_by_pandas

            return computed_by_pandas(self._series, lambda column: getattr(column.dt, name))
        if name in _CONSTANTS:
            return getattr(stand_ins.column(value.dtype).dt, name)
        dtype = _probe_dtype(value.dtype, lambda accessor: getattr(accessor, name))
        return self._series_of(held, _part(name, held, value, dtype))

    return run


def _part(name: str, held: View, value: Value, dtype: DtypeObj) -> Value:
    from craton.pandas.values.batches import batched

    if family(value.dtype) == "arrow":
        return Value(batched("attribute", f"dt.{name}", [value], dtype).expr, dtype, nulls=value.nulls)
    if kind_of(value.dtype) == "M":
        if name in _PARTS:
            expr: Expr = Call("dt_part", (value.expr,), physical(dtype), (("part", _PARTS[name]),))
            return _with_dtype(held, value, expr, dtype)
        if name in ("weekday", "dayofweek", "day_of_week"):
            expr = Call("dt_part", (value.expr,), physical(dtype), (("part", "weekday"), ("shift", -1)))
            return _with_dtype(held, value, expr, dtype)
    if name in _BATCHED_PROPERTIES:
        return _with_dtype(held, value, batched("attribute", f"dt.{name}", [value], dtype).expr, dtype)
    if name in _FLAGS:
        expr = batched("attribute", f"dt.{name}", [value], dtype).expr
        return Value(expr, dtype, nulls=False)
    raise Unsupported(Refusal.METHOD)


def _method(name: str) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.values.batches import COLUMN, batched, verified

        held, value = self._held
        if not value.definite:
            raise Unsupported(Refusal.DTYPE_OF_DATA)
        for item in (*args, *kwargs.values()):
            if not isinstance(item, (str, int, bool, float, type(None))):
                raise Unsupported(Refusal.ARGUMENT_TYPE, type(item).__name__)
            if item == "infer":  # pandas infers it from the order of all rows
                raise Unsupported(Refusal.PARAMETER, "ambiguous='infer'")
        dtype = _probe_dtype(value.dtype, lambda accessor: getattr(accessor, name)(*args, **kwargs))
        result = batched("method", f"dt.{name}", [value], dtype, (COLUMN, *args), **kwargs)
        if _may_fail(name, value.dtype, dtype):
            result = verified(held, result)
        # With one argument (a frequency, a zone, a unit, a format), a result is missing only if the value is. With further ones
        # (``ambiguous``, ``nonexistent``, ``errors``), pandas may return NaT instead of raising an error.
        return self._series_of(held, Value(result.expr, dtype, nulls=value.nulls or len(args) + len(kwargs) > 1))

    return run


def _may_fail(name: str, source: DtypeObj, target: DtypeObj) -> bool:
    """Whether pandas can raise for some values: wall times that are nonexistent or ambiguous, or times out of the unit's range."""
    zones = [zone for dtype in (source, target) if (zone := _zone(dtype)) is not None]
    match name:
        case "as_unit":
            return True
        case "tz_localize":
            zone = _zone(target)  # Arrow refuses times that already have a zone, but only in a column with rows
            return zone is not None and (zone != "UTC" or family(source) == "arrow")
        case "floor" | "ceil" | "round" | "normalize":
            return bool(zones) or "ns" in str(source)
        case _:
            return family(source) == "arrow"


def _zone(dtype: DtypeObj) -> str | None:
    """The name of a dtype's time zone, if it has one."""
    if isinstance(dtype, pd.ArrowDtype):
        return getattr(dtype.pyarrow_dtype, "tz", None)
    return str(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else None


def _with_levels_of_pandas(held: View) -> View:
    """A view whose row labels have new levels, because pandas sets them as the index of a new frame."""
    return replace(held, index=replace(held.index, levels=(), sources=()))


def _isocalendar(self: Any) -> Any:
    from craton.pandas.values.batches import COLUMN, batched

    held, value = self._held
    if not value.definite or family(value.dtype) != "numpy":
        raise Unsupported(Refusal.OPERATION, f"dt.isocalendar of {value.dtype}")
    frame = stand_ins.column(value.dtype).dt.isocalendar()
    values = []
    for position, dtype in enumerate(frame.dtypes):
        result = batched("method", "dt.isocalendar", [value], dtype, (COLUMN,), pick=position)
        values.append(Value(result.expr, dtype, nulls=value.nulls))
    held = _with_levels_of_pandas(held)
    return lazy(self._series._constructor_expanddim, held.with_values(values, frame.columns), None)


#: The components of a duration: the number of nanoseconds of each, and of the next larger one.
_COMPONENTS = {
    "days": (86_400 * 10**9, None),
    "hours": (3_600 * 10**9, 86_400 * 10**9),
    "minutes": (60 * 10**9, 3_600 * 10**9),
    "seconds": (10**9, 60 * 10**9),
    "milliseconds": (10**6, 10**9),
    "microseconds": (10**3, 10**6),
    "nanoseconds": (1, 10**3),
}
_NANOSECONDS = {"ms": 10**6, "us": 10**3, "ns": 1}


def _components(self: Any) -> Any:
    """``components``: a frame of integers, or of floats if a duration is missing."""
    held, value = self._held
    kind = value.physical
    if not value.definite or family(value.dtype) != "numpy" or not isinstance(kind, pl.Duration):
        raise Unsupported(Refusal.OPERATION, f"dt.components of {value.dtype}")
    floats = any_missing(held, value)
    unit = _NANOSECONDS[kind.time_unit]
    total: Expr = Call("cast", (value.expr,), pl.Int64())
    values = []
    for size, next_size in _COMPONENTS.values():
        if size < unit:
            part: Expr = Call("sub", (total, total), pl.Int64())
        else:
            rest = (
                total if next_size is None else Call("mod", (total, Literal(next_size // unit, pl.Int64())), pl.Int64())
            )
            part = Call("floordiv", (rest, Literal(size // unit, pl.Int64())), pl.Int64())
        if floats:
            values.append(Value(Call("cast", (part,), pl.Float64()), FLOAT64, nulls=True))
        else:
            values.append(Value(part, INT64, nulls=False))
    labels = stand_ins.column(value.dtype).dt.components.columns
    held = _with_levels_of_pandas(held)
    return lazy(self._series._constructor_expanddim, held.with_values(values, labels), self._series)


class DatetimeMembers(LazyAccessor, DatetimeProperties):
    """``Series.dt`` of datetimes."""

    _pandas_accessor = CombinedDatetimelikeProperties


class TimedeltaMembers(LazyAccessor, TimedeltaProperties):
    """``Series.dt`` of timedeltas."""

    _pandas_accessor = CombinedDatetimelikeProperties


class ArrowMembers(LazyAccessor, ArrowTemporalProperties):
    """``Series.dt`` of Arrow-backed timestamps and durations."""

    _pandas_accessor = CombinedDatetimelikeProperties


_SPECIAL["isocalendar"] = _isocalendar
_SPECIAL["components"] = _components


def _define_members(cls: Any, base: type) -> None:
    seen: set[str] = set()
    for owner in base.__mro__:
        for name, original in vars(owner).items():
            if name.startswith("_") or name in seen or owner is object:
                continue
            seen.add(name)
            if isinstance(original, property):
                function: Any = _SPECIAL.get(name) or _property(name)
                setattr(cls, name, member_property("dt", name, function, base))
            elif callable(original):
                function = _SPECIAL.get(name) or (_method(name) if name in _BATCHED_METHODS else None)
                setattr(cls, name, member("dt", name, function, original))


_define_members(ArrowMembers, ArrowTemporalProperties)
_define_members(DatetimeMembers, DatetimeProperties)
_define_members(TimedeltaMembers, TimedeltaProperties)


@functools.cache
def _counted_class(theirs: Any) -> Any:
    return counterpart(theirs, "Series.dt", properties=True)


def counted(accessor: Any) -> Any:
    """Change the class of one of pandas' accessors: its calls are counted as fallbacks, and their results are Craton objects."""
    theirs: Any = type(accessor)
    accessor.__class__ = _counted_class(theirs)
    return accessor


class DatetimeAccessor(Accessor):
    """``Series.dt``: one of the classes above for a lazy Series of dates or durations, pandas' own accessor for others."""

    def __init__(self) -> None:
        super().__init__("dt", CombinedDatetimelikeProperties)
        self.__craton_native__ = Native("Series.dt", CombinedDatetimelikeProperties, DatetimeMembers)

    def __get__(self, obj: Any, cls: Any) -> Any:
        if obj is None:
            return CombinedDatetimelikeProperties
        if stays_in_pandas(obj):
            return counted(CombinedDatetimelikeProperties(obj))
        dtype = obj.dtype
        if isinstance(dtype, np.dtype) and dtype.kind == "m":
            return TimedeltaMembers(obj)
        if isinstance(dtype, pd.DatetimeTZDtype) or (isinstance(dtype, np.dtype) and dtype.kind == "M"):
            return DatetimeMembers(obj)
        if isinstance(dtype, pd.ArrowDtype) and dtype.kind in "mM":
            return ArrowMembers(obj)
        if not isinstance(dtype, (pd.ArrowDtype, pd.CategoricalDtype, pd.PeriodDtype)):
            CombinedDatetimelikeProperties(stand_ins.column(dtype))  # raises pandas' error
        return counted(CombinedDatetimelikeProperties(obj))
