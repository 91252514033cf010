"""Durable sets that are spread over places: what is lost with some of them is rebuilt, whatever was done before."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

import craton
from craton.pandas.io.sets import writing
from craton.store import CorruptSet
from craton.store.cli import main
from craton.store.durable import DurableSet, restore
from craton.store.places import COLLIDING
from tests.unit.store.keyed_tables import keyed_table

COUNT = 5


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Iterator[Path]:
    places = [tmp_path / f"disk{i}" for i in range(COUNT)]
    with craton.option_context(data=tmp_path / "data", data_places=places, small_rows=0):
        yield tmp_path


def table(rows: int = 900, seed: int = 0) -> pandas.DataFrame:
    return keyed_table(rows, seed, 200, 300)


LAYOUTS: dict[str, dict[str, Any]] = {
    "two": {"partition_by": "k", "replicate_by": ["p"], "partitions": 7},
    "and the order": {"partition_by": "k", "replicate_by": ["p", []], "partitions": 5},
    "order and one": {"replicate_by": ["p"], "partitions": 5},
    "the same twice": {"partition_by": "k", "replicate_by": ["k"], "partitions": 5},
    "ranges": {"partition_by": "k", "replicate_by": [["p", "s"]], "kind": "range", "partitions": 6},
    "parquet": {"partition_by": "k", "replicate_by": ["p"], "partitions": 5, "format": "parquet"},
    "one": {"partition_by": "k", "partitions": 8},
}


def program(frame: Any) -> list[Any]:
    """Several questions, with a look in the middle."""
    grouped = frame.groupby("k")["x"].sum()
    return [
        frame["x"].cumsum().iloc[-1],
        grouped.head(20).to_dict(),
        frame[frame["p"] < 50]["s"].value_counts(dropna=False).to_dict(),
        frame.sort_values(["p", "x", "k"], ignore_index=True)["k"].shift().iloc[5:60].sum(),
        len(frame.merge(frame.drop_duplicates("p")[["p", "x"]], on="p")),
    ]


def check(name: str, expected: pandas.DataFrame) -> None:
    read = craton.read_set(name)
    pandas.testing.assert_frame_equal(pandas.DataFrame(read), expected)
    assert repr(program(craton.read_set(name))) == repr(program(expected))


def lose(data: Path, *numbers: int) -> None:
    for number in numbers:
        shutil.rmtree(data / f"disk{number}", ignore_errors=True)


def saved(layout: str, losses: int) -> pandas.DataFrame:
    """A set of two appended parts."""
    first, second = table(), table(130, 5)
    craton.save("rows", first, losses=losses, **LAYOUTS[layout])
    craton.save("rows", second, mode="append")
    return pandas.concat([first, second], ignore_index=True)


def checksums() -> dict[str, bytes]:
    durable = DurableSet("rows")
    return {file["name"]: Path(durable.path(file)).read_bytes() for file in durable.version().files}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("losses", [1, 2])
def test_any_places_are_lost(layout: str, losses: int, data: Path) -> None:
    expected = saved(layout, losses)
    contents = checksums()
    for lost in itertools.combinations(range(COUNT), losses):
        lose(data, *lost)
        check("rows", expected)  # what is read is rebuilt
        assert main(["repair"]) == 0
        assert DurableSet("rows").verify(2) == {}
        assert checksums() == contents
        lose(data, (lost[0] + 2) % COUNT)
        assert main(["repair", "rows"]) == 0
        assert checksums() == contents
    assert main(["verify"]) == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sets_without_rows(layout: str, data: Path) -> None:
    frame = table().iloc[:0]
    if layout != "parquet":
        frame = frame.assign(c=pandas.Categorical([], categories=["lo", "hi"], ordered=True))
    for losses in (0, 1, 3):
        name = f"none{losses}"
        craton.save(name, frame, losses=losses, **LAYOUTS[layout])
        for lost in itertools.combinations(range(COUNT), losses):
            lose(data, *lost)
            pandas.testing.assert_frame_equal(pandas.DataFrame(craton.read_set(name)), frame.reset_index(drop=True))
            assert main(["repair", name]) == 0
        assert DurableSet(name).verify(1) == {}
    craton.save("none3", frame, mode="append")
    lose(data, 1, 4)
    assert len(craton.read_set("none3")) == 0
    assert main(["repair", "none3"]) == 0
    craton.save("none3", table(), mode="overwrite", losses=2, **LAYOUTS[layout])
    lose(data, 0, 2, 3)
    assert main(["repair"]) == 1  # of some set too many are lost, of others not
    assert DurableSet("none3").verify(1) == DurableSet("none3").verify(2) == {}


def test_where_files_are(data: Path) -> None:
    saved("two", 1)
    durable = DurableSet("rows")
    version = durable.version()
    by_row: dict[int, set[str]] = {}
    rows_of_colliding = 0
    for file in version.files:
        path = Path(durable.path(file))
        assert path.is_symlink()
        place = path.resolve().relative_to(data).parts[0]
        found = pandas.read_feather(path.resolve())
        for position in found["__position__"]:
            by_row.setdefault(position, set()).add(place)
        if file["about"]["of"] == COLLIDING:
            rows_of_colliding += len(found)
    assert len(by_row) == version.rows
    assert min(map(len, by_row.values())) == 2
    assert 0 < rows_of_colliding < 0.35 * version.rows  # one of five, and seven partitions are not even
    for number in range(COUNT):
        assert len(list((data / f"disk{number}").glob("default/rows-*/versions/*"))) == 2


def test_more_are_lost_than_was_asked_for(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("two", 1)
    lose(data, 0, 1)
    with pytest.raises(CorruptSet, match="no replica is complete, and none can be rebuilt"):
        len(craton.read_set("rows"))
    assert main(["repair"]) == 1
    assert "no other file that is whole" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to(data: Path) -> None:
    """Its files are rebuilt in the set's own folder, or in another place."""
    expected = saved("and the order", 1)
    contents = checksums()
    lose(data, 3)
    (data / "disk3").write_text("a broken disk")
    check("rows", expected)
    assert main(["repair"]) == 0
    assert checksums() == contents
    assert any(not Path(DurableSet("rows").path(file)).is_symlink() for file in DurableSet("rows").version().files)
    lose(data, 4)
    assert main(["repair", "--move", str(data / "disk4"), str(data / "other")]) == 0
    assert checksums() == contents
    assert list((data / "other").glob("default/rows-*/*.arrow"))
    assert not (data / "disk4").exists()
    with pytest.raises(OSError, match=r"craton store repair NAME --move OLD NEW.*disk3"):
        craton.save("rows", table(40, 8), mode="append")
    check("rows", expected)
    assert main(["repair", "--move", str(data / "disk3"), str(data / "disk4")]) == 0
    assert main(["repair", "--move", str(data / "disk4"), str(data / "more")]) == 0
    assert main(["repair", "--move", str(data / "nowhere"), str(data / "more")]) == 0
    craton.save("rows", table(40, 8), mode="append")
    assert not (data / "disk4").exists()
    assert list((data / "more").glob("default/rows-*/*.arrow"))
    check("rows", pandas.concat([expected, table(40, 8)], ignore_index=True))


