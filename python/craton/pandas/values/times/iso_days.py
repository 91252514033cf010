"""Days such as ``1996-03-13``, parsed four bytes at a time.

The kernel stores a text of at most 12 bytes in its view: four bytes of length, then the text. So a column of days is an array of
words of 32 bits, whose bytes are digits and hyphens at fixed places.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

Words = np.ndarray[Any, np.dtype[np.uint32]]

_BYTES = 10
#: How many texts are parsed at once, so that their words stay in the processor's cache.
_ROWS = 1 << 15
#: The least significant byte of a word is the first of its text.
_ZEROS, _MONTH_ZEROS, _DAY_ZEROS = np.uint32(0x30303030), np.uint32(0x2D30302D), np.uint32(0x00003030)
#: Added to a byte of at most 9, it leaves the highest bit unset.
_ABOVE_NINE, _HIGHEST_BITS = np.uint32(0x76767676), np.uint32(0x80808080)
_HYPHENS = np.uint32(0xFF0000FF)
_LOW, _PAIRS = np.uint32(0xFF), np.uint32(0x00FF00FF)
_TEN, _HUNDRED, _MONTHS = np.uint32(10), np.uint32(100), np.uint32(13)


def days_of(texts: pl.Series) -> np.ndarray[Any, np.dtype[np.int32]] | None:
    """The days since 1970-01-01 of texts of which none is missing; ``None`` unless each is a day of the calendar with all digits."""
    array = texts.rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
    views = np.frombuffer(array.buffers()[1], dtype="<u4").reshape(-1, 4)[array.offset : array.offset + len(array)]
    days = np.empty(len(views), dtype=np.int32)
    for begin in range(0, len(views), _ROWS):
        part = _days(views[begin : begin + _ROWS])
        if part is None:
            return None
        days[begin : begin + _ROWS] = part
    return days


def _days(views: Words) -> np.ndarray[Any, np.dtype[np.int32]] | None:
    if not bool((views[:, 0] == _BYTES).all()):
        return None
    year, month, day = views[:, 1] ^ _ZEROS, views[:, 2] ^ _MONTH_ZEROS, views[:, 3] ^ _DAY_ZEROS
    if np.bitwise_or.reduce(month) & _HYPHENS or not all(map(_are_digits, (year, month, day))):
        return None
    pairs = (year * _TEN + (year >> np.uint32(8))) & _PAIRS
    year = (pairs & _LOW) * _HUNDRED + (pairs >> np.uint32(16))
    month = ((month >> np.uint32(8)) & _LOW) * _TEN + (month >> np.uint32(16))
    day = (day & _LOW) * _TEN + (day >> np.uint32(8))
    if int(month.max()) >= _MONTHS:
        return None
    first, lengths = _months()
    place = (year * _MONTHS + month).astype(np.intp)
    if bool((day > lengths.take(place)).any()) or not bool(day.all()):
        return None
    return first.take(place) + day.view(np.int32)


def _are_digits(words: Words) -> bool:
    """Whether all bytes are at most 9."""
    return not np.bitwise_or.reduce((words + _ABOVE_NINE) | words) & _HIGHEST_BITS


@lru_cache(maxsize=1)
def _months() -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.uint32]]]:
    """The day before the first of each month, and the month's length, by 13 times the year plus the month; of month 0, no days."""
    begins = np.arange("0000-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int32)
    first, lengths = np.zeros((10_000, 13), dtype=np.int32), np.zeros((10_000, 13), dtype=np.uint32)
    first[:, 1:] = begins[:-1].reshape(-1, 12) - 1
    lengths[:, 1:] = np.diff(begins).reshape(-1, 12)
    return first.ravel(), lengths.ravel()
