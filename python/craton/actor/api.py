"""What users call."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import os
from typing import Any, Literal

import cloudpickle

from craton.actor.allocate_strategy import AddressSpecified, AllocateStrategy
from craton.actor.errors import SendMessageFailed
from craton.actor.pool.config import ActorPoolConfig, PoolConf
from craton.actor.pool.main import MainActorPool
from craton.actor.pools import all_pools
from craton.actor.refs import ActorRef, as_ref, local_actor, make_ref
from craton.actor.wire import addresses
from craton.actor.wire.peers import Peers, ask_pool
from craton.actor.wire.tls import TLS

_RECOVERIES = ("actor", "process", False)
# Options of Xoscar's that are taken and have no effect here: there is one kind of pool, its processes are always fresh
# ones, they connect to each other without proxies, and metrics are counted in any case.
_IGNORED = ("pool_cls", "proxy_conf", "metrics", "subprocess_start_method")


async def create_actor_pool(
    address: str,
    n_process: int | None = None,
    *,
    labels: list[str | None] | None = None,
    ports: list[int] | None = None,
    envs: list[dict[str, str]] | None = None,
    external_address_schemes: list[str | None] | None = None,
    enable_internal_addresses: list[bool] | None = None,
    auto_recover: str | bool = "actor",
    modules: list[str] | None = None,
    suspend_sigint: bool | None = None,
    use_uvloop: str | bool = "auto",
    logging_conf: dict[str, Any] | None = None,
    on_process_down: Any = None,
    on_process_recover: Any = None,
    extra_conf: dict[str, Any] | None = None,
    start_python: list[str | None] | str | None = None,
    listen: str | None = None,
    tls: TLS | Literal[False] | None = None,
    **others: Any,
) -> MainActorPool:
    """Start a group of pools: a main one in this process, and sub pools in processes of their own.

    Xoscar's options that have no meaning here are taken, too, and have no effect: `external_address_schemes`,
    `enable_internal_addresses`, `suspend_sigint`, `pool_cls`, `proxy_conf`, `metrics`, `subprocess_start_method`.

    Parameters
    ----------
    address : str
        ``host:port`` that the main pool is reached at; a free port if only the host is given.
    n_process : int, optional
        Sub pools; as many as there are processors by default.
    labels : list of str, optional
        Labels of all pools, the main one's first.
    ports : list of int, optional
        Ports of the sub pools, or of all pools if the address has none.
    envs : list of dict, optional
        Environment variables of each sub pool.
    auto_recover : {"actor", "process", True, False}
        What is made again when a sub pool's process dies: the process and its actors, from what they were created
        with; only the process; nothing.
    modules : list of str, optional
        What every sub pool imports first.
    use_uvloop : bool or "auto"
        Run the sub pools' loops on uvloop, where it is installed.
    logging_conf : dict, optional
        ``{"file": ...}``, ``{"dict": ...}`` or ``{"level": ..., "format": ...}`` for the sub pools.
    on_process_down, on_process_recover : callable, optional
        Called with the pool and an address when a sub pool's process has died, and when it is there again; may be
        ``async``. What they raise is logged.
    start_python : str or list of str, optional
        The interpreter of all, or of each, of the sub pools.
    listen : str, optional
        The host to listen at, such as ``0.0.0.0``, where it is not the one in `address`.
    tls : TLS or False, optional
        What encrypts connections between machines, for the pools of the group and for the connections that their
        processes make, until the group is stopped; False for nothing. By default, what ``CRATON_ACTOR_TLS_CERT``,
        ``_KEY`` and ``_CA`` in the environment say.

    Returns
    -------
    MainActorPool

    Raises
    ------
    ValueError
        Lists of another length than there are pools; an address that is none; files for TLS that are none.
    OSError
        A port is taken, or a host is not this machine's, or a file for TLS is not there.
    TypeError
        An option is not known.
    """
    for name in others:
        if name not in _IGNORED:
            raise TypeError(f"create_actor_pool() has no option {name!r}{_meant(name)}")
    count = (os.cpu_count() or 1) if n_process is None else n_process
    for name, given, length in (
        ("labels", labels, count + 1),
        ("envs", envs, count),
        ("start_python", start_python if isinstance(start_python, list) else None, count),
        ("external_address_schemes", external_address_schemes, count + 1),
        ("enable_internal_addresses", enable_internal_addresses, count + 1),
    ):
        if given and len(given) != length:
            raise ValueError(f"`{name}` has {len(given)} values, and with {count} sub pools it needs {length}")
    if auto_recover is True:
        auto_recover = "actor"
    if auto_recover not in _RECOVERIES:
        raise ValueError(f"`auto_recover` is one of 'actor', 'process', True and False, not {auto_recover!r}")
    host, port = addresses.split(address)
    if extra_conf and extra_conf.get("listen_elastic_ip") and listen is None:
        listen = "::" if ":" in host else "0.0.0.0"
    given_ports: list[int | None] = list(ports or [])
    if given_ports:
        if len(given_ports) != count + (port is None):
            raise ValueError(f"`ports` has {len(given_ports)} values, and {count + (port is None)} pools need one")
        if port is None:
            port = given_ports.pop(0)
    config = ActorPoolConfig()
    for index in range(count + 1):
        own = port if index == 0 else (given_ports[index - 1] if given_ports else None)
        pythons = start_python if isinstance(start_python, list) else [start_python] * count
        config.pools[index] = PoolConf(
            addresses.join(host, own),
            labels[index] if labels else None,
            envs[index - 1] if envs and index else None,
            modules,
            pythons[index - 1] if index else None,
            logging_conf,
            listen,
        )
    if addresses.split(address)[1] is not None:
        config.pools[0].address = address  # as it was written
    pool = MainActorPool(config, auto_recover, on_process_down, on_process_recover, use_uvloop, tls)
    await pool.start()
    return pool


def _meant(name: str) -> str:
    known = inspect.signature(create_actor_pool).parameters
    close = difflib.get_close_matches(name, known, 1)
    return f": did you mean {close[0]!r}?" if close else ""


def describe_actor(actor_cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return what an actor is made from, for `create`.

    Raises
    ------
    SendMessageFailed
        The class or an argument cannot be pickled.
    """
    try:
        return cloudpickle.dumps((actor_cls, args, kwargs), 5)
    except Exception as error:
        what = f"what a {actor_cls.__name__} is made from"
        raise SendMessageFailed(f"{what} cannot be sent: {type(error).__name__}: {error}") from error


