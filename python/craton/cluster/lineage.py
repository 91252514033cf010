"""The lineage of outputs: where each output is, and which tasks recompute it if it is lost."""

from __future__ import annotations

from collections.abc import Container, Iterable

from craton.schedule.pages import StoredOutput
from craton.schedule.tasks import Output, Task


class LineageEntry:
    """An output of the session.

    Attributes
    ----------
    task : Task or None
        The task that recomputes it; None if it came from the driver.
    output : Output
        Its sizes.
    stored : StoredOutput or None
        Its location; None if it is lost.
    released : bool
        Whether the user released it, and it is kept only to recompute other outputs.
    """

    __slots__ = ("counted", "output", "released", "stored", "task")

    def __init__(self, task: Task | None, output: Output, stored: StoredOutput | None) -> None:
        self.task, self.output, self.stored = task, output, stored
        self.released = False
        self.counted = False  # whether it is counted as a reader of its task's inputs


class Lineage:
    """The outputs of a session.

    Outputs on the driver's machine, number 0, cannot be lost while the driver lives, so their inputs need not be kept.
    """

    def __init__(self) -> None:
        self._made: dict[int, LineageEntry] = {}
        # For each output, how many outputs that are lost or may be lost are recomputed from it. Readers may be added before it is.
        self._readers: dict[int, int] = {}

    def get(self, key: int) -> LineageEntry | None:
        """Return the output of a task, or None if it is unknown or released."""
        made = self._made.get(key)
        return None if made is None or made.released else made

    def __contains__(self, key: int) -> bool:
        made = self._made.get(key)
        return made is not None and not made.released

    @property
    def kept(self) -> Container[int]:
        """The keys of all known outputs, including released ones that are kept to recompute others."""
        return self._made.keys()

    def __len__(self) -> int:
        return sum(not made.released for made in self._made.values())

    def add(self, task: Task | None, output: Output, stored: StoredOutput) -> None:
        """Record an output; an output that was lost is replaced."""
        made = self._made.get(output.key)
        if made is None:
            made = self._made[output.key] = LineageEntry(task, output, stored)
        made.output, made.stored = output, stored
        if stored.node != 0:
            self._count(made)

    def _count(self, made: LineageEntry) -> None:
        """Keep the inputs of an output that is lost or may be lost."""
        counts = made.stored is None or made.stored.node != 0
        if counts and not made.counted:
            made.counted = True
            for key in reads_of(made.task):
                self._readers[key] = self._readers.get(key, 0) + 1

    def release(self, keys: Iterable[int]) -> list[tuple[int, int]]:
        """Release outputs; return the keys and machines of those whose pages are to be dropped."""
        dropped: list[tuple[int, int]] = []
        for key in sorted(
            keys, reverse=True
        ):  # readers first: an output is dropped only once nothing is recomputed from it
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

    def _can_be_made(self, made: LineageEntry) -> bool:
        """Return whether an output can be recomputed: its task and the task's inputs are known."""
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
        """Record that the pages of some outputs are gone."""
        for key in keys:
            made = self._made.get(key)
            if made is not None and made.stored is not None:
                made.stored = None
                self._count(made)

    def of_node(self, node: int) -> list[int]:
        """Return the keys of the outputs on a machine."""
        return [key for key, made in self._made.items() if made.stored is not None and made.stored.node == node]

    def tasks_to_recompute(self, keys: Iterable[int]) -> list[Task]:
        """Return the tasks that recompute lost outputs, in topological order.

        Raises
        ------
        KeyError
            If an output cannot be recomputed: it was released, it came from the driver, or its key is unknown.
        """
        order: dict[int, Task] = {}
        visiting = [(key, False) for key in keys]
        while visiting:
            key, ready = visiting.pop()
            if key in order:
                continue
            made = self._made.get(key)
            if made is None or (made.stored is None and made.task is None):
                raise KeyError(f"the output of task {key} is lost, and the task that made it is not known any more")
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
    """Return the keys of the outputs that a task reads."""
    return () if task is None or not task.inputs else {key for read in task.inputs for key in read.tasks}
