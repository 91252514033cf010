"""Durable sets in object stores, in memory and on a local server of the S3 protocol: what is read is what was saved."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import pandas
import polars as pl
import pyarrow as pa
import pytest

import craton
import craton.pandas as pd
from craton.engine.tiled import TiledEngine, using
from craton.errors import SourceChanged
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner
from craton.store import durable_files
from craton.store.downloads import trim
from craton.store.durable import DurableSet
from craton.store.object_store import ObjectStore
from tests.unit.store import test_durable_sets, test_partitioned_sets
from tests.unit.store.keyed_tables import keyed_table
from tests.unit.store.object_places import objects

table, as_pandas = test_durable_sets.table, test_durable_sets.as_pandas
PROGRAMS, LAYOUTS = test_partitioned_sets.PROGRAMS, test_partitioned_sets.LAYOUTS
whole, tiles, equal = test_partitioned_sets.whole, test_partitioned_sets.tiles, test_partitioned_sets.equal


# ---- round trips ----


@pytest.mark.parametrize("form", ["arrow", "parquet"])
@pytest.mark.parametrize("rows", [0, 1, 1000, 200_000])
def test_what_is_read_is_what_was_saved(place: str, rows: int, form: Any) -> None:
    frame = table(rows) if form == "arrow" else table(rows).drop(columns="c")
    assert craton.save("one", frame, format=form) == 1
    found = craton.read_set("one")
    assert found.dtypes.equals(frame.dtypes)
    pandas.testing.assert_frame_equal(as_pandas(found), frame)
    assert craton.save("shop.two", pd.DataFrame(frame)[lambda f: f["i"] > 50], format=form) == 1
    expected = frame[frame["i"] > 50]
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("shop.two")), expected)
    assert craton.read_set("shop.two", columns=["i"])["i"].sum() == expected["i"].sum()


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_columns_are_planned_as_those_of_local_files(memory: str, tmp_path: Path, form: Any) -> None:
    """The types of columns are those of the manifest's schema, and no file is downloaded for them."""
    rows = pa.table(
        {
            "large": pa.array(["x", None], pa.large_string()),
            "view": pa.array(["x", None], pa.string_view()),
            "binary": pa.array([b"x", None]),
            "list": pa.array([[1], None]),
            "struct": pa.array([{"a": 1}, None]),
            "decimal": pa.array([1, None], pa.decimal128(10, 2)),
            "date": pa.array([1, None], pa.date32()),
            "ms": pa.array([1, None], pa.timestamp("ms", "UTC")),
            "ns": pa.array([1, None], pa.timestamp("ns")),
            "duration": pa.array([1, None], pa.duration("us")),
            "u8": pa.array([1, None], pa.uint8()),
            "f32": pa.array([1, None], pa.float32()),
            "bool": pa.array([True, None]),
        }
    )
    for name in rows.column_names:
        one = rows.select([name])
        with craton.option_context(data=tmp_path / "data"):
            craton.save(name, one, format=form)
            local = craton.read_set(name)
        craton.save(name, one, format=form)
        remote = craton.read_set(name)
        assert remote.dtypes.equals(local.dtypes), name
        pandas.testing.assert_frame_equal(as_pandas(remote), as_pandas(local))


@pytest.mark.parametrize(
    "labels", [lambda f: f.set_index(["s", "i"]), lambda f: f.rename_axis("row"), lambda f: f.iloc[5:20]]
)
def test_row_labels(memory: str, labels: Any) -> None:
    frame = labels(table(50))
    craton.save("labelled", frame)
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("labelled")), frame)


def test_a_program_of_versions(place: str) -> None:
    test_durable_sets.check_a_program_of_versions()
    assert [name.partition("/")[0] for name in objects(f"{place}/default/set")] == ["data"] * 3 + ["versions"] * 3


