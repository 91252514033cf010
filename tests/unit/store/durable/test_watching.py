"""Watched places: those that are lost or do not answer are noticed, and what they had is rebuilt, also if others are lost meanwhile."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pandas
import pytest

import craton
from craton import events
from craton.store import CorruptSet, durable_cli, durable_files, recovery, watching
from craton.store.cli import main
from craton.store.durable import DurableSet
from craton.store.recovery import missing_files, rebuild
from craton.store.watching import PlaceWatcher, rebuild_version, repair_places
from tests.unit.store.keyed_tables import keyed_table, table_of_dtypes

COUNT = 5


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Iterator[Path]:
    places = [tmp_path / f"disk{i}" for i in range(COUNT)]
    with craton.option_context(data=tmp_path / "data", data_places=places, small_rows=0):
        yield tmp_path


def table(rows: int = 900, seed: int = 0) -> pandas.DataFrame:
    frame = keyed_table(rows, seed, 200, 300)
    return frame.assign(c=pandas.Categorical(frame["s"], categories=["ccc", "unused", "a", "bb"], ordered=True))


def saved(losses: int, name: str = "rows", **layout: Any) -> pandas.DataFrame:
    first, second = table(), table(131, 5)
    layout = layout or {"partition_by": "k", "replicate_by": ["p", []], "partitions": 7}
    craton.save(name, first, losses=losses, **layout)
    craton.save(name, second, mode="append")
    return pandas.concat([first, second], ignore_index=True)


def check(expected: pandas.DataFrame, name: str = "rows") -> None:
    pandas.testing.assert_frame_equal(pandas.DataFrame(craton.read_set(name)), expected)


def contents(name: str = "rows") -> dict[str, bytes]:
    durable = DurableSet(name)
    return {file["name"]: Path(durable.path(file)).read_bytes() for file in durable.version().files}


def lose(data: Path, *numbers: int) -> None:
    for number in numbers:
        shutil.rmtree(data / f"disk{number}", ignore_errors=True)


def conditions(watcher: PlaceWatcher, *names: str) -> dict[str, str]:
    return {Path(one.folder).parts[-3]: one.condition for one in watcher.check(map(DurableSet, names or ("rows",)))}


# ---- checks ----


def test_conditions_of_places(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(1)
    watcher = PlaceWatcher(30)
    assert set(conditions(watcher).values()) == {"answers"}
    assert len(conditions(watcher)) == COUNT
    lose(data, 0)
    shutil.rmtree(next((data / "disk1" / "default").iterdir()))
    path = next((data / "disk2").rglob("*.arrow"))
    path.write_bytes(path.read_bytes()[:-1])
    (data / "disk3").rename(data / "away")
    (data / "disk3").write_text("not a folder")
    assert conditions(watcher) == {
        "disk0": "lost",
        "disk1": "missing",
        "disk2": "incomplete",
        "disk3": "lost",
        "disk4": "answers",
    }
    monkeypatch.setattr(watching, "_probe", lambda folder: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
    found = [one for one in watcher.check([DurableSet("rows")]) if one.condition == "read-only"]
    assert [(one.problem, one.has_lost_files) for one in found] == [
        ("it cannot be written to: Read-only file system", False)
    ]
    assert watcher.check([]) == watcher.check([DurableSet("none")]) == []


def test_probes_leave_nothing(data: Path) -> None:
    saved(1)
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*") if path.is_file()}
    conditions(PlaceWatcher(30))
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*") if path.is_file()} == before
    for folder in data.glob("disk*/default/*"):
        (folder / ".probe-left").touch()
    craton.drop_set("rows")
    assert not list(data.glob("disk*/default/*"))


def test_places_that_hang(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(1)
    plain, release, calls = watching._look_at, threading.Event(), []

    def hangs(folder: str, files: Any) -> Any:
        if "disk1" in folder:
            calls.append(folder)
            release.wait(60)
        return plain(folder, files)

    monkeypatch.setattr(watching, "_look_at", hangs)
    watcher = PlaceWatcher(0.3)
    for _ in range(3):
        found = conditions(watcher)
        assert found.pop("disk1") == "hangs"
        assert set(found.values()) == {"answers"}
    assert len(calls) == 1  # a thread that hangs is not joined by others
    look = watcher._hanging[str(data / "disk1")]
    release.set()
    look.join()
    assert set(conditions(watcher).values()) == {"answers"}


def test_folders_that_hang_are_not_touched(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = saved(2)
    before = contents()
    checks = PlaceWatcher(30).check([DurableSet("rows")])
    hanging = [
        watching.PlaceCheck(one.name, one.folder, one.files, "hangs", "it has not answered")
        for one in checks
        if "disk2" in one.folder
    ]
    touched: list[str] = []
    for name in ("stat", "makedirs", "listdir", "open"):
        call = getattr(os, name)

        def counted(path: Any, *rest: Any, call: Any = call, **named: Any) -> Any:
            if isinstance(path, str | os.PathLike) and "disk2" in os.path.realpath(path):
                touched.append(str(path))
            return call(path, *rest, **named)

        monkeypatch.setattr(os, name, counted)
    repair_places(DurableSet("rows"), hanging)
    assert touched == []
    monkeypatch.undo()
    lose(data, 2)
    assert contents() == before
    check(expected)
    assert "disk2" not in {Path(folder).parts[-3] for folder in DurableSet("rows").files_in_places()}


# ---- the command ----


def test_the_command_checks_once(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = saved(1)
    assert main(["watch", "--once"]) == 0
    assert capsys.readouterr().out == "5 of 5 places of 1 sets have all files\n"
    lose(data, 3)
    assert main(["watch", "rows", "--once"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2
    assert "default.rows: " in shown[0]
    assert shown[0].endswith("lost: the place is missing")
    assert shown[1] == "4 of 5 places of 1 sets have all files"
    before = len(DurableSet("rows").files_in_places())
    assert main(["watch", "--once", "--repair"]) == 0
    shown = capsys.readouterr().out.splitlines()
    rebuilt = [line for line in shown if line.startswith("rebuilt ")]
    assert len(rebuilt) >= 3
    assert re.search(r": [\d,]+ rows, \d+\.\d\d s, (\d+) of \1$", rebuilt[-1])
    assert shown[-1] == "4 of 4 places of 1 sets have all files"
    assert not (data / "disk3").exists()  # what it had is in the set's own folder
    assert len(DurableSet("rows").files_in_places()) == before - 1
    assert DurableSet("rows").verify(2) == {}
    check(expected)


def test_other_places_take_over(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = saved(2)
    before = contents()
    saved(2, "other", partition_by="k", replicate_by=["p"], partitions=5)
    lose(data, 1, 4)
    new = [str(data / name) for name in ("new", "disk0", "more")]
    assert main(["watch", "--once", "--repair", *itertools.chain(*(("--to", one) for one in new))]) == 0
    assert contents() == before
    folders = {Path(folder).parts[-3] for folder in DurableSet("rows").files_in_places()}
    assert folders == {"disk0", "disk2", "disk3", "new", "more"}  # disk0 had files already
    check(expected)
    check(expected, "other")
    lose(data, 0, 2)
    assert main(["repair"]) == 0
    assert contents() == before
    craton.save("rows", table(40, 8), mode="append")
    check(pandas.concat([expected, table(40, 8)], ignore_index=True))
    assert not (data / "disk1").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--every", "0"], "more than 0"),
        (["--timeout", "-1"], "more than 0"),
        (["--to", "there"], "needs --repair"),
        (["nothing"], "no set default.nothing"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    saved(1)
    assert main(["watch", "--once", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_new_place_that_does_not_answer(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(1)
    lose(data, 0)
    (data / "file").touch()
    links = DurableSet("rows").files_in_places()
    assert main(["watch", "--once", "--repair", "--to", str(data / "file")]) == 1
    assert f"{data / 'file'}: " in capsys.readouterr().err
    assert DurableSet("rows").files_in_places() == links


def test_more_are_lost_than_was_asked_for(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(1, partition_by="k", replicate_by=["p"], partitions=7)
    lose(data, 0, 1)
    assert main(["watch", "--once", "--repair"]) == 1
    assert "no other file that is whole" in capsys.readouterr().err


def test_a_watcher_goes_on(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Places are lost between its checks; it repairs them, and says so once."""
    expected = saved(2)
    before = contents()
    rounds = iter([(0,), (), (1, 2), ()])

    def sleep(seconds: float) -> None:
        assert seconds == 5
        check(expected)
        lost = next(rounds, None)
        if lost is None:
            raise KeyboardInterrupt
        lose(data, *lost)

    monkeypatch.setattr(durable_cli, "time", SimpleNamespace(sleep=sleep))
    assert main(["watch", "--every", "5", "--repair"]) == 130
    shown = capsys.readouterr().out.splitlines()
    assert [sum(f"disk{i}" in line and "lost" in line for line in shown) for i in range(COUNT)] == [1, 1, 1, 0, 0]
    assert contents() == before


