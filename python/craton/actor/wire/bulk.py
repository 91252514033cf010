"""Sends the large parts of frames by UCX, which uses RDMA where there is any; the rest of a frame goes by its TCP connection.

The client of a connection between machines offers the address of its worker of UCX; once the server has answered with its own, both
send parts of `frames.BULK` bytes or more by UCX. UCX neither authenticates nor encrypts, so it is used only if it was chosen,
and never for connections with TLS. The connection itself is authenticated as always, and its end ends the transfers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from craton.actor.wire import frames
from craton.actor.wire.shared import NOTE
from craton.serialize.changes import may_change

if TYPE_CHECKING:
    from craton.actor.wire.link import Link
    from craton.comm.ucx_library import UcxError, UcxPeer, Worker

__all__ = ["BulkChannel", "BulkMessage", "activated", "check", "enabled", "open_channel"]

VARIABLE = "CRATON_ACTOR_TRANSPORT"
"""The environment variable with the transport of large values between machines: ``tcp``, the default, or ``ucx``."""
_TRANSPORTS = ("tcp", "ucx")

logger = logging.getLogger("craton.actor")
_activated = 0


def enabled() -> bool:
    """Whether connections of this process use UCX.

    Raises
    ------
    ValueError
        The environment variable names no transport.
    """
    if _activated:
        return True
    given = os.environ.get(VARIABLE, "").strip().lower() or "tcp"
    if given not in _TRANSPORTS:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(_TRANSPORTS)}, not {given!r}")
    return given == "ucx"


@contextlib.contextmanager
def activated() -> Iterator[None]:
    """Make this process's connections use UCX."""
    global _activated
    _activated += 1
    try:
        yield
    finally:
        _activated -= 1


def check() -> None:
    """Check that UCX is installed if connections of this process use it.

    Raises
    ------
    ModuleNotFoundError
        It is not installed; the text says which package to install.
    """
    if enabled():
        import craton.comm

        craton.comm.check_available("ucx")


def _array(memory: Any) -> Any:
    import numpy as np

    return np.frombuffer(memory, np.uint8)


class BulkMessage:
    """The address of a process's worker of UCX, and the tag for what is sent to the link there."""

    __slots__ = ("address", "tag")

    def __init__(self, address: bytes, tag: int) -> None:
        self.address, self.tag = address, tag

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address, self.tag)


def open_channel(link: Link, sock: socket.socket, client: bool) -> None:
    """Let a link use UCX, if that was chosen and its peer is reached by plain TCP."""
    if sock.family != socket.AF_UNIX and not link.encrypted and enabled():
        link.bulk = BulkChannel(link)
        if client:
            link.ready.add_done_callback(link.bulk.offer)


class BulkChannel:
    """Sends and receives the large parts of one link's frames.

    Attributes
    ----------
    sent : int
        Bytes that were given to UCX so far.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._worker: Worker | None = None
        self._peer: UcxPeer | None = None
        self._tag = self._to = 0
        self._expected: deque[Any] = deque()
        self._arriving: deque[Callable[[], bool]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.sent = 0

    # ---- opening ----

    def offer(self, ready: asyncio.Future[None]) -> None:
        """Offer the peer to send by UCX, now that the connection is ready."""
        if not ready.cancelled() and ready.exception() is None and not self._closed:
            self._spawn(None)

    def receive(self, message: BulkMessage) -> None:
        """Handle the peer's offer, or its answer."""
        if self._worker is None:
            self._spawn(message)
        else:  # at once: the next frame may need it
            self._use(self._worker, message)

    def _use(self, worker: Worker, message: BulkMessage) -> None:
        try:
            self._peer, self._to = worker.peer(message.address), message.tag
        except RuntimeError as error:
            self._link.drop(ConnectionResetError(f"UCX cannot reach {self._link.peer}: {error}"))

    def _spawn(self, message: BulkMessage | None) -> None:
        task = self._loop.create_task(self._open(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, message: BulkMessage | None) -> None:
        from craton.comm.ucx_library import worker

        try:
            if self._worker is None:
                self._worker = await self._loop.run_in_executor(None, worker)
                self._tag = self._worker.new_tag()
        except (ImportError, OSError, RuntimeError) as error:
            logger.warning("Large values for %s are sent by TCP, for UCX cannot be used: %s", self._link.peer, error)
            return
        if message is not None and not self._closed:
            self._use(self._worker, message)
        if not self._closed:
            self._link.write(frames.pack((NOTE, 0), BulkMessage(self._worker.address, self._tag)))

    # ---- sending ----

    def divert(self, pieces: list[Any], lent: bool) -> list[Any]:
        """Send the large parts of a frame by UCX; return the pieces that go by the connection.

        Parts that may change are copied, unless they are lent: they are sent when the peer begins to receive them.
        """
        if self._peer is None or self._worker is None:
            return pieces
        pieces, parts = frames.split_bulk(pieces)
        for part in parts:
            view = memoryview(part)
            memory = _array(part if lent or not may_change(view) else view.tobytes())
            self.sent += memory.size
            self._link.count_unsent(memory.size)
            try:
                request = self._worker.send(self._peer, memory, self._to, received=True)
            except RuntimeError as error:
                self._link.drop(ConnectionResetError(f"UCX cannot send to {self._link.peer}: {error}"))
                return []
            self._worker.watch(request, self._peer, _Later(self, self._sent, memory.size))
        return pieces

    def _sent(self, size: int, error: UcxError | None) -> None:
        if error is None:
            self._link.count_sent(size)
        else:
            self._link.drop(ConnectionResetError(f"UCX cannot send to {self._link.peer}: {error}"))

    # ---- receiving ----

    def fetch(self, rooms: Sequence[memoryview]) -> None:
        """Receive the large parts of a frame into memory, and tell the link when they are there.

        Raises
        ------
        ValueError
            The peer has not opened the channel.
        """
        if self._peer is None or self._worker is None:
            raise ValueError("the peer sends parts by UCX over a connection that does not use it")
        self._expected.extend(_array(room) for room in rooms)
        self._worker.watch(self._has_arrived, self._peer, _Later(self, self._arrived, 0))

    def _has_arrived(self) -> bool:
        """Whether all is there; called in the worker's thread."""
        assert self._worker is not None
        if self._closed:
            self._expected.clear()
        while self._expected and (found := self._worker.take(self._tag, into=self._expected[0])) is not None:
            self._expected.popleft()
            self._arriving.append(found[1])
        while self._arriving and self._arriving[0]():
            self._arriving.popleft()
        return not self._expected and not self._arriving

    def _arrived(self, _size: int, error: UcxError | None) -> None:
        if error is None:
            self._link.bulk_arrived()
        else:
            self._link.drop(ConnectionResetError(f"UCX cannot receive from {self._link.peer}: {error}"))

    # ---- the end ----

    def close(self) -> None:
        """Take note that the link has ended."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._worker is not None:
            self._worker.abandon(self._tag)

    def later(self, call: Callable[[int, UcxError | None], None], size: int, error: UcxError | None) -> None:
        """Call a function in the link's event loop, if the link has not ended."""
        if not self._closed:
            call(size, error)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the link."""
        return self._loop


class _Later:
    """Tells a channel, in its event loop, what the worker's thread tells this."""

    def __init__(self, channel: BulkChannel, call: Callable[[int, UcxError | None], None], size: int) -> None:
        self._channel, self._call, self._size = channel, call, size

    def __call__(self, error: UcxError | None) -> None:
        try:
            self._channel.loop.call_soon_threadsafe(self._channel.later, self._call, self._size, error)
        except RuntimeError:
            return  # the event loop has been closed