def test_the_folder_of_the_set_is_lost(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = saved("two", 1)
    contents = checksums()
    craton.save("shop.few", table(10), losses=2, **LAYOUTS["ranges"])
    shutil.rmtree(data / "data")
    lose(data, 2)
    with pytest.raises(FileNotFoundError):
        craton.read_set("rows")
    assert main(["restore"]) == 0
    assert "restored default.rows\nrestored shop.few" in capsys.readouterr().out
    check("rows", expected)
    check("shop.few", table(10))
    assert main(["repair"]) == 0
    assert checksums() == contents
    assert DurableSet("rows").versions() == [1, 2]
    assert restore([str(data / "disk0")]) == []
    shutil.rmtree(data / "data")
    with monkeypatch.context() as patched:
        patched.setattr("craton.store.durable._moved_folders", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):  # as if it were killed
            restore([str(data / f"disk{i}") for i in range(COUNT)])
    before = files_below(data)
    assert main(["repair"]) == 0
    assert files_below(data) == before
    (data / "disk1").rename(data / "elsewhere")
    roots = [str(data / name) for name in ("disk0", "elsewhere", "disk2", "disk3", "disk4")]
    assert sorted(restore(roots)) == ["default.rows", "shop.few"]
    assert DurableSet("rows").verify(2) == {}
    assert not (data / "disk1").exists()
    assert not list((data / "data").glob("*/.*"))
    craton.save("rows", table(40, 8), mode="append")
    check("rows", pandas.concat([expected, table(40, 8)], ignore_index=True))


def files_below(data: Path) -> set[str]:
    return {str(path) for number in range(COUNT) for path in (data / f"disk{number}").rglob("*.arrow")}


def test_nothing_is_left(data: Path) -> None:
    saved("two", 2)
    kept = craton.read_set("rows")
    craton.save("rows", table(50, 3), mode="overwrite", losses=1, **LAYOUTS["and the order"])
    before = files_below(data)
    assert main(["vacuum"]) == 0
    after = files_below(data)
    named = {str(Path(DurableSet("rows").path(file)).resolve()) for file in DurableSet("rows").version().files}
    assert after == named < before
    check("rows", table(50, 3))
    assert {path.name for path in data.glob("disk*/default/rows-*/versions/*")} == {f"{3:020}"}
    craton.save("rows", table(30, 4), mode="append")
    assert main(["vacuum"]) == 0
    assert {path.name for path in data.glob("disk*/default/rows-*/versions/*")} == {f"{4:020}"}
    del kept
    craton.drop_set("rows")
    assert not files_below(data)
    assert not list(data.glob("disk*/default/*"))
    assert main(["repair"]) == 0


def test_a_writer_that_fails(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = saved("two", 1)
    before = files_below(data)
    monkeypatch.setattr(writing, "write_colliding", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        craton.save("rows", table(70, 4), mode="append")
    assert files_below(data) == before
    check("rows", expected)


_KILLED = """
import os, sys
import craton, pandas
from craton.store.places import Places
data, *places = sys.argv[1:]
craton.options.data, craton.options.data_places = data, places
Places.sync = lambda self: os.kill(os.getpid(), 9)
craton.save("rows", pandas.DataFrame({"k": range(500), "p": range(500)}), partition_by="k", replicate_by=["p"],
            partitions=5, losses=1, mode=MODE)
"""


@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_a_writer_that_is_killed(mode: str, data: Path) -> None:
    expected = saved("two", 1) if mode == "overwrite" else None
    before = files_below(data)
    arguments = [str(data / "data"), *(str(data / f"disk{i}") for i in range(COUNT))]
    done = subprocess.run([sys.executable, "-c", _KILLED.replace("MODE", repr(mode)), *arguments], check=False)
    assert done.returncode == -9
    assert files_below(data) > before
    if expected is not None:
        check("rows", expected)
        assert main(["repair"]) == 0
    else:
        DurableSet("rows").repair()
    assert files_below(data) == before


def test_readers_while_places_are_lost(data: Path) -> None:
    """Programs of several threads, and one of another process, rebuild the same files at the same time."""
    expected = saved("two", 1)
    right = repr(program(expected))
    for lost in (1, 3):
        lose(data, lost)
        found: list[str] = []
        threads = [
            threading.Thread(target=lambda found=found: found.append(repr(program(craton.read_set("rows")))))
            for _ in range(3)
        ]
        code = "import craton, json, sys; print(len(craton.read_set('rows')), craton.read_set('rows')['k'].sum())"
        names = ["CRATON_DATA", "CRATON_DATA_PLACES"]
        values = [str(data / "data"), os.pathsep.join(str(data / f"disk{i}") for i in range(COUNT))]
        other = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **dict(zip(names, values, strict=True))},
            stdout=subprocess.PIPE,
            text=True,
        )
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [right] * 3
        assert other.communicate(timeout=60)[0].split() == [str(len(expected)), str(expected["k"].sum())]
        assert main(["repair"]) == 0
    assert not [path for number in range(COUNT) for path in (data / f"disk{number}").rglob("*.new")]
    names_of_files = {file["name"] for file in DurableSet("rows").version().files}
    assert {Path(path).name for path in files_below(data)} == names_of_files


@pytest.mark.parametrize(
    ("given", "places", "message"),
    [
        ({"losses": 1}, COUNT, "needs partition_by or replicate_by"),
        ({"losses": 5, "partition_by": "k"}, COUNT, "needs 6 or more, and the option data_places has 5"),
        ({"losses": 1, "partition_by": "k"}, 0, "data_places has 0"),
        ({"losses": -1, "partition_by": "k"}, COUNT, "0 or more, not -1"),
        ({"losses": True, "partition_by": "k"}, COUNT, "0 or more, not True"),
        ({"losses": 1.5, "partition_by": "k"}, COUNT, "0 or more, not 1.5"),
    ],
)
def test_bad_input_changes_nothing(given: Any, places: int, message: str, data: Path) -> None:
    with (
        craton.option_context(data_places=[data / f"disk{i}" for i in range(places)]),
        pytest.raises(ValueError, match=message),
    ):
        craton.save("rows", table(), **given)
    assert not (data / "data").exists()
    assert not files_below(data)


def test_a_place_twice(data: Path) -> None:
    with (
        craton.option_context(data_places=[data / "one", data / "two" / ".." / "one"]),
        pytest.raises(ValueError, match="names a folder twice"),
    ):
        craton.save("rows", table(), partition_by="k", losses=1)
    with pytest.raises(ValueError, match="sequence of paths"):
        craton.options.data_places = 5  # type: ignore[assignment]
    with pytest.raises(ValueError, match="sequence of paths"):
        craton.options.data_places = ["s3://bucket"]  # type: ignore[assignment]


def test_a_manifest_with_places_is_plain_json(data: Path) -> None:
    saved("two", 2)
    about = DurableSet("rows").version().about
    assert json.loads(json.dumps(about))["places"]["losses"] == 2