def test_other_columns_can_be_appended(place: str) -> None:
    first, second = pandas.DataFrame({"a": [1, 2]}), pandas.DataFrame({"a": [1.5], "b": ["x"]})
    craton.save("set", first)
    with pytest.raises(ValueError, match="columns differ"):
        craton.save("set", second, mode="append")
    craton.save("set", second, mode="append", evolve=True)
    expected = pandas.concat([first, second], ignore_index=True)
    pandas.testing.assert_frame_equal(as_pandas(craton.read_set("set")), expected)


def test_parts_and_tables_of_other_libraries(place: str) -> None:
    with craton.open_set("parts") as add:
        for start in (0, 3):
            add(pandas.DataFrame({"n": range(start, start + 3)}))
    assert craton.read_set("parts")["n"].to_list() == list(range(6))
    craton.save("polars", pl.DataFrame({"a": [1, 2, None]}))
    assert craton.read_set("polars")["a"].sum() == 3
    durable = DurableSet("polars")
    path = durable.path(durable.version().files[0])
    assert path.startswith(f"{place}/default/polars/data/")
    with fsspec.open(path, "rb", **craton.options.data_options) as file:
        assert pa.ipc.open_file(file.read()).read_all()["a"].to_pylist() == [1, 2, None]


# ---- partitioned sets ----


@pytest.fixture
def small_pages() -> Iterator[None]:
    with mock.patch.object(durable_files, "PAGE_ROWS", 64):
        yield


def check_programs(layout: str) -> None:
    left = test_partitioned_sets.table()
    right = test_partitioned_sets.table(300, 1)[["k", "u"]].rename(columns={"u": "v"})
    craton.save("left", left.iloc[:600], **LAYOUTS[layout])
    craton.save("left", left.iloc[600:].reset_index(drop=True), mode="append")
    craton.save("right", right, partition_by="k", partitions=4)
    for mode in (whole, tiles):
        with mode():
            for name, program in PROGRAMS.items():
                try:
                    equal(program(craton.read_set("left"), craton.read_set("right")), program(left, right))
                except AssertionError as error:
                    raise AssertionError(name) from error


@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs(memory: str, small_pages: None, layout: str) -> None:
    check_programs(layout)


@pytest.mark.parametrize("layout", ["hash, Parquet", "replicas", "replicas by ranges"])
def test_programs_on_a_server(s3: str, small_pages: None, layout: str) -> None:
    check_programs(layout)


def test_joins_of_partitioned_sets_move_no_rows(s3: str, small_pages: None) -> None:
    lines, orders, parts = keyed_table(600, 0, 50, 70), keyed_table(200, 1, 50, 70), keyed_table(100, 2, 50, 70)
    craton.save("lines", lines, partition_by="k", replicate_by=["p"], partitions=3)
    craton.save("orders", orders[["k", "x"]], partition_by="k", partitions=3)
    craton.save("parts", parts[["p", "x"]], partition_by="p", partitions=3)

    def program(read: Any) -> Any:
        joined = read("lines").merge(read("orders"), on="k", suffixes=("", "_order"))
        found = joined.merge(read("parts"), on="p", suffixes=("", "_part"))
        found = found[found["x"] > -5]
        return found.groupby(["p", "s"], dropna=False)[["x", "x_part", "x_order"]].sum()

    expected = program(lambda name: {"lines": lines, "orders": orders[["k", "x"]], "parts": parts[["p", "x"]]}[name])
    equal(program(craton.read_set), expected)
    engine = TiledEngine(InlineRunner(), settings=Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0), least_bytes=0)
    with using(engine):
        equal(program(craton.read_set), expected)
        by_key = craton.read_set("lines").merge(craton.read_set("orders"), on="k").groupby("k")["x_x"].sum()
        equal(by_key, lines.merge(orders[["k", "x"]], on="k").groupby("k")["x_x"].sum())
    stages = [stage.exchange for stage in engine.last[-1].stages]
    assert stages
    assert not any("hash" in exchange for exchange in stages)


