"""The placement of a run's tasks: builds a task graph, assigns it to bands, and returns the band and the order of every task."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from craton.schedule import POLICIES, Graph, PolicyName, assign
from craton.schedule.tasks import Band, PartSize, Task

__all__ = ["POLICIES", "OutputLocation", "PolicyName", "place"]

#: The fixed cost of a task, as the number of bytes that could be read in the same time.
_OVERHEAD = 1 << 20


class OutputLocation(NamedTuple):
    """The band and the machine of an output of an earlier run, and the sizes of its parts."""

    band: int
    node: int
    parts: Sequence[PartSize]

    def nbytes(self, parts: Sequence[int]) -> int:
        """Return the bytes of some of its parts."""
        return sum(self.parts[part].nbytes for part in parts if part < len(self.parts))


def place(
    tasks: Sequence[Task],
    bands: Sequence[Band],
    policy: PolicyName,
    where: Callable[[int], OutputLocation | None],
    machines_of: Callable[[str], Collection[int]] = lambda _: (),
) -> tuple[list[int], list[int]]:
    """Assign tasks to bands.

    Parameters
    ----------
    tasks
        The tasks.
    bands
        The bands that may run them.
    policy
        The assignment policy; see :func:`craton.schedule.assign`.
    where
        Returns the location of an output of another run, or None if it is unknown.
    machines_of
        Returns the machines that have a folder on their own disks; none if that makes no difference.

    Returns
    -------
    tuple of list of int
        For each task the number of its band, and its position in the order in which tasks are started.
    """
    numbers = {task.key: number for number, task in enumerate(tasks)}
    producers, consumers, nbytes = [], [], []
    costs = []
    preferred = [-1] * len(tasks)
    places = {band.number: place for place, band in enumerate(bands)}
    apart = len({band.node for band in bands}) > 1
    of_machine = _by_machine(bands)
    turns = {node: itertools.cycle(some) for node, some in of_machine.items()}
    for consumer, task in enumerate(tasks):
        cost, within = _OVERHEAD + task.nbytes, False
        sizes: dict[int, int] = {}
        for read in task.inputs:
            for key in read.tasks:
                producer = numbers.get(key)
                if producer is not None:
                    source = tasks[producer]
                    producers.append(producer)
                    consumers.append(consumer)
                    nbytes.append(max(source.nbytes, source.parts) * len(read.parts) // source.parts)
                    within = True
                elif (found := where(key)) is not None:
                    size = found.nbytes(read.parts)
                    cost += size
                    if apart:
                        band = places.get(found.band)
                        if band is None or bands[band].node != found.node:
                            band = of_machine.get(found.node, [-1])[0]
                        sizes[band] = sizes.get(band, 0) + size
        costs.append(cost)
        if apart and not within and (near := _near_files(task.folders, machines_of, turns)) is not None:
            sizes[near] = sizes.get(near, 0) + task.nbytes
        if sizes and not within:
            preferred[consumer] = max(sizes, key=lambda band: sizes[band])
    graph = Graph(
        len(tasks),
        producers,
        consumers,
        nbytes=nbytes,
        costs=costs,
        preferred=preferred if apart else None,
    )
    assignment = assign(graph, [band.threads for band in bands], policy=policy)
    orders = np.empty(len(tasks), np.int64)
    orders[assignment.output] = np.arange(len(tasks))
    own = np.array([band.number for band in bands])
    return own[assignment.bands].tolist(), orders.tolist()


def _by_machine(bands: Sequence[Band]) -> dict[int, list[int]]:
    """The positions of the bands of each machine."""
    found: dict[int, list[int]] = {}
    for number, band in enumerate(bands):
        found.setdefault(band.node, []).append(number)
    return found


def _near_files(
    folders: Iterable[str], machines_of: Callable[[str], Collection[int]], turns: Mapping[int, Iterator[int]]
) -> int | None:
    """The next band of a machine that has most of these folders on its own disks."""
    having = Counter(node for folder in folders for node in machines_of(folder) if node in turns)
    return next(turns[having.most_common(1)[0][0]]) if having else None
