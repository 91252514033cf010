"""Partitioned durable sets: random programs on sets by hash and by range are those on the frames that were saved, in tiles too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pyarrow_dataset
import pytest

import craton
import craton.pandas as pd
from craton.engine.tiled import TiledEngine, using
from craton.lower import scans, skipping
from craton.lower.tiled import Settings
from craton.pandas.io.sets import writing
from craton.schedule.inline import InlineRunner
from craton.store import durable_files
from craton.store.durable import DurableSet, every_set, remove_dropped

LAYOUTS: dict[str, dict[str, Any]] = {
    "in order": {},
    "hash": {"partition_by": "k", "partitions": 4},
    "hash of two": {"partition_by": ["s", "k"], "partitions": 3},
    "range": {"partition_by": "k", "kind": "range", "partitions": 4},
    "range of text": {"partition_by": "s", "kind": "range", "partitions": 3},
    "range of dates": {"partition_by": "t", "kind": "range", "partitions": 5},
    "range of floats": {"partition_by": "f", "kind": "range", "partitions": 5},
    "hash, Parquet": {"partition_by": "k", "format": "parquet", "partitions": 4},
    "range, Parquet": {"partition_by": "k", "kind": "range", "format": "parquet"},
    "Parquet": {"format": "parquet"},
    "replicas": {"partition_by": "k", "replicate_by": ["s", ["k", "t"]], "partitions": 3},
    "replicas by ranges": {"partition_by": "k", "replicate_by": ["t"], "kind": "range", "partitions": 3},
    "replica of rows in order": {"replicate_by": ["k"], "partitions": 4},
}


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Iterator[Path]:
    pages = mock.patch.object(durable_files, "PAGE_ROWS", 64)
    with craton.option_context(data=tmp_path / "data", small_rows=0), pages:
        yield tmp_path / "data"


def table(rows: int = 1000, seed: int = 0) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    gaps = rng.random(rows) < 0.1
    return pandas.DataFrame(
        {
            "k": rng.integers(0, 90, rows),
            "f": np.where(gaps, np.nan, rng.integers(-40, 40, rows) / 4),
            "s": pandas.Series(rng.choice(["a", "bb", "ccc", "", "é"], rows), dtype="str").mask(gaps),
            "t": pandas.Series(pandas.to_datetime(rng.integers(0, 500, rows), unit="D")).mask(gaps),
            "u": np.arange(rows),
            "d": pandas.to_timedelta(rng.integers(-9, 9, rows), unit="h"),
        }
    )


@contextlib.contextmanager
def whole() -> Iterator[None]:
    yield


@contextlib.contextmanager
def tiles() -> Iterator[None]:
    settings = Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0)
    with using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)):
        yield


def equal(found: Any, expected: Any) -> None:
    if isinstance(expected, pandas.DataFrame):
        pandas.testing.assert_frame_equal(pandas.DataFrame(found), expected)
    elif isinstance(expected, pandas.Series):
        pandas.testing.assert_series_equal(pandas.Series(found), expected)
    else:
        assert found == pytest.approx(expected)


PROGRAMS: dict[str, Any] = {
    "rows": lambda d, e: d,
    "head": lambda d, e: d.head(7),
    "filter": lambda d, e: d[d["k"] < 9],
    "filter both": lambda d, e: d[(d["k"] >= 30) & (d["k"] < 33) & (d["u"] > 100)],
    "equal": lambda d, e: d[d["k"] == 17]["f"].sum(),
    "flipped": lambda d, e: d[d["k"].rsub(50) > 40]["u"].sum(),
    "among": lambda d, e: d[d["k"].isin([3, 80, 1000])],
    "no rows": lambda d, e: d[d["k"] > 1000],
    "text": lambda d, e: d[d["s"] == "ccc"],
    "text below": lambda d, e: d.loc[d["s"] < "b", "u"].sum(),
    "texts": lambda d, e: d[d["s"].isin(["é", ""])],
    "texts and none": lambda d, e: d[d["s"].isin(["é", None])],
    "floats and none": lambda d, e: d[d["f"].isin([9.75, np.nan])],
    "dates among": lambda d, e: d[d["t"].isin(pandas.to_datetime(["1970-01-05", None]))],
    "floats among": lambda d, e: d[d["f"].isin([9.75, -100.0])],
    "dates": lambda d, e: d[d["t"] < "1970-02-01"],
    "date": lambda d, e: len(d[d["t"] == pandas.Timestamp("1970-02-01")]),
    "floats": lambda d, e: d[d["f"] > 9.5],
    "float": lambda d, e: d[d["f"] == 0.0],
    "missing": lambda d, e: d[d["s"].isna()],
    "not": lambda d, e: d[~(d["k"] < 70)],
    "or": lambda d, e: d[(d["k"] < 2) | (d["f"] > 9)],
    "groups": lambda d, e: d.groupby("k")[["f", "u"]].sum(),
    "groups by text": lambda d, e: d.groupby("s", dropna=False)["u"].agg(["min", "count"]),
    "groups in order": lambda d, e: d.groupby("k", sort=False)["u"].first(),
    "two keys": lambda d, e: d.groupby(["s", "k"])["f"].mean(),
    "join": lambda d, e: d.merge(e, on="k"),
    "left join": lambda d, e: d[d["u"] < 300].merge(e, on="k", how="left"),
    "join, then groups": lambda d, e: d.merge(e, on="k").groupby("k")["v"].sum(),
    "groups, then join": lambda d, e: d.merge(d.groupby("k", as_index=False)["f"].sum(), on="k"),
    "running sum": lambda d, e: d["u"].cumsum(),
    "shift by group": lambda d, e: d.groupby("k")["u"].shift(),
    "sort": lambda d, e: d.sort_values(["f", "k"]),
    "distinct": lambda d, e: d.drop_duplicates(["k", "s"]),
    "filter, number, filter": lambda d, e: d[d["k"] < 40].reset_index()[lambda r: r["index"] > 500],
    "its maximum": lambda d, e: d[d["u"] == d["u"].max()],
    "durations": lambda d, e: d[d["d"] > pandas.Timedelta("7h")],
    "row": lambda d, e: d.loc[500, "u"],
    "iloc": lambda d, e: d.iloc[-5:],
}


@pytest.mark.parametrize("mode", [whole, tiles])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs(layout: str, mode: Any) -> None:
    left, right = table(), table(300, 1)[["k", "u"]].rename(columns={"u": "v"})
    craton.save("left", left.iloc[:600], **LAYOUTS[layout])
    craton.save("left", left.iloc[600:].reset_index(drop=True), mode="append")
    craton.save("right", right, partition_by="k", partitions=4)
    with mode():
        for name, program in PROGRAMS.items():
            try:
                equal(program(craton.read_set("left"), craton.read_set("right")), program(left, right))
            except AssertionError as error:
                raise AssertionError(name) from error


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_rows(rows: int, layout: str) -> None:
    frame = table(rows)
    craton.save("few", frame, **LAYOUTS[layout])
    equal(craton.read_set("few"), frame)
    equal(craton.read_set("few").groupby("k")["u"].sum(), frame.groupby("k")["u"].sum())
    craton.save("few", table(0), mode="append")
    craton.save("few", table(5), mode="append")
    equal(craton.read_set("few"), pandas.concat([frame, table(5)], ignore_index=True).astype(frame.dtypes))


def test_row_labels() -> None:
    for labels in (
        lambda f: f.set_index("u"),
        lambda f: f.set_index(["s", "u"]),
        lambda f: f.iloc[::-1],
        lambda f: f[5:],
    ):
        frame = labels(table(50))
        for kind in ("hash", "range"):
            craton.save("labelled", frame, partition_by="k", kind=kind, partitions=3, mode="overwrite")
            equal(craton.read_set("labelled"), frame)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_plans_of_many_rows_are_saved_through_a_file(layout: str, tmp_path: Path) -> None:
    """Such plans are computed batch by batch; what is read is what is read of the same rows in memory."""
    whole = table(700).assign(
        c=pandas.Categorical(np.array(["x", "y", "z"])[np.arange(700) % 3], categories=["z", "y", "x"])
    )
    whole = whole if LAYOUTS[layout].get("format") != "parquet" else whole.drop(columns="c")
    whole.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    plans = {
        "file": lambda pd: pd.read_parquet(tmp_path / "rows.parquet"),
        "filter": lambda pd: pd.read_parquet(tmp_path / "rows.parquet").query("k > 40").reset_index(drop=True),
        "no rows": lambda pd: pd.read_parquet(tmp_path / "rows.parquet").query("k < 0").reset_index(drop=True),
        "labels": lambda pd: pd.read_parquet(tmp_path / "rows.parquet").query("k > 40"),
    }
    with mock.patch.object(writing, "_SHARE", 1 << 60):
        for name, plan in plans.items():
            expected = plan(pandas)
            craton.save(f"large {name}".replace(" ", "_"), plan(pd), **LAYOUTS[layout])
            found = craton.read_set(f"large_{name}".replace(" ", "_"))
            equal(found, expected)
            craton.save(f"large_{name}".replace(" ", "_"), plan(pd), mode="append")
            again = craton.read_set(f"large_{name}".replace(" ", "_"))
            equal(again, pandas.concat([expected, expected], ignore_index=name != "labels"))
            assert again["u"].sum() == 2 * expected["u"].sum()
            assert int(again[again["k"] > 60]["u"].sum()) == 2 * int(expected[expected["k"] > 60]["u"].sum())


RANGES = {
    "downwards": pandas.RangeIndex(29, -1, -1, name="n"),
    "with a step": pandas.RangeIndex(5, 95, 3),
    "named": pandas.RangeIndex(30, name="n"),
    "default": pandas.RangeIndex(30),
    "one row": pandas.RangeIndex(7, 8),
    "no row": pandas.RangeIndex(4, 4),
    "integers": pandas.Index(np.arange(30) * 2, name="q"),
}


@pytest.mark.parametrize("form", ["arrow", "parquet"])
@pytest.mark.parametrize("labels", RANGES.values(), ids=RANGES)
def test_labels_that_are_a_range_stay_one(labels: Any, form: Any) -> None:
    """pandas unites, sorts and concatenates the labels of a RangeIndex in other ways than those of an Index of integers."""
    first = table(len(labels)).set_axis(labels)
    for number, layout in enumerate(
        ({}, {"partition_by": "k"}, {"replicate_by": ["k"]}, {"partition_by": "k", "kind": "range"})
    ):
        craton.save(f"set{number}", first, format=form, **({"partitions": 3} if layout else {}), **layout)  # type: ignore[arg-type]
        whole = first
        for appended in (False, True):
            if appended:
                rows = table(5, seed=1)
                if isinstance(labels, pandas.RangeIndex) and labels.start:
                    end = labels.start + labels.step * len(labels)
                    rows = rows.set_axis(pandas.RangeIndex(end, end + 5 * labels.step, labels.step, name=labels.name))
                elif not isinstance(labels, pandas.RangeIndex):
                    rows = rows.set_axis(pandas.Index([3, 1, 4, 1, 5], name=labels.name))
                craton.save(f"set{number}", rows, mode="append")
                default = isinstance(labels, pandas.RangeIndex) and not labels.start
                whole = pandas.concat([first, rows], ignore_index=default)
            found = pd.read_set(f"set{number}")
            assert type(found.index) is type(whole.index)
            pandas.testing.assert_frame_equal(pandas.DataFrame(found), whole)
            expected = programs_of_labels(pandas, whole)
            for one, other in zip(programs_of_labels(pd, pd.read_set(f"set{number}")), expected, strict=True):
                assert repr(one) == repr(other)


def programs_of_labels(pd: Any, df: Any) -> list[Any]:
    if not df.index.is_unique:
        return [df["u"].sum(), list(df[df["u"] > 3].index)]
    united = pd.DataFrame({"a": df["k"], "b": df["u"][df["k"] > 100]})
    joined = df[["k"]].join(df["u"][df["u"] % 3 == 0].rename("v"), how="outer")
    return [united.head(4), joined, list(df.sort_values("k", kind="stable").index), df.index[len(df) // 2 :].to_list()]


def test_categories_and_other_columns_that_are_no_keys() -> None:
    frame = table(200).assign(
        c=pandas.Categorical(["x", None, "y", "x"] * 50, categories=["y", "unused", "x"], ordered=True),
        b=[True, False] * 100,
        o=[b"bytes", None] * 100,
    )
    for layout in ({}, {"partition_by": "k"}, {"partition_by": "k", "kind": "range", "partitions": 3}):
        craton.save("categories", frame, mode="overwrite", **layout)
        equal(craton.read_set("categories"), frame)
        equal(
            craton.read_set("categories").groupby("c", observed=False)["u"].sum(),
            frame.groupby("c", observed=False)["u"].sum(),
        )
    with pytest.raises(ValueError, match="'c' cannot be a key"):
        craton.save("other", frame, partition_by="c")
    with pytest.raises(ValueError, match="categories"):
        craton.save("other", frame, format="parquet")
    with pytest.raises(FileNotFoundError):
        craton.read_set("other")


def test_files_are_read_only_where_rows_can_be() -> None:
    craton.save("set", table(), partition_by="k", kind="range", partitions=4)
    read: list[int] = []
    plain = scans.scan_pages

    def counted(source: Any, row_number: Any, runs: Any) -> pl.LazyFrame:
        read.append(sum(rows for _, _, rows in runs))
        return plain(source, row_number, runs)

    with mock.patch("craton.lower.single_node.scan_pages", counted), craton.option_context(result_memory=0):
        some = craton.read_set("set")
        assert len(some[some["k"] < 5]) == int((table()["k"] < 5).sum())
        assert len(some[some["k"] == 1000]) == 0
    assert read == [read[0], 0]
    assert read[0] < 250


def test_bounds_are_unknown_where_they_would_mislead() -> None:
    odd = pa.table({"f": [1.0, float("nan"), 2.0] * 50, "s": ["x" * 100] * 150, "i": [2**53 + 1] * 150})
    craton.save("odd", odd)
    found = DurableSet("odd").version().files[0]["about"]["bounds"]
    assert found["f"] == [None] * 3
    assert found["s"] == [None] * 3
    assert found["i"] == [[2**53 + 1, 2**53 + 1]] * 3
    with mock.patch.object(skipping, "_WORTHWHILE", 1.0):
        d = craton.read_set("odd")
        assert len(d[d["f"] > 1.5]) == 50
        assert len(d[d["s"] == "x" * 100]) == 150
        assert len(d[d["i"] == 2**53 + 1]) == 150
        assert len(d[d["i"] == 2**53]) == 0


def test_joins_and_groups_move_no_rows() -> None:
    left, right = table(), table(500, 1)[["k", "u"]].rename(columns={"u": "v"})
    craton.save("a", left, partition_by="k", partitions=4)
    craton.save("b", right, partition_by="k", partitions=4)
    craton.save("c", right)
    settings = Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0)
    engine = TiledEngine(InlineRunner(), settings=settings, least_bytes=0)
    exchanges = {}
    for name, other in (("partitioned", craton.read_set("b")), ("exchanged", craton.read_set("c"))):
        with using(engine):
            found = pandas.Series(craton.read_set("a").merge(other, on="k").groupby("k")["v"].sum())
        exchanges[name] = [stage.exchange for tiling in engine.last for stage in tiling.stages]
        equal(found, left.merge(right, on="k").groupby("k")["v"].sum())
    assert not any("hash" in exchange for exchange in exchanges["partitioned"])
    assert any("hash" in exchange for exchange in exchanges["exchanged"])


def test_columns_that_change() -> None:
    first, more = table(100), table(50, 1).assign(n=1.5, k=lambda f: f["k"] + 0.5).drop(columns="s")
    craton.save("set", first)
    with pytest.raises(ValueError, match="columns differ"):
        craton.save("set", more, mode="append")
    craton.save("set", more, mode="append", evolve=True)
    expected = pandas.concat([first, more], ignore_index=True)
    equal(craton.read_set("set"), expected)
    equal(craton.read_set("set").groupby("k")["u"].sum(), expected.groupby("k")["u"].sum())
    craton.save("set", first, mode="append", evolve=True)
    equal(craton.read_set("set"), pandas.concat([first, more, first], ignore_index=True))
    with pytest.raises(ValueError, match="'t' of datetime64"):
        craton.save("set", first.assign(t=1), mode="append", evolve=True)
    craton.save("parts", first, partition_by="k")
    with pytest.raises(ValueError, match="partitioned set cannot change"):
        craton.save("parts", more, mode="append", evolve=True)
    equal(craton.read_set("parts"), first)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"partition_by": "missing"}, KeyError, "missing"),
        ({"partition_by": ["k", "k"]}, ValueError, "different"),
        ({"partition_by": "k", "partitions": 0}, ValueError, "from 1 to"),
        ({"partition_by": "k", "partitions": 2.5}, ValueError, "from 1 to"),
        ({"partition_by": "k", "kind": "list"}, ValueError, "kind is one of"),
        ({"format": "csv"}, ValueError, "format is one of"),
    ],
)
def test_bad_layouts_change_nothing(given: Any, error: Any, message: str, data: Path) -> None:
    with pytest.raises(error, match=message):
        craton.save("set", table(10), **given)
    assert not list(data.rglob("*.arrow"))
    with pytest.raises(ValueError, match="__position__"):
        craton.save("set", table(10).rename(columns={"u": "__position__"}))
    craton.save("plain", table(3))
    with pytest.raises(ValueError, match="is not partitioned"):
        craton.save("plain", table(3), mode="append", partition_by="k")


def test_pages_with_only_missing_values() -> None:
    rows = pandas.DataFrame(
        {"f": [np.nan] * 100 + [1.0, 2.0] * 50, "s": pandas.Series(["a", "b"] * 50 + [None] * 100, dtype="str")}
    )
    craton.save("gaps", rows)
    with mock.patch.object(skipping, "_WORTHWHILE", 1.0), craton.option_context(result_memory=0):
        for program in (
            lambda d: d[d["f"] > 1.5],
            lambda d: d[d["f"].isin([np.nan])],
            lambda d: d[d["s"].isin([None])],
            lambda d: d[d["s"].isin(["b", None])],
            lambda d: d[d["s"] == "b"],
            lambda d: d[d["s"] != "b"],
            lambda d: d[d["f"] != 1.0],
            lambda d: d[(d["f"] > 1.5) | d["s"].isna()],
            lambda d: d[~(d["f"] > 1.5)],
        ):
            equal(program(craton.read_set("gaps")), program(rows))


def test_sets_are_dropped() -> None:
    frame = table(2000)
    craton.save("shop.a", frame, partition_by="k")
    craton.save("shop.b", frame)
    held = craton.read_set("shop.a")
    craton.drop_set("shop.a")
    assert [one.name for one in every_set()] == ["b"]
    equal(held, frame)
    for name in ("shop.a", "shop.c"):
        with pytest.raises(FileNotFoundError, match=name):
            craton.drop_set(name)
    assert craton.save("shop.a", frame) == 1
    assert remove_dropped() == []
    assert list(craton.catalog()["partitioned_by"]) == ["", ""]


def test_sets_are_written_part_by_part() -> None:
    parts = [table(100, seed) for seed in range(4)]
    expected = pandas.concat(parts, ignore_index=True)
    for layout in ({}, {"partition_by": "k", "partitions": 3}):
        with craton.open_set("parts", mode="overwrite", **layout) as add:
            for part in parts[:3]:
                add(part)
            add(pd.DataFrame(parts[3])[lambda f: f["k"] >= 0])
        equal(craton.read_set("parts"), expected)

    def fails(error: BaseException) -> None:
        with craton.open_set("parts", mode="append") as add:
            add(parts[0])
            raise error

    def differs() -> None:
        with craton.open_set("parts", mode="append") as add:
            add(parts[0])
            add(parts[0][["k"]])

    with pytest.raises(KeyboardInterrupt):
        fails(KeyboardInterrupt())
    with pytest.raises(ValueError, match="no more"):
        fails(ValueError("no more"))
    with pytest.raises(ValueError, match="columns are"):
        differs()
    with pytest.raises(ValueError, match="at least one"), craton.open_set("none"):
        pass
    equal(craton.read_set("parts"), expected)
    assert DurableSet("parts").versions() == [1, 2]


def test_other_readers_open_the_files() -> None:
    frame = table(300)
    craton.save("set", frame, partition_by="k", kind="range", partitions=3)
    durable = DurableSet("set")
    version = durable.version()
    paths = [durable.path(file) for file in version.files]
    found = pa.concat_tables([pa.ipc.open_file(path).read_all() for path in paths]).sort_by("__position__")
    assert found["u"].to_pylist() == list(frame["u"])
    assert pl.scan_ipc(paths).select(pl.col("u").sum()).collect().item() == frame["u"].sum()
    assert pd.read_feather(paths[0])["k"].max() <= pd.read_feather(paths[-1])["k"].min()
    duckdb = pytest.importorskip("duckdb")
    rows = pyarrow_dataset.dataset(paths, format="arrow")
    assert duckdb.sql("select sum(u), count(s) from rows").fetchall() == [(frame["u"].sum(), frame["s"].count())]
    assert rows.count_rows() == 300
