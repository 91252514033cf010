"""Killed writers of files: a partial file is never visible, and the next write removes their temporary files."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import threading
from pathlib import Path

import children
import pandas
import pytest
from served import Child
from test_disks import mounted

import craton.pandas as cp
from craton.pandas.io import staging
from craton.pandas.io.atomic_writes import staged_file

ROWS = 2_000


def hidden_in(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith("."))


def write_beside(folder: Path) -> None:
    staging._next_search.clear()  # so that the folder is searched again
    cp.DataFrame({"a": [1]}).to_parquet(folder / "beside.parquet")


@pytest.mark.parametrize("kills", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_the_next_write_removes_files_of_killed_writers(tmp_path: Path, kills: int) -> None:
    chance = random.Random(4)
    left = 0
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        writer = Child(children.writing_files, str(folder), ROWS)
        writer.run_to(chance, 9)
        writer.kill()
        left += bool(hidden_in(folder))
        write_beside(folder)
        assert hidden_in(folder) == []
        assert len(cp.read_parquet(folder / "first.parquet")) == ROWS
        for path in folder.iterdir():
            if path.name == "one.parquet":
                whole = pandas.read_parquet(path)
            elif path.name == "two.csv.gz":
                whole = pandas.read_csv(path)
            elif path.is_dir():
                whole = pandas.read_parquet(path)
            else:
                continue
            assert len(whole) == ROWS
            assert whole["v"].nunique() == 1
    assert left, "no writer was killed while it wrote, so the test checked nothing"


def test_files_of_running_writers_are_kept(tmp_path: Path) -> None:
    """Those of another process, and those of another thread."""
    writer = Child(children.writing_files, str(tmp_path), ROWS)
    writer.expect("started")
    while writer.process.is_alive() and not hidden_in(tmp_path):
        writer.expect("step")
    for _ in range(200):
        write_beside(tmp_path)
    writer.expect("step")
    assert writer.process.is_alive(), "a write of the other process failed"
    writer.kill()
    write_beside(tmp_path)
    assert hidden_in(tmp_path) == []
    started, written = threading.Event(), threading.Event()

    def write() -> None:
        with staged_file(tmp_path / "slow.parquet") as path:
            Path(path).write_text("x")
            started.set()
            written.wait()

    thread = threading.Thread(target=write)
    thread.start()
    started.wait()
    assert len(hidden_in(tmp_path)) == 1
    write_beside(tmp_path)
    assert len(hidden_in(tmp_path)) == 1
    written.set()
    thread.join()
    assert (tmp_path / "slow.parquet").read_text() == "x"
    assert hidden_in(tmp_path) == []


@pytest.mark.parametrize("moment", ["before its lock", "before its files", "after its files", "while it is removed"])
def test_each_step_at_which_a_writer_can_be_killed(tmp_path: Path, moment: str) -> None:
    path = tmp_path / f"{staging.PREFIX}{'0' * 32}-{staging._machine()}"
    path.mkdir()
    if moment != "before its lock":
        (path / staging.LOCK).touch()
    if moment == "after its files":
        (path / staging.FILES / "g=0").mkdir(parents=True)
        (path / staging.FILES / "g=0" / "x.parquet").write_text("x")
    write_beside(tmp_path)
    assert hidden_in(tmp_path) == []


def test_temporary_files_of_other_machines(tmp_path: Path) -> None:
    """Locks of other machines may be invisible, so their folders, and those of unknown machines, are removed after a day unused."""
    folders = [tmp_path / f"{staging.PREFIX}{digit * 32}{end}" for digit, end in (("1", "-" + "0" * 12), ("2", ""))]
    for folder in folders:
        (folder / staging.FILES).mkdir(parents=True)
        (folder / staging.FILES / "x").write_text("x")
        if folder is folders[0]:
            (folder / staging.LOCK).touch()
    write_beside(tmp_path)
    assert len(hidden_in(tmp_path)) == 2
    for folder in folders:
        for each in [*folder.rglob("*"), folder]:
            os.utime(each, (0, 0))
    (folders[0] / staging.FILES / "x").write_text("it writes still")
    write_beside(tmp_path)
    assert hidden_in(tmp_path) == [folders[0].name]
    os.utime(folders[0] / staging.FILES / "x", (0, 0))
    write_beside(tmp_path)
    assert hidden_in(tmp_path) == []


def test_similar_names_are_kept(tmp_path: Path) -> None:
    name = f"{staging.PREFIX}{'3' * 32}-{staging._machine()}"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / staging.FILES).mkdir(parents=True)
    (tmp_path / name).symlink_to(elsewhere)
    (tmp_path / f"{staging.PREFIX}of-mine").mkdir()
    (tmp_path / f"{staging.PREFIX}{'4' * 32}").write_text("a file")
    fifo = tmp_path / f"{staging.PREFIX}{'5' * 32}-{staging._machine()}"
    fifo.mkdir()
    os.mkfifo(fifo / staging.LOCK)
    write_beside(tmp_path)
    assert (elsewhere / staging.FILES).is_dir()
    assert hidden_in(tmp_path) == sorted([name, f"{staging.PREFIX}of-mine", f"{staging.PREFIX}{'4' * 32}"])


def test_a_disk_without_room_for_the_hidden_folder(tmp_path: Path) -> None:
    """The existing file is not overwritten in place."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "nr_inodes=6,mode=700"):
        cp.DataFrame({"a": [1, 2]}).to_parquet(disk / "kept.parquet")
        with contextlib.suppress(OSError):
            for number in range(100):
                (disk / str(number)).touch()
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            cp.DataFrame({"a": [1]}).to_parquet(disk / "kept.parquet")
        assert len(pandas.read_parquet(disk / "kept.parquet")) == 2
        assert hidden_in(disk) == []
