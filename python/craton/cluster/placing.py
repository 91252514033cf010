"""Which band runs which task of a run, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from craton.schedule.tasks import Band, Task

Policy = Literal["ncs", "algorithm-1", "bfs", "round-robin", "random"]
#: The policies; the first one is what to use.
POLICIES: tuple[Policy, ...] = get_args(Policy)


def place(
    tasks: Sequence[Task],
    bands: Sequence[Band],
    policy: Policy,
    where: Callable[[int], tuple[int, int] | None],
) -> tuple[list[int], list[int]]:
    """Say where tasks run.

    Parameters
    ----------
    tasks
        Each after those whose outputs it reads.
    bands
        What they may run on.
    policy
        How that is chosen.
    where
        Returns the machine that the output of an earlier run is on, and its bytes.

    Returns
    -------
    tuple of list of int
        For each task the position of its band in `bands`, and its place in the order in which tasks are begun.
    """
    count = len(bands)
    if policy in ("round-robin", "random"):
        return [number % count for number in range(len(tasks))], list(range(len(tasks)))
    of: dict[int, int] = {}
    chosen = []
    starts = [task for task in tasks if not any(key in of for read in task.inputs for key in read.tasks)]
    each = max(-(-len(starts) // count), 1)
    begun = 0
    for task in tasks:
        found = [of[key] for read in task.inputs for key in read.tasks if key in of]
        if found:
            band = found[0]
        else:
            band = min(begun // each, count - 1)
            begun += 1
        of[task.key] = band
        chosen.append(band)
    return chosen, list(range(len(tasks)))
