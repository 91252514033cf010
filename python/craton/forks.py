"""What a forked process can't use of the process that it was forked from.

A fork copies memory but no threads. Two things break. A lock that another thread held stays locked for ever: locks made by
:func:`lock` are new in the child. And Polars' thread pools are still there but have no threads: whatever is given to them
waits for ever, and they can't be made anew. So a child has to know that its kernel is lost: :func:`kernel_lost`.

Where no plan ran before the fork there are no pools yet, and a child makes its own.
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
#: The names of threads of Polars' pools, as the system knows them. Those that are started with the import are not among them.
_POOLS = re.compile(r"polars-\d+|async-executor|tokio-rt")

_lost = False
_next_lost = False


def lock() -> threading.Lock:
    """A lock that is new, and so unlocked, in a process that is forked while it is held."""
    made = threading.Lock()
    _locks.add(made)
    return made


def reentrant_lock() -> Any:
    """A reentrant lock that is new in a process that is forked while it is held."""
    made = threading.RLock()
    _locks.add(made)
    return made


def kernel_lost() -> bool:
    """Whether this process was forked from one whose kernel had started its threads, so that it can't run plans itself."""
    return _lost


def _kernel_has_threads() -> bool:
    if "polars" not in sys.modules:
        return False
    try:
        tasks = os.listdir(_TASKS)
    except OSError:
        return True  # the system does not tell; a child that wrongly does without the kernel is only slower
    for task in tasks:
        try:
            with open(f"{_TASKS}/{task}/comm") as file:
                name = file.read()
        except OSError:  # it has ended
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