async def create_actor(actor_cls: type, *args: Any, uid: Any = None, address: str | None = None, **kwargs: Any) -> Any:
    """Create an actor.

    Parameters
    ----------
    actor_cls : type
        A subclass of `Actor` or `StatelessActor`.
    *args, **kwargs
        What it is made with; also ``allocate_strategy``, which chooses a pool of the group.
    uid : str or bytes, optional
        Its name; a random one by default.
    address : str, optional
        The pool; this process's, or the calling actor's, by default.

    Returns
    -------
    ActorRef

    Raises
    ------
    ActorAlreadyExist
        The name is taken.
    """
    strategy = kwargs.get("allocate_strategy")
    if isinstance(strategy, AllocateStrategy):
        kwargs.pop("allocate_strategy")
    else:
        strategy = None
    address = address or default_address()
    if isinstance(strategy, AddressSpecified):
        address, strategy = strategy.address, None
    name = uid.encode() if isinstance(uid, str) else uid
    if name is not None and type(name) is not bytes:
        raise TypeError(f"the uid of an actor is text or bytes, not {type(uid).__name__}")
    where, found = await ask_pool(address, "create", (name, describe_actor(actor_cls, args, kwargs), strategy))
    return make_ref(_reachable(where, address), found)


def default_address() -> str | None:
    """Return the address of this process's pool, if it has one."""
    loop = asyncio.get_running_loop()
    mine = [pool for pool in all_pools() if pool.loop is loop and not pool.stopped]
    return mine[0].external_address if mine else None


def _reachable(address: str, through: str | None) -> str:
    # A pool that listens everywhere is reached where it was reached before.
    return address if through is None else addresses.seen_from(address, through)


async def actor_ref(*args: Any, **kwargs: Any) -> ActorRef:
    """Return a reference to an actor that exists: by ``(ref)``, ``(uid, address=...)`` or ``(address, uid)``.

    Raises
    ------
    ActorNotExist
        No actor of that name lives in the group of that address.
    """
    ref = as_ref(*args, **kwargs)
    address = ref.address or default_address()
    if address is not None and local_actor(address, ref.uid) is not None:
        return make_ref(address, ref.uid)
    where = await ask_pool(address, "find", ref.uid)
    return make_ref(_reachable(where, address), ref.uid)


async def has_actor(actor_ref: ActorRef) -> bool:
    """Return whether the actor exists."""
    ref = as_ref(actor_ref)
    return await ask_pool(ref.address, "has", ref.uid)


async def destroy_actor(actor_ref: ActorRef) -> None:
    """Destroy an actor.

    Raises
    ------
    ActorNotExist
        There is none.
    """
    await as_ref(actor_ref).destroy()


async def kill_actor(actor_ref: ActorRef) -> None:
    """Kill the process in which an actor lives, and everything else in it.

    Raises
    ------
    ValueError
        It is a main pool's.
    """
    ref = as_ref(actor_ref)
    main = await ask_pool(ref.address, "main", None)
    where = await ask_pool(ref.address, "find", ref.uid)
    if where == main:
        raise ValueError("an actor of a main pool cannot be killed: that would end the process which made the group")
    await ask_pool(main, "kill", where)


async def wait_actor_pool_recovered(address: str, main_pool_address: str | None = None) -> None:
    """Wait until a sub pool that was lost is there again, with its actors.

    Parameters
    ----------
    address : str
        The sub pool's.
    main_pool_address : str, optional
        Its main pool's; found out if it was spoken to before.

    Raises
    ------
    ServerClosed
        It is not made again, or could not be.
    """
    main = main_pool_address
    if main is None:
        try:
            main = await ask_pool(address, "main", None)
        except ConnectionError:
            main = Peers.here().main_of(address)
            if not main:
                raise
    if main is not None and main != address:
        await ask_pool(main, "recovered", address)


async def get_pool_config(address: str) -> ActorPoolConfig:
    """Return what the group of the pool at that address consists of."""
    return await ask_pool(address, "config", None)
