"""One call of a step's function, seen from outside: its process is watched and ended at its limits, and the store takes what it made."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import select
import signal
import socket
import struct
import time
from typing import Any

from craton.actor.pool.oom import OomKills
from craton.command import format_bytes
from craton.pipeline.meter import Meter
from craton.pipeline.tasks import Cause, Form, StepTask
from craton.pipeline.worker import DESCRIPTORS, LENGTH, LOST, Order
from craton.pipeline.zygote import REPORT
from craton.pipeline.zygotes import Process
from craton.records import dataclass
from craton.store.sets import LocalitySet
from craton.store.store import Store

__all__ = ["Call", "Ending"]

#: Seconds between looks at the memory of a process that has a limit, and of one that has none.
_LIMITED, _UNLIMITED = 0.02, 0.1
#: Seconds that a process has besides its limit for what precedes its function, and in all for what follows its answer.
_GRACE = 30.0
#: The most bytes of a worker's message.
_MOST = 1 << 30
#: What is kept of what a process printed: the first and the last bytes.
_FIRST, _LAST = 1 << 16, 1 << 18
_PID = struct.Struct("<i")
#: What libraries write before they end the process because an allocation failed.
_OUT_OF_MEMORY = ("memory allocation of", "std::bad_alloc", "MemoryError", "Out of memory")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended.

    Parameters
    ----------
    begun
        Whether the process was started.
    done
        Whether it gave an answer, good or bad.
    failure
        Cause, message and traceback.
    outputs
        For each output its form, rows and pages.
    counts
        Bytes that are new, copied and shared.
    """

    begun: bool
    done: bool
    failure: tuple[Cause, str, str] | None
    outputs: dict[str | None, tuple[Form, int, LocalitySet]]
    counts: tuple[int, int, int]
    seconds: float
    cpu_seconds: float
    peak_memory: int
    printed: str


