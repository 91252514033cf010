"""Operators on values: what they are, their result dtype, comparison and logic.

The dtype of a result is found by asking pandas: the operation runs on empty columns of the same dtypes
(:func:`probe`), so NumPy promotion, weak Python scalars and errors are pandas' own. What differs between the engines is
spelled out in the expression: in NumPy-backed columns a comparison with a missing value is false (``!=`` is true), and
NaN, the greatest number to Polars, is greater than nothing.
"""

from __future__ import annotations

import datetime as dt
import numbers
import operator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.values.batches import COLUMN, batched
from craton.pandas.core.dtypes import BOOL, DtypeObj, family, kind_of, number, physical
from craton.pandas.core.view import Value, View
from craton.plan.expr import Call, Expr, Literal
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
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_EQUALITY = frozenset(["eq", "ne"])
#: The classes of real numbers that NumPy computes with.
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)
_OPERATORS = ARITHMETIC | COMPARISON | LOGIC
_FUNCTIONS = {name: function.__name__ for name, function in _OPERATORS.items()}


def probe(name: str, left: Any, right: Any) -> DtypeObj:
    """The dtype that pandas gives to ``left <name> right``, each a :class:`Value` or a scalar.

    Raises
    ------
    Unsupported
        If pandas would raise or warn: then pandas itself should.
    """
    operands = (left, right)
    keys = [(isinstance(item, Value), item.dtype if isinstance(item, Value) else item) for item in operands]

    texts = any(column and kind_of(item) == "T" for column, item in keys)

    def call() -> DtypeObj:
        if name not in ARITHMETIC or name == "pow" or texts:  # what pandas refuses value by value
            _OPERATORS[name](*(stand_ins.column(item, 1) if column else item for column, item in keys))
        result = _OPERATORS[name](*(stand_ins.column(item) if column else item for column, item in keys))
        return result.dtype  # type: ignore[no-any-return]

    return stand_ins.asked("operator", (name, keys), call, name)  # type: ignore[no-any-return]


def is_na(scalar: Any) -> bool:
    """Whether a scalar operand is a missing value of any kind."""
    return scalar is None or scalar is pd.NA or scalar is pd.NaT or bool(pd.isna(scalar))


def literal(scalar: Any, like: Value) -> Value:
    """A scalar operand beside a column, in the dtype that it has for pandas beside this column.

    Raises
    ------
    Unsupported
        If the scalar's type doesn't go with the column's.
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
    elif kind == "M" and isinstance(scalar, (str, dt.datetime, np.datetime64)):
        if isinstance(scalar, str) and family(like.dtype) == "arrow":
            raise Unsupported(Refusal.TEXT_BESIDE_ARROW_TIMES)
        return timestamp(scalar, like)
    elif (kind in "mM" and isinstance(scalar, dt.timedelta)) or (kind == "m" and isinstance(scalar, str)):
        return timedelta(scalar)
    raise Unsupported(Refusal.OPERAND_TYPE, f"{type(scalar).__name__} beside {like.dtype}")


def _number(scalar: Any, like: Value) -> Value:
    column = number(like.dtype)
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
    """A point in time beside a datetime column, in the column's unit."""
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
    """The pandas dtype of points in time."""
    return np.dtype(f"M8[{unit}]") if zone is None else pd.DatetimeTZDtype(unit, zone)


def timedelta(scalar: Any) -> Value:
    """A span of time, in its own unit."""
    try:
        span = pd.Timedelta(scalar)
    except (ValueError, TypeError, OverflowError) as error:
        raise Unsupported(Refusal.NO_SPAN_OF_TIME, error) from error
    if span is pd.NaT:
        raise Unsupported(Refusal.MISSING_OPERAND)
    unit: Any = "ms" if span.unit == "s" else span.unit
    return Value(Literal(span, pl.Duration(unit)), np.dtype(f"m8[{span.unit}]"), nulls=False)


