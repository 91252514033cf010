"""Operands of operators: the operators' names, the dtype of a result, and scalars as columns.

The dtype of a result comes from pandas itself: :func:`probe` runs the operation on small columns of the same dtypes, so
NumPy's promotion rules, weakly typed Python scalars and errors are exactly pandas' own.
"""

from __future__ import annotations

import datetime as dt
import operator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.dtypes import BOOL, DtypeObj, family, kind_of, numeric_dtype, physical
from craton.pandas.core.view import Value
from craton.plan.expr import Call, Literal
from craton.refusals import Refusal

ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
}
COMPARISON = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
LOGIC = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
EQUALITY = frozenset(["eq", "ne"])
#: The classes of real numbers that NumPy computes with.
REAL_NUMBERS = (int, float, np.integer, np.floating, np.bool_)
_OPERATORS = ARITHMETIC | COMPARISON | LOGIC
_FUNCTIONS = {name: function.__name__ for name, function in _OPERATORS.items()}


def probe(name: str, left: Any, right: Any) -> DtypeObj:
    """The dtype of pandas' result of ``left <name> right``; each operand is a :class:`Value` or a scalar.

    Raises
    ------
    Unsupported
        If pandas raises or warns; the call then goes to pandas.
    """
    operands = (left, right)
    keys = [(isinstance(item, Value), item.dtype if isinstance(item, Value) else item) for item in operands]

    texts = any(column and kind_of(item) == "T" for column, item in keys)

    def call() -> DtypeObj:
        result = _OPERATORS[name](*(stand_ins.column(item) if column else item for column, item in keys))
        if name not in ARITHMETIC or name == "pow" or texts:  # operators for which pandas raises only if there are rows
            of_row = _OPERATORS[name](*(stand_ins.column(item, 1) if column else item for column, item in keys))
            if name in COMPARISON and of_row.dtype != result.dtype:  # for example for a number and a period
                raise Unsupported(Refusal.DTYPE_OF_DATA)
        return result.dtype  # type: ignore[no-any-return]

    return stand_ins.probe_cached("operator", (name, keys), call, name)  # type: ignore[no-any-return]


def is_na(scalar: Any) -> bool:
    """Whether a scalar operand is a missing value of any kind."""
    return scalar is None or scalar is pd.NA or scalar is pd.NaT or bool(pd.isna(scalar))


def is_row(other: Any) -> bool:
    """Whether an operand of a frame has one value for each column."""
    if isinstance(other, np.ndarray):
        return other.ndim == 1
    return isinstance(other, pd.Series) or type(other) is list or type(other) is dict


def is_axis(axis: Any) -> bool:
    """Whether an argument names an axis of a frame."""
    return type(axis) in (int, str) and axis in (0, 1, "index", "columns")


def literal(scalar: Any, like: Value) -> Value:
    """A scalar operand as a column, with the dtype to which pandas converts it for an operation with the column ``like``.

    Raises
    ------
    Unsupported
        If plans have no operation of this scalar type with the column's dtype.
    """
    kind = kind_of(like.dtype)
    if is_na(scalar):
        raise Unsupported(Refusal.MISSING_OPERAND)
    if isinstance(scalar, np.timedelta64):
        if kind in "mM":
            return timedelta(scalar)
    elif kind in "biuf" and isinstance(scalar, (bool, int, float, np.bool_, np.integer, np.floating)):
        return _number(scalar, like)
    elif isinstance(scalar, str) and kind == "T":
        return Value(Literal(str(scalar), pl.String()), like.dtype, nulls=False)
    elif kind in "mM" and isinstance(scalar, str) and family(like.dtype) == "arrow":
        raise Unsupported(Refusal.TEXT_BESIDE_ARROW_TIMES)
    elif kind == "M" and isinstance(scalar, (str, dt.datetime, np.datetime64)):
        return timestamp(scalar, like)
    elif (kind in "mM" and isinstance(scalar, dt.timedelta)) or (kind == "m" and isinstance(scalar, str)):
        return timedelta(scalar)
    raise Unsupported(Refusal.OPERAND_TYPE, f"{type(scalar).__name__} with {like.dtype}")


def _number(scalar: Any, like: Value) -> Value:
    column = numeric_dtype(like.dtype)
    if isinstance(scalar, (bool, np.bool_)):
        if column.kind != "b" and family(like.dtype) != "numpy":
            raise Unsupported(Refusal.BOOL_BESIDE_NUMBERS)
        return Value(Literal(bool(scalar), pl.Boolean()), BOOL, nulls=False)
    if isinstance(scalar, np.generic):
        dtype = scalar.dtype
        if dtype.name == "float16" or dtype.name == "longdouble":
            raise Unsupported(Refusal.OPERAND_DTYPE, dtype)
        value = float(scalar) if dtype.kind == "f" else int(scalar)
        return Value(Literal(value, physical(dtype)), dtype, nulls=False)
    if isinstance(scalar, int):
        if column.kind in "iu" and np.iinfo(column).min <= scalar <= np.iinfo(column).max:
            return Value(Literal(scalar, physical(column)), column, nulls=False)
        if not -(2**63) <= scalar < 2**63:
            raise Unsupported(Refusal.LARGE_INTEGER)
        if column.kind == "f":
            return Value(Literal(float(column.type(scalar)), physical(column)), column, nulls=False)
        return Value(Literal(scalar, pl.Int64()), np.dtype("int64"), nulls=False)
    if column == np.dtype("float32") and family(like.dtype) != "arrow":
        return Value(Literal(float(np.float32(scalar)), pl.Float32()), column, nulls=False)
    return Value(Literal(float(scalar), pl.Float64()), np.dtype("float64"), nulls=False)


