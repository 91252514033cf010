"""Moving windows: statistics of the rows around each row, computed by pandas' own routines over whole columns.

A sum that moves over the rows adds and subtracts each value, with a compensation for the rounding errors. The bits of the result
depend on this algorithm, so pandas' own is called, once for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from craton.plan.expr import WindowCall
from craton.plan.functions.strategies import FLOAT, AllRows, Neighbours, Spec
from craton.plan.registry import (
    ANY,
    FLOATS,
    Argument,
    Cost,
    Kind,
    NaNs,
    Nulls,
    Order,
    Strategy,
    always,
    register,
)

#: Statistics that depend only on the values in the window, not on those that have left it.
_OF_VALUES = frozenset(["min", "max", "first", "last"])
#: A window with more rows reads all rows at once, because few rows are read twice then.
_ROWS_NEAR = 10_000


def _tiling(call: WindowCall) -> Strategy:
    """Integer windows that look back read a few rows of the tiles before; every other window reads all rows."""
    window = dict(call.option("window", ()))
    rows = window.get("window")
    looks_back = call.function == "rolling" and not call.option("roles") and not window.get("center", False)
    if looks_back and isinstance(rows, int) and rows <= _ROWS_NEAR and call.option("statistic") in _OF_VALUES:
        return Neighbours(rows + 1)
    return AllRows()


@register(
    "rolling",
    "expanding",
    "ewm",
    kind=Kind.WINDOW,
    signature=(
        Argument("value", FLOATS),
        Argument("others", ANY, optional=True, repeated=True),
    ),
    result=always(FLOAT),
    nulls=Nulls.VALUES,  # missing, as NaN, which each statistic skips; the result has NaN, but no nulls
    nans=NaNs.SKIPPED,
    order=Order.ROWS,
    phases=None,
    one_row=None,
    tiling=_tiling,
    holds_values=True,
    cost=Cost.VALUES,
)
def _moving(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """A statistic of the rows around each row.

    The options: ``window`` has the arguments of pandas' ``rolling``, ``expanding`` or ``ewm``; ``statistic`` and ``parameters``
    are the method and its arguments. ``roles`` says what the further columns are: ``other`` (of a correlation), ``times`` or
    ``group0``, ``group1`` … (the keys of groups, whose rows are adjacent), or ``key0``, ``key1`` … (keys of groups anywhere).
    """
    return pl.map_batches(args, partial(_in_groups, spec=spec), return_dtype=FLOAT)


def _in_groups(columns: Sequence[pl.Series], spec: Spec) -> pl.Series:
    """The statistic, for groups whose rows are first brought together if they are not adjacent."""
    roles: tuple[str, ...] = spec.option("roles", ())
    keys = [column for role, column in zip(roles, columns[1:], strict=True) if role.startswith("key")]
    if not keys:
        return _computed(columns, roles, spec)
    named = pl.DataFrame([key.alias(str(i)) for i, key in enumerate(keys)])
    order = named.select(pl.arg_sort_by(named.columns, maintain_order=True)).to_series()
    together = [column.gather(order) for column in columns]
    found = _computed(together, tuple(role.replace("key", "group") for role in roles), spec)
    placed = np.empty(len(found))
    placed[order.to_numpy()] = found.to_numpy()
    return _column(placed, columns[0].name)


def _computed(columns: Sequence[pl.Series], roles: tuple[str, ...], spec: Spec) -> pl.Series:
    import pandas as pd  # it takes tens of megabytes, and most workers do not need it

    arrays = dict(zip(("value", *roles), columns, strict=True))
    values, window = _numbers(arrays["value"]), dict(spec.option("window", ()))
    index = _times(arrays["times"], window.pop("unit")) if "times" in arrays else None
    series = pd.Series(values, index=index, copy=False)
    moving: Any
    keys = [column for role, column in arrays.items() if role.startswith("group")]
    if keys:
        moving = _of_groups(series, _numbers_of_groups(keys), spec.function, window)
    else:
        moving = getattr(series, spec.function)(**window)
    args = [pd.Series(_numbers(arrays["other"]), index=index, copy=False)] if "other" in arrays else []
    method: Callable[..., Any] = getattr(moving, spec.option("statistic", "mean"))
    return _column(method(*args, **dict(spec.option("parameters", ()))).to_numpy(), columns[0].name)


def _numbers(column: pl.Series) -> np.ndarray[Any, Any]:
    """Numbers as an array that pandas does not write to, with NaN for null."""
    return column.cast(FLOAT).rechunk().to_numpy()


def _column(values: np.ndarray[Any, Any], name: str) -> pl.Series:
    import pyarrow as pa

    return pl.Series(name, pa.array(np.ascontiguousarray(values, np.float64), from_pandas=False))


def _times(column: pl.Series, unit: str) -> Any:
    """Times or durations in a unit, as an Index without a time zone: windows of time depend only on differences."""
    import pandas as pd  # see _computed

    counts = column.to_physical().to_numpy()
    if unit == "s":  # the kernel counts milliseconds
        counts = counts // 1000
    letter = "m8" if isinstance(column.dtype, pl.Duration) else "M8"
    return pd.Index(counts.view(f"{letter}[{unit}]"), copy=False)


def _numbers_of_groups(keys: Sequence[pl.Series]) -> np.ndarray[Any, Any]:
    """Numbers from 0 for groups whose rows are adjacent."""
    begins = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        begins[1:] |= key[1:].ne_missing(key[:-1]).to_numpy()
    return np.cumsum(begins)


def _of_groups(series: Any, groups: np.ndarray[Any, Any], function: str, window: dict[str, Any]) -> Any:
    """Moving windows that stay within groups.

    pandas computes the bounds of the windows group by group, in Python. For windows of a number of rows, all bounds are computed
    here at once, and given to pandas. For windows of time, pandas' function is called for each group, but without its checks of the
    times, which have been made.
    """
    if function == "ewm" or not len(groups):
        return getattr(series.groupby(groups, sort=False), function)(**window)
    rows, center, closed = window.get("window"), bool(window.get("center", False)), window.get("closed")
    if isinstance(rows, str):
        bounds = _bounds_of_time(groups, series.index, rows, center, closed)
    else:
        bounds = _bounds(groups, rows, center, closed)
    least = window.get("min_periods", rows if isinstance(rows, int) else 1)
    return series.rolling(_window_indexer(*bounds), min_periods=least)


def _bounds_of_time(
    groups: np.ndarray[Any, Any], times: Any, span: str, center: bool, closed: str | None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bounds of each row's window of time."""
    import pandas as pd  # see _computed
    from pandas._libs.window.indexers import calculate_variable_window_bounds  # see _computed

    size = pd.Timedelta(pd.tseries.frequencies.to_offset(span).nanos).as_unit(times.unit)._value
    counts = times.asi8
    start, end = np.empty(len(groups), np.int64), np.empty(len(groups), np.int64)
    firsts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
    for first, last in zip(firsts, [*firsts[1:], len(groups)], strict=True):
        found = calculate_variable_window_bounds(last - first, size, None, center, closed, counts[first:last])
        start[first:last], end[first:last] = found[0] + first, found[1] + first
    return start, end


