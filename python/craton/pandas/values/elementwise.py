"""Operators on values: arithmetic, comparison or logic, of columns and scalars."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from craton.errors import Unsupported
from craton.pandas.core.dtypes import family, kind_of
from craton.pandas.core.view import Value, View
from craton.pandas.values.arithmetic import arithmetic
from craton.pandas.values.comparison import compared
from craton.pandas.values.operands import ARITHMETIC, LOGIC, REAL_NUMBERS, probe
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
        A view over that base, for questions about the data where the result's dtype depends on it; without it, refused.

    Raises
    ------
    Unsupported
        If the engine can't do exactly what pandas does.
    """
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
    return compared(name, left, right, dtype)


def _known_scalar(name: str, left: Any, right: Any) -> None:
    """Refuse a scalar operand of which pandas may say value by value that it does not go with the column.

    A ``Decimal`` has no order with NaN, of which pandas raises at the call, and a complex number none with infinity. Of a text
    in arithmetic with numbers pandas first asks what dtype it names, and tells the user of NumPy's deprecations, asked or not.
    """
    column, scalar = (left, right) if isinstance(left, Value) else (right, left)
    if isinstance(scalar, Value):
        return
    strange = (
        isinstance(scalar, numbers.Number) and not isinstance(scalar, REAL_NUMBERS) and not _holds_decimals(column)
    )
    if strange or (name in ARITHMETIC and isinstance(scalar, (str, bytes)) and kind_of(column.dtype) in "biuf"):
        raise Unsupported(Refusal.OPERAND_TYPE, f"{type(scalar).__name__} beside {column.dtype}")


def _holds_decimals(value: Value) -> bool:
    return isinstance(value.dtype, pd.ArrowDtype) and pa.types.is_decimal(value.dtype.pyarrow_dtype)


def _logical(scalar: Any) -> bool:
    """Whether pandas takes a scalar as an operand of ``&`` whatever the column holds."""
    if isinstance(scalar, np.timedelta64):  # a number to NumPy
        return False
    return scalar is None or scalar is pd.NA or isinstance(scalar, (bool, int, float, np.bool_, np.number))
