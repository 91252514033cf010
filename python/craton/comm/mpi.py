"""The communicator over MPI, by mpi4py (the extra ``mpi``).

The ranks must be processes of one MPI program, which mpiexec starts: `launch_command` gives the command. In a program that was started
so, ``craton.comm.world("mpi")`` is the communicator of all its processes.

Every collective begins with a small exchange of what was called and how much is sent, so that calls that do not agree are noticed before
anything is. All operations are non-blocking ones that are polled, so that timeouts, Ctrl-C and `abort` end them. MPI itself ends the whole
program when one of its processes ends; `RankFailed` is therefore not raised here.
"""

from __future__ import annotations

import pickle
import secrets
import struct
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI

from craton.comm.base import Communicator, Reduction
from craton.comm.errors import CollectiveMismatch, CommunicatorClosed, RankFailed
from craton.comm.numbers import (
    UFUNCS,
    checked_array,
    combine_scalars,
    is_scalar,
    packed,
    part_bounds,
    unpacked,
    validate,
)
from craton.comm.values import decoded, pieces

__all__ = ["Endpoint", "MpiCommunicator", "connect", "launch_command", "world"]

_BLOCK = 64
_MESSAGE, _NOTICE = 1, 2
#: Seconds between two looks for notices of other ranks, while a call waits.
_NOTICES_EVERY = 0.01
#: Seconds that a call polls without sleeping, and the longest sleep.
_SPIN, _LONGEST_SLEEP = 0.0002, 0.001
_HEAD = struct.Struct("<qq")


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
    import os
    import shutil

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
    if addresses[rank] != endpoint.address:
        raise ValueError(f"the address of rank {rank} is not that of the endpoint")
    group = MPI.COMM_WORLD.group.Incl([number for number, _, _ in places])
    tag = zlib.crc32(key + b"".join(addresses)) % 30_000
    return MpiCommunicator(MPI.COMM_WORLD.Create_group(group, tag))


