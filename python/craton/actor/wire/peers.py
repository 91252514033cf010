"""The calling side: one connection to each address that this event loop's actors speak to, shared by all of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import weakref
from typing import Any, ClassVar

from craton.actor.errors import NotAuthenticated, RemoteTraceback, SendMessageFailed, ServerClosed
from craton.actor.wire import addresses, auth, frames
from craton.actor.wire.link import Link

CALL, BATCH, ASK, CANCEL, RESULT, ERROR, HELLO = range(7)
"""The kinds of messages."""

# Seconds that the callee of a cancelled call has to end it.
GRACE = 2.0
# Seconds after which a machine that has not been heard of is taken to be gone, checked every so many.
_SILENT, _BEAT = 3, 1
# Seconds within which a machine answers who wants to connect to it.
_ANSWERED = 5.0
# Seconds that the main pool has to say how a process of its ended.
_OBITUARY = 1.0

logger = logging.getLogger("craton.actor")


class Peer:
    """A pool in another process, as calls see it.

    Attributes
    ----------
    address : str
        Where it is.
    main : str
        The address of the main pool of its group.
    """

    def __init__(self, peers: Peers, address: str) -> None:
        self._peers, self.address, self.main = peers, address, ""
        self._loop = peers.loop
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self.link: Link | None = None
        self.pid: int | None = None

    async def connect(self) -> None:
        """Connect, or raise why that cannot be."""
        sock = await self._socket()
        self.link = Link(
            self._loop, sock, self, auth.Handshake(self._peers.key(), False), f"the pool at {self.address}"
        )
        await self.link.ready

    async def _socket(self) -> socket.socket:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            local.setblocking(False)
            local.connect(addresses.local_name(self.address))
            return local
        except BlockingIOError:
            # Its queue is full: TCP waits where this does not.
            local.close()
        except OSError:
            local.close()
        host, port = addresses.split(self.address)
        if port is None:
            raise ValueError(f"{self.address!r} has no port: a pool is at host:port")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            notice_silence(sock)
            try:
                await asyncio.wait_for(self._loop.sock_connect(sock, (host, port)), _ANSWERED)
            except TimeoutError:
                raise TimeoutError(f"no answer within {_ANSWERED:g} s") from None
        except BaseException:
            sock.close()
            raise
        return sock

    # ---- calls ----

    def send(self, kind: int, fields: tuple[Any, ...], value: Any) -> None:
        """Send what is not answered."""
        assert self.link is not None
        self.link.write(frames.pack((kind, 0, *fields), value))

    async def request(self, kind: int, fields: tuple[Any, ...], value: Any) -> Any:
        """Send something, and return what the peer answers or raise what it raises.

        Raises
        ------
        SendMessageFailed
            The value cannot be sent.
        ServerClosed
            The peer has gone.
        """
        number = next(self._numbers)
        try:
            pieces = frames.pack((kind, number, *fields), value)
        except SendMessageFailed as error:
            if error.__cause__ is None or not fields:
                raise
            raise SendMessageFailed(f"an argument {error}") from error.__cause__
        return await self._answered(number, pieces)

    async def place(self, what: str, where: Any, views: list[memoryview]) -> None:
        """Ask for bytes to be put where a function that `frames.places` declares wants them; return when they are there.

        Raises
        ------
        ServerClosed
            The peer has gone.
        """
        number = next(self._numbers)
        await self._answered(number, frames.pack_placed((ASK, number, what), where, views))

    async def _answered(self, number: int, pieces: list[Any]) -> Any:
        link = self.link
        assert link is not None
        if link.closed:
            raise ServerClosed(f"the pool at {self.address} is gone", self.address)
        future = self._pending[number] = self._loop.create_future()
        link.write(pieces)
        if link.full:
            with contextlib.suppress(ConnectionError):
                await link.drained()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                raise  # the callee's
            return await self._cancelled(number)
        finally:
            # An error that is kept keeps this frame: it shall not keep what was sent, nor go round in a circle.
            del future
            pieces.clear()

    async def _cancelled(self, number: int) -> Any:
        # The callee may clean up, and may even answer: its answer counts. It is not waited for without end.
        link, future = self.link, self._loop.create_future()
        if link is None or link.closed:
            raise asyncio.CancelledError
        self._pending[number] = future
        self.send(CANCEL, (number,), None)
        try:
            return await asyncio.wait_for(future, GRACE)
        except TimeoutError:
            raise asyncio.CancelledError from None
        finally:
            self._pending.pop(number, None)

    # ---- what comes ----

    def on_message(self, link: Link, message: tuple[Any, ...]) -> None:
        """Receive an answer."""
        kind = message[0]
        if kind == HELLO:
            self.main, self.pid = message[2]["main"], message[2]["pid"]
            return
        future = self._pending.pop(message[1], None)
        if future is None or future.done():
            return
        value = message[-1]
        if type(value) is frames.Undecodable:
            future.set_exception(value.error)
        elif kind == RESULT:
            future.set_result(value)
        elif isinstance(value, asyncio.CancelledError):
            future.cancel()
        else:
            value.__cause__ = RemoteTraceback(message[2])
            future.set_exception(value)

    def on_lost(self, link: Link, error: BaseException | None) -> None:
        """Tell everybody who waits."""
        self._peers.forget(self)
        pending, self._pending = self._pending, {}
        waiting = [future for future in pending.values() if not future.done()]
        if waiting:
            self._peers.spawn(self._bury(waiting, error))

    async def _bury(self, waiting: list[asyncio.Future[Any]], error: BaseException | None) -> None:
        why, code = await self._obituary()
        for future in waiting:
            if not future.done():
                lost = ServerClosed(
                    why or f"the connection to the pool at {self.address} is lost: {error or 'it was closed'}",
                    self.address,
                    code,
                )
                lost.__cause__ = error
                future.set_exception(lost)

    async def _obituary(self) -> tuple[str, int | None]:
        # Only its main pool knows how a process ended.
        if self.main in ("", self.address):
            return "", None
        with contextlib.suppress(Exception):
            found = await asyncio.wait_for(self._peers.ask(self.main, "obituary", self.address), _OBITUARY)
            if found is not None:
                return found
        return "", None


def notice_silence(sock: socket.socket) -> None:
    """Have the system end a TCP connection to a machine that is silent for 3 s, also while nothing is sent."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _BEAT), ("TCP_KEEPINTVL", _BEAT), ("TCP_KEEPCNT", _SILENT - 1), ("TCP_USER_TIMEOUT", _SILENT * 1000),
    ):  # fmt: skip
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Peers:
    """The peers of one event loop."""

    _of: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Peers]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._peers: dict[str, Peer] = {}
        self._opening: dict[str, asyncio.Task[Peer]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @classmethod
    def here(cls) -> Peers:
        """Return those of the running loop."""
        loop = asyncio.get_running_loop()
        found = cls._of.get(loop)
        if found is None:
            found = cls._of[loop] = cls(loop)
        return found

    @staticmethod
    def key() -> bytes:
        """Return the key that peers must have."""
        return auth.key()

    def known(self, address: str) -> Peer | None:
        """Return the peer if there is a connection to it."""
        return self._peers.get(address)

    async def get(self, address: str) -> Peer:
        """Return the peer, connected.

        Raises
        ------
        ConnectionError
            Nobody serves there, or somebody who has another key.
        """
        found = self._peers.get(address)
        if found is not None:
            return found
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = self.loop.create_task(self._open(address))
            opening.add_done_callback(lambda _: self._opening.pop(address, None))
        return await asyncio.shield(opening)

    async def _open(self, address: str) -> Peer:
        peer = Peer(self, address)
        try:
            await peer.connect()
        except NotAuthenticated:
            raise
        except OSError as error:
            raise ServerClosed(f"nobody can be reached at {address}: {error}", address) from error
        self._peers[address] = peer
        return peer

    async def request(self, address: str, kind: int, fields: tuple[Any, ...], value: Any) -> Any:
        """Call a peer; see `Peer.request`."""
        peer = self._peers.get(address) or await self.get(address)
        return await peer.request(kind, fields, value)

    async def ask(self, address: str, what: str, value: Any) -> Any:
        """Ask a pool for something other than a call of a method."""
        return await self.request(address, ASK, (what,), value)

    def forget(self, peer: Peer) -> None:
        """Take note that a connection has ended."""
        if self._peers.get(peer.address) is peer:
            del self._peers[peer.address]

    def spawn(self, coroutine: Any) -> None:
        """Run something in the background."""
        if self.loop.is_closed():
            coroutine.close()
            return
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self, only: set[str] | None = None) -> None:
        """End the connections, or those to some addresses."""
        for address, peer in list(self._peers.items()):
            if (only is None or address in only) and peer.link is not None:
                peer.link.close()
