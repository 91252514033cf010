"""Durable sets in object stores: several writers, killed writers, dropped versions and sets, and the commands."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from typing import Any
from unittest import mock

import pandas
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import craton
from craton.store import SetConflict
from craton.store.cli import main
from craton.store.durable import DurableSet, Version, every_set, remove_dropped
from craton.store.object_folder import ObjectFolder
from craton.store.object_store import ObjectStore
from tests.unit.store import test_durable_sets
from tests.unit.store.keyed_tables import keyed_table
from tests.unit.store.object_places import NOWHERE, objects

table, as_pandas = test_durable_sets.table, test_durable_sets.as_pandas


# ---- writers ----


def test_one_of_two_writers_wins(place: str) -> None:
    craton.save("set", table(10))
    durable = DurableSet("set")
    base = durable.version()
    craton.save("set", table(5), mode="append")
    with pytest.raises(SetConflict, match="version 2"):
        durable.publish(test_durable_sets.write_three, base.about, base, base.files)
    assert durable.versions() == [1, 2]
    assert durable.repair(age=0) == []
    craton.drop_set("set")
    with pytest.raises(SetConflict, match="dropped the set"):
        durable.publish(test_durable_sets.write_three, base.about, base, base.files)


def test_one_of_many_threads_wins(memory: str) -> None:
    """All threads have seen the same newest version when they publish the next one, and go on while another looks for it."""
    craton.save("set", table(10))
    take, exists = ObjectFolder._take, MemoryFileSystem.exists

    def slowly(self: MemoryFileSystem, path: str, **named: Any) -> bool:
        found = exists(self, path, **named)
        time.sleep(0.002)
        return bool(found)

    for base in range(1, 6):
        ready = threading.Barrier(6)
        outcomes: list[bool] = []

        def together(self: ObjectFolder, number: int, content: bytes, ready: threading.Barrier = ready) -> None:
            ready.wait(60)
            take(self, number, content)

        def write(version: Version, outcomes: list[bool] = outcomes) -> None:
            try:
                DurableSet("set").publish(test_durable_sets.write_three, version.about, version)
                outcomes.append(True)
            except SetConflict:
                outcomes.append(False)

        threads = [threading.Thread(target=write, args=(DurableSet("set").version(base),)) for _ in range(6)]
        with mock.patch.object(ObjectFolder, "_take", together), mock.patch.object(MemoryFileSystem, "exists", slowly):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        assert sorted(outcomes) == [False] * 5 + [True]
        assert DurableSet("set").versions() == list(range(1, base + 2))
    durable = DurableSet("set")
    durable.expire(durable.versions())
    durable.repair(age=0)
    assert len(objects(f"{memory}/default/set/data")) == 1


def append_often(url: str, options: dict[str, Any], count: int) -> None:
    """Append rows several times; start again when another process was faster."""
    with craton.option_context(data=url, data_options=options):
        for number in range(count):
            while True:
                try:
                    craton.save("set", pandas.DataFrame({"process": [os.getpid()], "number": [number]}), mode="append")
                    break
                except SetConflict:
                    continue


def test_processes_append_at_once(s3: str) -> None:
    context = multiprocessing.get_context("spawn")
    given = (s3, dict(craton.options.data_options), 5)
    processes = [context.Process(target=append_often, args=given) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    found = as_pandas(craton.read_set("set"))
    assert found.groupby("process")["number"].apply(list).tolist() == [list(range(5))] * 2
    durable = DurableSet("set")
    assert durable.versions() == list(range(1, 11))
    assert durable.repair(age=0) == []


_KILLED = """
import json, os, signal, sys, pandas, craton
from craton.store.object_folder import ObjectFolder
craton.options.data, craton.options.data_options = sys.argv[1], json.loads(sys.argv[2])

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

