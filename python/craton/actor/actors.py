"""The base classes of actors: `Actor` handles one call at a time, `StatelessActor` handles calls concurrently."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from types import FunctionType, GeneratorType
from typing import Any, TypeVar

from craton.actor import debug
from craton.actor.errors import Return
from craton.actor.refs import ActorRef, make_ref

_F = TypeVar("_F", bound=Callable[..., Any])

_NO_LOCK = "__craton_no_lock__"
_NOT_PLAIN = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_FINAL, _PERHAPS = frozenset({type(None), bool, int, float, str, bytes, list, dict}), (tuple, GeneratorType)
# A cache of `is_plain`: class -> method name -> result.
_plain: weakref.WeakKeyDictionary[type, dict[str, bool]] = weakref.WeakKeyDictionary()


def no_lock(method: _F) -> _F:
    """Let a method of an `Actor` run without the actor's lock, concurrently with other methods."""
    setattr(method, _NO_LOCK, True)
    return method


def in_thread(method: _F) -> _F:
    """Run a plain method in a thread, so that it does not block the event loop and the pool's other actors.

    The actor stays locked while the method runs. A cancelled call ends immediately, but if its thread has started, the
    actor stays locked until the thread ends.
    """

    @functools.wraps(method)
    async def threaded(self: Any, *args: Any, **kwargs: Any) -> Any:
        started = cancelled = False

        def run() -> Any:
            nonlocal started
            started = True
            return None if cancelled else method(self, *args, **kwargs)

        thread = asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, run)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            cancelled = True
            if started and self._turn is not None and not getattr(threaded, _NO_LOCK, False):
                self._turn.held_until(thread)
            raise

    return threaded  # type: ignore[return-value]


class Turn:
    """An actor's lock. It is fair: a released lock passes to the call that has waited longest.

    A call acquires the lock with a `Ticket`, which fixes the call's place in the queue when it is taken.
    """

    __slots__ = ("_held", "_held_until", "_waiting")

    def __init__(self) -> None:
        self._held = False
        self._held_until: asyncio.Future[Any] | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> bool:
        """Whether the lock is not held."""
        return not self._held

    def __len__(self) -> int:
        """Return the number of calls that wait."""
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True

    def ticket(self) -> Ticket:
        """Take a place in the queue. A free lock is acquired immediately."""
        if not self._held:
            self._held = True
            return Ticket(self, None)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return Ticket(self, future)

    def held_until(self, end: asyncio.Future[Any]) -> None:
        """Delay the release of the lock until ``end`` is done, even if the holder releases it earlier."""
        self._held_until = end

    def _withdraw(self, future: asyncio.Future[None]) -> None:
        future.cancel()
        with contextlib.suppress(ValueError):
            self._waiting.remove(future)

    def _release(self) -> None:
        until, self._held_until = self._held_until, None
        if until is not None and not until.done():
            until.add_done_callback(lambda _: self._release())
            return
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return
        self._held = False


