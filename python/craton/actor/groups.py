"""Groups of actors: created, called and synchronised with one message to each process.

```python
group = await create_actors(Worker, [(i,) for i in range(1000)], address=address, allocate_strategy=Spread())
results = await group.call("work", 3)            # the same arguments for all actors
results = await group.scatter("work", pieces)    # different arguments for each actor
```
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import cloudpickle

from craton.actor.actors import BaseActor
from craton.actor.allocate_strategy import Allocated, AllocateStrategy, IdleLabel
from craton.actor.api import _reachable, default_address
from craton.actor.barrier import wait_at
from craton.actor.calls import call_each
from craton.actor.pool.base import request_handler
from craton.actor.refs import ActorRef, make_ref
from craton.actor.wire import frames
from craton.actor.wire.peers import ask_pool
from craton.serialize.decoding import unpickle

logger = logging.getLogger("craton.actor")

__all__ = ["ActorGroup", "Spread", "create_actors"]


@dataclass(frozen=True)
class Spread(AllocateStrategy):
    """The sub pools in round-robin order, starting at a random one; the main pool if there are no sub pools."""

    _turns: list[int] = field(default_factory=lambda: [secrets.randbelow(1 << 16)], compare=False)

    def get_allocated_address(self, config: Any, allocated: Allocated) -> str:
        addresses = config.get_external_addresses()
        addresses = addresses[1:] or addresses
        self._turns[0] += 1
        return addresses[self._turns[0] % len(addresses)]


class ActorGroup(Sequence[ActorRef]):
    """A sequence of references to actors, with collective operations; it can be pickled.

    Parameters
    ----------
    refs : iterable of ActorRef
        The actors.

    Attributes
    ----------
    uid : str
        The group's name; copies of the group share it.
    """

    def __init__(self, refs: Any, uid: str | None = None) -> None:
        self._refs = tuple(refs)
        self.uid = uid or secrets.token_hex(8)

    def __len__(self) -> int:
        return len(self._refs)

    @overload
    def __getitem__(self, index: int) -> ActorRef: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ActorRef, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._refs[index]

    def __iter__(self) -> Iterator[ActorRef]:
        return iter(self._refs)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorGroup, (self._refs, self.uid)

    def __repr__(self) -> str:
        return f"ActorGroup({len(self._refs)} actors, uid={self.uid!r})"

    async def call(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of all actors with the same arguments.

        Returns
        -------
        list
            The results, in the order of the actors.

        Raises
        ------
        Exception
            That of the first actor, in their order, whose call failed; raised after all calls have ended.
        """
        return await call_each(self._refs, method, None, (args, kwargs))

    async def scatter(
        self,
        method: str,
        args_list: Sequence[tuple[Any, ...]],
        kwargs_list: Sequence[dict[str, Any]] | None = None,
        *,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Call a method of each actor with its own arguments.

        Parameters
        ----------
        method : str
            The method's name.
        args_list : sequence of tuple
            The arguments for each actor, in the order of the actors.
        kwargs_list : sequence of dict, optional
            The keyword arguments for each actor.
        return_exceptions : bool
            Return exceptions in place of the results that they prevented.

        Raises
        ------
        ValueError
            The number of argument tuples differs from the number of actors.
        Exception
            That of the first actor, in their order, whose call failed; raised after all calls have ended.
        """
        pairs = _paired(args_list, kwargs_list)
        if len(pairs) != len(self._refs):
            raise ValueError(f"{len(pairs)} sets of arguments cannot be scattered over {len(self._refs)} actors")
        return await call_each(self._refs, method, pairs, None, return_exceptions)

    async def barrier(self, timeout: float | None = None) -> None:
        """Wait until all actors of the group have called `barrier`; each actor awaits it in one of its methods.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Raises
        ------
        TimeoutError
            Other actors did not arrive in time. Those that did arrive go on waiting for this one.
        ServerClosed
            The process of one of the actors has died.
        """
        if self._refs:
            await wait_at(self._refs, self.uid, timeout)

    async def destroy(self) -> None:
        """Destroy all actors of the group.

        Raises
        ------
        Exception
            That of the first actor that could not be destroyed; raised after all others have been.
        """
        for found in await asyncio.gather(*[ref.destroy() for ref in self._refs], return_exceptions=True):
            if isinstance(found, BaseException):
                raise found


def _paired(args_list: Any, kwargs_list: Any) -> list[tuple[Any, Any]]:
    many = list(args_list)
    keywords = [{}] * len(many) if kwargs_list is None else list(kwargs_list)
    if len(keywords) != len(many):
        raise ValueError(
            f"args_list has {len(many)} items and kwargs_list has {len(keywords)}; they must be equally long"
        )
    return list(zip(many, keywords, strict=True))


async def create_actors(
    actor_cls: type,
    args_list: Sequence[tuple[Any, ...]],
    *,
    kwargs_list: Sequence[dict[str, Any]] | None = None,
    uids: Sequence[str | bytes] | None = None,
    address: str | None = None,
    allocate_strategy: AllocateStrategy | Sequence[AllocateStrategy] | None = None,
) -> ActorGroup:
    """Create actors of one class. If one cannot be created, the others are destroyed again.

    Parameters
    ----------
    actor_cls : type
        A subclass of `Actor` or `StatelessActor`.
    args_list : sequence of tuple
        The arguments of each actor.
    kwargs_list : sequence of dict, optional
        The keyword arguments of each actor.
    uids : sequence of str or bytes, optional
        Names of the actors; random ones by default.
    address : str, optional
        The address of a pool of the group; by default this process's pool.
    allocate_strategy : AllocateStrategy or sequence of them, optional
        Chooses a pool of the group for each actor, such as `Spread`.

    Returns
    -------
    ActorGroup
        In the order of the arguments.

    Raises
    ------
    ActorAlreadyExist
        A pool has an actor of one of the uids.
    ValueError
        The sequences are not of the same length.
    """
    pairs = _paired(args_list, kwargs_list)
    names = [None] * len(pairs) if uids is None else [uid.encode() if isinstance(uid, str) else uid for uid in uids]
    strategies = allocate_strategy
    if strategies is not None and not isinstance(strategies, AllocateStrategy):
        strategies = list(strategies)
        if len(strategies) != len(pairs):
            raise ValueError(
                f"allocate_strategy has {len(strategies)} items for {len(pairs)} actors; give one for each"
            )
    if len(names) != len(pairs):
        raise ValueError(f"uids has {len(names)} items for {len(pairs)} actors; give one for each")
    address = address or default_address()
    specs = [_pickled(pair) for pair in pairs]
    made = await ask_pool(address, "create many", (cloudpickle.dumps(actor_cls, 5), names, specs, strategies))
    return ActorGroup([make_ref(_reachable(where, address), uid) for where, uid in made])


def _pickled(pair: tuple[Any, Any]) -> bytes:
    # cloudpickle is slower; it is needed only for values that pickle may not handle, such as local functions.
    return pickle.dumps(pair, 5) if frames.is_plain_value(pair) else cloudpickle.dumps(pair, 5)


class _Spec:
    """The class and arguments of one actor, to create it again; it unpickles as ``(class, args, kwargs)``."""

    def __init__(self, kind: bytes, spec: bytes) -> None:
        self._parts = kind, spec

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_spec, self._parts


def _load_spec(kind: bytes, spec: bytes) -> tuple[Any, Any, Any]:
    return (unpickle(kind), *unpickle(spec))


@request_handler("create many")
async def _create_many(pool: Any, value: Any) -> list[tuple[str, bytes]]:
    kind, names, specs, strategies = value
    if pool.external_address != pool.main_address and strategies is not None:
        return await ask_pool(pool.main_address, "create many", value)
    each = strategies if isinstance(strategies, list) else [strategies] * len(specs)
    places: defaultdict[str, list[int]] = defaultdict(list)
    made: list[Any] = [None] * len(specs)
    try:
        for index, strategy in enumerate(each):
            if isinstance(strategy, IdleLabel):
                # Which pool is idle depends on the actors placed before, so these are created one after another.
                spec = pickle.dumps(_Spec(kind, specs[index]), 5)
                made[index] = await pool.create_in_group(names[index], spec, strategy)
            else:
                own = pool.external_address
                places[own if strategy is None else pool.place(strategy)].append(index)
        await _create_at(pool, places, made, kind, names, specs)
    except BaseException:
        destroying = [ask_pool(where, "destroy", uid) for where, uid in filter(None, made)]
        await asyncio.gather(*destroying, return_exceptions=True)
        raise
    return made


async def _create_at(pool: Any, places: Any, made: list[Any], kind: bytes, names: Any, specs: Any) -> None:
    async def at(where: str, indexes: list[int]) -> None:
        if where != pool.external_address:
            await pool.wait_recovered(where)
        value = kind, [names[i] for i in indexes], [specs[i] for i in indexes]
        uids = await ask_pool(where, "create many here", value)
        for index, uid in zip(indexes, uids, strict=True):
            made[index] = where, uid
        if where in pool.config.get_external_addresses()[1:]:
            again = [pickle.dumps(_Spec(kind, specs[index]), 5) for index in indexes]
            await pool.created(where, dict(zip(uids, again, strict=True)))

    # `gather` with exceptions returned: all creations have ended before the first error is raised.
    for result in await asyncio.gather(*[at(*place) for place in places.items()], return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


@request_handler("create many here")
async def _create_many_here(pool: Any, value: Any) -> list[bytes]:
    kind, names, specs = unpickle(value[0]), value[1], value[2]
    for name in names:
        await pool.wait_recreated(name)
    made: list[Any] = []
    begun: dict[asyncio.Task[None], Any] = {}
    try:
        for number, name, spec in zip(itertools.count(1), names, specs, strict=False):
            made.append(pool.make(name, kind, *unpickle(spec)))
            if number % 256 == 0:
                await asyncio.sleep(0)  # let other tasks run
        if kind.__post_create__ is not BaseActor.__post_create__:
            begun = {pool.loop.create_task(actor.__post_create__()): actor for actor in made}
            for task in (await asyncio.wait(begun, return_when=asyncio.FIRST_EXCEPTION))[0] if begun else ():
                task.result()
    except BaseException:
        for task in begun:
            task.cancel()
        if begun:
            await asyncio.wait(begun)
        destroying = [
            _destroy_logged(pool, actor)
            for task, actor in begun.items()
            if not task.cancelled() and not task.exception()
        ]
        await asyncio.gather(*destroying)
        for actor in made:
            pool.forget(actor)
        raise
    return [actor.uid for actor in made]


async def _destroy_logged(pool: Any, actor: Any) -> None:
    try:
        await pool.destroy(actor.uid)
    except Exception:
        logger.exception("The __pre_destroy__ of actor %r failed", actor.uid)
