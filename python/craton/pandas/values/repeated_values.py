"""Columns that repeat their values: a slow function of each value is computed once for each distinct one.

Most columns of dates in text, of codes and of categories in text have far fewer distinct values than rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow.compute as pc

#: The fewest rows for which the distinct values are found.
_FEWEST_ROWS = 2_000
#: The number of rows for each distinct value, from which on the function is computed for the distinct values only.
_ROWS_PER_VALUE = 4
#: The time, in comparison to finding the distinct values, that a function takes is long for these.
SLOW = frozenset(["to_datetime", "to_numeric", "to_timedelta", "astype", "map", "replace", "dt.strftime"])
#: Methods for which pandas calls Python for each text.
SLOW_TEXTS = frozenset(
    [
        *(
            "str.capitalize",
            "str.casefold",
            "str.count",
            "str.decode",
            "str.extract",
            "str.findall",
            "str.fullmatch",
            "str.get",
        ),
        *(
            "str.join",
            "str.match",
            "str.normalize",
            "str.partition",
            "str.replace",
            "str.rpartition",
            "str.rsplit",
            "str.slice",
        ),
        *("str.slice_replace", "str.split", "str.swapcase", "str.title", "str.translate", "str.wrap", "str.zfill"),
    ]
)
#: The first and the last day of Python's dates, from 1970-01-01.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
#: A format of dates in which times of the same day have the same text.
_OF_DAYS = re.compile(r"([^%]|%[YymdbBaAj])*", re.DOTALL)


def distinct_values(column: pl.Series) -> tuple[pl.Series, pl.Series] | None:
    """The distinct values in order of first appearance, a missing one among them, and each row's position among these.

    ``None`` if the rows are few, or most of their values are not repeated, or values that pandas distinguishes are equal to the kernel.
    """
    rows, kind = len(column), column.dtype
    if rows < _FEWEST_ROWS or not (kind == pl.String() or kind.is_integer() or kind.is_temporal()):
        return None
    estimate: Any = column.approx_n_unique()
    if estimate * _ROWS_PER_VALUE > rows:
        return None
    encoded = pc.dictionary_encode(column.rechunk().to_arrow(compat_level=pl.CompatLevel.newest()))
    distinct = pl.Series(pl.from_arrow(encoded.dictionary)).cast(kind)
    places = pl.Series(pl.from_arrow(encoded.indices))
    return _with_a_missing_value(distinct, places) if places.null_count() else (distinct, places)


def _with_a_missing_value(distinct: pl.Series, places: pl.Series) -> tuple[pl.Series, pl.Series]:
    """As of :func:`distinct_values`, from the values that are not missing, and positions of which some are null."""
    first: Any = places.is_null().arg_max()
    before: Any = places.head(first).max()
    place = 0 if before is None else before + 1
    missing = pl.Series([None], dtype=distinct.dtype)
    values = pl.concat([distinct.head(place), missing, distinct.slice(place)])
    return values, (places + (places >= place).cast(places.dtype)).fill_null(place)


def once_for_each(column: pl.Series, function: Callable[[pl.Series], pl.Series]) -> pl.Series | None:
    """The results of a function whose result for a row depends on the row's value alone; ``None`` as :func:`distinct_values`."""
    found = distinct_values(column)
    return None if found is None else function(found[0]).gather(found[1])


def days_of_format(column: pl.Series, format: object) -> pl.Series | None:
    """The days of some times without a zone, which have the texts of the times in a format; ``None`` if they do not.

    Times in years that Python's dates do not have are not formatted by pandas, but written with the time of day.
    """
    times = isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is None
    if not times or not isinstance(format, str) or not _OF_DAYS.fullmatch(format):
        return None
    days = column.cast(pl.Date)
    first, last = days.to_physical().min(), days.to_physical().max()
    return days if first is None or (first >= _FIRST_DAY and last <= _LAST_DAY) else None  # type: ignore[operator]
