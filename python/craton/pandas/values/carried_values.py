"""Masks of columns that a plan carries by the positions of their values.

A condition on single values is evaluated once for the array in memory. The mask of a column is then the set of positions at which it is
true, as an engine evaluates a condition on the dictionary of a column. So it can be computed after rows have been selected or joined.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import BOOL, OBJECT, is_float
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.values.operands import COMPARISON
from craton.plan.expr import Call, Expr, Literal, Values
from craton.refusals import Refusal

__all__ = ["carried_missing", "compared_with_scalar"]

#: Classes whose comparisons have no effects, so that it does not matter how often values are compared.
_PLAIN = (
    *(str, bytes, int, float, complex, bool, type(None), decimal.Decimal, np.generic, type(pd.NaT), type(pd.NA)),
    *(dt.date, dt.time, dt.timedelta, pd.Period, pd.Interval),
)
#: The packages of these classes; subclasses of users may compare in other ways.
_LIBRARIES = frozenset(["builtins", "datetime", "decimal", "numpy", "pandas"])


def carried_missing(column: ObjectColumn) -> Value:
    """``isna`` of a column that a plan carries.

    Raises
    ------
    Unsupported
        If the objects are not in memory, or if pandas returns a sparse array.
    """
    if column.source is not None:
        return _missing_at_source(column)
    if not column.in_memory or isinstance(column.objects, pd.arrays.SparseArray):
        raise Unsupported(Refusal.OBJECT_COLUMN, repr(column.column))
    absent = Call("is_null", (column.column,), pl.Boolean())
    missing = np.asarray(pd.isna(column.objects))
    if not missing.any():
        return Value(absent, BOOL, nulls=False)
    return Value(Call("or", (absent, _at(column, missing, True)), pl.Boolean()), BOOL, nulls=False)


def _missing_at_source(column: ObjectColumn) -> Value:
    """Whether the values are missing that were converted to objects. In an object, a NaN of Arrow is missing, too."""
    assert column.source is not None
    expr = column.column
    if is_float(column.source) or column.dtype.is_float():
        expr = Call("fill_nan", (expr, Literal(None, column.dtype)), column.dtype)
    return Value(Call("is_null", (expr,), pl.Boolean()), BOOL, nulls=False)


def _at(column: ObjectColumn, mask: np.ndarray[Any, Any], absent: bool) -> Expr:
    """A mask of the values in memory as one of the column; ``absent`` in rows without a position."""
    positions = Values.of(pl.Series(np.flatnonzero(mask).astype(np.uint32)))
    found = Call("is_in", (column.column, positions), pl.Boolean())
    return Call("fill_null", (found, Literal(absent, pl.Boolean())), pl.Boolean())


def compared_with_scalar(name: str, left: Any, right: Any, held: View | None) -> Value | None:
    """A comparison of a column in memory that a plan carries with a scalar; None for other operands.

    Raises
    ------
    Unsupported
        If values or the scalar are of a class of the user, or if pandas raises, warns or does not return booleans.
    """
    value, scalar = (left, right) if isinstance(left, Value) else (right, left)
    if isinstance(scalar, Value) or not isinstance(value.expr, ObjectColumn) or not value.expr.in_memory:
        return None
    column = value.expr
    if not _is_plain(type(scalar)) or (value.dtype == OBJECT and not _all_plain(column.objects)):
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype} with a {type(scalar).__name__}")

    def compare(values: Any) -> np.ndarray[Any, Any]:
        series = pd.Series(values, dtype=value.dtype, copy=False)
        with plain_pandas():
            found = COMPARISON[name](*((series, scalar) if value is left else (scalar, series)))
        if getattr(found, "dtype", None) != BOOL:
            raise Unsupported(Refusal.OBJECT_RESULT)
        return found.to_numpy()  # type: ignore[no-any-return]

    mask = stand_ins.probe(compare, column.objects, about=name, warned=True)
    absent = False
    if value.dtype == OBJECT:  # joins add NaN
        try:
            absent = bool(stand_ins.probe(compare, [np.nan], about=name, warned=True)[0])
        except Unsupported:
            if held is None or any_row(held, Call("is_null", (column.column,), pl.Boolean())):
                raise
    return Value(_at(column, mask, absent), BOOL, nulls=False)


def _all_plain(objects: np.ndarray[Any, Any]) -> bool:
    return all(map(_is_plain, set(map(type, objects.tolist()))))


def _is_plain(kind: type) -> bool:
    return issubclass(kind, _PLAIN) and kind.__module__.partition(".")[0] in _LIBRARIES
