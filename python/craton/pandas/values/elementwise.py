"""Binary operators on columns and scalars: arithmetic, comparison and logic."""

from __future__ import annotations

import datetime as dt
import numbers
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from craton.errors import Unsupported
from craton.pandas.core.dtypes import STR, family, kind_of, physical
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.values.arithmetic import arithmetic
from craton.pandas.values.carried_values import compared_with_scalar
from craton.pandas.values.comparison import compared
from craton.pandas.values.operands import ARITHMETIC, COMPARISON, LOGIC, REAL_NUMBERS, probe
from craton.refusals import Refusal


def binary(name: str, left: Any, right: Any, held: View | None = None) -> Value:
    """``left <name> right`` for an arithmetic, comparison or logical operator.

    Parameters
    ----------
    name
        A key of ``ARITHMETIC``, ``COMPARISON`` or ``LOGIC``.
    left, right
        Values over the same base, or one of them a scalar.
    held
        A view over that base. If the result's dtype depends on the data, a query over the view decides it; without a view,
        the operator is refused.

    Raises
    ------
    Unsupported
        If a plan can't compute exactly what pandas computes.
    """
    if name in ("eq", "ne"):
        left, right = _as_strings(left, right), _as_strings(right, left)
    if name in COMPARISON and (known := compared_with_scalar(name, left, right, held)) is not None:
        return known
    for item in (left, right):
        if isinstance(item, Value) and family(item.dtype) == "object":
            raise Unsupported(Refusal.OPERATION, f"{name} of {item.dtype}, a dtype that plans do not compute with")
        if isinstance(item, pd.offsets.BaseOffset) and name not in ("add", "sub"):
            raise Unsupported(Refusal.OPERATION, f"{name} with a date offset")
        if name in LOGIC and not isinstance(item, Value) and not _is_logical_operand(item):
            raise Unsupported(Refusal.OPERATION, f"{name} with a {type(item).__name__}")
    _check_scalar_operand(name, left, right)
    _refuse_errors_of_arrow(name, left, right)
    dtype = probe(name, left, right)
    if name in ARITHMETIC:
        return arithmetic(name, left, right, dtype, held)
    return compared(name, left, right, dtype)


def _as_strings(item: Any, other: Any) -> Any:
    """An operand; strings as objects become a column of strings if they are compared with a string."""
    if isinstance(item, Value) and isinstance(item.expr, ObjectColumn) and item.expr.nan and type(other) is str:
        return Value(item.expr.column, STR, nulls=item.nulls)
    return item


def _check_scalar_operand(name: str, left: Any, right: Any) -> None:
    """Refuse a scalar operand for which pandas may raise or warn depending on the column's values.

    Comparing a ``Decimal`` with NaN raises, and so does comparing a complex number with infinity, and multiplying infinity with a
    timedelta. An Arrow column may compare a ``np.timedelta64`` differently batch by batch. In arithmetic between numbers
    and a string, pandas first interprets the string as the name of a dtype, which can emit NumPy's deprecation warnings.
    """
    column, scalar = (left, right) if isinstance(left, Value) else (right, left)
    if isinstance(scalar, Value):
        return
    unordered = (
        isinstance(scalar, numbers.Number) and not isinstance(scalar, REAL_NUMBERS) and not _holds_decimals(column)
    )
    spans = isinstance(scalar, (dt.timedelta, np.timedelta64))
    if spans and name in ARITHMETIC and kind_of(column.dtype) == "f":
        raise Unsupported(Refusal.OPERATION, f"{name} of {column.dtype} with a {type(scalar).__name__}")
    if isinstance(scalar, (np.timedelta64, np.datetime64)) and kind_of(column.dtype) not in "mMT":
        raise Unsupported(Refusal.OPERAND_TYPE, f"{type(scalar).__name__} with {column.dtype}")
    if unordered or (name in ARITHMETIC and isinstance(scalar, (str, bytes)) and kind_of(column.dtype) in "biuf"):
        raise Unsupported(Refusal.OPERAND_TYPE, f"{type(scalar).__name__} with {column.dtype}")


def _refuse_errors_of_arrow(name: str, left: Any, right: Any) -> None:
    """Refuse operations of Arrow's integers that raise for most columns: pandas raises at once, a plan when it is computed.

    These are a division by 0 or -1, and a comparison of signed numbers with unsigned ones of 64 bits.
    """
    columns = [item.dtype for item in (left, right) if isinstance(item, Value)]
    if not all(isinstance(dtype, pd.ArrowDtype) and dtype.kind in "iu" for dtype in columns):
        return
    if name == "floordiv" and isinstance(right, numbers.Real) and right in (0, -1):
        raise Unsupported(Refusal.ERROR_OF_PANDAS, "division by 0")
    if name in COMPARISON and len(columns) == 2 and pl.UInt64() in map(physical, columns) and columns[0] != columns[1]:
        raise Unsupported(Refusal.OPERATION, f"{name} of {columns[0]} and {columns[1]}")


def _holds_decimals(value: Value) -> bool:
    return isinstance(value.dtype, pd.ArrowDtype) and pa.types.is_decimal(value.dtype.pyarrow_dtype)


def _is_logical_operand(scalar: Any) -> bool:
    """Whether pandas accepts a scalar as an operand of ``&`` for every column, whatever its values."""
    if isinstance(scalar, np.timedelta64):  # a subclass of np.number
        return False
    return scalar is None or scalar is pd.NA or isinstance(scalar, (bool, int, float, np.bool_, np.number))
