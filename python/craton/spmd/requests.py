"""What ranks ask of the program's process, and the reverse: named frames, checkpoints, and results that are fetched."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

from craton.remote.side_output import pack_exception
from craton.spmd.checkpoints import CheckpointFolder
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
    folder
        Where checkpoints are kept as well; the last one is there at first.
    """

    def __init__(self, token: str, size: int, folder: CheckpointFolder | None = None) -> None:
        self._token, self._size, self._folder = token, size, folder
        self._lock = threading.Lock()
        self._number = 0
        self._fetching: dict[int, tuple[Gang, concurrent.futures.Future[Message]]] = {}
        self._states: dict[
            int, tuple[int, Any]
        ] = {}  # of the checkpoint that is being made, by rank: request and state
        # The last complete checkpoint: for each rank a reference to the store, or an encoded state.
        self._last: list[Any] = [] if folder is None else list(folder.load())

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
            made, self._states = self._states, {}
        requests = {each: request for each, (request, _) in made.items()}
        states = [made[each][1] for each in range(self._size)]
        if self._folder is None:
            self._complete(gang, requests, states)
        else:  # in a thread: what else the ranks say does not wait for the disk
            threading.Thread(
                target=self._complete, args=(gang, requests, states), name="craton-spmd-checkpoint", daemon=True
            ).start()

    def _complete(self, gang: Gang, requests: dict[int, int], states: list[Any]) -> None:
        """Keep a checkpoint that all ranks have made, and tell them so, or why not."""
        dropped, error = states, b""
        try:
            if self._folder is not None:
                self._folder.save([encoded(get(one)) if isinstance(one, Ref) else one for one in states])
            with self._lock:
                dropped, self._last = self._last, states
        except Exception as raised:
            error = pack_exception(raised)
        _drop(dropped)
        for rank, request in requests.items():
            gang.send(rank, ("reply", request, "failed" if error else "kept"), [error])

    def _all_states(self, gang: Gang, rank: int, number: int, _buffers: list[memoryview], by_ref: bool) -> None:
        with self._lock:
            last = list(self._last)
        # Encoded states become buffers of an array of bytes: their objects may be of classes that this process does not have.
        sent = [get(one) if isinstance(one, Ref) and not by_ref else one for one in last]
        flags = [isinstance(one, list) for one in sent]
        sent = [[bytes(buffer) for buffer in one] if flag else one for one, flag in zip(sent, flags, strict=True)]
        gang.send(rank, ("reply", number, ("states", flags)), encoded(sent))

    def restored(self, rank: int) -> list[Any]:
        """Return what a rank begins with, as buffers of a message; empty if there is no checkpoint of as many ranks."""
        with self._lock:
            if len(self._last) != self._size:
                return []
            state = self._last[rank]
        return encoded(state) if isinstance(state, Ref) else list(state)

    def resize(self, size: int) -> None:
        """Go on with another number of ranks."""
        self._size = size

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
            states, self._last = self._last, []
        _drop(states)

    def leave_folder(self) -> None:
        """Let other executors use the folder of checkpoints."""
        if self._folder is not None:
            self._folder.close()

    def _end(self, reason: str) -> None:
        _registry.withdraw(lambda token: token[0] == self._token)
        _registry.forget(self._token)
        with self._lock:
            self._states.clear()
            fetching, self._fetching = self._fetching, {}
        for _, future in fetching.values():
            if not future.done():
                future.set_exception(ResultLost(f"the result was on a rank, and {reason}"))


def _drop(states: list[Any]) -> None:
    for state in states:
        if isinstance(state, Ref):
            state.drop()
