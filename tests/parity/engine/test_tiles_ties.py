"""Rows with equal sort keys keep their order through exchanges, although no column stores that order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.schedule.inline import InlineRunner

ROWS = 3_000

Program = Callable[..., Any]


def tables(seed: int = 1, keys: int = 400) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Two tables with many rows per key; some keys are in only one of them."""
    rng = np.random.default_rng(seed)
    left = {"key": rng.integers(0, keys, ROWS), "few": rng.integers(0, 5, ROWS), "row": np.arange(ROWS)}
    right = {"key": rng.integers(keys // 4, keys + 50, ROWS // 2), "other": rng.permutation(ROWS // 2)}
    return pandas.DataFrame(left), pandas.DataFrame(right)


def tiled(
    program: Program, *data: Any, tiles: int | None = 5, native: bool | None = None, **settings: Any
) -> list[str]:
    """Compare a program's results in tiles with pandas', and return the stages' exchanges."""
    clear_memory()
    given = Settings(tiles=tiles, **{"broadcast_bytes": 1, "collapse_bytes": 0, **settings})
    engine = TiledEngine(InlineRunner(), settings=given, least_bytes=0)
    with using(engine):
        check(program, *data, native=native)
    return [stage.exchange for tiling in engine.last for stage in tiling.stages]


SORTS: dict[str, Program] = {
    "one key": lambda pd, df: df.sort_values("few", kind="stable"),
    "descending": lambda pd, df: df.sort_values("few", ascending=False, kind="stable"),
    "twice": lambda pd, df: df.sort_values("key", kind="stable").sort_values("few", kind="stable"),
    "filtered": lambda pd, df: (lambda s: s[s["key"] % 3 == 0])(df.sort_values("few", kind="stable")),
    "of what is filtered": lambda pd, df: df[df["key"] % 3 == 0].sort_values("few", kind="stable"),
    "first rows": lambda pd, df: df.sort_values("few", kind="stable").head(40),
    "last rows": lambda pd, df: df.sort_values("few", kind="stable").tail(40),
    "shifted": lambda pd, df: df.sort_values("few", kind="stable").assign(before=lambda d: d["row"].shift(1)),
    "running sum": lambda pd, df: df.sort_values("few", kind="stable")["row"].cumsum(),
    "first of groups": lambda pd, df: df.sort_values("few", kind="stable").groupby("key")["row"].first(),
    "groups as they come": lambda pd, df: df.sort_values("few", kind="stable").groupby("key", sort=False)["row"].last(),
    "without duplicates": lambda pd, df: df.sort_values("few", kind="stable").drop_duplicates("key"),
    "concatenated": lambda pd, df: pd.concat(
        [df.sort_values("few", kind="stable"), df.sort_values("key", kind="stable")]
    ),
    "ranks in groups": lambda pd, df: df.sort_values("few", kind="stable").groupby("key").cumcount(),
    "numbered anew": lambda pd, df: df.sort_values("few", kind="stable").reset_index(drop=True),
}


@pytest.mark.parametrize("tiles", [1, 2, 5, 40, None])
@pytest.mark.parametrize("name", SORTS)
def test_rows_of_equal_keys_keep_their_order(name: str, tiles: int | None) -> None:
    tiled(SORTS[name], tables()[0], tiles=tiles)


JOINS: dict[str, Program] = {
    "as it is": lambda pd, left, right: left.merge(right, on="key"),
    "left": lambda pd, left, right: left.merge(right, on="key", how="left"),
    "right": lambda pd, left, right: left.merge(right, on="key", how="right"),
    "small left": lambda pd, left, right: left.head(700).merge(right, on="key"),
    "small left kept": lambda pd, left, right: left.head(700).merge(right, on="key", how="left"),
    "small left, right": lambda pd, left, right: left.head(700).merge(right, on="key", how="right"),
    "of a join": lambda pd, left, right: left.merge(right, on="key").merge(left, on="few").head(5_000),
    "with a join": lambda pd, left, right: left.head(300).merge(left.merge(right, on="key"), on="row", how="left"),
    "of sorted rows": lambda pd, left, right: left.sort_values("few", kind="stable").merge(right, on="key"),
    "with sorted rows": lambda pd, left, right: left.merge(right.sort_values("other", kind="stable"), on="key"),
    "sorted": lambda pd, left, right: left.merge(right, on="key").sort_values("few", kind="stable"),
    "filtered": lambda pd, left, right: (lambda j: j[j["other"] % 3 > 0])(left.merge(right, on="key")),
    "first of groups": lambda pd, left, right: left.merge(right, on="key").groupby("few")["other"].first(),
    "groups as they come": lambda pd, left, right: (
        left.merge(right, on="key").groupby("other", sort=False)["row"].sum()
    ),
    "running sum": lambda pd, left, right: left.merge(right, on="key")["other"].cumsum(),
    "without duplicates": lambda pd, left, right: left.merge(right, on="key").drop_duplicates("other"),
    "concatenated": lambda pd, left, right: pd.concat([left.merge(right, on="key"), left.merge(right, on="key")]),
    "last rows": lambda pd, left, right: left.merge(right, on="key").tail(30),
}


@pytest.mark.parametrize("tiles", [1, 2, 5, 40, None])
@pytest.mark.parametrize("name", JOINS)
def test_matches_come_in_the_order_of_both_sides(name: str, tiles: int | None) -> None:
    tiled(JOINS[name], *tables(), tiles=tiles)


@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_matches_of_a_key_that_is_cut_come_in_order(how: str) -> None:
    left, right = tables(3)
    left.loc[left["row"] % 3 == 0, "key"] = 7
    right.loc[right["other"] % 11 == 0, "key"] = 7
    tiled(lambda pd, a, b: a.merge(b, on="key", how=how), left, right, tiles=None, tile_bytes=8 << 10)


def test_joins_in_batches_come_in_order() -> None:
    tiled(JOINS["as it is"], *tables(4), tiles=None, tile_bytes=8 << 10, batch_bytes=8 << 10)


def test_numbers_of_rows_at_rest_need_no_sample() -> None:
    exchanges = tiled(JOINS["as it is"], *tables())
    assert sorted(exchanges[:2]) == ["by the hash of key into 5", "by the hash of key@2 into 5"]
    assert exchanges[2:] == ["by ranges of the order into 5", "none"]


def test_ranges_with_far_more_rows_than_others_are_cut_by_samples() -> None:
    left, right = tables(5)
    left["key"] = np.where(left["row"] < 200, left["row"] % 10, 10_000 + left["row"])
    right["key"] = right["other"] % 10
    exchanges = tiled(JOINS["as it is"], left, right, tiles=None, tile_bytes=16 << 10)
    assert "a sample of the order" in exchanges[2:]
    assert exchanges[-1] == "none"


def test_rows_at_rest_are_not_written_twice_to_be_sorted() -> None:
    assert tiled(SORTS["one key"], tables()[0])[0] == "a sample of few"


def test_groups_of_few_rows_go_by_ranges() -> None:
    rng = np.random.default_rng(2)
    rows = 120_000
    frame = pandas.DataFrame({"key": rng.permutation(rows) - rows // 2, "value": rng.integers(0, 99, rows)})
    frame.loc[::50, "key"] = frame["key"].iloc[7]
    program = lambda pd, df: df.groupby("key").agg(s=("value", "sum"), f=("value", "first"), n=("value", "nunique"))  # noqa: E731
    exchanges = tiled(program, frame)
    assert exchanges == ["a sample of key", "by ranges of key into 5", "none"]
    missing = frame.assign(key=frame["key"].astype("Int64").mask(frame["value"] == 3))
    for dropna in (True, False):
        tiled(lambda pd, df, dropna=dropna: df.groupby("key", dropna=dropna)["value"].sum(), missing)


@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("position", ["first", "last"])
@pytest.mark.parametrize("missing", [1, 5, 12])
def test_integer_keys_that_are_missing_are_there_once(tiles: int, ascending: bool, position: str, missing: int) -> None:
    """If many keys are missing, a boundary between ranges is a missing value, although most tiles have no missing key."""
    keys = [None] * missing + sorted((i * 7) % 5 for i in range(15))
    frame = pandas.DataFrame({"k": pandas.array(keys[::-1], dtype="Int64"), "x": range(len(keys))})
    frame = pandas.concat([frame.iloc[3:], frame.iloc[:3]])
    programs = [
        lambda pd, df: df.sort_values("k", ascending=ascending, na_position=position, kind="stable"),
        lambda pd, df: df.sort_values("k", ascending=ascending, na_position=position, kind="stable")["x"].cumsum(),
        lambda pd, df: df.groupby("k", dropna=False)["x"].sum(),
        lambda pd, df: df.groupby("k", dropna=False)["x"].median().sum(),
        lambda pd, df: (
            df[df["k"].isna() | (df["k"] > 1)].sort_values(["k"], na_position=position, kind="stable")["x"].diff()
        ),
    ]
    chosen = Settings(tiles=tiles, broadcast_bytes=1, collapse_bytes=0)
    with using(TiledEngine(InlineRunner(), settings=chosen, least_bytes=0)):
        for program in programs:
            check(program, frame, native=None)


NUMBERS = ["int8", "int32", "int64", "uint8", "uint32", "float32", "float64", "Int32", "Int64"]


@pytest.mark.parametrize("how", ["outer", "left", "right", "inner"])
@pytest.mark.parametrize("left", NUMBERS)
def test_keys_of_two_dtypes(left: str, how: str) -> None:
    """Keys that are compared in a third dtype are also sorted in it, whether a tile has rows of both sides or of one."""
    rng = np.random.default_rng(7)
    ours = pandas.DataFrame({"j": rng.integers(0, 20, 60), "v": rng.random(60)}).astype({"j": left})
    theirs = pandas.DataFrame({"i": rng.integers(0, 30, 40), "w": rng.random(40)})
    for right in NUMBERS:
        other = theirs.astype({"i": right})

        def program(pd: Any, df: Any, other: Any) -> Any:
            made = df.merge(other, left_on="j", right_on="i", how=how)
            return made, made["v"].cumsum(), made["w"].shift().count(), made["row"].diff()

        tiled(program, ours.assign(row=range(60)), other, tiles=3)
