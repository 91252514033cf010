"""Tasks that wait for what they read, and those that are ready, the first ones first."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable


class Waiting:
    """What is ready among tasks that read each other's outputs; knows keys only.

    Not locked: its users have a lock of their own.
    """

    def __init__(self) -> None:
        self.missing: dict[int, int] = {}
        """How many outputs each task waits for that is not ready."""
        self._readers: dict[int, list[int]] = {}
        self._order: dict[int, int] = {}
        self._ready: list[tuple[int, int]] = []

    def add(self, key: int, order: int, reads: Iterable[int], made: Container[int]) -> None:
        """Add a task.

        Parameters
        ----------
        key
            The task's.
        order
            Ready tasks of less are taken first.
        reads
            Keys of the outputs that it reads.
        made
            Those that are there.
        """
        missing = {read for read in reads if read not in made}
        self._order[key] = order
        if not missing:
            heapq.heappush(self._ready, (order, key))
            return
        self.missing[key] = len(missing)
        for read in missing:
            self._readers.setdefault(read, []).append(key)

    def made(self, key: int) -> None:
        """Take note of an output that is there now."""
        for reader in self._readers.pop(key, ()):
            left = self.missing.get(reader)
            if left is None:
                continue  # it was removed
            if left > 1:
                self.missing[reader] = left - 1
            else:
                del self.missing[reader]
                heapq.heappush(self._ready, (self._order[reader], reader))

    def readers(self, key: int) -> list[int]:
        """The tasks that wait for an output; some may have been removed."""
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
        """Remove at most so many ready tasks, those that would be taken last, and return their keys."""
        self._ready = sorted(each for each in self._ready if self._order.get(each[1]) == each[0])
        kept = max(len(self._ready) - number, 0)
        given = [key for _, key in self._ready[kept:]]
        del self._ready[kept:]
        for key in given:
            del self._order[key]
        return given

    def remove(self, key: int) -> None:
        """Forget a task that waits or is ready; one that is unknown is no error."""
        self._order.pop(key, None)
        self.missing.pop(key, None)

    @property
    def ready(self) -> int:
        """How many tasks are ready, about: some may have been removed."""
        return len(self._ready)

    def __len__(self) -> int:
        """Return how many tasks wait or are ready."""
        return len(self._order)

    def __contains__(self, key: int) -> bool:
        return key in self._order
