"""The results of a call: a future for each rank, and all of them together."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from craton.spmd.messages import decoded
from craton.spmd.placeholders import kept_result

if TYPE_CHECKING:
    from craton.spmd.executor import Executor

__all__ = ["Call", "Kept", "RankFuture", "RankFutures"]

#: Seconds that the other ranks have to end their calls, and to report how, when one has failed.
_GRACE = 1.0
#: Seconds for which a thread waits at a time.
_SLICE = 0.1


class Kept:
    """Stands for a result that is on its rank."""


class Call:
    """A call on all ranks. Its results are released when nothing refers to it, or to its futures, any more.

    Attributes
    ----------
    number : int
        Its number in the executor, from 1.
    said : tuple
        The message to the ranks, and its buffers.
    pending : set of int
        The ranks that have not ended it.
    active : list of RankFuture
        The futures, until the call has ended on all ranks.
    held : dict
        By rank, how it has ended the call, as long as its future must not know that.
    given : tuple
        The arguments, until the call has ended: results that stay on the ranks are not released before.
    kept : Ref
        The arguments, if they are in the store.
    """

    def __init__(self, executor: Executor, number: int, said: tuple[Any, ...], buffers: list[Any]) -> None:
        self.executor, self.number, self.said, self.buffers = executor, number, said, buffers
        self.pending: set[int] = set()
        self.active: list[RankFuture] = []
        self.held: dict[int, tuple[RankFuture, str, list[memoryview]]] = {}
        self.failures = 0
        self.kept: Any = None
        self.given: Any = None
        self._repeats = False

    def again(self) -> Call:
        """Return a call that makes the same object after a restart; its results belong to this one."""
        call = Call(self.executor, self.number, self.said, self.buffers)
        call._repeats = True
        call.active = [RankFuture(call, rank) for rank in range(self.executor.parallelism)]
        return call

    def __del__(self) -> None:
        if not self._repeats:
            with contextlib.suppress(Exception):
                self.executor._release(self.number, self.said[2] == "start")


class RankFuture(concurrent.futures.Future):  # type: ignore[type-arg]
    """The result of a call on one rank. It can be awaited.

    It is a :class:`concurrent.futures.Future`, so :func:`~concurrent.futures.wait` and
    :func:`~concurrent.futures.as_completed` accept it.

    Attributes
    ----------
    rank : int
        The rank.
    """

    def __init__(self, call: Call, rank: int) -> None:
        super().__init__()
        self.rank, self._call = rank, call
        self._value: Any = Kept
        self._buffers: list[memoryview] = []
        self._place = (
            False,
            0,
        )  # whether the error follows from that of another rank, and its number among the failures

    def result(self, timeout: float | None = None) -> Any:
        """Return the result; a large one is fetched from the rank by the first call.

        Parameters
        ----------
        timeout
            Seconds to wait for the end of the call; by default without end.

        Raises
        ------
        Exception
            The exception of the call.
        TimeoutError
            If the call does not end in time.
        concurrent.futures.CancelledError
            If it was cancelled.
        craton.spmd.ResultLost
            If the rank has ended before the result was fetched.
        """
        try:
            _wait([self], timeout)
            found = super().result(0)
            if found is not Kept:
                return found
            if self._value is Kept:
                if self._buffers:
                    self._value = decoded(self._buffers)
                else:
                    self._value = self._call.executor._fetch(self._call.number, self.rank)
            return self._value
        except KeyboardInterrupt:
            self._call.executor._interrupt()
            raise

    def cancel(self) -> bool:
        """Cancel the call on this rank, also while it runs; return whether it was cancelled.

        Other ranks that wait for this one get an error of the communicator.
        """
        if self._end_cancelled():
            self._call.executor._cancel(self._call.number, self.rank)
        return self.cancelled()

    def _end(self, buffers: list[memoryview], error: BaseException | None = None) -> None:
        """End it with an encoded result, without one if that is on the rank, or with an error. Not if it was cancelled."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self._buffers = buffers
            if error is None:
                self.set_result(Kept)
            else:
                self.set_exception(error)

    def _end_cancelled(self) -> bool:
        """End it as cancelled; return whether it had not ended before."""
        if self.done() or not super().cancel():
            return False
        with contextlib.suppress(RuntimeError):  # another thread has done it
            self.set_running_or_notify_cancel()
        return True

    def __await__(self) -> Generator[Any, None, Any]:
        yield from asyncio.wrap_future(self).__await__()
        return self.result()

    def __repr__(self) -> str:
        return f"<RankFuture of rank {self.rank}: {_state(self)}>"