def timestamp(scalar: Any, like: Value) -> Value:
    """A timestamp as an operand of a datetime column, in the column's unit."""
    zone = getattr(like.dtype, "tz", None)
    try:
        stamp = pd.Timestamp(scalar)
        if isinstance(scalar, str) and zone is not None:
            stamp = stamp.tz_localize(zone) if stamp.tz is None else stamp.tz_convert(zone)
    except (ValueError, TypeError, OverflowError) as error:
        raise Unsupported(Refusal.NO_POINT_IN_TIME, error) from error
    kind = like.physical
    if not isinstance(kind, pl.Datetime):
        raise Unsupported(Refusal.POINT_BESIDE_DAYS)
    physical_zone = getattr(kind, "time_zone", None)
    if stamp is pd.NaT or (stamp.tz is None) != (physical_zone is None):
        raise Unsupported(Refusal.ZONES_DIFFER)
    unit = kind.time_unit
    if (unit != "ns" and stamp.nanosecond) or (unit == "ms" and stamp.microsecond % 1000):
        raise Unsupported(Refusal.FINER_TIMESTAMP)
    try:
        stamp.as_unit(unit)
    except pd.errors.OutOfBoundsDatetime as error:
        raise Unsupported(Refusal.TIMESTAMP_OUT_OF_RANGE) from error
    if physical_zone is not None:
        stamp = stamp.tz_convert(physical_zone)
    dtype = like.dtype if isinstance(like.dtype, pd.ArrowDtype) else stamp_dtype(unit, zone)
    return Value(Literal(stamp, pl.Datetime(unit, physical_zone)), dtype, nulls=False)


def stamp_dtype(unit: str, zone: Any) -> DtypeObj:
    """The pandas dtype of datetimes with a unit and a time zone, which may be ``None``."""
    return np.dtype(f"M8[{unit}]") if zone is None else pd.DatetimeTZDtype(unit, zone)


def timedelta(scalar: Any) -> Value:
    """A duration, in its own unit."""
    try:
        span = pd.Timedelta(scalar)
    except (ValueError, TypeError, OverflowError) as error:
        raise Unsupported(Refusal.NO_SPAN_OF_TIME, error) from error
    if span is pd.NaT:
        raise Unsupported(Refusal.MISSING_OPERAND)
    unit: Any = "ms" if span.unit == "s" else span.unit
    return Value(Literal(span, pl.Duration(unit)), np.dtype(f"m8[{span.unit}]"), nulls=False)


def in_unit_of(column: Value, item: Value) -> Value:
    """A literal timestamp or duration in the unit and zone of a column of them.

    Raises
    ------
    Unsupported
        If the unit is too coarse for it, or too fine.
    """
    kind, value = column.physical, item.expr.value  # type: ignore[attr-defined]
    if value is None:
        return Value(Literal(None, kind), column.dtype, nulls=True)
    if isinstance(kind, pl.Datetime):
        return timestamp(value, column)
    if not isinstance(kind, pl.Duration):
        raise Unsupported(Refusal.OPERAND_TYPE, f"timedelta with {column.dtype}")
    try:
        value = pd.Timedelta(value).as_unit(kind.time_unit, round_ok=False)
    except ValueError as error:  # OutOfBoundsTimedelta is one
        raise Unsupported(Refusal.FINER_TIMEDELTA) from error
    return Value(Literal(value, kind), column.dtype, nulls=False)


def cast_number(value: Value, dtype: np.dtype[Any]) -> Value:
    """A numeric column cast to a NumPy dtype, which also becomes its pandas dtype; ``nulls`` and ``nans`` are kept."""
    target = physical(dtype)
    if value.physical == target:
        return Value(value.expr, dtype, value.nulls, value.nans)
    if isinstance(value.expr, Literal):
        if value.expr.value is None:
            return Value(Literal(None, target), dtype, nulls=True)
        literal_value = float(value.expr.value) if dtype.kind == "f" else int(value.expr.value)
        return Value(Literal(literal_value, target), dtype, value.nulls, value.nans)
    return Value(Call("cast", (value.expr,), target), dtype, value.nulls, value.nans)


def may_be_nan(value: Value) -> bool:
    """Whether a column may contain NaN, whether pandas treats it as missing or not."""
    if value.nans:
        return True
    return family(value.dtype) == "arrow" and value.physical.is_float() and not isinstance(value.expr, Literal)


def holds_na(value: Value) -> bool:
    """Whether a column may hold ``pd.NA``, whose truth value is ambiguous."""
    dtype = value.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype  # type: ignore[union-attr]
    return (value.nulls or value.nans) and family(dtype) in ("masked", "arrow", "object")


def by_batch(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    """The operator computed by pandas itself, batch by batch. The dtype of the result must not depend on the data."""
    from craton.pandas.values.batches import COLUMN, batched

    physical(dtype)
    columns = [item for item in (left, right) if isinstance(item, Value)]
    args = tuple(COLUMN if isinstance(item, Value) else item for item in (left, right))
    result = batched("operator", _FUNCTIONS[name], columns, dtype, args)
    if dtype == BOOL:
        return replace(result, nulls=False)
    return result
