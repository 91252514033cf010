"""Reductions along the columns (``axis=1``): one value for each row.

Counts, and ``any``, ``all`` and ``sum`` of booleans and integers, are expressions of the kernel. For the others, pandas' own method
runs on batches of rows, so the order of additions and the treatment of dtypes and missing values are pandas' own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.engine import may_keep
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import BOOL, INT64, DtypeObj, family, kind_of, physical
from craton.pandas.core.execute import has_rows, resolved
from craton.pandas.core.lazy import lazy
from craton.pandas.core.view import Value, View, name_index
from craton.pandas.values.batches import batched, computed_if_in_memory, computed_together
from craton.pandas.values.comparison import not_missing
from craton.plan.expr import Call, Expr
from craton.refusals import Refusal


def reduce_rows(self: Any, name: str, held: View, named: dict[str, Any], label: Any = None) -> Any:
    """A reduction of each row, as a lazy Series with a given name.

    Raises
    ------
    Unsupported
        If the dtype of the result is not known, or pandas raises.
    """
    held = resolved(held)
    if not held.values:
        raise Unsupported(Refusal.NO_COLUMNS)
    dtype = _result_dtype(name, held, named)
    if name == "count":
        value = Value(_total([not_missing(one).expr for one in held.values]), INT64, nulls=False)
    else:
        found = _expression(name, held.values, dtype, named)
        value = found if found is not None else _in_batches(name, held.values, dtype, named)
        held, value = computed_if_in_memory(held, value)
    return lazy(series_class(), held.series(value, label), self)


def _result_dtype(name: str, held: View, named: dict[str, Any]) -> DtypeObj:
    """The dtype of pandas' result. It may differ for frames without rows, which are then refused."""
    dtypes = [value.dtype for value in held.values]
    anything = name in ("count", "nunique")
    for dtype in dtypes:
        if family(dtype) == "object" or not (
            anything or (family(dtype) in ("numpy", "masked") and kind_of(dtype) in "biuf")
        ):
            raise Unsupported(Refusal.OPERATION, f"{name} of rows with {dtype}")

    def call() -> tuple[DtypeObj, bool]:
        rows = pd.DataFrame({i: stand_ins.column(dtype, 2) for i, dtype in enumerate(dtypes)})
        found = getattr(rows, name)(axis=1, **named)
        nothing = getattr(stand_ins.columns(dtypes), name)(axis=1, **named)
        kept = isinstance(nothing, pd.Series) and nothing.dtype == found.dtype
        return found.dtype, kept

    dtype, kept = stand_ins.probe_cached("rows", (name, dtypes, named), call, name)
    physical(dtype)
    if kind_of(dtype) == "O":
        raise Unsupported(Refusal.OBJECT_RESULT)
    if not kept and not has_rows(held):
        raise Unsupported(Refusal.NO_ROWS)
    return dtype  # type: ignore[no-any-return]


def _total(flags: Sequence[Expr], kind: pl.DataType | None = None) -> Expr:
    kind = kind or pl.Int64()
    numbers = [Call("cast", (flag,), kind) for flag in flags]
    return functools.reduce(lambda one, other: Call("add", (one, other), kind), numbers)  # type: ignore[return-value,arg-type]


def _expression(name: str, values: Sequence[Value], dtype: DtypeObj, named: dict[str, Any]) -> Value | None:
    """The reduction as an expression of the kernel; None if there is none that is exact."""
    plain = all(family(value.dtype) == "numpy" and not value.nulls and not value.nans for value in values)
    kinds = {kind_of(value.dtype) for value in values}
    if not plain or named.keys() - {"skipna"}:
        return None
    if name in ("any", "all") and kinds == {"b"}:
        word = "or" if name == "any" else "and"
        exprs: list[Expr] = [value.expr for value in values]
        expr = functools.reduce(lambda one, other: Call(word, (one, other), pl.Boolean()), exprs)
        return Value(expr, BOOL, nulls=False)
    if name == "sum" and kinds <= set("bi") and dtype == INT64:
        return Value(_total([value.expr for value in values]), INT64, nulls=False)
    return None


