"""What the process of a step does: it reads one task, gets its inputs from the store, calls the function, and hands its result over.

Messages between a worker and its supervisor are a length of eight bytes and a pickle. A worker sends only tuples of plain values.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import mmap
import os
import pickle
import resource
import socket
import struct
import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from craton import _native
from craton.fork_server.processes import close_all_but, high
from craton.pipeline import conversion, preload
from craton.pipeline.handover import hand_over
from craton.pipeline.returned import NotATable, Returned
from craton.pipeline.tasks import Cause, Form, Limits
from craton.records import dataclass
from craton.store.sets import LocalitySet
from craton.store.store import Store

LENGTH = struct.Struct("<Q")
#: The most descriptors that the system takes in one message.
DESCRIPTORS = 250
#: Address space that libraries reserve and do not use, such as the stacks of their threads.
_UNUSED = 1 << 30
#: The exit code of a process that cannot send its answer.
LOST = 86


@dataclass(frozen=True, slots=True)
class Order:
    """A task as its process gets it.

    Parameters
    ----------
    address
        Where the store is served.
    function, parameters
        Pickled.
    inputs
        For each parameter the number of the set, the form of the table when it was made, and the form that the function takes.
    limits, cpus
        What the process may use; the processors that it may run on.
    variables, path, folder
        Environment variables, module path and working directory.
    adopts
        Whether the store takes memory over, from a process on this machine; else the worker writes to the store.
    """

    address: str
    function: bytes
    parameters: bytes
    inputs: Mapping[str, tuple[int, Form, Form]]
    limits: Limits
    cpus: tuple[int, ...] | None
    variables: Mapping[str, str]
    path: tuple[str, ...]
    folder: str
    adopts: bool


class Failed(Exception):
    """The task failed, for a reason other than an exception of its function."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(cause, message)
        self.cause, self.message = cause, message


def main(channel: int, output: int) -> None:
    """Run one task, which comes through the socket `channel`, and end the process."""
    # High numbers: a function that closes descriptors, or opens the standard ones again, uses low ones.
    global _inode
    link = socket.socket(fileno=high(channel))
    _inode = os.fstat(link.fileno()).st_ino
    os.setsid()
    _open_standard(output, link.fileno())
    order: Order = pickle.loads(receive(link))
    pid = os.getpid()
    try:
        said: tuple[Any, ...] = _run(order, link)
    except Failed as failed:
        said = ("failed", failed.cause, failed.message, "")
    except (
        BaseException
    ) as error:  # also SystemExit and KeyboardInterrupt, which must not end the process without an answer
        said = ("failed", *_describe(error))
    if os.getpid() != pid:
        os._exit(0)  # a child that the function forked, and that returned or raised as well
    _flush()
    _answer(link, said)


def _answer(link: socket.socket, said: Any, fds: Iterable[int] = ()) -> NoReturn:
    """Send the answer, and end the process when it was received."""
    if not _is_socket(link.fileno()):
        os._exit(LOST)
    try:
        send(link, said, fds)
    except OSError:
        os._exit(LOST)
    receive(link)
    os._exit(0)


def _is_socket(fd: int) -> bool:
    """Whether it is still the socket that this process was given: a function may have closed it, and opened a file."""
    try:
        return os.fstat(fd).st_ino == _inode
    except OSError:
        return False


#: The number of the socket's file.
_inode = 0
#: What lives as long as the process.
_kept: list[Any] = []


def send(link: socket.socket, said: Any, fds: Iterable[int] = ()) -> None:
    """Send a message, and descriptors before it."""
    text = pickle.dumps(said, 5)
    left = list(fds)
    head = LENGTH.pack(len(text))
    while left:
        now, left = left[:DESCRIPTORS], left[DESCRIPTORS:]
        # Each message that carries descriptors has one byte of the length, or more in the last.
        socket.send_fds(link, [head[:1]], now)
        head = head[1:]
    link.sendall(head + text)


def receive(link: socket.socket) -> bytes:
    """Receive a message; end the process if there is none, because the supervisor has ended."""
    (length,) = LENGTH.unpack(_exactly(link, LENGTH.size))
    return _exactly(link, length)


def _exactly(link: socket.socket, length: int) -> bytes:
    read = bytearray(length)
    view = memoryview(read)
    while view:
        count = link.recv_into(view)
        if count == 0:
            os._exit(1)
        view = view[count:]
    return bytes(read)


# ---- the process ----


