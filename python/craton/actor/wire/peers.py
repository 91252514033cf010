"""The client side of connections: one for each pool that is called from this event loop, shared by all callers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from craton.actor.errors import NotAuthenticated, RemoteTraceback, SendMessageFailed, ServerClosed
from craton.actor.pools import local_pool
from craton.actor.waiting import wait_for
from craton.actor.wire import addresses, auth, bulk, frames, owners, shared, tls
from craton.actor.wire.keepalive import SILENCE, enable_keepalive
from craton.actor.wire.link import Link
from craton.actor.wire.unauthenticated import RateLimitedWarnings

if TYPE_CHECKING:
    from craton.store import Store

CALL, BATCH, ASK, CANCEL, RESULT, ERROR, HELLO = range(7)
"""The kinds of messages. An answer has the number of its request, negated if the request was cancelled before."""

# Seconds to wait for the callee of a cancelled call to end it.
GRACE = 2.0
# Seconds to wait for the main pool's description of how a process ended.
_EXIT_REPORT_TIMEOUT = 0.8
# The most addresses whose main pools are remembered.
_REMEMBERED = 10_000

logger = logging.getLogger("craton.actor")
warn = RateLimitedWarnings()


class Peer:
    """A pool in another process, with the connection to it and the pending calls.

    Attributes
    ----------
    address : str
        The pool's address.
    main : str
        The address of the main pool of its group; empty until the peer has sent it.
    pid : int or None
        The pid that the peer has reported of its process.
    """

    def __init__(self, peers: Peers, address: str) -> None:
        self._peers, self.address, self.main = peers, address, ""
        self._loop = peers.loop
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self.link: Link | None = None
        self._lost: BaseException | None = None
        self.pid: int | None = None

    async def connect(self) -> None:
        """Open the connection and authenticate."""
        secured = tls.current()
        sock = await self._socket()
        self.link = tls.link(self._loop, sock, self, self._peers.key(), False, f"the pool at {self.address}", secured)
        shared.share(self.link, sock, self._home)
        bulk.open_channel(self.link, sock, client=True)
        try:
            await self.link.ready
        except asyncio.CancelledError:
            self.link.close()  # it is not registered yet, so nothing else would close it
            raise

    async def _home(self) -> Any:
        return await store_of(self.main)

    async def _socket(self) -> socket.socket:
        local, foreign = _local(self.address)
        if local is not None:
            return local
        if not foreign:
            return await self._tcp()
        warn("The Unix socket of %s belongs to another user: %s; connecting over TCP", self.address, foreign)
        try:
            return await self._tcp()
        except OSError as error:
            kind = TimeoutError if isinstance(error, TimeoutError) else ConnectionError
            raise kind(f"{error}; and its Unix socket belongs to another user: {foreign}") from error

    async def _tcp(self) -> socket.socket:
        host, port = addresses.split(self.address)
        if port is None:
            raise ValueError(f"{self.address!r} has no port; the address of a pool is host:port")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            enable_keepalive(sock)
            async with asyncio.timeout(SILENCE):
                await self._loop.sock_connect(sock, (host, port))
        except TimeoutError:
            sock.close()
            raise TimeoutError(f"no answer from that machine within {SILENCE:g} s") from None
        except BaseException:
            sock.close()
            raise
        return sock

    # ---- calls ----

    def send(self, kind: int, fields: tuple[Any, ...], value: Any) -> None:
        """Send a message that is not answered."""
        assert self.link is not None
        self.link.write(self.link.pack((kind, 0, *fields), value))

    async def request(self, kind: int, fields: tuple[Any, ...], value: Any) -> Any:
        """Send a message, and return the answer or raise the exception that the peer sends.

        Raises
        ------
        SendMessageFailed
            The value cannot be serialized.
        ServerClosed
            The connection has ended.
        """
        number = next(self._numbers)
        assert self.link is not None
        try:
            pieces = self.link.pack((kind, number, *fields), value)
        except SendMessageFailed as error:
            if error.__cause__ is None or not fields:
                raise
            raise SendMessageFailed(f"an argument {error}") from error.__cause__
        return await self._answered(number, pieces, False)

    async def place(self, what: str, where: Any, views: list[memoryview]) -> None:
        """Send bytes with direct placement (see `frames.places`), and wait until the peer has received them.

        They are not copied, and must not change meanwhile.

        Raises
        ------
        ServerClosed
            The connection has ended.
        """
        number = next(self._numbers)
        await self._answered(number, frames.pack_placed((ASK, number, what), where, views), True)

    async def _answered(self, number: int, pieces: list[Any], lent: bool) -> Any:
        link = self.link
        assert link is not None
        if link.closed:
            why, code = await self._exit_report(self._lost)
            raise ServerClosed(why, self.address, code) from self._lost
        future = self._pending[number] = self._loop.create_future()
        link.write(pieces, lent=lent)
        try:
            if link.full:
                with contextlib.suppress(ConnectionError):
                    await link.drained()
            return await future
        except asyncio.CancelledError:
            if number not in self._pending:
                # Either the callee raised this, or the cancellation is too late: an answer or the connection's end came first.
                if future.done() and not future.cancelled():
                    future.exception()
                raise
            answer = await self._cancelled(number)
            if answer is None:
                raise
            return answer.result()
        finally:
            # A kept exception keeps this frame alive: do not let that keep the sent values, or a cycle with the future.
            del future
            pieces.clear()

    async def _cancelled(self, number: int) -> asyncio.Future[Any] | None:
        # Wait, with a limit, while the callee cleans up. It may complete the call in spite of the cancellation; such an
        # answer has the negative number, and is returned. An answer that was sent before the cancellation arrived has the
        # positive number, and is dropped: otherwise a caller that calls in a loop could never be cancelled.
        early = self._pending[number] = self._loop.create_future()
        late = self._pending[-number] = self._loop.create_future()
        self.send(CANCEL, (number,), None)
        try:
            await asyncio.wait({early, late}, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in (early, late):
                future.cancel()
            for pending in (number, -number):
                self._pending.pop(pending, None)
        if not early.cancelled():
            early.exception()
            if not late.cancelled():
                late.exception()  # both are done only if the connection has ended
            return None
        return None if late.cancelled() else late

    # ---- receiving ----

    def on_message(self, link: Link, message: tuple[Any, ...]) -> None:
        """Handle an answer, or the peer's first message."""
        kind = message[0]
        if kind == HELLO:
            self.main, self.pid = self._peers.remember_main(self.address, message[2]["main"]), message[2]["pid"]
            return
        future = self._pending.pop(message[1], None)
        if future is None or future.done():
            return
        value = message[-1]
        undecodable = type(value) is frames.Undecodable
        if kind == RESULT and not undecodable:
            future.set_result(value)
        elif isinstance(value, asyncio.CancelledError):
            future.cancel()
        else:
            error = value.error if undecodable else value
            if kind == ERROR:
                error.__cause__ = RemoteTraceback(message[2])
            future.set_exception(error)

    def on_lost(self, link: Link, error: BaseException | None) -> None:
        """Fail all pending calls."""
        self._peers.forget(self)
        self._lost = error
        pending, self._pending = self._pending, {}
        waiting = [future for future in pending.values() if not future.done()]
        if waiting:
            self._peers.spawn(self._fail_pending(waiting, error))

    async def _fail_pending(self, waiting: list[asyncio.Future[Any]], error: BaseException | None) -> None:
        why, code = await self._exit_report(error)
        for future in waiting:
            if not future.done():
                lost = ServerClosed(why, self.address, code)
                lost.__cause__ = error
                future.set_exception(lost)

    async def _exit_report(self, error: BaseException | None) -> tuple[str, int | None]:
        lost = f"the connection to the pool at {self.address} is lost: {error or 'it was closed by the pool'}"
        if isinstance(error, TimeoutError):
            return lost, None  # the main pool is on the same machine, and so unreachable too
        if self.link is not None and self.link.pid == self.pid is not None and not _lives(self.pid):
            lost = f"the process of the pool at {self.address} (pid {self.pid}) has ended"
        return await self._peers.exit_report(self.address, self.pid) or (lost, None)


