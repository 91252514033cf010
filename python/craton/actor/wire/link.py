"""One connection: frames written in batches, and read with as few copies as the system allows.

What is small is gathered and leaves with one system call at the end of the loop's turn; buffers are handed to the
system where they lie. What is read goes into a ring first; the rest of a large part is read straight to where it stays.
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
from craton.actor.wire.shared import Note, Sharing

_RING = 1 << 18
# The ring of a connection that has not authenticated yet: a record of the handshake fits.
_FIRST_RING = 128
# Bytes that are joined with their neighbours rather than handed over by themselves.
_JOINED = 1 << 15
_SLICES = 256
# Bytes that the system takes at a time of a large buffer, where it lets us choose.
_SEND_BUFFER = 1 << 20
# Bytes that wait to be sent: above the first senders wait, below the second they go on.
HIGH_WATER, LOW_WATER = 64 << 20, 16 << 20
# Parts from this size on lie in memory of the system's own: it is there only where bytes have come.
_LARGE = 32 << 20
# Seconds within which a peer has to show that it has the key.
PATIENCE = 5.0


class Receiver(Protocol):
    """Whom a link tells what happens."""

    def on_message(self, link: Link, message: tuple[Any, ...]) -> None:
        """A message has come."""

    def on_lost(self, link: Link, error: BaseException | None) -> None:
        """The connection has ended; why, unless it was closed here."""


class Tied(Protocol):
    """What is kept for a peer, and no longer than there is a connection to it."""

    def on_cut(self, link: Link) -> None:
        """The connection has ended."""


def _room(size: int) -> memoryview:
    """Return memory for a part; a peer that only claims to send much gets none by that."""
    if size <= _RING:
        return memoryview(bytearray(size))
    if size < _LARGE:
        import numpy as np

        return memoryview(np.empty(size, np.uint8))  # type: ignore[arg-type]  # not cleared first
    try:
        found = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise ValueError(f"a frame claims a part of {size:,} bytes, and there is no room for it") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            found.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(found)


class Reader:
    """Cuts a stream of bytes into frames.

    `buffer` says where the next bytes go, `filled` how many came, as `asyncio.BufferedProtocol` does it.

    Parameters
    ----------
    receive
        Given each message.
    handshake
        Given each record of the handshake; returns the bytes of the next one, or 0 when frames come.
    expects : int
        Bytes of the first record.
    """

    def __init__(
        self, receive: Callable[[tuple[Any, ...]], None], handshake: Callable[[bytes], int], expects: int
    ) -> None:
        self._receive, self._handshake, self._expects = receive, handshake, expects
        self._ring = memoryview(bytearray(_FIRST_RING if expects else _RING))
        self._start = self._end = 0
        # Of a frame that does not stay in the ring: where its pieces go, up to the one that is being filled; the lengths
        # of all of them; and how full the last is.
        self._pieces: list[memoryview] = []
        self._lengths: list[int] = []
        self._full = 0
        # Of a frame whose envelope says where its parts go: that it is one, where they go, and the message.
        self._placed = False
        self._places: list[memoryview] = []
        self._message: tuple[Any, ...] = ()

    @property
    def between(self) -> bool:
        """Whether no frame has begun."""
        return not self._pieces and self._start == self._end

    def buffer(self) -> memoryview:
        """Return where the next bytes go; never empty."""
        if self._pieces:
            return self._pieces[-1][self._full :]
        return self._ring[self._end :]

    def filled(self, count: int) -> None:
        """Take note of bytes that have come, and receive every message that is whole.

        Raises
        ------
        ValueError
            The stream is not one of frames.
        """
        if self._pieces:
            self._full += count
            self._go_on()
            return
        self._end += count
        ring, receive = self._ring, self._receive
        while True:
            start = self._start
            have = self._end - start
            if self._expects:
                if have < self._expects:
                    break
                self._start += self._expects
                self._expects = self._handshake(bytes(ring[start : self._start]))
                if not len(self._ring):
                    return  # the connection has ended
                if not self._expects:
                    ring = self._grow()
                continue
            if have < HEADER.size:
                break
            envelope, parts = HEADER.unpack_from(ring, start)
            placed = parts & frames.PLACED
            parts ^= placed
            if envelope > frames.MOST_ENVELOPE or parts > frames.MOST_PARTS:
                raise ValueError(f"a frame claims an envelope of {envelope:,} bytes and {parts:,} parts")
            if not parts:
                start += HEADER.size
                if have >= HEADER.size + envelope:
                    self._start = start + envelope
                    receive(frames.unpack(ring[start : self._start], ()))
                    continue
                if envelope <= _RING // 4:
                    break
            elif have < HEADER.size + LENGTH_BYTES * parts:
                break
            self._begin(envelope, parts, placed)
            if self._pieces:
                break
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end > _RING // 2:
            # What waits here for its rest is less than half a ring.
            rest = bytes(ring[self._start : self._end])
            ring[: len(rest)] = rest
            self._start, self._end = 0, len(rest)

    def _grow(self) -> memoryview:
        ring, rest = memoryview(bytearray(_RING)), self._ring[self._start : self._end]
        ring[: len(rest)] = rest
        self._start, self._end, self._ring = 0, len(rest), ring
        return ring

    def clear(self) -> None:
        """Let go of all memory: nothing is read any more."""
        self._pieces, self._places, self._message = [], [], ()
        self._ring = memoryview(b"")

    def _begin(self, envelope: int, parts: int, placed: int) -> None:
        at = self._start + HEADER.size
        self._start = at + LENGTH_BYTES * parts
        lengths = frames.lengths_of(self._ring[at : self._start], parts)
        if sum(lengths) > frames.MOST_BYTES:
            raise ValueError(f"a frame claims {sum(lengths):,} bytes")
        self._lengths, self._placed = [envelope, *lengths], bool(placed)
        while self._next():
            piece = self._pieces[-1]
            self._full = min(len(piece), self._end - self._start)
            piece[: self._full] = self._ring[self._start : self._start + self._full]
            self._start += self._full
            if self._full < len(piece):
                return
        self._whole()

    def _go_on(self) -> None:
        while self._full == len(self._pieces[-1]):
            if not self._next():
                self._whole()
                return

    def _next(self) -> bool:
        # Each piece gets its memory when its turn comes.
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

    def _whole(self) -> None:
        pieces, self._pieces, self._places = self._pieces, [], []
        message, self._message = self._message, ()
        self._receive(message or frames.unpack(pieces[0], pieces[1:]))


class Link:
    """A socket to one peer, in one event loop.

    Attributes
    ----------
    peer : str
        Who is there, for messages.
    pid : int or None
        The number, as this process sees it, of the process there that listens, if it is on this machine.
    ready : asyncio.Future
        Done when both sides have shown that they have the key; its exception says why not.
    sharing : Sharing or None
        What lends large values to a peer on this machine.
    sent, received : int
        Bytes.
    tied : set of Tied
        What is told when the connection ends.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, receiver: Receiver, handshake: Handshake, peer: str
    ) -> None:
        self._prepare(loop, receiver, peer)
        self._sock = sock
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:  # TCP finds out by itself what it needs
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._fd = sock.fileno()
        loop.add_reader(self._fd, self._readable)
        self.pid = credentials(sock)[0]
        if sock.family != socket.AF_UNIX:
            keepalive.feel(self, sock, loop)
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
        self.tied: set[Tied] = set()
        self._closed = self._rests = False
        self._impatience = loop.call_later(PATIENCE, self._too_late)

    def _introduce(self, handshake: Handshake) -> None:
        self._handshake = handshake
        self._reader = Reader(self._on_message, self._shake, handshake.expects)
        if opening := handshake.opening():
            self.write([opening])

    # ---- sending ----

    @property
    def full(self) -> bool:
        """Whether senders should wait; see `drained`."""
        return self._bytes > HIGH_WATER

    async def drained(self) -> None:
        """Wait until there is room to send.

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
        """Return the pieces of a frame for this peer; see `frames.pack`."""
        return frames.pack(fields, value, None if self.sharing is None else self.sharing.lend, self)

    def write(self, pieces: list[Any]) -> None:
        """Send a frame; what the system does not take at once of a large buffer must not change before it is sent."""
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
                # Its owner may be called next, and change it.
                waits = waits and plain
        if not waits and not self._blocked:
            # One leaves at once; those that follow before anything is read wait for one another until the turn ends.
            self._gathering = True
            self._flush()
            return
        if not self._due and not self._blocked:
            self._due = True
            self._loop.call_soon(self._gathered)
        if self._joined_bytes > _RING:
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
            if self._rests:
                self._rests = False
                self._resume()

    def rest(self) -> None:
        """Read nothing until there is room to send again: the peer asks for more than it takes."""
        if not self._rests and not self._closed:
            self._rests = True
            self._loop.remove_reader(self._fd)

    def _resume(self) -> None:
        self._loop.add_reader(self._fd, self._readable)

    def _writable(self) -> None:
        self._flush()
        if not self._pieces and not self._closed:
            self._blocked = False
            self._loop.remove_writer(self._fd)
            self._gathered()

    # ---- receiving ----

    def _readable(self) -> None:
        self._gathering = self._due = True  # answers leave together
        try:
            # A few times, so that a large part is not read in one small piece a turn.
            for _ in range(16):
                buffer = self._reader.buffer()
                count = self._sock.recv_into(buffer)
                if not count:
                    self._end(None if self._reader.between else ConnectionResetError("in the middle of a message"))
                    return
                self.received += count
                self._reader.filled(count)
                if self._closed or self._rests or (count < len(buffer) and count < _RING // 4):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except Exception as error:
            # Damaged frames and what cannot be unpickled included: there is no way to find the next frame.
            self._end(error)
            return
        self._gathered()

    def _on_message(self, message: tuple[Any, ...]) -> None:
        if isinstance(message[-1], Note):
            if self.sharing is None:
                raise ValueError("a value was lent over a connection between machines")
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
            self._impatience.cancel()
            if not self.ready.done():
                self.ready.set_result(None)
        return self._handshake.expects

    def _too_late(self) -> None:
        self._end(NotAuthenticated(f"{self.peer} did not introduce itself within {PATIENCE:g} s"))

    # ---- the end ----

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def close(self) -> None:
        """End it; what was written and fits the system's buffers is sent."""
        if not self._closed and self._bytes and not self._blocked:
            self._flush()
        if not self._closed:
            self._end(None)

    def fail(self, error: BaseException) -> None:
        """End it because the other side's machine is gone."""
        self._end(error)

    def let_go(self) -> None:
        """Close this process's descriptor only: in a fork, or when the loop has been closed."""
        self._closed = True
        self._sock.close()
        self._forget()

    def drop(self, error: BaseException) -> None:
        """End it because of what the peer did."""
        self._end(error)

    def _hang_up(self, error: BaseException | None) -> None:
        self._loop.remove_reader(self._fd)
        if self._blocked:
            self._loop.remove_writer(self._fd)
        self._sock.close()

    def _end(self, error: BaseException | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._impatience.cancel()
        self._forget()
        self._hang_up(error)
        if self.sharing is not None:
            self.sharing.close()
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        if not self.ready.done():
            why = error or ConnectionResetError(f"{self.peer} ended the connection before it had introduced itself")
            self.ready.set_exception(why)
            self.ready.exception()  # whoever waits is told; nobody else needs to be
        tied, self.tied = self.tied, set()
        for one in tied:
            one.on_cut(self)
        self._receiver.on_lost(self, error)

    def _forget(self) -> None:
        # Not left to the collector of circles, which does not know how large it is.
        self._pieces.clear()
        self._joined.clear()
        self._bytes = self._joined_bytes = 0
        self._reader.clear()