def _bounds(
    groups: np.ndarray[Any, Any], rows: int | None, center: bool, closed: str | None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bounds of each row's window, as pandas computes them for each group; with ``rows=None``, of expanding windows."""
    firsts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(firsts, append=len(groups))
    begin, after = np.repeat(firsts, lengths), np.repeat(firsts + lengths, lengths)
    end = np.arange(1, len(groups) + 1, dtype=np.int64)
    if rows is None:
        return begin, end
    if center or rows == 0:
        end += (rows - 1) // 2
    start = end - rows
    if closed in ("left", "both"):
        start -= 1
    if closed in ("left", "neither"):
        end -= 1
    for bound in (start, end):
        np.maximum(bound, begin, out=bound)
        np.minimum(bound, after, out=bound)
    return start, end


def _window_indexer(start: np.ndarray[Any, Any], end: np.ndarray[Any, Any]) -> Any:
    from pandas.api.indexers import BaseIndexer  # see _computed

    class Bounds(BaseIndexer):  # type: ignore[misc]
        """Bounds of windows that are already computed."""

        def get_window_bounds(
            self,
            num_values: int = 0,
            min_periods: int | None = None,
            center: bool | None = None,
            closed: str | None = None,
            step: int | None = None,
        ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
            return start, end

    return Bounds()
