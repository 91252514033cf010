"""Exchanges of arrays by the object transfer of Ray and of Dask, as their users write them; contestants of `bench.communicators`.

Each rank is an actor of Ray, or a worker of Dask. Its array is an object there; the others fetch it, and add up or keep what they need.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "DaskObjects", "ObjectRanks", "RayObjects"]

#: Calls of other contestants for each of these, which take milliseconds.
FEWER = 20


def add(*arrays: np.ndarray) -> int:
    """Add the arrays of all ranks; return the length, so that the sum stays."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total.size


def keep(*parts: np.ndarray) -> int:
    """Keep the parts of all ranks; return their length."""
    return sum(part.size for part in parts)


class ObjectRanks:
    """Processes whose arrays are objects. Subclasses start them, and make and use the objects."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._arrays: list[Any] = []
        self._kind: tuple[str, int, int] | None = None

    def connect(self, size: int) -> None:
        """Do nothing: the processes know each other."""

    def ask(self, size: int, _turn: str, _name: str, kind: str, _size: int, nbytes: int, repeat: int) -> list[float]:
        """Take a turn, a number of calls; return the seconds of one."""
        if self._kind != (kind, size, nbytes):
            self._kind = (kind, size, nbytes)
            self._arrays = self._made(size, max(nbytes // 8, size) // size * size)
        call: Callable[[], None] = getattr(self, f"_{kind}")
        call()
        count = max(1, repeat // FEWER)
        began = time.perf_counter()
        for _ in range(count):
            call()
        return [(time.perf_counter() - began) / count]

    def end(self) -> None:
        """End the processes."""
        raise NotImplementedError

    def _made(self, size: int, length: int) -> list[Any]:
        raise NotImplementedError

    def _barrier(self) -> None:
        raise NotImplementedError

    def _allreduce(self) -> None:
        raise NotImplementedError

    def _alltoall(self) -> None:
        raise NotImplementedError


class RayObjects(ObjectRanks):
    """Actors of Ray on one machine."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        import ray

        self._ray = ray
        ray.init(
            num_cpus=most,
            include_dashboard=False,
            logging_level=logging.ERROR,
            object_store_memory=6 << 30,
            _node_ip_address="127.0.0.1",
        )

        class Rank:
            def make(self, length: int) -> None:
                self.array = np.ones(length)

            def give(self) -> np.ndarray:
                return self.array

            def give_parts(self, size: int) -> Any:
                return tuple(np.split(self.array, size)) if size > 1 else self.array

            def use(self, what: Callable[..., int], *arrays: np.ndarray) -> int:
                return what(*arrays)

        made: Any = ray.remote(num_cpus=1)(Rank)
        self._ranks = [made.remote() for _ in range(most)]

    def _made(self, size: int, length: int) -> list[Any]:
        ranks = self._ranks[:size]
        self._ray.get([rank.make.remote(length) for rank in ranks])
        return ranks

    def _barrier(self) -> None:
        self._ray.get([rank.use.remote(keep) for rank in self._arrays])

    def _allreduce(self) -> None:
        given = [rank.give.remote() for rank in self._arrays]
        self._ray.get([rank.use.remote(add, *given) for rank in self._arrays])

    def _alltoall(self) -> None:
        size = len(self._arrays)
        given = [rank.give_parts.options(num_returns=size).remote(size) for rank in self._arrays]
        self._ray.get([rank.use.remote(keep, *(parts[to] for parts in given)) for to, rank in enumerate(self._arrays)])

    def end(self) -> None:
        """End the processes."""
        self._ray.shutdown()


def _ones(length: int) -> np.ndarray:
    return np.ones(length)


def _given(array: np.ndarray) -> np.ndarray:
    return array[:]


def _part(array: np.ndarray, to: int, size: int) -> np.ndarray:
    length = array.size // size
    return array[to * length : (to + 1) * length]


class DaskObjects(ObjectRanks):
    """Workers of Dask on one machine, in processes of their own."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        from distributed import Client, LocalCluster

        self._cluster = LocalCluster(
            n_workers=most, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.ERROR
        )
        self._client = Client(self._cluster)
        self._workers = list(self._client.scheduler_info(n_workers=-1)["workers"])

    def _made(self, size: int, length: int) -> list[Any]:
        made = [self._on(rank, _ones, length) for rank in range(size)]
        self._client.gather([self._on(rank, keep, array) for rank, array in enumerate(made)])
        return made

    def _on(self, rank: int, function: Callable[..., Any], *given: Any) -> Any:
        return self._client.submit(function, *given, workers=[self._workers[rank]], pure=False)

    def _barrier(self) -> None:
        self._client.gather([self._on(rank, keep) for rank in range(len(self._arrays))])

    def _allreduce(self) -> None:
        given = [self._on(rank, _given, array) for rank, array in enumerate(self._arrays)]
        self._client.gather([self._on(rank, add, *given) for rank in range(len(given))])

    def _alltoall(self) -> None:
        size = len(self._arrays)
        given = [
            [self._on(rank, _part, array, to, size) for to in range(size)] for rank, array in enumerate(self._arrays)
        ]
        self._client.gather([self._on(to, keep, *(parts[to] for parts in given)) for to in range(size)])

    def end(self) -> None:
        """End the processes."""
        self._client.close()
        self._cluster.close()


PROGRAMS: dict[str, Callable[[int], ObjectRanks]] = {"ray": RayObjects, "dask": DaskObjects}
"""The contestants by their names."""