class MpiCommunicator(Communicator):
    """A group of processes of an MPI program."""

    name: ClassVar[str] = "mpi"

    def __init__(self, comm: Any, whole: MpiCommunicator | None = None) -> None:
        self._comm = comm
        self.rank, self.size = comm.rank, comm.size
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        #: The communicator that carries notices to all ranks, and what ended it.
        self._notices: Any = comm.Dup() if whole is None else None
        self._whole = self if whole is None else whole
        self._ended: str | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._block = MPI.BYTE.Create_contiguous(_BLOCK).Commit()
        self._unread: dict[tuple[int, int], deque[Any]] = {}
        self._sent: list[tuple[Any, Any]] = []

    # ---- collectives ----

    def barrier(self, *, timeout: float | None = None) -> None:
        self._run("barrier", timeout, lambda wait: self._agree(wait, ("barrier",)))

    def broadcast(self, value: Any, root: int = 0, *, timeout: float | None = None) -> Any:
        root = self._checked(root, "root")
        own = self._packed(value) if self.rank == root else b""

        def work(wait: _Wait) -> Any:
            sizes = self._agree(wait, ("broadcast", root), len(own))
            memory = _memory(own) if self.rank == root else np.empty(sizes[root], np.uint8)
            wait(self._comm.Ibcast([memory, sizes[root] // _BLOCK, self._block], root))
            return value if self.rank == root else decoded(memory)

        return self._run("broadcast", timeout, work)

    def gather(self, value: Any, root: int = 0, *, timeout: float | None = None) -> list[Any] | None:
        root = self._checked(root, "root")

        def work(wait: _Wait) -> list[Any] | None:
            memories = self._gathered(wait, ("gather", root), b"" if self.rank == root else self._packed(value), root)
            return None if memories is None else self._decoded(memories, value)

        return self._run("gather", timeout, work)

    def allgather(self, value: Any, *, timeout: float | None = None) -> list[Any]:
        own = self._packed(value)
        return self._run(
            "allgather", timeout, lambda wait: self._decoded(self._gathered(wait, ("allgather",), own), value)
        )

    def scatter(self, values: Sequence[Any] | None, root: int = 0, *, timeout: float | None = None) -> Any:
        root = self._checked(root, "root")
        wrong, given = None, []
        if self.rank == root:
            if values is None or len(values) != self.size:
                count = "none" if values is None else str(len(values))
                wrong = f"scatter takes a value for each of the {self.size} ranks from the root, got {count}"
            given = [self._packed((wrong, None if wrong or values is None else one)) for one in values or [None]]
            given = given[:1] * self.size if wrong else given

        def work(wait: _Wait) -> Any:
            self._agree(wait, ("scatter", root))
            sent = given if self.rank == root else [b""] * self.size
            return self._exchanged(wait, sent)[root]

        memory = self._run("scatter", timeout, work)
        found, value = decoded(memory)
        if found is not None:
            raise ValueError(found)
        return values[root] if self.rank == root and values is not None else value

    def alltoall(self, values: Sequence[Any], *, timeout: float | None = None) -> list[Any]:
        if len(values) != self.size:
            raise ValueError(f"alltoall takes a value for each of the {self.size} ranks, got {len(values)}")
        given = [b"" if rank == self.rank else self._packed(value) for rank, value in enumerate(values)]

        def work(wait: _Wait) -> list[Any]:
            self._agree(wait, ("alltoall",))
            return self._decoded(self._exchanged(wait, given), values[self.rank])

        return self._run("alltoall", timeout, work)

    def reduce(self, value: Any, op: Reduction = "sum", root: int = 0, *, timeout: float | None = None) -> Any:
        validate(op)
        root = self._checked(root, "root")
        if not is_scalar(value):
            # MPI's reductions may associate as they like; the parts are combined in the order of the ranks.
            parts = self._reduced_parts(value, op, ("reduce", root), timeout)
            found = self._run("reduce", timeout, lambda wait: self._gathered_parts(wait, parts, value, root))
            return found if self.rank == root else None
        own = self._packed(bytes(packed(value, op)[0]))
        memories = self._run("reduce", timeout, lambda wait: self._gathered(wait, ("reduce", root), own, root))
        return None if memories is None else self._combined(memories, op)

    def allreduce(self, value: Any, op: Reduction = "sum", *, timeout: float | None = None) -> Any:
        validate(op)
        if not is_scalar(value):
            parts = self._reduced_parts(value, op, ("allreduce",), timeout)
            return self._run("allreduce", timeout, lambda wait: self._gathered_parts(wait, parts, value, None))
        own = self._packed(bytes(packed(value, op)[0]))
        memories = self._run("allreduce", timeout, lambda wait: self._gathered(wait, ("allreduce",), own))
        return self._combined(memories, op)

    def reduce_scatter(self, value: Any, op: Reduction = "sum", *, timeout: float | None = None) -> Any:
        validate(op)
        array = checked_array(value, op)
        if array.ndim == 0:
            raise TypeError("reduce_scatter takes arrays of at least one dimension, got one without")
        bounds = part_bounds(array.shape[0], self.size)

        def work(wait: _Wait) -> Any:
            self._agree(wait, ("reduce_scatter", op, array.dtype.str, array.shape))
            return self._combined_part(wait, array, bounds, op)

        return self._run("reduce_scatter", timeout, work)

    # ---- point to point ----

    def send(self, value: Any, to: int, tag: int = 0, *, timeout: float | None = None) -> None:
        to = self._checked(to, "to")
        message = _memory(_HEAD.pack(tag, 0) + b"".join(map(bytes, pieces(value))))

        def work(wait: _Wait) -> None:
            if to == self.rank:
                self._unread.setdefault((to, tag), deque()).append(message[_HEAD.size :])
                return
            self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
            self._sent.append((self._comm.Isend([message, MPI.BYTE], to, _MESSAGE), message))

        self._run("send", timeout, work)

    def receive(self, source: int, tag: int = 0, *, timeout: float | None = None) -> Any:
        source = self._checked(source, "source")

        def work(wait: _Wait) -> Any:
            waiting = self._unread.setdefault((source, tag), deque())
            while not waiting:
                status = MPI.Status()
                found: list[Any] = []

                def arrived(status: Any = status, found: list[Any] = found) -> bool:
                    message = self._comm.Improbe(source, _MESSAGE, status)
                    found.append(message)
                    return message is not None

                wait.until(arrived)
                memory = np.empty(status.Get_count(MPI.BYTE), np.uint8)
                wait(found[-1].Irecv([memory, MPI.BYTE]))
                other, _ = _HEAD.unpack(memory[: _HEAD.size].tobytes())
                self._unread.setdefault((source, other), deque()).append(memory[_HEAD.size :])
            return waiting.popleft()

        return decoded(_aligned(self._run("receive", timeout, work)))

    # ---- groups and ends ----

    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> MpiCommunicator | None:
        chosen = self.allgather((color, key), timeout=timeout)
        members = sorted((key, rank) for rank, (other, key) in enumerate(chosen) if other == color)
        ranks = [rank for _, rank in members]
        # All ranks are here: what follows does not wait for others.
        place = MPI.UNDEFINED if color is None else ranks[0]
        made = self._comm.Split(place, ranks.index(self.rank))
        return None if color is None else MpiCommunicator(made, self._whole)

    def abort(self, reason: str = "") -> None:
        self._whole._end(f"rank {self._whole.rank} has aborted it: {reason}")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + 10
        while self._sent and self._whole._ended is None and time.monotonic() < deadline:
            self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
            time.sleep(0.0005)

    # ---- parts of the above ----

    def _run(self, name: str, timeout: float | None, work: Callable[[_Wait], Any]) -> Any:
        whole = self._whole
        if not self._lock.acquire(blocking=False):
            raise ValueError("another thread is in a call of this communicator: use one thread at a time")
        try:
            if self._closed or whole._closed:
                raise CommunicatorClosed("the communicator was closed")
            wait = _Wait(whole, name, timeout)
            wait.check()
            try:
                return work(wait)
            except TimeoutError:
                whole._end(f"{name} did not end within {timeout} s on rank {whole.rank}", late=True)
                raise
            except KeyboardInterrupt:
                whole._end(f"rank {whole.rank} was interrupted in {name}")
                raise
            except CollectiveMismatch as error:
                whole._end(str(error))
                raise
            except MPI.Exception as error:
                whole._end(f"{name} failed on rank {whole.rank}: {error}")
                raise CommunicatorClosed(f"{name} failed: {error}") from error
        finally:
            self._lock.release()

    def _end(self, text: str, late: bool = False) -> None:
        """Make the communicator unusable, and tell all ranks."""
        if self._ended is not None:
            return
        self._ended = text
        message = _memory(bytes([late]) + text.encode()[:2000])
        for other in range(self.size):
            if other != self.rank:
                self._sent.append((self._notices.Isend([message, MPI.BYTE], other, _NOTICE), message))

    def _look(self, timed: bool = False) -> None:
        """Raise if the communicator has ended, here or on another rank; a call with a timeout shares the timeouts of others."""
        if self._ended is None:
            status = MPI.Status()
            message = self._notices.Improbe(MPI.ANY_SOURCE, _NOTICE, status)
            if message is not None:
                memory = np.empty(status.Get_count(MPI.BYTE), np.uint8)
                message.Recv([memory, MPI.BYTE])
                self._ended = memory[1:].tobytes().decode(errors="replace")
                if memory[0] and timed:
                    raise TimeoutError(self._ended)
        if self._ended is not None:
            raise CommunicatorClosed(f"the communicator is unusable: {self._ended}")

    def _checked(self, rank: int, name: str) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"{name} must be a rank from 0 to {self.size - 1}, got {rank}")
        return rank

    def _agree(self, wait: _Wait, called: tuple[Any, ...], length: int = 0) -> list[int]:
        """Exchange what was called, and a number; return the numbers of all ranks."""
        name = str(called[0]).encode().ljust(16)[:16]
        own = np.frombuffer(name + struct.pack("<qq", zlib.crc32(repr(called).encode()), length), np.uint8)
        found = np.empty((self.size, own.size), np.uint8)
        wait(self._comm.Iallgather([own, MPI.BYTE], [found, MPI.BYTE]))
        for rank in range(self.size):
            if found[rank, :24].tobytes() != own[:24].tobytes():
                other = found[rank, :16].tobytes().decode().strip()
                raise CollectiveMismatch(
                    f"rank {rank} called {other} where this rank called {called[0]}, or their arguments do not agree"
                )
        return [int(number) for number in found[:, 24:].copy().view(np.int64)[:, 0]]

    def _packed(self, value: Any) -> bytes:
        """The container of a value, filled to whole blocks: MPI counts at most 2**31 of them."""
        data = b"".join(map(bytes, pieces(value)))
        return data.ljust(-(-len(data) // _BLOCK) * _BLOCK, b"\0")

    def _decoded(self, memories: Any, value: Any) -> list[Any]:
        return [value if rank == self.rank else decoded(memory) for rank, memory in enumerate(memories)]

    def _gathered(self, wait: _Wait, called: tuple[Any, ...], own: bytes, root: int | None = None) -> Any:
        """The memories of all ranks, on the root or on all ranks."""
        sizes = self._agree(wait, called, len(own))
        here = root is None or root == self.rank
        counts = [size // _BLOCK for size in sizes]
        ends = np.cumsum([0, *counts])
        whole = _blank(int(ends[-1]) * _BLOCK) if here else None
        send = [_memory(own), len(own) // _BLOCK, self._block]
        receive = None if whole is None else [whole, (counts, ends[:-1].tolist()), self._block]
        if root is None:
            wait(self._comm.Iallgatherv(send, receive))
        else:
            wait(self._comm.Igatherv(send, receive, root))
        if whole is None:
            return None
        return [whole[start * _BLOCK : stop * _BLOCK] for start, stop in pairwise(ends)]

    def _exchanged(self, wait: _Wait, given: list[Any]) -> list[Any]:
        """Send a memory of whole blocks to each rank; return those for this one."""
        counts = np.array([len(one) // _BLOCK for one in given], np.int64)
        theirs = np.empty(self.size, np.int64)
        wait(self._comm.Ialltoall([counts, MPI.INT64_T], [theirs, MPI.INT64_T]))
        sent_ends, ends = np.cumsum([0, *counts]), np.cumsum([0, *theirs])
        sent, whole = _memory(b"".join(given)), _blank(int(ends[-1]) * _BLOCK)
        send = [sent, (counts.tolist(), sent_ends[:-1].tolist()), self._block]
        wait(self._comm.Ialltoallv(send, [whole, (theirs.tolist(), ends[:-1].tolist()), self._block]))
        return [whole[start * _BLOCK : stop * _BLOCK] for start, stop in pairwise(ends)]

    def _reduced_parts(self, value: Any, op: Reduction, called: tuple[Any, ...], timeout: float | None) -> Any:
        """This rank's part of the reduction of flattened arrays."""
        array = checked_array(value, op)
        flat = array.reshape(-1)
        bounds = part_bounds(flat.shape[0], self.size)

        def work(wait: _Wait) -> Any:
            self._agree(wait, (*called, op, array.dtype.str, array.shape))
            return self._combined_part(wait, flat, bounds, op)

        return self._run(str(called[0]), timeout, work)

    def _combined_part(self, wait: _Wait, array: Any, bounds: list[int], op: Reduction) -> Any:
        width = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        counts = [(stop - start) * width for start, stop in pairwise(bounds)]
        own = counts[self.rank]
        found = np.empty(own * self.size, np.uint8)
        send = [_memory(array), (counts, [bound * width for bound in bounds[:-1]]), MPI.BYTE]
        receive = [found, ([own] * self.size, [own * rank for rank in range(self.size)]), MPI.BYTE]
        wait(self._comm.Ialltoallv(send, receive))
        shape = (bounds[self.rank + 1] - bounds[self.rank], *array.shape[1:])
        parts = [found[own * rank : own * (rank + 1)].view(array.dtype).reshape(shape) for rank in range(self.size)]
        with np.errstate(all="ignore"):
            result = parts[0].copy()
            for part in parts[1:]:
                UFUNCS[op](result, part, out=result)
        return result

    def _gathered_parts(self, wait: _Wait, part: Any, value: Any, root: int | None) -> Any:
        array = np.asarray(value)
        bounds = part_bounds(array.size, self.size)
        counts = [(stop - start) * array.dtype.itemsize for start, stop in pairwise(bounds)]
        starts = [bound * array.dtype.itemsize for bound in bounds[:-1]]
        here = root is None or root == self.rank
        out = np.empty(array.shape, array.dtype) if here else None
        receive = None if out is None else [_memory(out), (counts, starts), MPI.BYTE]
        if root is None:
            wait(self._comm.Iallgatherv([_memory(part), MPI.BYTE], receive))
        else:
            wait(self._comm.Igatherv([_memory(part), MPI.BYTE], receive, root))
        return out[()] if out is not None and isinstance(value, np.generic) else out

    def _combined(self, memories: list[Any], op: Reduction) -> Any:
        found = [unpacked(decoded(memory)) for memory in memories]
        if any(other != op or number is None for other, number in found):
            raise CollectiveMismatch("the ranks called reductions that do not agree: by different ops")
        return combine_scalars([number for _, number in found], op)


class _Wait:
    """Waits for requests of MPI, with a timeout, while signals and notices of other ranks are looked for."""

    def __init__(self, whole: MpiCommunicator, name: str, timeout: float | None) -> None:
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout must be a number of seconds from 0 on, got {timeout}")
        self._whole, self._name, self._timeout = whole, name, timeout
        self._started = time.monotonic()

    def check(self) -> None:
        self._whole._look(self._timeout is not None)

    def __call__(self, request: Any) -> None:
        try:
            self.until(request.Test)
        except BaseException:
            # MPI may still use the memory of the request: it lives as long as the request.
            _abandoned.append(request)
            raise

    def until(self, done: Callable[[], bool]) -> None:
        """Return when a function is true."""
        if done():
            return
        began = looked = time.monotonic()
        sleep = 0.0
        while not done():
            now = time.monotonic()
            if self._timeout is not None and now - self._started >= self._timeout:
                raise TimeoutError(f"{self._name} did not end within {self._timeout} s")
            if now - looked >= _NOTICES_EVERY:
                looked = now
                self.check()
            if now - began > _SPIN:
                sleep = min(sleep + 0.00002, _LONGEST_SLEEP)
            time.sleep(sleep)


#: Requests that were given up; with them lives the memory that MPI may still write to.
_abandoned: list[Any] = []


def _memory(data: Any) -> Any:
    """Bytes, or the memory of a contiguous array, as an array of bytes."""
    if isinstance(data, np.ndarray):
        return data.reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)


def _blank(size: int) -> Any:
    """Memory at an address that is a multiple of 64."""
    memory = np.empty(size + 64, np.uint8)
    skipped = -memory.ctypes.data % 64
    return memory[skipped : skipped + size]


def _aligned(memory: Any) -> Any:
    found = _blank(memory.size)
    found[:] = memory
    return found