def _state(future: RankFuture) -> str:
    if future.cancelled():
        return "cancelled"
    if not future.done():
        return "running"
    return "failed" if future.exception() else "done"


class RankFutures(Sequence[RankFuture]):
    """The futures of a call, by rank.

    As an argument of a later call of the same executor, it becomes the rank's own result, which is not sent anywhere.
    """

    def __init__(self, call: Call, futures: list[RankFuture]) -> None:
        self._call, self._futures = call, futures

    @overload
    def __getitem__(self, index: int) -> RankFuture: ...
    @overload
    def __getitem__(self, index: slice) -> list[RankFuture]: ...
    def __getitem__(self, index: int | slice) -> RankFuture | list[RankFuture]:
        return self._futures[index]

    def __len__(self) -> int:
        return len(self._futures)

    def __iter__(self) -> Iterator[RankFuture]:
        return iter(self._futures)

    def results(self, timeout: float | None = None) -> list[Any]:
        """Return the results of all ranks, by rank.

        Parameters
        ----------
        timeout
            Seconds to wait; by default without end.

        Raises
        ------
        Exception
            The exception of the rank that failed first, with the tracebacks of all ranks that failed.
        TimeoutError
            If the call does not end in time; it is not cancelled.
        concurrent.futures.CancelledError
            If it was cancelled.
        """
        self.wait(timeout)
        self._raise_first()
        return [future.result() for future in self._futures]

    def wait(self, timeout: float | None = None) -> None:
        """Return when the call has ended on all ranks, or, if one has failed, a second later at most.

        Raises
        ------
        TimeoutError
            If it does not end in time.
        """
        try:
            left = _wait(self._futures, timeout)
            if left and not any(future.done() and _failed(future) for future in self._futures):
                raise TimeoutError(f"the call has not ended on {len(left)} of {len(self)} ranks after {timeout:g} s")
            if left:
                concurrent.futures.wait(left, _GRACE)
        except KeyboardInterrupt:
            self._call.executor._interrupt()
            raise

    def _raise_first(self) -> None:
        failed = [future for future in self._futures if future.done() and not future.cancelled() and future.exception()]
        if not failed:
            return
        first = min(failed, key=lambda future: future._place)
        error = first.exception()
        assert error is not None
        if not getattr(error, "__notes__", None):
            error.add_note(f"This is the error of rank {first.rank} of {len(self)}.")
            for other in failed:
                if other is not first:
                    error.add_note(_described(other))
        raise error

    def exceptions(self, timeout: float | None = None) -> list[BaseException | None]:
        """Return the exception of each rank's call, or None; waits until the call has ended on all ranks.

        Raises
        ------
        TimeoutError
            If it does not end in time.
        """
        until = None if timeout is None else time.monotonic() + timeout
        return [one.exception(None if until is None else max(until - time.monotonic(), 0.0)) for one in self._futures]

    def done(self) -> bool:
        """Whether the call has ended on all ranks."""
        return all(future.done() for future in self._futures)

    def cancel(self) -> bool:
        """Cancel the call on all ranks; return whether it was cancelled on any."""
        cancelled = [future.cancel() for future in self._futures]
        return any(cancelled)

    def __reduce__(self) -> Any:
        return kept_result, (self._call.executor.token, self._call.number)

    def __repr__(self) -> str:
        return f"<RankFutures: {', '.join(f'{one.rank} {_state(one)}' for one in self._futures)}>"


def _wait(futures: Sequence[RankFuture], timeout: float | None) -> set[concurrent.futures.Future[Any]]:
    """Wait until futures are done, or one has failed; return those that are not done.

    It wakes up now and then, because some libraries set up Ctrl-C so that it does not interrupt waiting.
    """
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _SLICE if until is None else min(until - time.monotonic(), _SLICE)
        done, waiting = concurrent.futures.wait(futures, max(left, 0), concurrent.futures.FIRST_EXCEPTION)
        given_up = done.union(waiting).difference(futures)  # the executor goes on with fewer ranks
        if not waiting - given_up or any(_failed(one) for one in done - given_up) or left <= 0:
            return waiting - given_up


def _failed(future: concurrent.futures.Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def _described(future: RankFuture) -> str:
    error = future.exception()
    cause = error.__cause__ if error is not None else None
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause if cause is not None else error).strip()
    return f"Rank {future.rank}: {text}"
