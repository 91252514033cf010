"""Large values between processes of one machine: a reference into a store goes over the connection, and not the bytes.

When a link to a process of this machine is to carry a large value for the first time, the value goes as bytes, and the
peer is offered the store of the callee's group, which the group's main pool opens then. From the moment in which the
peer says that it has connected to it, large values are put into that store, which is one copy, or none if they lie in
it already, and the peer looks at them where they are. The value is the sender's until the peer says that it has it, or
the connection ends; then it lives as long as somebody looks at it. If the store is full, if it or its process is gone,
or if the peer cannot connect to it, values go as bytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from craton.actor.errors import ServerClosed
from craton.actor.wire import frames
from craton.actor.wire.frames import Undecodable

if TYPE_CHECKING:
    from craton.actor.wire.link import Link
    from craton.serialize import Parts
    from craton.store import Store

__all__ = ["Note", "Sharing", "connected", "enabled", "opened", "share"]

NOTE = -1
"""The kind of messages between the two sides of `Sharing` itself."""
VARIABLE = "CRATON_ACTOR_SHARED"
"""In the environment: bytes from which on values go through the store; 0 or "off" for never."""
LEAST = 2 << 20
"""Bytes from which on they do unless told otherwise: below, sockets are as fast."""
MOST_WAITING = 1 << 30
"""Bytes that a peer has not taken yet, above which values go as bytes, which wait for one another."""

logger = logging.getLogger("craton.actor")

Home = Callable[[], Awaitable["Store | None"]]


class Note:
    """Stands in a message where its value would, or for a message of `Sharing`'s own."""

    __slots__ = ()


class Offer(Note):
    """Values can be lent in the store at this address."""

    __slots__ = ("address",)

    def __init__(self, address: str) -> None:
        self.address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address,)


class Accepted(Offer):
    """Whoever says this is connected to the store."""

    __slots__ = ()


class Lent(Note):
    """The value is the object of this number in the store."""

    __slots__ = ("address", "number")

    def __init__(self, address: str, number: int) -> None:
        self.address, self.number = address, number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address, self.number)


