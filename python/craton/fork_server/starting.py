"""Starts processes that others are forked from, and sends them requests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping

from craton.fork_server.serving import READY

__all__ = ["ServerProcess", "module_path"]

_CODE = """
import gc, importlib, json, sys
gc.disable()
module, requests, path, replace = sys.argv[1:]
path = json.loads(path)
sys.path[:] = path if replace == "1" else [*sys.path, *(entry for entry in path if entry not in sys.path)]
sys.argv[:] = ["-c"]
importlib.import_module(module).main(int(requests))
"""


class ServerProcess:
    """A process that others are forked from.

    Parameters
    ----------
    module
        The module whose ``main(requests)`` it runs.
    what
        What is forked from it, for messages, such as ``"ranks"``.
    variables
        Its environment variables.
    path
        The module path.
    python
        The interpreter. That of another environment keeps its own module path, to which `path` is added.
    """

    def __init__(
        self, module: str, what: str, variables: Mapping[str, str], path: list[str], python: str = sys.executable
    ) -> None:
        self._what = what
        self._ready = False
        self.lock = threading.Lock()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = os.memfd_create(f"craton-{what.replace(' ', '-')}", os.MFD_CLOEXEC)
        self.channel = here
        replace = "1" if python == sys.executable else "0"
        try:
            self._process = subprocess.Popen(
                [python, "-c", _CODE, module, str(there.fileno()), json.dumps(path), replace],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env=dict(variables),
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        except BaseException:
            here.close()
            os.close(self._said)
            raise
        finally:
            there.close()

    def send(self, request: bytes, fds: list[int]) -> None:
        """Send a request with copies of descriptors, after waiting until the libraries are imported; `lock` must be held.

        Raises
        ------
        OSError
            If the process has ended.
        """
        if not self._ready:
            if self.channel.recv(1) != READY:
                raise BrokenPipeError
            self._ready = True
            self.became_ready()
        socket.send_fds(self.channel, [request], fds)

    def became_ready(self) -> None:
        """Is called once, before the first request is sent."""

    def explanation(self) -> str:
        """Return a sentence for errors, after it has ended: what it wrote, too."""
        ended = f"the process that {self._what} are started from has ended"
        if self._said < 0:
            return ended
        said = os.pread(self._said, 1 << 16, max(os.fstat(self._said).st_size - (1 << 16), 0))
        text = said.decode(errors="replace").strip()
        return ended + (f":\n{text}" if text else "")

    def wait(self) -> None:
        """Wait until it has ended, which it does when the socket is closed; a process that was stopped by a signal is killed."""
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Close the descriptors."""
        self.channel.close()
        if self._said >= 0:
            os.close(self._said)
            self._said = -1


def module_path() -> list[str]:
    """Return this process's module path, with absolute folders."""
    return [os.path.abspath(entry) for entry in sys.path]