def test_only_files_that_are_needed_are_downloaded(s3: str, cache: Path, small_pages: None) -> None:
    rows = test_partitioned_sets.table()
    for number, (name, chosen) in enumerate((("u", rows["u"] < 90), ("k", rows["k"] == 7)), start=1):
        craton.save(name, rows, partition_by="u", replicate_by=["k"], kind="range", partitions=10)
        frame = craton.read_set(name)
        assert frame.columns.tolist() == rows.columns.tolist()
        assert len(list(cache.glob("*"))) == number - 1
        equal(frame[frame["u"] < 90] if name == "u" else frame[frame["k"] == 7], rows[chosen])
        assert len(list(cache.glob("*"))) == number
    equal(craton.read_set("u"), rows)
    assert len(list(cache.glob("*"))) <= 12  # those of one replica


def test_copies_are_used_again_and_removed(place: str, cache: Path) -> None:
    for name in ("a", "b", "c"):
        craton.save(name, table(1000))
    with mock.patch.object(ObjectStore, "download", autospec=True, side_effect=ObjectStore.download) as download:
        for _ in range(2):
            for name in ("a", "b", "c"):
                assert craton.read_set(name)["i"].sum() == table(1000)["i"].sum()
        assert download.call_count == 3
        next(cache.glob("*")).write_bytes(b"short")
        for name in ("a", "b", "c"):
            assert craton.read_set(name)["i"].max() == table(1000)["i"].max()
        assert download.call_count == 4
    first, *others = cache.glob("*")
    trim(str(cache), 0)
    assert len(list(cache.glob("*"))) == 3  # they were used in the last hour
    os.utime(first, (0, 0))
    (cache / ".partial-of-a-killed-process").touch()
    os.utime(cache / ".partial-of-a-killed-process", (0, 0))
    trim(str(cache), 1)
    assert sorted(cache.glob("*")) == sorted(others)
    for path in others:
        os.utime(path, (0, 0))
    trim(str(cache), others[0].stat().st_size)
    assert len(list(cache.glob("*"))) == 1


def test_frames_of_dropped_versions(place: str, cache: Path) -> None:
    frame = table(5000)
    craton.save("set", frame)
    read, lost = craton.read_set("set"), craton.read_set("set")
    assert read["i"].sum() == frame["i"].sum()
    craton.save("set", table(10), mode="overwrite")
    durable = DurableSet("set")
    assert durable.expire([1, 2]) == [1]
    assert durable.repair() == []  # the files are young
    pandas.testing.assert_frame_equal(as_pandas(read), frame)
    assert len(durable.repair(age=0)) == 2  # the file, and the mark of the version
    assert read["i"].max() == frame["i"].max()  # from the copy
    for path in cache.glob("*"):
        path.unlink()
    craton.clear_memory()  # remembered results
    with pytest.raises(SourceChanged, match="may have been dropped"):
        lost["i"].min()
    with pytest.raises(FileNotFoundError):
        craton.read_set("set", version=1)
    assert len(craton.read_set("set")) == 10


def test_frames_are_pickled_and_forked(place: str) -> None:
    craton.save("set", table(100))
    expected = table(100)["i"].sum()
    assert pickle.loads(pickle.dumps(craton.read_set("set")))["i"].sum() == expected
    frame = craton.read_set("set")
    child = os.fork()
    if not child:
        os._exit(0 if frame["i"].sum() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.cluster
def test_workers_read_sets_of_a_server(
    s3: str, small_pages: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = test_partitioned_sets.table()
    craton.save("rows", rows, partition_by="k", partitions=4)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    session = craton.init("local", workers=2, threads=1)
    try:
        settings = Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0)
        engine = TiledEngine(session.runner, session.call, settings, least_bytes=0, where="on the session")
        with using(engine):
            equal(craton.read_set("rows").groupby("k")["u"].sum(), rows.groupby("k")["u"].sum())
            equal(craton.read_set("rows"), rows)
        assert list((tmp_path / "craton/objects").glob("*"))  # the workers have copies of their own
    finally:
        craton.shutdown()
