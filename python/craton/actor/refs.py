"""References to actors: the address of a pool and a uid, with the actor's methods as attributes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

from craton.actor import debug
from craton.actor.errors import ActorNotExist
from craton.actor.pools import local_pool
from craton.actor.wire.frames import simple
from craton.actor.wire.peers import BATCH, CALL, Peers, ask_pool

if TYPE_CHECKING:
    from craton.actor.actors import BaseActor

logger = logging.getLogger("craton.actor")


def local_actor(address: str, uid: bytes) -> BaseActor | None:
    """Return the actor object if its pool runs in this event loop, else None."""
    pool = local_pool(address)
    return None if pool is None else pool.actors.get(uid)


def make_ref(address: str, uid: Any) -> ActorRef:
    """Return a reference: a `LocalActorRef` if the actor lives in this event loop and the debugging mode is off."""
    name = uid.encode() if isinstance(uid, str) else uid
    actor = local_actor(address, name) if type(name) is bytes and debug._options is None else None
    return ActorRef(address, name) if actor is None else LocalActorRef(actor)


def as_ref(*args: Any, **kwargs: Any) -> ActorRef:
    """Return a reference from ``(ref)``, ``(uid, address=...)``, ``(address, uid)`` or `create_actor`'s arguments.

    The last form is ``(cls, *args, address=..., uid=...)``; class and arguments are ignored.

    Raises
    ------
    ValueError
        The arguments have none of these forms.
    """
    address, uid = kwargs.pop("address", None), kwargs.pop("uid", None)
    if kwargs:
        raise ValueError(f"a reference is made from an address and a uid; unexpected arguments {sorted(kwargs)}")
    if args and isinstance(args[0], type):
        args = ()  # the actor's class and constructor arguments do not identify it
    if len(args) == 2:
        if address is not None:
            raise ValueError("the address is given twice: by position and as `address`")
        address, uid = args
    elif len(args) == 1:
        if isinstance(args[0], ActorRef):
            address, uid = address or args[0].address, args[0].uid
        else:
            uid = args[0]
    elif args:
        raise ValueError(f"expected an address and a uid, not {len(args)} values")
    if isinstance(uid, str):
        uid = uid.encode()
    if type(uid) is not bytes:
        raise ValueError(f"the uid of an actor must be str or bytes, not {uid!r}")
    if isinstance(address, bytes):
        address = address.decode()
    return ActorRef(address, uid)


@simple
class ActorRef:
    """A reference to an actor; its attributes are the actor's methods.

    Attributes
    ----------
    address : str
        The pool's address.
    uid : bytes
        The actor's name in its group.
    """

    # Methods that were used are cached in ``__dict__``, so that later accesses bypass `__getattr__`.
    __slots__ = ("__dict__", "__weakref__", "address", "uid")

    def __init__(self, address: Any, uid: Any) -> None:
        self.address = address
        self.uid = uid.encode() if isinstance(uid, str) else uid

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = self.__dict__[name] = ActorRefMethod(self.address, self.uid, name)
        return method

    def destroy(self) -> Awaitable[Any]:
        return ask_pool(self.address, "destroy", self.uid)

    def __reduce__(self) -> tuple[Any, ...]:
        return make_ref, (self.address, self.uid)

    def __hash__(self) -> int:
        return hash((self.address, self.uid))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorRef) and (self.address, self.uid) == (other.address, other.uid)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(uid={self.uid!r}, address={self.address!r})"


class Delayed:
    """The arguments of a call that was not sent yet; see `ActorRefMethod.batch`."""

    __slots__ = ("args", "kwargs", "method")

    def __init__(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.method, self.args, self.kwargs = method, args, kwargs


def in_lists(method: str, delays: tuple[Delayed, ...]) -> tuple[list[Any], list[Any] | None]:
    """Return the ``args`` and ``kwargs`` of delayed calls of one method; None for ``kwargs`` if no call has any.

    Raises
    ------
    ValueError
        The delayed calls are of different methods.
    """
    names = {delay.method for delay in delays}
    if len(names) > 1 or (names and names != {method}):
        raise ValueError(f"a batch must call one method; these are delayed calls of {sorted(names | {method})}")
    keywords = [delay.kwargs for delay in delays] if any(delay.kwargs for delay in delays) else None
    return [delay.args for delay in delays], keywords


class ActorRefMethod:
    """A method of a referenced actor."""

    __slots__ = ("_address", "_name", "_uid")

    def __init__(self, address: str, uid: bytes, name: str) -> None:
        self._address, self._uid, self._name = address, uid, name

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Call the method: send the call, wait, and return its result or raise its exception."""
        return self._send(CALL, (args, kwargs))

    def send(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Call the method, as `__call__` does; Xoscar's name for it."""
        return self._send(CALL, (args, kwargs))

    def tell(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, None]:
        """Send the call without waiting for its result; an exception is only logged, where the actor lives."""
        return self._tell(CALL, (args, kwargs))

    def delay(self, *args: Any, **kwargs: Any) -> Delayed:
        """Return a delayed call, for `batch`."""
        return Delayed(self._name, args, kwargs)

    def batch(self, *delays: Delayed, send: bool = True) -> Coroutine[Any, Any, Any]:
        """Send several calls of the method as one message.

        Parameters
        ----------
        delays : Delayed
            Calls that `delay` returned.
        send : bool
            Wait for the results and return them; otherwise as `tell`.
        """
        lists = in_lists(self._name, delays)
        return self._send(BATCH, lists) if send else self._tell(BATCH, lists)

    def tell_delay(self, *args: Any, delay: float, ignore_conn_fail: bool = True, **kwargs: Any) -> asyncio.Task[None]:
        """Send the call, as `tell` does, after ``delay`` seconds."""

        async def later() -> None:
            await asyncio.sleep(delay)
            with contextlib.suppress(*[ConnectionError] * ignore_conn_fail):
                await self._tell(CALL, (args, kwargs))

        return asyncio.get_running_loop().create_task(later())

    def options(self, **_options: Any) -> ActorRefMethod:
        """Accept and ignore Xoscar's options; return the method."""
        return self

    def _send(self, kind: int, value: Any) -> Coroutine[Any, Any, Any]:
        if debug._options is not None:
            return self._watched(kind, value)
        return _route(self._address, self._uid, kind, self._name, None, value)

    async def _watched(self, kind: int, value: Any) -> Any:
        steps = debug.check_cycle(self._address, self._uid, self._name)
        text = "calling %r of actor %s at %s"
        with debug.warn_if_slow("actor_call_timeout", text, self._name, self._uid, self._address):
            return await _route(self._address, self._uid, kind, self._name, steps, value)

    async def _tell(self, kind: int, value: Any) -> None:
        pool = local_pool(self._address)
        if pool is not None:
            pool.spawn(self._handled(pool, kind, value))
            await asyncio.sleep(0)
            return
        peer = await Peers.here().get(self._address)
        peer.send(kind, (self._uid, self._name, None), value)
        if peer.link is not None and peer.link.full:
            await peer.link.drained()

    async def _handled(self, pool: Any, kind: int, value: Any) -> None:
        try:
            await pool.handle(kind, self._uid, self._name, None, value)
        except Exception:
            ref = ActorRef(self._address, self._uid)
            logger.exception("A call of %r of %r, sent without waiting for its result, failed", self._name, ref)


async def _route(address: str, uid: bytes, kind: int, name: str, steps: Any, value: Any) -> Any:
    pool = local_pool(address)
    if pool is not None:
        return await pool.handle(kind, uid, name, steps, value)
    peers = Peers.here()
    peer = peers.known(address) or await peers.get(address)
    return await peer.request(kind, (uid, name, steps), value)


@simple
class LocalActorRef(ActorRef):
    """A reference to an actor of this process: calls are direct, and arguments and results are not copied."""

    __slots__ = ("_actor_weakref",)

    def __init__(self, actor: BaseActor) -> None:
        super().__init__(actor.address, actor.uid)
        self._actor_weakref: weakref.ref[BaseActor] = weakref.ref(actor)

    def _actor(self) -> BaseActor:
        actor = self._actor_weakref()
        if actor is None or local_actor(self.address, self.uid) is not actor:
            actor = local_actor(self.address, self.uid)
            if actor is None:
                raise ActorNotExist(f"there is no actor {self.uid!r} at {self.address}")
            self._actor_weakref = weakref.ref(actor)
        return actor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if local_pool(self.address) is not None:
            getattr(self._actor(), name)  # raises AttributeError for a method that does not exist
        method = self.__dict__[name] = LocalActorRefMethod(self.address, self.uid, name)
        return method

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, actor={self._actor_weakref!r})"


class LocalActorRefMethod(ActorRefMethod):
    """A method of an actor of this process."""

    __slots__ = ()

    async def _send(self, kind: int, value: Any) -> Any:
        if debug._options is not None:
            return await super()._send(kind, value)
        pool = local_pool(self._address)
        if pool is None:
            # This is another event loop of the process, or the pool has stopped and another process serves its address.
            return await _route(self._address, self._uid, kind, self._name, None, value)
        return await pool.handle(kind, self._uid, self._name, None, value)