def _local(address: str) -> tuple[socket.socket | None, str]:
    """Connect to the Unix socket of an address, without sending anything.

    Returns
    -------
    socket or None
        The connected socket, if a process of this user listens there.
    str
        If another user's process listens there, a description of it; else empty.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    foreign = ""
    try:
        sock.setblocking(False)
        sock.connect(addresses.local_name(address))
        if owners.is_same_user(sock):
            return sock, ""
        foreign = f"its name is held by a process of user {owners.credentials(sock)[1]}"
    except OSError:
        pass  # no pool listens there; or its backlog is full, and connecting over TCP can wait for it
    sock.close()
    return None, foreign


_EXITING = 0x4


def _lives(pid: int) -> bool:
    """Whether a process of this machine runs; False for a process that is exiting or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *_, flags = file.read().rpartition(b")")[2].split()[:7]
    except OSError:
        return False
    return state not in (b"Z", b"X") and not int(flags) & _EXITING


class Peers:
    """The peers of one event loop.

    Attributes
    ----------
    home : str
        The address of the main pool of this loop's own group; used for pools whose main pool is unknown.
    secret : bytes or None
        The key for authentication, if it is not the process's key.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Peers]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._peers: dict[str, Peer] = {}
        self._opening: dict[str, asyncio.Task[Peer]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # The main pool's address of each pool that was connected.
        self._mains: dict[str, str] = {}
        self.home = ""
        self.secret: bytes | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop; only a weak reference to it is held."""
        loop = self._loop()
        assert loop is not None
        return loop

    @classmethod
    def here(cls) -> Peers:
        """Return the instance of the running event loop."""
        loop = asyncio.get_running_loop()
        found = cls._of.get(loop)
        if found is None:
            for other, peers in list(cls._of.items()):
                if other.is_closed():
                    peers.close_descriptors()  # the loop ended without closing its connections
                    cls._of.pop(other, None)  # another thread may have removed it
            found = cls._of[loop] = cls(loop)
        return found

    def close_descriptors(self) -> None:
        """Close the file descriptors only; see `Link.close_descriptors`."""
        for peer in self._peers.values():
            if peer.link is not None:
                peer.link.close_descriptors()
        self._peers.clear()

    def remember_main(self, address: str, main: str) -> str:
        """Remember a pool's main pool; return the main pool's address as seen from here."""
        main = addresses.seen_from(main, address)
        if len(self._mains) >= _REMEMBERED:
            self._mains.clear()
        self._mains[address] = main
        return main

    def main_of(self, address: str) -> str:
        """Return the address of a pool's main pool; if it is unknown, that of this loop's own group."""
        return self._mains.get(address) or self.home

    async def exit_report(self, address: str, pid: int | None) -> tuple[str, int | None] | None:
        """Return how a pool's process ended, from its main pool; None if that cannot be found out."""
        main = self.main_of(address)
        if main in ("", address):
            return None
        with contextlib.suppress(Exception):
            request = self.request(main, ASK, ("exit report",), (address, pid))
            return await wait_for(request, _EXIT_REPORT_TIMEOUT)
        return None

    def key(self) -> bytes:
        """Return the key for authentication."""
        return auth.key() if self.secret is None else self.secret

    def known(self, address: str) -> Peer | None:
        """Return the peer if it is connected."""
        return self._peers.get(address)

    async def get(self, address: str) -> Peer:
        """Return the peer; connect if necessary.

        Raises
        ------
        ConnectionError
            No pool can be reached at that address, or it has another key.
        """
        found = self._peers.get(address)
        if found is not None:
            return found
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = self.loop.create_task(self._open(address))
            opening.add_done_callback(lambda done: self._opened(address, done))
        return await asyncio.shield(opening)

    def _opened(self, address: str, opening: asyncio.Task[Peer]) -> None:
        self._opening.pop(address, None)
        if not opening.cancelled():
            opening.exception()  # mark as retrieved: all waiting callers may have been cancelled

    async def _open(self, address: str) -> Peer:
        peer = Peer(self, address)
        try:
            await peer.connect()
        except NotAuthenticated:
            raise
        except OSError as error:
            known = None if isinstance(error, TimeoutError) else await self.exit_report(address, None)
            why, code = known or (f"no pool can be reached at {address}: {error}", None)
            raise ServerClosed(why, address, code) from error
        assert peer.link is not None
        if peer.link.closed:
            # Its `on_lost` has run already, so a registered peer would never be removed.
            raise ServerClosed(f"the pool at {address} closed the connection immediately", address)
        self._peers[address] = peer
        return peer

    async def request(self, address: str, kind: int, fields: tuple[Any, ...], value: Any) -> Any:
        """Send a request to a peer; see `Peer.request`."""
        peer = self._peers.get(address) or await self.get(address)
        return await peer.request(kind, fields, value)

    async def ask(self, address: str, what: str, value: Any) -> Any:
        """Send a request to a pool itself, rather than to an actor; see `craton.actor.pool.base.request_handler`."""
        return await self.request(address, ASK, (what,), value)

    def forget(self, peer: Peer) -> None:
        """Remove a peer whose connection has ended."""
        if self._peers.get(peer.address) is peer:
            del self._peers[peer.address]

    def spawn(self, coroutine: Any) -> None:
        """Run a coroutine in the background."""
        if self.loop.is_closed():
            coroutine.close()
            return
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self, only: set[str] | None = None) -> None:
        """Close all connections, or those to some addresses."""
        for address, peer in list(self._peers.items()):
            if (only is None or address in only) and peer.link is not None:
                peer.link.close()


async def ask_pool(address: str | None, what: str, value: Any) -> Any:
    """Send a request to a pool itself; a pool in this event loop is called directly.

    Raises
    ------
    ValueError
        The address is None.
    """
    if address is None:
        raise ValueError("give the address of a pool: this process has no pool that could be the default")
    pool = local_pool(address)
    return await (pool.handle_request(what, value) if pool is not None else Peers.here().ask(address, what, value))


async def store_of(main: str) -> Store | None:
    """Return the store of the group of the main pool at that address; None if it has none.

    Raises
    ------
    LookupError
        ``main`` is empty, because the peer has not sent it yet.
    """
    if not main:
        raise LookupError("the peer has not sent the address of its main pool yet")
    pool = local_pool(main)
    if pool is not None:
        found: Store | None = await pool.store.get()
        return found
    address = await Peers.here().ask(main, "store", None)
    return None if address is None else await shared.connected(address)
