"""Starts zygotes, and the processes of tasks from them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

from craton.pipeline import environments, preload
from craton.pipeline.tasks import Setting
from craton.records import dataclass

__all__ = ["Process", "Zygote", "ZygoteEnded"]

_CODE = """
import json, sys
requests, path, replace = sys.argv[1:]
path = json.loads(path)
sys.path[:] = path if replace == "1" else [*sys.path, *(entry for entry in path if entry not in sys.path)]
sys.argv[:] = ["-c"]
from craton.pipeline.zygote import main
main(int(requests))
"""


class ZygoteEnded(Exception):
    """A zygote has ended, or cannot be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Process:
    """The sockets of a task's process, and the pipe that has what it prints."""

    control: socket.socket
    channel: socket.socket
    output: int

    def kill(self) -> None:
        """Ask the keeper to kill the process, and all that it started."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the descriptors; a process that still runs is killed."""
        self.control.close()
        self.channel.close()
        os.close(self.output)


class Zygote:
    """A process that those of tasks are forked from.

    Parameters
    ----------
    setting
        The environment that it has.

    Raises
    ------
    craton.pipeline.environments.InstallationFailed
        If the packages cannot be installed.
    """

    def __init__(self, setting: Setting) -> None:
        self._lock = threading.Lock()
        self._ready = False
        python = environments.python_with(setting.packages) if setting.packages else sys.executable
        here, there = socket.socketpair()
        self._said = os.memfd_create("craton-zygote", os.MFD_CLOEXEC)
        path = json.dumps(module_path())
        command = [python, "-c", _CODE, str(there.fileno()), path, "0" if setting.packages else "1"]
        self._channel = here
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env=_environment(setting),
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        except BaseException:
            here.close()
            os.close(self._said)
            raise
        finally:
            there.close()

    def start(self) -> Process:
        """Start a process.

        Raises
        ------
        ZygoteEnded
            If it has ended.
        """
        control, its_control = socket.socketpair()
        channel, its_channel = socket.socketpair()
        output, its_output = os.pipe()
        process = Process(control, channel, output)
        try:
            with self._lock:
                self._wait()
                socket.send_fds(self._channel, [b"f"], [its_control.fileno(), its_channel.fileno(), its_output])
        except BaseException as error:
            process.close()
            if isinstance(error, OSError):
                raise ZygoteEnded(self.explanation()) from error
            raise
        finally:
            its_control.close()
            its_channel.close()
            os.close(its_output)
        os.set_blocking(output, False)
        control.setblocking(False)
        channel.setblocking(False)
        return process

    def _wait(self) -> None:
        """Wait until its modules are imported."""
        if not self._ready:
            if self._channel.recv(1) != b"r":
                raise BrokenPipeError
            self._ready = True

    def explanation(self) -> str:
        """Return a sentence for errors, after it has ended: what it wrote, too."""
        if self._said < 0:
            return "the process that starts the processes of steps has ended"
        said = (
            os.pread(self._said, 1 << 16, max(os.fstat(self._said).st_size - (1 << 16), 0))
            .decode(errors="replace")
            .strip()
        )
        return "the process that starts the processes of steps has ended" + (f":\n{said}" if said else "")

    def close(self) -> None:
        """End it. Processes that run are not ended, because they belong to their keepers."""
        with self._lock:
            self._channel.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:  # it was stopped by a signal
                self._process.kill()
                self._process.wait()
            if self._said >= 0:
                os.close(self._said)
                self._said = -1


def module_path() -> list[str]:
    """Return this process's module path, with absolute folders."""
    return [os.path.abspath(entry) for entry in sys.path]


def variables_of(setting: Setting) -> dict[str, str]:
    """Return the environment variables of steps of a setting."""
    return {**os.environ, **dict(setting.variables)}


def _environment(setting: Setting) -> dict[str, str]:
    given = variables_of(setting)
    made = preload.idle_environment(given)
    if "LD_PRELOAD" in given:
        made["CRATON_LD_PRELOAD"] = given["LD_PRELOAD"]
    # pyarrow's tables then lie in memory of the allocator.
    made["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    return made
