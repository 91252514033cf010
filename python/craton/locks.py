"""Locks by key, so that each lazy object and each plan is computed by one thread.

The first thread that needs an object or a plan's result computes it; other threads wait for it and use the result.
A lock exists as long as a thread holds it or waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Hashable, Iterator


class KeyedLocks:
    """A re-entrant lock for each key.

    To avoid deadlocks, a thread that needs several locks of one kind takes them in one call, and takes locks of `objects`
    before locks of `plans`.
    """

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # the threads that held locks do not exist in the child

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._locks: dict[Hashable, tuple[threading.RLock, list[int]]] = {}

    @contextlib.contextmanager
    def hold(self, *keys: Hashable) -> Iterator[None]:
        """Hold the locks of some keys for a block. Several keys must be sortable."""
        with contextlib.ExitStack() as stack:
            for key in sorted(set(keys)) if len(keys) > 1 else keys:  # type: ignore[type-var]
                stack.enter_context(self._hold_one(key))
            yield

    @contextlib.contextmanager
    def _hold_one(self, key: Hashable) -> Iterator[None]:
        with self._mutex:
            lock, users = self._locks.setdefault(key, (threading.RLock(), []))
            users.append(1)
        try:
            with lock:
                yield
        finally:
            with self._mutex:
                users.pop()
                if not users:
                    self._locks.pop(key, None)


#: The locks of lazy objects, by the identity of their ``__dict__``.
objects = KeyedLocks()
#: The locks of running plans, by their digests.
plans = KeyedLocks()