def test_a_place_that_answers_again(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(1)
    moves = iter([("disk1", "away"), ("away", "disk1")])

    def sleep(_: float) -> None:
        move = next(moves, None)
        if move is None:
            raise KeyboardInterrupt
        (data / move[0]).rename(data / move[1])

    monkeypatch.setattr(durable_cli, "time", SimpleNamespace(sleep=sleep))
    found: list[dict[str, Any]] = []

    def subscriber(kind: str, fields: dict[str, Any]) -> None:
        if kind == "place":
            found.append(fields)

    events.subscribe(subscriber)
    try:
        assert main(["watch"]) == 130
    finally:
        events.unsubscribe(subscriber)
    shown = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in shown] == ["the place is missing", "answers again"]
    assert [one["condition"] for one in found] == ["lost", "answers"]


# ---- losses while files are rebuilt ----


@pytest.mark.parametrize("when", range(4))
@pytest.mark.parametrize("order", [[], ["p"]], ids=["replica in order", "replica by p"])
def test_a_second_place_is_lost_in_the_midst(when: int, order: list[str], data: Path) -> None:
    expected = saved(2, partition_by="k", replicate_by=[order], partitions=7)
    before = contents()
    for first, second in itertools.permutations(range(COUNT), 2):
        if (first + second + when) % 3:
            continue
        lose(data, first)
        durable, done = DurableSet("rows"), []

        def report(file: recovery.RebuiltFile, second: int = second, done: list[Any] = done) -> None:
            done.append(file)
            if len(done) == when + 1:
                lose(data, second)

        for number in durable.versions():
            damaged = missing_files(durable, durable.version(number))
            rebuild_version(durable, number, damaged, report)
        assert missing_files(durable, durable.version()) == {}
        assert contents() == before
        check(expected)


