"""Locks by key: threads that want the same thing wait for each other, and no others do.

A lazy object is computed by the first thread that looks at it, and a plan is run by the first that needs its result; the
others wait, and find it. A lock exists for as long as a thread has it or waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Hashable, Iterator


class Locks:
    """A re-entrant lock for each key.

    Whoever takes several at a time takes them in one call, or those of a higher level first: objects, then plans. So no two
    threads wait for each other.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # threads that had a lock are not in the child

    def _forget(self) -> None:
        self._mutex = threading.Lock()
        self._locks: dict[Hashable, tuple[threading.RLock, list[int]]] = {}

    @contextlib.contextmanager
    def of(self, *keys: Hashable) -> Iterator[None]:
        """Have the locks of some keys; of several, keys that can be sorted."""
        with contextlib.ExitStack() as stack:
            for key in sorted(set(keys)) if len(keys) > 1 else keys:  # type: ignore[type-var]
                stack.enter_context(self._one(key))
            yield

    @contextlib.contextmanager
    def _one(self, key: Hashable) -> Iterator[None]:
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


#: Of lazy objects, by the identity of their ``__dict__``.
objects = Locks()
#: Of plans that run, by their digests.
plans = Locks()
