"""Converts the answers of contestants to plain values, and compares them.

A table is ``{"columns": [names], "rows": [[value, ...], ...]}`` with dates as ISO text, missing values as None and
every number as int or float, so that the answers of all libraries can be compared.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

__all__ = ["difference", "plain", "table"]

MIDNIGHT = datetime.time()


def plain(value: Any) -> Any:
    """Convert a scalar of any library to None, bool, int, float or str.

    Examples
    --------
    >>> plain(datetime.datetime(1998, 9, 2)), plain(decimal.Decimal("1.50")), plain(float("nan"))
    ('1998-09-02', 1.5, None)
    """
    if hasattr(value, "item") and not isinstance(value, (int, float, str)):
        value = value.item()
    if value is None or value != value or type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == MIDNIGHT else value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if value is True or value is False:
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    return str(value)


def table(columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Return the answer for a result with these column names and rows."""
    return {
        "columns": [str(name) for name in columns],
        "rows": [[plain(value) for value in row] for row in rows],
    }


def difference(
    expected: Any,
    found: Any,
    *,
    order_by: Sequence[int] | Literal["every"] | None = None,
    tolerance: float = 1e-6,
) -> str | None:
    """Describe how two answers differ; return None if they are equal.

    Parameters
    ----------
    expected, found : answer
        Two tables, or any two values made of dicts, lists and scalars.
    order_by : sequence of int or "every", optional
        Positions of the columns by which the rows are sorted; rows that are equal in these columns, within the tolerance,
        may be in any order. ``"every"``: the order of all rows must be the same. None: the order of rows does not matter.
    tolerance : float
        Relative difference up to which floats count as equal.
    """
    if not (_is_table(expected) and _is_table(found)):
        return None if _same(expected, found, tolerance) else f"is {_short(found)} and should be {_short(expected)}"
    if expected["columns"] != found["columns"]:
        return f"has the columns {found['columns']} and should have {expected['columns']}"
    ours, theirs = found["rows"], expected["rows"]
    if len(ours) != len(theirs):
        return f"has {len(ours)} rows and should have {len(theirs)}"
    for at in range(len(expected["columns"])) if order_by == "every" else order_by or ():
        name = expected["columns"][at]
        for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            if not _same(their[at], our[at], tolerance):
                return f"has in row {number} {name} = {our[at]!r} and should have {their[at]!r}"
    exact = [all(_is_exact(row[at]) for row in (*ours, *theirs)) for at in range(len(expected["columns"]))]
    for our, their in zip(_arranged(ours, exact), _arranged(theirs, exact), strict=True):
        if not _same(their, our, tolerance):
            return f"has the row {_short(our)} and should have {_short(their)}"
    return None


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"columns", "rows"}


def _arranged(rows: list[list[Any]], exact: list[bool]) -> list[list[Any]]:
    """Sort rows by the columns without fractions first. Columns with fractions come last, because their last digits may differ."""

    def key(row: list[Any]) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        keys = [(repr(value), 0.0) if not _is_number(value) else ("", float(f"{value:.15g}")) for value in row]
        floats = [(word, float(f"{number:.9g}")) for word, number in keys]
        return [k for k, e in zip(keys, exact, strict=True) if e], [
            k for k, e in zip(floats, exact, strict=True) if not e
        ]

    return sorted(rows, key=key)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_exact(value: Any) -> bool:
    return not isinstance(value, float) or value.is_integer()


def _same(expected: Any, found: Any, tolerance: float) -> bool:
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(_same(expected[k], found[k], tolerance) for k in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_same, expected, found, [tolerance] * len(found)))
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        if isinstance(expected, int) and isinstance(found, int):
            return expected == found
        return math.isclose(expected, found, rel_tol=tolerance, abs_tol=tolerance)
    return bool(expected == found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
