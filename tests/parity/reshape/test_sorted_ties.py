"""Sorts by one key leave rows with equal keys in the order of NumPy's algorithm, as pandas does, as a whole and in tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, same, settle

import craton
import craton.pandas
from craton.engine.tiled import TiledEngine, using
from craton.lower import numpy_sorts
from craton.lower.tiled import Settings
from craton.lower.tiled import sorts as tiled_sorts
from craton.memory import clear_memory
from craton.schedule.inline import InlineRunner

Program = Callable[..., Any]

#: NumPy sorts up to 16 values by insertion, or by vector instructions; more by partitions.
SIZES = [0, 12, 17, 40, 5000]


def table(rows: int) -> pandas.DataFrame:
    """A table with ties in columns of all dtypes that NumPy sorts, and a column ``row`` with the numbers of the rows."""
    rng = np.random.default_rng(rows)
    few, gaps = max(rows // 5, 2), rng.random(rows) < 0.2
    numbers = rng.integers(0, few, rows)
    frame = pandas.DataFrame({"row": np.arange(rows), "int64": numbers, "float64": numbers * 0.5})
    frame["gaps"] = frame["float64"].mask(gaps)
    frame["zeros"] = np.where(gaps, -0.0, 0.0)
    for dtype in ("int8", "uint16", "int32", "uint64", "float32", "bool"):
        frame[dtype] = rng.integers(0, 2 if dtype == "bool" else 40, rows).astype(dtype)
    frame["days"] = pandas.to_datetime(numbers, unit="D")
    frame["days with gaps"] = frame["days"].mask(gaps)
    frame["zoned"] = frame["days"].dt.tz_localize("Europe/Berlin")
    frame["spans"] = pandas.to_timedelta(numbers, unit="s")
    frame["category"] = pandas.Categorical(rng.choice(list("dbca"), rows), categories=list("abcd"))
    frame["category with gaps"] = frame["category"].where(~gaps)
    frame["Int64"] = pandas.array(np.where(gaps, None, numbers), dtype="Int64")
    frame["Float64"] = pandas.array(np.where(gaps, None, numbers / 2), dtype="Float64")
    frame["boolean"] = pandas.array(np.where(gaps, None, frame["bool"]), dtype="boolean")
    frame["str"] = rng.choice(list("xyz"), rows)
    return frame


COLUMNS = [name for name in table(1) if name != "row"]

PROGRAMS: dict[str, Program] = {
    "rows": lambda pd, df, by, how: df.sort_values(by, **how)[["row", by]],
    "first": lambda pd, df, by, how: df.sort_values(by, **how).head(4)["row"],
    "first of all columns": lambda pd, df, by, how: df.sort_values(by, **how).iloc[3:9],
    "first of changed columns": lambda pd, df, by, how: (
        df.assign(z=df["row"] * 2).sort_values(by, **how)[["z", "str"]].rename(columns={"z": "y"}).head(6)
    ),
    "first of groups": lambda pd, df, by, how: (
        df.groupby([by, "str"], as_index=False)[["row", "gaps"]].sum().sort_values("gaps", **how).head(5)
    ),
    "first of joined": lambda pd, df, by, how: (
        df.merge(df[["int8", "row"]].head(30), on="int8").sort_values(by, **how).head(11)
    ),
    "first of first": lambda pd, df, by, how: (
        df.sort_values(by, **how).head(500).sort_values("int8", **how).head(7)["row"].cumsum()
    ),
    "first, twice": lambda pd, df, by, how: (
        lambda rows: [rows.head(3)["row"], rows["row"].iloc[10:12], rows.tail(2)["row"]]
    )(df.sort_values(by, **how)),
    "first and last": lambda pd, df, by, how: [df.sort_values(by, **how)["row"].iloc[i] for i in ([0, 1], [-1])],
    "filtered": lambda pd, df, by, how: (lambda rows: rows[rows["row"] % 3 == 0])(df.sort_values(by, **how))["row"],
    "twice": lambda pd, df, by, how: df.sort_values("int8", **how).sort_values(by, **how)["row"].cumsum(),
    "of groups": lambda pd, df, by, how: df.groupby(by, observed=True)["row"].sum().sort_values(**how),
    "in groups": lambda pd, df, by, how: df.sort_values(by, **how).groupby("int8")["row"].shift().sum(),
    "joined": lambda pd, df, by, how: df.merge(df[["int8", "row"]].head(30), on="int8").sort_values(by, **how)["row_y"],
    "series": lambda pd, df, by, how: df[by].sort_values(**how),
    "labels": lambda pd, df, by, how: df.set_index(by)["row"].sort_index(**how),
    "labels in order": lambda pd, df, by, how: df.sort_values(by, **how).set_index(by)["row"].sort_index(**how),
}


@pytest.fixture(autouse=True)
def _planned() -> Iterator[None]:
    with craton.option_context(small_rows=0):
        yield


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_ties_are_in_the_order_of_pandas(name: str, rows: int) -> None:
    data = table(rows)
    for by in COLUMNS if rows == 40 else ["int64", "gaps", "int8"]:
        for ascending in (True, False):
            how = {"ascending": ascending, "na_position": "first" if ascending and rows % 2 else "last"}
            check(lambda pd, df, by=by, how=how: PROGRAMS[name](pd, df, by, how), data, native=None)


@pytest.mark.parametrize("rows", [12, 300])
@pytest.mark.parametrize("name", PROGRAMS)
def test_ties_of_rows_in_memory(name: str, rows: int) -> None:
    data = table(rows)
    for by in ("int64", "gaps", "int8", "days", "category"):
        for how in ({"ascending": True}, {"ascending": False, "na_position": "first"}):
            expected = settle(PROGRAMS[name](pandas, data, by, how))
            with craton.option_context(small_rows=1):
                same(settle(PROGRAMS[name](craton.pandas, craton.pandas.DataFrame(data), by, how)), expected)


@pytest.mark.parametrize("kind", ["heapsort", "stable", "mergesort", None])
@pytest.mark.parametrize("name", ["rows", "labels"])
def test_algorithms(name: str, kind: str | None) -> None:
    for by in COLUMNS:
        check(lambda pd, df, by=by: PROGRAMS[name](pd, df, by, {"kind": kind}), table(100), native=None)


@pytest.mark.parametrize("by", ["int64", "gaps", "int8", "days with gaps", "category", "Int64"])
def test_ties_are_planned(by: str) -> None:
    check(lambda pd, df: df.sort_values(by)["row"].cumsum(), table(5000))
    check(lambda pd, df: df.groupby(by, observed=True)["row"].size().sort_values(ascending=False), table(5000))


@pytest.mark.parametrize("tiles", [1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_ties_in_tiles(name: str, tiles: int) -> None:
    for by in ("int64", "gaps"):
        for ascending in (True, False):
            how = {"ascending": ascending}
            clear_memory()
            settings = Settings(tiles=tiles, broadcast_bytes=1, collapse_bytes=0)
            with using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)):
                check(lambda pd, df, by=by, how=how: PROGRAMS[name](pd, df, by, how), table(3000), native=None)


@pytest.mark.parametrize("by", ["int64", "gaps", "zoned"])
def test_only_keys_are_sorted_for_the_first_rows(by: str) -> None:
    data = table(3000)
    clear_memory()
    engine = TiledEngine(
        InlineRunner(), settings=Settings(tiles=3, tile_bytes=4 << 10, collapse_bytes=0), least_bytes=0
    )
    with using(engine):
        got = craton.pandas.DataFrame(data).sort_values(by)[["row", "str", by]].head(20)
        pandas.testing.assert_frame_equal(pandas.DataFrame(got), data.sort_values(by)[["row", "str", by]].head(20))
    decisions = [what for tiling in engine.last for _, what in tiling.decisions]
    assert any("one task sorts the keys of 3,000 rows, and finds the first 20" in what for what in decisions)


def test_many_rows_in_tiles_are_sorted_stably(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled_sorts, "MOST_ROWS", 1000)
    data = table(3000)
    clear_memory()
    with using(TiledEngine(InlineRunner(), settings=Settings(tiles=3), least_bytes=0)):
        got = craton.pandas.DataFrame(data).sort_values("int8")["row"].to_numpy().tolist()
    assert got == data.sort_values("int8", kind="stable")["row"].tolist()


@pytest.mark.parametrize("descending", [False, True])
def test_first_rows_are_selected_only_if_their_keys_differ(monkeypatch: pytest.MonkeyPatch, descending: bool) -> None:
    sorts: list[int] = []
    argsort = numpy_sorts._argsort
    monkeypatch.setattr(numpy_sorts, "_argsort", lambda *args: sorts.append(len(args[0])) or argsort(*args))
    rng = np.random.default_rng(5)
    for values, complete in (
        (rng.permutation(1000), False),
        (rng.permutation(1000) // 2, True),
        (np.where(rng.permutation(1000) < 900, np.nan, rng.permutation(1000)), False),
        (rng.permutation(1000) * 0.25, False),
        (np.array(rng.permutation(1000), "M8[s]"), False),
        (np.full(1000, np.nan), True),
    ):
        sorts.clear()
        data = pandas.DataFrame({"k": values, "row": np.arange(1000)})
        check(lambda pd, df: df.sort_values("k", ascending=not descending).head(5)["row"], data)
        assert bool(sorts) == complete
