"""Durable sets: programs that save, append, read and go back, in several processes, some of which are killed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas
import polars as pl
import pyarrow as pa
import pytest

import craton
import craton.pandas as pd
from craton.errors import SourceChanged
from craton.pandas.core.joined import mapped as mapped_columns
from craton.store import CorruptSet, SetConflict
from craton.store.durable import DurableSet, NextPath
from craton.store.durable_files import WrittenFile, describe_file


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Iterator[Path]:
    with craton.option_context(data=tmp_path / "data", small_rows=0):
        yield tmp_path / "data"


def table(rows: int = 1000) -> pandas.DataFrame:
    rng = np.random.default_rng(rows)
    gaps = rng.random(rows) < 0.2
    return pandas.DataFrame(
        {
            "i": rng.integers(0, 100, rows),
            "f": np.where(gaps, np.nan, rng.random(rows)),
            "s": pandas.Series(rng.choice(["a", "bb", "ccc"], rows), dtype="str").mask(gaps),
            "c": pandas.Categorical(rng.choice(["x", "y"], rows), categories=["y", "x", "unused"], ordered=True),
            "t": pandas.Series(pandas.to_datetime(rng.integers(0, 500, rows), unit="D")).mask(gaps),
            "z": pandas.to_datetime(rng.integers(0, 500, rows), unit="D").tz_localize("UTC"),
            "b": rng.random(rows) < 0.5,
            "I": pandas.array(np.where(gaps, None, rng.integers(0, 9, rows)), dtype="Int64"),
        }
    )


def as_pandas(frame: Any) -> pandas.DataFrame:
    return pandas.DataFrame(frame)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("rows", [0, 1, 1000, 200_000])
def test_what_is_read_is_what_was_saved(rows: int) -> None:
    frame = table(rows)
    assert craton.save("one", frame) == 1
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("one")), frame)
    assert craton.save("shop.two", pd.DataFrame(frame)[lambda f: f["i"] > 50]) == 1
    expected = frame[frame["i"] > 50]
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("shop.two")), expected)
    assert craton.read_set("shop.two", columns=["i"])["i"].sum() == expected["i"].sum()


@pytest.mark.parametrize(
    "labels",
    [
        lambda f: f.set_index("i"),
        lambda f: f.set_index(["s", "i"]),
        lambda f: f.rename_axis("row"),
        lambda f: f.iloc[::-1],
        lambda f: f.iloc[5:20],
        lambda f: f.set_index("t"),
    ],
)
def test_row_labels(labels: Any) -> None:
    frame = labels(table(50))
    craton.save("labelled", frame)
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("labelled")), frame)


def check_a_program_of_versions() -> None:
    """Save, append, overwrite and read a set by its versions, wherever sets are."""
    first, second = table(300), table(200)
    craton.save("set", first)
    before = craton.read_set("set")
    assert craton.save("set", second, mode="append") == 2
    both = craton.read_set("set")
    expected = pandas.concat([first, second], ignore_index=True)
    assert len(both) == 500
    assert both["i"].sum() == expected["i"].sum()
    pandas.testing.assert_frame_equal(as_pandas(both), expected)
    pandas.testing.assert_series_equal(pandas.Series(both.groupby("s")["i"].sum()), expected.groupby("s")["i"].sum())
    # A version that is made of what it replaces.
    assert craton.save("set", both[both["b"]], mode="overwrite") == 3
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("set")), expected[expected["b"]])
    for version, frame in ((1, first), (2, expected), (3, expected[expected["b"]])):
        pandas.testing.assert_frame_equal(as_pandas(craton.read_set("set", version=version)), frame)
    pandas.testing.assert_frame_equal(as_pandas(before), first)
    with pytest.raises(FileNotFoundError, match="no version 4"):
        craton.read_set("set", version=4)


def test_a_program_of_versions() -> None:
    check_a_program_of_versions()


def test_frames_stay_readable_when_their_version_is_dropped() -> None:
    frame = table(50_000)
    craton.save("set", frame)
    held = craton.read_set("set")
    chosen = held[held["i"] > 50]
    craton.save("set", table(10), mode="overwrite")
    durable = DurableSet("set")
    assert durable.expire([1, 2]) == [1]
    assert len(durable.repair()) == 1
    assert chosen["i"].sum() == frame.loc[frame["i"] > 50, "i"].sum()
    pandas.testing.assert_frame_equal(as_pandas(held), frame)
    with pytest.raises(FileNotFoundError):
        craton.read_set("set", version=1)


def test_tables_of_other_libraries() -> None:
    arrow = pa.table({"a": [1, 2, None], "b": ["x", "y", None]})
    craton.save("arrow", arrow)
    craton.save("polars", pl.from_arrow(arrow))
    for name in ("arrow", "polars"):
        assert craton.read_set(name)["a"].sum() == 3
    (path,) = [DurableSet("arrow").path(file) for file in DurableSet("arrow").version().files]
    assert pa.ipc.open_file(path).read_all().equals(arrow)
    assert pl.read_ipc(path).height == 3
    with pytest.raises(TypeError):
        craton.save("other", [1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        craton.save("other", pandas.Series([1]))


def test_the_catalogue() -> None:
    assert craton.catalog().empty
    craton.save("lines", table(10))
    craton.save("lines", table(20), mode="append")
    craton.save("shop.orders", table(5))
    found = as_pandas(craton.catalog())
    assert found[["database", "name", "version", "versions", "rows", "files"]].to_numpy().tolist() == [
        ["default", "lines", 2, 2, 30, 2],
        ["shop", "orders", 1, 1, 5, 1],
    ]


@pytest.mark.parametrize(
    "name", ["", "..", ".", "a/b", "../a", "/a", "a.b.c", "a b", "-a", "a\n", "a\0", "ä", "x" * 300, None, 5]
)
def test_names_are_checked_before_anything_is_written(name: Any, data: Path) -> None:
    with pytest.raises(ValueError, match="a set is named by"):
        craton.save(name, table(3))
    with pytest.raises(ValueError, match="a set is named by"):
        craton.read_set(name)
    assert not data.exists()


def test_bad_input_changes_nothing(data: Path) -> None:
    craton.save("set", table(5))
    before = files(data)
    with pytest.raises(FileExistsError, match=r"set default\.set already"):
        craton.save("set", table(5))
    with pytest.raises(ValueError, match="mode is one of"):
        craton.save("set", table(5), mode="replace")  # type: ignore[arg-type]
    for other, why in (
        (table(5)[["i"]], "columns differ"),
        (table(5).astype({"i": "float64"}), "columns differ.*'i' of float64"),
        (table(5).assign(c=pandas.Categorical(["p"] * 5)), "columns differ.*'c'"),
        (table(5).set_index("i", drop=False), "labels differ"),
    ):
        with pytest.raises(ValueError, match=why):
            craton.save("set", other, mode="append")
    with pytest.raises(ValueError, match="labels"):
        craton.save("new", pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="labels"):
        craton.save("new", pandas.DataFrame([[1, 2]]))
    with pytest.raises(Exception, match=r"."):
        craton.save("set", pandas.DataFrame({"o": [object()]}), mode="overwrite")
    with pytest.raises(FileNotFoundError, match=r"no set default\.none"):
        craton.read_set("none")
    assert files(data) == before


def test_a_plan_that_fails_changes_nothing(data: Path, tmp_path: Path) -> None:
    craton.save("set", table(5))
    before = files(data)
    table(5).to_parquet(tmp_path / "a.parquet")
    lost = pd.read_parquet(tmp_path / "a.parquet")
    bad = lost[lost["i"] > 0]
    table(6).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(SourceChanged):
        craton.save("set", bad, mode="overwrite")
    assert files(data) == before


def test_where_the_data_are(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with craton.option_context(data=tmp_path / "file"), pytest.raises(OSError, match="file"):
        craton.save("set", table(3))
    for wrong in ("", "s3://", "memory:///", 5):
        with pytest.raises(ValueError, match="path of a folder"), craton.option_context(data=wrong):
            pass
    code = "import craton; print(craton.options.data)"
    for environment, expected in (
        ({"CRATON_DATA": "/some/where"}, "/some/where"),
        ({"XDG_DATA_HOME": "/other"}, "/other/craton"),
        ({"HOME": str(tmp_path)}, f"{tmp_path}/.local/share/craton"),
    ):
        rest = {key: value for key, value in os.environ.items() if key not in ("CRATON_DATA", "XDG_DATA_HOME")}
        run = subprocess.run(
            [sys.executable, "-c", code], env={**rest, **environment}, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == expected


def test_damaged_and_foreign_files_are_named(data: Path) -> None:
    craton.save("set", table(100))
    craton.save("set", table(50), mode="append")
    durable = DurableSet("set")
    assert durable.verify(2) == {}
    path = Path(durable.path(durable.version(2).files[0]))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert list(durable.verify(1).values()) == ["its checksum differs"]
    manifest = data / "default/set/versions" / f"{2:020}"
    good = manifest.read_bytes()
    for bad, error in (
        (good[:-1], CorruptSet),
        (b"something else", CorruptSet),
        (good.replace(b"craton-set 1", b"craton-set 9"), ValueError),
    ):
        manifest.write_bytes(bad)
        with pytest.raises(error, match=f"{2:020}"):
            craton.read_set("set")
        with pytest.raises(error):
            craton.save("set", table(3), mode="append")
        with pytest.raises(error):
            durable.repair()
    assert len(craton.read_set("set", version=1)) == 100


def write_three(next_path: NextPath) -> Iterator[WrittenFile]:
    path = next_path(None)
    table(3).to_feather(path)
    yield describe_file(path)


def test_one_of_two_writers_wins() -> None:
    craton.save("set", table(10))
    durable = DurableSet("set")
    base = durable.version()
    craton.save("set", table(5), mode="append")
    with pytest.raises(SetConflict, match="version 2"):
        durable.publish(write_three, base.about, base, base.files)
    assert durable.versions() == [1, 2]
    assert durable.repair() == []


def append_often(folder: str, count: int) -> None:
    """Append rows several times; start again when another process was faster."""
    with craton.option_context(data=folder):
        for number in range(count):
            while True:
                try:
                    craton.save("set", pandas.DataFrame({"process": [os.getpid()], "number": [number]}), mode="append")
                    break
                except SetConflict:
                    continue


def test_processes_append_at_once(data: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_often, args=(str(data), 10)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    found = as_pandas(craton.read_set("set"))
    assert len(found) == 30
    assert found.groupby("process")["number"].apply(list).tolist() == [list(range(10))] * 3
    durable = DurableSet("set")
    assert durable.versions() == list(range(1, 31))
    assert durable.repair() == []
    assert durable.expire(durable.versions()) == list(range(1, 30))
    assert durable.repair() == []


_KILLED = """
import os, signal, sys, pandas, craton
from craton.pandas.io.sets import writing
from craton.store import durable, durable_files
craton.options.data = sys.argv[1]
stage = sys.argv[2]
frame = pandas.DataFrame({"a": range(1000)})

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if stage == "before":
    durable_files._native = type("Native", (), {"checksum": kill})