class Taken(Note):
    """The value of this number is the receiver's now, or nobody's."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.number,)


def share(link: Link, sock: socket.socket, home: Home) -> None:
    """Lend large values over a link, if its peer is on this machine."""
    least = enabled() if sock.family == socket.AF_UNIX else 0
    if least:
        link.sharing = Sharing(link, home, least)


def enabled() -> int:
    """Return from how many bytes on values go through stores; 0 for never.

    Raises
    ------
    ValueError
        The environment's variable is no number of bytes.
    """
    given = os.environ.get(VARIABLE, "").strip().lower()
    if not given or given == "on":
        return LEAST if sys.platform == "linux" else 0
    if given == "off":
        return 0
    from craton.config import parse_bytes

    return parse_bytes(given)


class Sharing:
    """The large values of one link.

    Parameters
    ----------
    link : Link
        Where messages go.
    home : callable
        Returns the store that is offered, or None if there is none; asked once, when it is first needed, or again if
        it raises `LookupError`.
    least : int
        Bytes from which on values are lent.

    Attributes
    ----------
    waiting : int
        Bytes that were lent and that the peer has not taken yet.
    lent : int
        How many values were lent.
    """

    def __init__(self, link: Link, home: Home, least: int) -> None:
        self._link, self._home, self._least = link, home, least
        self._loop = asyncio.get_running_loop()
        self._stores: dict[str, Store] = {}
        self._store: Store | None = None
        self._address = ""
        self._offered: Store | None = None
        self._held: dict[int, tuple[Any, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._proposed = self._closed = False
        self.waiting = self.lent = 0

    # ---- sending ----

    def lend(self, parts: Parts) -> Lent | None:
        """Put a value into the store, if it is large; return what is sent instead, or None if it goes as bytes."""
        size = parts.nbytes
        if size < self._least or self._closed:
            return None
        store = self._store
        if store is None:
            if not self._proposed:
                self._proposed = True
                self._spawn(self._propose())
            return None
        if self.waiting and self.waiting + size > MOST_WAITING:
            return None
        try:
            held = store._native.put(parts.chunks, parts.buffers)
        except MemoryError:
            return None
        except (OSError, ValueError) as error:
            logger.info("Large values go through the connection: %s", error)
            self._forget(self._address)
            return None
        number = held.number
        self._held[number] = held, size
        self.waiting += size
        self.lent += 1
        return Lent(self._address, number)

    async def _propose(self) -> None:
        try:
            store = await self._home()
        except LookupError:
            self._proposed = False  # it is not known yet where to ask
            return
        except Exception as error:
            logger.info("There is no store to lend values in: %s", error)
            return
        if store is None or store.address is None or self._closed:
            return
        self._offered = store
        self._tell(Offer(store.address))

    # ---- receiving ----

    def receive(self, message: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the message with its value in the place of the note; None if it was one of `Sharing`'s own.

        Raises
        ------
        ValueError
            The peer says what makes no sense.
        """
        note = message[-1]
        kind = type(note)
        if kind is Lent:
            value = self._take(note)
            self._tell(Taken(note.number))
            return (*message[:-1], value)
        if message[0] != NOTE:
            raise ValueError(f"a value cannot be a {kind.__name__}")
        if kind is Taken:
            _, size = self._held.pop(note.number, (None, 0))
            self.waiting -= size
        elif kind is Offer:
            self._spawn(self._accept(note.address))
        elif kind is Accepted and self._offered is not None and self._offered.address == note.address:
            self._use(note.address, self._offered)
        return None

    async def _accept(self, address: str) -> None:
        try:
            store = await connected(address)
        except Exception as error:
            # Another user's, or in another file system: the peer goes on with bytes.
            logger.info("The store at %s cannot be used: %s", address, error)
            return
        if not self._closed:
            self._use(address, store)
            self._tell(Accepted(address))

    def _use(self, address: str, store: Store) -> None:
        self._stores[address] = store
        if self._store is None:
            self._store, self._address = store, address

    def _take(self, note: Lent) -> Any:
        from craton import _native
        from craton.serialize.decoding import loaded

        store = self._stores.get(note.address)
        if store is None:
            raise ValueError(f"a value was lent in the store at {note.address!r}, which is not known here")
        try:
            page = store._native.pin(note.number, 0)
        except (KeyError, ConnectionError) as error:
            lost = ServerClosed("the process that sent a large value, or its store, was gone before the value was read")
            lost.__cause__ = error
            return Undecodable(lost)
        except Exception as error:
            return Undecodable(error)
        try:
            return loaded(_native.Buffers.of_page(page, False))
        except Exception as error:
            return Undecodable(error)

    # ---- the end ----

    def close(self) -> None:
        """Give up what was lent: the connection has ended."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._held.clear()
        self.waiting = 0
        self._stores.clear()
        self._store = self._offered = None

    def _forget(self, address: str) -> None:
        self._store = None
        self._stores.pop(address, None)
        for number, (_, size) in list(self._held.items()):
            del self._held[number]
            self.waiting -= size

    def _tell(self, note: Note) -> None:
        self._link.write(frames.pack((NOTE, 0), note))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# ---- the stores of this process ----

_lock = threading.Lock()
_known: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()


def opened() -> tuple[Store, bool]:
    """Return the store of this process, served, and whether it was opened for this and is to be closed by the caller.

    Raises
    ------
    OSError, ValueError
        It cannot be opened or served.
    """
    from craton.config import options
    from craton.store import Store, process

    found = process.current_store()
    if found is None and os.environ.get("CRATON_STORE"):
        found = process.default_store()
    store = found if found is not None else Store.open(options.memory_limit)
    address = store.address or store.serve()
    with _lock:
        _known[address] = store
    return store, found is None


async def connected(address: str) -> Store:
    """Return the store at an address; one connection serves all links of the process.

    Raises
    ------
    ConnectionError
        Nobody serves there, or a process of another user.
    """
    with _lock:
        found = _known.get(address)
    if found is not None:
        return found
    return await asyncio.get_running_loop().run_in_executor(None, _connect, address)


def _connect(address: str) -> Store:
    from craton.store import Store, process

    with _lock:
        found = _known.get(address)
        if found is None:
            own = process.current_store()
            found = own if own is not None and own.address == address else Store.connect(address)
            _known[address] = found
    return found
