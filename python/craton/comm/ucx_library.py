"""The part of UCX's library that messages with tags need, by ctypes: one worker of UCX for each process.

The library is that of the package ``libucx`` (the extra ``ucx``), or else the system's (Debian: ``libucx0``). Structures have the layout of
UCX 1.x, whose fields are chosen by masks and never move. Source: ``ucp/api/ucp.h`` of https://github.com/openucx/ucx.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import importlib.util
import itertools
import logging
import os
import re
import select
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from craton import forks

__all__ = ["UcxError", "UcxPeer", "Worker", "find_library", "worker"]

#: Seconds between two steps of messages whose senders do something else.
_PAUSE, _LONGEST_PAUSE = 0.0005, 0.005
#: Seconds between two steps when nothing is to be done.
_IDLE = 0.05
#: Seconds for which messages with an abandoned tag are received.
_ABANDONED = 10.0
#: The most steps that are made at one poll.
_STEPS = 1000
_NO_MASK = (1 << 64) - 1
_PENDING = 1
#: Pointers from this address on are errors: numbers from -100 to -1.
_ERRORS = (1 << 64) - 100
# What UCX does unless the variables of the environment say something else.
_SETTINGS = {
    "UCX_MEM_EVENTS": "n",  # it would replace the process's mmap and munmap by its own
    "UCX_HANDLE_ERRORS": "none",  # it would take the signals of crashes
    "UCX_LOG_LEVEL": "fatal",  # peers that end are reported as exceptions
    "UCX_KEEPALIVE_INTERVAL": "300ms",  # how soon a peer that has ended is noticed
    "UCX_WARN_UNUSED_ENV_VARS": "n",  # if another library has loaded UCX, some of these variables come too late
}
#: Versions from this one on survive the end of a process whose memory they read; 1.20 ends the reading process too.
_BY_CMA = (1, 22)


class _Params(ctypes.Structure):
    _fields_ = (("mask", ctypes.c_uint64), ("features", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 16))


class _WorkerParams(ctypes.Structure):
    _fields_ = (("mask", ctypes.c_uint64), ("thread_mode", ctypes.c_int), ("rest", ctypes.c_uint64 * 30))


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class _EndpointParams(ctypes.Structure):
    _fields_ = (
        ("mask", ctypes.c_uint64),
        ("address", ctypes.c_char_p),
        ("error_mode", ctypes.c_int),
        ("handler", _HANDLER),
        ("handler_argument", ctypes.c_void_p),
        ("rest", ctypes.c_uint64 * 16),
    )


class _RequestParam(ctypes.Structure):
    _fields_ = (("mask", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("rest", ctypes.c_uint64 * 16))


class _Received(ctypes.Structure):
    _fields_ = (("tag", ctypes.c_uint64), ("length", ctypes.c_size_t))


_FEATURE_TAG, _FEATURE_WAKEUP = 1, 16
_FIELD_FEATURES = 1
_FIELD_THREAD_MODE, _SERIALIZED = 1, 1
_FIELD_ADDRESS, _FIELD_ERROR_MODE, _FIELD_HANDLER, _PEER_ERRORS = 1, 2, 4, 1
_FLAGS_GIVEN, _CLOSE_BY_FORCE = 16, 1

#: The tag of marks; those of messages are never 0.
_MARK = 0
#: Tags of communicators have this bit, those of :meth:`Worker.new_tag` do not.
COMMUNICATORS = 1 << 30
_ENDED = "its process has ended"
_PLAIN = _RequestParam()


#: The beginning of an address: what names the machine and its numbers of processes, and the number of the process.
_PROCESS = struct.Struct("<16sq")


@functools.cache
def _machine() -> bytes:
    """Return what all processes have in common that see each other, and nobody else."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read()
    return hashlib.sha256(f"{boot} {os.stat('/proc/self/ns/pid').st_ino}".encode()).digest()[:16]


#: The folder of a part of the library, in a line about a process's memory.
_PARTS = re.compile(r"^\S+ r-x\S* .*?(/.*)/libuc[mpst]\.so[.0-9]*$", re.MULTILINE)

_logger = logging.getLogger("craton.comm")


class UcxError(RuntimeError):
    """UCX cannot do what was asked for."""


