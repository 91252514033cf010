"""What ranks ask of the program's process, and the reverse: named frames, checkpoints, and results that are fetched."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

from craton.spmd.errors import ResultLost
from craton.spmd.gang import Gang
from craton.spmd.messages import Message, decoded, encoded
from craton.spmd.named import FrameRegistry, rows_for
from craton.store.objects import Ref, get

__all__ = ["Requests"]

#: The named frames of this process's executors.
_registry = FrameRegistry()


class Requests:
    """The requests of one executor's ranks.

    Parameters
    ----------
    token
        The executor's number.
    size
        The number of its ranks.
    """

    def __init__(self, token: str, size: int) -> None:
        self._token, self._size = token, size
        self._lock = threading.Lock()
        self._number = 0
        self._fetching: dict[int, tuple[Gang, concurrent.futures.Future[Message]]] = {}
        self._states: dict[
            int, tuple[int, Any]
        ] = {}  # of the checkpoint that is being made, by rank: request and state
        self._last: dict[int, Any] = {}  # the last complete checkpoint

    def take(self, gang: Gang, rank: int, said: tuple[Any, ...], buffers: list[memoryview]) -> None:
        """Answer a request of a rank, or take its answer."""
        kind = said[0]
        if kind == "fetched":
            with self._lock:
                _, future = self._fetching.pop(said[1], (None, None))
            if future is not None and not future.done():
                future.set_result(((said[2],), buffers))
        elif kind == "withdraw":
            _registry.withdraw(lambda token: token == (self._token, rank, said[1]))
        elif kind == "request":
            _, number, what, *given = said
            getattr(self, f"_{what}")(gang, rank, number, buffers, *given)

    # ---- of ranks ----

    def _checkpoint(self, gang: Gang, rank: int, number: int, buffers: list[memoryview], by_ref: bool) -> None:
        state: Ref | list[memoryview] = buffers
        if by_ref:
            state = decoded(buffers)
            assert isinstance(state, Ref)
            state._connected_store()  # from now on this process keeps it
        with self._lock:
            self._states[rank] = number, state
            if len(self._states) < self._size:
                return
            states, self._states = self._states, {}
            before, self._last = self._last, {rank: state for rank, (_, state) in states.items()}
        for state in before.values():
            if isinstance(state, Ref):
                state.drop()
        for each, (request, _) in states.items():
            gang.send(each, ("reply", request, True))

    def restored(self, rank: int) -> list[Any]:
        """Return what a rank that starts again begins with, as buffers of a message; empty if there is no checkpoint."""
        with self._lock:
            if rank not in self._last:
                return []
            state = self._last[rank]
        return encoded(state) if isinstance(state, Ref) else list(state)

    def _put(
        self, gang: Gang, rank: int, number: int, buffers: list[memoryview], name: str, _n: int, rows: int
    ) -> None:
        _registry.put(self._token, name, rank, self._size, rows, decoded(buffers))
        gang.send(rank, ("reply", number, True))

    def _get(
        self,
        gang: Gang,
        rank: int,
        number: int,
        _buffers: list[memoryview],
        name: str,
        place: int,
        size: int,
        by_ref: bool,
    ) -> None:
        def answer() -> None:
            self._get(gang, rank, number, [], name, place, size, by_ref)

        parts = _registry.get(name, (self._token, rank, number), answer)
        if parts is None:
            return
        wanted = rows_for(place, size, [rows for rows, _ in parts])
        objects = [parts[part][1] for part, _, _ in wanted]
        try:
            if not by_ref:
                objects = [get(one) if isinstance(one, Ref) else one for one in objects]
            sent = encoded(objects)
        except KeyError:  # replaced at this moment
            answer()
            return
        gang.send(rank, ("reply", number, ("parts", [(start, stop) for _, start, stop in wanted])), sent)

    def _drop(self, gang: Gang, rank: int, number: int, _buffers: list[memoryview], name: str) -> None:
        _registry.drop(name)
        gang.send(rank, ("reply", number, True))

    # ---- of the program ----

    def fetch(self, gang: Gang, rank: int, call: int) -> tuple[int, str, list[memoryview]]:
        """Ask a rank for the result of a call; return the request's number, and how and what it has sent.

        Raises
        ------
        ResultLost
            If the rank has ended.
        """
        future: concurrent.futures.Future[Message] = concurrent.futures.Future()
        with self._lock:
            self._number += 1
            number = self._number
            self._fetching[number] = gang, future
        gang.send(rank, ("fetch", number, call))
        (how,), buffers = future.result()
        return number, how, buffers

    def restarted(self) -> None:
        """Forget what concerns processes that have ended."""
        self._end("its process has ended")

    def close(self, reason: str) -> None:
        """Forget everything, and drop the checkpoint."""
        self._end(reason)
        with self._lock:
            states, self._last = list(self._last.values()), {}
        for state in states:
            if isinstance(state, Ref):
                state.drop()

    def _end(self, reason: str) -> None:
        _registry.withdraw(lambda token: token[0] == self._token)
        _registry.forget(self._token)
        with self._lock:
            self._states.clear()
            fetching, self._fetching = self._fetching, {}
        for _, future in fetching.values():
            if not future.done():
                future.set_exception(ResultLost(f"the result was on a rank, and {reason}"))
