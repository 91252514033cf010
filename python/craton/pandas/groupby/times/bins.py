"""Intervals of time as group keys: ``pd.Grouper(freq=...)`` and ``resample``. pandas computes the edges of the intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.resample import TimeGrouper

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core.array_conversion import to_array
from craton.pandas.core.dtypes import INT64, DtypeObj
from craton.pandas.core.stand_ins import probe
from craton.pandas.core.view import Value, View
from craton.pandas.groupby.key_origins import TimeBins
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, Values, options
from craton.plan.operators import AggregateCall
from craton.refusals import Refusal

_NANOSECONDS_OF_DAY = 86_400 * 10**9
_BEGINNINGS = (pd.offsets.MonthBegin, pd.offsets.QuarterBegin, pd.offsets.YearBegin)
_ENDS = (pd.offsets.MonthEnd, pd.offsets.QuarterEnd, pd.offsets.YearEnd, pd.offsets.Week)


class _EdgeRecorder(TimeGrouper):
    """A Grouper that keeps the edges of the intervals, which pandas computes and does not return."""

    edges: Any

    def _adjust_bin_edges(self, binner: Any, ax_values: Any) -> Any:
        binner, self.edges = super()._adjust_bin_edges(binner, ax_values)
        return binner, self.edges


def bins_of(held: View, grouper: Any, of_series: bool) -> tuple[Value, int | None, TimeBins]:
    """The intervals of a Grouper with a frequency.

    Returns
    -------
    tuple of (Value, int or None, TimeBins)
        The number of each row's interval; the position of the column of times, unless the row labels are the times; and the
        intervals.

    Raises
    ------
    Unsupported
        If there are no times, or they are not of a dtype of NumPy or pandas; and where pandas raises or warns.
    """
    if not isinstance(grouper, TimeGrouper) or grouper.level is not None:
        raise Unsupported(Refusal.GROUP_KEY_TYPE, type(grouper).__name__)
    column, times, name = _times(held, grouper, of_series)
    if not _is_time(times.dtype) or not times.definite:
        raise Unsupported(Refusal.GROUP_KEY_DTYPE, times.dtype)
    calls = tuple((end, AggregateCall(end, (times.clean.expr,), times.physical)) for end in ("min", "max"))
    missing = ("missing", AggregateCall("null_count", (times.clean.expr,), pl.Int64()))
    (ends,) = collect_rows([build.aggregate(held.base, (), (*calls, missing))])
    if ends.to_series(0).null_count():  # a year beyond the range of Python's datetime cannot be an object
        raise Unsupported(Refusal.GROUP_NONE)
    both = pd.DatetimeIndex(
        to_array(pl.concat([ends.to_series(0), ends.to_series(1).alias("min")]), times.dtype), name=name
    )
    edges, labels = _edges(grouper, both)
    origin = TimeBins(grouper, times, name, ends.item(0, "missing") > 0, labels)
    return Value(_number(times, edges, grouper.closed), INT64, nulls=origin.missing, nans=False), column, origin


def _times(held: View, grouper: Any, of_series: bool) -> tuple[int | None, Value, Any]:
    if grouper.key is None:
        if held.index.kind != "labels":
            raise Unsupported(Refusal.GROUP_KEY_TYPE, type(grouper).__name__)
        return None, held.index.values[0], held.index.names[0]
    found = [] if of_series else held.positions(grouper.key)
    if len(found) != 1:
        raise Unsupported(Refusal.COLUMN_UNKNOWN)
    return found[0], held.values[found[0]], held.labels[found[0]]


def _is_time(dtype: DtypeObj) -> bool:
    return isinstance(dtype, pd.DatetimeTZDtype) or (isinstance(dtype, np.dtype) and dtype.kind == "M")


def have_fixed_edges(grouper: Any) -> bool:
    """Whether any times without a time zone are divided at the same edges, from the interval of the first to that of the last one."""
    freq, closed = grouper.freq, grouper.closed
    if not isinstance(grouper.origin, str) or grouper.origin != "start_day" or grouper.offset is not None:
        return False
    if isinstance(freq, pd.offsets.Tick):
        return _NANOSECONDS_OF_DAY % freq.nanos == 0
    if freq.n != 1:
        return False
    return isinstance(freq, pd.offsets.Day) or (
        type(freq) in (_BEGINNINGS if closed == "left" else _ENDS if closed == "right" else ())
    )


def _edges(grouper: Any, ends: pd.DatetimeIndex) -> tuple[Any, pd.Index]:
    """The edges of the intervals from the first to the last time, as integers in the unit of the times; and their labels."""
    recorder: Any = object.__new__(_EdgeRecorder)
    recorder.__dict__.update(grouper.__dict__)
    recorder.key = None
    made = probe(recorder._get_resampler, pd.Series([0, 0], index=ends))
    edges = np.asarray(recorder.edges)
    if len(edges) < 2 or (np.diff(edges) < 0).any():
        raise Unsupported(Refusal.GROUP_SAMPLES)
    return (edges * 1000 if ends.unit == "s" else edges), made._grouper.result_index


def _number(times: Value, edges: Any, closed: str) -> Expr:
    """The number of each time's interval."""
    time = Call("cast", (times.clean.expr,), pl.Int64())
    steps = np.diff(edges)
    if (steps == steps[0]).all() and steps[0] > 0:
        first = int(edges[0]) + (1 if closed == "right" else 0)
        since = Call("sub", (time, Literal(first, pl.Int64())), pl.Int64())
        return Call("floordiv", (since, Literal(int(steps[0]), pl.Int64())), pl.Int64())
    given = Values.of(pl.Series("edges", edges, dtype=pl.Int64))
    return Call("interval_number", (time, given), pl.Int64(), options(right=closed == "right"))