def _in_batches(name: str, values: Sequence[Value], dtype: DtypeObj, named: dict[str, Any]) -> Value:
    value = batched("frame", name, list(values), dtype, (), axis=1, **named)
    if isinstance(dtype, np.dtype) and dtype.kind in "biu":
        return replace(value, nulls=False)
    return value


#: The most columns of a result of :func:`transform_rows` that is computed again for each column, because the data is not in memory.
_FEW_COLUMNS = 8


def transform_rows(self: Any, name: str, held: View, named: dict[str, Any]) -> Any:
    """A method of DataFrame along the columns whose result has the same columns: ``cumsum(axis=1)``, ``diff(axis=1)``.

    Raises
    ------
    Unsupported
        If the columns are not numbers of one dtype of NumPy, or are too many.
    """
    held = resolved(held)
    dtypes = {value.dtype for value in held.values}
    if len(dtypes) != 1 or not all(family(dtype) == "numpy" and kind_of(dtype) in "if" for dtype in dtypes):
        raise Unsupported(Refusal.OPERATION, f"{name} of rows of several dtypes")
    (dtype,) = dtypes
    count = len(held.values)

    def call() -> tuple[list[DtypeObj], bool]:
        rows = pd.DataFrame({i: stand_ins.column(dtype, 2) for i in range(count)})
        found = list(getattr(rows, name)(axis=1, **named).dtypes)
        return found, list(getattr(rows.iloc[:0], name)(axis=1, **named).dtypes) == found

    results, kept = stand_ins.probe_cached("columns", (name, dtype, count, named), call, name)
    if (not kept and not has_rows(held)) or (count > _FEW_COLUMNS and not may_keep(held.base)):
        raise Unsupported(Refusal.PARAMETER, "axis")
    values = [
        batched("frame", name, list(held.values), result, (), pick=i, axis=1, **named)
        for i, result in enumerate(results)
    ]
    if may_keep(held.base):
        held, values = computed_together(held, values)
    values = [replace(value, nulls=False) if value.dtype.kind in "iu" else value for value in values]
    return lazy(type(self), held.with_values(values), self)


def label_of_extreme(self: Any, name: str, held: View, skipna: bool) -> Any:
    """``idxmax`` and ``idxmin`` along the columns: the label of the column with the extreme value of each row.

    Raises
    ------
    Unsupported
        If a row has no value, for which pandas raises an error; or if the labels of the columns are objects.
    """
    held = resolved(held)
    labels = held.labels
    if isinstance(labels, pd.MultiIndex) or kind_of(labels.dtype) not in "iufTM" or family(labels.dtype) == "arrow":
        raise Unsupported(Refusal.LABELS_OF_DTYPE, labels.dtype)
    if not held.values or any(
        family(value.dtype) != "numpy" or kind_of(value.dtype) not in "iuf" for value in held.values
    ):
        raise Unsupported(Refusal.OPERATION, f"{name} of rows that are not all numbers")
    dtype = labels.take([0])._values.dtype  # type: ignore[union-attr]
    physical(dtype)
    if not has_rows(held):
        raise Unsupported(Refusal.NO_ROWS)
    missing = [Call("is_null", (value.clean.expr,), pl.Boolean()) for value in held.values if value.nulls or value.nans]
    if missing and (not skipna or len(missing) == len(held.values)):
        word = "and" if skipna else "or"
        if any_row(held, functools.reduce(lambda one, other: Call(word, (one, other), pl.Boolean()), missing)):
            raise Unsupported(Refusal.NO_VALUE)
    value = batched("frame", name, list(held.values), dtype, (), axis=1, skipna=skipna, labels=labels)
    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        value = replace(value, nulls=False)
    held, value = computed_if_in_memory(held, value)
    return lazy(series_class(), held.with_values([value], name_index(None)), self)
