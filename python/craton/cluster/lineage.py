"""What was made, where it is, and how it is made again if it is lost."""

from __future__ import annotations

from collections.abc import Iterable

from craton.schedule.pages import Stored
from craton.schedule.tasks import Output, Task


class Made:
    """An output that somebody may read.

    Attributes
    ----------
    task : Task or None
        What makes it again; None if it came from the driver.
    output : Output
        Its sizes.
    stored : Stored or None
        Where it is; None if it is lost.
    released : bool
        Whether it is kept only because others are made from it.
    """

    __slots__ = ("counted", "output", "released", "stored", "task")

    def __init__(self, task: Task | None, output: Output, stored: Stored | None) -> None:
        self.task, self.output, self.stored = task, output, stored
        self.released = False
        self.counted = False  # whether it is counted as a reader of what it is made from


class Lineage:
    """The outputs of a session.

    The driver's own machine, number 0, loses nothing while the driver lives: what lies there needs nothing to be made again.
    """

    def __init__(self) -> None:
        self._made: dict[int, Made] = {}
        # How many outputs that are lost, or can be, are made from each; they may be known before it is.
        self._readers: dict[int, int] = {}

    def get(self, key: int) -> Made | None:
        """The output of a task, if it is known and was not released."""
        made = self._made.get(key)
        return None if made is None or made.released else made

    def __contains__(self, key: int) -> bool:
        made = self._made.get(key)
        return made is not None and not made.released

    def __len__(self) -> int:
        return sum(not made.released for made in self._made.values())

    def add(self, task: Task | None, output: Output, stored: Stored) -> None:
        """Take note of an output; also of one that was lost, when it is there again."""
        made = self._made.get(output.key)
        if made is None:
            made = self._made[output.key] = Made(task, output, stored)
        made.output, made.stored = output, stored
        if stored.node != 0:
            self._count(made)

    def _count(self, made: Made) -> None:
        """Have an output that is lost, or can be, keep what it is made from."""
        counts = made.stored is None or made.stored.node != 0
        if counts and not made.counted:
            made.counted = True
            for key in reads_of(made.task):
                self._readers[key] = self._readers.get(key, 0) + 1

    def release(self, keys: Iterable[int]) -> list[tuple[int, int]]:
        """Take note that nobody will read some outputs; return keys and machines of those whose pages are to be dropped."""
        dropped: list[tuple[int, int]] = []
        for key in sorted(keys, reverse=True):  # readers first: what they are made from may have to be kept for them
            made = self._made.get(key)
            if made is None or made.released:
                continue
            made.released = True
            if key not in self._readers:
                self._remove(key, dropped)
            elif made.stored is not None and self._can_be_made(made):
                dropped.append((key, made.stored.node))
                made.stored = None
                self._count(made)
        return dropped

    def _can_be_made(self, made: Made) -> bool:
        """Whether what an output is made from is still known."""
        return made.task is not None and all(key in self._made for key in reads_of(made.task))

    def _remove(self, key: int, dropped: list[tuple[int, int]]) -> None:
        removing = [key]
        while removing:
            key = removing.pop()
            made = self._made.pop(key)
            if made.stored is not None:
                dropped.append((key, made.stored.node))
            if not made.counted:
                continue
            for source in reads_of(made.task):
                self._readers[source] -= 1
                if self._readers[source]:
                    continue
                del self._readers[source]
                found = self._made.get(source)
                if found is not None and found.released:
                    removing.append(source)

    def lose(self, keys: Iterable[int]) -> None:
        """Take note that the pages of some outputs are gone."""
        for key in keys:
            made = self._made.get(key)
            if made is not None and made.stored is not None:
                made.stored = None
                self._count(made)

    def of_node(self, node: int) -> list[int]:
        """Keys of the outputs that lie on a machine."""
        return [key for key, made in self._made.items() if made.stored is not None and made.stored.node == node]

    def again(self, keys: Iterable[int]) -> list[Task]:
        """The tasks that make some lost outputs again, sources first.

        Raises
        ------
        KeyError
            If one cannot be made again, because it was released, or because nothing is known of it.
        """
        order: dict[int, Task] = {}
        visiting = [(key, False) for key in keys]
        while visiting:
            key, ready = visiting.pop()
            if key in order:
                continue
            made = self._made.get(key)
            if made is None or (made.stored is None and made.task is None):
                raise KeyError(f"the output of task {key} is lost, and how it was made is not known any more")
            if made.stored is not None:
                continue
            assert made.task is not None
            if ready:
                order[key] = made.task
                continue
            visiting.append((key, True))
            visiting += [(source, False) for source in reads_of(made.task)]
        return list(order.values())


def reads_of(task: Task | None) -> Iterable[int]:
    """Keys of the outputs that a task reads."""
    return () if task is None or not task.inputs else {key for read in task.inputs for key in read.tasks}
