"""The memory of the store that processes see which were forked from this one: it is not used again while they live.

What a program has read from the store are views of shared memory. A forked process has the same memory, and may look at it for as long
as it lives, also when the program has dropped its own views. So the pages that are held when a process is forked stay held until
the last process has ended that has them: all of these have one end of a pipe, which the system closes with the last of them.
"""

from __future__ import annotations

import functools
import os
import threading
from contextlib import suppress

from craton import _native


class _Fork(threading.local):
    """The fork that a thread has begun: the pages that are held for it, and the ends of its pipe."""

    begun: tuple[_native.HeldPages, int, int] | None = None


_fork = _Fork()
#: What a forked process has of the one that it was forked from, and is not its own to let go.
_inherited: list[object] = []
#: The ends of pipes that are read here.
_read: set[int] = set()


def _before() -> None:
    pages = _native.hold_pages()
    if len(pages):
        with suppress(OSError):  # there are no more descriptors: then the pages are held no longer than by the program
            _fork.begun = (pages, *os.pipe())


def _in_parent() -> None:
    if _fork.begun is not None:
        (pages, read, write), _fork.begun = _fork.begun, None
        os.close(write)
        _read.add(read)
        threading.Thread(target=_hold, args=(pages, read), name="craton-fork", daemon=True).start()


def _hold(pages: _native.HeldPages, read: int) -> None:
    """Hold pages until the other ends of a pipe are closed."""
    with suppress(OSError):
        os.read(read, 1)
    pages.release()
    _read.discard(read)
    os.close(read)


def _in_child() -> None:
    _native.forget_held_pages()
    _inherited.append(_fork.begun)
    for read in (*_read, *(() if _fork.begun is None else (_fork.begun[1],))):
        os.close(read)
    _fork.begun = None
    _read.clear()


@functools.cache
def follow() -> None:
    """Have the pages that are held stay held for processes that are forked from now on."""
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
