"""The public functions that start groups of pools, and create, find and destroy actors."""

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
# Xoscar's options that are accepted for compatibility and ignored: Craton has one kind of pool, always starts fresh
# processes (no fork), connects them without proxies, and always collects metrics.
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
    """Start a group of pools: a main pool in this process, and each sub pool in a separate process.

    These options of Xoscar are accepted and ignored: `enable_internal_addresses`, `suspend_sigint`, `pool_cls`, `proxy_conf`,
    `metrics`, `subprocess_start_method`.

    Parameters
    ----------
    address : str
        ``host:port`` of the main pool; a free port is chosen if only the host is given.
    n_process : int, optional
        Number of sub pools; by default the number of processors.
    labels : list of str, optional
        Labels of all pools, the main pool's first.
    ports : list of int, optional
        Ports of the sub pools; of all pools, the main pool's first, if `address` has no port.
    envs : list of dict, optional
        Environment variables of each sub pool.
    external_address_schemes : list of str, optional
        With ``"ucx"`` among them, large values between machines are sent by UCX: see ``CRATON_ACTOR_TRANSPORT``. Others are ignored.
    auto_recover : {"actor", "process", True, False}
        What is restarted when a sub pool's process dies: ``"actor"`` or True, the process and its actors, which are
        created again with their original arguments; ``"process"``, only the process; False, nothing.
    modules : list of str, optional
        Modules that every sub pool imports before it serves.
    use_uvloop : bool or "auto"
        Run the sub pools' loops on uvloop, where it is installed.
    logging_conf : dict, optional
        ``{"file": ...}``, ``{"dict": ...}`` or ``{"level": ..., "format": ...}`` for the sub pools.
    on_process_down, on_process_recover : callable, optional
        Called as ``function(pool, address)`` when a sub pool's process has died, and when it has been restarted; may be
        ``async``. Exceptions from them are logged.
    start_python : str or list of str, optional
        The Python interpreter of all sub pools, or of each.
    listen : str, optional
        The host to listen on, such as ``0.0.0.0``; by default the one in `address`.
    tls : TLS or False, optional
        The certificates for connections between machines, both those that the group's pools accept and those that
        their processes open, until the group is stopped. False disables TLS. By default, the files that
        ``CRATON_ACTOR_TLS_CERT``, ``_KEY`` and ``_CA`` in the environment name.

    Returns
    -------
    MainActorPool

    Raises
    ------
    ValueError
        A list does not have one value for each pool; an address or a TLS file is malformed.
    OSError
        A port is taken, a host is not this machine's, or a TLS file does not exist.
    TypeError
        An option is unknown.
    ModuleNotFoundError
        UCX was chosen and is not installed.
    """
    for name in others:
        if name not in _IGNORED:
            raise TypeError(f"create_actor_pool() has no option {name!r}{_did_you_mean(name)}")
    count = (os.cpu_count() or 1) if n_process is None else n_process
    pythons = start_python if isinstance(start_python, list) else [start_python] * count
    for name, given, length in (
        ("labels", labels, count + 1),
        ("envs", envs, count),
        ("start_python", pythons, count),
        ("external_address_schemes", external_address_schemes, count + 1),
        ("enable_internal_addresses", enable_internal_addresses, count + 1),
    ):
        if given and len(given) != length:
            raise ValueError(f"`{name}` has {len(given)} values; with {count} sub pools it needs {length}")
    if auto_recover is True:
        auto_recover = "actor"
    if auto_recover not in _RECOVERIES:
        raise ValueError(f"`auto_recover` must be one of 'actor', 'process', True and False, not {auto_recover!r}")
    if extra_conf and extra_conf.get("listen_elastic_ip") and listen is None:
        listen = "::" if ":" in addresses.split(address)[0] else "0.0.0.0"
    config = ActorPoolConfig()
    labels = labels or [None] * (count + 1)
    environments: list[dict[str, str] | None] = [None, *envs] if envs else [None] * (count + 1)
    for index, own in enumerate(_pool_addresses(address, count, ports)):
        python = pythons[index - 1] if index else None
        config.pools[index] = PoolConf(own, labels[index], environments[index], modules, python, logging_conf, listen)
    ucx = "ucx" in (external_address_schemes or ())
    pool = MainActorPool(config, auto_recover, on_process_down, on_process_recover, use_uvloop, tls, ucx)
    await pool.start()
    return pool


