"""Assign the tasks of a graph to bands: the Python interface of ``crates/schedule``.

The method is the nearest common successor enhanced breadth-first search of Xorbits (Lu et al., "Decentralized Actor Scheduling and
Reference-based Storage in Xorbits", PVLDB 18(9), 2025, section 4.3, Algorithm 1). docs/decisions/0013-scheduling.md says where this
implementation departs from the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from craton._native import TaskGraph

PolicyName: TypeAlias = Literal["ncs", "algorithm-1", "bfs", "round-robin", "random"]

POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
"""The names of all policies. Use the first one; the others are baselines to compare it with."""


class Graph:
    """A directed acyclic graph of tasks, which are numbered from 0.

    Parameters
    ----------
    tasks : int
        The number of tasks; at most 2**31 - 1.
    producers, consumers : array-like of int
        The two ends of each edge: the consumer reads the producer's output. An edge that is given twice counts twice.
    nbytes : array-like of int, optional
        Bytes that each edge transfers.
    output_nbytes : array-like of int, optional
        Alternative to ``nbytes``: bytes of each task's output, which every edge of the task transfers in full. Without either, each
        edge transfers one byte.
    costs : array-like of float, optional
        How long each task takes, in any unit; 1 unless given.
    preferred : array-like of int, optional
        For each task the band that holds its input already, or -1. Only tasks without producers may prefer a band.

    Raises
    ------
    ValueError
        If the graph has a cycle (the message names its tasks), an edge names a task that does not exist, bytes or costs are negative,
        a task with producers prefers a band, or an array has the wrong length. The message names the array and the position.
    TypeError
        If an array has the wrong dtype.

    Examples
    --------
    >>> from craton.schedule import Graph
    >>> Graph(3, [0, 1], [2, 2])
    Graph(3 tasks, 2 edges)
    """

    __slots__ = ("_native", "edges", "tasks")

    def __init__(
        self,
        tasks: int,
        producers: ArrayLike,
        consumers: ArrayLike,
        *,
        nbytes: ArrayLike | None = None,
        output_nbytes: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        preferred: ArrayLike | None = None,
    ) -> None:
        if tasks < 0:
            raise ValueError(f"tasks is {tasks}, expected 0 or more")
        ends = _integers("producers", producers)
        self._native = TaskGraph(
            tasks,
            ends,
            _integers("consumers", consumers),
            None if nbytes is None else _integers("nbytes", nbytes),
            None if output_nbytes is None else _integers("output_nbytes", output_nbytes),
            None if costs is None else _array("costs", costs, np.float64, "iuf"),
            None if preferred is None else _integers("preferred", preferred),
        )
        self.tasks = tasks
        self.edges = len(ends)

    def __repr__(self) -> str:
        return f"Graph({self.tasks} tasks, {self.edges} edges)"


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The band of each task, and the order of the tasks in each band.

    Attributes
    ----------
    graph : Graph
        The graph that was assigned.
    policy : str
        The policy that assigned it.
    bands : numpy.ndarray of int32
        The band of each task.
    output : numpy.ndarray of int32
        All tasks, in the order in which the policy visited them: the output of Algorithm 1. A task may come before its producers.
    order : numpy.ndarray of int32
        The tasks of the first band, then those of the second, and so on; see `of_band`.
    starts : numpy.ndarray of int32
        The offset in ``order`` at which each band's tasks start, and the number of tasks at the end: one more than there are bands.
    """

    graph: Graph = field(repr=False)
    policy: PolicyName
    bands: NDArray[np.int32]
    output: NDArray[np.int32] = field(repr=False)
    order: NDArray[np.int32] = field(repr=False)
    starts: NDArray[np.int32] = field(repr=False)

    def of_band(self, band: int) -> NDArray[np.int32]:
        """Return the tasks of a band, in the order in which it runs them.

        The order of every band is a subsequence of one topological order of the graph, so bands that keep to their orders never
        deadlock. Among ready tasks, the one that comes first in ``output`` runs next.

        Raises
        ------
        IndexError
            If there is no such band.
        """
        bands = len(self.starts) - 1
        if not 0 <= band < bands:
            raise IndexError(f"there is no band {band}; expected 0 or more and less than {bands}")
        return self.order[self.starts[band] : self.starts[band + 1]]


def assign(graph: Graph, bands: Sequence[float], *, policy: PolicyName = "ncs", seed: int = 0) -> Assignment:
    """Assign the tasks of a graph to bands.

    The result is deterministic: the same graph, bands and policy give the same assignment in every process. The GIL is released
    while the assignment is computed.

    Parameters
    ----------
    graph : Graph
        The tasks.
    bands : sequence of float
        The capacity of each band, in any unit: a band of twice the capacity gets twice the cost.
    policy : {"ncs", "algorithm-1", "bfs", "round-robin", "random"}
        ``ncs`` orders the starting nodes so that those with the nearest common successors are neighbours, and cuts this order into
        one run for each band; every other task goes to the band that holds most of its input, as long as that band is not
        overloaded. ``algorithm-1`` does the same with exactly the paper's order of starting nodes, ``bfs`` with their order by
        number. ``round-robin`` and ``random`` ignore the edges.
    seed : int
        The seed of the policy ``random``; at least 0 and less than 2**64.

    Returns
    -------
    Assignment
        The band of each task and the order in each band.

    Raises
    ------
    ValueError
        If there are no bands, a capacity is not a finite number greater than 0, a task prefers a band that does not exist, or the policy
        is unknown.

    Examples
    --------
    Two pairs of tiles (0 and 2, 1 and 3), joined by 4 and 5:

    >>> from craton.schedule import Graph, assign, moved_bytes
    >>> graph = Graph(6, [0, 2, 1, 3], [4, 4, 5, 5], output_nbytes=[80, 20, 80, 20, 9, 9])
    >>> assignment = assign(graph, [1, 1])
    >>> assignment.bands.tolist()
    [0, 1, 0, 1, 0, 1]
    >>> assignment.of_band(1).tolist()
    [1, 3, 5]
    >>> moved_bytes(assignment), moved_bytes(assign(graph, [1, 1], policy="random"))
    (0, 100)
    """
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}, expected 0 to 2**64 - 1")
    capacities = [float(capacity) for capacity in bands]
    of, output, order = (np.empty(graph.tasks, np.int32) for _ in range(3))
    starts = np.empty(len(capacities) + 1, np.int32)
    graph._native.assign(capacities, policy, seed, of, output, order, starts)
    for array in (of, output, order, starts):
        array.flags.writeable = False
    return Assignment(graph, policy, of, output, order, starts)


def moved_bytes(assignment: Assignment) -> int:
    """Return the bytes that are transferred between bands: those of all edges whose producer and consumer run in different bands.

    If several tasks of another band read the same output, it counts once for each of them.
    """
    return assignment.graph._native.moved_bytes(assignment.bands)


def _integers(name: str, given: ArrayLike) -> NDArray[np.int64]:
    return _array(name, given, np.int64, "iu")


def _array(name: str, given: ArrayLike, dtype: Any, kinds: str) -> NDArray[Any]:
    """Return a contiguous one-dimensional array of the given dtype."""
    array = np.asarray(given)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, expected 1")
    if array.size and array.dtype.kind not in kinds:
        raise TypeError(f"{name} has the dtype {array.dtype}, expected one that casts safely to {np.dtype(dtype)}")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} contains {array.max()}, expected less than 2**63")
    return np.ascontiguousarray(array, dtype=dtype)
