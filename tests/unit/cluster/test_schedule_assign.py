"""Assignment of tasks to bands: Algorithm 1 checked by hand, typical graphs, and invalid arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from craton.schedule import POLICIES, Assignment, Graph, assign, moved_bytes

MIB = 1 << 20


class Shape:
    """A graph that grows task by task."""

    def __init__(self) -> None:
        self.tasks = 0
        self.edges: list[tuple[int, int, int]] = []

    def add(self, *inputs: tuple[int, int]) -> int:
        """Add a task, given the producers of its input and the bytes from each."""
        self.edges += [(producer, self.tasks, nbytes) for producer, nbytes in inputs]
        self.tasks += 1
        return self.tasks - 1

    def each(self, count: int) -> list[int]:
        """Add tasks without producers."""
        return [self.add() for _ in range(count)]

    def graph(self, **options: Any) -> Graph:
        producers, consumers, nbytes = np.array(self.edges, dtype=np.int64).reshape(-1, 3).T
        return Graph(self.tasks, producers, consumers, nbytes=nbytes, **options)


def two_phases(shape: Shape, tasks: Iterable[int], nbytes: int) -> None:
    """A two-phase aggregate: partial results of each task, then the total."""
    shape.add(*[(shape.add((task, nbytes)), 4096) for task in tasks])


def joined_tiles(tiles: int) -> Shape:
    """Two co-partitioned tables, joined tile by tile, then aggregated."""
    shape = Shape()
    left, right = shape.each(tiles), shape.each(tiles)
    joins = [shape.add((one, 64 * MIB), (other, 16 * MIB)) for one, other in zip(left, right, strict=True)]
    two_phases(shape, joins, 40 * MIB)
    return shape


def filtered_by_average(tiles: int) -> Shape:
    """As in TPC-H query 17: one table's average is broadcast to its tiles, which are then joined."""
    shape = Shape()
    left, right = shape.each(tiles), shape.each(tiles)
    average = shape.add(*[(shape.add((tile, 8 * MIB)), 1024) for tile in left])
    filtered = [shape.add((tile, 64 * MIB), (average, 1024)) for tile in left]
    joins = [shape.add((one, 40 * MIB), (other, 16 * MIB)) for one, other in zip(filtered, right, strict=True)]
    two_phases(shape, joins, 20 * MIB)
    return shape


def broadcast(tiles: int) -> Shape:
    """A broadcast join with a small table, then a join tile by tile."""
    shape = Shape()
    small, left, right = shape.each(3), shape.each(tiles), shape.each(tiles)
    first = [shape.add((tile, 64 * MIB), *[(one, MIB) for one in small]) for tile in left]
    joins = [shape.add((one, 50 * MIB), (other, 16 * MIB)) for one, other in zip(first, right, strict=True)]
    two_phases(shape, joins, 20 * MIB)
    return shape


