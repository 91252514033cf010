"""``craton.map``: a function called for each of some items, in order, in workers where that is worth it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from craton import fallbacks
from craton.remote import jobs
from craton.remote.functions import Function, from_table, to_table
from craton.remote.values import Values, pack, unpack

__all__ = ["map"]

T = TypeVar("T")
R = TypeVar("R")


def map(fn: Callable[[T], R], items: Iterable[T], *, chunksize: int | None = None) -> list[R]:
    """Call a function for each item, and return what it returns, in order.

    The first calls are made here and measured. If all would take long, the rest is spread over the workers of the session,
    or over processes that are started for it, as many as there are cores; otherwise it is done here. Functions and classes
    of ``__main__``, of notebooks and local ones travel by value.

    Parameters
    ----------
    fn
        The function. One that changes what it captures is called here, for each item in turn.
    items
        What it is called with; picklable.
    chunksize
        How many items a worker gets at once; by default as many as take some tenths of a second.

    Returns
    -------
    list
        The results.

    Raises
    ------
    BaseException
        What the function raises for the first of the items for which it raises; where in the worker that was is its cause.
        Later items may have been used by then.
    ValueError
        If `chunksize` is less than 1.

    Examples
    --------
    >>> import craton
    >>> craton.map(lambda number: number**2, range(5))
    [0, 1, 4, 9, 16]
    """
    if chunksize is not None and (type(chunksize) is not int or chunksize < 1):
        raise ValueError(f"chunksize is a whole number, 1 or more, not {chunksize!r}")
    if not callable(fn):
        raise TypeError(f"fn is to be called, and {type(fn).__name__} cannot be")
    results = jobs.run(_Items(list(items), Function(fn)), "craton.map", chunksize)
    if results.refused is not None:
        fallbacks.count("craton.map", results.refused)
    return results.to_list()


@dataclass(frozen=True)
class _ItemsBody:
    """Some items, as a list."""

    def call(self, function: Function, rows: pa.Table, results: list[Any]) -> None:
        _collect(from_table(rows, copy=True), function, results)

    def pack(self, results: list[Any]) -> pa.Table:
        return pack(results)


def _collect(items: list[Any], function: Function, results: list[Any]) -> None:
    call = function.call
    for item in items:
        results.append(call(item))


class _Items:
    """The items, one after another."""

    weights = None
    body = _ItemsBody()

    def __init__(self, items: list[Any], function: Function) -> None:
        self._items, self.function = items, function

    def __len__(self) -> int:
        return len(self._items)

    def here(self, start: int, stop: int, results: list[Any]) -> None:
        _collect(self._items[start:stop], self.function, results)

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table(self._items[start:stop])

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)