def _open_standard(output: int, kept: int) -> None:
    """Give the process its own standard streams, and close all other descriptors."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, target, inheritable=True)
    close_all_but((0, 1, 2, kept))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- it lives as long as the process
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = io.TextIOWrapper(
            open(fd, "wb", 0 if fd == 2 else -1, closefd=False),  # noqa: SIM115 -- as above
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def _prepare(order: Order, memory: int) -> None:
    """Set variables, path, folder and limits; the allocator reports to the memfd."""
    for name in set(os.environ) - set(order.variables):
        del os.environ[name]
    for name, value in order.variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    os.environ["CRATON_STORE"] = order.address  # plans of the function share decoded files with all others
    if added := [entry for entry in order.path if entry not in sys.path]:
        sys.path += added
        importlib.invalidate_caches()
    with contextlib.suppress(OSError):
        os.chdir(order.folder)
    if order.cpus is not None:
        os.sched_setaffinity(0, order.cpus)
        pa.set_cpu_count(len(order.cpus))
    np.random.seed()  # else all steps would have the same random numbers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    preload.start(limit=order.limits.memory, cached=_mapped(memory))
    if order.limits.memory is not None:
        most = memory_of("VmData") + order.limits.memory * 5 // 4 + _UNUSED
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _mapped(fd: int) -> int | None:
    """Map a page of a file for as long as the process lives: its address. Python's own `mmap` keeps a descriptor open."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    address: int | None = function(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    return None if address is None or address == ctypes.c_void_p(-1).value else address


def memory_of(name: str, pid: int | str = "self") -> int:
    """Return a number of bytes from the status of a process."""
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file.read().splitlines():
            if line.startswith(name.encode() + b":"):
                return int(line.split()[1]) * 1024
    return 0


# ---- the task ----


def _run(order: Order, link: socket.socket) -> tuple[Any, ...]:
    memory = os.memfd_create("craton-memory", os.MFD_CLOEXEC)
    os.ftruncate(memory, mmap.PAGESIZE)
    _prepare(order, memory)
    try:
        function = pickle.loads(order.function)
        parameters = pickle.loads(order.parameters)
    except BaseException as error:
        raise Failed("environment", f"the function cannot be loaded: {_text(error)}") from error
    store, arguments = _inputs(order)
    arguments.update(parameters)
    send(link, ("started", os.getpid(), memory_of("RssAnon"), memory_of("VmRSS")), [memory])
    os.close(memory)
    begin, pid = time.perf_counter(), os.getpid()
    returned = function(**arguments)
    try:
        outputs = conversion.outputs_of(returned)
    except NotATable as error:
        raise Failed("output", str(error)) from None
    if os.getpid() != pid:
        os._exit(0)
    seconds = time.perf_counter() - begin
    _flush()
    if order.adopts:
        _hand_over(link, outputs, seconds)
    return _write(store, outputs, seconds)


def _inputs(order: Order) -> tuple[Any, dict[str, Any]]:
    if not order.inputs and order.adopts:
        return None, {}
    try:
        store = Store.connect(order.address)
        arguments = {}
        for name, (number, made, wanted) in order.inputs.items():
            store._native.retain_set(number)
            table = LocalitySet(store, number, None).to_arrow()
            arguments[name] = conversion.given(table, made, wanted)
    except MemoryError:
        raise
    except Exception as error:
        raise Failed("environment", f"its inputs cannot be read: {_text(error)}") from error
    return store, arguments


def _hand_over(link: socket.socket, outputs: Mapping[str | None, Returned], seconds: float) -> NoReturn:
    tables = [table for output in outputs.values() for table in output.tables]
    try:
        given = hand_over(tables)
    except ValueError as error:  # a type that pages do not support
        raise Failed("output", f"what the function returned cannot be stored: {error}") from None
    counts = iter(given.tables)
    described = [
        (name, output.form, sum(next(counts) for _ in output.tables), output.rows) for name, output in outputs.items()
    ]
    memfds = [(length, blocks) for _, length, blocks in given.memfds]
    bytes_of = (given.new, given.copied, given.shared)
    own = sum(os.fstat(fd).st_blocks * 512 for fd, *_ in given.memfds)
    said = ("made", described, memfds, given.pages, bytes_of, seconds, own + memory_of("RssAnon"))
    _answer(link, said, [fd for fd, *_ in given.memfds])


def _write(store: Any, outputs: Mapping[str | None, Returned], seconds: float) -> tuple[Any, ...]:
    """Write the outputs to a store that cannot take memory over; the supervisor finds the sets by their numbers."""
    described, copied, shared = [], 0, 0
    for name, output in outputs.items():
        pages = store.create_set()
        for table in output.tables:
            for batch in _native.encode_batches(table):
                for _, length, stored in batch.buffers():
                    copied, shared = (copied + length, shared) if stored is None else (copied, shared + length)
            pages.append(table)
        _kept.append(pages)  # until this process ends; the supervisor has a use of its own by then
        described.append((name, output.form, pages.number, output.rows))
    return ("written", described, (0, copied, shared), seconds, memory_of("RssAnon"))


# ---- errors ----


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _describe(error: BaseException) -> tuple[Cause, str, str]:
    """The cause, the message and the traceback of an exception, without the frames of this module."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename == __file__:
        at = at.tb_next
    try:
        lines = "".join(traceback.format_exception(type(error), error, at))
        message = _text(error)
    except BaseException as other:  # the exception's own methods raise
        lines, message = "", f"{type(error).__name__} (its text cannot be shown: {type(other).__name__})"
    return ("memory" if isinstance(error, MemoryError) else "raised"), message, lines
