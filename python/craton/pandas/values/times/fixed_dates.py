"""Dates in formats of fixed width, as ``%d/%b/%Y:%H:%M:%S %z``, parsed from the bytes of whole columns.

pandas matches a regular expression with each text. If all texts have the full width of the format, with its literals and digits in
their places, each part has one reading, which is pandas' reading. Other columns, and those with values out of range, are left to pandas.
"""

from __future__ import annotations

import calendar
import functools
import re
from typing import Any

import numpy as np
import pyarrow as pa

from craton.records import dataclass

#: The bytes of each directive.
_WIDTHS = {"Y": 4, "m": 2, "d": 2, "b": 3, "H": 2, "M": 2, "S": 2, "z": 5}
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_UTC = b"+0000"
#: How many texts are parsed at once, so that their bytes stay in the processor's cache.
_ROWS = 1 << 15


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the parts of a format are.

    Parameters
    ----------
    width
        The bytes of a text.
    places
        The first byte of each directive.
    literals
        The other bytes, by their places.
    """

    width: int
    places: dict[str, int]
    literals: dict[int, int]


@functools.lru_cache(maxsize=256)
def _layout(format: str) -> _Layout | None:
    """The layout of a format; None unless it has a fixed width and one reading."""
    if not format.isascii():
        return None
    places: dict[str, int] = {}
    literals: dict[int, int] = {}
    place, numeric = 0, False  # whether a number ends here
    for directive, literal in re.findall(r"%(.)|([^%])|%$", format, re.DOTALL):
        if directive:
            if directive not in _WIDTHS or directive in places or (numeric and directive != "b"):
                return None
            places[directive] = place
            place, numeric = place + _WIDTHS[directive], directive != "b"
        elif not literal or literal.isdigit():
            return None
        else:
            literals[place] = ord(literal)
            place, numeric = place + 1, False
    if not {"Y", "d"} <= places.keys() or ("m" in places) == ("b" in places):
        return None
    if "b" in places and list(calendar.month_abbr)[1:] != _MONTHS:
        return None  # the names are those of the locale
    return _Layout(place, places, literals)


def microseconds(array: pa.LargeStringArray, format: str, width: int) -> Any:
    """The microseconds since 1970 of texts in a format.

    Parameters
    ----------
    array
        The texts, of which none is missing.
    format
        The format, as ``to_datetime`` takes it.
    width
        The bytes of each text.

    Returns
    -------
    numpy.ndarray or None
        ``None`` unless all texts are dates with the format's full width; offsets from UTC must be ``+0000``.
    """
    layout = _layout(format)
    if layout is None or layout.width != width:
        return None
    _, offsets, content = array.buffers()
    start = int(np.frombuffer(offsets, dtype=np.int64)[array.offset])
    table = np.frombuffer(content, dtype=np.uint8)[start : start + len(array) * width].reshape(-1, width)
    found = np.empty(len(array), dtype=np.int64)
    for first in range(0, len(array), _ROWS):
        part = _parse(np.ascontiguousarray(table[first : first + _ROWS].T), layout)
        if part is None:
            return None
        found[first : first + _ROWS] = part
    return found


def _parse(by_place: Any, layout: _Layout) -> Any:
    """As :func:`microseconds`, of the bytes of some texts by their places."""
    if any((by_place[place] != byte).any() for place, byte in layout.literals.items()):
        return None
    numbers: dict[str, Any] = {}
    for directive, place in layout.places.items():
        part = by_place[place : place + _WIDTHS[directive]]
        if directive == "z":
            if any((row != byte).any() for row, byte in zip(part, _UTC, strict=True)):
                return None
            continue
        number = _months(part) if directive == "b" else _number(part)
        if number is None:
            return None
        numbers[directive] = number
    year, month, day = numbers["Y"], numbers["m" if "m" in numbers else "b"], numbers["d"]
    clock = [numbers.get(one, 0) for one in "HMS"]
    if year.min() < 1000 or month.min() < 1 or month.max() > 12 or day.min() < 1:
        return None
    if any(np.max(number) > most for number, most in zip(clock, (23, 59, 59), strict=True)):
        return None
    months = year * 12 + (month - 1)
    earliest = int(months.min())
    starts = np.arange(earliest - 1970 * 12, int(months.max()) + 2 - 1970 * 12).astype("datetime64[M]")
    days = starts.astype("datetime64[D]").astype(np.int64)
    months -= earliest
    if (day > np.diff(days)[months]).any():
        return None
    hours, minutes, seconds = clock
    of_day = (hours * 60 + minutes) * 60 + seconds
    return ((days[months] + (day - 1)) * 86_400 + of_day) * 1_000_000


def _number(digits: Any) -> Any:
    """The numbers of rows of digits; None if a byte is no digit."""
    values = digits - np.uint8(ord("0"))
    if values.max() > 9:
        return None
    number = values[0].astype(np.int32)
    for digit in values[1:]:
        number *= 10
        number += digit
    return number


def _months(names: Any) -> Any:
    """The numbers of months with names of three letters; None if a name is not spelled as in :data:`_MONTHS`."""
    codes = (names[0].astype(np.int32) << 16) | (names[1].astype(np.int32) << 8) | names[2]
    known = np.array([int.from_bytes(name.encode(), "big") for name in _MONTHS], dtype=np.int32)
    order = np.argsort(known)
    places = np.searchsorted(known[order], codes).clip(max=11)
    if (known[order][places] != codes).any():
        return None
    return order[places].astype(np.int32) + 1
