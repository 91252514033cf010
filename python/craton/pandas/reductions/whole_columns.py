"""Statistics that pandas' own routines compute from whole columns: correlations, covariances, skewness, kurtosis, modes.

The last digits of these results depend on the algorithm, so pandas' routine runs on the values. Only the columns that it needs are
computed, without row labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.lazy import view
from craton.pandas.core.native import native
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import View
from craton.pandas.reductions.counting import positions
from craton.pandas.reductions.reductions import along_columns, arguments, numeric_columns
from craton.refusals import Refusal

#: Methods of both classes that reduce columns.
_SHAPES = ("skew", "kurt", "kurtosis")


def _numbers_if_chosen(held: View, named: dict[str, Any]) -> View:
    """The numeric columns if the parameter ``numeric_only`` selects them, else all; pandas gets the parameter as well."""
    return numeric_columns(held, "numeric_only") if named.get("numeric_only") is True else held


def _frame_statistic(name: str) -> Callable[..., Any]:
    """A method of DataFrame whose result is computed from whole columns."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.reductions.needed_columns import computed_columns
        from craton.pandas.reductions.row_reductions import reduce_rows

        named = arguments(pd.DataFrame, name, args, kwargs)
        held = view(self)
        if not held.values:
            raise Unsupported(Refusal.NO_COLUMNS)
        if name in _SHAPES and along_columns(named):
            if named.pop("numeric_only", False) is not False:
                held = numeric_columns(held, "numeric_only")
            return reduce_rows(self, name, held, named)
        if named.pop("axis", 0) not in (0, "index"):
            raise Unsupported(Refusal.PARAMETER, "axis")
        if callable(named.get("method")):
            raise Unsupported(Refusal.NOT_A_FUNCTION)
        if name == "cov" and any(value.dtype.kind in "mM" for value in held.values):
            raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
        data = computed_columns(self, _numbers_if_chosen(held, named))
        with plain_pandas():
            return as_craton(getattr(pd.DataFrame, name)(data, **named))

    method.__name__ = name
    return native(pd.DataFrame, name)(method)


def _series_statistic(name: str) -> Callable[..., Any]:
    """A method of Series whose result is computed from the whole column."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.reductions.needed_columns import pandas_statistic

        named = arguments(pd.Series, name, args, kwargs)
        return pandas_statistic(self, name, named)

    method.__name__ = name
    return native(pd.Series, name)(method)


def _series_relation(name: str) -> Callable[..., Any]:
    """``corr``, ``cov`` or ``dot`` of two Series with the same row labels."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.reductions.needed_columns import computed_frame

        named = arguments(pd.Series, name, args, kwargs)
        other = named.pop("other")
        if not isinstance(other, pd.Series) or callable(named.get("method")):
            raise Unsupported(Refusal.OPERAND_TYPE, type(other).__name__)
        held, beside = aligned(view(self), view(other))
        data = computed_frame(self, held, (*held.values, *beside.values))
        with plain_pandas():
            return as_craton(getattr(pd.Series, name)(data[0], data[1], **named))

    method.__name__ = name
    return native(pd.Series, name)(method)


def _index_of_extreme(name: str) -> Callable[..., Any]:
    """``idxmax`` and ``idxmin`` of a frame."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, name, args, kwargs)
        held = view(self)
        across = along_columns(named)
        if named.pop("axis", 0) not in (0, "index"):
            raise Unsupported(Refusal.PARAMETER, "axis")
        held = _numbers_if_chosen(held, named)
        named.pop("numeric_only", None)
        skipna = named.pop("skipna", True)
        if not isinstance(skipna, bool):
            raise Unsupported(Refusal.PARAMETER, f"skipna={skipna!r}")
        if across:
            from craton.pandas.reductions.row_reductions import label_of_extreme

            return label_of_extreme(self, name, held, skipna)
        return _labels_of_rows(self, name, held, skipna)

    method.__name__ = name
    return native(pd.DataFrame, name)(method)


def _labels_of_rows(self: Any, name: str, held: View, skipna: bool) -> Any:
    if not held.values:
        raise Unsupported(Refusal.NO_COLUMNS)
    found = positions(held, name, skipna)
    made = pd.Series(self.index.take(found)._values, index=held.labels.view())
    return as_craton(made).__finalize__(self)


class FrameColumnStatistics:
    """Methods of DataFrame."""

    idxmax = _index_of_extreme("idxmax")
    idxmin = _index_of_extreme("idxmin")

    @native(pd.DataFrame)
    def corrwith(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.reductions.needed_columns import computed_frame

        named = arguments(pd.DataFrame, "corrwith", args, kwargs)
        other = named.pop("other")
        if named.pop("axis", 0) not in (0, "index") or callable(named.get("method")):
            raise Unsupported(Refusal.PARAMETERS, "axis and method")
        if not isinstance(other, (pd.Series, pd.DataFrame)):
            raise Unsupported(Refusal.OPERAND_TYPE, type(other).__name__)
        if named.get("numeric_only", False) is not False:
            raise Unsupported(Refusal.PARAMETER, "numeric_only")
        held, beside = aligned(view(self), view(other))
        if not held.values:
            raise Unsupported(Refusal.NO_COLUMNS)
        data = computed_frame(self, held, (*held.values, *beside.values))
        count = len(held.values)
        with plain_pandas():
            left, right = data.iloc[:, :count], data.iloc[:, count:]
            left.columns = held.labels
            if isinstance(other, pd.Series):
                return as_craton(left.corrwith(right.iloc[:, 0].rename(other.name), **named))
            right.columns = beside.labels
            return as_craton(left.corrwith(right, **named))


class SeriesColumnStatistics:
    """Methods of Series."""

    corr = _series_relation("corr")
    cov = _series_relation("cov")
    dot = _series_relation("dot")
    autocorr = _series_statistic("autocorr")


for _name in _SHAPES:
    setattr(SeriesColumnStatistics, _name, _series_statistic(_name))
for _name in (*_SHAPES, "corr", "cov", "mode"):
    setattr(FrameColumnStatistics, _name, _frame_statistic(_name))
