"""The part ``moved``: the bytes that tasks of TPC-H read from other bands, for each assignment policy.

Each query runs once in tiles, in this process, which records the parts that each task reads, and their sizes. Then each policy
assigns the recorded graph to bands, each of which counts as a machine, and the bytes that tasks read from outputs of other
bands are added up. There are two ways of assigning:

*graph*: all tasks of a query at once, with the measured sizes.
*stages*: one stage after another, as in a session, each with the information that is known when it begins.

For comparison, the table shows the bytes that tasks read from each other's outputs in total, and the minimum that a search
finds among the assignments that give each band an equal share of each run's tasks. No such policy can be much better than that.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.store.turns import bar, say

__all__ = ["POLICIES", "Recorded", "least_found", "measure", "moved_in_graph", "moved_in_stages", "record"]

POLICIES = ("ncs", "algorithm-1", "bfs", "round-robin", "random")
BASELINE = "round-robin"
SEARCHED, READ = "searched", "read in all"
OVERHEAD = 1 << 20
"""The fixed cost of a task, as the number of bytes that can be read in the same time."""


@dataclass
class Recorded:
    """The recorded runs of a query.

    Attributes
    ----------
    runs : list
        The tasks of each run, without their work.
    sizes : dict
        Key of a task to the rows and bytes of each part of its output.
    """

    runs: list[list[Any]] = field(default_factory=list)
    sizes: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def read_bytes(self, read: Any) -> dict[int, int]:
        """Return the bytes that a read fetches of each task's output, without the rows that it skips."""
        found: dict[int, int] = {}
        wanted, at = read.rows, 0
        for key in read.tasks:
            for part in read.parts:
                rows, nbytes = self.sizes[key][part]
                taken = rows if wanted is None else max(min(at + rows, sum(wanted)) - max(at, wanted[0]), 0)
                at += rows
                if taken:
                    found[key] = found.get(key, 0) + nbytes * taken // rows
        return found

    @cached_property
    def graph(self) -> tuple[list[tuple[int, int, int]], list[int]]:
        """The reads between tasks as (producer, consumer, bytes), and the cost of each task.

        Tasks are numbered consecutively over all runs. Reads of data that the driver stored are left out, because they have no
        producer. The value is cached, so use it only after all runs have ended.
        """
        tasks = [task for run in self.runs for task in run]
        numbers = {task.key: number for number, task in enumerate(tasks)}
        edges, costs = [], []
        for number, task in enumerate(tasks):
            cost = OVERHEAD + task.nbytes
            for read in task.inputs:
                for key, size in self.read_bytes(read).items():
                    cost += size
                    if key in numbers:
                        edges.append((numbers[key], number, size))
            costs.append(cost)
        return edges, costs

    def moved(self, bands: Sequence[int]) -> int:
        """Return the bytes that move if task ``i`` runs on band ``bands[i]``."""
        return sum(size for producer, consumer, size in self.graph[0] if bands[producer] != bands[consumer])


def record(bands: int, query: Any, folder: str, settings: Any) -> Recorded:
    """Run a query in as many tiles as fit the number of bands, and return the record of its tasks."""
    from dataclasses import replace

    import pandas

    import craton.pandas
    from craton.engine.tiled import TiledEngine, using
    from craton.memory import clear_memory
    from craton.schedule.inline import InlineRunner
    from craton.schedule.tasks import Output, Task

    found = Recorded()
    nothing: Any = None

    class Recorder(InlineRunner):
        async def run(self, tasks: Sequence[Task]) -> list[Output]:
            outputs = await super().run(tasks)
            found.runs.append([replace(task, work=nothing) for task in tasks])
            for output in outputs:
                found.sizes[output.key] = tuple((part.rows, part.nbytes) for part in output.parts)
            return outputs

        async def put(self, data: Any) -> Output:
            output = await super().put(data)
            found.sizes[output.key] = tuple((part.rows, part.nbytes) for part in output.parts)
            return output

    clear_memory()
    engine = TiledEngine(Recorder(bands=bands), asyncio.run, settings, least_bytes=0)
    with using(engine):
        pandas.DataFrame(query(craton.pandas, folder))
    clear_memory()
    return found


def moved_in_graph(recorded: Recorded, bands: int, policy: Any) -> int:
    """Return the bytes that move if all tasks of a query are assigned at once."""
    from craton.schedule import Graph, assign, moved_bytes

    edges, costs = recorded.graph
    producers, consumers, nbytes = [list(column) for column in zip(*edges, strict=True)] or [[], [], []]
    graph = Graph(len(costs), producers, consumers, nbytes=nbytes, costs=costs)
    return moved_bytes(assign(graph, [1.0] * bands, policy=policy))


def least_found(recorded: Recorded, bands: int, *, starts: int = 4, rounds: int = 30) -> int:
    """Return the smallest number of moved bytes that a local search finds.

    The search starts from assignments that divide the tasks of each run evenly among the bands, in order or in random order. It
    swaps the bands of two tasks of a run as long as that reduces the bytes. So the numbers of tasks that two bands have of a run
    differ by at most one.
    """
    edges, costs = recorded.graph
    near: list[list[tuple[int, int]]] = [[] for _ in costs]
    for producer, consumer, size in edges:
        near[producer].append((consumer, size))
        near[consumer].append((producer, size))
    ends = itertools.accumulate(map(len, recorded.runs))
    runs = [range(end - len(run), end) for run, end in zip(recorded.runs, ends, strict=True)]
    drawn = random.Random(1)
    found = []

    def away(task: int, band: int, other: int) -> int:
        return sum(size for one, size in near[task] if one != other and where[one] != band)

    for start in range(starts):
        where = [0] * len(costs)
        for run in runs:
            order = drawn.sample(run, len(run)) if start else run
            for number, task in enumerate(order):
                where[task] = number % bands
        for _ in range(rounds):
            changed = False
            for run in runs:
                for one, other in itertools.combinations(run, 2):
                    here, there = where[one], where[other]
                    if here != there and away(one, there, other) + away(other, here, one) < away(
                        one, here, other
                    ) + away(other, there, one):
                        where[one], where[other] = there, here
                        changed = True
            if not changed:
                break
        found.append(recorded.moved(where))
    return min(found)


