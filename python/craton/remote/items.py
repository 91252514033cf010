"""``craton.map``: calls a function for each item, in workers if the calls take long enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from craton import fallbacks
from craton.remote import parallel_calls
from craton.remote.functions import UserFunction, from_table, to_table
from craton.remote.values import Values, pack, unpack

__all__ = ["map"]

T = TypeVar("T")
R = TypeVar("R")


def map(fn: Callable[[T], R], items: Iterable[T], *, chunksize: int | None = None) -> list[R]:
    """Call a function for each item, and return the results in order.

    The first calls are made and timed in this process. If the rest would take long, the session's workers make the remaining calls,
    or without a session processes that are started for it, one for each core; otherwise this process makes them. Functions and
    classes of ``__main__`` and of notebooks, and local ones, are pickled by value.

    Parameters
    ----------
    fn
        The function. A function that changes objects that it captures is called in this process, for each item in turn.
    items
        The arguments; they must be picklable to be sent to workers.
    chunksize
        How many items a worker gets together; by default as many as take some tenths of a second.

    Returns
    -------
    list
        The results.

    Raises
    ------
    BaseException
        The exception of the first item, in order, for which the function raises one; its cause has the traceback in the worker.
        The function may have been called for later items by then.
    ValueError
        If `chunksize` is not an integer of at least 1.
    TypeError
        If `fn` is not callable.

    Examples
    --------
    >>> import craton
    >>> craton.map(lambda number: number**2, range(5))
    [0, 1, 4, 9, 16]
    """
    if chunksize is not None and (type(chunksize) is not int or chunksize < 1):
        raise ValueError(f"chunksize must be an integer of at least 1, not {chunksize!r}")
    if not callable(fn):
        raise TypeError(f"fn must be callable, not {type(fn).__name__}")
    results = parallel_calls.run(_Items(list(items), UserFunction(fn)), "craton.map", chunksize)
    if results.refused is not None:
        fallbacks.count("craton.map", results.refused)
    return results.to_list()


@dataclass(frozen=True)
class _ItemsBody:
    """Calls the function for a pickled list of items."""

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> None:
        _collect(from_table(rows, copy=True), function, results)

    def pack(self, results: list[Any]) -> pa.Table:
        return pack(results)


def _collect(items: list[Any], function: UserFunction, results: list[Any]) -> None:
    call = function.call
    for item in items:
        results.append(call(item))


class _Items:
    """The job of :func:`map`; implements :class:`craton.remote.parallel_calls.Job`."""

    weights = None
    planned = False
    body = _ItemsBody()

    def __init__(self, items: list[Any], function: UserFunction) -> None:
        self._items, self.function = items, function

    def __len__(self) -> int:
        return len(self._items)

    def here(self, start: int, stop: int, results: list[Any]) -> None:
        _collect(self._items[start:stop], self.function, results)

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table(self._items[start:stop])

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)
