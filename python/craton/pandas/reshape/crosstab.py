"""``crosstab``: a pivot table of columns of the same rows, which a plan counts or aggregates."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.reshape.pivot import _build_names_mapper, _get_names, _normalize

from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.dtypes import INT64, STR
from craton.pandas.core.execute import count_rows
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas
from craton.pandas.core.view import Value, View, as_frame
from craton.pandas.indexing.setting import column_for
from craton.pandas.reshape.pivoting import pandas_table
from craton.plan.expr import Literal
from craton.refusals import Refusal

#: The label of the column that pandas counts or aggregates.
_COUNTED = "__dummy__"


def _crosstab_in_pandas(*args: Any, **kwargs: Any) -> Any:
    """Pandas' own ``crosstab``, of columns with identical labels as columns of one frame."""
    if columns := _columns_in((*args, *kwargs.values())):
        _share_labels(columns)
    return pd.crosstab(*args, **kwargs)


for _name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
    setattr(_crosstab_in_pandas, _name, getattr(pd.crosstab, _name))
_crosstab_in_pandas.__signature__ = inspect.signature(pd.crosstab)  # type: ignore[attr-defined]


def _columns_in(arguments: Iterable[Any]) -> list[Any]:
    """All Series among arguments and in lists of them; none if no plan computes, or computed, any of them."""
    items = [one for item in arguments for one in (item if isinstance(item, (list, tuple)) else [item])]
    columns = [item for item in items if isinstance(item, pd.Series)]
    return columns if any({"_view", "_origin", "_scan"} & column.__dict__.keys() for column in columns) else []


def _are_identical(one: pd.Index, other: pd.Index) -> bool:
    """As ``Index.identical``, for which a name that is NaN differs from itself."""
    named = list(one.names) == list(other.names)  # lists compare their items by identity first
    return named and bool(one.set_names([None] * one.nlevels).identical(other.set_names([None] * other.nlevels)))


def _share_labels(columns: list[Any]) -> None:
    """Give columns with identical labels the same Index object, as columns of one frame have in pandas.

    ``crosstab`` intersects its arguments' indexes unless they are the same object, and an intersection drops repeated labels.
    """
    first, *others = [column._mgr for column in columns]
    labels = first.axes[0]
    for manager in others:
        own = manager.axes[0]
        if own._id is not labels._id and _are_identical(own, labels):
            manager.set_axis(0, labels)


@native_function(_crosstab_in_pandas, stays=in_plain_pandas("index"))
def crosstab(
    index: Any,
    columns: Any,
    values: Any = None,
    rownames: Any = None,
    colnames: Any = None,
    aggfunc: Any = None,
    margins: Any = False,
    margins_name: Any = "All",
    dropna: Any = True,
    normalize: Any = False,
) -> Any:
    """Count, or aggregate, the rows of each combination of two or more columns; see :func:`pandas.crosstab`."""
    if (values is None) != (aggfunc is None):
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    rows, across = _columns(index), _columns(columns)
    try:
        names = _build_names_mapper(_get_names(rows, rownames, "row"), _get_names(across, colnames, "col"))
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    row_names, row_labels, column_names, column_labels = names
    if len({*row_labels, *column_labels, _COUNTED}) <= len(rows) + len(across):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    first, *others = [*rows, *across]
    if not isinstance(first, pd.Series):
        raise Unsupported(Refusal.COLUMN_FROM, type(first).__name__)
    held = as_frame(view(first), row_labels[0])
    for label, series in zip([*row_labels[1:], *column_labels], others, strict=True):
        held = _beside(held, label, series)
    options = {"aggfunc": aggfunc} if values is not None else {"aggfunc": len, "fill_value": 0}
    held = _with_zeros(held) if values is None else _beside(held, _COUNTED, _columns(values)[0])
    options |= {"margins": margins, "margins_name": margins_name, "dropna": dropna, "observed": dropna}
    frame = lazy(frame_class(), held)
    table = pandas_table(frame, _COUNTED, index=row_labels, columns=column_labels, **options)
    if normalize is not False:
        table = _normalize(table, normalize=normalize, margins=margins, margins_name=margins_name)
    table = table.rename_axis(index=row_names, axis=0)
    return frame_class()(table.rename_axis(columns=column_names, axis=1))


def _columns(given: Any) -> list[Any]:
    """The columns of an argument: a Series or an array, a list of these, or one string for all rows."""
    if type(given) is str:
        return [given]
    columns = given if isinstance(given, list) and given else [given]
    for column in columns:
        if not isinstance(column, (pd.Series, np.ndarray)):
            raise Unsupported(Refusal.COLUMN_FROM, type(column).__name__)
    return columns


def _beside(held: View, label: str, column: Any) -> View:
    """The view with one more column: a Series of the same rows, an array of their length, or one string for all rows."""
    if isinstance(column, str):
        return _with_column(held, label, Value(Literal(column, pl.String()), STR, nulls=False))
    if isinstance(column, np.ndarray):
        if column.ndim != 1 or column.dtype.kind not in "biufmM" or len(column) != count_rows(held):
            raise Unsupported(Refusal.COLUMN_FROM, type(column).__name__)
        held, value = column_for(held, column)
        return _with_column(held, label, value)
    ours, theirs = aligned(held, view(column))
    return _with_column(ours, label, theirs.values[0])


def _with_zeros(held: View) -> View:
    return _with_column(held, _COUNTED, Value(Literal(0, pl.Int64()), INT64, nulls=False))


def _with_column(held: View, label: str, value: Value) -> View:
    return held.with_values([*held.values, value], held.labels.insert(len(held.labels), label))


__all__ = ["crosstab"]
