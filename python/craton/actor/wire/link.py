"""One connection: sends frames in batches, and receives them with few copies.

Small pieces of frames are joined and sent with one system call at the end of the event loop's iteration; large buffers
are passed to the system call without copying. Received bytes go into a small buffer first; the rest of a large part is
received directly into its final memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from craton.actor.errors import NotAuthenticated
from craton.actor.wire import frames, keepalive
from craton.actor.wire.auth import REFUSED, Handshake
from craton.actor.wire.frames import HEADER, LENGTH_BYTES
from craton.actor.wire.owners import credentials
from craton.actor.wire.shared import Sharing, SharingMessage

_BUFFER_SIZE = 1 << 18
# The receive buffer of a connection that has not authenticated yet; a record of the handshake fits.
_FIRST_BUFFER_SIZE = 128
# Pieces of up to this many bytes are copied and joined with their neighbours.
_JOINED = 1 << 15
_SLICES = 256
# Size of the kernel's send buffer of a Unix socket.
_SEND_BUFFER = 1 << 20
# Backpressure: senders wait while more bytes than the first are unsent, and go on when at most the second are left.
HIGH_WATER, LOW_WATER = 64 << 20, 16 << 20
# Parts from this size on are received into an anonymous mapping, of which only the pages that were written are committed.
_LARGE = 32 << 20
# Seconds that a peer has to complete the handshake.
HANDSHAKE_TIMEOUT = 5.0


class Receiver(Protocol):
    """The callbacks of a link."""

    def on_message(self, link: Link, message: tuple[Any, ...]) -> None:
        """Handle a received message."""

    def on_lost(self, link: Link, error: BaseException | None) -> None:
        """Handle the end of the connection; ``error`` is the reason, None if it was closed normally."""


class Dependent(Protocol):
    """An object whose life is bound to a connection."""

    def on_disconnect(self, link: Link) -> None:
        """Handle the end of the connection."""


def _room(size: int) -> memoryview:
    """Return memory for a part; an announced size alone does not make a large part use physical memory."""
    if size <= _BUFFER_SIZE:
        return memoryview(bytearray(size))
    if size < _LARGE:
        import numpy as np

        return memoryview(np.empty(size, np.uint8))  # type: ignore[arg-type]  # not cleared first
    try:
        found = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise ValueError(f"a frame claims a part of {size:,} bytes, for which there is not enough memory") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            found.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(found)


class Reader:
    """Splits a stream of bytes into the handshake's records and frames.

    The caller writes received bytes into `buffer`'s result, and then passes their number to `filled`, as with
    `asyncio.BufferedProtocol`.

    Parameters
    ----------
    receive
        Called with each message.
    handshake
        Called with each record of the handshake; returns the size of the next record, or 0 when frames follow.
    expects : int
        Size of the first record in bytes; 0 if there is no handshake.
    """

    def __init__(
        self, receive: Callable[[tuple[Any, ...]], None], handshake: Callable[[bytes], int], expects: int
    ) -> None:
        self._receive, self._handshake, self._expects = receive, handshake, expects
        self._buffer = memoryview(bytearray(_FIRST_BUFFER_SIZE if expects else _BUFFER_SIZE))
        self._start = self._end = 0
        # The state of a frame too large for the receive buffer: the memory of its pieces (envelope and parts) so far, the
        # sizes of all its pieces, and how many bytes of the last piece in `_pieces` have been received.
        self._pieces: list[memoryview] = []
        self._lengths: list[int] = []
        self._full = 0
        # The state of a frame with direct placement: whether it is one, the memory of its parts, and its message.
        self._placed = False
        self._places: list[memoryview] = []
        self._message: tuple[Any, ...] = ()

    @property
    def between(self) -> bool:
        """Whether the stream is between two frames."""
        return not self._pieces and self._start == self._end

    def buffer(self) -> memoryview:
        """Return the memory for the next bytes; never empty."""
        if self._pieces:
            return self._pieces[-1][self._full :]
        return self._buffer[self._end :]

    def filled(self, count: int) -> None:
        """Process bytes that were written into `buffer`, and pass on every message that is complete.

        Raises
        ------
        ValueError
            The bytes are not a valid frame.
        """
        if self._pieces:
            self._full += count
            self._advance()
            return
        self._end += count
        buffer, receive = self._buffer, self._receive
        while True:
            start = self._start
            have = self._end - start
            if self._expects:
                if have < self._expects:
                    break
                self._start += self._expects
                self._expects = self._handshake(bytes(buffer[start : self._start]))
                if not len(self._buffer):
                    return  # the connection has ended
                if not self._expects:
                    buffer = self._grow()
                continue
            if have < HEADER.size:
                break
            envelope, parts = HEADER.unpack_from(buffer, start)
            placed = parts & frames.PLACED
            parts ^= placed
            if envelope > frames.MAX_ENVELOPE or parts > frames.MAX_PARTS:
                raise ValueError(f"a frame claims an envelope of {envelope:,} bytes and {parts:,} parts")
            if not parts:
                start += HEADER.size
                if have >= HEADER.size + envelope:
                    self._start = start + envelope
                    receive(frames.unpack(buffer[start : self._start], ()))
                    continue
                if envelope <= _BUFFER_SIZE // 4:
                    break
            elif have < HEADER.size + LENGTH_BYTES * parts:
                break
            self._begin(envelope, parts, placed)
            if self._pieces:
                break
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end > _BUFFER_SIZE // 2:
            # Move the incomplete rest to the front; it is less than half of the receive buffer.
            rest = bytes(buffer[self._start : self._end])
            buffer[: len(rest)] = rest
            self._start, self._end = 0, len(rest)

    def _grow(self) -> memoryview:
        buffer, rest = memoryview(bytearray(_BUFFER_SIZE)), self._buffer[self._start : self._end]
        buffer[: len(rest)] = rest
        self._start, self._end, self._buffer = 0, len(rest), buffer
        return buffer

    def clear(self) -> None:
        """Release all memory; nothing is read any more."""
        self._pieces, self._places, self._message = [], [], ()
        self._buffer = memoryview(b"")

    def _begin(self, envelope: int, parts: int, placed: int) -> None:
        at = self._start + HEADER.size
        self._start = at + LENGTH_BYTES * parts
        lengths = frames.lengths_of(self._buffer[at : self._start], parts)
        if sum(lengths) > frames.MAX_BYTES:
            raise ValueError(f"a frame claims {sum(lengths):,} bytes")
        self._lengths, self._placed = [envelope, *lengths], bool(placed)
        while self._next():
            piece = self._pieces[-1]
            self._full = min(len(piece), self._end - self._start)
            piece[: self._full] = self._buffer[self._start : self._start + self._full]
            self._start += self._full
            if self._full < len(piece):
                return
        self._complete()

    def _advance(self) -> None:
        while self._full == len(self._pieces[-1]):
            if not self._next():
                self._complete()
                return

    def _next(self) -> bool:
        # Memory is allocated piece by piece, when the piece's bytes arrive.
        number = len(self._pieces)
        if number == len(self._lengths):
            return False
        if number and self._placed:
            if number == 1:
                self._message, self._places = frames.unpack_placed(self._pieces[0], self._lengths[1:])
            self._pieces.append(self._places[number - 1])
        else:
            self._pieces.append(_room(self._lengths[number]))
        self._full = 0
        return True

    def _complete(self) -> None:
        pieces, self._pieces, self._places = self._pieces, [], []
        message, self._message = self._message, ()
        self._receive(message or frames.unpack(pieces[0], pieces[1:]))


class Link:
    """A connection to one peer, in one event loop.

    Attributes
    ----------
    peer : str
        Describes the peer in error messages.
    pid : int or None
        The pid of the peer's process in this process's pid namespace; None if it is on another machine.
    ready : asyncio.Future
        Done when both sides have authenticated; has an exception if they did not.
    sharing : Sharing or None
        Sends large values through shared memory, if the peer is on this machine.
    sent, received : int
        Number of bytes so far.
    dependents : set of Dependent
        Objects to notify when the connection ends.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, receiver: Receiver, handshake: Handshake, peer: str
    ) -> None:
        self._prepare(loop, receiver, peer)
        self._sock = sock
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:  # TCP sizes its buffers automatically
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._fd = sock.fileno()
        loop.add_reader(self._fd, self._readable)
        self.pid = credentials(sock)[0]
        if sock.family != socket.AF_UNIX:
            keepalive.watch(self, sock, loop)
        self._introduce(handshake)

    def _prepare(self, loop: asyncio.AbstractEventLoop, receiver: Receiver, peer: str) -> None:
        self._loop, self._receiver, self.peer = loop, receiver, peer
        self.ready: asyncio.Future[None] = loop.create_future()
        self.sharing: Sharing | None = None
        self._pieces: deque[memoryview] = deque()
        self._joined: list[Any] = []
        self._joined_bytes = self._bytes = 0
        self._gathering = self._due = self._blocked = False
        self._drained: asyncio.Future[None] | None = None
        self.sent = self.received = 0
        self.dependents: set[Dependent] = set()
        self._closed = self._reading_paused = False
        self._handshake_timer = loop.call_later(HANDSHAKE_TIMEOUT, self._handshake_timed_out)

    def _introduce(self, handshake: Handshake) -> None:
        self._handshake = handshake
        self._reader = Reader(self._on_message, self._shake, handshake.expects)
        if opening := handshake.opening():
            self.write([opening])

    # ---- sending ----

    @property
    def full(self) -> bool:
        """Whether senders should wait (backpressure); see `drained`."""
        return self._bytes > HIGH_WATER

    async def drained(self) -> None:
        """Wait until at most `LOW_WATER` bytes are unsent.

        Raises
        ------
        ConnectionError
            The connection has ended.
        """
        while self._bytes > LOW_WATER and not self._closed:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)
        if self._closed:
            raise ConnectionResetError(f"the connection to {self.peer} has ended")

    def pack(self, fields: tuple[Any, ...], value: Any) -> list[Any]:
        """Encode a message for this peer; see `frames.pack`."""
        return frames.pack(fields, value, None if self.sharing is None else self.sharing.lend, self)

    def write(self, pieces: list[Any]) -> None:
        """Send a frame, now or later; large buffers are not copied, and must not change before they are sent."""
        if self._closed:
            return
        waits = self._gathering
        for piece in pieces:
            plain = type(piece) is bytes
            size = len(piece) if plain else memoryview(piece).nbytes
            self._bytes += size
            if size <= _JOINED:
                self._joined.append(piece if plain else bytes(piece))
                self._joined_bytes += size
            else:
                self._seal()
                self._pieces.append(memoryview(piece).cast("B"))
                # Do not delay it: other code may run next and change the buffer.
                waits = waits and plain
        if not waits and not self._blocked:
            # The first frame is sent immediately; later ones are gathered until the end of the loop's iteration.
            self._gathering = True
            self._flush()
            return
        if not self._due and not self._blocked:
            self._due = True
            self._loop.call_soon(self._gathered)
        if self._joined_bytes > _BUFFER_SIZE:
            self._seal()

    def _seal(self) -> None:
        if self._joined:
            self._pieces.append(memoryview(b"".join(self._joined)))
            self._joined.clear()
            self._joined_bytes = 0

    def _gathered(self) -> None:
        self._gathering = self._due = False
        if self._bytes and not self._blocked and not self._closed:
            self._flush()

    def _flush(self) -> None:
        self._seal()
        pieces = self._pieces
        try:
            while pieces:
                if len(pieces) == 1:
                    sent = self._sock.send(pieces[0])
                else:
                    sent = self._sock.sendmsg([pieces[number] for number in range(min(len(pieces), _SLICES))])
                self._bytes -= sent
                self.sent += sent
                while pieces and sent >= len(pieces[0]):
                    sent -= len(pieces.popleft())
                if sent:
                    pieces[0] = pieces[0][sent:]
        except (BlockingIOError, InterruptedError):
            if not self._blocked:
                self._blocked = True
                self._loop.add_writer(self._fd, self._writable)
        except OSError as error:
            self._end(error)
            return
        if self._bytes <= LOW_WATER:
            if self._drained is not None:
                self._drained.set_result(None)
                self._drained = None
            if self._reading_paused:
                self._reading_paused = False
                self._resume_reading()

    def pause_reading(self) -> None:
        """Stop reading until at most `LOW_WATER` bytes are unsent: the peer sends calls but does not read the answers."""
        if not self._reading_paused and not self._closed:
            self._reading_paused = True
            self._loop.remove_reader(self._fd)

    def _resume_reading(self) -> None:
        self._loop.add_reader(self._fd, self._readable)

    def _writable(self) -> None:
        self._flush()
        if not self._pieces and not self._closed:
            self._blocked = False
            self._loop.remove_writer(self._fd)
            self._gathered()

    # ---- receiving ----

    def _readable(self) -> None:
        self._gathering = self._due = True  # gather the answers to all messages read here
        try:
            # Several reads, so that a large part does not take one iteration of the loop for each small piece.
            for _ in range(16):
                buffer = self._reader.buffer()
                count = self._sock.recv_into(buffer)
                if not count:
                    self._end(None if self._reader.between else ConnectionResetError("in the middle of a message"))
                    return
                self.received += count
                self._reader.filled(count)
                if self._closed or self._reading_paused or (count < len(buffer) and count < _BUFFER_SIZE // 4):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except Exception as error:
            # This includes invalid frames and failed unpickling, after which the start of the next frame is unknown.
            self._end(error)
            return
        self._gathered()

    def _on_message(self, message: tuple[Any, ...]) -> None:
        if isinstance(message[-1], SharingMessage):
            if self.sharing is None:
                raise ValueError("the peer sent a reference to shared memory over a connection without sharing")
            found = self.sharing.receive(message)
            if found is None:
                return
            message = found
        self._receiver.on_message(self, message)

    def _shake(self, record: bytes) -> int:
        answer = self._handshake.answer(record)
        if answer is None:
            if self._handshake.server:
                with contextlib.suppress(OSError):
                    self._sock.send(REFUSED)
            raise NotAuthenticated(f"{self.peer} {self._handshake.refusal}")
        if answer:
            self.write([answer])
        if not self._handshake.expects:
            self._handshake_timer.cancel()
            if not self.ready.done():
                self.ready.set_result(None)
        return self._handshake.expects

    def _handshake_timed_out(self) -> None:
        self._end(NotAuthenticated(f"{self.peer} did not authenticate within {HANDSHAKE_TIMEOUT:g} s"))

    # ---- the end ----

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._closed

    def close(self) -> None:
        """Close the connection; unsent bytes are sent as far as the kernel's buffer has room."""
        if not self._closed and self._bytes and not self._blocked:
            self._flush()
        if not self._closed:
            self._end(None)

    def fail(self, error: BaseException) -> None:
        """Close the connection because the peer's machine is unreachable."""
        self._end(error)

    def close_descriptors(self) -> None:
        """Close the file descriptor only; for forks, and for event loops that were closed."""
        self._closed = True
        self._sock.close()
        self._forget()

    def drop(self, error: BaseException) -> None:
        """Close the connection because of an error of the peer."""
        self._end(error)

    def _close_socket(self, error: BaseException | None) -> None:
        self._loop.remove_reader(self._fd)
        if self._blocked:
            self._loop.remove_writer(self._fd)
        self._sock.close()

    def _end(self, error: BaseException | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._handshake_timer.cancel()
        self._forget()
        self._close_socket(error)
        if self.sharing is not None:
            self.sharing.close()
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        if not self.ready.done():
            why = error or ConnectionResetError(f"{self.peer} closed the connection before it had authenticated")
            self.ready.set_exception(why)
            self.ready.exception()  # mark as retrieved: it is not logged if nothing awaits `ready`
        dependents, self.dependents = self.dependents, set()
        for dependent in dependents:
            dependent.on_disconnect(self)
        self._receiver.on_lost(self, error)

    def _forget(self) -> None:
        # Released now: the garbage collector is not triggered by the size of memory in reference cycles.
        self._pieces.clear()
        self._joined.clear()
        self._bytes = self._joined_bytes = 0
        self._reader.clear()
