"""Collectives of actors, with the names and arguments of ``xoscar.collective``.

Each process that takes part has a `RankActor`, which `init_process_group` creates. The processes find each other at the address that the
environment variables ``COLLECTIVE_MASTER_IP`` and ``COLLECTIVE_MASTER_PORT`` name, where rank 0 listens; then they communicate by
`craton.comm`'s own communicator: shared memory within a machine, and authenticated TCP between machines.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

from craton.actor.actors import Actor
from craton.actor.api import actor_ref, create_actor
from craton.actor.rendezvous import PATIENCE, met
from craton.actor.wire.peers import Peers

if TYPE_CHECKING:
    import numpy as np

    from craton.comm import Communicator

    Array = np.ndarray[Any, Any]

__all__ = [
    "AllReduceAlgorithm", "CollectiveReduceOp", "ProcessGroup", "RankActor", "allgather", "allreduce", "alltoall", "broadcast", "gather",
    "init_process_group", "new_group", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip

RANK_ADDRESS_ENV_KEY = "COLLECTIVE_RANK_ADDRESS"
RENDEZVOUS_MASTER_IP_ENV_KEY = "COLLECTIVE_MASTER_IP"
RENDEZVOUS_MASTER_PORT_ENV_KEY = "COLLECTIVE_MASTER_PORT"


class CollectiveReduceOp(IntEnum):
    """How values are combined."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    BAND = 4
    BOR = 5
    BXOR = 6
    UNUSED = 7


class AllReduceAlgorithm(IntEnum):
    """Accepted for compatibility: the communicator chooses the algorithm by the size of the array."""

    UNSPECIFIED = 0
    RING = 1
    BCUBE = 2


_Op = Literal["sum", "prod", "min", "max", "and", "or"]
_OPS: dict[CollectiveReduceOp, _Op] = {
    CollectiveReduceOp.SUM: "sum",
    CollectiveReduceOp.PRODUCT: "prod",
    CollectiveReduceOp.MIN: "min",
    CollectiveReduceOp.MAX: "max",
    CollectiveReduceOp.BAND: "and",
    CollectiveReduceOp.BOR: "or",
}


class ProcessGroup:
    """A group of ranks.

    Parameters
    ----------
    communicator
        Connects them.
    name
        Its name: ``"default"`` for all ranks.
    options
        The options that it was made with.

    Attributes
    ----------
    rank, world_size : int
        The number of this process in the group, and how many there are.
    """

    class Options:
        """Where the ranks find each other; by default where the environment variables say.

        Attributes
        ----------
        master_ip : str or None
        master_port : int or None
        """

        master_ip: str | None = None
        master_port: int | None = None

    def __init__(self, communicator: Communicator, name: str, options: Options | None = None) -> None:
        self.communicator = communicator
        self.rank, self.world_size = communicator.rank, communicator.size
        self.name, self.options = name, options