class Ticket:
    """A place in the queue for a `Turn`: ``async with`` waits for the lock, holds it, and releases it."""

    __slots__ = ("_future", "_turn")

    def __init__(self, turn: Turn, future: asyncio.Future[None] | None) -> None:
        self._turn: Turn | None = turn
        self._future = future

    async def __aenter__(self) -> None:
        if self._future is not None:
            try:
                await self._future
            except asyncio.CancelledError:
                self.release()
                raise

    async def __aexit__(self, *_error: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock, or leave the queue if it was not acquired yet; later calls do nothing."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if self._future is None or (self._future.done() and not self._future.cancelled()):
            turn._release()
        else:
            turn._withdraw(self._future)


class BaseActor:
    """The base of `Actor` and `StatelessActor`.

    Attributes
    ----------
    uid : bytes
        The actor's name in its pool.
    address : str
        The pool's address.
    """

    _turn: Turn | None
    uid: Any
    address: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        actor = super().__new__(cls)
        actor._turn = Turn() if cls._takes_turns else None
        actor._streams = {}
        actor._plain = _plain.setdefault(cls, {})
        return actor

    _takes_turns = True
    _streams: dict[str, Any]
    _plain: dict[str, bool]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    @classmethod
    def default_uid(cls) -> str:
        """Return the name of the class: a uid for classes that have one actor only."""
        return cls.__name__

    @property
    def _generators(self) -> dict[str, Any]:
        """The open streams, by name."""
        return self._streams

    def ref(self) -> ActorRef:
        """Return a reference to this actor."""
        return make_ref(self.address, self.uid)

    async def __post_create__(self) -> None:
        """Run when the actor has been created, before its first call."""

    async def __pre_destroy__(self) -> None:
        """Run before the actor is destroyed."""

    async def __on_receive__(self, message: tuple[Any, ...]) -> Any:
        """Handle a message, ``(method, batched, args, kwargs)``; may be overridden.

        Returns
        -------
        object
            The result for the caller.
        """
        return await self.receive(*message)

    async def receive(self, method: str, batched: int, args: Any, kwargs: Any, ticket: Ticket | None = None) -> Any:
        """Call a method while holding the actor's lock, and return its final result; see `finish`."""
        found = getattr(self, method)
        if ticket is None:
            ticket = self.ticket(method)
        if batched:
            many, keywords = args
            found, args, kwargs = found.call_with_lists, (many, keywords or [{}] * len(many)), {}
        if ticket is None:
            result = found(*args, **kwargs)
            if isinstance(result, Coroutine):
                result = await result
        else:
            async with ticket if debug._options is None else debug.WatchedTicket(ticket, self._turn, method, self.uid):
                result = found(*args, **kwargs)
                if isinstance(result, Coroutine):
                    result = await result
        return result if is_final(result) else await self.finish(result)

    async def finish_call(self, result: Any, ticket: Ticket | None) -> Any:
        """Do the rest of `receive` for a method that was called already; its coroutine runs under ``ticket``."""
        if isinstance(result, Coroutine):
            async with contextlib.nullcontext() if ticket is None else ticket:
                result = await result
        return await self.finish(result)

    def ticket(self, method: str) -> Ticket | None:
        """Return a place in the queue for the actor's lock; None if the method runs without the lock."""
        turn = self._turn
        return None if turn is None or getattr(getattr(self, method, None), _NO_LOCK, False) else turn.ticket()

    async def finish(self, result: Any) -> Any:
        """Await the awaitables and async generators that a method returned, also those in a returned tuple.

        They run without the actor's lock, except that each step of a generator acquires it.
        """
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncGenerator):
            return await self._steps(result)
        if type(result) is not tuple:
            return result
        waiting = [
            (place, self._steps(item) if isinstance(item, AsyncGenerator) else _awaited(item))
            for place, item in enumerate(result)
            if isinstance(item, AsyncGenerator) or inspect.isawaitable(item)
        ]
        if not waiting:
            return result
        values = list(result)
        if len(waiting) == 1:
            values[waiting[0][0]] = await waiting[0][1]
            return tuple(values)
        tasks = [asyncio.ensure_future(item) for _, item in waiting]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        finally:
            # Only one error is raised. Retrieving the others keeps asyncio from warning about them.
            _ = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        for (place, _), task in zip(waiting, tasks, strict=True):
            values[place] = task.result()
        return tuple(values)

    async def _steps(self, generator: AsyncGenerator[Any, Any]) -> Any:
        turn = self._turn
        result: Any = None
        error: BaseException | None = None
        started = inside = False
        try:
            while True:
                async with contextlib.nullcontext() if turn is None else turn.ticket():
                    started = inside = True
                    result = await (generator.asend(result) if error is None else generator.athrow(error))
                inside = False
                try:
                    if debug._options is None:
                        result, error = await self.finish(result), None
                    else:
                        with debug.untracked():
                            result, error = await self.finish(result), None
                except BaseException as met:
                    error = met
        except Return as returned:
            return returned.value
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if started and not inside:
                # Cancelled while it waited for the lock. The generator's cleanup needs the lock too, so it runs in a task of
                # its own, and the caller does not wait for it.
                task = asyncio.ensure_future(self._end(generator))
                _ending.add(task)
                task.add_done_callback(_ending.discard)
            raise
        finally:
            error = None  # break the reference cycle between the exception and this frame

    async def _end(self, generator: AsyncGenerator[Any, Any]) -> None:
        async with contextlib.nullcontext() if self._turn is None else self._turn.ticket():
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration, Return):
                await generator.athrow(asyncio.CancelledError())
                await generator.aclose()


_ending: set[asyncio.Task[None]] = set()


async def _awaited(item: Awaitable[Any]) -> Any:
    return await item


class Actor(BaseActor):
    """An object in a pool that handles one call at a time.

    Its methods may be plain or ``async``. A method that is an async generator releases the actor's lock while the pool
    awaits what it yielded, and returns a value by ``raise Return(value)``.
    """


class StatelessActor(BaseActor):
    """An object in a pool that handles calls concurrently."""

    _takes_turns = False


def receives_plainly(kind: type) -> bool:
    """Whether an actor class does not override ``__on_receive__``, so that messages go directly to its methods."""
    return kind.__on_receive__ is BaseActor.__on_receive__  # type: ignore[attr-defined]


def is_plain(kind: type, name: str) -> bool:
    """Whether a method can be called synchronously when its message is read: it is a plain function of the class."""
    found = getattr(kind, name, None)
    return type(found) is FunctionType and not found.__code__.co_flags & _NOT_PLAIN and receives_plainly(kind)


def is_final(result: Any) -> bool:
    """Whether the result of a method contains nothing to await; see `BaseActor.finish`."""
    kind = type(result)
    return kind in _FINAL or not (kind in _PERHAPS or hasattr(kind, "__await__") or hasattr(kind, "__aiter__"))