def co_partitioned(tiles: int, partitions: int) -> Shape:
    """A shuffle join: both tables are exchanged, then joined partition by partition."""
    shape = Shape()
    sides = []
    for size in (64 * MIB, 16 * MIB):
        table = shape.each(tiles)
        piece = size // partitions
        sides.append([shape.add(*[(tile, piece) for tile in table]) for _ in range(partitions)])
    joins = [
        shape.add((one, 64 * MIB * tiles // partitions), (other, 16 * MIB * tiles // partitions))
        for one, other in zip(*sides, strict=True)
    ]
    two_phases(shape, joins, 40 * MIB * tiles // partitions)
    return shape


def tree(tiles: int) -> Shape:
    """A binary tree of joins over tiles in random order."""
    shape = Shape()
    top = [int(tile) for tile in np.random.default_rng(0).permutation(shape.each(tiles))]
    while len(top) > 1:
        top = [shape.add(*[(one, 64 * MIB) for one in top[start : start + 2]]) for start in range(0, len(top), 2)]
    return shape


def moved(shape: Shape, bands: int, policy: Any) -> int:
    return moved_bytes(assign(shape.graph(), [1] * bands, policy=policy))


def check(assignment: Assignment) -> None:
    """Check that every task is in exactly one band, and in that band's order."""
    graph = assignment.graph
    assert assignment.bands.dtype == assignment.output.dtype == np.int32
    assert sorted(assignment.output) == sorted(assignment.order) == list(range(graph.tasks))
    for band in range(len(assignment.starts) - 1):
        assert (assignment.bands[assignment.of_band(band)] == band).all()


def test_algorithm_1_by_hand() -> None:
    # The paper has no example, so this is one. Starting nodes 0 to 4; heights in brackets:
    #
    #   0   3   1   4   2
    #   └─┬─┘   └─┬─┘   │
    #     5 (1)   6 (1) │
    #     └───┬───┘     │
    #         7 (2)     │
    #         └────┬────┘
    #              8 (3)
    graph = Graph(9, [0, 3, 1, 4, 5, 6, 7, 2], [5, 5, 6, 6, 7, 7, 8, 8])
    # Lines 1 to 4: the heights of the nearest common successors of node 0 with the nodes 1, 2, 3 and 4 are 2, 3, 1 and 2, so SQ
    # is 0, 3, 1, 4, 2. Lines 5 to 14: node 0 puts 5 into the queue, 5 puts 7, and 7 puts 8. Then the queue is empty. Node 3
    # follows, whose successor has been visited; then 1, which puts 6; then 4 and 2.
    paper = assign(graph, [1, 1], policy="algorithm-1")
    assert paper.output.tolist() == [0, 5, 7, 8, 3, 1, 6, 4, 2]
    # The same without lines 2 to 4.
    assert assign(graph, [1, 1], policy="bfs").output.tolist() == [0, 5, 7, 8, 1, 6, 2, 3, 4]
    # For a tree, our order of starting nodes equals the paper's.
    ours = assign(graph, [1, 1])
    assert ours.output.tolist() == paper.output.tolist()
    # The first two of the five starting nodes go to band 0. Tasks 5 and 6 follow their input. The input of 7 is equal in both bands, and
    # band 0 has less work; so is the input of 8, and both bands have the same work.
    assert ours.bands.tolist() == [0, 1, 1, 0, 1, 0, 1, 0, 0]
    assert ours.of_band(0).tolist() == [0, 3, 5, 7, 8]
    assert ours.of_band(1).tolist() == [1, 4, 6, 2]
    assert moved_bytes(ours) == 2


def test_the_first_node_alone_does_not_keep_pairs_together() -> None:
    # Tiles 0 to 3 and 4 to 7 are joined in pairs, then gathered. All starting nodes but 4 are equally near to 0, so the paper's order
    # keeps them by number.
    shape = Shape()
    left, right = shape.each(4), shape.each(4)
    shape.add(*[(shape.add((one, 10), (other, 10)), 1) for one, other in zip(left, right, strict=True)])
    paper, ours = (assign(shape.graph(), [1, 1], policy=name) for name in ("algorithm-1", "ncs"))
    assert [task for task in paper.output.tolist() if task < 8] == [0, 4, 1, 2, 3, 5, 6, 7]
    assert [task for task in ours.output.tolist() if task < 8] == [0, 4, 1, 5, 2, 6, 3, 7]
    assert moved_bytes(paper) > moved_bytes(ours) == 2
    assert ours.bands.tolist() == [0, 0, 1, 1] * 3 + [0]


@pytest.mark.parametrize("bands", [2, 3, 4, 7])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("joined tiles", joined_tiles(31)),
        ("average first", filtered_by_average(31)),
        ("broadcast", broadcast(31)),
        ("tree", tree(64)),
        ("uneven tree", tree(77)),
        ("co-partitioned", co_partitioned(31, 29)),
    ],
)
def test_fewer_bytes_are_moved_than_with_round_robin(name: str, shape: Shape, bands: int) -> None:
    ours = assign(shape.graph(), [1] * bands)
    check(ours)
    assert moved_bytes(ours) <= 0.7 * moved(shape, bands, "round-robin")
    assert moved_bytes(ours) <= 0.7 * moved(shape, bands, "random")
    counts = np.bincount(ours.bands, minlength=bands)
    assert counts.max() <= 1.25 * shape.tasks / bands


@pytest.mark.parametrize("bands", [2, 3, 5])
def test_not_more_is_moved_where_round_robin_is_optimal(bands: int) -> None:
    # The numbers of tiles that are joined differ by a multiple of the number of bands.
    for shape in (joined_tiles(30), co_partitioned(30, 30)):
        assert moved(shape, bands, "ncs") <= moved(shape, bands, "round-robin")


def test_only_what_must_move_moves() -> None:
    assert moved(joined_tiles(31), 2, "ncs") < MIB
    # A shuffle over two bands moves half of the bytes; the tasks after it move nothing.
    shuffled = 31 * (64 + 16) * MIB
    assert moved(co_partitioned(31, 31), 2, "ncs") <= 0.55 * shuffled


def test_a_diamond_is_split_and_a_chain_is_not() -> None:
    diamond = Graph(4, [0, 0, 1, 2], [1, 2, 3, 3])
    assert assign(diamond, [1, 1]).bands.tolist() == [0, 0, 1, 1]
    chain = Graph(5, [0, 1, 2, 3], [1, 2, 3, 4])
    assert assign(chain, [1, 1]).bands.tolist() == [0] * 5


@pytest.mark.parametrize("policy", POLICIES)
def test_assignments_are_complete_and_deterministic(policy: Any) -> None:
    for shape in (joined_tiles(9), co_partitioned(6, 5), tree(13)):
        graph = shape.graph(costs=np.arange(shape.tasks) % 5)
        one, other = (assign(graph, [2, 1, 1], policy=policy, seed=3) for _ in range(2))
        check(one)
        for name in ("bands", "output", "order", "starts"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()
        assert one.policy == policy
        assert not one.bands.flags.writeable


def test_seeds() -> None:
    graph = Graph(200, [], [])
    first, again, second = (assign(graph, [1, 1], policy="random", seed=seed).bands for seed in (1, 1, 2**64 - 1))
    assert (first == again).all()
    assert (first != second).any()


def test_sizes_of_outputs_are_sizes_of_edges() -> None:
    by_task = Graph(4, [0, 1, 1], [2, 2, 3], output_nbytes=[5, 7, 0, 0])
    by_edge = Graph(4, [0, 1, 1], [2, 2, 3], nbytes=np.array([5, 7, 7], dtype=np.uint16))
    counted = Graph(4, [0, 1, 1], [2, 2, 3])
    bands = [assign(graph, [1, 1], policy="round-robin") for graph in (by_task, by_edge, counted)]
    assert [moved_bytes(assignment) for assignment in bands] == [7, 7, 1]


def test_preferred_bands() -> None:
    graph = Graph(6, [0, 2, 1, 3], [4, 4, 5, 5], preferred=[1, 0, -1, -1, -1, -1])
    assert assign(graph, [1, 1]).bands.tolist() == [1, 0, 1, 0, 1, 0]


def test_no_tasks() -> None:
    nothing = assign(Graph(0, [], []), [1, 1])
    assert nothing.bands.tolist() == nothing.of_band(1).tolist() == []
    assert moved_bytes(nothing) == 0
    with pytest.raises(IndexError, match="there is no band 2"):
        nothing.of_band(2)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Graph(3, [0, 1, 2], [1, 2, 1]), ValueError, "a cycle of 2 tasks: 1 → 2 → 1"),
        (lambda: Graph(3, [0, 3], [1, 2]), ValueError, "edge 1 has the producer 3, but the 3 tasks are numbered"),
        (lambda: Graph(3, [0], [-1]), ValueError, "edge 0 has the consumer -1"),
        (lambda: Graph(-1, [], []), ValueError, "tasks is -1, expected 0 or more"),
        (lambda: Graph(2**31, [], []), ValueError, "2147483648 tasks were given; there can be at most 2147483647"),
        (lambda: Graph(3, [0], [1, 2]), ValueError, "consumers has 2 items, expected 1"),
        (lambda: Graph(3, [[0]], [1]), ValueError, "producers has 2 dimensions"),
        (lambda: Graph(3, [0.5], [1]), TypeError, "producers has the dtype float64"),
        (lambda: Graph(3, np.array([2**63], np.uint64), [1]), ValueError, "expected less than 2\\*\\*63"),
        (lambda: Graph(3, [0], [1], nbytes=[-1]), ValueError, "edge 0 has -1 bytes"),
        (lambda: Graph(3, [0], [1], output_nbytes=[1, 1, -5]), ValueError, "the output of task 2 has -5 bytes"),
        (lambda: Graph(3, [0], [1], nbytes=[1], output_nbytes=[1, 1, 1]), ValueError, "both nbytes and output_nbytes"),
        (lambda: Graph(3, [0], [1], costs=[1, 1, -0.5]), ValueError, "task 2 has the cost -0.5"),
        (lambda: Graph(3, [0], [1], costs=[1]), ValueError, "costs has 1 items, expected 3: one for each task"),
        (lambda: Graph(3, [0], [1], preferred=[-1, 0, -1]), ValueError, "task 1 has the preferred band 0, but"),
        (
            lambda: assign(Graph(1, [], [], preferred=[2]), [1, 1]),
            ValueError,
            "task 0 has the preferred band 2, but the 2 bands",
        ),
        (lambda: assign(Graph(1, [], []), []), ValueError, "no bands were given"),
        (lambda: assign(Graph(1, [], []), [1, -1]), ValueError, "band 1 has the capacity -1"),
        (
            lambda: assign(Graph(1, [], []), [1], policy="best"),
            ValueError,
            'no policy is named "best"; there are ncs, ',
        ),
        (lambda: assign(Graph(1, [], []), [1], seed=-1), ValueError, "seed is -1"),
    ],
)
def test_invalid_arguments_are_named(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_the_gil_is_released() -> None:
    # Another thread makes progress while this one is in `assign`.
    shape = joined_tiles(20_000)
    graph = shape.graph()
    inside, done = threading.Event(), threading.Event()
    turns = 0

    def other() -> None:
        nonlocal turns
        inside.set()
        while not done.is_set():
            turns += 1

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert inside.wait(10)
        before = turns
        while turns == before:
            assign(graph, [1] * 8)
    finally:
        done.set()
        thread.join(10)
    assert not thread.is_alive()
