"""Streams: the caller of a generator method, in any process, reads its items one by one.

```python
class Worker(Actor):
    @generator
    async def words(self, text):
        for word in text.split():
            yield word


async for word in await ref.words("a b c"):
    ...
```

The generator stays with its actor and advances only when the reader requests an item, while holding the actor's lock; a
plain generator runs in a thread. The caller gets a `Stream`, which can be passed to other processes. The generator is
closed when the stream is exhausted, closed or garbage-collected, or when the reader disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import secrets
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import AsyncGeneratorType, GeneratorType
from typing import Any, TypeVar, overload

from craton.actor.actors import Turn
from craton.actor.errors import ActorError, ActorNotExist
from craton.actor.pool.base import request_handler
from craton.actor.pools import local_pool
from craton.actor.wire import frames
from craton.actor.wire.link import Link
from craton.actor.wire.peers import ASK, Peers, ask_pool
from craton.serialize.snapshots import taken_from

__all__ = ["Stream", "generator"]

_F = TypeVar("_F", bound=Callable[..., Any])

_END = object()
# Seconds that a plain generator may run in its thread before the items that it made so far are sent.
_SLICE = 0.001


@overload
def generator(function: _F) -> _F: ...
@overload
def generator(*, ahead: int = ...) -> Callable[[_F], _F]: ...
def generator(function: Any = None, *, ahead: int = 0) -> Any:
    """Let a method return a `Stream` in place of a generator.

    Parameters
    ----------
    function : callable
        A plain or an async generator function; or a plain or ``async`` function that returns a generator, or any other
        value, which is returned unchanged. Plain functions and generators run in threads.
    ahead : int
        Number of items that the generator may prefetch, which are then sent together. With 0, the default, it runs only
        while a reader waits for its next item.

    Raises
    ------
    ValueError
        ``ahead`` is negative.
    """
    if ahead < 0:
        raise ValueError(f"a generator cannot be {ahead} items ahead; `ahead` must be 0 or more")
    if function is None:
        return functools.partial(generator, ahead=ahead)
    makes_generators = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    blocks = not makes_generators and not inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    async def streaming(self: Any, *args: Any, **kwargs: Any) -> Any:
        if blocks:
            found = await asyncio.to_thread(function, self, *args, **kwargs)
        else:
            found = function(self, *args, **kwargs)
            if not makes_generators:
                found = await found
        if not isinstance(found, (GeneratorType, AsyncGeneratorType)):
            return found
        # The name is random, so that a recreated actor never confuses a stream of its predecessor with its own.
        name = f"{function.__name__}-{secrets.token_hex(8)}"
        self._streams[name] = Source(self, name, found, ahead)
        return Stream(self.address, self.uid, name)

    return streaming


class Stream(AsyncIterator[Any]):
    """An async iterator over the items that a generator of an actor yields.

    Pickling a stream transfers it: the copy has the items that were fetched and not read yet, and owns the generator
    from then on. The generator is closed when its owner is closed or garbage-collected, when a reader is cancelled
    while it waits for an item, as with any async generator, and when the owner's process ends.
    """

    __slots__ = ("__weakref__", "_address", "_items", "_loop", "_name", "_over", "_owner", "_uid")

    def __init__(
        self, address: str, uid: bytes, name: str, items: tuple[Any, ...] = (), over: bool = False, handed: bool = False
    ) -> None:
        self._over, self._owner = over, not over
        self._address, self._uid, self._name = address, uid, name
        self._items = deque(items)
        self._loop: asyncio.AbstractEventLoop | None = asyncio._get_running_loop()
        if handed and not over and self._loop is not None and local_pool(address) is None:
            _tell(address, "hold stream", (uid, name))

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        while not self._items:
            if self._over:
                raise StopAsyncIteration
            await self._fetch()
        return self._items.popleft()

    async def _fetch(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            items = await ask_pool(self._address, "next of stream", (self._uid, self._name))
        except BaseException as error:
            if self._over and isinstance(error, ActorError):
                return  # another reader of this same object has exhausted the stream
            # After an error nothing more is read, so the generator must not be kept.
            self._release()
            raise
        if items is None:
            self._over, self._owner = True, False
        else:
            self._items.extend(items)

    async def aclose(self) -> None:
        """Close the generator, and wait until its cleanup has run."""
        self._items.clear()
        if not self._over:
            self._over, self._owner = True, False
            await ask_pool(self._address, "close stream", (self._uid, self._name))

    destroy = aclose

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        self._owner = False
        pool = local_pool(self._address)
        link = frames.sending_link.get()
        source = None if pool is None or link is None else _find(pool, self._uid, self._name)
        if source is not None:
            source.bind_to(link)
        return Stream, (self._address, self._uid, self._name, tuple(self._items), self._over, pool is None)

    def __del__(self) -> None:
        if self._owner and not sys.is_finalizing():
            self._release()

    def _release(self) -> None:
        # Called from any thread (`__del__`), and does not wait. If the loop ends first, its connections close, and the
        # actor's side closes the generator then.
        loop, owner = self._loop, self._owner
        self._over, self._owner = True, False
        if owner and loop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_close_soon, self._address, self._uid, self._name)

    def __repr__(self) -> str:
        return f"Stream({self._name!r} of actor {self._uid!r} at {self._address!r}{', ended' * self._over})"


def _close_soon(address: str, uid: bytes, name: str) -> None:
    pool = local_pool(address)
    if pool is None:
        _tell(address, "close stream", (uid, name))
        return
    source = _take(pool, uid, name)
    if source is not None:
        pool.spawn(source.close())


def _tell(address: str, what: str, value: Any) -> None:
    peers = Peers.here()
    peer = peers.known(address)
    if peer is not None:
        peer.send(ASK, (what,), value)
    else:
        peers.spawn(_tell_later(address, what, value))


async def _tell_later(address: str, what: str, value: Any) -> None:
    with contextlib.suppress(ConnectionError):
        (await Peers.here().get(address)).send(ASK, (what,), value)


class Source:
    """The actor's side of a stream.

    Parameters
    ----------
    actor : BaseActor
        The actor that the generator belongs to.
    name : str
        The stream's name.
    items : generator or async generator
        The generator.
    ahead : int
        Number of items that may be prefetched.
    """

    def __init__(
        self, actor: Any, name: str, items: GeneratorType[Any, Any, Any] | AsyncGeneratorType[Any, Any], ahead: int
    ) -> None:
        self._actor, self._name, self._items, self.ahead = actor, name, items, ahead
        self._link: Link | None = None
        self._own = Turn()
        self._closed = False
        self._running: asyncio.Task[Any] | None = None
        self._thread: asyncio.Future[Any] | None = None
        # State of prefetching: the task, the items, and how the generator ended.
        self._filling: asyncio.Task[None] | None = None
        self._ready: deque[Any] = deque()
        self._over = False
        self._error: Exception | None = None
        self._news, self._room = asyncio.Event(), asyncio.Event()

    def bind_to(self, link: Link | None) -> None:
        """Close the stream when this connection ends, and only this one: the current reader's."""
        if self._link is not None:
            self._link.dependents.discard(self)
        self._link = link
        if link is not None and not self._closed:
            link.dependents.add(self)
            if link.closed:
                self.on_disconnect(link)

    def on_disconnect(self, link: Link) -> None:
        """Close the generator, because its reader has disconnected."""
        pool = local_pool(self._actor.address)
        if pool is not None and self._link is link and _take(pool, self._actor.uid, self._name) is not None:
            pool.spawn(self.close())

    async def next(self, pool: Any) -> list[Any] | None:
        """Return the next items, at least one, or None at the end; raise the exception that the generator raised."""
        if not self.ahead:
            items, _, error = await self._advance(1)
            if error is not None:
                try:
                    raise error
                finally:
                    del error
            return items or None
        if self._filling is None:
            self._filling = pool.spawn(self._fill())
        while not self._ready and not self._over:
            self._news.clear()
            await self._news.wait()
        items = list(self._ready)
        self._ready.clear()
        self._room.set()
        if not items and self._error is not None:
            raise self._error
        return items or None

    async def _fill(self) -> None:
        try:
            while not self._over:
                while len(self._ready) >= self.ahead:
                    self._room.clear()
                    await self._room.wait()
                items, over, self._error = await self._advance(self.ahead - len(self._ready))
                self._ready.extend(items)
                self._over = over
                self._news.set()
        except Exception as error:
            self._error = error
        finally:
            self._over = True
            self._news.set()

    async def _advance(self, most: int) -> tuple[list[Any], bool, Any]:
        # Under the actor's lock; the stream's own lock serialises the steps for stateless actors, which have none.
        async with self._turn(), self._own.ticket():
            if self._closed:
                return [], True, None
            task = self._running = asyncio.current_task()
            assert task is not None
            try:
                if isinstance(self._items, GeneratorType):
                    return await self._in_thread(_some, self._items, most, self.ahead > 0)
                item = await anext(self._items, _END)
            except asyncio.CancelledError:
                if self._is_closed() and not task.uncancel():
                    return [], True, None
                raise
            except Exception as error:
                return [], True, error
            finally:
                self._running = None
        if item is _END or self._is_closed():
            return [], True, None
        found = [await item if inspect.isawaitable(item) else item]
        del item
        return [taken_from(found)] if self.ahead else found, False, None

    def _is_closed(self) -> bool:
        return self._closed

    def _turn(self) -> Any:
        turn = self._actor._turn
        return contextlib.nullcontext() if turn is None else turn.ticket()

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        context = contextvars.copy_context()
        self._thread = asyncio.get_running_loop().run_in_executor(None, context.run, function, *args)
        return await asyncio.shield(self._thread)  # a thread cannot be cancelled

    async def close(self, in_turn: bool = True) -> None:
        """Close the generator. A running step is cancelled, and its reader gets the end of the stream.

        Parameters
        ----------
        in_turn : bool
            Run the generator's cleanup while holding the actor's lock.
        """
        self.bind_to(None)
        frame = self._items.gi_frame if isinstance(self._items, GeneratorType) else self._items.ag_frame
        if self._closed or frame is None:
            return
        self._closed = True
        if self._running is not None and self._running is not asyncio.current_task():
            self._running.cancel()
        elif self._filling is not None:
            self._filling.cancel()
        async with self._turn() if in_turn else contextlib.nullcontext(), self._own.ticket():
            if isinstance(self._items, AsyncGeneratorType):
                await self._items.aclose()
            elif self._thread is None or self._thread.done():
                await self._in_thread(self._items.close)
            else:
                self._thread.add_done_callback(functools.partial(_close_in_thread, self._items))


