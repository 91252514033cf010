"""Operators between a frame and one value for each column: ``df - df.mean()``, ``df * [1, 2, 3]``.

pandas broadcasts the values along the rows, as an array of the Series' dtype. So a column and its value are converted to NumPy's common
dtype before the operator is computed, unlike for a scalar operand, whose dtype does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.axes import current_view
from craton.pandas.core.dtypes import FLOAT64, INT64, family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.elementwise import binary
from craton.pandas.values.operands import COMPARISON, cast_number
from craton.refusals import Refusal

_OPERATORS = ("add", "sub", "mul", "truediv", *COMPARISON)


def scalars_by_column(held: View, other: Any) -> pd.Series:
    """An operand as a Series of pandas' class, labelled by the columns of the view.

    Raises
    ------
    Unsupported
        If its labels are not exactly those of the columns, so that pandas would align it, or their number differs.
    """
    if isinstance(other, pd.Series):
        planned = current_view(other.__dict__)
        if planned is not None and planned.rows not in (None, len(held.labels)):
            raise Unsupported(Refusal.COLUMNS_DIFFER)
        with plain_pandas():
            index, values = other.index, other._values
    else:
        if type(other) is dict and list(other) != held.labels.tolist():
            raise Unsupported(Refusal.COLUMNS_DIFFER)
        items = list(other.values()) if type(other) is dict else other
        if len(items) != len(held.labels):
            raise Unsupported(Refusal.COLUMNS_DIFFER)
        if type(items) is list and not all(type(item) in (int, float) for item in items):
            raise Unsupported(Refusal.OPERAND_TYPE, type(other).__name__)
        index, values = held.labels, pd.Series(items)._values
    if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex) or not held.labels.equals(index):
        raise Unsupported(Refusal.COLUMNS_DIFFER)
    return pd.Series(values, index=held.labels, copy=False)


def operate_by_column(name: str, left: Any, other: Any, reverse: bool = False) -> Any:
    """The lazy result of an operator between each column of a frame and its value.

    Raises
    ------
    Unsupported
        If the columns or the values are not numbers, or their common dtype is neither int64 nor float64.
    """
    if name not in _OPERATORS:
        raise Unsupported(Refusal.OPERATOR_ALONG_COLUMNS)
    held = resolved(view(left))
    row = scalars_by_column(held, other)
    if not isinstance(row.dtype, np.dtype) or row.dtype.kind not in "iuf":
        raise Unsupported(Refusal.OPERAND_DTYPE, row.dtype)
    values = [_operated(name, value, row.iloc[i], reverse, held) for i, value in enumerate(held.values)]
    return lazy(type(left), held.with_values(values), left, other if isinstance(other, pd.Series) else None)


def _operated(name: str, value: Value, scalar: Any, reverse: bool, held: View) -> Value:
    if family(value.dtype) != "numpy" or kind_of(value.dtype) not in "iuf":
        raise Unsupported(Refusal.DTYPE, value.dtype)
    common = np.result_type(value.dtype, scalar.dtype)  # type: ignore[arg-type]
    if common not in (INT64, FLOAT64):
        raise Unsupported(Refusal.OPERAND_DTYPE, scalar.dtype)
    number = float(scalar) if common == FLOAT64 else int(scalar)
    column = cast_number(value, common)
    return binary(name, number, column, held) if reverse else binary(name, column, number, held)


def same_dtypes(values: Sequence[Value], row: pd.Series) -> None:
    """Refuse a row of values, for columns that would be converted to hold them.

    Raises
    ------
    Unsupported
        If not all columns have the dtype of the values, which is int64 or float64.
    """
    if row.dtype not in (INT64, FLOAT64) or any(value.dtype != row.dtype for value in values):
        raise Unsupported(Refusal.REPLACEMENT_DTYPES)


def items_by_label(held: View, row: Any) -> dict[Any, Any]:
    """The items of a Series by label.

    Raises
    ------
    Unsupported
        If its labels are not unique or have several levels, or it is known to have more than there are columns.
    """
    planned = current_view(row.__dict__)
    if planned is not None and planned.rows is not None and planned.rows > len(held.labels):
        raise Unsupported(Refusal.COLUMNS_DIFFER)
    with plain_pandas():
        index = row.index
        if isinstance(index, pd.MultiIndex) or not index.is_unique:
            raise Unsupported(Refusal.COLUMNS_DIFFER)
        return dict(zip(index, row, strict=True))
