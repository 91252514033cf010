"""Starts zygotes, and the processes of tasks from them."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

from craton.fork_server.starting import ServerProcess, module_path
from craton.pipeline import environments, preload
from craton.pipeline.tasks import Setting
from craton.records import dataclass

__all__ = ["Process", "Zygote", "ZygoteEnded"]


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


class Zygote(ServerProcess):
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
        python = environments.python_with(setting.packages) if setting.packages else sys.executable
        super().__init__(
            "craton.pipeline.zygote", "the processes of steps", _environment(setting), module_path(), python
        )

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
            with self.lock:
                self.send(b"f", [its_control.fileno(), its_channel.fileno(), its_output])
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

    def close(self) -> None:
        """End it. Processes that run are not ended, because they belong to their keepers."""
        with self.lock:
            self.channel.close()
            self.wait()
            self.forget()


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
