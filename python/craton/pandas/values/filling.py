"""Replacement of values: fillna, where, mask, clip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_scalar

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import attached
from craton.pandas.core.dtypes import BOOL, DtypeObj, family, kind_of, numeric_dtype, same_dtype, with_missing
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.values.operands import in_unit_of, is_na, literal
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal


def holds(dtype: DtypeObj, scalar: Any) -> bool:
    """Whether a column of the dtype can hold a scalar without changing its dtype."""

    def call() -> bool:
        return bool(stand_ins.column(dtype, 1).where(np.array([False]), scalar).dtype == dtype)

    try:
        return is_scalar(scalar) and stand_ins.probe_cached("holds", (dtype, scalar), call)
    except Unsupported:  # then the call goes to pandas, which raises its own error
        return False


def constant(scalar: Any, like: Value) -> Value:
    """A scalar as a value of the physical dtype of a column, into which it will be written.

    Raises
    ------
    Unsupported
        If the column can't hold the scalar unchanged.
    """
    if not holds(like.dtype, scalar):
        raise Unsupported(Refusal.VALUE_IN_COLUMN, f"{type(scalar).__name__} in a column of {like.dtype}")
    if is_na(scalar):
        return Value(Literal(None, like.physical), like.dtype)
    if isinstance(like.dtype, pd.CategoricalDtype):
        assert like.dtype.categories is not None
        return Value(Literal(int(like.dtype.categories.get_loc(scalar)), pl.Int32()), like.dtype, nulls=False)
    found = literal(scalar, like)
    if found.physical == like.physical:
        return Value(found.expr, like.dtype, nulls=False)
    if isinstance(found.expr, Literal) and kind_of(like.dtype) in "biuf":
        value = float(scalar) if kind_of(like.dtype) == "f" else int(scalar)
        # Polars refuses an integer beyond the dtype, and pyarrow makes a float of a large unsigned one negative.
        limits = np.iinfo(numeric_dtype(like.dtype) if kind_of(like.dtype) in "iu" else np.int64)
        limited = kind_of(like.dtype) != "f" or isinstance(scalar, np.unsignedinteger)
        if limited and not limits.min <= value <= limits.max:
            raise Unsupported(Refusal.VALUE_IN_COLUMN, f"{type(scalar).__name__} in a column of {like.dtype}")
        return Value(Literal(value, like.physical), like.dtype, nulls=False)
    if isinstance(found.expr, Literal) and kind_of(like.dtype) in "mM":
        return in_unit_of(like, found)
    raise Unsupported(Refusal.VALUE_IN_COLUMN, f"{type(scalar).__name__} in a column of {like.dtype}")


def choose(held: View, mask: Value, value: Value, other: Any, missing: bool = False) -> Value:
    """``value`` where the mask is true, else ``other`` (a scalar, or a value over the same base).

    Where the mask is missing, it counts as ``missing``.
    """
    if not value.definite or not mask.definite or kind_of(mask.dtype) != "b":
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    if mask.nulls:
        mask = Value(Call("fill_null", (mask.expr, Literal(missing, pl.Boolean())), pl.Boolean()), BOOL, nulls=False)
    if isinstance(other, Value):
        if not other.definite or not same_dtype(other.dtype, value.dtype):
            raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"{other.dtype} in a column of {value.dtype}")
        filler = other
    elif is_na(other) and with_missing(value.dtype) != value.dtype:
        if other is not np.nan:
            raise Unsupported(Refusal.MISSING_NOT_NAN)
        if value.dtype == BOOL:
            raise Unsupported(Refusal.MISSING_BOOLEANS)
        expr = Call("when", (mask.expr, value.expr, Literal(None, value.physical)), value.physical)
        return Value(expr, value.dtype, nulls=True, source=(build.project(held.base, (("value", expr),)), "value"))
    else:
        filler = constant(other, value)
    expr = Call("when", (mask.expr, value.expr, filler.expr), value.physical)
    return Value(expr, value.dtype, nulls=value.nulls or filler.nulls, nans=value.nans or filler.nans)


def filled(value: Value, scalar: Any) -> Value:
    """``fillna`` with a scalar."""
    if is_na(scalar):
        raise Unsupported(Refusal.FILLING_WITH_MISSING)
    if isinstance(value.expr, ObjectColumn) and value.expr.nan and type(scalar) is str:
        text = Call("fill_null", (value.expr.column, Literal(scalar, pl.String())), pl.String())
        return replace(value, expr=value.expr.over(text), nulls=False)
    if not value.nulls and not value.nans and isinstance(value.dtype, np.dtype) and value.dtype.kind in "biu":
        return value
    filler = constant(scalar, value)
    if not value.nulls and not value.nans:
        return value
    if value.dtype == BOOL or (isinstance(value.dtype, np.dtype) and value.dtype == object):
        raise Unsupported(Refusal.OPERATION, f"fillna of {value.dtype}")
    expr: Expr = value.expr
    if value.nans:
        expr = Call("fill_nan", (expr, filler.expr), value.physical)
    if value.nulls:
        expr = Call("fill_null", (expr, filler.expr), value.physical)
    return Value(expr, value.dtype, nulls=False, source=value.source)


def filled_with(value: Value, other: Value) -> Value:
    """``fillna`` with the values of another column of the same rows."""
    if not value.nulls and not value.nans:
        return value
    if (
        not value.definite
        or not other.definite
        or not same_dtype(value.dtype, other.dtype)
        or family(value.dtype) == "object"
    ):
        raise Unsupported(Refusal.OPERATION, f"fillna of {value.dtype} with {other.dtype}")
    expr = Call("coalesce", (value.clean.expr, other.expr), value.physical)
    return Value(expr, value.dtype, nulls=other.nulls, nans=other.nans)


def condition_over_rows(obj: Any, cond: Any, level: Any) -> Any:
    """The condition of ``where`` as a frame or series: an array of booleans, or a list of them, has one for each value of ``obj``.

    Raises
    ------
    Unsupported
        For other conditions, and for the parameter ``level``.
    """
    if level is not None:
        raise Unsupported(Refusal.CONDITION_TYPE)
    if isinstance(cond, (pd.Series, pd.DataFrame)):
        return cond
    array = np.asarray(cond) if isinstance(cond, (list, np.ndarray)) else None
    if array is None or array.dtype != bool or array.shape != obj.shape or not array.size:
        raise Unsupported(Refusal.CONDITION_TYPE)
    columns = array.reshape(len(array), -1).T.copy()
    held, exprs = attached(view(obj), [pl.Series(column) for column in columns])
    return lazy(type(obj), held.with_values([Value(expr, BOOL, nulls=False) for expr in exprs]))
