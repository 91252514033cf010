"""Locks by key, so that each lazy object and each plan is computed by one thread.

The first thread that needs an object or a plan's result computes it; other threads wait for it and use the result.
A lock exists as long as a thread holds it or waits for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Sequence
from typing import Any

#: A lock with its key, and one entry for each thread that holds it or waits for it.
Held = tuple[Hashable, Any, list[int]]


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
        self._locks: dict[Hashable, tuple[Any, list[int]]] = {}

    def hold(self, *keys: Hashable) -> Holding:
        """Hold the locks of some keys for a block. Several keys must be sortable."""
        return Holding(self, sorted(set(keys)) if len(keys) > 1 else keys)  # type: ignore[type-var]

    def acquire(self, key: Hashable) -> Held:
        """Wait for the lock of a key, and return it with its key and its users."""
        with self._mutex:
            lock, users = self._locks.setdefault(key, (threading.RLock(), []))
            users.append(1)
        try:
            lock.acquire()
        except BaseException:
            self._leave(key, users)
            raise
        return key, lock, users

    def release(self, held: Held) -> None:
        """Release a lock that was acquired."""
        key, lock, users = held
        lock.release()
        self._leave(key, users)

    def _leave(self, key: Hashable, users: list[int]) -> None:
        with self._mutex:
            users.pop()
            if not users:
                self._locks.pop(key, None)


class Holding:
    """A block that holds locks: a class, because a generator takes several times as long in calls that take microseconds."""

    __slots__ = ("_held", "_keys", "_locks")

    def __init__(self, locks: KeyedLocks, keys: Sequence[Hashable]) -> None:
        self._locks, self._keys = locks, keys
        self._held: list[Held] = []

    def __enter__(self) -> None:
        try:
            for key in self._keys:
                self._held.append(self._locks.acquire(key))
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        while self._held:
            self._locks.release(self._held.pop())


#: The locks of lazy objects, by the identity of their ``__dict__``.
objects = KeyedLocks()
#: The locks of running plans, by their digests.
plans = KeyedLocks()
