"""The process that others are forked from."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import warnings
from collections.abc import Callable, Iterable
from typing import ClassVar, NoReturn

from craton.fork_server.processes import adopt_orphans, children, end_children, exit_now, kill, reap

__all__ = ["READY", "REQUEST", "ForkServer"]

READY = b"r"
"""The message of a server that has imported its libraries."""
REQUEST = 1 << 16
"""The most bytes of a request."""
#: The most descriptors of a request.
_DESCRIPTORS = 3
#: Milliseconds without a request after which one more module is imported: more than processes need that have just been started.
_IDLE = 100


class ForkServer:
    """A process with one thread that forks others when its starter asks for them through a socket.

    When the starter ends, the socket closes, and :meth:`closed` is called. If the starter was killed and a child of its own holds the
    socket, its processes are ended. The server adopts the orphans of its processes (it is a subreaper), and ends them.

    Parameters
    ----------
    requests
        The socket; each message is one request.
    """

    imported: ClassVar[tuple[str, ...]] = ()
    """Modules that all processes may need. None of these starts a thread that must live in a forked process."""
    imported_later: ClassVar[tuple[str, ...]] = ()
    """Modules that are imported one after another while nothing is asked for."""

    def __init__(self, requests: int) -> None:
        self.channel = socket.socket(fileno=requests)
        self.running: set[int] = set()

    def prepare(self) -> None:
        """Do once what libraries do at first use."""

    def requested(self, request: bytes, fds: list[int]) -> None:
        """Do what the starter asks for; `fds` are this process's until they are closed."""
        raise NotImplementedError

    def ended(self, pid: int, status: int) -> None:
        """Note that a forked process has ended; `status` is what ``waitpid`` said."""

    def looked(self) -> None:
        """Called at least once a second."""

    def closed(self) -> NoReturn:
        """End this process, because the starter has closed the socket."""
        end_children()
        exit_now(0)

    def fork(self, run: Callable[[], object], fds: Iterable[int]) -> int:
        """Fork a process that calls `run`, which does not return, and close `fds` here; return its number."""
        pid = os.fork()
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                run()
            finally:
                exit_now(1)
        self.running.add(pid)
        for fd in fds:
            os.close(fd)
        return pid

    def serve(self) -> NoReturn:
        """Import the libraries, and answer requests until the socket is closed."""
        starter = os.getppid()
        adopt_orphans()
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for name in self.imported:
            _import(name)
        with contextlib.suppress(Exception):
            self.prepare()
        gc.freeze()
        gc.enable()  # collections while libraries are imported find nothing, and take a tenth of the time
        later = list(reversed(self.imported_later))
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        self.channel.sendall(READY)
        poller = select.poll()
        poller.register(self.channel, select.POLLIN)
        poller.register(woken, select.POLLIN)
        while True:
            ready = dict(poller.poll(_IDLE if later else 1000))
            if not ready and later:
                _import(later.pop())
                gc.freeze()
            if os.getppid() != starter:  # a forked child of the starter may hold the socket
                end_children()
                exit_now(0)
            if woken in ready:
                os.read(woken, 4096)
            for pid, status in reap():
                if pid in self.running:
                    self.running.discard(pid)
                    self.ended(pid, status)
            self.looked()
            if orphans := [pid for pid in children() if pid not in self.running]:
                kill(orphans)
            if self.channel.fileno() in ready:
                request, fds, _, _ = socket.recv_fds(self.channel, REQUEST, _DESCRIPTORS)
                if not request:
                    self.closed()
                self.requested(request, fds)


def _import(name: str) -> None:
    """Import a module. In an environment of its own with other packages that may fail, and is an error only where it is needed."""
    with contextlib.suppress(Exception):
        importlib.import_module(name)
