"""Placement of tasks: on the machine that has most of their input."""

from __future__ import annotations

from craton.cluster.placing import OutputLocation, place
from craton.schedule.tasks import Band, PartSize, Read, Task


class Nothing:
    def run(self, inputs: object, sink: object) -> None:
        pass


def test_tasks_run_on_the_machine_with_most_bytes_of_their_parts() -> None:
    bands = [Band(number, 1, 1 << 30, node=number) for number in range(2)]
    # Part 0 is large on the first machine, part 1 on the second. Of the whole outputs, the second is the larger one.
    outputs = {
        1: OutputLocation(0, 0, (PartSize(100, 100 << 20), PartSize(1, 8))),
        2: OutputLocation(1, 1, (PartSize(1, 8), PartSize(300, 300 << 20))),
    }
    tasks = [Task(10 + part, Nothing(), (Read((1, 2), (part,)),)) for part in (1, 0)]
    for policy in ("ncs", "bfs"):
        placed, orders = place(tasks, bands, policy, outputs.get)
        assert placed == [1, 0]
        assert sorted(orders) == [0, 1]
    assert outputs[1].nbytes((0, 1)) == (100 << 20) + 8
    assert outputs[1].nbytes((7,)) == 0
