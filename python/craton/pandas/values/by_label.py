"""Methods with an argument for each column or each row: ``fillna(df.mean())``, ``clip(lower=series)``, ``round({"x": 1})``.

``dropna(axis=1)`` is here as well, which decides for each column by its missing values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.extensions import no_default
from pandas.api.types import is_scalar

from craton.engine import collect_scalars
from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.dtypes import BOOL, family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import view
from craton.pandas.core.view import Value, View
from craton.pandas.values.casting import rounded
from craton.pandas.values.column_operators import items_by_label, same_dtypes, scalars_by_column
from craton.pandas.values.comparison import compared, not_missing
from craton.pandas.values.filling import constant
from craton.pandas.values.operands import is_axis, is_na, is_row
from craton.plan import build
from craton.plan.expr import Call
from craton.plan.operators import AggregateCall
from craton.refusals import Refusal


def replacements(obj: Any, other: Any, axis: Any) -> View:
    """A Series as the replacements in a frame, for ``where`` and ``mask``: a value for each row (``axis=0``) or for each column.

    Raises
    ------
    Unsupported
        If the columns do not have the dtype of the Series.
    """
    held = resolved(view(obj))
    if not is_axis(axis):
        raise Unsupported(Refusal.CONDITION_TYPE)
    if axis in (1, "columns"):
        row = scalars_by_column(held, other)
        same_dtypes(held.values, row)
        numbers = zip(row, held.values, strict=True)
        return held.with_values([constant(np.nan if is_na(number) else number, value) for number, value in numbers])
    held, column = aligned(held, resolved(view(other)))
    if any(value.dtype != column.values[0].dtype for value in held.values):
        raise Unsupported(Refusal.REPLACEMENT_DTYPES)
    return held.with_values([column.values[0]] * len(held.values))


def fillers(held: View, value: Any) -> dict[Any, Any]:
    """The scalars of a Series by column label, without missing ones for columns of floats, which they leave as they are."""
    columns = zip(held.labels, held.values, strict=True)
    floats = {label for label, column in columns if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f"}
    items = items_by_label(held, value).items()
    return {label: scalar for label, scalar in items if not (label in floats and is_na(scalar))}


def clipped_by(value: Value, limits: list[tuple[str, Any]]) -> Value:
    """``clip`` by bounds of which at least one is a column.

    Parameters
    ----------
    limits
        For each bound: ``lt`` for the lower or ``gt`` for the upper one, and a scalar, or a column over the same base. ``None`` and
        missing values are no bounds.
    """
    if family(value.dtype) != "numpy" or kind_of(value.dtype) not in "if" or not value.definite:
        raise Unsupported(Refusal.OPERATION, f"clip of {value.dtype}")
    expr, nulls, nans = value.expr, value.nulls, value.nans
    for name, bound in limits:
        if bound is None:
            continue
        if isinstance(bound, Value) and (not bound.definite or bound.dtype != value.dtype):
            raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"{bound.dtype} in a column of {value.dtype}")
        limit = bound if isinstance(bound, Value) else constant(bound, value)
        outside = compared(name, value, bound, BOOL)
        expr = Call("when", (outside.expr, limit.expr, expr), value.physical)
        nulls, nans = nulls or limit.nulls, nans or limit.nans
    return Value(expr, value.dtype, nulls, nans)


def clipped_by_series(obj: Any, lower: Any, upper: Any, axis: Any, inplace: bool) -> View:
    """``clip`` where at least one bound is a Series or list: a bound for each row, or for each column of a frame.

    pandas compares the frame with both bounds before it clips; in place, it compares what the lower bound has changed with the upper one.
    """
    held = resolved(view(obj))
    frame = isinstance(obj, pd.DataFrame)
    by_column = frame and axis in (1, "columns")
    if not by_column and axis not in ((0, "index") if frame else (None, 0, "index")):
        raise Unsupported(Refusal.PARAMETERS, "axis, lower and upper")
    limits: list[tuple[str, list[Any]]] = []
    for name, bound in (("lt", lower), ("gt", upper)):
        if bound is None or (is_scalar(bound) and is_na(bound)):
            continue
        if is_scalar(bound):
            limits.append((name, [bound] * len(held.values)))
        elif by_column and is_row(bound):
            row = scalars_by_column(held, bound)
            same_dtypes(held.values, row)
            limits.append((name, [None if is_na(number) else number for number in row]))
        elif isinstance(bound, pd.Series):
            base = held.base
            held, column = aligned(held, resolved(view(bound)))
            if limits and held.base != base:
                raise Unsupported(Refusal.PARAMETERS, "lower and upper")
            limits.append((name, [column.values[0]] * len(held.values)))
        else:
            raise Unsupported(Refusal.PARAMETERS, "axis, lower and upper")
    if inplace and len(limits) > 1:
        raise Unsupported(Refusal.PARAMETERS, "lower, upper and inplace")
    return held.with_values(
        [clipped_by(value, [(name, bounds[i]) for name, bounds in limits]) for i, value in enumerate(held.values)]
    )


def rounded_columns(held: View, decimals: Any) -> View:
    """``round`` of a frame, with one number of decimals or those of single columns. Columns that are not numbers stay as they are.

    Raises
    ------
    Unsupported
        If the decimals are not integers; or if pandas would warn, as it does for times among the named columns.
    """
    held = resolved(held)
    if type(decimals) is int and any(map(_is_time, held.values)):
        raise Unsupported(Refusal.WARNING_OF_PANDAS, "decimals")
    if type(decimals) is int:
        _check_decimals([decimals])
        return held.with_values(
            [value if _is_text_or_bool(value) else rounded(value, decimals) for value in held.values]
        )
    places = items_by_label(held, decimals) if isinstance(decimals, pd.Series) else decimals
    if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex) or not held.values:
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    if held.labels.hasnans:
        raise Unsupported(Refusal.LABELS_OBJECTS_OR_MISSING)
    if type(places) is not dict:
        raise Unsupported(Refusal.PARAMETER, "decimals, which must be an integer")
    _check_decimals(list(places.values()))
    return held.with_values(
        [
            rounded(value, places[label]) if label in places and not _is_text_or_bool(value) else value
            for label, value in zip(held.labels, held.values, strict=True)
        ]
    )


def _check_decimals(decimals: list[Any]) -> None:
    if not all(type(one) is int and abs(one) < 2**31 for one in decimals):
        raise Unsupported(Refusal.PARAMETER, "decimals, which must be an integer")


def _is_text_or_bool(value: Value) -> bool:
    return family(value.dtype) in ("str", "category") or value.dtype == np.dtype("bool")


def _is_time(value: Value) -> bool:
    return kind_of(value.dtype) in "mM" and family(value.dtype) != "arrow"


def without_missing(held: View, how: Any, thresh: Any) -> View:
    """The view without the columns that ``dropna(axis=1)`` drops: a query counts the missing values."""
    if (
        not held.values
        or how not in (no_default, "any", "all")
        or (thresh is not no_default and type(thresh) is not int)
    ):
        raise Unsupported(Refusal.PARAMETERS, "how and thresh")
    held = resolved(held)
    flags = [Call("cast", (not_missing(value).expr,), pl.Int64()) for value in held.values]
    sums = [(str(i), AggregateCall("sum", (flag,), pl.Int64())) for i, flag in enumerate(flags)]
    plan = build.aggregate(held.base, (), (*sums, ("rows", build.row_count())))
    row = collect_scalars([plan])[0]
    rows = row["rows"].item()
    least = thresh if thresh is not no_default else 1 if how == "all" else rows
    kept = [i for i in range(len(flags)) if (row[str(i)].item() if rows else 0) >= least]
    if len(kept) == len(flags):
        return held
    return replace(
        held, values=tuple(held.values[i] for i in kept), labels=held.labels.take(np.array(kept, dtype=np.intp))
    )
