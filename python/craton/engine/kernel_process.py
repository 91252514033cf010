"""Runs plans of a forked process, in which the kernel's threads do not exist, in a separate kernel process.

The kernel process is a new interpreter, not a fork. It is started for the first plan and ends with the process that owns it.
Ctrl-C during a run ends it, and the next run starts another.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import io
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import cloudpickle
import polars as pl

from craton import forks
from craton.cluster.environment import VARIABLE
from craton.config import options

__all__ = ["call_in_kernel_process", "serve"]

_LENGTH = struct.Struct("<Q")
#: A terminal sends Ctrl-C to every process. The kernel process ignores it, since the owner that waits for the run ends it.
_PROGRAM = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from craton.engine.kernel_process import serve; serve()"


T = TypeVar("T")


def call_in_kernel_process(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that needs the kernel in the kernel process; returns or raises what the function does.

    Raises
    ------
    RuntimeError
        If the arguments cannot be pickled, or the kernel process ends during the call.
    """
    global _started
    try:
        request = _pickled((dataclasses.asdict(options), os.getcwd(), function, args, kwargs))
    except Exception as error:
        raise RuntimeError(
            "This process was forked from one that had run plans, so its own plans must be sent to another process to run, but "
            f"this one cannot be pickled: {error}. Start processes with multiprocessing's 'spawn' or 'forkserver' method."
        ) from error
    with _turn:
        if _started is None or _started.owner != os.getpid():
            if _started is not None:
                _inherited.append(_started)
            _started = _KernelProcess()
        try:
            kind, answer = _started.ask(request)
        except BaseException:
            _started.end()
            _started = None
            raise
    if kind == "raised":
        from craton.remote.side_output import unpack_exception

        raise unpack_exception(answer)
    result: T = answer
    return result


class _KernelProcess:
    """The owner's side of a kernel process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        home = str(Path(__file__).parents[2])
        path = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), VARIABLE: ""},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._greeting = pickle.dumps((self.owner, [entry or os.getcwd() for entry in sys.path]))

    def ask(self, request: bytes) -> Any:
        """Send a request and wait for the answer.

        Raises
        ------
        RuntimeError
            If the kernel process ends before it answers.
        """
        try:
            if self._greeting:
                _send(self._to, self._greeting)
                self._greeting = b""
            _send(self._to, request)
            return pickle.loads(_received(self._from))
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            raise RuntimeError(
                "This process was forked from one that had run plans, so its own plans run in another process, which ended "
                f"during the run with exit code {code}. Start processes with multiprocessing's 'spawn' or 'forkserver' method."
            ) from None

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._to, self._from):
            with contextlib.suppress(OSError):  # buffered data cannot be flushed any more
                stream.close()


_turn = forks.lock()
_started: _KernelProcess | None = None
#: Kernel processes of the parents of this fork. They are referenced so that their Popen objects are not finalised here, since
#: this process cannot wait for them.
_inherited: list[_KernelProcess] = []


@atexit.register
def _end() -> None:
    if _started is not None and _started.owner == os.getpid():
        _started.end()


# -- in the kernel process ---------------------------------------------------------------------------------------------


def serve() -> None:
    """Serve requests from standard input on standard output, until the input ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # libraries that print must not write into the answers
    os.close(nothing)
    owner, path = pickle.loads(_received(requests))
    sys.path[:] = path
    _end_with(owner)
    while True:
        try:
            request = _received(requests)
        except EOFError:
            return
        _send(answers, _answer(request))


def _answer(request: bytes) -> bytes:
    from craton.remote.side_output import pack_exception

    try:
        values, folder, function, args, kwargs = pickle.loads(request)
        os.chdir(folder)
        for name, value in values.items():
            setattr(options, name, value)
        return _pickled(("returned", function(*args, **kwargs)))
    except BaseException as error:
        return _pickled(("raised", pack_exception(error)))


def _end_with(owner: int) -> None:
    """End this process when its owner ends, even while it runs a plan."""
    if not hasattr(os, "pidfd_open"):
        return  # then this process ends after the run, when its input ends
    try:
        descriptor = os.pidfd_open(owner)
    except ProcessLookupError:
        os._exit(1)
    except OSError:
        return

    def wait() -> None:
        select.select([descriptor], [], [])
        os._exit(1)

    threading.Thread(target=wait, name="craton-owner", daemon=True).start()


# -- messages ----------------------------------------------------------------------------------------------------------


class _Pickler(cloudpickle.Pickler):
    """Pickles frames as columns of one chunk each. Polars would concatenate chunks in its threads, which a fork lacks."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, pl.DataFrame) and obj.width:
            return pl.DataFrame, ([column.rechunk() for column in obj.get_columns()],)
        if isinstance(obj, pl.Series) and obj.n_chunks() > 1:
            return _series, (obj.rechunk(),)
        return super().reducer_override(obj)


def _series(column: pl.Series) -> pl.Series:
    return column


def _pickled(value: Any) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def _send(stream: Any, message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _received(stream: BinaryIO | Any) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: Any, length: int) -> bytes:
    found: bytes = stream.read(length)
    if len(found) < length:
        raise EOFError
    return found