def binary(name: str, left: Any, right: Any, held: View | None = None) -> Value:
    """``left <name> right`` for an arithmetic, comparison or logical operator.

    Parameters
    ----------
    name
        A key of ``ARITHMETIC``, ``COMPARISON`` or ``LOGIC``.
    left, right
        Values over the same base, or one of them a scalar.
    held
        A view over that base, for questions about the data where the result's dtype depends on it; without it, refused.

    Raises
    ------
    Unsupported
        If the engine can't do exactly what pandas does.
    """
    from craton.pandas.values.arithmetic import arithmetic

    for item in (left, right):
        if isinstance(item, Value) and family(item.dtype) == "object":
            raise Unsupported(Refusal.OPERATION, f"{name} on {item.dtype}, whose values a plan does not compute with")
        if isinstance(item, pd.offsets.BaseOffset) and name not in ("add", "sub"):
            raise Unsupported(Refusal.OPERATION, f"{name} with a calendar step")
        if name in LOGIC and not isinstance(item, Value) and not _logical(item):
            raise Unsupported(Refusal.OPERATION, f"{name} with a {type(item).__name__}")
    _known_scalar(name, left, right)
    dtype = probe(name, left, right)
    if name in ARITHMETIC:
        return arithmetic(name, left, right, dtype, held)
    try:
        if name in LOGIC:
            return _logic(name, left, right, dtype)
        if not isinstance(left, Value):
            return compare(MIRRORED[name], right, left, dtype)
        return compare(name, left, right, dtype)
    except Unsupported:
        if name in LOGIC and not _same_logic(left, right):
            raise
        if name in COMPARISON and not _same_comparison(name, left, right):
            raise
        return by_batch(name, left, right, dtype)


def _known_scalar(name: str, left: Any, right: Any) -> None:
    """Refuse a scalar operand of which pandas may say value by value that it does not go with the column.

    A ``Decimal`` has no order with NaN, of which pandas raises at the call, and a complex number none with infinity. Of a text
    in arithmetic with numbers pandas first asks what dtype it names, and tells the user of NumPy's deprecations, asked or not.
    """
    column, scalar = (left, right) if isinstance(left, Value) else (right, left)
    if isinstance(scalar, Value):
        return
    strange = isinstance(scalar, numbers.Number) and not isinstance(scalar, _NUMBERS) and not _holds_decimals(column)
    if strange or (name in ARITHMETIC and isinstance(scalar, (str, bytes)) and kind_of(column.dtype) in "biuf"):
        raise Unsupported(Refusal.OPERAND_TYPE, f"{type(scalar).__name__} beside {column.dtype}")


def _holds_decimals(value: Value) -> bool:
    return isinstance(value.dtype, pd.ArrowDtype) and pa.types.is_decimal(value.dtype.pyarrow_dtype)


def _logical(scalar: Any) -> bool:
    """Whether pandas takes a scalar as an operand of ``&`` whatever the column holds."""
    if isinstance(scalar, np.timedelta64):  # a number to NumPy
        return False
    return scalar is None or scalar is pd.NA or isinstance(scalar, (bool, int, float, np.bool_, np.number))


def _same_logic(left: Any, right: Any) -> bool:
    """Whether pandas gives such operands of ``&`` one dtype whatever the data are."""
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if all(kind_of(column.dtype) == "b" for column in columns):
        # Nullable ones beside Arrow's are Python objects to pandas, which raises at once where one is missing.
        return not {"masked", "arrow"} <= {family(column.dtype) for column in columns}
    scalars = [item for item in (left, right) if not isinstance(item, Value)]
    return len({column.dtype for column in columns}) == 1 and all(type(item) is int for item in scalars)


def _same_comparison(name: str, left: Any, right: Any) -> bool:
    """Whether pandas compares such operands whatever the values are.

    Columns of different kinds it compares as Python objects, which raises where one is missing as NA, or has no order
    with the other: at once, and not only when somebody looks at the result.
    """
    columns = [item for item in (left, right) if isinstance(item, Value)]
    kinds = {"n" if (kind := kind_of(column.dtype)) in "biuf" else kind for column in columns}
    if len(columns) == 1 or (len(kinds) == 1 and "O" not in kinds):
        return True
    return name in _EQUALITY and not any(holds_na(column) for column in columns)


def holds_na(value: Value) -> bool:
    """Whether a column may hold NA, of which nobody can say whether it is true."""
    dtype = value.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype  # type: ignore[union-attr]
    return (value.nulls or value.nans) and family(dtype) in ("masked", "arrow", "object")