@pytest.mark.parametrize("opened", [0, 3, 8])
def test_a_second_place_is_lost_while_rows_are_sought(opened: int, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = saved(2)
    before = contents()
    plain, count = recovery._Source, itertools.count()

    def source(*given: Any) -> Any:
        if next(count) == opened:
            lose(data, 3)
        return plain(*given)

    lose(data, 1)
    monkeypatch.setattr(recovery, "_Source", source)
    assert main(["repair"]) == 0
    assert next(count) > opened
    assert contents() == before
    check(expected)


def test_a_place_is_lost_while_its_files_are_written(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written in the set's own folder."""
    expected = saved(1)
    before = contents()
    plain, count = recovery.write_file, itertools.count()

    def write(path: str, *given: Any) -> Any:
        written = plain(path, *given)
        if next(count) == 0:
            lose(data, 2)
        return written

    lose(data, 2)
    monkeypatch.setattr(recovery, "write_file", write)
    assert main(["repair"]) == 0
    monkeypatch.undo()
    assert contents() == before
    assert main(["verify"]) == 0
    check(expected)


def test_readers_go_on(data: Path) -> None:
    expected = saved(2)
    right = expected.groupby("k")["x"].sum()
    errors: list[BaseException] = []
    reads = itertools.count()

    def read(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                found = craton.read_set("rows").groupby("k")["x"].sum()
                pandas.testing.assert_series_equal(pandas.Series(found), right)
                next(reads)
            except BaseException as error:
                errors.append(error)
                return

    for lost in ((0,), (3, 4), (1,), (0, 2)):
        lose(data, *lost)
        stop = threading.Event()
        threads = [threading.Thread(target=read, args=(stop,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert main(["watch", "--once", "--repair"]) == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert errors == []
    assert next(reads) > 0
    check(expected)


@pytest.mark.parametrize("rows", [8, 61, 300])
@pytest.mark.parametrize("page", [3, 64])
def test_rebuilt_files_have_the_bytes_that_were_lost(rows: int, page: int, data: Path) -> None:
    frame = table_of_dtypes(rows, rows)
    for number, (by, kind, parts) in enumerate(
        [("int8", "hash", 3), ("text", "hash", 2), ("bool", "range", 3), ("time", "range", 5)]
    ):
        name = f"rows{number}"
        with mock.patch.object(durable_files, "PAGE_ROWS", page):
            craton.save(name, frame, partition_by=by, replicate_by=["flags", []], kind=kind, partitions=parts, losses=2)
            craton.save(name, frame, mode="append")
            before = contents(name)
            for lost in ((0, 1), (2, 3), (4,)):
                lose(data, *lost)
                assert main(["repair", name]) == 0
                assert contents(name) == before


# ---- progress ----


def test_rebuilt_files_are_reported(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(1)
    lose(data, 0)
    durable = DurableSet("rows")
    version = durable.version()
    lost = {file["name"]: file for file in version.files if not durable.has(file)}
    reported: list[recovery.RebuiltFile] = []
    found: list[dict[str, Any]] = []

    def subscriber(kind: str, fields: dict[str, Any]) -> None:
        if kind == "rebuilt":
            found.append(fields)

    events.subscribe(subscriber)
    try:
        paths = rebuild(durable, version, dict.fromkeys(lost, "missing"), report=reported.append)
    finally:
        events.unsubscribe(subscriber)
    assert sorted(paths) == sorted(map(durable.path, lost.values()))
    assert [one.path for one in reported] == paths == [one["path"] for one in found]
    assert [(one.number, one.total) for one in reported] == [(i + 1, len(lost)) for i in range(len(lost))]
    assert all(one.rows == lost[Path(one.path).name]["rows"] and one.seconds > 0 for one in reported)
    assert {one["set"] for one in found} == {"default.rows"}
    lose(data, 1)
    assert main(["repair"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("rebuilt ")]
    assert lines
    assert all(re.search(r": [\d,]+ rows, \d+\.\d\d s, \d+ of \d+$", line) for line in lines)


@pytest.mark.parametrize("limit", [1, 30_000])
def test_little_memory(limit: int, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are rebuilt in groups that fit into memory, one by one if none fits."""
    expected = saved(2)
    before = contents()
    monkeypatch.setattr(recovery, "options", type("Options", (), {"memory_limit": limit}))
    lose(data, 1, 2)
    durable = DurableSet("rows")
    rebuild(durable, durable.version(), missing_files(durable, durable.version()))
    assert contents() == before
    check(expected)


def test_an_error_leaves_the_other_files_rebuilt(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(1)
    lose(data, 0)
    durable = DurableSet("rows")
    version = durable.version()
    lost = missing_files(durable, version)
    plain, count = recovery.write_file, itertools.count()

    def write(path: str, *given: Any) -> Any:
        if next(count) == 1:
            raise CorruptSet("not the bytes that were lost")
        return plain(path, *given)

    monkeypatch.setattr(recovery, "write_file", write)
    with pytest.raises(CorruptSet, match="not the bytes"):
        rebuild(durable, version, lost)
    assert len(missing_files(durable, version)) == 1
