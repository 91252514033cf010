"""Arithmetic, comparison and logic on values, with pandas' dtypes and missing values.

The dtype of a result is found by asking pandas: the operation runs on empty columns of the same dtypes
(:func:`probe`), so NumPy promotion, weak Python scalars and errors are pandas' own. What differs between the engines is
spelled out in the expression: in NumPy-backed columns a comparison with a missing value is false (``!=`` is true).
"""

from __future__ import annotations

import datetime as dt
import operator
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.dtypes import BOOL, DtypeObj, family, kind_of, physical
from craton.pandas.view import Value
from craton.plan.expr import Call, Expr, Literal

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


class _Typed:
    """A stand-in for a column in :func:`probe`; hashable."""


@lru_cache(maxsize=4096)
def _probe(name: str, left: Any, right: Any, left_type: type, right_type: type) -> DtypeObj:
    function = (ARITHMETIC | COMPARISON | LOGIC)[name]
    operands = [
        pd.Series([], dtype=item[1]) if isinstance(item, tuple) and item[0] is _Typed else item for item in (left, right)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*operands).dtype  # type: ignore[no-any-return]


def probe(name: str, left: Any, right: Any) -> DtypeObj:
    """The dtype that pandas gives to ``left <name> right``, each a :class:`Value` or a scalar.

    Raises
    ------
    Unsupported
        If pandas would raise or warn: then pandas itself should.
    """
    keys = [(_Typed, item.dtype) if isinstance(item, Value) else item for item in (left, right)]
    try:
        return _probe(name, keys[0], keys[1], type(left), type(right))
    except Exception as error:
        raise Unsupported(f"{name}: {error}") from error


def literal(scalar: Any, like: Value) -> Value:
    """A scalar operand beside a column.

    Raises
    ------
    Unsupported
        If the scalar's type doesn't go with the column's.
    """
    kind = kind_of(like.dtype)
    if isinstance(scalar, (bool, np.bool_)):
        return Value(Literal(bool(scalar), pl.Boolean()), BOOL, nulls=False)
    if isinstance(scalar, (int, np.integer)) and kind in "biuf":
        if not -(2**63) <= scalar < 2**63:
            raise Unsupported("an integer of over 64 bits")
        dtype = scalar.dtype if isinstance(scalar, np.integer) else np.dtype("int64")
        return Value(Literal(int(scalar), physical(dtype)), dtype, nulls=False)
    if isinstance(scalar, (float, np.floating)) and kind in "biuf":
        if scalar != scalar:
            raise Unsupported("a NaN operand")
        return Value(Literal(float(scalar), pl.Float64()), np.dtype("float64"), nulls=False)
    if isinstance(scalar, str) and kind == "T":
        return Value(Literal(scalar, pl.String()), like.dtype, nulls=False)
    if kind == "M" and isinstance(scalar, (str, dt.datetime, np.datetime64, pd.Timestamp)):
        stamp = pd.Timestamp(scalar)
        if stamp is pd.NaT or (stamp.tz is None) != (getattr(like.dtype, "tz", None) is None):
            raise Unsupported("NaT, or a timestamp with another kind of time zone")
        return timestamp(stamp, like)
    raise Unsupported(f"an operand of type {type(scalar).__name__} beside {like.dtype}")


def timestamp(stamp: pd.Timestamp, like: Value) -> Value:
    """A timestamp beside a datetime column, exact in the finer of both units."""
    kind = like.physical
    unit = kind.time_unit  # type: ignore[attr-defined]
    if stamp.unit == "ns" and stamp.nanosecond:
        unit = "ns"
    elif unit == "ms" and stamp.microsecond % 1000:
        unit = "us"
    zone = getattr(kind, "time_zone", None)
    return Value(Literal(stamp, pl.Datetime(unit, zone)), like.dtype, nulls=False)


def binary(name: str, left: Any, right: Any) -> Value:
    """``left <name> right`` for an arithmetic, comparison or logical operator.

    Parameters
    ----------
    name
        A key of ``ARITHMETIC``, ``COMPARISON`` or ``LOGIC``.
    left, right
        Values over the same base, or one of them a scalar.

    Raises
    ------
    Unsupported
        If the engine can't do exactly what pandas does.
    """
    for item in (left, right):
        if isinstance(item, Value) and (not item.definite or family(item.dtype) in ("object", "category")):
            raise Unsupported(f"{name} on {item.dtype} whose values a plan does not compute with")
    dtype = probe(name, left, right)
    if not isinstance(left, Value):
        left = literal(left, right)
    elif not isinstance(right, Value):
        right = literal(right, left)
    if name in COMPARISON:
        return _compare(name, left, right, dtype)
    if name in LOGIC:
        return _logic(name, left, right, dtype)
    return _arithmetic(name, left, right, dtype)


def _compare(name: str, left: Value, right: Value, dtype: DtypeObj) -> Value:
    if kind_of(left.dtype) != kind_of(right.dtype) and not {kind_of(left.dtype), kind_of(right.dtype)} <= set("biuf"):
        raise Unsupported(f"comparison of {left.dtype} and {right.dtype}")
    # NaN is the greatest number to Polars: comparisons with a literal from above need no cleaning.
    if isinstance(right.expr, Literal) and name in ("lt", "le", "eq"):
        right_clean, left_clean = right, left
        nulls = left.nulls
    else:
        left_clean, right_clean = left.clean, right.clean
        nulls = left_clean.nulls or right_clean.nulls
    expr: Expr = Call(name, (left_clean.expr, right_clean.expr), pl.Boolean())
    if dtype == BOOL and nulls:
        expr = Call("fill_null", (expr, Literal(name == "ne", pl.Boolean())), pl.Boolean())
        nulls = False
    return Value(expr, dtype, nulls=nulls)


def _logic(name: str, left: Value, right: Value, dtype: DtypeObj) -> Value:
    if not left.dtype == right.dtype == BOOL or left.nulls or right.nulls:
        raise Unsupported(f"{name} of {left.dtype} and {right.dtype}")
    return Value(Call(name, (left.expr, right.expr), pl.Boolean()), dtype, nulls=False)


def _arithmetic(name: str, left: Value, right: Value, dtype: DtypeObj) -> Value:
    kinds = kind_of(left.dtype) + kind_of(right.dtype)
    if not set(kinds) <= set("biuf") or kinds == "bb" or family(dtype) != "numpy":
        raise Unsupported(f"{name} of {left.dtype} and {right.dtype}")
    result = physical(dtype)
    if name == "pow" or (name in ("floordiv", "mod") and not _nonzero(right)):
        raise Unsupported(f"{name} whose dtype depends on the data")
    expr = Call(name, (left.expr, right.expr), result)
    floating = result.is_float()
    return Value(expr, dtype, nulls=left.nulls or right.nulls, nans=floating)


def _nonzero(value: Value) -> bool:
    return isinstance(value.expr, Literal) and value.expr.value != 0


def invert(value: Value) -> Value:
    """``~value`` for a boolean column."""
    if value.dtype != BOOL or value.nulls:
        raise Unsupported(f"inversion of {value.dtype}")
    return Value(Call("not", (value.expr,), pl.Boolean()), BOOL, nulls=False)


def is_missing(value: Value) -> Value:
    """``isna``: true where a value is missing."""
    if not value.nulls and not value.nans:
        return Value(Literal(False, pl.Boolean()), BOOL, nulls=False)
    return Value(Call("is_null", (value.clean.expr,), pl.Boolean()), BOOL, nulls=False)