class RankActor(Actor):
    """The actor of a rank; its uid is ``"RankActor"``. `init_process_group` creates it.

    Parameters
    ----------
    rank, world
        The number of the rank, and how many there are.
    backend
        ``"gloo"``, in Xoscar's words: arrays in the memory of the processor.
    device_id
        Not used.
    pg_options
        Where the ranks find each other.
    """

    def __init__(
        self,
        rank: int,
        world: int,
        backend: str = "gloo",
        device_id: int | None = None,
        pg_options: ProcessGroup.Options | None = None,
    ) -> None:
        super().__init__()
        if backend != "gloo":
            raise NotImplementedError(f"the backend {backend!r} is not supported; 'gloo' is")
        if not 0 <= rank < world:
            raise ValueError(f"rank must be at least 0 and less than the number of ranks, {world}, not {rank}")
        self._rank, self._world, self._device_id, self._options = rank, world, device_id, pg_options
        # A communicator and its groups are used by one thread at a time.
        self._thread = ThreadPoolExecutor(1, "craton-collective")
        self._groups: dict[str, ProcessGroup | None] = {}

    @classmethod
    def default_uid(cls) -> str:
        """Return the uid."""
        return "RankActor"

    async def __post_create__(self) -> None:
        os.environ[RANK_ADDRESS_ENV_KEY] = self.address
        master, host, shared = _master(self._options), self.address.rpartition(":")[0], Peers.here().key()
        communicator = await self._in_thread(lambda: _connected(self._rank, self._world, host, master, shared))
        self._groups["default"] = ProcessGroup(communicator, "default", self._options)

    async def __pre_destroy__(self) -> None:
        group = self._groups.get("default")
        if group is not None:
            await self._in_thread(group.communicator.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def process_group(self, pg_name: str) -> ProcessGroup:
        """Return a group by its name."""
        group = self._groups.get(pg_name)
        if group is None:
            raise ValueError(f"this process is in no group {pg_name!r}; new_group() returns the names of groups")
        return group

    def rank(self) -> int:
        """Return the number of the rank."""
        return self._rank

    def world(self) -> int:
        """Return the number of ranks."""
        return self._world

    def device_id(self) -> int | None:
        """Return what was given."""
        return self._device_id

    def backend(self) -> str:
        """Return ``"gloo"``."""
        return "gloo"

    async def new_group(
        self, ranks: Sequence[int] | None, pg_options: ProcessGroup.Options | None = None
    ) -> str | None:
        """Make a group; see :func:`new_group`."""
        chosen = list(range(self._world)) if ranks is None else sorted(ranks)
        if len(set(chosen)) != len(chosen) or not all(0 <= rank < self._world for rank in chosen):
            raise ValueError(f"ranks must be different numbers from 0 to {self._world - 1}, not {ranks!r}")
        if len(chosen) == self._world:
            return "default"
        name = f"ranks {', '.join(map(str, chosen))}"
        if name not in self._groups:  # all ranks make it together
            member = self._rank in chosen
            whole = self.process_group("default").communicator
            made = await self._in_thread(lambda: whole.split(0 if member else None, self._rank))
            self._groups[name] = None if made is None else ProcessGroup(made, name, pg_options)
        return None if self._groups[name] is None else name

    async def collective(self, call: Callable[[Communicator], Any], pg_name: str) -> None:
        """Run a call with the communicator of a group, in the rank's thread."""
        communicator = self.process_group(pg_name).communicator
        await self._in_thread(lambda: call(communicator))


def _master(options: ProcessGroup.Options | None) -> tuple[str, int]:
    ip: str | None
    port: int | str | None
    if options is None:
        ip, port = os.environ.get(RENDEZVOUS_MASTER_IP_ENV_KEY), os.environ.get(RENDEZVOUS_MASTER_PORT_ENV_KEY)
    else:
        ip, port = options.master_ip, options.master_port
    if ip is None or port is None:
        raise ValueError(
            f"the ranks cannot find each other: set {RENDEZVOUS_MASTER_IP_ENV_KEY} and {RENDEZVOUS_MASTER_PORT_ENV_KEY} to an address of "
            "rank 0's machine, in all processes"
        )
    return ip, int(port)


# ---- how the ranks find each other ----


def _connected(rank: int, world: int, host: str, master: tuple[str, int], shared: bytes) -> Communicator:
    from craton import comm

    endpoint = comm.bind("own", host=host)
    salt, addresses = met(rank, world, bytes(endpoint.address), master, _derived(shared, b"rendezvous"))
    return comm.connect("own", endpoint, rank, addresses, _derived(shared, salt), timeout=PATIENCE)


def _derived(key: bytes, purpose: bytes) -> bytes:
    """A key that tells nothing of the pools' key."""
    return hmac.digest(key, b"craton.actor.collective " + purpose, hashlib.sha256)


# ---- the collectives ----


async def init_process_group(
    rank: int, world_size: int, backend: str = "gloo", device_id: int | None = None, address: str | None = None
) -> None:
    """Make a process a rank; returns when all ranks are connected. All ranks call it.

    Parameters
    ----------
    rank, world_size
        The number of the rank, from 0, and how many there are.
    backend
        ``"gloo"``: arrays in the memory of the processor.
    device_id
        Not used.
    address
        The address of the actor pool in the process; by default the environment variable ``COLLECTIVE_RANK_ADDRESS``.

    Raises
    ------
    RuntimeError
        If there is no address.
    ValueError
        If the environment variables do not say where rank 0 listens.
    NotImplementedError
        For another backend.
    TimeoutError
        If not all ranks come within 60 s.
    """
    address = address or os.environ.get(RANK_ADDRESS_ENV_KEY)
    if address is None:
        raise RuntimeError(f"pass the address of the rank's actor pool, or set {RANK_ADDRESS_ENV_KEY}")
    await create_actor(
        RankActor, rank, world_size, backend=backend, device_id=device_id, address=address, uid=RankActor.default_uid()
    )


async def new_group(ranks: Sequence[int] | None = None, pg_options: ProcessGroup.Options | None = None) -> str | None:
    """Make a group of some ranks. All ranks call it, also those that are not in the group.

    Parameters
    ----------
    ranks
        Their numbers; by default all.
    pg_options
        Kept with the group.

    Returns
    -------
    str or None
        The name of the group, for the parameter `group_name` of collectives; None in other processes.

    Raises
    ------
    ValueError
        If numbers are repeated, or are those of no rank.
    """
    found: str | None = await (await _rank_actor()).new_group(ranks, pg_options)
    return found


async def _rank_actor() -> Any:
    address = os.environ.get(RANK_ADDRESS_ENV_KEY)
    if address is None:
        raise RuntimeError("this process is no rank yet: call init_process_group() first")
    return await actor_ref(address=address, uid=RankActor.default_uid())


async def _run(call: Callable[[Communicator], Any], group_name: str, stream: Any) -> None:
    if stream is not None:
        raise ValueError("stream must be None: only arrays in the memory of the processor are supported")
    await (await _rank_actor()).collective(call, group_name)


def _arrays(*given: Any) -> None:
    import numpy as np

    for one in given:
        if not isinstance(one, np.ndarray):
            raise TypeError(f"collectives take NumPy arrays, not {type(one).__name__}")


def _fill(target: Array, values: Any) -> None:
    """Write values into an array that the caller has passed for them."""
    import numpy as np

    flat = np.asarray(values).reshape(-1)
    if flat.size != target.size:
        raise ValueError(f"recv_data has {target.size} elements; the result has {flat.size}")
    target[...] = flat.reshape(target.shape)


def _joined(parts: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate([np.reshape(part, -1) for part in parts])


def _reduced(communicator: Communicator, data: Array, op: CollectiveReduceOp) -> Any:
    import numpy as np

    if op in _OPS and data.dtype != np.float16:
        return communicator.allreduce(data, _OPS[op])
    functions: dict[CollectiveReduceOp, Any] = {
        CollectiveReduceOp.SUM: np.add,
        CollectiveReduceOp.PRODUCT: np.multiply,
        CollectiveReduceOp.MIN: np.minimum,
        CollectiveReduceOp.MAX: np.maximum,
        CollectiveReduceOp.BXOR: np.bitwise_xor,
    }
    if op not in functions:
        raise ValueError(f"{op!r} is no reduction of {data.dtype}")
    return functools.reduce(functions[op], communicator.allgather(data))


async def reduce(
    send_data: Any,
    recv_data: Any,
    op: CollectiveReduceOp = CollectiveReduceOp.SUM,
    root: int | None = 0,
    tag: int | None = 0,
    group_name: str = "default",
    stream: Any = None,
) -> None:
    """Combine the arrays of all ranks of a group into `recv_data` on one of them.

    Parameters
    ----------
    send_data : numpy.ndarray
        The rank's array; all have one shape and dtype.
    recv_data : numpy.ndarray
        Gets the result on the root; not written to on other ranks.
    op
        How they are combined.
    root
        The number of the root in the group.
    tag, stream
        Accepted for compatibility: calls are matched by their order.
    group_name
        The name of the group.
    """
    _arrays(send_data, recv_data)

    def call(communicator: Communicator) -> None:
        found = _reduced(communicator, send_data, op)
        if communicator.rank == root:
            _fill(recv_data, found)

    await _run(call, group_name, stream)


async def allreduce(
    send_data: Any,
    recv_data: Any,
    op: CollectiveReduceOp = CollectiveReduceOp.SUM,
    tag: int | None = 0,
    group_name: str = "default",
    stream: Any = None,
) -> None:
    """Combine the arrays of all ranks of a group into `recv_data` on all of them; see :func:`reduce`."""
    _arrays(send_data, recv_data)
    await _run(lambda communicator: _fill(recv_data, _reduced(communicator, send_data, op)), group_name, stream)


async def gather(
    send_data: Any,
    recv_data: Any,
    root: int | None = 0,
    tag: int | None = 0,
    group_name: str = "default",
    stream: Any = None,
) -> None:
    """Write the arrays of all ranks of a group, by rank, into `recv_data` of the root; see :func:`reduce`."""
    _arrays(send_data, recv_data)

    def call(communicator: Communicator) -> None:
        found = communicator.gather(send_data, 0 if root is None else root)
        if found is not None:
            _fill(recv_data, _joined(found))

    await _run(call, group_name, stream)


async def allgather(
    send_data: Any, recv_data: Any, tag: int | None = 0, group_name: str = "default", stream: Any = None
) -> None:
    """Write the arrays of all ranks of a group, by rank, into `recv_data` of all of them; see :func:`reduce`."""
    _arrays(send_data, recv_data)
    await _run(lambda communicator: _fill(recv_data, _joined(communicator.allgather(send_data))), group_name, stream)


async def scatter(
    send_data: Sequence[Any],
    recv_data: Any,
    root: int | None = 0,
    tag: int | None = 0,
    group_name: str = "default",
    stream: Any = None,
) -> None:
    """Write one of the root's arrays, of which it has one for each rank, into `recv_data` of each rank; see :func:`reduce`."""
    _arrays(*send_data, recv_data)
    number = 0 if root is None else root

    def call(communicator: Communicator) -> None:
        _fill(recv_data, communicator.scatter(list(send_data) if communicator.rank == number else None, number))

    await _run(call, group_name, stream)


async def reduce_scatter(
    send_data: Any,
    recv_data: Any,
    recv_elems: Sequence[int],
    op: CollectiveReduceOp = CollectiveReduceOp.SUM,
    group_name: str = "default",
    stream: Any = None,
) -> None:
    """Combine the arrays of all ranks, and write a part of the result into `recv_data` of each.

    Parameters
    ----------
    recv_elems
        The number of elements for each rank; together those of `send_data`.
    send_data, recv_data, op, group_name, stream
        As those of :func:`reduce`.

    Raises
    ------
    ValueError
        If `recv_elems` does not fit to the arrays or to the group.
    """
    _arrays(send_data, recv_data)
    if sum(recv_elems) != send_data.size:
        raise ValueError(f"recv_elems has the sum {sum(recv_elems)}; send_data has {send_data.size} elements")

    def call(communicator: Communicator) -> None:
        if len(recv_elems) != communicator.size:
            raise ValueError(f"recv_elems has {len(recv_elems)} numbers for {communicator.size} ranks")
        start = sum(recv_elems[: communicator.rank])
        whole = _reduced(communicator, send_data.reshape(-1), op)
        _fill(recv_data, whole[start : start + recv_elems[communicator.rank]])

    await _run(call, group_name, stream)


async def alltoall(
    send_data: Any, recv_data: Any, tag: int | None = 0, group_name: str = "default", stream: Any = None
) -> None:
    """Send an equal part of `send_data` to each rank; write those of all ranks for this one, by rank, into `recv_data`.

    Raises
    ------
    ValueError
        If the elements of `send_data` cannot be divided evenly.
    """
    _arrays(send_data, recv_data)

    def call(communicator: Communicator) -> None:
        flat, size = send_data.reshape(-1), communicator.size
        if flat.size % size:
            raise ValueError(f"{flat.size} elements cannot be divided evenly among {size} ranks")
        step = flat.size // size
        _fill(recv_data, _joined(communicator.alltoall([flat[i * step : (i + 1) * step] for i in range(size)])))

    await _run(call, group_name, stream)


async def broadcast(
    send_data: Any,
    recv_data: Any,
    root: int | None = 0,
    tag: int | None = 0,
    group_name: str = "default",
    stream: Any = None,
) -> None:
    """Write the root's array into `recv_data` of all ranks of a group; see :func:`reduce`."""
    _arrays(send_data, recv_data)
    number = 0 if root is None else root

    def call(communicator: Communicator) -> None:
        _fill(recv_data, communicator.broadcast(send_data if communicator.rank == number else None, number))

    await _run(call, group_name, stream)
