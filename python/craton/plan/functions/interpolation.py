"""Linear interpolation of missing values between their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from craton.plan.functions.strategies import Spec, all_rows
from craton.plan.registry import FLOATS, NUMBERS, Argument, Cost, Kind, NaNs, Nulls, Order, register, same


@register(
    "interpolate",
    kind=Kind.WINDOW,
    signature=(Argument("value", FLOATS), Argument("position", NUMBERS, optional=True)),
    result=same(),
    nulls=Nulls.VALUES,
    nans=NaNs.MISSING,
    order=Order.ROWS,
    phases=None,
    one_row=None,
    tiling=all_rows,
    holds_values=True,
    cost=Cost.TABLE,
)
def _interpolate(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    limit, direction = spec.option("limit", None), spec.option("direction", "forward")
    area = spec.option("area", None)

    def interpolated(columns: Sequence[pl.Series]) -> pl.Series:
        values = columns[0].to_numpy(writable=True)
        positions = columns[1].to_numpy() if len(columns) == 2 else np.arange(len(values))
        _fill_gaps(values, positions, limit, direction, area)
        return pl.Series(columns[0].name, values, dtype=columns[0].dtype, nan_to_null=True)

    return pl.map_batches(args, interpolated, return_dtype=spec.dtype)


def _fill_gaps(values: Any, positions: Any, limit: int | None, direction: str, area: str | None) -> None:
    """Replace NaN by values on the line between the nearest other values; outside of these, by the nearest one.

    Parameters
    ----------
    values
        The values, which are changed.
    positions
        Their positions on the axis.
    limit
        The most values to replace in a gap, counted in the direction.
    direction
        ``forward`` leaves NaN before the first value, ``backward`` those after the last one, ``both`` none.
    area
        ``inside`` leaves NaN before the first and after the last value, ``outside`` those between them. None: neither.
    """
    missing = np.isnan(values)
    present = ~missing
    if missing.all() or present.all():
        return
    known = np.flatnonzero(present)
    if limit is None:
        wanted = _unlimited(np.flatnonzero(missing), known[0], known[-1], direction, area)
    else:
        wanted = _limited(missing, present, limit, direction, area)
    places = positions[known]
    if (places[1:] > places[:-1]).all():
        heights = values[known]
    else:
        order = np.argsort(places)
        places, heights = places[order], values[known][order]
    values[wanted] = np.interp(positions[wanted], places, heights)


def _unlimited(holes: Any, first: int, last: int, direction: str, area: str | None) -> Any:
    """The rows of ``holes`` to fill, if any number of consecutive ones is; ``first`` and ``last`` are the outer rows with values."""
    before, after = np.searchsorted(holes, (first, last))
    start = before if direction == "forward" or area == "inside" else 0
    stop = after if direction == "backward" or area == "inside" else len(holes)
    if area == "outside":
        return np.concatenate([holes[start:before], holes[after:stop]])
    return holes[start:stop]


def _limited(missing: Any, present: Any, limit: int, direction: str, area: str | None) -> Any:
    """The rows to fill, of which each is at most ``limit`` rows away from one with a value."""
    rows = np.arange(len(missing))
    before = np.maximum.accumulate(np.where(present, rows, -1))
    after = np.minimum.accumulate(np.where(present, rows, len(missing))[::-1])[::-1]
    leading, trailing = before < 0, after == len(missing)
    far = [leading | (rows - before > limit), trailing | (after - rows > limit)]
    kept = far[0] & far[1] if direction == "both" else far[direction == "backward"]
    if area == "inside":
        kept = kept | leading | trailing
    elif area == "outside":
        kept = kept | ~(leading | trailing)
    return np.flatnonzero(missing & ~kept)
