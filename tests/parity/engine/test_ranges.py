"""Scans of files sorted by a key are divided by ranges of the key: joins and groups by it need no exchange, and lose no row."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import craton
import craton.pandas
from craton.demo.compare import difference, materialise
from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.schedule.inline import InlineRunner

ROWS = 6000


def written(path: Path, frame: pd.DataFrame, group: int = 250) -> str:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=group)
    return str(path)


@pytest.fixture
def lines() -> pd.DataFrame:
    """Several rows per key, sorted by key; row groups end between rows of one key."""
    generator = np.random.default_rng(7)
    keys = np.sort(generator.integers(0, ROWS // 4, ROWS))
    return pd.DataFrame({"l": keys, "v": generator.integers(0, 100, ROWS), "w": generator.random(ROWS)})


@pytest.fixture
def orders() -> pd.DataFrame:
    """One row per key, nearly sorted by key: rows are shuffled over a hundred keys, so row groups overlap."""
    generator = np.random.default_rng(8)
    keys = np.concatenate([generator.permutation(np.arange(at, at + 100)) for at in range(0, ROWS // 4, 100)])
    keys = keys[keys % 7 != 3]
    return pd.DataFrame({"o": keys, "c": generator.integers(0, 9, len(keys)), "s": ["x", "yz"][0]})


def agrees(query: Callable[[Any], Any], tiles: int = 5, broadcast: int = 1) -> list[str]:
    """Compare a query's result in tiles with pandas', and return the engine's decisions."""
    clear_memory()
    settings = Settings(tiles=tiles, broadcast_bytes=broadcast, collapse_bytes=0)
    with (
        craton.option_context(small_rows=0),
        using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)) as on,
    ):
        assert difference(query(pd), materialise(query(craton.pandas))) is None
        assert on is not None
        return [what for tiling in on.last for _, what in tiling.decisions]


def about(decided: list[str], text: str) -> int:
    return sum(text in what for what in decided)


@pytest.mark.parametrize("tiles", [2, 5, 14])
def test_joins_and_groups_need_no_exchange(tmp_path, lines, orders, tiles) -> None:
    left, right = written(tmp_path / "l", lines), written(tmp_path / "o", orders, 100)

    def query(lib: Any) -> Any:
        both = lib.read_parquet(left).merge(lib.read_parquet(right), left_on="l", right_on="o")
        return both.groupby(["o", "c"], as_index=False).agg(total=("w", "sum"), rows=("v", "count"))

    decided = agrees(query, tiles)
    assert about(decided, "ranges of l: row groups have narrow ranges of it") == 1
    assert about(decided, "both sides are cut by ranges of the keys") == 1
    assert about(decided, "the rows of a group are in one tile already") == 1
    assert about(decided, "hashed by the keys") == 0


@pytest.mark.parametrize("how", ["left", "right", "outer", "inner"])
def test_every_kind_of_join(tmp_path, lines, orders, how) -> None:
    left, right = written(tmp_path / "l", lines), written(tmp_path / "o", orders, 100)

    def query(lib: Any) -> Any:
        both = lib.read_parquet(left).merge(lib.read_parquet(right), left_on="l", right_on="o", how=how)
        return both.groupby("v").agg(c=("c", "sum"), w=("w", "count"), o=("o", "count"), l=("l", "max"))

    assert about(agrees(query), "both sides are cut by ranges") >= 1


def test_membership(tmp_path, lines, orders) -> None:
    left, right = written(tmp_path / "l", lines), written(tmp_path / "o", orders, 100)

    def query(lib: Any) -> Any:
        large = lib.read_parquet(left).groupby("l", as_index=False)["v"].sum()
        large = large[large["v"] > 250]
        found = lib.read_parquet(right)
        return found[found["o"].isin(large["l"])].groupby("c").agg(rows=("o", "count"), sum=("o", "sum"))

    decided = agrees(query)
    assert about(decided, "both sides are cut by ranges") == 1
    assert about(decided, "the rows of a group are in one tile already") == 1


def test_filters_and_several_files(tmp_path, lines, orders) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, at in enumerate(range(0, ROWS, 1500)):
        written(folder / f"{number}.parquet", lines[at : at + 1500])
    right = written(tmp_path / "o", orders, 100)

    def query(lib: Any) -> Any:
        of = lib.read_parquet(str(folder))
        of = of[(of["v"] > 20) & (of["l"] != 700)]
        both = of.merge(lib.read_parquet(right).query("c < 5"), left_on="l", right_on="o")
        return both.groupby("l").agg(w=("w", "sum"), c=("c", "max"))

    assert about(agrees(query), "both sides are cut by ranges") >= 1


def test_dates(tmp_path) -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i // 3) for i in range(3000)]
    table = pa.table({"d": days, "v": range(3000)})
    pq.write_table(table, tmp_path / "d", row_group_size=100)

    def query(lib: Any) -> Any:
        return lib.read_parquet(str(tmp_path / "d"), dtype_backend="pyarrow").groupby("d")[["v"]].sum()

    assert about(agrees(query), "the rows of a group are in one tile already") == 1


@pytest.mark.parametrize("spoilt", ["missing", "unordered", "uneven", "few groups", "text"])
def test_other_files_are_cut_by_rows(tmp_path, lines, spoilt) -> None:
    group = 250
    match spoilt:
        case "missing":
            lines["l"] = lines["l"].astype("Int64")
            lines.loc[3000, "l"] = pd.NA
        case "unordered":
            lines = lines.sample(frac=1, random_state=1)
        case "uneven":
            lines.loc[1000:, "l"] = 7000
        case "few groups":
            group = 3000
        case "text":
            lines["l"] = lines["l"].astype(str).str.zfill(6)
    path = written(tmp_path / "l", lines, group)
    decided = agrees(lambda lib: lib.read_parquet(path).groupby("l")[["v"]].sum())
    assert about(decided, "row groups have narrow ranges of it") == 0


def test_where_the_order_of_rows_is_seen_files_are_cut_by_rows(tmp_path, lines, orders) -> None:
    left, right = written(tmp_path / "l", lines), written(tmp_path / "o", orders, 100)
    decided = agrees(lambda lib: lib.read_parquet(left).merge(lib.read_parquet(right), left_on="l", right_on="o"))
    assert about(decided, "row groups have narrow ranges of it") == 0


def test_a_side_that_proves_to_be_small_goes_to_all_tiles(tmp_path, lines, orders) -> None:
    left, right = written(tmp_path / "l", lines.sample(frac=1, random_state=1)), written(tmp_path / "o", orders, 100)

    def query(lib: Any) -> Any:
        few = lib.read_parquet(left).groupby("l", as_index=False)["v"].sum()
        few = few[few["v"] > 520]
        return few.merge(lib.read_parquet(right), left_on="l", right_on="o").groupby("c")[["v"]].sum()

    assert about(agrees(query, broadcast=2000), "goes to each of") == 1