def by_batch(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    """The operator as pandas computes it, batch by batch; the dtype must not depend on the data."""
    physical(dtype)
    columns = [item for item in (left, right) if isinstance(item, Value)]
    args = tuple(COLUMN if isinstance(item, Value) else item for item in (left, right))
    result = batched("operator", _FUNCTIONS[name], columns, dtype, args)
    if dtype == BOOL:
        return replace(result, nulls=False)
    return result


def compare(name: str, left: Value, right: Any, dtype: DtypeObj) -> Value:
    """A comparison of a column with a column or a scalar."""
    if isinstance(left.dtype, pd.CategoricalDtype) or (
        isinstance(right, Value) and isinstance(right.dtype, pd.CategoricalDtype)
    ):
        return _compare_categories(name, left, right, dtype)
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if not isinstance(right, Value):
        right = literal(right, left)
    _same_side(columns, dtype)
    for item in columns:
        if not item.definite and item.dtype == BOOL:
            raise Unsupported(Refusal.DTYPE_OF_DATA)
    left_nan, right_nan = may_be_nan(left), may_be_nan(right)
    left, right = _comparable(left, right)
    if family(dtype) == "masked":
        left_nan = right_nan = False
        left, right = left.clean, right.clean
    expr: Expr = Call(name, (left.expr, right.expr), pl.Boolean())
    nulls = left.nulls or right.nulls
    # A value that may be NaN makes a comparison false: as the greater side, or if both sides may be NaN.
    if name in ("gt", "ge"):
        guarded, checked = left_nan, left
    elif name in ("lt", "le"):
        guarded, checked = right_nan, right
    else:
        guarded, checked = left_nan and right_nan, left
    if guarded and nulls and dtype != BOOL and len(columns) == 2:
        raise Unsupported(Refusal.NAN_AND_MISSING)
    if guarded and name == "ne":
        expr = Call("or", (expr, Call("is_nan", (checked.expr,), pl.Boolean())), pl.Boolean())
    elif guarded:
        expr = Call("and", (expr, Call("is_not_nan", (checked.expr,), pl.Boolean())), pl.Boolean())
    if dtype == BOOL and nulls:
        expr = Call("fill_null", (expr, Literal(name == "ne", pl.Boolean())), pl.Boolean())
        nulls = False
    return Value(expr, dtype, nulls=nulls)


def _same_side(columns: list[Value], dtype: DtypeObj) -> None:
    """Refuse families side by side where pandas' rules of their meeting are not the engine's."""
    families = {family(column.dtype) for column in columns}
    if len(families) == 1 or (families == {"numpy", "masked"} and family(dtype) == "masked"):
        return
    raise Unsupported(Refusal.OPERANDS_SIDE_BY_SIDE, " and ".join(str(column.dtype) for column in columns))


def may_be_nan(value: Value) -> bool:
    """Whether an expression's value may be NaN, missing or not."""
    if value.nans:
        return True
    return family(value.dtype) == "arrow" and value.physical.is_float() and not isinstance(value.expr, Literal)


def _comparable(left: Value, right: Value) -> tuple[Value, Value]:
    """Both sides in the dtype in which pandas compares them."""
    kinds = {kind_of(left.dtype), kind_of(right.dtype)}
    if kinds <= set("biuf"):
        one, other = number(left.dtype), number(right.dtype)
        if (one.kind == "b") != (other.kind == "b") and "numpy" not in (family(left.dtype), family(right.dtype)):
            raise Unsupported(Refusal.BOOLEANS_COMPARED_WITH_NUMBERS)
        if one == other:
            return left, right
        if {one.kind, other.kind} == {"i", "u"} and "uint64" in (one.name, other.name):
            raise Unsupported(Refusal.UNSIGNED_COMPARED_WITH_SIGNED)
        if isinstance(right.expr, Literal) and one.kind in "iu" and other.kind in "iu":
            return left, right
        common = np.result_type(one, other)
        return cast_number(left, common), cast_number(right, common)
    if kinds == {"T"}:
        return left, right
    if kinds in ({"M"}, {"m"}):
        first, second = left.physical, right.physical
        if first == second or isinstance(right.expr, Literal):
            return left, right
        raise Unsupported(Refusal.COMPARISON, f"{left.dtype} and {right.dtype}")
    raise Unsupported(Refusal.COMPARISON, f"{left.dtype} and {right.dtype}")


def cast_number(value: Value, dtype: np.dtype[Any]) -> Value:
    """A number in another NumPy dtype (the flags stay; the pandas dtype becomes the NumPy one)."""
    target = physical(dtype)
    if value.physical == target:
        return Value(value.expr, dtype, value.nulls, value.nans)
    if isinstance(value.expr, Literal):
        literal_value = float(value.expr.value) if dtype.kind == "f" else int(value.expr.value)
        return Value(Literal(literal_value, target), dtype, nulls=False)
    return Value(Call("cast", (value.expr,), target), dtype, value.nulls, value.nans)


def _compare_categories(name: str, left: Value, right: Any, dtype: DtypeObj) -> Value:
    kind = left.dtype
    if not isinstance(kind, pd.CategoricalDtype) or isinstance(right, Value) or dtype != BOOL:
        raise Unsupported(Refusal.CATEGORICAL_COMPARISON)
    assert kind.categories is not None
    if is_na(right):
        raise Unsupported(Refusal.MISSING_OPERAND)
    try:
        code = kind.categories.get_loc(right)
    except (KeyError, TypeError):
        code = -1
    if not isinstance(code, int) or (code < 0 and name not in ("eq", "ne")):
        raise Unsupported(Refusal.NO_CATEGORY)
    expr: Expr = Call(name, (left.expr, Literal(code, pl.Int32())), pl.Boolean())
    if left.nulls:
        expr = Call("fill_null", (expr, Literal(name == "ne", pl.Boolean())), pl.Boolean())
    return Value(expr, BOOL, nulls=False)


def _logic(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if family(dtype) != "arrow" or any(kind_of(column.dtype) != "b" for column in columns):
        _same_side(columns, dtype)
    if all(
        isinstance(c.dtype, np.dtype) and c.dtype == dtype and c.dtype.kind in "iu" and not c.nulls for c in columns
    ):
        sides = [item if isinstance(item, Value) else literal(item, columns[0]) for item in (left, right)]
        if sides[0].physical == sides[1].physical:
            return Value(Call(name, (sides[0].expr, sides[1].expr), physical(dtype)), dtype, nulls=False)
    for item in (left, right):
        if isinstance(item, Value):
            if not item.definite or kind_of(item.dtype) != "b" or (family(item.dtype) == "numpy" and item.nulls):
                raise Unsupported(Refusal.OPERATION, f"{name} of {item.dtype}")
        elif not isinstance(item, (bool, np.bool_)) and (item is not pd.NA or dtype == BOOL):
            raise Unsupported(Refusal.OPERATION, f"{name} with a {type(item).__name__}")
    if kind_of(dtype) != "b":
        raise Unsupported(Refusal.OPERATION, f"{name} to {dtype}")
    sides = [
        item if isinstance(item, Value) else Value(Literal(None if item is pd.NA else bool(item), pl.Boolean()), BOOL)
        for item in (left, right)
    ]
    # Kleene's logic, as nullable and Arrow-backed booleans have it, is the engine's own.
    nulls = family(dtype) != "numpy" and any(side.nulls for side in sides)
    return Value(Call(name, (sides[0].expr, sides[1].expr), pl.Boolean()), dtype, nulls=nulls)


def invert(value: Value) -> Value:
    """``~value`` for a boolean column."""
    if not value.definite or kind_of(value.dtype) != "b" or (value.dtype == BOOL and value.nulls):
        raise Unsupported(Refusal.OPERATION, f"inversion of {value.dtype}")
    return Value(Call("not", (value.expr,), pl.Boolean()), value.dtype, nulls=value.nulls)


def is_missing(value: Value) -> Value:
    """``isna``: true where a value is missing."""
    if not value.nulls and not value.nans:
        return Value(Literal(False, pl.Boolean()), BOOL, nulls=False)
    return Value(Call("is_null", (value.clean.expr,), pl.Boolean()), BOOL, nulls=False)


def not_missing(value: Value) -> Value:
    """``notna``: true where a value is there."""
    if not value.nulls and not value.nans:
        return Value(Literal(True, pl.Boolean()), BOOL, nulls=False)
    return Value(Call("not", (is_missing(value).expr,), pl.Boolean()), BOOL, nulls=False)
