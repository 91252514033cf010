"""Frames by name: an executor puts one, and executors of any parallelism take it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from craton import forks
from craton.spmd.messages import decoded, encoded
from craton.store.objects import Ref, get, put

__all__ = ["FrameRegistry", "NamedFrames", "rows_for"]


class NamedFrames:
    """The frames that the executors of a program share, as a rank sees them; `env.store`.

    A frame is put in parts, one by each rank. Where all processes are on one machine, the parts are in its store, and whoever takes
    them gets views of them; parts for other machines pass through the program's process.
    """

    def __init__(self, request: Callable[..., Any], rank: int, size: int, shares_store: bool) -> None:
        self._request, self._rank, self._size, self._shares_store = request, rank, size, shares_store
        self._puts: dict[str, int] = {}

    def put(self, name: str, frame: Any) -> None:
        """Put this rank's part of a frame. All ranks call it, and it does not wait for the others.

        The frame can be taken when all ranks have put their parts. It replaces one of the same name.

        Parameters
        ----------
        name
            Its name.
        frame
            A pandas or Polars frame, an Arrow table, or a NumPy array: anything with rows that can be sliced.
        """
        rows = len(frame)
        self._puts[name] = self._puts.get(name, 0) + 1
        kept = put(frame) if self._shares_store else frame
        self._request(("put", name, self._puts[name], rows), encoded(kept), None)

    def get(self, name: str, *, timeout: float | None = None) -> Any:
        """Take this rank's part of a frame, and wait for it if it has not been put yet.

        An executor with as many ranks as the one that put the frame gets its parts. In one with another number of ranks, each rank
        gets an equal share of the rows, in their order.

        Parameters
        ----------
        name
            Its name.
        timeout
            Seconds to wait; by default without end.

        Raises
        ------
        TimeoutError
            If there is no such frame in time.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            try:
                answer, buffers = self._request(("get", name, self._rank, self._size, self._shares_store), [], left)
            except TimeoutError:
                raise TimeoutError(f"no frame named {name!r} was put within {timeout:g} s") from None
            try:
                parts = [get(one) if isinstance(one, Ref) else one for one in decoded(buffers)]
            except KeyError:  # it was replaced in the meantime
                continue
            return _joined([_rows(part, start, stop) for part, (start, stop) in zip(parts, answer[1], strict=True)])

    def drop(self, name: str) -> None:
        """Remove a frame; views of it stay valid. Does nothing if there is none."""
        self._request(("drop", name), [], None)


def _rows(part: Any, start: int, stop: int) -> Any:
    if start == 0 and stop == len(part):
        return part
    if hasattr(part, "iloc"):
        return part.iloc[start:stop]
    if hasattr(part, "slice") and not hasattr(part, "dtype"):
        return part.slice(start, stop - start)
    return part[start:stop]


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    package = type(first).__module__.partition(".")[0]
    if package == "polars":
        import polars as pl

        return pl.concat(parts)
    if package == "pyarrow":
        import pyarrow as pa

        return pa.concat_tables(parts)
    if package == "numpy":
        import numpy as np

        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts)


def rows_for(rank: int, size: int, lengths: list[int]) -> list[tuple[int, int, int]]:
    """Return the parts of a frame that a rank of `size` takes, and the rows of each, from and up to.

    Examples
    --------
    >>> rows_for(1, 2, [3, 3, 2])
    [(1, 1, 3), (2, 0, 2)]
    >>> rows_for(1, 2, [5, 0])
    [(1, 0, 0)]
    """
    if len(lengths) == size:
        return [(rank, 0, lengths[rank])]
    total = sum(lengths)
    first, last = rank * total // size, (rank + 1) * total // size
    found, before = [], 0
    for number, length in enumerate(lengths):
        start, stop = max(first - before, 0), min(last - before, length)
        if start < stop:
            found.append((number, start, stop))
        before += length
    return found or [(0, 0, 0)]


class FrameRegistry:
    """The frames by name, in the program's process, and the ranks that wait for one. Its methods may be called in any thread."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._incomplete: dict[tuple[str, str], dict[int, tuple[int, Any]]] = {}
        self._frames: dict[str, list[tuple[int, Any]]] = {}
        self._waiting: dict[str, list[tuple[Any, Callable[[], None]]]] = {}

    def put(self, executor: str, name: str, rank: int, size: int, rows: int, part: Any) -> None:
        """Take a rank's part; when it is the last, answer those that wait for the frame."""
        if isinstance(part, Ref):
            part._connected_store()  # from now on this process keeps it
        with self._lock:
            parts = self._incomplete.setdefault((executor, name), {})
            parts[rank] = rows, part
            if len(parts) < size:
                return
            del self._incomplete[executor, name]
            before = self._frames.get(name, [])
            self._frames[name] = [parts[number] for number in range(size)]
            waiting = self._waiting.pop(name, [])
        _drop(before)
        for _, answer in waiting:
            answer()

    def get(self, name: str, token: Any, answer: Callable[[], None]) -> list[tuple[int, Any]] | None:
        """Return the rows and the object of each part; if there is no such frame, call `answer` when there is."""
        with self._lock:
            found = self._frames.get(name)
            if found is None:
                self._waiting.setdefault(name, []).append((token, answer))
            return found

    def withdraw(self, matches: Callable[[Any], bool]) -> None:
        """Forget those that wait with a token that matches."""
        with self._lock:
            for name, waiting in list(self._waiting.items()):
                self._waiting[name] = [one for one in waiting if not matches(one[0])]

    def forget(self, executor: str) -> None:
        """Forget incomplete frames of an executor."""
        with self._lock:
            for key in [key for key in self._incomplete if key[0] == executor]:
                del self._incomplete[key]

    def drop(self, name: str) -> None:
        """Remove a frame."""
        with self._lock:
            before = self._frames.pop(name, [])
        _drop(before)


def _drop(parts: list[tuple[int, Any]]) -> None:
    for _, part in parts:
        if isinstance(part, Ref):
            part.drop()