def moved_in_stages(recorded: Recorded, bands: int, policy: Any) -> int:
    """Return the bytes that move if runs are assigned one after another, as in sessions."""
    from craton.cluster.placing import OutputLocation, place
    from craton.schedule.tasks import Band, PartSize

    having = [Band(number, 1, 1 << 40, number) for number in range(bands)]
    where: dict[int, int] = {}

    def location(key: int) -> OutputLocation | None:
        band = where.get(key)
        return None if band is None else OutputLocation(band, band, [PartSize(*size) for size in recorded.sizes[key]])

    for run in recorded.runs:
        placed, _orders = place(run, having, policy, location)
        where.update((task.key, band) for task, band in zip(run, placed, strict=True))
    return recorded.moved([where[task.key] for run in recorded.runs for task in run])


WAYS = {"graph": moved_in_graph, "stages": moved_in_stages}


def measure(
    result: dict[str, Any], folder: Path, *, queries: Sequence[str], bands: Sequence[int], tiles: int | None
) -> str:
    """Add the bytes that each policy moves to a report, and return a table.

    Parameters
    ----------
    result : dict
        A report of `bench.store.turns.new_report`.
    folder : path
        The folder of the tables.
    queries : sequence of str
        The names of the queries.
    bands : sequence of int
        Numbers of bands; each is a separate comparison.
    tiles : int or None
        The number of tiles of scans and exchanges; None for the number that Craton chooses for these bands.
    """
    from craton.demo.queries import QUERIES
    from craton.lower.tiled.planner import Settings

    lines = []
    result["moved"] = {}
    for count in bands:
        moved: dict[str, dict[str, dict[str, int]]] = {way: {} for way in WAYS}
        for query in queries:
            found = record(count, QUERIES[query], str(folder), Settings(tiles=tiles))
            for way, of in WAYS.items():
                moved[way][query] = {policy: of(found, count, policy) for policy in POLICIES}
            everything = sum(size for _producer, _consumer, size in found.graph[0])
            moved["graph"][query] |= {SEARCHED: least_found(found, count), READ: everything}
            tasks = sum(map(len, found.runs))
            ratios = ", ".join(f"{way} {_ratio(moved[way][query], 'ncs')}" for way in WAYS)
            say(f"{count} bands, {query}: {tasks} tasks in {len(found.runs)} runs; ncs to {BASELINE}: {ratios}")
        result["moved"][str(count)] = moved
        for way, of_query in moved.items():
            lines += ["", f"{count} bands, {way}: MB moved; × is the ratio to {BASELINE}", *_table(of_query)]
            total = {policy: sum(one[policy] for one in of_query.values()) for policy in POLICIES}
            value = total["ncs"] / total[BASELINE] if total[BASELINE] else None
            what = f"bytes moved by ncs to {BASELINE}, {count} bands, {way}"
            bar(result, what, value, lambda r: r <= 0.7, "≤ 0.7")
            each = [one["ncs"] / one[BASELINE] for one in of_query.values() if one[BASELINE]]
            if each:
                lines.append(f"median of the queries: {statistics.median(each):.2f}×")
            least = sum(one.get(SEARCHED, 0) for one in of_query.values())
            if least:
                lines.append(f"to the least that a search finds: ncs {total['ncs'] / least:.3f}×")
    return "\n".join(lines)


def _ratio(of: dict[str, int], policy: str) -> str:
    return f"{of[policy] / of[BASELINE]:.2f}×" if of[BASELINE] else "nothing moves"


def _table(moved: dict[str, dict[str, int]]) -> list[str]:
    columns = list(next(iter(moved.values())))
    total = {column: sum(one[column] for one in moved.values()) for column in columns}
    lines = [f"{'':6}" + "".join(f"{column:>20}" for column in columns)]
    for query, of in [*moved.items(), ("total", total)]:
        cells = [
            f"{of[one] / 1e6:,.2f}" + (f" {of[one] / of[BASELINE]:6.2f}×" if of[BASELINE] else " " * 8)
            for one in columns
        ]
        lines.append(f"{query:6}" + "".join(f"{cell:>20}" for cell in cells))
    return lines


def plot(result: dict[str, Any], target: Path) -> None:
    """Draw the bytes that each policy moves in total, relative to round robin."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    groups = [(count, way, of) for count, ways in result["moved"].items() for way, of in ways.items()]
    for number, policy in enumerate([*POLICIES, SEARCHED]):
        shares = []
        for _count, _way, of in groups:
            base = sum(one[BASELINE] for one in of.values())
            shares.append(sum(one.get(policy, 0) for one in of.values()) / base if base else 0.0)
        places = [at + (number - 2.5) * 0.15 for at in range(len(groups))]
        axes.bar(places, shares, 0.15, label=policy)
    axes.axhline(0.7, color="0.3", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(groups)), [f"{count} bands,\n{way}" for count, way, _of in groups])
    axes.set_ylabel(f"bytes moved, as a part of {BASELINE}'s")
    axes.set_title(result["title"], fontsize=11)
    axes.legend(fontsize=8, frameon=False, ncols=6, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    FigureCanvasAgg(figure).print_png(target)
