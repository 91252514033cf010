"""What a host promises: it starts workers, starts them again, ends them, and knows on which machines they are.

A host has no part in what workers do: messages and data go directly between them, over the addresses that it tells. Every
host passes the same tests, ``tests/cluster``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from craton.schedule.tasks import Band

#: What keeps the libraries of numbers from using more threads than a worker has.
THREADS = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Spec:
    """What a host is to start.

    Parameters
    ----------
    workers
        How many; ``None`` for as many as the host has room for.
    threads
        Threads of each; ``None`` for the host to say.
    memory
        Bytes that the workers of one machine, and its store, may use together; ``None`` for what the machine has.
    """

    workers: int | None = None
    threads: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A machine.

    Parameters
    ----------
    number
        From 0, which is the driver's own.
    name
        For people.
    address
        Of the pool in which its node actor lives, which holds the outputs there.
    """

    number: int
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Started:
    """A worker that serves.

    Parameters
    ----------
    band
        What it is.
    address
        Of the pool in which its actor lives, under the name `craton.cluster.worker.UID`.
    """

    band: Band
    address: str


class Host(ABC):
    """Starts workers. All methods are called from the supervisor's event loop."""

    name: ClassVar[str]
    """What users call it."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        """The supervisor's actor pool, in the driver's process."""

    @abstractmethod
    async def start(self, spec: Spec) -> list[Started]:
        """Start the workers, all at once; return when all serve. Called once.

        Raises
        ------
        OSError, RuntimeError
            If one cannot be started; then none is left.
        """

    @abstractmethod
    async def restart(self, worker: int) -> Started:
        """Have a worker there again whose process has ended; return when it serves. It may have been started by itself.

        Raises
        ------
        OSError, RuntimeError
            If that cannot be.
        """

    @abstractmethod
    async def end(self, worker: int) -> None:
        """Kill a worker's process, whatever it is doing."""

    @abstractmethod
    async def stop(self) -> None:
        """End all workers and whatever else was started, at once; return when they have ended."""

    @property
    @abstractmethod
    def nodes(self) -> list[Node]:
        """The machines, by number; known when :meth:`start` has returned."""

    async def ending(self, worker: int) -> str | None:
        """How a worker's process ended, for people, as far as the host knows more than its connection told."""
        return None


def environment(threads: int) -> dict[str, str]:
    """Environment variables of a worker's process, to be set before it imports anything."""
    return {**dict.fromkeys(THREADS, str(threads)), "CRATON_CLUSTER": "embedded"}
