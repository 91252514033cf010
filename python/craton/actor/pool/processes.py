"""The processes of sub pools: starting them, waiting until they are ready, ending them, and describing how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from craton.actor.pool.oom import OomKills
from craton.actor.pool.output import ProcessThread

LENGTH = struct.Struct("<I")
"""The header of the startup report that a process sends through a pipe: the size of the pickle that follows."""
# Seconds to wait for the end of a process that failed to start.
_GONE = 5.0


_dying: list[subprocess.Popen[bytes]] = []
"""Killed processes that have not ended yet, as happens on a busy machine; reaped when further processes are started."""


class Process:
    """A sub pool's process; created by `start`.

    Attributes
    ----------
    address : str
        The address of its pool; empty until `ready` has returned.
    """

    def __init__(
        self, given: dict[str, Any], python: str | None, env: dict[str, str] | None, thread: ProcessThread
    ) -> None:
        _reap()
        # The group may lose this pool at any time: then there must not be a process that nobody ends.
        self._wanted = given["config"].pools[given["index"]].address
        reading, writing = os.pipe()
        path = _path() if python is None or python == sys.executable else _own_path()
        given = {**given, "report": writing, "parent": os.getpid(), "path": path}
        environment = {**os.environ, **{name: str(value) for name, value in (env or {}).items()}}
        try:
            text = pickle.dumps(given, 5)
            self._popen = subprocess.Popen(
                [python or sys.executable, "-m", "craton.actor.pool.sub"],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(writing,),
                env={**environment, "PYTHONPATH": os.pathsep.join(_home(environment))},
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._report = os.fdopen(reading, "rb", buffering=0)
        self.address = ""
        self.owner = os.getpid()
        self._oom = OomKills(self.pid)
        assert self._popen.stdin is not None
        assert self._popen.stderr is not None
        self._log = thread.add(self._popen.stderr)  # type: ignore[arg-type]
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(text)
            self._popen.stdin.flush()

    @classmethod
    async def start(
        cls, given: dict[str, Any], python: str | None, env: dict[str, str] | None, thread: ProcessThread
    ) -> Process:
        """Start a process, in the process thread.

        Raises
        ------
        OSError
            The interpreter does not exist, or no more processes can be created.
        """
        return await thread.do(lambda: cls(given, python, env, thread), cls.end)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, as `subprocess.Popen.returncode`; None while the process runs."""
        return self._popen.poll()

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._popen.poll() is None

    async def ready(self) -> str:
        """Wait until its pool is ready; return the pool's address.

        Raises
        ------
        OSError
            The pool cannot listen at its address.
        RuntimeError
            The process ended before it was ready, or a module could not be imported.
        """
        report = await self._read_report()
        if report is not None and report[0] == "ready":
            self.address = report[1]
            self._oom = OomKills(self.pid)  # the process may have been moved to another control group meanwhile
            return self.address
        with contextlib.suppress(TimeoutError):
            await self.wait(_GONE)
        self._log.drain()
        if report is not None and report[2] is not None:
            raise OSError(report[2], f"the sub pool for {self._wanted} cannot listen: {os.strerror(report[2])}")
        raise RuntimeError(
            f"the sub pool for {self._wanted} could not be started{f': {report[1]}' if report else ''}; "
            f"its process (pid {self.pid}) {self.how_it_ended()}"
        )

    async def _read_report(self) -> Any:
        # The report has a length header, so that the end of the pipe need not be awaited: other processes that were
        # started at the same time may have inherited the pipe.
        loop = asyncio.get_running_loop()
        text = b""
        ended = asyncio.ensure_future(self._exited())
        try:
            while len(text) < LENGTH.size or len(text) < LENGTH.size + LENGTH.unpack_from(text)[0]:
                more = _readable(loop, self._report.fileno())
                try:
                    await asyncio.wait({more, ended}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    loop.remove_reader(self._report.fileno())
                piece = self._report.read(1 << 16)
                if not piece:
                    if piece == b"" or ended.done():
                        return None
                    continue
                text += piece
            return pickle.loads(text[LENGTH.size :])
        finally:
            ended.cancel()
            self._report.close()

    def kill(self) -> None:
        self._popen.kill()

    def end(self) -> None:
        """Kill the process, close its pipes, and reap it."""
        with contextlib.suppress(OSError):
            self._popen.kill()
        self.close()
        try:
            self._popen.wait(1)
        except subprocess.TimeoutExpired:
            _dying.append(self._popen)

    async def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end of the process; return its exit status.

        Raises
        ------
        TimeoutError
            The process did not end in time.
        """
        if self._popen.poll() is None:
            await asyncio.wait_for(self._exited(), timeout)
        return self._popen.poll()

    async def _exited(self) -> None:
        loop = asyncio.get_running_loop()
        if hasattr(os, "pidfd_open"):
            try:
                descriptor = os.pidfd_open(self.pid)
            except ProcessLookupError:
                return
            except OSError:
                pass  # out of descriptors, or the kernel does not support pidfd
            else:
                try:
                    await _readable(loop, descriptor)
                finally:
                    loop.remove_reader(descriptor)
                    os.close(descriptor)
                return
        while self._popen.poll() is None:
            await asyncio.sleep(0.05)

    def how_it_ended(self) -> str:
        """Describe the end for an error message: the exit code or signal, and the last lines of standard error."""
        code = self._popen.poll()
        if code is None:
            how = "is running"
        elif code >= 0:
            how = f"exited with code {code}"
        else:
            how = f"was killed by {_signal_name(-code)}"
            if code == -signal.SIGKILL:
                how += self._oom.since()
        self._log.drain()
        last = self._log.last
        return how + (":\n  " + "\n  ".join(last) if last else "")

    def close(self) -> None:
        """Close the pipes; a process that still runs ends because of that."""
        self._report.close()
        with contextlib.suppress(OSError):
            self._popen.stdin.close()  # type: ignore[union-attr]

    def forget(self) -> None:
        """Close the copies of the pipes that a fork of this process has inherited."""
        self.close()
        self._log.close()


def _reap() -> None:
    for popen in list(_dying):
        if popen.poll() is not None:
            with contextlib.suppress(ValueError):  # another thread has removed it
                _dying.remove(popen)


def _readable(loop: asyncio.AbstractEventLoop, descriptor: int) -> asyncio.Future[None]:
    event = loop.create_future()
    loop.add_reader(descriptor, lambda: None if event.done() else event.set_result(None))
    return event


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _path() -> list[str | None]:
    return [entry or os.getcwd() for entry in sys.path]


def _own_path() -> list[str | None]:
    # The entries that this program has added; another interpreter has its own standard library and site-packages.
    theirs = tuple({os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)})
    return [None, *[entry for entry in _path() if entry and not entry.startswith(theirs)]]


def _home(environment: dict[str, str]) -> list[str]:
    # The sub process imports `craton` before it receives `sys.path`. Another interpreter has its own dependencies.
    home = str(Path(__file__).parents[3])
    given = environment.get("PYTHONPATH")
    return [home, *([given] if given else [])]