ObjectFolder._take = kill
craton.save("set", pandas.DataFrame({"a": range(1000)}), mode="overwrite")
"""


@pytest.mark.parametrize("versions", [0, 1])
def test_a_writer_that_is_killed_before_it_publishes(s3: str, versions: int) -> None:
    if versions:
        craton.save("set", table(10))
    arguments = [sys.executable, "-c", _KILLED, s3, json.dumps(craton.options.data_options)]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert run.returncode == -9, run.stderr
    durable = DurableSet("set")
    assert durable.versions() == [1] * versions
    assert len(craton.catalog()) == versions
    left = [name for name in objects(f"{s3}/default/set") if name.startswith("data/")]
    assert len(left) == versions + 1
    assert durable.repair() == []  # the writer may be alive
    assert len(durable.repair(age=0)) == 1
    assert durable.repair(age=0) == []
    if versions:
        pandas.testing.assert_frame_equal(as_pandas(craton.read_set("set")), table(10))
    assert craton.save("set", table(7), mode="overwrite") == versions + 1


def test_ages_are_those_of_the_stores_clock(place: str) -> None:
    craton.save("set", table(10))
    durable = DurableSet("set")
    folder = durable._folder
    assert isinstance(folder, ObjectFolder)
    writer = folder.writer()
    writer._upload(_staged(writer))
    with mock.patch("time.time", return_value=4e9):  # this machine's clock is wrong
        assert durable.repair(age=3600) == []
    with mock.patch.object(ObjectStore, "now", autospec=True, side_effect=lambda self, at: _now(self, at) + 3601):
        assert len(durable.repair(age=3600)) == 1
    writer.close()
    assert durable.verify(1) == {}


_now = ObjectStore.now


def _staged(writer: Any) -> str:
    name, path = writer.next_file()
    path.write_bytes(b"rows")
    return str(name)


def test_a_late_request_cannot_take_the_number_of_a_dropped_version(place: str) -> None:
    for rows in (3, 4, 5):
        craton.save("set", table(rows), mode="overwrite")
    durable = DurableSet("set")
    durable.expire([1, 2])
    folder = durable._folder
    assert isinstance(folder, ObjectFolder)
    with pytest.raises(SetConflict):
        folder._take(2, b"late")
    assert durable.versions() == [3]
    assert len(durable.repair(age=0)) == 4  # two files, two marks
    assert len(craton.read_set("set")) == 5


# ---- dropping, and the commands ----


def test_dropping(place: str) -> None:
    for name in ("a", "b"):
        craton.save(name, table(30))
        craton.save(name, table(20), mode="append")
    craton.drop_set("a")
    with pytest.raises(FileNotFoundError):
        craton.read_set("a")
    with pytest.raises(FileNotFoundError):
        craton.drop_set("a")
    for version in (1, 2, 3):
        with pytest.raises(FileNotFoundError):
            craton.read_set("a", version=version)
    assert [one.name for one in every_set()] == ["b"]
    assert objects(f"{place}/default/a") == [f"versions/{3:020}"]
    assert craton.save("a", table(5)) == 4  # numbers are not used again
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("a")), table(5))
    assert DurableSet("a").versions() == [4]
    craton.drop_set("a")
    assert len(remove_dropped(age=0)) == 2  # two marks
    assert not objects(f"{place}/default/a")
    assert craton.save("a", table(5)) == 1


def test_dropping_that_was_interrupted(place: str) -> None:
    craton.save("a", table(30))
    craton.save("a", table(20), mode="append")
    with mock.patch.object(ObjectFolder, "_remove_dropped", side_effect=OSError("the network is down")):
        craton.drop_set("a")
    assert list(every_set()) == []
    assert len(objects(f"{place}/default/a")) == 5
    assert craton.save("a", table(5)) == 4
    assert DurableSet("a").versions() == [4]
    assert len(DurableSet("a").repair()) == 4
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("a")), table(5))
    with mock.patch.object(ObjectFolder, "_remove_dropped", side_effect=OSError("the network is down")):
        craton.drop_set("a")
    assert len(remove_dropped()) == 2
    assert len(remove_dropped(age=0)) == 2
    assert objects(place) == []


def test_the_catalogue_and_the_commands(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert craton.catalog().empty
    rows = keyed_table(40, 0, 9, 9)
    craton.save("shop.orders", rows, partition_by="k", partitions=2)
    for size in (10, 20, 30):
        craton.save("lines", table(size), mode="append" if size > 10 else "error")
    found = as_pandas(craton.catalog())
    assert found[["database", "name", "version", "versions", "rows", "files"]].to_numpy().tolist() == [
        ["default", "lines", 3, 3, 60, 3],
        ["shop", "orders", 1, 1, 40, 2],
    ]
    assert main(["ls", *NOWHERE]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in shown[1:]] == [["default.lines", "3", "60"], ["shop.orders", "1", "40"]]
    assert main(["describe", "lines"]) == 0
    assert "3 of 1, 2, 3" in capsys.readouterr().out
    assert main(["verify", *NOWHERE]) == 0
    assert capsys.readouterr().out.splitlines() == ["default.lines: 3 files sound", "shop.orders: 2 files sound"]
    assert main(["vacuum", "lines", "--keep", "2"]) == 0
    assert "1 versions dropped, 0 files removed" in capsys.readouterr().out
    craton.save("lines", table(5), mode="overwrite")
    assert main(["vacuum", "lines"]) == 0
    assert "2 versions dropped, 0 files removed" in capsys.readouterr().out  # the files are young
    assert main(["vacuum", "lines", "--age", "0"]) == 0
    assert "0 versions dropped, 6 files removed" in capsys.readouterr().out  # three files, and three marks of versions
    assert main(["repair", "--age", "0"]) == 0
    assert capsys.readouterr().out == "nothing to repair\n"
    for wrong in (["repair", "--age", "-1"], ["vacuum", "--age", "nan"], ["repair", "--move", "/a", "/b"], ["restore"]):
        assert main(wrong) == 1
        assert capsys.readouterr().err
    assert len(craton.read_set("lines")) == 5