def _pool_addresses(address: str, count: int, ports: list[int] | None) -> list[str]:
    """The addresses of the main pool and of `count` sub pools; 0 or no port means that the pool chooses a free one.

    Raises
    ------
    ValueError
        `ports` does not have one port for each pool that needs one.
    """
    host, port = addresses.split(address)
    # The main pool's address stays as the user wrote it, such as with a scheme.
    main = [] if port is None else [address]
    if not ports:
        return main + [addresses.join(host, None)] * (count + 1 - len(main))
    if len(ports) != count + 1 - len(main):
        raise ValueError(f"`ports` has {len(ports)} values; {count + 1 - len(main)} pools need a port each")
    return main + [addresses.join(host, own) for own in ports]


def _did_you_mean(name: str) -> str:
    known = inspect.signature(create_actor_pool).parameters
    close = difflib.get_close_matches(name, known, 1)
    return f": did you mean {close[0]!r}?" if close else ""


def pickle_actor(actor_cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Pickle the class and the arguments of an actor, for `Pool.create`.

    Raises
    ------
    SendMessageFailed
        The class or an argument cannot be pickled.
    """
    try:
        return cloudpickle.dumps((actor_cls, args, kwargs), 5)
    except Exception as error:
        what = f"the class or the arguments of a {actor_cls.__name__}"
        raise SendMessageFailed(f"{what} cannot be pickled: {type(error).__name__}: {error}") from error


async def create_actor(actor_cls: type, *args: Any, uid: Any = None, address: str | None = None, **kwargs: Any) -> Any:
    """Create an actor.

    Parameters
    ----------
    actor_cls : type
        A subclass of `Actor` or `StatelessActor`.
    *args, **kwargs
        Passed to the class. A keyword ``allocate_strategy`` that is an `AllocateStrategy` chooses a pool of the group.
    uid : str or bytes, optional
        The actor's name; a random one by default.
    address : str, optional
        The address of a pool of the group; by default this process's pool.

    Returns
    -------
    ActorRef

    Raises
    ------
    ActorAlreadyExist
        The pool has an actor of that uid.
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
        raise TypeError(f"the uid of an actor must be str or bytes, not {type(uid).__name__}")
    where, found = await ask_pool(address, "create", (name, pickle_actor(actor_cls, args, kwargs), strategy))
    return make_ref(_reachable(where, address), found)


def default_address() -> str | None:
    """Return the address of this process's pool, if it has one."""
    loop = asyncio.get_running_loop()
    mine = [pool for pool in all_pools() if pool.loop is loop and not pool.stopped]
    return mine[0].external_address if mine else None


def _reachable(address: str, through: str | None) -> str:
    # A pool that listens on all interfaces is reached through the host that reached another pool of its group.
    return address if through is None else addresses.seen_from(address, through)


async def actor_ref(*args: Any, **kwargs: Any) -> ActorRef:
    """Return a reference to an actor that exists: by ``(ref)``, ``(uid, address=...)`` or ``(address, uid)``.

    Raises
    ------
    ActorNotExist
        The group of that address has no actor of that uid.
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
        It does not exist.
    """
    await as_ref(actor_ref).destroy()


async def kill_actor(actor_ref: ActorRef) -> None:
    """Kill the process in which an actor lives, and with it every other actor of that process.

    Raises
    ------
    ValueError
        The actor lives in a main pool.
    """
    ref = as_ref(actor_ref)
    main = await ask_pool(ref.address, "main", None)
    where = await ask_pool(ref.address, "find", ref.uid)
    if where == main:
        raise ValueError(
            "an actor of a main pool cannot be killed, because its process created the group; use destroy_actor"
        )
    await ask_pool(main, "kill", where)


async def wait_actor_pool_recovered(address: str, main_pool_address: str | None = None) -> None:
    """Wait until a sub pool whose process died has been restarted, with its actors.

    Parameters
    ----------
    address : str
        The sub pool's address.
    main_pool_address : str, optional
        The address of its main pool; not needed if this process has been connected to the sub pool before.

    Raises
    ------
    ServerClosed
        The group does not restart sub pools, or restarting failed.
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
    """Return the configuration of the group that the pool at an address belongs to."""
    return await ask_pool(address, "config", None)
