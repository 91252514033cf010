"""Sends large values between processes of one machine through a shared-memory store: only a reference is sent.

The first large value on a connection is sent as bytes. At the same time, the sender offers the peer the store of the
callee's group, which the group's main pool opens on demand. Once the peer has accepted the offer, which means that it
has connected to that store, large values are put into the store, with one copy, or none if their memory is already in
it, and the peer maps them without copying. The sender keeps a value until the peer acknowledges it or the connection
ends; from then on the value lives as long as it is in use. Values are sent as bytes if the store is full, if its process
has ended, or if the peer cannot connect to it.
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

__all__ = ["Sharing", "SharingMessage", "connected", "enabled", "opened", "share"]

NOTE = -1
"""The message kind of `Sharing`'s own protocol."""
VARIABLE = "CRATON_ACTOR_SHARED"
"""The environment variable with the threshold in bytes; 0 or "off" disables sharing."""
DEFAULT_THRESHOLD = 2 << 20
"""The default threshold in bytes from which on values are shared; below it, sockets are as fast."""
MAX_UNACKNOWLEDGED = 1 << 30
"""The most unacknowledged bytes of a peer; further values are sent as bytes, to which backpressure applies."""

logger = logging.getLogger("craton.actor")

Home = Callable[[], Awaitable["Store | None"]]


class SharingMessage:
    """The base of `Sharing`'s messages, and of the references that replace values in other messages."""

    __slots__ = ()


class Offer(SharingMessage):
    """Offers to send values through the store at an address."""

    __slots__ = ("address",)

    def __init__(self, address: str) -> None:
        self.address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address,)


class Accepted(Offer):
    """Accepts an offer: the sender of this message has connected to the store."""

    __slots__ = ()


class Lent(SharingMessage):
    """A reference to a value: the object of this number in the store at this address."""

    __slots__ = ("address", "number")

    def __init__(self, address: str, number: int) -> None:
        self.address, self.number = address, number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address, self.number)


class Taken(SharingMessage):
    """Acknowledges a `Lent` value: the receiver has pinned it, or could not read it, and the sender can release it."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.number,)


def share(link: Link, sock: socket.socket, home: Home) -> None:
    """Enable sharing on a link, if its peer is on this machine."""
    threshold = enabled() if sock.family == socket.AF_UNIX else 0
    if threshold:
        link.sharing = Sharing(link, home, threshold)


def enabled() -> int:
    """Return the threshold in bytes from which on values are shared; 0 if sharing is disabled.

    Raises
    ------
    ValueError
        The environment variable is not a number of bytes.
    """
    given = os.environ.get(VARIABLE, "").strip().lower()
    if not given or given == "on":
        return DEFAULT_THRESHOLD if sys.platform == "linux" else 0
    if given == "off":
        return 0
    from craton.config import parse_bytes

    return parse_bytes(given)


class Sharing:
    """Sends and receives the large values of one link.

    Parameters
    ----------
    link : Link
        The connection.
    home : callable
        Returns the store to offer, or None. Called when the first large value is sent; called again later if it raises
        `LookupError`.
    threshold : int
        The threshold in bytes from which on values are shared.

    Attributes
    ----------
    waiting : int
        Bytes that were lent and not acknowledged yet.
    lent : int
        Number of values lent so far.
    """

    def __init__(self, link: Link, home: Home, threshold: int) -> None:
        self._link, self._home, self._threshold = link, home, threshold
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
        """Put a large value into the store; return the reference to send instead, or None to send the value as bytes."""
        size = parts.nbytes
        if size < self._threshold or self._closed:
            return None
        store = self._store
        if store is None:
            if not self._proposed:
                self._proposed = True
                self._spawn(self._propose())
            return None
        if self.waiting and self.waiting + size > MAX_UNACKNOWLEDGED:
            return None
        try:
            held = store._native.put(parts.chunks, parts.buffers)
        except MemoryError:
            return None
        except (OSError, ValueError) as error:
            logger.info("Large values are sent as bytes from now on: %s", error)
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
            self._proposed = (
                False  # the address of the peer's main pool is not known yet; try again with the next value
            )
            return
        except Exception as error:
            logger.info("No store is available for sending large values: %s", error)
            return
        if store is None or store.address is None or self._closed:
            return
        self._offered = store
        self._tell(Offer(store.address))

    # ---- receiving ----

    def receive(self, message: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Handle a message with a `SharingMessage`.

        Returns
        -------
        tuple or None
            The message with the value in place of its reference; None for a message of `Sharing`'s own protocol.

        Raises
        ------
        ValueError
            The message violates the protocol.
        """
        note = message[-1]
        kind = type(note)
        if kind is Lent:
            value = self._take(note)
            self._tell(Taken(note.number))
            return (*message[:-1], value)
        if message[0] != NOTE:
            raise ValueError(f"the peer sent a {kind.__name__} in place of a value")
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
            # The store may belong to another user or another mount namespace. Without an answer, the peer goes on sending bytes.
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
        from craton.serialize.decoding import decode_buffers

        store = self._stores.get(note.address)
        if store is None:
            raise ValueError(f"the peer refers to the store at {note.address!r}, which this process did not accept")
        try:
            page = store._native.pin(note.number, 0)
        except (KeyError, ConnectionError) as error:
            lost = ServerClosed("the process that sent a large value, or its store, ended before the value was read")
            lost.__cause__ = error
            return Undecodable(lost)
        except Exception as error:
            return Undecodable(error)
        try:
            return decode_buffers(_native.Buffers.of_page(page, False))
        except Exception as error:
            return Undecodable(error)

    # ---- the end ----

    def close(self) -> None:
        """Release all lent values, because the connection has ended."""
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

    def _tell(self, note: SharingMessage) -> None:
        self._link.write(frames.pack((NOTE, 0), note))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


# ---- the stores of this process ----

_lock = threading.Lock()
_known: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()


def opened() -> tuple[Store, bool]:
    """Return a store of this process that serves other processes; opened if there is none.

    Returns
    -------
    Store
        The store.
    bool
        Whether it was opened here, so that the caller must close it.

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
    """Return the store at an address; all links of the process share one connection to it.

    Raises
    ------
    ConnectionError
        No store is served there, or another user's.
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
