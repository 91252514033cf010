"""One connection: sends frames in batches, and receives them with few copies.

Small pieces of frames are joined and sent with one system call at the end of the event loop's iteration; large buffers
are passed to the system call without copying. Received bytes go into a small buffer first; the rest of a large part is
received directly into its final memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import Any, Protocol

from craton.actor.errors import NotAuthenticated
from craton.actor.wire import frames, keepalive
from craton.actor.wire.auth import REFUSED, Handshake
from craton.actor.wire.bulk import BulkChannel, BulkMessage
from craton.actor.wire.copies import Copies
from craton.actor.wire.owners import credentials
from craton.actor.wire.reader import BUFFER_SIZE, Reader
from craton.actor.wire.shared import Sharing, SharingMessage
from craton.serialize.changes import may_change

# Pieces of up to this many bytes are copied and joined with their neighbours.
_JOINED = 1 << 15
_SLICES = 256
# Size of the kernel's send buffer of a Unix socket.
_SEND_BUFFER = 1 << 20
# Backpressure: senders wait while more bytes than the first are unsent, and go on when at most the second are left.
HIGH_WATER, LOW_WATER = 64 << 20, 16 << 20
# How often it is seen that a peer has closed the connection, before what it still sends by another way is given up; see `keepalive`.
_CLOSED_LOOKS = 5
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
    bulk : BulkChannel or None
        Sends large parts of frames by UCX, if that was chosen.
    encrypted : bool
        Whether it uses TLS.
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

    encrypted = False

    def _prepare(self, loop: asyncio.AbstractEventLoop, receiver: Receiver, peer: str) -> None:
        self._loop, self._receiver, self.peer = loop, receiver, peer
        self.ready: asyncio.Future[None] = loop.create_future()
        self.sharing: Sharing | None = None
        self.bulk: BulkChannel | None = None
        self._pieces: deque[memoryview] = deque()
        self._kept: memoryview | None = None  # up to this one, no piece may change
        self._copies = Copies.here()
        self._joined: list[Any] = []
        self._joined_bytes = self._bytes = 0
        self._gathering = self._due = self._blocked = False
        self._drained: asyncio.Future[None] | None = None
        self.sent = self.received = 0
        self.dependents: set[Dependent] = set()
        self._closed = self._reading_paused = False
        self._seen_closed = 0
        self._handshake_timer = loop.call_later(HANDSHAKE_TIMEOUT, self._handshake_timed_out)

    def _introduce(self, handshake: Handshake) -> None:
        self._handshake = handshake
        self._reader = Reader(self._on_message, self._shake, handshake.expects, self._fetch)
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

    def write(self, pieces: list[Any], *, lent: bool = False) -> None:
        """Send a frame, now or later. What cannot be sent at once, and may change before it is sent, is copied.

        Parameters
        ----------
        pieces
            Bytes and buffers.
        lent
            Whether buffers do not change until the peer has answered, so that nothing is copied.
        """
        if self._closed:
            return
        if self.bulk is not None:
            pieces = self.bulk.divert(pieces, lent)
        waits, large = self._gathering, 0
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
                large += 1
                # Do not delay it: other code may run next and change the buffer.
                waits = waits and plain
        if not waits and not self._blocked:
            # The first frame is sent immediately; later ones are gathered until the end of the loop's iteration.
            self._gathering = True
            self._flush()
            if large and not lent:
                self._keep()
            return
        if large and not lent:
            self._keep()
        if not self._due and not self._blocked:
            self._due = True
            self._loop.call_soon(self._gathered)
        if self._joined_bytes > BUFFER_SIZE:
            self._seal()

    def _keep(self) -> None:
        """Copy what is not sent yet and may change; pieces of earlier frames have been copied already."""
        pieces, new = self._pieces, list[memoryview]()
        while pieces and pieces[-1] is not self._kept:
            new.append(pieces.pop())
        for piece in reversed(new):
            if may_change(piece) and not self._copies.holds(piece):
                pieces.extend(self._copies.take(piece))
            else:
                pieces.append(piece)
        self._kept = pieces[-1] if pieces else None

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
                    whole = pieces.popleft()
                    sent -= len(whole)
                    self._copies.give_back(whole, self._loop)
                    if whole is self._kept:
                        self._kept = None
                if sent:
                    rest = pieces[0][sent:]
                    if pieces[0] is self._kept:
                        self._kept = rest
                    pieces[0] = rest
        except (BlockingIOError, InterruptedError):
            if not self._blocked:
                self._blocked = True
                self._loop.add_writer(self._fd, self._writable)
        except OSError as error:
            self._end(error)
            return
        self._relieve()

    def count_unsent(self, size: int) -> None:
        """Count bytes that are sent by another way and are not sent yet."""
        self._bytes += size

    def count_sent(self, size: int) -> None:
        """Count bytes that were sent by another way."""
        self._bytes -= size
        self.sent += size
        self._relieve()

    def _relieve(self) -> None:
        if self._bytes <= LOW_WATER:
            if self._drained is not None:
                self._drained.set_result(None)
                self._drained = None
            if self._reading_paused:
                self._reading_paused = False
                self._resume_reading()

    @property
    def waits(self) -> bool:
        """Whether nothing is read until the large parts of a frame are there."""
        return self._reader.waits

    def count_closed(self) -> None:
        """Note that the peer has closed the connection while this waits; after a while, end it."""
        self._seen_closed += 1
        if self._seen_closed > _CLOSED_LOOKS:
            self._end(ConnectionResetError("in the middle of a message"))

    def pause_reading(self) -> None:
        """Stop reading until at most `LOW_WATER` bytes are unsent: the peer sends calls but does not read the answers."""
        if not self._reading_paused and not self._closed:
            self._reading_paused = True
            self._loop.remove_reader(self._fd)

    def _resume_reading(self) -> None:
        if not self._reader.waits:
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
                if self._reader.waits:
                    self._loop.remove_reader(self._fd)
                    break
                if self._closed or self._reading_paused or (count < len(buffer) and count < BUFFER_SIZE // 4):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except Exception as error:
            # This includes invalid frames and failed unpickling, after which the start of the next frame is unknown.
            self._end(error)
            return
        self._gathered()

    def _fetch(self, rooms: list[memoryview]) -> None:
        if self.bulk is None:
            raise ValueError("the peer sends parts by another way over a connection that has none")
        self.received += sum(room.nbytes for room in rooms)
        self.bulk.fetch(rooms)

    def bulk_arrived(self) -> None:
        """Go on reading, for the large parts of a frame are there."""
        self._gathering = self._due = True
        try:
            self._reader.resume()
        except Exception as error:
            self._end(error)
            return
        if not self._closed and not self._reading_paused:
            self._resume_reading()
        self._gathered()

    def _on_message(self, message: tuple[Any, ...]) -> None:
        if isinstance(message[-1], BulkMessage):
            if self.bulk is not None:
                self.bulk.receive(message[-1])
            return
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
        if self.bulk is not None:
            self.bulk.close()
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
        for piece in self._pieces:
            self._copies.give_back(piece, self._loop)
        self._pieces.clear()
        self._kept = None
        self._joined.clear()
        self._bytes = self._joined_bytes = 0
        self._reader.clear()
