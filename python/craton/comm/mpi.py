"""The communicator over MPI, by mpi4py (the extra ``mpi``).

The ranks must be processes of one MPI program, which mpiexec starts: `launch_command` gives the command. In a program that was started
so, ``craton.comm.world("mpi")`` is the communicator of all its processes.

MPI itself ends the whole program when one of its processes ends; `RankFailed` is therefore not raised here.
"""

from __future__ import annotations

import os
import pickle
import secrets
import shutil
import sys
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI

from craton.comm.errors import CommunicatorClosed, RankFailed
from craton.comm.polled import BLOCK, PolledCommunicator, Wait, memory_of, send_later

__all__ = ["Endpoint", "MpiCommunicator", "connect", "launch_command", "world"]

_MESSAGE, _NOTICE = 1, 2


def launch_command(command: Sequence[str], size: int) -> list[str]:
    """Return the command that starts the ranks of a program on this machine.

    Parameters
    ----------
    command : sequence of str
        What each rank runs.
    size : int
        The number of ranks; there may be more than processors.

    Examples
    --------
    >>> from craton.comm.mpi import launch_command  # doctest: +SKIP
    >>> launch_command(["python", "program.py"], 4)[-2:]  # doctest: +SKIP
    ['python', 'program.py']
    """
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    found = beside if os.path.exists(beside) else shutil.which("mpiexec")
    if found is None:
        raise FileNotFoundError("mpiexec is not installed: pip install craton[mpi]")
    options = ["-n", str(size)]
    if "Open MPI" in MPI.Get_library_version():
        options += ["--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            options.append("--allow-run-as-root")
    return [found, *options, *command]


def world() -> MpiCommunicator:
    """Return a communicator of all processes that mpiexec has started; all of them call this."""
    return MpiCommunicator(MPI.COMM_WORLD.Dup())


class Endpoint:
    """A process of an MPI program.

    Attributes
    ----------
    address : bytes
        What all ranks must be given, in the order of their numbers.
    """

    def __init__(self) -> None:
        place = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, secrets.token_bytes(8)
        self.address = pickle.dumps(place)

    @classmethod
    def bind(cls, host: str | None = None) -> Endpoint:
        """Return this process's endpoint; MPI finds the other machines itself."""
        return cls()

    def close(self) -> None:
        """Do nothing: an MPI process listens until it ends."""


def connect(
    endpoint: Endpoint, rank: int, addresses: Sequence[bytes], key: bytes, *, timeout: float = 60.0
) -> MpiCommunicator:
    """Make a communicator of some processes of this MPI program, which call this at the same time.

    Parameters
    ----------
    endpoint, rank, addresses, key
        As for `craton.comm.connect`. MPI does not authenticate; the key only tells communicators apart.
    timeout : float
        Not used: MPI waits until all processes call this.

    Raises
    ------
    RankFailed
        A rank is not a process of this MPI program.
    """
    places = [pickle.loads(address) for address in addresses]
    for other, (_, size, _) in enumerate(places):
        if size != MPI.COMM_WORLD.size or len(addresses) > size:
            reason = "it is not a process of this MPI program: start all ranks with mpiexec, see craton.comm.mpi.launch_command"
            raise RankFailed(other, reason)
    group = MPI.COMM_WORLD.group.Incl([number for number, _, _ in places])
    tag = zlib.crc32(key + b"".join(addresses)) % 30_000
    return MpiCommunicator(MPI.COMM_WORLD.Create_group(group, tag))


class MpiCommunicator(PolledCommunicator):
    """A group of processes of an MPI program."""

    name: ClassVar[str] = "mpi"

    def __init__(self, comm: Any, whole: PolledCommunicator | None = None) -> None:
        super().__init__(comm.rank, comm.size, whole)
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._comm = comm
        self._notices: Any = comm.Dup() if whole is None else None
        self._block = MPI.BYTE.Create_contiguous(BLOCK).Commit()

    def _counted(self, memory: Any, lengths: list[int]) -> list[Any]:
        """Memory as MPI takes it. MPI counts with 31 bits: more bytes are counted in blocks, of which values consist."""
        starts = [0, *accumulate(lengths)]
        if starts[-1] < 1 << 31:
            return [memory, (lengths, starts[:-1]), MPI.BYTE]
        if any(length % BLOCK for length in lengths):
            raise OverflowError(
                f"MPI cannot reduce or divide arrays of {starts[-1]} bytes; reduce them in parts below 2 GiB"
            )
        return [
            memory,
            ([length // BLOCK for length in lengths], [start // BLOCK for start in starts[:-1]]),
            self._block,
        ]

    def _start_allgather(self, own: Any, out: Any) -> Callable[[], bool]:
        return _tested(self._comm.Iallgather([own, MPI.BYTE], [out, MPI.BYTE]))

    def _start_broadcast(self, memory: Any, root: int) -> Callable[[], bool]:
        return _tested(self._comm.Ibcast([memory, memory.size // BLOCK, self._block], root))

    def _start_gather(self, own: Any, out: Any | None, lengths: list[int], root: int | None) -> Callable[[], bool]:
        blocks = sum(lengths) >= 1 << 31
        given = [own, own.size // BLOCK, self._block] if blocks else [own, MPI.BYTE]
        found = None if out is None else self._counted(out, lengths)
        if root is None:
            return _tested(self._comm.Iallgatherv(given, found))
        return _tested(self._comm.Igatherv(given, found, root))

    def _start_alltoall(self, given: Any, counts: list[int], out: Any, lengths: list[int]) -> Callable[[], bool]:
        return _tested(self._comm.Ialltoallv(self._counted(given, counts), self._counted(out, lengths)))

    def _start_send(self, memory: Any, to: int) -> Callable[[], bool]:
        if memory.size >= 1 << 31:
            raise OverflowError(f"MPI cannot send a message of {memory.size} bytes; send it in parts below 2 GiB")
        return _tested(self._comm.Isend([memory, MPI.BYTE], to, _MESSAGE))

    def _receive_message(self, wait: Wait, source: int) -> Any:
        status = MPI.Status()
        found: list[Any] = []

        def arrived() -> bool:
            message = self._comm.Improbe(source, _MESSAGE, status)
            if message is not None:
                found.append(message)
            return message is not None

        wait.until(arrived)
        memory = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        wait(_tested(found[0].Irecv([memory, MPI.BYTE])))
        return memory

    def _send_notice(self, text: str, late: bool) -> None:
        message = memory_of(bytes([late]) + text.encode()[:2000])
        for other in range(self.size):
            if other != self.rank:
                send_later(_tested(self._notices.Isend([message, MPI.BYTE], other, _NOTICE)), message)

    def _look_for_notice(self) -> tuple[str, bool] | None:
        status = MPI.Status()
        message = self._notices.Improbe(MPI.ANY_SOURCE, _NOTICE, status)
        if message is None:
            return None
        memory = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        message.Recv([memory, MPI.BYTE])
        return memory[1:].tobytes().decode(errors="replace"), bool(memory[0])

    def _form_group(self, ranks: list[int], number: int) -> MpiCommunicator | None:
        made = self._comm.Split(number if ranks else MPI.UNDEFINED, ranks.index(self.rank) if ranks else 0)
        return MpiCommunicator(made, self._whole) if ranks else None

    def _failure(self, error: Exception) -> Exception | None:
        return CommunicatorClosed(f"MPI failed: {error}") if isinstance(error, MPI.Exception) else None


def _tested(request: Any) -> Callable[[], bool]:
    """A request of MPI as a function; it keeps the memory of the request alive."""
    done: Callable[[], bool] = request.Test
    return done
