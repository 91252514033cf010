"""Plans whose estimated memory exceeds the limit run as tiles in this process; all other plans run as one query."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pandas.testing as pt
import polars as pl
import pytest

import craton
import craton.pandas as cp
from craton.demo import data
from craton.demo.compare import difference, materialise
from craton.demo.queries import QUERIES
from craton.engine import choice
from craton.engine.tiled import TiledEngine, using
from craton.lower import decoded, single_node
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.schedule.inline import InlineRunner
from craton.store import close_store

SCALE = 0.01
LIMIT = 3 << 19
#: The memory limit for a join of two tables.
ROOM = 6 << 20
QUICK = {"q01", "q03", "q07", "q18", "q21"}


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TiledEngine]]:
    """The tiled engines that were chosen, in a process with little memory."""
    found: list[TiledEngine] = []
    choose = choice.bounded_engine

    def chosen(*args: Any, **kwargs: Any) -> TiledEngine | None:
        engine = choose(*args, **kwargs)
        if engine is not None:
            found.append(engine)
        return engine

    monkeypatch.setattr(choice, "bounded_engine", chosen)
    clear_memory()
    close_store()
    with craton.option_context(small_rows=0, memory_limit=LIMIT):
        yield found
    clear_memory()
    close_store()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.ensure(SCALE, tmp_path_factory.mktemp("tpch"))


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in QUERIES]
)
def test_queries(name: str, folder: Path, engines: list[TiledEngine]) -> None:
    result = materialise(QUERIES[name](cp, str(folder)))
    assert difference(QUERIES[name](pandas, str(folder)), result) is None
    if name in {"q18", "q21"}:
        assert engines
        assert any(stage.tiles > 3 for engine in engines for tiling in engine.last for stage in tiling.stages)


# ---- the choice ----


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    rows = 200_000
    numbers = np.random.default_rng(7)
    left = pandas.DataFrame(
        {"k": numbers.permutation(rows), "x": numbers.random(rows), "s": np.arange(rows).astype(str)}
    )
    right = pandas.DataFrame({"k": numbers.permutation(rows), "y": numbers.random(rows)})
    paths = tmp_path / "left.parquet", tmp_path / "right.parquet"
    left.to_parquet(paths[0], row_group_size=20_000)
    right.to_parquet(paths[1], row_group_size=20_000)
    return paths


def joined(module: Any, paths: tuple[Path, Path]) -> Any:
    return module.read_parquet(paths[0]).merge(module.read_parquet(paths[1]), on="k")


def test_what_fits_runs_as_a_whole(tables: tuple[Path, Path], engines: list[TiledEngine]) -> None:
    with craton.option_context(memory_limit=1 << 30):
        assert len(joined(cp, tables)) == 200_000
    assert not engines


def test_what_holds_nothing_runs_as_a_whole(tables: tuple[Path, Path], engines: list[TiledEngine]) -> None:
    frame = cp.read_parquet(tables[0])
    assert frame[frame["x"] > 0.5]["x"].sum() > 0
    assert not engines


def test_what_is_in_memory_runs_as_a_whole(tables: tuple[Path, Path], engines: list[TiledEngine]) -> None:
    frame = pandas.read_parquet(tables[0])
    assert len(cp.DataFrame(frame).merge(cp.DataFrame(frame), on="k")) == 200_000
    assert not engines


def test_files_that_are_only_held_open_are_read_as_a_whole(
    tables: tuple[Path, Path], engines: list[TiledEngine]
) -> None:
    expected = joined(pandas, tables)
    lazy = joined(cp, tables)
    os.remove(tables[0])
    pt.assert_frame_equal(materialise(lazy), expected)
    assert not engines


@pytest.mark.slow
def test_rows_of_joins_and_groups_come_in_order(tables: tuple[Path, Path], engines: list[TiledEngine]) -> None:
    pt.assert_frame_equal(materialise(joined(cp, tables)), joined(pandas, tables))
    for sort in (True, False):
        ours, theirs = (joined(module, tables).groupby("s", sort=sort)[["x", "y"]].sum() for module in (cp, pandas))
        pt.assert_frame_equal(materialise(ours), theirs)
    assert len(engines) == 3


SHOWN = "tiled in this process, to keep within the memory limit"


def test_the_choice_is_shown(tables: tuple[Path, Path]) -> None:
    assert craton.explain(joined(cp, tables)).startswith(f"{SHOWN}\n")
    with craton.option_context(memory_limit=1 << 30):
        assert not craton.explain(joined(cp, tables)).startswith("tiled")


@pytest.mark.slow
def test_what_became_of_it_is_shown(tables: tuple[Path, Path]) -> None:
    with craton.option_context(memory_limit=ROOM):
        shown = craton.explain(joined(cp, tables), stage="analyzed")
    assert shown.startswith(f"{SHOWN}: ")
    assert "spilled" in shown


# ---- sources that one task reads ----


def test_text_is_cut_after_it_was_read(tmp_path: Path, engines: list[TiledEngine]) -> None:
    rows = 30_000
    frame = pandas.DataFrame(
        {"k": np.arange(rows) % 15_001, "s": [f'"a"\n{i}' if i % 7 else f"b,{i}" for i in range(rows)]}
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.assign(s=frame["k"] * 3).to_json(tmp_path / "x.json", orient="records", lines=True)
    for read in (
        lambda module: module.read_csv(tmp_path / "x.csv"),
        lambda module: module.read_json(tmp_path / "x.json", lines=True),
    ):
        engines.clear()
        ours, theirs = (read(module).merge(read(module), on="k") for module in (cp, pandas))
        pt.assert_frame_equal(materialise(ours), theirs)
        decided = [what for engine in engines for tiling in engine.last for _, what in tiling.decisions]
        assert any("from there on" in what for what in decided), decided


# ---- sinks ----


@pytest.mark.slow
def test_files_are_written_tile_by_tile(tables: tuple[Path, Path], tmp_path: Path, engines: list[TiledEngine]) -> None:
    ours, theirs = joined(cp, tables), joined(pandas, tables)
    ours.to_parquet(tmp_path / "x.parquet")
    pt.assert_frame_equal(pandas.read_parquet(tmp_path / "x.parquet"), theirs)
    ours.to_feather(tmp_path / "x.feather")
    pt.assert_frame_equal(pandas.read_feather(tmp_path / "x.feather"), theirs)
    ours.to_csv(tmp_path / "x.csv", index=False)
    theirs.to_csv(tmp_path / "theirs.csv", index=False)
    assert (tmp_path / "x.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes()
    assert sum(engine.runs for engine in engines) >= 3
    assert all(not engine.runner._where for engine in engines)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_file_that_fails_half_way_is_not_there(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: list[TiledEngine]
) -> None:
    from craton.lower.tiled.planner import Tiling

    fetch, asked = Tiling.frame, []

    async def failing(self: Tiling, tiles: Any, number: int) -> pl.DataFrame:
        asked.append(number)
        if len(asked) > 2:
            raise MemoryError("no room")
        return await fetch(self, tiles, number)

    before = sorted(os.listdir(tmp_path))
    monkeypatch.setattr(Tiling, "frame", failing)
    close_store()
    with craton.option_context(memory_limit=ROOM), pytest.raises(Exception, match="no room"):
        joined(cp, tables).to_parquet(tmp_path / "x.parquet")
    assert len(asked) == 3
    assert sorted(os.listdir(tmp_path)) == before
    assert all(not engine.runner._where for engine in engines)  # type: ignore[attr-defined]


# ---- the decode cache ----


def test_tiles_read_decoded_columns(tables: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = joined(pandas, tables)[["k", "y"]]
    with craton.option_context(decode_cache="on", memory_limit=1 << 28):
        close_store()
        settings = Settings(tiles=5, broadcast_bytes=1, collapse_bytes=0)
        with using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)) as engine:
            pt.assert_frame_equal(materialise(joined(cp, tables)[["k", "y"]]), expected)
            clear_memory()
            read: list[Any] = []
            for module in (single_node, decoded):
                scan = module.scan_files
                monkeypatch.setattr(module, "scan_files", lambda *args, scan=scan: (read.append(args), scan(*args))[1])
            pt.assert_frame_equal(materialise(joined(cp, tables)[["k", "y"]]), expected)
    assert engine is not None
    assert engine.runs == 2
    assert not read
