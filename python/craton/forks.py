"""Locks that survive a fork, and the detection of a forked process that cannot use the kernel.

A fork copies memory but no threads, which breaks two things. A lock that another thread held stays locked for ever; locks made by
:func:`lock` are replaced in the child. And Polars' thread pools exist without threads: work that is given to them
never ends, and they cannot be created again. :func:`kernel_lost` says whether this is so.

If no plan ran before the fork, there are no pools yet, and the child creates its own.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_TASKS = "/proc/self/task"
#: The names that the threads of Polars' pools have in the operating system. Threads that start at the import have others.
_POOLS = re.compile(r"polars-\d+|async-executor|tokio-rt")

_lost = False
_next_lost = False


def lock() -> threading.Lock:
    """A lock that is unlocked in a process that is forked while it is held."""
    made = threading.Lock()
    _locks.add(made)
    return made


def reentrant_lock() -> Any:
    """A reentrant lock that is unlocked in a process that is forked while it is held."""
    made = threading.RLock()
    _locks.add(made)
    return made


def kernel_lost() -> bool:
    """Whether this process cannot run plans itself, because the kernel of its parent had started threads before the fork."""
    return _lost


def _kernel_has_threads() -> bool:
    if "polars" not in sys.modules:
        return False
    try:
        tasks = os.listdir(_TASKS)
    except OSError:
        return True  # unknown on this system; a child that needlessly avoids the kernel is only slower
    for task in tasks:
        try:
            with open(f"{_TASKS}/{task}/comm") as file:
                name = file.read()
        except OSError:  # the thread has ended
            continue
        if _POOLS.match(name):
            return True
    return False


def _before() -> None:
    global _next_lost
    _next_lost = _lost or _kernel_has_threads()


def _in_child() -> None:
    global _lost
    _lost = _next_lost
    for one in list(_locks):
        one._at_fork_reinit()


os.register_at_fork(before=_before, after_in_child=_in_child)
