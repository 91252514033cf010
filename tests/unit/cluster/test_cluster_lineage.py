"""What is kept so that lost outputs can be made again, and no longer."""

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


def test_what_lies_with_the_driver_is_forgotten_at_once() -> None:
    lineage = Lineage()
    add(lineage, task(1), 0)
    add(lineage, task(2, 1), 0)
    assert lineage.release([1, 99]) == [(1, 0)]
    assert 1 not in lineage
    assert lineage.release([1, 2]) == [(2, 0)]
    assert (len(lineage), lineage._made, lineage._readers) == (0, {}, {})


@pytest.mark.parametrize("consumer_first", [False, True])
def test_released_sources_are_made_again(consumer_first: bool) -> None:
    lineage = Lineage()
    chain = [task(1), task(2, 1), task(3, 2)]
    for each in reversed(chain) if consumer_first else chain:
        add(lineage, each, 1)
    assert sorted(lineage.release([1, 2])) == [(1, 1), (2, 1)]
    assert 2 not in lineage
    lineage.lose(lineage.of_node(1))
    assert keys(lineage.tasks_to_recompute([3])) == [1, 2, 3]
    for each in chain:
        add(lineage, each, 0)  # this time it lies with the driver
    assert lineage.tasks_to_recompute([3]) == []
    lineage.release([3])
    assert (lineage._made, lineage._readers) == ({}, {})


def test_what_came_from_the_driver_is_kept_while_it_is_needed() -> None:
    lineage = Lineage()
    add(lineage, None, 0, key=1)
    add(lineage, task(2, 1), 1)
    assert lineage.release([1]) == []
    lineage.lose([2])
    assert keys(lineage.tasks_to_recompute([2])) == [2]
    assert sorted(lineage.release([2])) == [(1, 0)]
    assert (lineage._made, lineage._readers) == ({}, {})


def test_pages_are_kept_whose_sources_are_not_known_any_more() -> None:
    lineage = Lineage()
    for made, node in ((task(1), 0), (task(2, 1), 0), (task(3, 2), 1)):
        add(lineage, made, node)
    assert lineage.release([1]) == [(1, 0)]
    assert lineage.release([2]) == []
    lineage.lose([3])
    assert keys(lineage.tasks_to_recompute([3])) == [3]
    assert sorted(lineage.release([3])) == [(2, 0)]
    assert (lineage._made, lineage._readers) == ({}, {})


def test_readers_are_released_before_what_they_read() -> None:
    lineage = Lineage()
    for made, node in ((task(1), 0), (task(2, 1), 0), (task(3, 2), 1)):
        add(lineage, made, node)
    assert sorted(lineage.release([1, 2])) == [(1, 0), (2, 0)]
    lineage.lose([3])
    assert keys(lineage.tasks_to_recompute([3])) == [1, 2, 3]


def test_what_is_not_known_cannot_be_made_again() -> None:
    lineage = Lineage()
    add(lineage, None, 1, key=1)
    lineage.lose([1])
    for key in (1, 5):
        with pytest.raises(KeyError, match=f"the output of task {key} is lost, and the task that made it is not known"):
            lineage.tasks_to_recompute([key])
