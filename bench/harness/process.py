"""The harness's side of a measurement: starts a worker process, sends it requests, and ends it when it exceeds a limit.

A worker may start further processes (Ray, Java, Dask). Time limits are enforced while the harness waits for a reply. A
thread reads the memory of the process tree from ``/proc``: a limit of the address space would not do, because engines
reserve large address ranges that they never touch.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from bench.harness import conditions

__all__ = ["MemoryWatch", "Worker", "WorkerError"]

GIB = 1024**3


class WorkerError(Exception):
    """A worker could not give a reply.

    Attributes
    ----------
    status : str
        ``"failed"`` (an exception in the contestant, or its process ended), ``"timeout"`` or ``"memory"``.
    """

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def memory_of(processes: Sequence[psutil.Process]) -> int:
    """Return the bytes of memory that processes use together; shared memory is counted once.

    Pages of mapped files are not counted, since the kernel reclaims them when it needs memory.
    """
    private, shared = 0, 0
    for process in processes:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            with contextlib.suppress(psutil.Error):
                private += process.memory_info().rss if not Path("/proc").is_dir() else 0
            continue
        for line in status.splitlines():
            if line.startswith("RssAnon:"):
                private += int(line.split()[1]) * 1024
            elif line.startswith("RssShmem:"):
                shared = max(shared, int(line.split()[1]) * 1024)
    return private + shared


class MemoryWatch:
    """Monitors the memory of a process and its descendants: records the peak, and kills them if they exceed a limit.

    Parameters
    ----------
    pid : int
        The root of the tree.
    limit : int or None
        Bytes. With None, memory is only measured.
    interval : float
        Seconds between readings. The tree is listed again only at every tenth reading, because listing is slower.
    """

    def __init__(self, pid: int, limit: int | None, interval: float = 0.05) -> None:
        self._root = psutil.Process(pid)
        self._tree: dict[int, psutil.Process] = {pid: self._root}
        self._limit = limit
        self._interval = interval
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.peak = 0
        self.exceeded = False
        self._thread = threading.Thread(target=self._follow, name=f"memory of {pid}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        turn = 0
        while not self._ended.wait(self._interval):
            if turn % 10 == 0:
                self.refresh()
            turn += 1
            used = memory_of(list(self._tree.values()))
            self.peak = max(self.peak, used)
            if self._limit is not None and used > self._limit:
                self.exceeded = True
                self.kill()
                return

    def refresh(self) -> None:
        """List the processes of the tree again. Processes that were listed before stay in the list, also if their parent has changed."""
        with self._lock:
            tree = {pid: process for pid, process in self._tree.items() if process.is_running()}
            with contextlib.suppress(psutil.Error):
                tree.update((child.pid, child) for child in self._root.children(recursive=True))
            self._tree = tree

    def restart_peak(self) -> None:
        """Reset the peak before the next run."""
        self.peak = 0

    def kill(self) -> None:
        """Kill every process of the tree."""
        self.refresh()
        for process in reversed(list(self._tree.values())):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to every process of the tree."""
        self.refresh()
        for process in list(self._tree.values()):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def close(self) -> None:
        """Stop the monitoring thread."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


class Worker:
    """One contestant in a process of its own.

    Parameters
    ----------
    name : str
        The contestant.
    module : str
        Benchmark module with ``open_contestant``; see `bench.harness.worker`.
    options : mapping
        Passed to ``open_contestant``; plain JSON values.
    python : path
        Interpreter of the contestant's environment.
    root : path
        Root of the repository, from which ``bench`` is imported.
    allocator : str
        See `bench.harness.conditions.ALLOCATORS`.
    environment : mapping
        Environment variables of this contestant, in addition to those of `bench.harness.conditions`.
    timeout : float or None
        Seconds for the start and for each run.
    memory_limit : int or None
        Bytes for the process tree.

    Raises
    ------
    WorkerError
        The contestant could not be opened.
    """

    def __init__(
        self,
        name: str,
        module: str,
        options: Mapping[str, Any],
        *,
        python: Path,
        root: Path,
        allocator: str = "kept",
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.name = name
        self._timeout = timeout
        self._memory_limit = memory_limit
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix=f"bench-{name}-")  # noqa: SIM115 (closed in stop)
        programs = [str(python.parent), os.environ.get("PATH", os.defpath)]
        self._process = subprocess.Popen(
            [
                str(python),
                "-m",
                "bench.harness.worker",
                module,
                name,
                json.dumps(dict(options)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=root,
            env={
                **conditions.process_environment(name, allocator=allocator, extra=environment, root=root),
                "PATH": os.pathsep.join(programs),
            },
            start_new_session=True,
        )
        self._unread = b""
        self._lost = False
        self._watch = MemoryWatch(self._process.pid, memory_limit)
        try:
            opened = self._receive()
        except WorkerError:
            self.stop()
            raise
        self.versions: dict[str, str] = opened["versions"]
        self.seconds_to_open: float = opened["seconds"]
        self.environment: dict[str, str] = opened["environment"]
        self.threads: dict[str, int] = opened["threads"]

    @property
    def alive(self) -> bool:
        """Whether the process still runs and accepts requests."""
        return not self._lost and not self._watch.exceeded and self._process.poll() is None

    def run(self, case: str, *, answer: bool) -> dict[str, Any]:
        """Run one case.

        Parameters
        ----------
        case : str
            A case of the benchmark.
        answer : bool
            Whether to return the answer for comparison as well.

        Returns
        -------
        dict
            ``seconds``, ``peak_memory`` in bytes, and ``answer`` if requested.

        Raises
        ------
        WorkerError
            The contestant failed, or exceeded its time or memory limit. If it exceeded a limit, its process was killed.
        """
        self._watch.restart_peak()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": "run", "case": case, "answer": answer}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        reply = self._receive()
        reply["peak_memory"] = self._watch.peak
        return reply

    def pause(self) -> None:
        """Stop the contestant's processes until `resume`, so that none of them takes time from the others' turns.

        MPI processes spin while they wait, and clusters send heartbeats.
        """
        if self.alive:
            self._watch.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the paused processes."""
        self._watch.send(signal.SIGCONT)

    def stop(self) -> None:
        """End the process and all processes that it started; do nothing if it has ended."""
        self.resume()
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5 if self.alive else 0)
        self._watch.kill()
        self._watch.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def _receive(self) -> dict[str, Any]:
        line = self._read_line()
        message: dict[str, Any] = json.loads(line)
        if not message.pop("ok"):
            raise WorkerError("failed", message["error"])
        return message

    def _read_line(self) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                left = None if deadline is None else deadline - time.monotonic()
                if (left is not None and left <= 0) or not selector.select(left):
                    self._lost = True
                    self._watch.kill()
                    raise WorkerError(
                        "timeout",
                        f"gave no result within {self._timeout:g} s and was killed",
                    )
                chunk = os.read(pipe.fileno(), 1 << 20)
                if not chunk:
                    self._lost = True
                    raise self._ended()
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _ended(self) -> WorkerError:
        if self._watch.exceeded:
            assert self._memory_limit is not None
            limit = self._memory_limit / GIB
            return WorkerError(
                "memory",
                f"used more than the limit of {limit:.3g} GiB of memory and was killed",
            )
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
        said = self._last_words()
        return WorkerError("failed", f"its process {how}" + (f"; its last output: {said}" if said else ""))

    def _last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4096))
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines()]
        return " | ".join([line for line in lines if line][-3:])
