"""Executors: ranks that start together, keep their state between calls, and communicate directly."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from craton.cluster.sessions import current
from craton.comm.errors import RankFailed
from craton.config import options, parse_bytes
from craton.serialize.changes import unchanging
from craton.spmd.checkpoints import CheckpointFolder
from craton.spmd.errors import ExecutorClosed, ResultLost
from craton.spmd.futures import Call, RankFuture, RankFutures
from craton.spmd.gang import Gang
from craton.spmd.messages import decoded, encoded, error_of
from craton.spmd.objects import RankObjects
from craton.spmd.placing import machine_of, places_for
from craton.spmd.requests import Requests
from craton.store.objects import Ref, get, put

__all__ = ["Executor"]

#: Seconds that ranks have to stop their calls after Ctrl-C, before the executor is closed.
_STOPS = 0.7
#: Seconds that ranks may take to connect to each other.
_CONNECTS = 60.0
#: Bytes of arguments from which they go through the store.
_BY_STORE = 1 << 20

_numbers = iter(range(1, sys.maxsize))
_executors: weakref.WeakSet[Executor] = weakref.WeakSet()


class Executor:
    """Ranks: processes that start together on the machines of the current session, and run the same calls.

    Each rank is a process of its own, not a worker of the session, so executors and queries do not wait for each other. The ranks
    end with the executor, with the session, and with the program, also if that is killed.

    Calls are made one after another: a rank that has ended a call waits until all have. If a rank's call raises, the communicator is
    aborted, so that no other rank waits for it; it is connected again before the next call. Ctrl-C cancels the calls on all ranks.
    The executor can be used afterwards, unless a rank has not stopped within 0.7 s: then it is closed.

    Parameters
    ----------
    parallelism
        The number of ranks.
    communicator
        How ranks communicate: ``"own"``, or the name of another communicator (see `craton.comm`).
    memory
        Bytes that plans in all ranks may use together, as a number or as text such as ``"2GiB"``; by default Craton's memory limit.
        Each rank has an equal share.
    max_restarts
        How often all ranks are started again when one has died. The call that ran is made again then, with what the ranks passed to
        the last complete checkpoint in `env.restored`. Objects are made again by their constructors; other results of earlier calls
        are lost.
    min_parallelism
        The fewest ranks to go on with if not all can be started again, for example after the loss of a machine; by default
        `parallelism`. The futures of ranks that are given up then raise RankFailed.
    checkpoints
        A folder in which the last complete checkpoint is kept, too. An executor of a later program begins with it, whatever
        number of ranks it has. By default checkpoints end with the executor.
    name
        A name for messages and the log; by default ``"spmd-1"`` and so on.
    seed
        The seed of the ranks' random generators.

    Attributes
    ----------
    parallelism : int
        The number of ranks.
    name : str
        The name.

    Raises
    ------
    ValueError
        If `parallelism` is less than 1, `min_parallelism` is greater, the communicator is unknown, or the checkpoint is damaged.
    OSError
        If the folder of checkpoints cannot be used.
    ModuleNotFoundError
        If the communicator needs a package that is not installed.
    RuntimeError
        If the ranks cannot be started.

    Examples
    --------
    >>> from craton.spmd import Executor
    >>> def total(number, env):
    ...     return env.comm.allreduce(number * env.rank)
    >>> with Executor(2) as ex:
    ...     ex.run(total, 10).results()
    [10, 10]
    """

    def __init__(
        self,
        parallelism: int = 4,
        *,
        communicator: str = "own",
        memory: int | str | None = None,
        max_restarts: int = 0,
        min_parallelism: int | None = None,
        checkpoints: str | os.PathLike[str] | None = None,
        name: str | None = None,
        seed: int = 0,
    ) -> None:
        self._closed: str | None = "the executor has not been started"
        least_ranks = parallelism if min_parallelism is None else min_parallelism
        numbers: tuple[tuple[str, Any, int], ...] = (
            ("parallelism", parallelism, 1),
            ("max_restarts", max_restarts, 0),
            ("min_parallelism", least_ranks, 1),
        )
        for what, number, least in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ValueError(f"{what} must be an integer of at least {least}, not {number!r}")
        if least_ranks > parallelism:
            raise ValueError(f"min_parallelism must be at most {parallelism}, the parallelism, not {least_ranks}")
        self.parallelism, self.name = parallelism, name or f"spmd-{next(_numbers)}"
        self.token = secrets.token_hex(8)
        limit = parse_bytes(memory) if isinstance(memory, str) else memory
        self._memory = max((limit or options.memory_limit) // parallelism, 1)
        self._communicator, self._seed = communicator, seed
        self._restarts_left, self._least_ranks = max_restarts, least_ranks
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._calls: deque[Call] = deque()
        self._number = 0
        self._broken = False  # whether the communicator must be connected again before the next call
        self._bound: dict[int, bytes] = {}
        self._started: weakref.WeakValueDictionary[int, Call] = weakref.WeakValueDictionary()
        self._latest: RankObjects | None = None
        self._gang: Gang | None = None
        self._connected: set[int] = set()
        self._failure: BaseException | None = None
        self._session = current()
        self._pid = os.getpid()
        folder = None if checkpoints is None else CheckpointFolder(checkpoints)
        try:
            self._requests = Requests(self.token, parallelism, folder)
            self._places = places_for(self._session, parallelism)
            self._start_gang()
        except BaseException:
            if folder is not None:
                folder.close()
            raise
        self._closed = None
        _executors.add(self)
        atexit.unregister(_end_all)
        atexit.register(_end_all)  # last, so that it runs before the exit handlers of servers and of the session
        if self._session is not None:
            self._session.at_end(partial(_end, weakref.ref(self)))

    # ---- calls ----

    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> RankFutures:
        """Call a function on each rank.

        Parameters
        ----------
        fn
            The function. A parameter `env` gets the rank's :class:`Environment`. It and the arguments are pickled immediately, by
            value if the ranks cannot import them.
        *args, **kwargs
            The arguments, the same for all ranks, except that the futures of an earlier call become each rank's own result.

        Returns
        -------
        RankFutures
            A future for each rank. Large results stay on the ranks until they are fetched.

        Raises
        ------
        ExecutorClosed
            If the executor has been shut down.
        Exception
            Any exception of pickling.
        """
        return self._submit("run", 0, fn, args, kwargs)

    def start(self, cls: Callable[..., Any], /, *args: Any, **kwargs: Any) -> RankObjects:
        """Make an object on each rank, and return when that is done.

        Parameters
        ----------
        cls
            Its class. A parameter `env` of the constructor gets the rank's :class:`Environment`.
        *args, **kwargs
            The arguments of the constructor.

        Returns
        -------
        RankObjects
            The objects. They live as long as this does; the latest ones live as long as the executor.

        Raises
        ------
        Exception
            The exception of the constructor that failed first, or any of pickling.
        """
        made = self._submit("start", 0, cls, args, kwargs)
        made.results()
        objects = RankObjects(self, made)
        with self._lock:
            self._started[made._call.number] = made._call
            self._latest = objects
        return objects

    def execute(self, method: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> RankFutures:
        """Call a method on each rank's object that the last :meth:`start` made.

        Parameters
        ----------
        method
            The name of a method; or a function, such as ``Trainer.step``, which gets the object as its first argument.
        *args, **kwargs
            The other arguments.

        Raises
        ------
        RuntimeError
            If :meth:`start` has not been called.
        """
        if self._latest is None:
            raise RuntimeError("there are no objects on the ranks yet: call start(cls, …) first")
        return self._latest.execute(method, *args, **kwargs)

    def _submit(self, kind: str, on: int, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RankFutures:
        buffers = encoded((fn, args, kwargs))
        if self._shares_store and sum(map(len, buffers)) >= _BY_STORE:
            kept = put((fn, args, kwargs))
            buffers = encoded(kept)
        else:  # the call may be made later, and again
            kept, buffers = None, unchanging(buffers)
        with self._lock:
            self._check()
            self._number += 1
            call = Call(self, self._number, ("call", self._number, kind, on), buffers)
            call.kept, call.given = kept, (args, kwargs)
            futures = [RankFuture(call, rank) for rank in range(self.parallelism)]
            call.active = futures
            self._calls.append(call)
            if len(self._calls) == 1:
                self._dispatch()
        return RankFutures(call, futures)

    def _check(self) -> None:
        if self._closed is None and self._pid != os.getpid():
            raise ExecutorClosed("the executor belongs to the process that this one was forked from")
        if self._closed is not None:
            raise ExecutorClosed(self._closed)

    def _dispatch(self) -> None:
        """Send the next call to the ranks, after connecting them again if necessary; called with the lock."""
        gang = self._gang
        if not self._calls or gang is None or self._restarting:
            self._idle.notify_all()
            return
        if self._broken:
            self._broken = False
            self._bound.clear()
            self._connected.clear()
            for rank in range(self.parallelism):
                gang.send(rank, ("bind",))
            return  # continues when all have answered
        call = self._calls[0]
        call.pending = set(range(self.parallelism))
        for rank in range(self.parallelism):
            gang.send(rank, call.said, call.buffers)

    # ---- what ranks say, in the thread of the gang ----

    def take(self, gang: Gang, rank: int, said: tuple[Any, ...], buffers: list[memoryview]) -> None:
        """Take a message of a rank; see :class:`craton.spmd.gang.Listener`."""
        kind = said[0]
        if self._gang is not None and gang is not self._gang:
            return
        if kind == "done":
            self._done(rank, said[1], said[2], buffers)
        elif kind == "bound":
            self._take_address(gang, rank, bytes(buffers[0]))
        elif kind == "connected":
            with self._lock:
                self._connected.add(rank)
                if len(self._connected) == self.parallelism:
                    self._idle.notify_all()
                    self._dispatch()
        elif kind == "unusable":
            error = error_of(buffers)
            if self._starting and isinstance(error, (ValueError, ModuleNotFoundError)):  # an unknown communicator
                with self._lock:
                    self._failure = error
                    self._idle.notify_all()
            else:
                self.lost(gang, rank, f"it cannot be used: {error}")
        else:
            self._requests.take(gang, rank, said, buffers)

    def _take_address(self, gang: Gang, rank: int, address: bytes) -> None:
        with self._lock:
            self._bound[rank] = address
            if len(self._bound) < self.parallelism:
                return
            addresses = [self._bound[number] for number in range(self.parallelism)]
        key = secrets.token_bytes(32)
        for number in range(self.parallelism):
            gang.send(number, ("connect", key), addresses)

    def _done(self, rank: int, number: int, how: str, buffers: list[memoryview]) -> None:
        with self._lock:
            call = self._calls[0] if self._calls else None
            if call is None or call.number != number or rank not in call.pending:
                return
            call.pending.discard(rank)
            ended = not call.pending
            future = call.active[rank]
            if how in ("error", "follows", "cancelled"):
                self._broken = True
                call.failures += 1
                future._place = (how == "follows", call.failures)
            # An error that follows from another one is not reported before it is known whether a rank has died; and if the ranks
            # may be started again, neither is a result, because the call is made again on all ranks then.
            call.held[rank] = (future, how, buffers)
            held = ("follows", "value", "kept") if self._restarts_left else ("follows",)
            ready = [each for each in call.held if ended or call.held[each][1] not in held]
            answers = [call.held.pop(each) for each in ready]
            if ended:
                self._calls.popleft()
                call.active, call.given = [], None
                self._dispatch()
        if ended and call.kept is not None:
            call.kept.drop()  # what the ranks have read stays valid
        for future, how, buffers in answers:
            if how == "cancelled":
                future._end_cancelled()
            elif how in ("value", "kept"):
                future._end(buffers)
            else:
                future._end([], error_of(buffers))

    def lost(self, gang: Gang, rank: int, reason: str) -> None:
        """Take note that a rank has ended; see :class:`craton.spmd.gang.Listener`."""
        if (self._gang is not None and gang is not self._gang) or (self._closed is not None and not self._starting):
            return
        error = RankFailed(rank, reason)
        with self._lock:
            self._failure = error
            self._idle.notify_all()
            if self._starting or self._restarting:
                return
            restart = self._restarting = self._restarts_left > 0
            self._restarts_left -= restart
        if restart:
            threading.Thread(target=self._restart, args=(gang, error), name="craton-spmd-restart", daemon=True).start()
        else:
            self._lose(str(error), error)

    def show(self, rank: int, stream: str, line: str) -> None:
        """Show a line of a rank's output; see :class:`craton.spmd.gang.Listener`."""
        target = getattr(sys, stream)
        if target is not None:
            with contextlib.suppress(OSError, ValueError):
                target.write(f"[rank {rank}] {line}\n")
                target.flush()

    def _lose(self, reason: str, error: BaseException) -> None:
        """Close the executor after an error: all calls that have not ended raise it."""
        self._close(f"{self.name} is closed, because {reason}", error)

    # ---- starts ----

    _starting, _restarting = True, False

    def _start_gang(self) -> None:
        """Start all ranks and connect them; return when that is done."""
        self._starting = True
        try:
            reference = weakref.ref(self)
            self._reset()
            self._gang = gang = Gang(self._places, reference)
            for rank, place in enumerate(self._places):
                given, buffers = self._setup(rank)
                gang.send(rank, ("setup", {**given, "local_rank": place.local_rank, "machine": place.machine}), buffers)
            with self._lock:
                self._idle.wait_for(
                    lambda: self._failure is not None or len(self._connected) == self.parallelism, _CONNECTS
                )
                failure = self._failure
                if failure is None and len(self._connected) < self.parallelism:
                    failure = TimeoutError(f"the ranks have not connected to each other within {_CONNECTS:g} s")
            if isinstance(failure, (ValueError, ModuleNotFoundError)):
                raise failure
            if failure is not None:
                raise RuntimeError(f"the ranks of {self.name} cannot be started: {failure}") from failure
        except BaseException:
            self._kill_gang()
            raise
        finally:
            self._starting = False

    def _kill_gang(self) -> None:
        with self._lock:
            gang, self._gang = self._gang, None
        if gang is not None:
            gang.kill()

    def _reset(self) -> None:
        self._bound.clear()
        self._connected.clear()
        self._failure, self._broken = None, False

    def _setup(self, rank: int) -> tuple[dict[str, Any], list[Any]]:
        """Return what a rank is set up with, and the state that it begins with."""
        place = self._places[rank]
        self._shares_store = not any(one.reach for one in self._places)
        variables = {
            "CRATON_CLUSTER": "embedded",
            "CRATON_MEMORY_LIMIT": str(self._memory),
            "CRATON_STORE": place.store,
        }
        given = {
            "executor": self.token,
            "name": self.name,
            "rank": rank,
            "world_size": self.parallelism,
            "host": place.host,
            "communicator": self._communicator,
            "seed": self._seed,
            "memory": self._memory,
            "marks": bool(place.reach),
            "shares_store": not place.reach,
            "keeps_variables": bool(place.reach),
            "variables": variables if place.reach else {**os.environ, **place.threads, **variables},
            "path": [os.path.abspath(entry) for entry in sys.path],
            "folder": os.getcwd(),
        }
        return given, self._requests.restored(rank)

    def _restart(self, gang: Gang, error: RankFailed) -> None:
        """Start all ranks again, make the objects again, and make the calls that have not ended."""
        gang.kill()
        with self._lock:
            if self._closed is not None or gang is not self._gang:
                return
            self._gang = None
            for call in self._calls:
                call.held.clear()
        self._requests.restarted()
        gone, without = machine_of(self._places, error.rank), -1
        while True:
            try:
                self._places = places_for(self._session, self.parallelism, without)
                self._start_gang()
                break
            except BaseException as failure:
                if self._restarts_left and isinstance(failure.__cause__, RankFailed):  # a rank has died again
                    self._restarts_left -= 1
                    continue
                if self.parallelism > self._least_ranks and self._closed is None:
                    (without, ranks), gone = gone or (without, 1), None
                    self._give_up_ranks(min(ranks, self.parallelism - self._least_ranks), error)
                    continue
                self._lose(f"{error}, and its ranks could not be started again: {failure}", error)
                return
        if self.closed:  # it was shut down in the meantime
            self._kill_gang()
            return
        with self._lock:
            for call in sorted(self._started.values(), key=lambda one: one.number, reverse=True):
                self._calls.appendleft(call.again())
            self._restarting = False
            self._dispatch()

    def _give_up_ranks(self, count: int, error: RankFailed) -> None:
        """Go on with fewer ranks."""
        with self._lock:
            self.parallelism -= count
            given_up = [future for call in self._calls for future in call.active[self.parallelism :]]
            for call in self._calls:
                del call.active[self.parallelism :]
        self._requests.resize(self.parallelism)
        for future in given_up:
            future._end(
                [], RankFailed(future.rank, f"the executor goes on with {self.parallelism} ranks, because {error}")
            )

    # ---- results ----

    def _fetch(self, number: int, rank: int) -> Any:
        """Fetch a result that is on its rank."""
        gang = self._gang
        if gang is None:
            raise ResultLost(
                f"the result of rank {rank} was on its process, which has ended; fetch results before that"
            )
        request, answer, buffers = self._requests.fetch(gang, rank, number)
        if answer == "error":
            raise error_of(buffers)
        value = decoded(buffers)
        if answer == "store":
            ref: Ref = value
            value = get(ref)
            gang.send(rank, ("fetched", request))
        return value

    def _release(self, number: int, is_object: bool) -> None:
        """Release the results of a call, soon: this is called by the garbage collector, in any thread, under any lock."""
        gang = self._gang
        if gang is not None and self._closed is None and self._pid == os.getpid():
            gang.send_soon(("drop_object" if is_object else "release", number))

    # ---- ends ----

    def _cancel(self, number: int, rank: int) -> None:
        gang = self._gang
        if gang is not None:
            gang.send(rank, ("cancel", number))

    def _interrupt(self) -> None:
        """Cancel all calls; if a rank does not stop its call in time, close the executor."""
        with self._lock:
            calls = list(self._calls)
            futures = [future for call in calls for future in call.active]
        for future in futures:
            future.cancel()
        with self._lock:
            stopped = self._idle.wait_for(lambda: self._closed is not None or not self._calls, _STOPS)
        if not stopped:
            self._close(f"{self.name} is closed, because a rank did not stop within {_STOPS} s of an interrupt", None)

    def shutdown(self) -> None:
        """End the ranks, and cancel calls that have not ended. Further calls do nothing."""
        self._close(f"{self.name} has been shut down", None)

    def _close(self, reason: str, error: BaseException | None) -> None:
        with self._lock:
            if self._closed is not None:
                return
            self._closed = reason
            calls, self._calls = list(self._calls), deque()
            gang, self._gang = self._gang, None
            self._idle.notify_all()
        if self._pid != os.getpid():
            return
        self._requests.leave_folder()  # first: who learns that this executor has ended may start another one there
        for call in calls:
            for future in call.active:
                if error is not None:
                    future._end([], error)
                else:
                    future._end_cancelled()
            call.active = []
        if gang is not None:
            (gang.end if error is None and not calls else gang.kill)()
        self._requests.close(reason)

    @property
    def closed(self) -> bool:
        """Whether the executor has ended."""
        return self._closed is not None or self._pid != os.getpid()

    @property
    def pids(self) -> list[int]:
        """The numbers of the ranks' processes, by rank; empty if the executor has ended."""
        return [] if self._gang is None else self._gang.pids

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.shutdown()

    def __repr__(self) -> str:
        how = "closed" if self.closed else f"{self.parallelism} rank{'s' * (self.parallelism != 1)}"
        return f"<Executor {self.name}: {how}>"


def _end_all() -> None:
    for executor in list(_executors):
        executor.shutdown()


def _end(reference: weakref.ref[Executor]) -> None:
    if (executor := reference()) is not None:
        executor.shutdown()