def _some(items: GeneratorType[Any, Any, Any], most: int, ahead: bool) -> tuple[list[Any], bool, Exception | None]:
    found: list[Any] = []
    until = time.monotonic() + _SLICE
    try:
        while len(found) < most:
            found.append(next(items))
            if ahead:  # the generator may change it before it is sent
                found[-1] = taken_from(found, -1)
            if time.monotonic() > until:
                break
    except StopIteration:
        return found, True, None
    except Exception as error:
        return found, True, error
    return found, False, None


def _close_in_thread(items: GeneratorType[Any, Any, Any], _step: object) -> None:
    asyncio.get_running_loop().run_in_executor(None, items.close)


def _find(pool: Any, uid: bytes, name: str) -> Source | None:
    actor = pool.actors.get(uid)
    return None if actor is None else actor._streams.get(name)


def _take(pool: Any, uid: bytes, name: str) -> Source | None:
    actor = pool.actors.get(uid)
    return None if actor is None else actor._streams.pop(name, None)


@request_handler("next of stream", with_link=True)
async def _next(pool: Any, value: Any, link: Link | None) -> list[Any] | None:
    uid, name = value
    actor = pool.actors.get(uid)
    if actor is None:
        raise ActorNotExist(f"there is no actor {uid!r} at {pool.external_address}")
    source = actor._streams.get(name)
    if source is None:
        raise ActorError(
            f"the actor {uid!r} at {pool.external_address} has no stream {name!r}: it was closed, exhausted by another "
            "reader, or lost when the actor was recreated"
        )
    source.bind_to(link)
    items = None
    try:
        items = await source.next(pool)
    finally:
        if items is None:
            actor._streams.pop(name, None)
            pool.spawn(source.close())
    return items


@request_handler("hold stream", with_link=True)
async def _hold(pool: Any, value: Any, link: Link | None) -> None:
    source = _find(pool, *value)
    if source is not None:
        source.bind_to(link)


@request_handler("close stream")
async def _close(pool: Any, value: Any) -> None:
    source = _take(pool, *value)
    if source is not None:
        await source.close()
