"""Rows in another order: ``sort_values``, ``sort_index``, ``nlargest`` and ``nsmallest``.

A sort is stable: rows with equal keys keep their order, descending too. pandas promises that for several keys and for
``kind="stable"``; its default for one key, quicksort, leaves the order of equal keys to the machine
(``docs/known-differences.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from craton.errors import Unsupported
from craton.pandas.dtypes import family
from craton.pandas.view import IndexSpec, Value, View
from craton.plan.expr import Expr, has_window
from craton.plan.operators import Slice, Sort, SortKey

KINDS = ("quicksort", "mergesort", "heapsort", "stable")


def directions(ascending: Any, count: int) -> list[bool]:
    """``ascending`` for each key.

    Raises
    ------
    Unsupported
        If it is no boolean, or another number of them.
    """
    if isinstance(ascending, (bool, int)):
        return [bool(ascending)] * count
    if isinstance(ascending, (list, tuple)) and all(isinstance(item, (bool, int)) for item in ascending):
        if len(ascending) == count:
            return [bool(item) for item in ascending]
    raise Unsupported(f"ascending={ascending!r} for {count} keys")


def check_options(kind: Any, na_position: Any, key: Any) -> None:
    """Refuse what pandas does otherwise, or words an error for."""
    if key is not None:
        raise Unsupported("a key function")
    if kind is not None and kind not in KINDS:
        raise Unsupported(f"kind={kind!r}")
    if na_position not in ("first", "last"):
        raise Unsupported(f"na_position={na_position!r}")


def sorted_rows(
    held: View, keys: Sequence[Value], ascending: Sequence[bool], na_position: str = "last", ignore_index: bool = False
) -> View:
    """The rows by keys over the same base."""
    if any(family(key.dtype) == "object" for key in keys):
        raise Unsupported("a sort by objects")
    held = replace(held, index=IndexSpec()) if ignore_index else held.numbered()
    exprs: list[Expr] = [key.clean.expr for key in keys]
    if any(has_window(value.expr) for value in (*held.values, *held.index.values)) or any(map(has_window, exprs)):
        held, exprs = held.sealed_with(exprs)
    sort = Sort(
        held.base,
        tuple(SortKey(expr, not up, na_position == "last") for expr, up in zip(exprs, ascending, strict=True)),
    )
    return replace(held, base=sort)