elif stage == "half":
    writing.write_file = lambda path, *_: (open(path, "wb").write(b"half"), kill())
elif stage == "after":
    durable.Version.of = kill
craton.save("set", frame, mode="overwrite")
"""


@pytest.mark.parametrize("stage", ["half", "before", "after"])
@pytest.mark.parametrize("versions", [0, 1])
def test_killed_writers(stage: str, versions: int, data: Path) -> None:
    frame = table(10)
    if versions:
        craton.save("set", frame)
        del frame
    run = subprocess.run([sys.executable, "-c", _KILLED, str(data), stage], capture_output=True, text=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    durable = DurableSet("set")
    # With a version there, the killed process was stopped when it looked at that one, before it wrote anything.
    published = stage == "after" and not versions
    assert durable.versions() == [1] * (versions or published)
    if stage == "half" or stage == "before":
        assert len(durable.repair()) == 2  # its data, and its lock
    assert durable.repair() == []
    if not durable.versions():
        with pytest.raises(FileNotFoundError):
            craton.read_set("set")
    craton.save("set", table(7), mode="overwrite")
    assert len(craton.read_set("set")) == 7


def test_frames_of_sets_are_pickled_and_forked() -> None:
    craton.save("set", table(100))
    frame = craton.read_set("set")
    assert pickle.loads(pickle.dumps(frame))["i"].sum() == table(100)["i"].sum()
    child = os.fork()
    if not child:
        os._exit(0 if frame["i"].sum() == table(100)["i"].sum() else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "columns", [["i"], ["f", "s"], ["t", "i", "d", "m"], ["f32", "u8"], ["z"], ["c", "i"], ["b"], ["I"], ["i", "g"]]
)
def test_whole_columns_are_mapped(columns: list[str]) -> None:
    frame = table(70_000).assign(
        d=lambda f: f["t"] - f["t"].min(),
        m=lambda f: f["t"].astype("datetime64[ms]"),
        f32=lambda f: f["f"].astype("float32"),
        u8=lambda f: f["i"].astype("uint8"),
        g=lambda f: f["i"].where(f["i"] > 5),
    )
    for part in (frame.iloc[:50_000], frame.iloc[50_000:].reset_index(drop=True)):
        craton.save("set", part, mode="append")
    mapped = columns[0] in ("i", "f", "f32", "t")
    with mock.patch("craton.pandas.core.joined.mapped._open", wraps=mapped_columns._open) as opened:
        found = craton.read_set("set")[columns]
        pandas.testing.assert_frame_equal(as_pandas(found), frame[columns])
        assert bool(opened.call_count) == mapped
        one = craton.read_set("set")[columns[0]]
        pandas.testing.assert_series_equal(pandas.Series(one), frame[columns[0]])
    found.iloc[0, 0] = found.iloc[1, 0]  # the arrays can be written to
    assert found.iloc[0, 0] == found.iloc[1, 0] or columns[0] == "f"
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("set")[columns]), frame[columns])
