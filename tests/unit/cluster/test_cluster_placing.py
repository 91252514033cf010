"""Placement of tasks: on the machine that has most of their input."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from craton.cluster.folders import FolderMap, on_own_disks
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


def test_tasks_run_on_the_machine_whose_disks_have_their_files() -> None:
    bands = [Band(number, 1, 1 << 30, node=number // 2) for number in range(4)]
    homes = {"/disks/a": (0,), "/disks/b": (1,), "/shared": (), "/both": (0, 1)}
    folders = [("/disks/b",), ("/disks/a", "/shared"), ("/disks/b", "/disks/b", "/disks/a"), ("/shared", "/disks/a")]
    tasks = [Task(number, Nothing(), nbytes=10 << 20, folders=some) for number, some in enumerate(folders)]
    for policy in ("ncs", "bfs"):
        placed, _ = place(tasks, bands, policy, {}.get, lambda folder: homes.get(folder, ()))
        assert [band // 2 for band in placed] == [1, 0, 1, 0]
        assert sorted(placed) == [0, 1, 2, 3], "the bands of a machine take turns"
    # A machine does not get more than its share, and without a machine that has files nothing changes.
    many = [Task(number, Nothing(), nbytes=1 << 20, folders=("/disks/a",)) for number in range(40)]
    placed, _ = place(many, bands, "ncs", {}.get, lambda folder: homes.get(folder, ()))
    assert all(placed.count(band) <= 13 for band in range(4))
    gone, _ = place(many, bands[2:], "ncs", {}.get, lambda folder: homes.get(folder, ()))
    assert set(gone) == {2, 3}
    # Rows of an earlier output weigh more than a small file, and less than a large one.
    outputs = {99: OutputLocation(0, 0, (PartSize(100, 100 << 20),))}
    for nbytes, machine in ((1 << 10, 0), (1 << 30, 1)):
        read = (Read((99,), (0,)),)
        mixed = [Task(number, Nothing(), read, nbytes=nbytes, folders=("/disks/b",)) for number in range(2)]
        placed, _ = place(mixed, bands[::2], "ncs", outputs.get, lambda folder: homes.get(folder, ()))
        assert machine * 2 in placed


MOUNTS = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / {0}/from\\040others rw shared:2 - nfs4 far:/srv rw
31 30 254:1 / {0}/from\\040others/disk rw shared:2 master:3 - xfs /dev/vdb rw
32 22 0:41 / {0}/user rw - fuse.sshfs far:/ rw
"""


def test_own_disks(tmp_path: Path) -> None:
    mounts = MOUNTS.format(tmp_path).replace("\\\\", "\\")
    folders = ["own", "from others", "from others/a", "from others/disk", "from others/disk/b", "user/x", "not there"]
    for folder in folders[:-1]:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    found = on_own_disks([str(tmp_path / folder) for folder in folders], mounts)
    assert found == [True, False, False, True, True, False, False]
    assert on_own_disks([str(tmp_path), "/not/there"]) == [True, False]
    assert on_own_disks([str(tmp_path)], "") == [True]


def test_machines_say_which_folders_are_their_own() -> None:
    asked: list[tuple[int, list[str]]] = []

    async def ask(machine: int, folders: list[str]) -> list[bool]:
        asked.append((machine, folders))
        if machine == 2:
            raise ConnectionError("it has ended")
        return [folder == f"/disks/{machine}" or folder == "/same" for folder in folders]

    async def program() -> None:
        known = FolderMap(ask)
        assert known.machines_of("/disks/0") == frozenset()
        await known.locate(["/disks/0", "/disks/1", "/disks/0", "/same"], [0, 1])
        assert [known.machines_of(f"/disks/{n}") for n in range(3)] == [{0}, {1}, frozenset()]
        assert known.machines_of("/same") == frozenset(), "it makes no difference"
        await known.locate(["/disks/1"], [1, 0])
        assert asked == [(0, ["/disks/0", "/disks/1", "/same"]), (1, ["/disks/0", "/disks/1", "/same"])]
        await known.locate(["/same"], [0, 1, 2])  # machines have changed
        assert known.machines_of("/same") == {0, 1}
        await known.locate(["/same"], [1])
        assert known.machines_of("/same") == frozenset()

    asyncio.run(program())


def test_a_machine_that_does_not_answer_has_no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("craton.cluster.folders._ANSWERS", 0.05)

    async def ask(machine: int, folders: list[str]) -> list[bool]:
        await asyncio.sleep(10 * machine)
        return [True] * len(folders)

    async def program() -> None:
        known = FolderMap(ask)
        await known.locate(["/disk"], [0, 1])
        assert known.machines_of("/disk") == {0}

    asyncio.run(program())
