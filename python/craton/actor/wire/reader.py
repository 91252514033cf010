"""Splits the bytes that a connection receives into frames."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable
from typing import Any

from craton.actor.wire import frames
from craton.actor.wire.frames import HEADER, LENGTH_BYTES

__all__ = ["BUFFER_SIZE", "Reader"]

BUFFER_SIZE = 1 << 18
"""Size of a connection's receive buffer in bytes."""
# The receive buffer of a connection that has not authenticated yet; a record of the handshake fits.
_FIRST_BUFFER_SIZE = 128
# Parts from this size on are received into an anonymous mapping, of which only the pages that were written are committed.
_LARGE = 32 << 20


def _room(size: int) -> memoryview:
    """Return memory for a part; an announced size alone does not make a large part use physical memory."""
    if size <= BUFFER_SIZE:
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
    fetch
        Called with the memory for the large parts of a frame that come by another way; the frame waits for `resume`.

    Attributes
    ----------
    waits : bool
        Whether a frame waits for its large parts; nothing must be read meanwhile.
    """

    def __init__(
        self,
        receive: Callable[[tuple[Any, ...]], None],
        handshake: Callable[[bytes], int],
        expects: int,
        fetch: Callable[[list[memoryview]], None],
    ) -> None:
        self._receive, self._handshake, self._expects, self._fetch = receive, handshake, expects, fetch
        self._buffer = memoryview(bytearray(_FIRST_BUFFER_SIZE if expects else BUFFER_SIZE))
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
        # Whether each piece of the frame comes by another way.
        self._apart: list[bool] = []
        self._held: list[memoryview] = []
        self.waits = False

    @property
    def between(self) -> bool:
        """Whether the stream is between two frames."""
        return not self._pieces and self._start == self._end and not self.waits

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
        self._split()

    def _split(self) -> None:
        """Process what the receive buffer holds."""
        buffer, receive = self._buffer, self._receive
        while not self.waits:
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
            placed, apart = parts & frames.PLACED, parts & frames.WITHOUT_BULK
            parts ^= placed | apart
            if envelope > frames.MAX_ENVELOPE or parts > frames.MAX_PARTS:
                raise ValueError(f"a frame claims an envelope of {envelope:,} bytes and {parts:,} parts")
            if not parts:
                start += HEADER.size
                if have >= HEADER.size + envelope:
                    self._start = start + envelope
                    receive(frames.unpack(buffer[start : self._start], ()))
                    continue
                if envelope <= BUFFER_SIZE // 4:
                    break
            elif have < HEADER.size + LENGTH_BYTES * parts:
                break
            self._begin(envelope, parts, placed, apart)
            if self._pieces:
                break
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end > BUFFER_SIZE // 2:
            # Move the incomplete rest to the front; it is less than half of the receive buffer.
            rest = bytes(buffer[self._start : self._end])
            buffer[: len(rest)] = rest
            self._start, self._end = 0, len(rest)

    def _grow(self) -> memoryview:
        buffer, rest = memoryview(bytearray(BUFFER_SIZE)), self._buffer[self._start : self._end]
        buffer[: len(rest)] = rest
        self._start, self._end, self._buffer = 0, len(rest), buffer
        return buffer

    def clear(self) -> None:
        """Release all memory; nothing is read any more."""
        self._pieces, self._held, self._places, self._message = [], [], [], ()
        self._buffer = memoryview(b"")

    def _begin(self, envelope: int, parts: int, placed: int, apart: int) -> None:
        at = self._start + HEADER.size
        self._start = at + LENGTH_BYTES * parts
        lengths = frames.lengths_of(self._buffer[at : self._start], parts)
        if sum(lengths) > frames.MAX_BYTES:
            raise ValueError(f"a frame claims {sum(lengths):,} bytes")
        self._lengths, self._placed = [envelope, *lengths], bool(placed)
        self._apart = [False, *frames.are_bulk(lengths, self._placed)] if apart else []
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
        while (number := len(self._pieces)) < len(self._lengths):
            if number and self._placed:
                if number == 1:
                    self._message, self._places = frames.unpack_placed(self._pieces[0], self._lengths[1:])
                self._pieces.append(self._places[number - 1])
            else:
                self._pieces.append(_room(self._lengths[number]))
            self._full = 0
            if not (self._apart and self._apart[number]):
                return True
        return False

    def _complete(self) -> None:
        if self._apart:
            apart, self._apart = self._apart, []
            self.waits = True
            self._held, self._pieces = self._pieces, []
            self._fetch([piece for piece, large in zip(self._held, apart, strict=True) if large])
            return
        pieces, self._pieces, self._places = self._pieces, [], []
        message, self._message = self._message, ()
        self._receive(message or frames.unpack(pieces[0], pieces[1:]))

    def resume(self) -> None:
        """Go on, for the large parts of the frame that waits for them are there.

        Raises
        ------
        ValueError
            The bytes are not a valid frame.
        """
        self._pieces, self._held = self._held, []
        self.waits = False
        self._complete()
        self._split()
