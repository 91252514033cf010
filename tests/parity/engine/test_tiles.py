"""Plans give pandas' results for any number of tiles."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytest
from chains import STEPS, program
from frames import COMMON, frames
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import check

import craton
import craton.pandas
from craton.demo import data
from craton.demo.compare import difference, materialise
from craton.demo.queries import QUERIES
from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.lower.tiled.planner import RULES
from craton.memory import clear_memory
from craton.plan import operators
from craton.plan.operators import Operator
from craton.schedule.inline import InlineRunner

SCALE = 0.01
#: The number of tiles, and the size in bytes up to which a side of a join is broadcast.
QUICK = [(3, 1)]
SLOW = [(7, 1 << 20), (1, 1), (2, 1), (2, 1 << 20), (129, 1)]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.ensure(SCALE, tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, pd.DataFrame]:
    return {name: query(pd, str(folder)) for name, query in QUERIES.items()}


def engine(tiles: int, broadcast: int) -> TiledEngine:
    given = Settings(tiles=tiles, broadcast_bytes=broadcast, collapse_bytes=0)
    return TiledEngine(InlineRunner(), settings=given, least_bytes=0)


@pytest.mark.parametrize(("tiles", "broadcast"), CASES)
@pytest.mark.parametrize("name", QUERIES)
def test_queries(name: str, tiles: int, broadcast: int, folder: Path, expected: dict[str, pd.DataFrame]) -> None:
    clear_memory()
    with craton.option_context(small_rows=0), using(engine(tiles, broadcast)) as used:
        result = QUERIES[name](craton.pandas, str(folder))
        assert difference(expected[name], materialise(result)) is None
    assert used is not None
    assert used.runs


step = st.tuples(st.sampled_from(sorted(STEPS)), st.lists(st.integers(0, 999), min_size=4, max_size=8))


@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(
    frame=frames(kinds=COMMON),
    steps=st.lists(step, min_size=1, max_size=4),
    tiles=st.sampled_from([1, 2, 3, 7, 20]),
    broadcast=st.sampled_from([1, 1 << 20]),
)
def test_chains(frame, steps, tiles, broadcast):
    with warnings.catch_warnings(), using(engine(tiles, broadcast)):
        warnings.simplefilter("ignore")
        check(program(steps), frame, native=None, rtol=1e-9)


def test_a_frame_joined_with_itself_by_a_skewed_key() -> None:
    numbers = range(2000)
    frame = {"k": [7 if i % 3 == 0 else i for i in numbers], "v": list(numbers)}
    given = Settings(tile_bytes=4000, broadcast_bytes=0, collapse_bytes=0)
    tiled = TiledEngine(InlineRunner(bands=2), settings=given, least_bytes=0)
    with craton.option_context(small_rows=0), using(tiled):
        left, right = craton.pandas.DataFrame(frame), craton.pandas.DataFrame(frame)
        result = materialise(left.merge(right, on="k"))
    assert difference(pd.DataFrame(frame).merge(pd.DataFrame(frame), on="k"), result) is None
    assert any("skewed ones were cut" in what for _, what in tiled.last[0].decisions)


def test_every_operator_has_a_rule() -> None:
    kinds = {kind for kind in vars(operators).values() if isinstance(kind, type) and issubclass(kind, Operator)}
    assert kinds - {Operator} == set(RULES)


def test_nothing_stays_in_the_store(folder: Path) -> None:
    clear_memory()
    runner = InlineRunner()
    with craton.option_context(small_rows=0), using(TiledEngine(runner, settings=Settings(tiles=3), least_bytes=0)):
        QUERIES["q05"](craton.pandas, str(folder)).sum()
    assert not runner._where
