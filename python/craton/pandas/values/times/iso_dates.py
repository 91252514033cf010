"""Dates in ISO formats, parsed by Arrow, and in other formats of fixed width.

Arrow accepts exactly the dates of the calendar with all digits. Of these, only such are parsed here that pandas parses as the same
format: the length of a text and its separator distinguish the formats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from craton.pandas.core.dtypes import DtypeObj, physical
from craton.pandas.values.batch_rows import scatter
from craton.pandas.values.times.fixed_dates import microseconds
from craton.pandas.values.times.iso_days import days_of

#: The fewest and the most bytes of a text of each format of pandas, and its separator of date and time.
_FORMATS = {
    "%Y-%m-%d": (10, 10, ""),
    "%Y-%m-%d %H:%M": (16, 16, " "),
    "%Y-%m-%d %H:%M:%S": (19, 19, " "),
    "%Y-%m-%dT%H:%M": (16, 16, "T"),
    "%Y-%m-%dT%H:%M:%S": (19, 19, "T"),
    "%Y-%m-%d %H:%M:%S.%f": (21, 26, " "),
    "%Y-%m-%dT%H:%M:%S.%f": (21, 26, "T"),
}
#: The lengths of the texts that are dates, whatever the separator.
_LENGTHS = {10, 16, 19}
#: The first microsecond of the year 1000, and the last that fits into 64-bit nanoseconds, of which the first is its negative.
_YEAR_1000 = -30_610_224_000_000_000
_MICROSECONDS_A_DAY = 86_400_000_000
_DAY_1000 = _YEAR_1000 // _MICROSECONDS_A_DAY
_MOST_NANOSECONDS = (2**63 - 1) // 1000


def parsed_dates(texts: pl.Series, format: str | None, dtype: DtypeObj) -> pl.Series | None:
    """The dates of texts.

    Parameters
    ----------
    texts
        A column of strings.
    format
        The format of all of them, as ``to_datetime`` takes it. With ``None``, each may have another format, as for ``astype``.
    dtype
        The pandas dtype of the dates.

    Returns
    -------
    polars.Series or None
        ``None`` unless all texts are dates of the format that Arrow parses as pandas does.
    """
    target = physical(dtype)
    if not isinstance(target, pl.Datetime) or target.time_unit == "ms" or target.time_zone not in (None, "UTC"):
        return None
    kept = texts.is_not_null() if texts.null_count() else None
    dates = _parse(texts if kept is None else texts.filter(kept), format, target)
    return dates if dates is None or kept is None else scatter(dates, kept)


def _parse(texts: pl.Series, format: str | None, target: pl.Datetime) -> pl.Series | None:
    """As :func:`parsed_dates`, for texts of which none is missing."""
    if not len(texts):
        return None
    days = days_of(texts) if format in (None, "%Y-%m-%d") else None
    if days is not None:
        return None if int(days.min()) < _DAY_1000 else _in_unit(days * np.int64(_MICROSECONDS_A_DAY), target)
    lengths = texts.str.len_bytes()
    least, most = int(lengths.min()), int(lengths.max())  # type: ignore[arg-type]
    if format is not None and format not in _FORMATS:
        if least != most:
            return None
        stored = microseconds(texts.rechunk().to_arrow().cast(pa.large_string()), format, least)
        return None if stored is None else _in_unit(stored, target)
    if format is None:
        if least != most or least not in _LENGTHS:
            return None
    else:
        shortest, longest, separator = _FORMATS[format]
        if least < shortest or most > longest:
            return None
    array = texts.rechunk().to_arrow().cast(pa.large_string())
    if format is not None and separator and not _all_separated_by(array, separator):
        return None
    try:
        micros = array.cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    stored = micros.to_numpy()
    return None if int(stored.min()) < _YEAR_1000 else _in_unit(stored, target)


def _in_unit(stored: Any, target: pl.Datetime) -> pl.Series | None:
    """Dates of microseconds; ``None`` if nanoseconds are needed and they do not fit."""
    if target.time_unit == "ns":
        if int(stored.min()) < -_MOST_NANOSECONDS or int(stored.max()) > _MOST_NANOSECONDS:
            return None
        stored = stored * 1000
    dates = pl.Series(stored).cast(pl.Datetime(target.time_unit))
    return dates if target.time_zone is None else dates.dt.replace_time_zone(target.time_zone)


def _all_separated_by(array: pa.Array, separator: str) -> bool:
    """Whether the byte after the date, of ten bytes, is the separator in all texts; each is longer, and none is missing."""
    _, offsets, content = array.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array)]
    return bool((np.frombuffer(content, dtype=np.uint8)[starts + 10] == ord(separator)).all())