def find_library() -> str | None:
    """Return the file of the library, or None if UCX is not installed."""
    spec = importlib.util.find_spec("libucx")
    if spec is not None and spec.origin is not None:
        file = os.path.join(os.path.dirname(spec.origin), "lib", "libucp.so.0")
        if os.path.exists(file):
            return file
    return ctypes.util.find_library("ucp")


def _present() -> str | None:
    """Return the file of the version whose parts this process already has, because MPI has loaded them for instance.

    The system gives a library the parts that it has loaded under their names, those of another version too, and they do not go together.
    """
    with open("/proc/self/maps") as maps:
        parts = _PARTS.findall(maps.read())
    files = (os.path.join(folder, "libucp.so.0") for folder in parts)
    return next(filter(os.path.exists, files), None)


def _loaded() -> Any:
    file = find_library()
    if file is None:
        raise ModuleNotFoundError("UCX is not installed: pip install 'craton[ucx]'", name="libucx")
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    library = ctypes.CDLL(_present() or file)
    version = (ctypes.c_uint * 3)()
    library.ucp_get_version(*(ctypes.byref(version, place * ctypes.sizeof(ctypes.c_uint)) for place in range(3)))
    if tuple(version[:2]) < _BY_CMA:
        os.environ.setdefault("UCX_TLS", "^cma")
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    functions: dict[str, tuple[Any, list[Any]]] = {
        "ucp_init_version": (ctypes.c_int, [ctypes.c_uint, ctypes.c_uint, pointer, pointer, pointer]),
        "ucp_worker_create": (ctypes.c_int, [pointer, pointer, pointer]),
        "ucp_worker_get_address": (ctypes.c_int, [pointer, pointer, pointer]),
        "ucp_worker_release_address": (None, [pointer, pointer]),
        "ucp_worker_progress": (ctypes.c_uint, [pointer]),
        "ucp_worker_get_efd": (ctypes.c_int, [pointer, pointer]),
        "ucp_worker_arm": (ctypes.c_int, [pointer]),
        "ucp_ep_create": (ctypes.c_int, [pointer, pointer, pointer]),
        "ucp_ep_close_nbx": (pointer, [pointer, pointer]),
        "ucp_tag_send_sync_nbx": (pointer, [pointer, pointer, ctypes.c_size_t, number, pointer]),
        "ucp_tag_send_nbx": (pointer, [pointer, pointer, ctypes.c_size_t, number, pointer]),
        "ucp_tag_recv_nbx": (pointer, [pointer, pointer, ctypes.c_size_t, number, number, pointer]),
        "ucp_tag_probe_nb": (pointer, [pointer, number, number, ctypes.c_int, pointer]),
        "ucp_tag_msg_recv_nbx": (pointer, [pointer, pointer, ctypes.c_size_t, pointer, pointer]),
        "ucp_request_check_status": (ctypes.c_int, [pointer]),
        "ucp_request_free": (None, [pointer]),
        "ucs_status_string": (ctypes.c_char_p, [ctypes.c_int]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class UcxPeer:
    """A connection to the worker of another process.

    Attributes
    ----------
    failure : str or None
        Why it is broken.
    """

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        self.failure: str | None = None
        self.unmarked = False


class _Watched(NamedTuple):
    """A request, the peer whose end ends it, and what is called then."""

    done: Callable[[], bool]
    peer: UcxPeer
    call: Callable[[UcxError | None], None]


class Worker:
    """The worker of UCX that this process has, which sends and receives the messages of all its communicators and links.

    All methods may be called in any thread. Memory is given as contiguous arrays of uint8, and must live until a request is complete.

    Attributes
    ----------
    address : bytes
        What other processes connect to.
    """

    def __init__(self) -> None:
        self._library = _loaded()
        self._lock = threading.RLock()
        self._peers: dict[bytes, UcxPeer] = {}
        self._by_number: list[UcxPeer] = []
        self._handler = _HANDLER(self._failed)
        self._ends = select.poll()
        self._sending = False
        self._watched: list[_Watched] = []
        self._abandoned: dict[int, float] = {}
        self._late: list[Callable[[], bool]] = []
        self._unfinished: list[tuple[UcxPeer, Callable[[], bool]]] = []
        self._tags = itertools.count(1)
        self._awaited_mark: Callable[[], bool] | None = None
        self._begun = threading.Event()
        self._processes: dict[int, UcxPeer] = {}
        context, self._worker = ctypes.c_void_p(), ctypes.c_void_p()
        given = _Params(_FIELD_FEATURES, _FEATURE_TAG | _FEATURE_WAKEUP)
        # 1.0: the functions that are used here have not changed since the first versions that have them.
        self._check(
            self._library.ucp_init_version(1, 0, ctypes.byref(given), None, ctypes.byref(context)), "cannot start"
        )
        threads = _WorkerParams(_FIELD_THREAD_MODE, _SERIALIZED)
        made = self._library.ucp_worker_create(context, ctypes.byref(threads), ctypes.byref(self._worker))
        self._check(made, "cannot start")
        place, length = ctypes.c_void_p(), ctypes.c_size_t()
        found = self._library.ucp_worker_get_address(self._worker, ctypes.byref(place), ctypes.byref(length))
        self._check(found, "has no address")
        self.address = _PROCESS.pack(_machine(), os.getpid()) + ctypes.string_at(place, length.value)
        self._library.ucp_worker_release_address(self._worker, place)
        event, self._wake = ctypes.c_int(), os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._check(self._library.ucp_worker_get_efd(self._worker, ctypes.byref(event)), "cannot wait for events")
        self._events, self._wakes = select.poll(), select.poll()
        self._events.register(event.value, select.POLLIN)
        for each in (self._events, self._wakes):
            each.register(self._wake, select.POLLIN)
        threading.Thread(target=self._run, name="craton-ucx", daemon=True).start()

    def peer(self, full_address: bytes) -> UcxPeer:
        """Return the connection to the worker with an address; it is made if there is none.

        Within a machine UCX uses shared memory, and this worker notices the end of the other's process: UCX itself does so for
        networks only.

        Raises
        ------
        UcxError
            It cannot be reached.
        """
        machine, number = _PROCESS.unpack_from(full_address)
        pid = number if machine == _machine() else None
        address = full_address[_PROCESS.size :]
        with self._lock:
            known = self._peers.get(address)
            if known is not None:
                return known
            made = UcxPeer()
            self._by_number.append(made)
            if pid is None:
                fields = _FIELD_ADDRESS | _FIELD_ERROR_MODE | _FIELD_HANDLER
                given = _EndpointParams(fields, address, _PEER_ERRORS, self._handler)
                given.handler_argument = len(self._by_number)  # from 1: 0 would be given as None
            else:
                try:
                    self._watch(pid, made)
                except ProcessLookupError:
                    raise UcxError(_ENDED) from None
                given = _EndpointParams(_FIELD_ADDRESS, address)
            status = self._library.ucp_ep_create(self._worker, ctypes.byref(given), ctypes.byref(made.handle))
            self._check(status, "cannot connect")
            self._peers[address] = made
            return made

    def _watch(self, pid: int, peer: UcxPeer) -> None:
        if pid != os.getpid():
            process = os.pidfd_open(pid)
            self._processes[process] = peer
            self._ends.register(process, select.POLLIN)

    def look_for_ends(self) -> None:
        """Note the peers of this machine whose processes have ended."""
        with self._lock:
            for process, _ in self._ends.poll(0):
                self._ends.unregister(process)
                os.close(process)
                self._break(self._processes.pop(process), _ENDED)

    def _break(self, peer: UcxPeer, reason: str) -> None:
        peer.failure = reason
        for address, known in list(self._peers.items()):
            if known is peer:
                del self._peers[address]

    def new_tag(self) -> int:
        """Return a tag for messages to this process, which no other messages to it have."""
        return next(self._tags) * 2 * COMMUNICATORS

    def send(self, peer: UcxPeer, memory: Any, tag: int, received: bool = False) -> Callable[[], bool]:
        """Send memory; the result says whether the memory may be changed again.

        Parameters
        ----------
        received
            It may be changed only when the other process has begun to receive it: so much less is on its way.
        """
        with self._lock:
            if peer.failure is not None:
                raise UcxError(peer.failure)
            send = self._library.ucp_tag_send_sync_nbx if received else self._library.ucp_tag_send_nbx
            given = send(peer.handle, memory.ctypes.data, memory.size, tag, ctypes.byref(_PLAIN))
            peer.unmarked = True
            self._sending = True
            self._begun.set()
            done = self._request(given, memory)
            if done is not _complete:
                self._unfinished.append((peer, done))
            return done

    def receive(self, memory: Any, tag: int) -> Callable[[], bool]:
        """Receive the next message with a tag into memory of its length; the result says whether it is there."""
        with self._lock:
            return self._request(
                self._library.ucp_tag_recv_nbx(
                    self._worker, memory.ctypes.data, memory.size, tag, _NO_MASK, ctypes.byref(_PLAIN)
                ),
                memory,
            )

    def take(self, tag: int, mask: int = _NO_MASK, into: Any = None) -> tuple[Any, Callable[[], bool]] | None:
        """Return the memory of a message that has come with a tag, and whether it is complete; None if there is no message.

        Parameters
        ----------
        mask
            The bits of the tag that matter.
        into
            Memory for it; by default, new memory.

        Raises
        ------
        UcxError
            The message does not have the size of the memory.
        """
        with self._lock:
            self._progress()
            found = _Received()
            message = self._library.ucp_tag_probe_nb(self._worker, tag, mask, 1, ctypes.byref(found))
            if message is None:
                return None
            memory = np.empty(found.length, np.uint8) if into is None else into
            if memory.size != found.length:
                raise UcxError(f"a message has {found.length:,} bytes, and {memory.size:,} were expected")
            request = self._library.ucp_tag_msg_recv_nbx(
                self._worker, memory.ctypes.data, memory.size, message, ctypes.byref(_PLAIN)
            )
            return memory, self._request(request, memory)

    def watch(self, done: Callable[[], bool], peer: UcxPeer, call: Callable[[UcxError | None], None]) -> None:
        """Call a function in the worker's thread when a request is complete, or with the error that has ended it.

        Parameters
        ----------
        done
            The request.
        peer
            The other process.
        call
            What is called; it must not wait.
        """
        with self._lock:
            self._watched.append(_Watched(done, peer, call))
        self._begun.set()
        os.eventfd_write(self._wake, 1)

    def abandon(self, tag: int) -> None:
        """Receive for a while, and forget, what still comes with a tag of :meth:`new_tag`."""
        with self._lock:
            self._abandoned[tag] = time.monotonic() + _ABANDONED
        self._begun.set()

    @property
    def sending(self) -> bool:
        """Whether messages of this process are on their way."""
        return self._sending

    def _run(self) -> None:
        while True:
            try:
                self._drive()
            except Exception:  # others wait for this thread
                _logger.exception("the thread of UCX goes on after an error")
                time.sleep(_LONGEST_PAUSE)

    def _drive(self) -> None:
        """Make progress until all messages have arrived, whatever their senders and receivers do meanwhile.

        The send of a large message is complete when the message has arrived, and needs the sender for all of its parts. When that of a
        small one is complete, UCX may have copied the message and sent nothing: the connection may still wait for an answer, or for room.
        A mark that follows the messages, and that the other worker acknowledges, shows that they are there.
        """
        marks: list[tuple[UcxPeer, Callable[[], bool]]] = []
        pause = _PAUSE
        while True:
            self._begun.wait(
                _IDLE if self._peers else None
            )  # the messages of others are acknowledged when nothing is sent, too
            with self._lock:
                with contextlib.suppress(UcxError):  # the calls that need the other process raise
                    self._progress()
                marks = [one for one in marks if not _is_over(*one)]
                self._unfinished = [one for one in self._unfinished if not _is_over(*one)]
                marked = {peer for peer, _ in marks}
                for peer in self._peers.values():
                    if peer.unmarked and peer not in marked:
                        peer.unmarked = False
                        marks.append((peer, self._mark(peer)))
                        pause = _PAUSE
                self._sending = bool(marks or self._unfinished)
                ended = self._take_ended()
                self._forget_abandoned()
                waits = bool(self._watched)
                if not (waits or self._sending or self._abandoned):
                    self._begun.clear()
                    pause = _PAUSE
                armed = waits and not ended and self._library.ucp_worker_arm(self._worker) == 0
            _tell(ended)
            if armed:
                self._wait_for(self._events, _LONGEST_PAUSE)
            elif not waits:
                self._wait_for(self._wakes, pause)
                pause = min(pause * 1.05, _LONGEST_PAUSE)

    def _wait_for(self, events: select.poll, seconds: float) -> None:
        for ready, _ in events.poll(seconds * 1000):
            if ready == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(ready)

    def _take_ended(self) -> list[tuple[_Watched, UcxError | None]]:
        """Remove the watched requests that are complete or have failed, and return them."""
        if not self._watched:
            return []
        self.look_for_ends()
        ended: list[tuple[_Watched, UcxError | None]] = []
        left: list[_Watched] = []
        for one in self._watched:
            try:
                if one.done():
                    ended.append((one, None))
                elif one.peer.failure is not None:
                    ended.append((one, UcxError(one.peer.failure)))
                    self._late.append(one.done)  # UCX may still use the memory
                else:
                    left.append(one)
            except UcxError as error:
                ended.append((one, error))
        self._watched = left
        return ended

    def _forget_abandoned(self) -> None:
        for tag, until in list(self._abandoned.items()):
            with contextlib.suppress(UcxError):  # its process has ended
                while (found := self.take(tag)) is not None:
                    self._late.append(found[1])
            if time.monotonic() > until:
                del self._abandoned[tag]
        self._late = [done for done in self._late if not _is_complete(done)]

    def _mark(self, peer: UcxPeer) -> Callable[[], bool]:
        given = self._library.ucp_tag_send_sync_nbx(peer.handle, None, 0, _MARK, ctypes.byref(_PLAIN))
        try:
            return self._request(given, None)
        except UcxError:  # the calls that need the other process raise
            return _complete

    def _progress(self) -> None:
        for _ in range(_STEPS):
            if not self._library.ucp_worker_progress(self._worker):
                break
        while self._awaited_mark is None or self._awaited_mark():  # to take it acknowledges it
            given = self._library.ucp_tag_recv_nbx(self._worker, None, 0, _MARK, _NO_MASK, ctypes.byref(_PLAIN))
            self._awaited_mark = None if given is None else self._polled(given, None)

    def _request(self, request: int | None, memory: Any) -> Callable[[], bool]:
        """Make a function of a request; it keeps the memory alive, and raises the error of the request."""
        if request is None:
            return _complete
        if request >= _ERRORS:
            raise UcxError(self._text(request - (1 << 64)))
        polled = self._polled(request, memory)

        def done() -> bool:
            with self._lock:
                self._progress()
                return polled()

        return done

    def _polled(self, request: int, memory: Any) -> Callable[[], bool]:
        """Make a function of a request that makes no progress itself."""
        status = _PENDING
        kept = memory

        def done() -> bool:
            nonlocal status, kept
            if status == _PENDING:
                with self._lock:
                    status = self._library.ucp_request_check_status(request)
                    if status != _PENDING:
                        self._library.ucp_request_free(request)
                        kept = None
            if status < 0:
                raise UcxError(self._text(status))
            return status != _PENDING

        return done

    def _failed(self, number: int | None, handle: int | None, status: int) -> None:
        """Note that a connection is broken; UCX calls this while it makes progress."""
        peer = self._by_number[(number or 1) - 1]
        if peer.failure is None:
            self._break(peer, self._text(status))
            close = _RequestParam(_FLAGS_GIVEN, _CLOSE_BY_FORCE)
            request = self._library.ucp_ep_close_nbx(handle, ctypes.byref(close))
            if request is not None and request < _ERRORS:
                self._library.ucp_request_free(request)

    def _check(self, status: int, what: str) -> None:
        if status < 0:
            raise UcxError(f"UCX {what}: {self._text(status)}")

    def _text(self, status: int) -> str:
        found: bytes = self._library.ucs_status_string(status)
        return found.decode()


def _tell(ended: list[tuple[_Watched, UcxError | None]]) -> None:
    for one, error in ended:
        one.call(error)


def _is_over(peer: UcxPeer, done: Callable[[], bool]) -> bool:
    return peer.failure is not None or _is_complete(done)


def _is_complete(done: Callable[[], bool]) -> bool:
    try:
        return done()
    except UcxError:  # the calls that need the other process raise
        return True


def _complete() -> bool:
    return True


_worker: Worker | None = None
_owner = 0
_starting = forks.lock()


def worker() -> Worker:
    """Return this process's worker; it is started at the first call. A forked process starts its own."""
    global _worker, _owner
    with _starting:
        if _worker is None or _owner != os.getpid():
            _worker, _owner = Worker(), os.getpid()
        return _worker
