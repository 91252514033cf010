"""Lineage: outputs are kept as long as lost outputs may be recomputed from them, and no longer."""

from __future__ import annotations

import pytest

from craton.cluster.lineage import Lineage
from craton.schedule.pages import StoredOutput
from craton.schedule.tasks import Output, PartSize, Read, Task


class Nothing:
    def run(self, inputs: object, sink: object) -> None:
        pass


def task(key: int, *reads: int) -> Task:
    return Task(key, Nothing(), (Read(reads),) if reads else ())


def add(lineage: Lineage, made: Task | None, node: int, key: int = 0) -> None:
    number = key if made is None else made.key
    lineage.add(made, Output(number, (PartSize(1, 8),)), StoredOutput(node, number, (((0, 0, 1, 8),),)))


def keys(tasks: list[Task]) -> list[int]:
    return [each.key for each in tasks]


def test_outputs_on_the_drivers_machine_are_dropped_when_released() -> None:
    lineage = Lineage()
    add(lineage, task(1), 0)
    add(lineage, task(2, 1), 0)
    assert lineage.release([1, 99]) == [(1, 0)]
    assert 1 not in lineage
    assert lineage.release([1, 2]) == [(2, 0)]
    assert (len(lineage), lineage._made, lineage._readers) == (0, {}, {})


@pytest.mark.parametrize("consumer_first", [False, True])
def test_released_inputs_are_recomputed(consumer_first: bool) -> None:
    lineage = Lineage()
    chain = [task(1), task(2, 1), task(3, 2)]
    for each in reversed(chain) if consumer_first else chain:
        add(lineage, each, 1)
    assert sorted(lineage.release([1, 2])) == [(1, 1), (2, 1)]
    assert 2 not in lineage
    lineage.lose(lineage.of_node(1))
    assert keys(lineage.tasks_to_recompute([3])) == [1, 2, 3]
    for each in chain:
        add(lineage, each, 0)  # the recomputed output is on the driver's machine
    assert lineage.tasks_to_recompute([3]) == []
    lineage.release([3])
    assert (lineage._made, lineage._readers) == ({}, {})


def test_tables_from_the_driver_are_kept_while_outputs_depend_on_them() -> None:
    lineage = Lineage()
    add(lineage, None, 0, key=1)
    add(lineage, task(2, 1), 1)
    assert lineage.release([1]) == []
    lineage.lose([2])
    assert keys(lineage.tasks_to_recompute([2])) == [2]
    assert sorted(lineage.release([2])) == [(1, 0)]
    assert (lineage._made, lineage._readers) == ({}, {})


def test_pages_that_cannot_be_recomputed_are_kept() -> None:
    lineage = Lineage()
    for made, node in ((task(1), 0), (task(2, 1), 0), (task(3, 2), 1)):
        add(lineage, made, node)
    assert lineage.release([1]) == [(1, 0)]
    assert lineage.release([2]) == []
    lineage.lose([3])
    assert keys(lineage.tasks_to_recompute([3])) == [3]
    assert sorted(lineage.release([3])) == [(2, 0)]
    assert (lineage._made, lineage._readers) == ({}, {})


def test_consumers_are_released_before_their_inputs() -> None:
    lineage = Lineage()
    for made, node in ((task(1), 0), (task(2, 1), 0), (task(3, 2), 1)):
        add(lineage, made, node)
    assert sorted(lineage.release([1, 2])) == [(1, 0), (2, 0)]
    lineage.lose([3])
    assert keys(lineage.tasks_to_recompute([3])) == [1, 2, 3]


def test_unknown_outputs_cannot_be_recomputed() -> None:
    lineage = Lineage()
    add(lineage, None, 1, key=1)
    lineage.lose([1])
    for key in (1, 5):
        with pytest.raises(KeyError, match=f"the output of task {key} is lost, and the task that made it is not known"):
            lineage.tasks_to_recompute([key])
