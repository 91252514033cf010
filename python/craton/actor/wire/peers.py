"""The calling side: one connection to each address that this event loop's actors speak to, shared by all of them."""

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
from craton.actor.wire import addresses, auth, frames, owners, shared, tls
from craton.actor.wire.keepalive import SILENCE, notice_silence
from craton.actor.wire.link import Link
from craton.actor.wire.unauthenticated import Complaints

if TYPE_CHECKING:
    from craton.store import Store

CALL, BATCH, ASK, CANCEL, RESULT, ERROR, HELLO = range(7)
"""The kinds of messages. The number of a call is negative in an answer that was given although the call was cancelled."""

# Seconds that the callee of a cancelled call has to end it.
GRACE = 2.0
# Seconds that the main pool has to say how a process of its ended.
_OBITUARY = 0.8
# Addresses of which it is remembered whose pool was there.
_REMEMBERED = 10_000

logger = logging.getLogger("craton.actor")
complain = Complaints()


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
        self._lost: BaseException | None = None
        self.pid: int | None = None

    async def connect(self) -> None:
        """Connect, or raise why that cannot be."""
        secured = tls.current()
        sock = await self._socket()
        self.link = tls.link(self._loop, sock, self, self._peers.key(), False, f"the pool at {self.address}", secured)
        shared.share(self.link, sock, self._home)
        try:
            await self.link.ready
        except asyncio.CancelledError:
            self.link.close()  # nobody else has it
            raise

    async def _home(self) -> Any:
        return await store_of(self.main)

    async def _socket(self) -> socket.socket:
        local, foreign = _local(self.address)
        if local is not None:
            return local
        if not foreign:
            return await self._tcp()
        complain("The Unix socket of %s is not this user's: %s; connecting through TCP", self.address, foreign)
        try:
            return await self._tcp()
        except OSError as error:
            kind = TimeoutError if isinstance(error, TimeoutError) else ConnectionError
            raise kind(f"{error}; and its Unix socket is not this user's: {foreign}") from error

    async def _tcp(self) -> socket.socket:
        host, port = addresses.split(self.address)
        if port is None:
            raise ValueError(f"{self.address!r} has no port: a pool is at host:port")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            notice_silence(sock)
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
        """Send what is not answered."""
        assert self.link is not None
        self.link.write(self.link.pack((kind, 0, *fields), value))

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
        assert self.link is not None
        try:
            pieces = self.link.pack((kind, number, *fields), value)
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
            why, code = await self._obituary(self._lost)
            raise ServerClosed(why, self.address, code) from self._lost
        future = self._pending[number] = self._loop.create_future()
        link.write(pieces)
        try:
            if link.full:
                with contextlib.suppress(ConnectionError):
                    await link.drained()
            return await future
        except asyncio.CancelledError:
            if number not in self._pending:
                # The callee's own, or too late: it has been answered, or the connection has ended.
                if future.done() and not future.cancelled():
                    future.exception()
                raise
            answer = await self._cancelled(number)
            if answer is None:
                raise
            return answer.result()
        finally:
            # An error that is kept keeps this frame: it shall not keep what was sent, nor go round in a circle.
            del future
            pieces.clear()

    async def _cancelled(self, number: int) -> asyncio.Future[Any] | None:
        # The callee may clean up, and may even answer: its answer counts, if it knew. What it had answered before does
        # not: whoever calls it again and again could never be cancelled. It is not waited for without end.
        unknowing = self._pending[number] = self._loop.create_future()
        knowing = self._pending[-number] = self._loop.create_future()
        self.send(CANCEL, (number,), None)
        try:
            await asyncio.wait({unknowing, knowing}, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in (unknowing, knowing):
                future.cancel()
            for pending in (number, -number):
                self._pending.pop(pending, None)
        if not unknowing.cancelled():
            unknowing.exception()
            if not knowing.cancelled():
                knowing.exception()  # both: the connection has ended
            return None
        return None if knowing.cancelled() else knowing

    # ---- what comes ----

    def on_message(self, link: Link, message: tuple[Any, ...]) -> None:
        """Receive an answer."""
        kind = message[0]
        if kind == HELLO:
            self.main, self.pid = self._peers.met(self.address, message[2]["main"]), message[2]["pid"]
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
        """Tell everybody who waits."""
        self._peers.forget(self)
        self._lost = error
        pending, self._pending = self._pending, {}
        waiting = [future for future in pending.values() if not future.done()]
        if waiting:
            self._peers.spawn(self._bury(waiting, error))

    async def _bury(self, waiting: list[asyncio.Future[Any]], error: BaseException | None) -> None:
        why, code = await self._obituary(error)
        for future in waiting:
            if not future.done():
                lost = ServerClosed(why, self.address, code)
                lost.__cause__ = error
                future.set_exception(lost)

    async def _obituary(self, error: BaseException | None) -> tuple[str, int | None]:
        lost = f"the connection to the pool at {self.address} is lost: {error or 'it was closed from there'}"
        if isinstance(error, TimeoutError):
            return lost, None  # its main pool's machine is the same
        if self.link is not None and self.link.pid == self.pid is not None and not _lives(self.pid):
            lost = f"the process of the pool at {self.address} (pid {self.pid}) has ended"
        return await self._peers.obituary(self.address, self.pid) or (lost, None)


def _local(address: str) -> tuple[socket.socket | None, str]:
    """Return the Unix socket of an address, connected, if it leads to a process of this user; else whose it is, if known.

    Nothing is sent before that is known.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    foreign = ""
    try:
        sock.setblocking(False)
        sock.connect(addresses.local_name(address))
        if owners.is_own(sock):
            return sock, ""
        foreign = f"its name is held by a process of user {owners.credentials(sock)[1]}"
    except OSError:
        pass  # nobody is there; or its queue is full: TCP waits where this does not
    sock.close()
    return None, foreign


_EXITING = 0x4


def _lives(pid: int) -> bool:
    """Whether a process of this machine runs; one that is about to end, or not waited for yet, does not."""
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
        The address of the main pool of the group that this loop serves: it is asked about pools that were never met.
    secret : bytes or None
        The key that peers must have, where it is not the process's.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Peers]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._peers: dict[str, Peer] = {}
        self._opening: dict[str, asyncio.Task[Peer]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # The main pools of the addresses that were met.
        self._mains: dict[str, str] = {}
        self.home = ""
        self.secret: bytes | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; it is not kept alive."""
        loop = self._loop()
        assert loop is not None
        return loop

    @classmethod
    def here(cls) -> Peers:
        """Return those of the running loop."""
        loop = asyncio.get_running_loop()
        found = cls._of.get(loop)
        if found is None:
            for other, peers in list(cls._of.items()):
                if other.is_closed():
                    peers.let_go()  # nobody has hung up
                    cls._of.pop(other, None)  # another thread may have done it
            found = cls._of[loop] = cls(loop)
        return found

    def let_go(self) -> None:
        """Close the sockets, and nothing else; see `Link.let_go`."""
        for peer in self._peers.values():
            if peer.link is not None:
                peer.link.let_go()
        self._peers.clear()

    def met(self, address: str, main: str) -> str:
        """Remember a pool's main pool; return how that is reached from here."""
        main = addresses.seen_from(main, address)
        if len(self._mains) >= _REMEMBERED:
            self._mains.clear()
        self._mains[address] = main
        return main

    def main_of(self, address: str) -> str:
        """Return the address of a pool's main pool, as far as is known: that of our own group if nothing is."""
        return self._mains.get(address) or self.home

    async def obituary(self, address: str, pid: int | None) -> tuple[str, int | None] | None:
        """Return how a pool's process ended; None if nobody can say. Only its main pool knows."""
        main = self.main_of(address)
        if main in ("", address):
            return None
        with contextlib.suppress(Exception):
            asked = self.request(main, ASK, ("obituary",), (address, pid))
            return await wait_for(asked, _OBITUARY)
        return None

    def key(self) -> bytes:
        """Return the key that peers must have."""
        return auth.key() if self.secret is None else self.secret

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
            opening.add_done_callback(lambda done: self._opened(address, done))
        return await asyncio.shield(opening)

    def _opened(self, address: str, opening: asyncio.Task[Peer]) -> None:
        self._opening.pop(address, None)
        if not opening.cancelled():
            opening.exception()  # all who waited may have been cancelled

    async def _open(self, address: str) -> Peer:
        peer = Peer(self, address)
        try:
            await peer.connect()
        except NotAuthenticated:
            raise
        except OSError as error:
            known = None if isinstance(error, TimeoutError) else await self.obituary(address, None)
            why, code = known or (f"nobody can be reached at {address}: {error}", None)
            raise ServerClosed(why, address, code) from error
        assert peer.link is not None
        if peer.link.closed:
            # It has ended already, and would be kept for good.
            raise ServerClosed(f"the pool at {address} has ended the connection at its beginning", address)
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


async def ask_pool(address: str | None, what: str, value: Any) -> Any:
    """Ask a pool something, also if it is in this event loop.

    Raises
    ------
    ValueError
        No address is given.
    """
    if address is None:
        raise ValueError("which pool? Give an address: this process has no pool of its own")
    pool = local_pool(address)
    return await (pool.answer(what, value) if pool is not None else Peers.here().ask(address, what, value))


async def store_of(main: str) -> Store | None:
    """Return the store of the group of the main pool at that address; None if it has none.

    Raises
    ------
    LookupError
        The address is not known yet.
    """
    if not main:
        raise LookupError("the peer has not said yet of which group it is")
    pool = local_pool(main)
    if pool is not None:
        found: Store | None = await pool.store.get()
        return found
    address = await Peers.here().ask(main, "store", None)
    return None if address is None else await shared.connected(address)