class Call:
    """A running task. One thread calls `run`; `kill` may be called by others."""

    def __init__(self, task: StepTask, process: Process) -> None:
        self._task, self._process = task, process
        self._poller = select.poll()
        self._control, self._channel, self._output = process.control.fileno(), process.channel.fileno(), process.output
        for fd in (self._control, self._channel, self._output):
            self._poller.register(fd, select.POLLIN)
        self._received = bytearray()
        self._fds: list[int] = []
        self._unsent = b""
        self._printed = _Printed()
        self._report = b""
        self._pid: int | None = None
        self._meter: Meter | None = None
        self._oom: OomKills | None = None
        self._answer: tuple[Any, ...] | None = None
        self._killed: Cause | None = None
        self._started = self._began = time.monotonic()
        self._deadline: float | None = None
        self._pinned: list[Any] = []

    def kill(self) -> None:
        """End the process, and all that it started."""
        self._process.kill()

    def close(self) -> None:
        """Release all that the call has; the process has ended, or is killed."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        if self._meter is not None:
            self._meter.close()
        self._pinned.clear()
        self._process.close()

    def run(self, order: Order, store: Store) -> Ending:
        """Run the task to its end."""
        text = pickle.dumps(order, 5)
        self._send(LENGTH.pack(len(text)) + text)
        self._limit_time(_GRACE)
        try:
            while not self._step(store):
                pass
        except BaseException:
            self.kill()
            self._wait_for_end(10.0)
            raise
        self._drain()
        return self._ending(store)

    # ---- watching ----

    def _step(self, store: Store) -> bool:
        """Wait for something, and handle it. True if the process has ended."""
        wait = _LIMITED if self._task.limits.memory is not None else _UNLIMITED
        for fd, _ in self._poller.poll(wait * 1000):
            if fd == self._output:
                self._read_output()
            elif fd == self._channel:
                self._read_channel(store)
            elif self._read_control():
                return True
        self._watch()
        return False

    def _watch(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            if self._answer is None:
                self._killed = self._killed or "time"
            self._deadline = None
            self.kill()
        if self._meter is not None and self._answer is None:
            memory, limit = self._meter.measure(), self._task.limits.memory
            if limit is not None and memory > limit and self._killed is None:
                self._killed = "memory"
                self.kill()

    def _limit_time(self, more: float = 0.0) -> None:
        seconds = self._task.limits.seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds + more

    def _read_control(self) -> bool:
        try:
            data = os.read(self._control, 64)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._report += data
        if self._pid is None and len(self._report) >= _PID.size:
            (self._pid,) = _PID.unpack(self._report[: _PID.size])
            self._report = self._report[_PID.size :]
            self._oom = OomKills(self._pid)
        return not data or len(self._report) >= REPORT.size

    def _read_output(self) -> None:
        try:
            data = os.read(self._output, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._printed.add(data)
        else:
            self._poller.unregister(self._output)

    def _drain(self) -> None:
        """Read what is left in the pipe. All who could write to it have ended."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._output, 1 << 16):
                self._printed.add(data)

    def _send(self, data: bytes) -> None:
        self._unsent += data
        try:
            while self._unsent:
                self._unsent = self._unsent[self._process.channel.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the process has ended
            self._unsent = b""
        with contextlib.suppress(KeyError, OSError):
            self._poller.modify(self._channel, select.POLLIN | (select.POLLOUT if self._unsent else 0))

    def _read_channel(self, store: Store) -> None:
        if self._unsent:
            self._send(b"")
        try:
            data, fds, _, _ = socket.recv_fds(self._process.channel, 1 << 20, DESCRIPTORS + 3)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        self._fds += fds
        if not data:
            self._poller.unregister(self._channel)
            return
        self._received += data
        while len(self._received) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._received)
            if length > _MOST:
                self._reject()
                return
            if len(self._received) < LENGTH.size + length:
                return
            text = bytes(self._received[LENGTH.size : LENGTH.size + length])
            del self._received[: LENGTH.size + length]
            try:
                self._handle(_plain(text), store)
            except (pickle.UnpicklingError, EOFError, ValueError, TypeError, IndexError, AttributeError):
                self._reject()
                return

    def _reject(self) -> None:
        """The function wrote something else to the socket."""
        self._answer = ("failed", "output", "its process sent what is no answer", "")
        self._poller.unregister(self._channel)
        self.kill()

    def _handle(self, said: tuple[Any, ...], store: Store) -> None:
        if self._answer is not None:
            return
        if said[0] == "started":
            _, pid, base, resident = said
            self._began = time.monotonic()
            self._limit_time()
            self._meter = Meter(int(pid), int(base), int(resident), self._fds.pop(0))
            return
        if said[0] == "made" and int(said[4][2]):
            self._pin_inputs()
        elif said[0] == "written":
            for _, _, number, _ in said[1]:
                store._native.retain_set(number)
        self._answer = said
        self._deadline = time.monotonic() + _GRACE
        self._send(LENGTH.pack(1) + b".")

    def _pin_inputs(self) -> None:
        """Keep the inputs in memory, because outputs refer to it, from before the process ends until the outputs are in the store."""
        for stored, _ in self._task.inputs.values():
            for info in stored.pages.pages():
                if info.location != "disk":
                    self._pinned.append(stored.pages.pin(info))

    def _wait_for_end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        while time.monotonic() < until:
            if poller.poll(100) and self._read_control():
                return

    # ---- the end ----

    def _ending(self, store: Store) -> Ending:
        status, cpu_seconds, most = REPORT.unpack(self._report) if len(self._report) == REPORT.size else (None, 0.0, 0)
        outputs: dict[str | None, tuple[Form, int, LocalitySet]] = {}
        counts, seconds, last = (0, 0, 0), time.monotonic() - self._began, 0
        failure = self._failure(status)
        if failure is None:
            assert self._answer is not None
            said = self._answer
            counts, seconds, last = said[-3:]
            try:
                with self._task.taking():
                    outputs = (
                        self._written(store, said[1]) if said[0] == "written" else self._adopted(store, *said[1:4])
                    )
            except MemoryError as error:
                failure = ("memory", f"the store has no room for what it made: {error}", "")
            except (KeyError, ValueError, TypeError, IndexError, OSError) as error:
                failure = ("output", f"the store cannot take what it made: {error}", "")
        return Ending(
            self._pid is not None,
            self._answer is not None,
            failure,
            outputs,
            counts,
            seconds,
            cpu_seconds,
            self._peak(last, most),
            self._printed.text(),
        )

    def _peak(self, last: int, most: int) -> int:
        if self._meter is None:
            return 0
        inputs = sum(stored.nbytes for stored, _ in self._task.inputs.values())
        return max(self._meter.peak, last - self._meter.base, most - self._meter.resident - inputs)

    def _adopted(
        self, store: Store, described: Any, memfds: Any, pages: Any
    ) -> dict[str | None, tuple[Form, int, LocalitySet]]:
        """The outputs in memory that the process handed over."""
        taken = [(fd, *one) for fd, one in zip(self._fds, memfds, strict=True)]
        made = store.create_set()
        infos = store.adopt(made, taken, pages)
        if len(described) == 1:
            ((name, form, _, rows),) = described
            return {name: (form, rows, made)}
        outputs = {}
        left = iter(infos)
        for name, form, count, rows in described:  # sets of their own, that refer to the same memory
            own = store.create_set()
            for _ in range(count):
                store._native.write(own.number, made.pin(next(left)).batch())
            outputs[name] = (form, rows, own)
        return outputs

    def _written(self, store: Store, described: Any) -> dict[str | None, tuple[Form, int, LocalitySet]]:
        """The outputs that the process wrote to the store itself."""
        return {name: (form, rows, LocalitySet(store, number, None)) for name, form, number, rows in described}

    def _failure(self, status: int | None) -> tuple[Cause, str, str] | None:
        if self._answer is not None:
            if self._answer[0] != "failed":
                return None
            _, cause, message, traceback = self._answer
            limit = self._task.limits.memory
            if cause == "memory" and limit is not None:
                message = f"{message} (its limit is {format_bytes(limit)})"
            return cause, message, traceback
        if self._killed == "time":
            return "time", f"did not end within {self._task.limits.seconds:g} seconds, and was killed", ""
        if self._killed == "memory":
            assert self._task.limits.memory is not None
            return (
                "memory",
                f"needed more memory than its limit of {format_bytes(self._task.limits.memory)}, and was killed",
                "",
            )
        if status is None:
            return "ended", "its process was lost", ""
        return self._unexpected(status)

    def _unexpected(self, status: int) -> tuple[Cause, str, str]:
        """The process ended, and nobody here made it end."""
        explanation = self._oom.since() if self._oom is not None and status & 0x7F == signal.SIGKILL else ""
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = next((one.name for one in signal.Signals if one == number), str(number))
            if explanation:
                return "memory", f"its process was killed by {name}{explanation}", ""
            limited = self._task.limits.memory is not None
            if (
                limited
                and number == signal.SIGABRT
                and any(one in self._printed.text()[-4096:] for one in _OUT_OF_MEMORY)
            ):
                return (
                    "memory",
                    f"needed more memory than its limit of {format_bytes(self._task.limits.memory or 0)}",
                    "",
                )
            return "ended", f"its process was killed by {name}", ""
        code = os.WEXITSTATUS(status)
        if code == LOST:
            return "ended", "its function closed the connection of its process to this one", ""
        return "ended", f"its process ended with exit code {code} before its function returned", ""


def _plain(text: bytes) -> Any:
    """Unpickle plain values; nothing is imported or called."""
    return _Plain(io.BytesIO(text)).load()


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")


class _Printed:
    """The beginning and the end of what a process printed."""

    def __init__(self) -> None:
        self._first, self._last, self._dropped = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        room = _FIRST - len(self._first)
        self._first += data[:room]
        self._last += data[room:] if room < len(data) else b""
        if (excess := len(self._last) - _LAST) > 0:
            del self._last[:excess]
            self._dropped += excess

    def text(self) -> str:
        dropped = f"\n… {self._dropped:,} bytes …\n".encode() if self._dropped else b""
        return (self._first + dropped + self._last).decode(errors="replace")
