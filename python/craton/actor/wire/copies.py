"""Copies of what could not be sent at once, in memory that is used again: new memory would cost more than the copies."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["Copies"]

_BLOCK = 4 << 20
_KEPT = 32
"""The most blocks that are kept for later copies."""
_IDLE = 2.0
"""Seconds after which blocks that are not in use are released."""

_of_thread = threading.local()


class Copies:
    """The blocks of the links of one thread."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []
        # The blocks in use, by their address as objects: the dict keeps them alive, so no other object has it.
        self._used: dict[int, bytearray] = {}
        self._timer: asyncio.AbstractEventLoop | None = None  # the loop that releases blocks

    @classmethod
    def here(cls) -> Copies:
        """Return the instance of this thread."""
        found: Copies | None = getattr(_of_thread, "copies", None)
        if found is None:
            found = _of_thread.copies = cls()
        return found

    def take(self, memory: memoryview) -> list[memoryview]:
        """Copy memory; return the pieces of the copy."""
        pieces: list[memoryview] = []
        for start in range(0, len(memory), _BLOCK):
            part = memory[start : start + _BLOCK]
            block = self._free.pop() if self._free else bytearray(_BLOCK if len(memory) >= _BLOCK else len(memory))
            if len(block) < len(part):
                block = bytearray(len(part))
            self._used[id(block)] = block
            piece = memoryview(block)[: len(part)]
            piece[:] = part
            pieces.append(piece)
        return pieces

    def holds(self, piece: memoryview) -> bool:
        """Whether a piece is one of a copy."""
        return id(piece.obj) in self._used

    def give_back(self, piece: memoryview, loop: asyncio.AbstractEventLoop) -> None:
        """Take note that a piece has been sent, or is not needed, if it is one of a copy."""
        block = self._used.pop(id(piece.obj), None)
        if block is not None and len(block) == _BLOCK and len(self._free) < _KEPT:
            self._free.append(block)
            if (self._timer is None or self._timer.is_closed()) and not loop.is_closed():
                self._timer = loop
                loop.call_later(_IDLE, self._release)

    def _release(self) -> None:
        self._timer = None
        self._free.clear()
