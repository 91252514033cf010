"""Keeps pages that forked children can read from being reused while the children live.

Data read from the store are views of shared memory, and a forked child inherits the views: it may read them after the parent has
dropped its own. The parent therefore holds the pages that were held at the fork until the child and all its descendants have ended. It
detects that by a pipe: they inherit the write end, and the read end reports end of file once the last of them has closed it.
"""

from __future__ import annotations

import functools
import os
import threading
from contextlib import suppress

from craton import _native


class _Fork(threading.local):
    """The fork that is under way in a thread: the pages held for the child, and the read and write ends of the pipe."""

    begun: tuple[_native.HeldPages, int, int] | None = None


_fork = _Fork()
#: In a child: the parent's held pages, kept referenced so that the child does not release them, and the pipe's write end.
_inherited: list[object] = []
#: Read ends of the pipes of this process's children.
_read_ends: set[int] = set()


def _before() -> None:
    pages = _native.hold_pages()
    if len(pages):
        with suppress(
            OSError
        ):  # out of file descriptors: the pages are held only as long as this process has views of them
            _fork.begun = (pages, *os.pipe())


def _in_parent() -> None:
    if _fork.begun is not None:
        (pages, read, write), _fork.begun = _fork.begun, None
        os.close(write)
        _read_ends.add(read)
        threading.Thread(target=_hold, args=(pages, read), name="craton-fork", daemon=True).start()


def _hold(pages: _native.HeldPages, read: int) -> None:
    """Hold pages until every write end of the pipe is closed."""
    with suppress(OSError):
        os.read(read, 1)
    pages.release()
    _read_ends.discard(read)
    os.close(read)


def _in_child() -> None:
    _native.forget_held_pages()
    _inherited.append(_fork.begun)
    for read in (*_read_ends, *(() if _fork.begun is None else (_fork.begun[1],))):
        os.close(read)
    _fork.begun = None
    _read_ends.clear()


@functools.cache
def register() -> None:
    """Register the fork handlers, once in a process."""
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
