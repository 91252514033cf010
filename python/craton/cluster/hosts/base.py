"""The interface of hosts: a host starts, restarts and ends workers, and reports the addresses of workers and machines.

It takes no part in their communication: messages and data go directly between workers. Every host passes the same tests,
``tests/cluster``.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from craton.schedule.tasks import Band

#: Environment variables that limit the threads of numeric libraries.
THREADS = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The number and size of the workers that a host starts.

    Parameters
    ----------
    workers
        The number of workers; ``None`` for as many as the host has room for.
    threads
        Threads of each worker; ``None`` lets the host choose.
    memory
        Bytes that the workers of one machine and its store may use together; ``None`` for the machine's default limit.
    """

    workers: int | None = None
    threads: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A machine.

    Parameters
    ----------
    number
        From 0, which is the driver's machine.
    name
        Its name, for display.
    address
        The address of the pool with its node actor, which holds the machine's outputs.
    """

    number: int
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class StartedWorker:
    """A worker that was started.

    Parameters
    ----------
    band
        Its band.
    address
        The address of the pool with its actor, whose uid is `craton.cluster.worker.UID`.
    """

    band: Band
    address: str


class Host(ABC):
    """Starts workers. All methods except :meth:`open` and :meth:`close` are called in the supervisor's event loop.

    Attributes
    ----------
    pool
        The supervisor's actor pool, in the driver's process; set between :meth:`open` and :meth:`start`.
    """

    pool: Any

    name: ClassVar[str]
    """The `host` argument of ``craton.init``."""

    def open(self, spec: WorkerSpec) -> str:
        """Connect to the machines; return the host name or IP address at which they reach this one.

        Called once, in the user's thread.

        Raises
        ------
        OSError, RuntimeError
            If that fails; then everything is released again.
        """
        return "127.0.0.1"

    def close(self) -> None:
        """Release what :meth:`open` acquired. Called last, in the user's thread."""
        return

    @abstractmethod
    async def start(self, spec: WorkerSpec) -> list[StartedWorker]:
        """Start the workers concurrently; return when all accept requests. Called once.

        Raises
        ------
        OSError, RuntimeError
            If a worker cannot be started; then none is left running.
        """

    @abstractmethod
    async def restart(self, worker: int) -> StartedWorker:
        """Restart a worker whose process has ended, unless its pool has restarted it; return when it accepts requests.

        Raises
        ------
        OSError, RuntimeError
            If the worker cannot be restarted.
        """

    @abstractmethod
    async def end(self, worker: int) -> None:
        """Kill a worker's process, whatever it is doing."""

    @abstractmethod
    async def stop(self) -> None:
        """End all workers, and all other processes that were started, concurrently; return when they have ended."""

    @property
    @abstractmethod
    def nodes(self) -> list[ClusterNode]:
        """The machines, by number; complete when :meth:`start` has returned."""

    @property
    @abstractmethod
    def stores(self) -> list[str]:
        """The addresses of the machines' stores, by the number of the machine; complete when :meth:`start` has returned."""

    async def ending(self, worker: int) -> str | None:
        """Return how a worker's process ended, for error messages; None if only the broken connection is known."""
        return None


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(threads: int) -> dict[str, str]:
    """Return the environment variables of a worker's process; libraries read them when they are imported."""
    return {**dict.fromkeys(THREADS, str(threads)), "CRATON_CLUSTER": "embedded"}
