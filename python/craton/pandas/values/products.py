"""Products of a frame and a vector or matrix: ``df.dot(weights)``, ``df @ weights``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.axes import current_view
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.dtypes import FLOAT64, INT64, family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import View
from craton.pandas.values.batches import batched
from craton.pandas.values.whole_results import computed_by_pandas
from craton.refusals import Refusal


def _vector(held: View, other: Any) -> pd.Series:
    """A vector with the weight of each column, labelled by the columns.

    Raises
    ------
    Unsupported
        If it is not a vector of numbers, or its labels are not those of the columns in the same order.
    """
    if isinstance(other, pd.Series):
        planned = current_view(other.__dict__)
        if planned is not None and planned.rows not in (None, len(held.labels)):
            raise Unsupported(Refusal.COLUMNS_DIFFER)
        with plain_pandas():
            if not held.labels.is_unique or not held.labels.identical(other.index):
                raise Unsupported(Refusal.COLUMNS_DIFFER)
            values = other._values
    elif isinstance(other, np.ndarray) and other.shape == (len(held.labels),):
        values = other
    else:
        raise Unsupported(Refusal.OPERAND_TYPE, type(other).__name__)
    if values.dtype not in (INT64, FLOAT64):
        raise Unsupported(Refusal.OPERAND_DTYPE, values.dtype)
    return pd.Series(values)


def dot(self: Any, other: Any) -> Any:
    """The products of the rows of a frame and a vector or matrix, as lazy columns."""
    try:
        return _dot(self, other)
    except Unsupported:
        return computed_by_pandas(self, lambda whole: whole.dot(other))


def _dot(self: Any, other: Any) -> Any:
    """The products of the rows and a vector, as a lazy Series.

    Raises
    ------
    Unsupported
        If the operands are not 64-bit numbers, or pandas would align them.
    """
    held = resolved(view(self))
    if not held.values or any(
        family(value.dtype) != "numpy" or kind_of(value.dtype) not in "if" for value in held.values
    ):
        raise Unsupported(Refusal.OPERATION, "dot of columns that are not all numbers")
    if len(held.values) == 1:  # the product of 0 and a missing value is 0 if there are several rows, else missing
        raise Unsupported(Refusal.OPERATION, "dot of a single column")
    vector = _vector(held, other)
    dtypes = [value.dtype for value in held.values]
    weights: Any = vector if isinstance(other, pd.Series) else vector.to_numpy()

    def call() -> Any:
        return pd.DataFrame({i: stand_ins.column(dtype, 2) for i, dtype in enumerate(dtypes)}).dot(weights).dtype

    dtype = stand_ins.probe(call)
    if dtype not in (INT64, FLOAT64):
        raise Unsupported(Refusal.DTYPE, dtype)
    value = batched("frame", "dot", list(held.values), dtype, (weights,))
    if dtype == INT64:
        value = replace(value, nulls=False)
    return lazy(series_class(), held.series(value, None), self)
