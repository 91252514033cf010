"""Streams: methods that yield, read item by item from wherever the reader is.

```python
class Worker(Actor):
    @generator
    async def words(self, text):
        for word in text.split():
            yield word


async for word in await ref.words("a b c"):
    ...
```

The generator stays with its actor and runs when an item is asked for, in the actor's turn; a plain one runs in a
thread. The caller gets a `Stream`. It can be handed on to other processes, and the generator ends with it: when it is
exhausted, closed, or nobody has it any more.
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
from craton.actor.pool.base import answers
from craton.actor.pools import local_pool
from craton.actor.wire import frames
from craton.actor.wire.link import Link
from craton.actor.wire.peers import ASK, Peers, ask_pool

__all__ = ["Stream", "generator"]

_F = TypeVar("_F", bound=Callable[..., Any])

_END = object()
# Seconds for which a plain generator may go on in its thread before its items are passed on.
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
        A plain or an async generator; or a plain or ``async`` function, which may also return something else than a
        generator. Plain functions and generators run in threads.
    ahead : int
        Items that the generator may make before they are asked for, and which then travel together. By default it
        makes none: it runs only while somebody waits for its next item.

    Raises
    ------
    ValueError
        ``ahead`` is negative.
    """
    if ahead < 0:
        raise ValueError(f"a generator cannot be {ahead} items ahead; 0 or more")
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
        # Random, so that an actor that was made again does not take it for one of its own.
        name = f"{function.__name__}-{secrets.token_hex(8)}"
        self._streams[name] = Source(self, name, found, ahead)
        return Stream(self.address, self.uid, name)

    return streaming


class Stream(AsyncIterator[Any]):
    """What a generator of an actor yields, as an async iterator.

    Pickled, it is handed on: a copy carries what was fetched and not read yet, and is from then on the one whose end
    ends the generator. A reader that is cancelled while it waits for an item ends the generator, as it does everywhere;
    so does the end of the process that has it.
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
                return  # it was read to its end by another, who has this very stream
            # Whatever it was: nobody asks again, and the generator shall not be kept for that.
            self._let_go()
            raise
        if items is None:
            self._over, self._owner = True, False
        else:
            self._items.extend(items)

    async def aclose(self) -> None:
        """End the generator, after what it does at its end."""
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
        link = frames.carrier.get()
        source = None if pool is None or link is None else _find(pool, self._uid, self._name)
        if source is not None:
            source.tie(link)
        return Stream, (self._address, self._uid, self._name, tuple(self._items), self._over, pool is None)

    def __del__(self) -> None:
        if self._owner and not sys.is_finalizing():
            self._let_go()

    def _let_go(self) -> None:
        # From any thread, and without waiting: a loop that ends meanwhile takes its connections along.
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
        Whose generator it is.
    name : str
        The stream's.
    items : generator or async generator
        The generator.
    ahead : int
        Items that it may make before they are asked for.
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
        # What was made ahead, and how it ended.
        self._filling: asyncio.Task[None] | None = None
        self._ready: deque[Any] = deque()
        self._over = False
        self._error: Exception | None = None
        self._news, self._room = asyncio.Event(), asyncio.Event()

    def tie(self, link: Link | None) -> None:
        """Have the stream end with a connection, and with no other: that of its reader, as far as is known by now."""
        if self._link is not None:
            self._link.tied.discard(self)
        self._link = link
        if link is not None and not self._closed:
            link.tied.add(self)
            if link.closed:
                self.on_cut(link)

    def on_cut(self, link: Link) -> None:
        """End the generator: its reader has gone."""
        pool = local_pool(self._actor.address)
        if pool is not None and self._link is link and _take(pool, self._actor.uid, self._name) is not None:
            pool.spawn(self.close())

    async def next(self, pool: Any) -> list[Any] | None:
        """Return the next items, at least one; None at the end; or raise what the generator raises."""
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
        # In the actor's turn; and one at a time, for actors that have no turn.
        async with self._turn(), self._own.ticket():
            if self._closed:
                return [], True, None
            task = self._running = asyncio.current_task()
            assert task is not None
            try:
                if isinstance(self._items, GeneratorType):
                    return await self._in_thread(_some, self._items, most)
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
        return [await item if inspect.isawaitable(item) else item], False, None

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
        """End the generator; a step that is running is cancelled, and whoever waits for it is told the end.

        Parameters
        ----------
        in_turn : bool
            Do what it does at its end in the actor's turn.
        """
        self.tie(None)
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


def _some(items: GeneratorType[Any, Any, Any], most: int) -> tuple[list[Any], bool, Exception | None]:
    found: list[Any] = []
    until = time.monotonic() + _SLICE
    try:
        while len(found) < most:
            found.append(next(items))
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


@answers("next of stream", who=True)
async def _next(pool: Any, value: Any, link: Link | None) -> list[Any] | None:
    uid, name = value
    actor = pool.actors.get(uid)
    if actor is None:
        raise ActorNotExist(f"there is no actor {uid!r} at {pool.external_address}")
    source = actor._streams.get(name)
    if source is None:
        raise ActorError(
            f"the actor {uid!r} at {pool.external_address} has no stream {name!r}: it was closed, or read to its end "
            "by another, or the actor was made again"
        )
    source.tie(link)
    items = None
    try:
        items = await source.next(pool)
    finally:
        if items is None:
            actor._streams.pop(name, None)
            pool.spawn(source.close())
    return items


@answers("hold stream", who=True)
async def _hold(pool: Any, value: Any, link: Link | None) -> None:
    source = _find(pool, *value)
    if source is not None:
        source.tie(link)


@answers("close stream")
async def _close(pool: Any, value: Any) -> None:
    source = _take(pool, *value)
    if source is not None:
        await source.close()
