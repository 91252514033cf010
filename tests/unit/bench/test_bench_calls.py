"""The benchmark of everyday calls: Craton's plans give pandas' results, Polars' counterparts run, the summary is correct."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pytest

import craton
import craton.pandas
from bench.calls.contestants import CALLS, SESSION, PandasCalls, PolarsCalls, digest
from bench.calls.data import frames, make
from bench.calls.heat_map import draw
from bench.calls.registry import FAMILIES
from bench.calls.run import shares
from bench.calls.session import STEPS
from bench.harness import answers
from bench.pandas_likes import Craton, PandasLike

ROWS = 3_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make(ROWS, tmp_path_factory.mktemp("calls") / "data"))


@pytest.fixture(scope="module")
def contestants(folder: str) -> dict[str, Any]:
    return {
        "pandas": PandasCalls(PandasLike(), folder, "memory"),
        "memory": PandasCalls(Craton(), folder, "memory"),
        "file": PandasCalls(Craton(), folder, "file"),
        "polars": PolarsCalls(folder, "file"),
    }


def test_there_are_enough_calls_in_twelve_families() -> None:
    assert len(FAMILIES) == 12
    assert len(CALLS) >= 150
    assert min(len(family.calls) for family in FAMILIES) >= 10


def test_the_data_is_the_same_each_time() -> None:
    first, second = frames(500), frames(500)
    assert all(first[name].equals(second[name]) for name in first)
    assert first["df"]["id"].is_unique
    assert first["df"]["t"].is_monotonic_increasing
    assert 0 < first["df"]["x"].isna().sum() < 100


@pytest.mark.parametrize("case", [*CALLS, SESSION])
def test_plans_give_pandas_results(contestants: dict[str, Any], case: str) -> None:
    expected = contestants["pandas"].answer(case, contestants["pandas"].run(case))
    with craton.option_context(small_rows=0):
        for source in ("memory", "file"):
            found = contestants[source].answer(case, contestants[source].run(case))
            assert answers.difference(expected, found) is None, source


@pytest.mark.parametrize("case", [case for case, call in CALLS.items() if call.polars is not None])
def test_calls_of_polars_run(contestants: dict[str, Any], case: str) -> None:
    assert contestants["polars"].run(case) is not None or case.endswith("to_csv")
    assert contestants["polars"].answer(case, None) is None


def test_a_session_has_thirty_steps(contestants: dict[str, Any]) -> None:
    assert len(contestants["pandas"].run(SESSION)) >= STEPS


def test_digests_tell_results_apart() -> None:
    table = pandas.DataFrame({"a": [1.0, None, 3.0], "s": ["x", "y", None]}, index=[5, 6, 7])
    same = digest(table)
    assert digest(table.copy()) == same
    for changed in (
        table.iloc[::-1],
        table.reset_index(drop=True),
        table.assign(a=[1.0, None, 3.5]),
        table.assign(s=["x", "z", None]),
        table.rename(columns={"a": "b"}),
        table.astype({"a": "float32"}),
    ):
        assert answers.difference(same, digest(changed)) is not None


def test_slow_and_large_calls_are_listed(tmp_path: Path) -> None:
    def result(seconds: float, memory: int) -> dict[str, Any]:
        return {"status": "ok", "median": seconds, "peak_memory": memory}

    report = {
        "title": "Calls",
        "summary": {"craton": {}, "pandas": {}},
        "cases": {
            "sorting: a": {"craton": result(0.1, 5), "pandas": result(1.0, 6)},
            "sorting: b": {"craton": result(1.2, 7), "pandas": result(1.0, 6)},
            "dates: short": {"craton": result(0.0048, 1), "pandas": result(0.004, 1)},
            "dates: missing": {"craton": {"status": "failed"}, "pandas": result(1.0, 1)},
        },
    }
    found = shares(report)
    assert found["slow"] == {"sorting: b": pytest.approx(1.2)}
    assert found["large"] == {"sorting: b": pytest.approx(7 / 6)}
    assert found["median"] == pytest.approx(1 / 1.2)
    assert draw(report, tmp_path / "map.png").stat().st_size > 1000
