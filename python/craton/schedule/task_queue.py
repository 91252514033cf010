"""A priority queue of tasks with dependencies: a task becomes ready when all outputs that it reads are available."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable


class TaskQueue:
    """Tasks, by key, that wait for inputs or are ready to run.

    Not thread-safe: callers hold their own lock.
    """

    def __init__(self) -> None:
        self.missing: dict[int, int] = {}
        """For each task that is not ready, the number of outputs that it waits for."""
        self._readers: dict[int, list[int]] = {}
        self._order: dict[int, int] = {}
        self._ready: list[tuple[int, int]] = []

    def add(self, key: int, order: int, reads: Iterable[int], available: Container[int]) -> None:
        """Add a task.

        Parameters
        ----------
        key
            The task's key.
        order
            The priority: ready tasks with lower numbers are taken first.
        reads
            Keys of the outputs that it reads.
        available
            Keys of the outputs that are available.
        """
        missing = {read for read in reads if read not in available}
        self._order[key] = order
        if not missing:
            heapq.heappush(self._ready, (order, key))
            return
        self.missing[key] = len(missing)
        for read in missing:
            self._readers.setdefault(read, []).append(key)

    def mark_available(self, key: int) -> None:
        """Record that an output is available; tasks that waited for it only become ready."""
        for reader in self._readers.pop(key, ()):
            left = self.missing.get(reader)
            if left is None:
                continue  # the task was removed
            if left > 1:
                self.missing[reader] = left - 1
            else:
                del self.missing[reader]
                heapq.heappush(self._ready, (self._order[reader], reader))

    def readers(self, key: int) -> list[int]:
        """Return the tasks that wait for an output; some of them may have been removed."""
        return self._readers.get(key, [])

    def take(self) -> int | None:
        """Remove the first ready task, and return its key; None if no task is ready."""
        while self._ready:
            order, key = heapq.heappop(self._ready)
            if self._order.get(key) == order:
                del self._order[key]
                return key
        return None

    def take_last(self, number: int) -> list[int]:
        """Remove at most `number` ready tasks, those of the lowest priority, and return their keys."""
        self._ready = sorted(each for each in self._ready if self._order.get(each[1]) == each[0])
        kept = max(len(self._ready) - number, 0)
        given = [key for _, key in self._ready[kept:]]
        del self._ready[kept:]
        for key in given:
            del self._order[key]
        return given

    def remove(self, key: int) -> None:
        """Remove a task; an unknown key is ignored."""
        self._order.pop(key, None)
        self.missing.pop(key, None)

    @property
    def ready(self) -> int:
        """An upper bound of the number of ready tasks; removed tasks may still be counted."""
        return len(self._ready)

    def __len__(self) -> int:
        """Return how many tasks wait or are ready."""
        return len(self._order)

    def __contains__(self, key: int) -> bool:
        return key in self._order
