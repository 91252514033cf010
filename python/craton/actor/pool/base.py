"""The base class of pools: holds actors, listens on sockets, and dispatches the messages that arrive."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import os
import secrets
import socket
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, ClassVar

from craton.actor import debug
from craton.actor.actors import Ticket, is_final, is_plain, receives_plainly
from craton.actor.errors import ActorAlreadyExist, ActorNotExist, ActorPoolNotStarted, SendMessageFailed
from craton.actor.pool.config import ActorPoolConfig
from craton.actor.pool.duration_histogram import DurationHistogram
from craton.actor.pool.recreation import PendingRecreation
from craton.actor.pools import register_pool
from craton.actor.wire import addresses, bulk, frames, owners, shared, tls
from craton.actor.wire.exceptions import sendable
from craton.actor.wire.keepalive import enable_keepalive
from craton.actor.wire.link import Link
from craton.actor.wire.peers import ASK, BATCH, CALL, CANCEL, ERROR, HELLO, RESULT, Peers, store_of
from craton.actor.wire.unauthenticated import RateLimitedWarnings, Unauthenticated, pause
from craton.serialize.decoding import unpickle

logger = logging.getLogger("craton.actor")

Handler = Callable[..., Awaitable[Any]]

# Seconds that cancelled actors and calls have to clean up when the pool ends.
TIDY = 0.5


class Pool:
    """Actors of this process that are reached at one address.

    Attributes
    ----------
    external_address : str
        The configured address.
    advertised : str
        The address that its actors pass on: as `external_address`, but with this machine's own host in place of a
        wildcard such as ``0.0.0.0``. Set when the pool listens.
    secured : LoadedTLS or None
        The TLS settings of its connections between machines; None without TLS.
    actors : dict
        The actors, by uid.
    recreation : PendingRecreation or None
        In a restarted process, delays calls of actors that have not been recreated yet; None otherwise.
    """

    handlers: ClassVar[dict[str, Handler]] = {}
    """The handlers of requests to the pool itself, by the request's name."""

    def __init__(self, config: ActorPoolConfig, process_index: int) -> None:
        self.config, self.process_index = config, process_index
        self.loop = asyncio.get_running_loop()
        self.actors: dict[bytes, Any] = {}
        self.recreation: PendingRecreation | None = None
        self._leaving: set[bytes] = set()
        self.stopped = False
        self.advertised = ""
        self.counted = {"calls": 0, "errors": 0, "received": 0, "sent": 0}
        self.durations = DurationHistogram()
        self._listening: list[socket.socket] = []
        self._links: set[Link] = set()
        self.unauthenticated, self._warn = Unauthenticated(), RateLimitedWarnings()
        self._running: dict[tuple[Link, int], asyncio.Task[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._key, self.secured = Peers.here().key(), tls.current()
        self._done = asyncio.Event()
        self._visitors = itertools.count(1)

    # ---- its address ----

    @property
    def external_address(self) -> str:
        """The address at which the pool is reached."""
        return self.config.get_external_address(self.process_index)

    @property
    def main_address(self) -> str:
        """The address of the group's main pool."""
        return self.config.get_external_addresses()[0]

    def listen(self) -> None:
        """Listen at the configured address, on TCP and on a Unix socket; a free port is chosen if none is given.

        Raises
        ------
        OSError
            The port is taken, or the host is not this machine's.
        ValueError
            TLS is configured without a certificate of this process.
        """
        if self.secured is not None and self.secured.server is None:
            raise ValueError(
                f"a pool with TLS needs a certificate: only the authorities {self.secured.tls.ca} are given; "
                f"set {tls.VARIABLE}CERT"
            )
        conf = self.config.pools[self.process_index]
        host, port = addresses.split(conf.address)
        scheme = conf.address.rpartition("://")[0]
        tcp = addresses.listen_tcp(conf.listen or host, port)
        self._listening.append(tcp)
        if port is None:
            joined = addresses.join(host, tcp.getsockname()[1])
            conf.address = f"{scheme}://{joined}" if scheme else joined
        self.advertised = addresses.advertised(conf.address)
        for address in {conf.address, self.advertised}:
            local = addresses.listen_unix(address)
            if local is not None:
                self._listening.append(local)
            else:
                self._warn(
                    "Another user holds the name of the Unix socket of %s; clients will connect over TCP", address
                )
        for sock in self._listening:
            self.loop.add_reader(sock.fileno(), self._accept, sock)
        register_pool(self)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(64):
            try:
                sock, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._warn("%s cannot accept a connection: %s", self.external_address, error)
                self.unauthenticated.drop_oldest()
                pause(self.loop, listening.fileno(), functools.partial(self._accept_again, listening))
                return
            if sock.family == socket.AF_UNIX:
                if not owners.is_same_user(sock):
                    self._warn(
                        "%s drops a client: it is a process of user %s, and this pool runs as user %d",
                        self.external_address,
                        owners.credentials(sock)[1],
                        os.geteuid(),
                    )
                    sock.close()
                    continue
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                enable_keepalive(sock)
            name = f"client {next(self._visitors)}"
            link = tls.link(self.loop, sock, self, self._key, True, name, self.secured)
            if link.closed:
                continue  # the client has disconnected already
            shared.share(link, sock, self._home)
            bulk.open_channel(link, sock, client=False)
            link.ready.add_done_callback(functools.partial(self._greet, link))
            self._links.add(link)
            self.unauthenticated.add(link)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self.loop.add_reader(listening.fileno(), self._accept, listening)

    async def _home(self) -> Any:
        return await store_of(self.main_address)

    def _greet(self, link: Link, _ready: object) -> None:
        if not link.closed:
            link.write(frames.pack((HELLO, 0), {"main": self.main_address, "pid": os.getpid()}))

    # ---- messages ----

    def on_message(self, link: Link, message: tuple[Any, ...]) -> None:
        """Handle a message from a client."""
        kind, number = message[0], message[1]
        ticket = None
        if kind in (CALL, BATCH):
            _, _, uid, name, steps, value = message
            actor = self.actors.get(uid)
            if self.recreation is not None and self.recreation.must_wait(link, uid, actor):
                self._begin(link, number, self.recreation.deferred(link, kind, uid, name, steps, value))
                return
            if (
                kind == CALL
                and actor is not None
                and steps is None
                and type(value) is tuple
                and debug._options is None
                and self._is_plain(actor, name)
            ):
                self._call_now(link, number, actor, name, value)
                return
            # Taking the ticket now, and not in the task, runs the calls in the order in which they arrived.
            ticket = None if actor is None or not receives_plainly(type(actor)) else actor.ticket(name)
            work = self.handle(kind, uid, name, steps, value, ticket)
        elif kind == ASK:
            work = self.handle_request(message[2], message[3], link)
        elif kind == CANCEL:
            task = self._running.get((link, message[2]))
            if task is not None:
                # Not before the task's first step: a task that is cancelled before it never runs, and could not answer.
                self.loop.call_soon(task.cancel)
            return
        else:
            raise ValueError(f"the message has the unknown kind {kind!r}")
        self._begin(link, number, work, ticket)

    def _begin(self, link: Link, number: int, work: Coroutine[Any, Any, Any], ticket: Ticket | None = None) -> None:
        task = self.loop.create_task(self._respond(link, number, work))
        if number:
            self._running[link, number] = task
        else:
            self._tasks.add(task)

        def ended(_: object) -> None:
            if number:
                self._running.pop((link, number), None)
            else:
                self._tasks.discard(task)
            # A task that was cancelled before its first step has neither awaited its coroutine nor released its ticket.
            work.close()
            if ticket is not None:
                ticket.release()

        task.add_done_callback(ended)

    def _is_plain(self, actor: Any, name: str) -> bool:
        turn = actor._turn
        if turn is not None and not turn.free:
            return False
        plain = actor._plain.get(name)
        if plain is None:
            plain = actor._plain[name] = is_plain(type(actor), name)
        return plain and name not in actor.__dict__

    def _call_now(self, link: Link, number: int, actor: Any, name: str, value: Any) -> None:
        # Without a task and without taking the lock: nothing else can run before the plain method returns.
        self.counted["calls"] += 1
        began = perf_counter()
        try:
            result = getattr(actor, name)(*value[0], **value[1])
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.durations.record(perf_counter() - began)
            self._refuse(link, number, error)
            return
        self.durations.record(perf_counter() - began)
        if is_final(result):
            if number:
                self._give(link, number, result)
            return
        ticket = actor.ticket(name) if isinstance(result, Coroutine) else None
        self._begin(link, number, actor.finish_call(result, ticket), ticket)

    async def _respond(self, link: Link, number: int, work: Coroutine[Any, Any, Any]) -> None:
        try:
            result = await work
        except (SystemExit, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            self._refuse(link, _signed(number), error)
        else:
            if number:
                self._give(link, _signed(number), result)

    def _give(self, link: Link, number: int, result: Any) -> None:
        try:
            pieces = link.pack((RESULT, number), result)
        except SendMessageFailed as error:
            error.args = (f"the result {error}",)
            self._refuse(link, number, error)
        else:
            link.write(pieces)
            if link.full:
                link.pause_reading()

    def _refuse(self, link: Link, number: int, error: BaseException) -> None:
        self.counted["errors"] += 1
        text = f"at {self.external_address}, process {os.getpid()}:\n" + "".join(traceback.format_exception(error))
        if not number:
            logger.error("A call that was sent without waiting for its result failed, %s", text)
            return
        link.write(frames.pack((ERROR, number, text), sendable(error)))

    def on_lost(self, link: Link, error: BaseException | None) -> None:
        """Forget a client that has disconnected, and cancel its calls."""
        if link in self._links:
            self._links.remove(link)
            self.counted["received"] += link.received
            self.counted["sent"] += link.sent
        if error is not None and not isinstance(error, (ConnectionResetError, BrokenPipeError)):
            self._warn("%s drops %s: %s: %s", self.external_address, link.peer, type(error).__name__, error)
        for (whose, _), task in list(self._running.items()):
            if whose is link:
                task.cancel()

    async def handle(
        self, kind: int, uid: bytes, name: str, steps: Any, value: Any, ticket: Ticket | None = None
    ) -> Any:
        """Call a method of an actor of this pool, and return its result.

        Raises
        ------
        ActorNotExist
            The pool has no such actor.
        """
        self.counted["calls"] += 1
        if self.recreation is not None and uid not in self.actors:
            await self.recreation.wait(uid)
        actor = self._resident(uid)
        if type(value) is frames.Undecodable:
            self._warn("The arguments of %s at %s cannot be read: %s", name, self.external_address, value.error)
            raise value.error
        began = perf_counter()
        try:
            if debug._options is None:
                return await self._received(actor, kind, name, value, ticket)
            with (
                debug.track_call(steps, name, uid),
                debug.warn_if_slow("process_message_timeout", "%r of actor %s is running", name, uid),
            ):
                return await self._received(actor, kind, name, value, ticket)
        finally:
            self.durations.record(perf_counter() - began)

    async def _received(self, actor: Any, kind: int, name: str, value: Any, ticket: Ticket | None) -> Any:
        message = (name, 1, value, None) if kind == BATCH else (name, 0, *value)
        if receives_plainly(type(actor)):
            return await actor.receive(*message, ticket)
        return await actor.__on_receive__(message)

    async def handle_request(self, what: str, value: Any, link: Link | None = None) -> Any:
        """Handle a request to the pool itself; ``link`` is the client's connection, None for this process."""
        if self.stopped:
            raise ActorPoolNotStarted(f"the pool at {self.external_address} has stopped")
        found = self.handlers.get(what)
        if found is None:
            raise ValueError(f"a pool has no request {what!r}; the known ones are {sorted(self.handlers)}")
        if type(value) is frames.Undecodable:
            raise value.error
        return await found(self, value, link)

    # ---- actors ----

    async def create(self, uid: bytes | None, spec: bytes) -> bytes:
        """Create an actor in this pool from `pickle_actor`'s bytes; return its uid.

        Raises
        ------
        ActorAlreadyExist
            The pool has an actor of that uid.
        """
        actor = self.make(uid, *unpickle(spec))
        try:
            await actor.__post_create__()
        except BaseException:
            self.forget(actor)
            raise
        return actor.uid

    def make(self, uid: bytes | None, kind: Any, args: Any, kwargs: Any) -> Any:
        """Construct and register an actor; the caller runs its `__post_create__`.

        Raises
        ------
        ActorAlreadyExist
            The pool has an actor of that uid.
        """
        uid = uid or secrets.token_hex(16).encode()
        if uid in self.actors:
            raise ActorAlreadyExist(f"the pool at {self.external_address} already has an actor {uid!r}")
        actor = kind.__new__(kind, *args, **kwargs)
        actor.uid, actor.address = uid, self.advertised
        actor.__init__(*args, **kwargs)
        self.actors[uid] = actor
        return actor

    def _resident(self, uid: bytes) -> Any:
        actor = self.actors.get(uid)
        if actor is None:
            raise ActorNotExist(f"there is no actor {uid!r} at {self.external_address}")
        return actor

    def forget(self, actor: Any) -> None:
        """Unregister an actor."""
        uid = actor.uid
        if self.actors.get(uid) is actor:
            del self.actors[uid]

    async def wait_recreated(self, uid: bytes | None) -> None:
        """In a restarted process, wait until an actor has been recreated, or all have been.

        Raises
        ------
        ActorPoolNotStarted
            The wait timed out.
        """
        if self.recreation is not None and uid is not None and uid not in self.actors:
            await self.recreation.wait(uid)

    async def created(self, address: str, specs: dict[bytes, bytes]) -> None:
        """Record how to recreate actors of a sub pool. A pool that recreates none has nothing to record."""

    async def destroy(self, uid: bytes) -> None:
        """Destroy an actor of this pool.

        Raises
        ------
        ActorNotExist
            The pool has no such actor, or it is already being destroyed.
        """
        actor = self._resident(uid)
        if uid in self._leaving:
            raise ActorNotExist(f"the actor {uid!r} at {self.external_address} is being destroyed already")
        self._leaving.add(uid)
        try:
            await actor.__pre_destroy__()
        finally:
            self._leaving.discard(uid)
        self.forget(actor)
        for stream in list(actor._streams.values()):
            await stream.close(in_turn=False)
        actor._streams.clear()

    async def pre_destroy_all(self, timeout: float | None = None) -> None:
        """Run the `__pre_destroy__` of all actors, with a timeout in seconds; their exceptions are logged."""
        tasks = [
            self.loop.create_task(_pre_destroy(actor))
            for uid, actor in list(self.actors.items())
            if uid not in self._leaving
        ]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=TIDY)

    def use_key(self, key: bytes) -> None:
        """Require this key of later connections of this pool and its event loop, and of sub pools that are added later."""
        self._key = Peers.here().secret = key

    async def find(self, uid: bytes) -> str | None:
        """Return the address of the pool of the group in which an actor lives, or None."""
        raise NotImplementedError

    # ---- life ----

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in the background; it is cancelled when the pool closes."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def join(self, timeout: float | None = None) -> None:
        """Wait until the pool has stopped, or ``timeout`` seconds have passed."""
        try:
            await asyncio.wait_for(self._done.wait(), timeout)
        except TimeoutError:
            return

    def close(self) -> None:
        """Stop listening, close all connections, and drop the actors."""
        self.stopped = True
        for sock in self._listening:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self._listening.clear()
        for link in list(self._links):
            link.close()
        for task in [*self._running.values(), *self._tasks]:
            if task is not asyncio.current_task():
                task.cancel()
        self.actors.clear()
        Peers.here().close({self.external_address})
        self._done.set()


async def _pre_destroy(actor: Any) -> None:
    try:
        await actor.__pre_destroy__()
    except Exception:
        logger.exception("The __pre_destroy__ of actor %r failed", actor.uid)


def _signed(number: int) -> int:
    # A negative number marks the answer of a call that completed although it was cancelled.
    task = asyncio.current_task()
    return -number if task is not None and task.cancelling() else number


def request_handler(what: str, with_link: bool = False) -> Callable[[Handler], Handler]:
    """Declare the handler of a request to a pool.

    Parameters
    ----------
    what : str
        The request's name; see `ask_pool`.
    with_link : bool
        Pass the client's `Link` (None for this process) as a third argument, after the pool and the value.
    """

    def declare(function: Handler) -> Handler:
        Pool.handlers[what] = function if with_link else lambda pool, value, _link: function(pool, value)
        return function

    return declare


@request_handler("create")
async def _create(pool: Any, value: Any) -> Any:
    return await pool.create_in_group(*value)


@request_handler("destroy")
async def _destroy(pool: Any, uid: Any) -> None:
    if uid in pool.actors:
        await pool.destroy(uid)
        await pool.destroyed(uid)
        return
    where = await _found(pool, uid)
    if where == pool.external_address:
        await _destroy(pool, uid)
    else:
        await Peers.here().ask(where, "destroy", uid)


@request_handler("find")
async def _found(pool: Any, uid: Any) -> str:
    where = pool.external_address if uid in pool.actors else await pool.find(uid)
    if where is None:
        await pool.wait_recreated(uid)
        if uid not in pool.actors:
            raise ActorNotExist(f"there is no actor {uid!r} in the group of {pool.external_address}")
        where = pool.external_address
    return where


@request_handler("has")
async def _has(pool: Any, uid: Any) -> bool:
    try:
        await _found(pool, uid)
    except ActorNotExist:
        return False
    return True


@request_handler("has here")
async def _has_here(pool: Any, uid: Any) -> bool:
    return uid in pool.actors


@request_handler("config")
async def _config(pool: Any, _: Any) -> ActorPoolConfig:
    return pool.config


@request_handler("main")
async def _main(pool: Any, _: Any) -> str:
    return pool.main_address
