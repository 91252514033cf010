"""What communicators over other libraries share: collectives of any values, made of a few operations on bytes.

Every collective begins with a small exchange of what was called and how much is sent, so that calls that do not agree are noticed before
anything is. The library's operations do not block; they are polled, so that timeouts, Ctrl-C and `abort` end a call.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import zlib
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from craton.comm.base import Communicator, Reduction
from craton.comm.errors import CollectiveMismatch, CommunicatorClosed
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

__all__ = ["BLOCK", "PolledCommunicator", "Wait", "memory_of", "send_later"]

BLOCK = 64
"""Values are filled to multiples of this many bytes."""
#: Seconds between two looks for notices of other ranks, while a call waits.
_NOTICES_EVERY = 0.01
#: Seconds that a call polls without sleeping, and the longest sleep.
_SPIN, _LONGEST_SLEEP = 0.0002, 0.001
_HEAD = struct.Struct("<qq")


class PolledCommunicator(Communicator):
    """A group of ranks that are connected by another library.

    Subclasses have the operations. Each returns a request: a function without arguments that returns whether the operation is complete.
    Memory is given as arrays of uint8, lengths in bytes.
    """

    def __init__(self, rank: int, size: int, whole: PolledCommunicator | None) -> None:
        self.rank, self.size = rank, size
        self._whole = self if whole is None else whole
        self._ended: str | None = None
        self._closed = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._unread: dict[tuple[int, int], deque[Any]] = {}

    # ---- the operations of a library ----

    @abstractmethod
    def _start_allgather(self, own: Any, out: Any) -> Callable[[], bool]:
        """Send memory of one length to all; `out` has room for that of all ranks."""

    @abstractmethod
    def _start_broadcast(self, memory: Any, root: int) -> Callable[[], bool]:
        """Send the root's memory, or receive it."""

    @abstractmethod
    def _start_gather(self, own: Any, out: Any | None, lengths: list[int], root: int | None) -> Callable[[], bool]:
        """Send memory of any length to the root, or to all ranks; `lengths` are those of all ranks."""

    @abstractmethod
    def _start_alltoall(self, given: Any, counts: list[int], out: Any, lengths: list[int]) -> Callable[[], bool]:
        """Send a part of the given memory to each rank."""

    @abstractmethod
    def _start_send(self, memory: Any, to: int) -> Callable[[], bool]:
        """Send a message."""

    @abstractmethod
    def _receive_message(self, wait: Wait, source: int) -> Any:
        """Return the next message of a rank."""

    @abstractmethod
    def _send_notice(self, text: str, late: bool) -> None:
        """Tell all other ranks why the communicator is unusable; called once, on the whole, in any thread."""

    @abstractmethod
    def _look_for_notice(self) -> tuple[str, bool] | None:
        """Return what another rank has sent by `_send_notice`; called on the whole."""

    @abstractmethod
    def _form_group(self, ranks: list[int], number: int) -> PolledCommunicator | None:
        """Form the group of these ranks, which is empty on ranks that are in none; all ranks call it."""

    def _failure(self, error: Exception) -> Exception | None:
        """Return what to raise for an error of the library; None for other errors."""
        return None

    # ---- collectives ----

    def barrier(self, *, timeout: float | None = None) -> None:
        self._run("barrier", timeout, lambda wait: self._agree(wait, ("barrier",)))

    def broadcast(self, value: Any, root: int = 0, *, timeout: float | None = None) -> Any:
        root = self._checked(root, "root")
        own = self._packed(value) if self.rank == root else b""

        def work(wait: Wait) -> Any:
            sizes = self._agree(wait, ("broadcast", root), len(own))
            memory = memory_of(own) if self.rank == root else _blank(sizes[root])
            wait(self._start_broadcast(memory, root))
            return value if self.rank == root else decoded(memory)

        return self._run("broadcast", timeout, work)

    def gather(self, value: Any, root: int = 0, *, timeout: float | None = None) -> list[Any] | None:
        root = self._checked(root, "root")

        def work(wait: Wait) -> list[Any] | None:
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

        def work(wait: Wait) -> Any:
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

        def work(wait: Wait) -> list[Any]:
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

        def work(wait: Wait) -> Any:
            self._agree(wait, ("reduce_scatter", op, array.dtype.str, array.shape))
            return self._combined_part(wait, array, bounds, op)

        return self._run("reduce_scatter", timeout, work)

    # ---- point to point ----

    def send(self, value: Any, to: int, tag: int = 0, *, timeout: float | None = None) -> None:
        to = self._checked(to, "to")
        message = memory_of(_HEAD.pack(tag, 0) + b"".join(map(bytes, pieces(value))))

        def work(wait: Wait) -> None:
            if to == self.rank:
                self._unread.setdefault((to, tag), deque()).append(message[_HEAD.size :])
                return
            _on_their_way.add(self._start_send(message, to), message)

        self._run("send", timeout, work)

    def receive(self, source: int, tag: int = 0, *, timeout: float | None = None) -> Any:
        source = self._checked(source, "source")

        def work(wait: Wait) -> Any:
            waiting = self._unread.setdefault((source, tag), deque())
            while not waiting:
                memory = self._receive_message(wait, source)
                other, _ = _HEAD.unpack(memory[: _HEAD.size].tobytes())
                self._unread.setdefault((source, other), deque()).append(memory[_HEAD.size :])
            return waiting.popleft()

        return decoded(_aligned(self._run("receive", timeout, work)))

    # ---- groups and ends ----

    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> PolledCommunicator | None:
        chosen = self.allgather((color, key), timeout=timeout)
        members = sorted((key, rank) for rank, (other, key) in enumerate(chosen) if other == color)
        colors = sorted({other for other, _ in chosen if other is not None})
        ranks = [] if color is None else [rank for _, rank in members]
        # All ranks are here: what follows does not wait for others.
        return self._form_group(ranks, 0 if color is None else colors.index(color))

    def abort(self, reason: str = "") -> None:
        self._whole._end(f"rank {self._whole.rank} has aborted it: {reason}")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + 10
        while _on_their_way.count() and self._whole._ended is None and time.monotonic() < deadline:
            time.sleep(0.0005)

    # ---- parts of the above ----

    def _run(self, name: str, timeout: float | None, work: Callable[[Wait], Any]) -> Any:
        whole = self._whole
        if not self._lock.acquire(blocking=False):
            raise ValueError("another thread is in a call of this communicator: use one thread at a time")
        try:
            if self._closed or whole._closed:
                raise CommunicatorClosed("the communicator was closed")
            if self._process != os.getpid():
                raise CommunicatorClosed("the communicator belongs to the process that this one was forked from")
            wait = Wait(whole, name, timeout)
            try:
                wait.check()
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
            except CommunicatorClosed:
                raise
            except Exception as error:
                found = self._failure(error)
                if found is None:
                    raise
                whole._end(f"{name} failed on rank {whole.rank}: {error}")
                raise found from error
        finally:
            self._lock.release()

    def _end(self, text: str, late: bool = False) -> None:
        """Make the communicator unusable, and tell all ranks."""
        if self._ended is not None:
            return
        self._ended = text
        self._send_notice(text, late)

    def _look(self, timed: bool = False) -> None:
        """Raise if the communicator has ended, here or on another rank; a call with a timeout shares the timeouts of others."""
        if self._ended is None:
            notice = self._look_for_notice()
            if notice is not None:
                self._ended, late = notice
                if late and timed:
                    raise TimeoutError(self._ended)
        if self._ended is not None:
            raise CommunicatorClosed(f"the communicator is unusable: {self._ended}")

    def _checked(self, rank: int, name: str) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"{name} must be a rank from 0 to {self.size - 1}, got {rank}")
        return rank

    def _agree(self, wait: Wait, called: tuple[Any, ...], length: int = 0) -> list[int]:
        """Exchange what was called, and a number; return the numbers of all ranks."""
        name = str(called[0]).encode().ljust(16)[:16]
        own = np.frombuffer(name + struct.pack("<qq", zlib.crc32(repr(called).encode()), length), np.uint8)
        found = np.empty((self.size, own.size), np.uint8)
        wait(self._start_allgather(own, found.reshape(-1)))
        for rank in range(self.size):
            if found[rank, :24].tobytes() != own[:24].tobytes():
                other = found[rank, :16].tobytes().decode().strip()
                raise CollectiveMismatch(
                    f"rank {rank} called {other} where this rank called {called[0]}, or their arguments do not agree"
                )
        return [int(number) for number in found[:, 24:].copy().view(np.int64)[:, 0]]

    def _packed(self, value: Any) -> bytes:
        """The container of a value, filled to whole blocks, at which the next one may begin."""
        data = b"".join(map(bytes, pieces(value)))
        return data.ljust(-(-len(data) // BLOCK) * BLOCK, b"\0")

    def _decoded(self, memories: Any, value: Any) -> list[Any]:
        return [value if rank == self.rank else decoded(memory) for rank, memory in enumerate(memories)]

    def _gathered(self, wait: Wait, called: tuple[Any, ...], own: bytes, root: int | None = None) -> Any:
        """The memories of all ranks, on the root or on all ranks."""
        sizes = self._agree(wait, called, len(own))
        ends = [0, *accumulate(sizes)]
        whole = _blank(ends[-1]) if root is None or root == self.rank else None
        wait(self._start_gather(memory_of(own), whole, sizes, root))
        return None if whole is None else [whole[start:stop] for start, stop in pairwise(ends)]

    def _exchanged(self, wait: Wait, given: list[Any]) -> list[Any]:
        """Send a memory of whole blocks to each rank; return those for this one."""
        counts = np.array([len(one) for one in given], np.int64)
        theirs = np.empty(self.size, np.int64)
        eight = [8] * self.size
        wait(self._start_alltoall(memory_of(counts), eight, memory_of(theirs), eight))
        lengths = [int(length) for length in theirs]
        ends = [0, *accumulate(lengths)]
        whole = _blank(ends[-1])
        wait(self._start_alltoall(memory_of(b"".join(given)), counts.tolist(), whole, lengths))
        return [whole[start:stop] for start, stop in pairwise(ends)]

    def _reduced_parts(self, value: Any, op: Reduction, called: tuple[Any, ...], timeout: float | None) -> Any:
        """Reduce flattened arrays; return the part of this rank."""
        array = checked_array(value, op)
        flat = array.reshape(-1)
        bounds = part_bounds(flat.shape[0], self.size)

        def work(wait: Wait) -> Any:
            self._agree(wait, (*called, op, array.dtype.str, array.shape))
            return self._combined_part(wait, flat, bounds, op)

        return self._run(str(called[0]), timeout, work)

    def _combined_part(self, wait: Wait, array: Any, bounds: list[int], op: Reduction) -> Any:
        width = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        counts = [(stop - start) * width for start, stop in pairwise(bounds)]
        own = counts[self.rank]
        found = np.empty(own * self.size, np.uint8)
        wait(self._start_alltoall(memory_of(array), counts, found, [own] * self.size))
        shape = (bounds[self.rank + 1] - bounds[self.rank], *array.shape[1:])
        parts = [found[own * rank : own * (rank + 1)].view(array.dtype).reshape(shape) for rank in range(self.size)]
        with np.errstate(all="ignore"):
            result = parts[0].copy()
            for part in parts[1:]:
                UFUNCS[op](result, part, out=result)
        return result

    def _gathered_parts(self, wait: Wait, part: Any, value: Any, root: int | None) -> Any:
        array = np.asarray(value)
        bounds = part_bounds(array.size, self.size)
        counts = [(stop - start) * array.dtype.itemsize for start, stop in pairwise(bounds)]
        out = np.empty(array.shape, array.dtype) if root is None or root == self.rank else None
        wait(self._start_gather(memory_of(part), None if out is None else memory_of(out), counts, root))
        return out[()] if out is not None and isinstance(value, np.generic) else out

    def _combined(self, memories: list[Any], op: Reduction) -> Any:
        found = [unpacked(decoded(memory)) for memory in memories]
        if any(other != op or number is None for other, number in found):
            raise CollectiveMismatch("the ranks called reductions that do not agree: by different ops")
        return combine_scalars([number for _, number in found], op)


class _OnTheirWay:
    """Messages that are being sent. Their memory must live on, also if the communicator does not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: list[tuple[Callable[[], bool], Any]] = []

    def add(self, done: Callable[[], bool], memory: Any) -> None:
        self.count()
        with self._lock:
            self._messages.append((done, memory))

    def count(self) -> int:
        """Forget the messages that have been sent; return how many have not."""
        with self._lock:
            self._messages = [(done, memory) for done, memory in self._messages if not _is_over(done)]
            return len(self._messages)


_on_their_way = _OnTheirWay()


def _is_over(done: Callable[[], bool]) -> bool:
    try:
        return done()
    except Exception:  # it cannot be sent any more; the calls that need the other rank raise
        return True


def send_later(done: Callable[[], bool], memory: Any) -> None:
    """Keep the memory of a message until it has been sent."""
    _on_their_way.add(done, memory)


class Wait:
    """Waits for requests, with a timeout, while signals and notices of other ranks are looked for."""

    def __init__(self, whole: PolledCommunicator, name: str, timeout: float | None) -> None:
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout must be a number of seconds from 0 on, got {timeout}")
        self._whole, self._name, self._timeout = whole, name, timeout
        self._started = time.monotonic()

    def check(self) -> None:
        self._whole._look(self._timeout is not None)

    def __call__(self, request: Callable[[], bool]) -> None:
        try:
            self.until(request)
        except BaseException:
            # The library may still use the memory of the request: it lives as long as the request.
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


#: Requests that were given up; with them lives the memory that the library may still write to.
_abandoned: list[Any] = []


def memory_of(data: Any) -> Any:
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
