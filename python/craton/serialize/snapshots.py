"""Results that are kept for a while before they are sent, as they were when they were returned, whatever their makers do meanwhile."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["taken_from"]

_EXCLUSIVE = 2
"""The references that ``sys.getrefcount(holder[at])`` counts if only the holder has the object."""
_PLAIN = frozenset({int, float, bool, complex, str, bytes, type(None)})
_DEEP = 16


def taken_from(holder: Any, at: Any = 0, shared: bool = False, deep: int = _DEEP) -> Any:
    """Return an object that a list, a tuple or a dict holds, so that it does not change if somebody else changes the object.

    Arrays and bytearrays are copied, unless nobody else has them; frames share their memory until one is written to. Lists, tuples and
    dicts are made anew, down to some depth. Objects of other classes are returned as they are.

    Parameters
    ----------
    holder
        What holds the object: nothing else of the caller's may have it.
    at
        Where.
    shared
        Whether somebody else has the holder.
    deep
        How deeply nested containers are made anew.
    """
    if type(holder[at]) in _PLAIN or not deep:
        return holder[at]
    shared = shared or sys.getrefcount(holder[at]) > _EXCLUSIVE
    kind = type(holder[at])
    if kind is list or kind is tuple:
        own = holder[at]
        return kind(
            [
                own[number] if kind_of_item in _PLAIN else taken_from(own, number, shared, deep - 1)
                for number, kind_of_item in enumerate(map(type, own))
            ]
        )
    if kind is dict:
        return {key: taken_from(holder[at], key, shared, deep - 1) for key in holder[at]}
    if kind is bytearray:
        return bytearray(holder[at]) if shared else holder[at]
    for package, name in (
        ("numpy", "ndarray"),
        ("pandas", "DataFrame"),
        ("pandas", "Series"),
        ("pandas", "Index"),
        ("polars", "DataFrame"),
    ):
        module = sys.modules.get(package)
        if module is None or not isinstance(holder[at], getattr(module, name, ())):
            continue
        if package == "numpy":
            return holder[at].copy() if shared or holder[at].base is not None else holder[at]
        return holder[at].clone() if package == "polars" else holder[at].copy(deep=False)
    return holder[at]
