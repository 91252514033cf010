"""The benchmarks' contestants run equivalent programs, and an environment that cannot be created reports the reason."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="DuckDB comes with the bench extra")
pytest.importorskip("psutil", reason="psutil comes with the bench extra")

from bench import environments, small
from bench.__main__ import BENCHMARKS, main
from bench.cylon import contestants as cylon_contestants
from bench.cylon import data as cylon_data
from bench.environments import Environment
from bench.harness import answers
from bench.harness.worker import Contestant
from bench.tpch import contestants as tpch_contestants
from bench.tpch import polars_queries as tpch_polars
from bench.tpch import sql as tpch_sql
from bench.tpch.run import with_text_dates
from craton.demo import data
from craton.demo.queries import QUERIES

# ---- TPC-H ----


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.ensure(0.02, tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def engines(tables: Path) -> dict[str, Contestant]:
    options = {"folder": str(tables)}
    return {name: tpch_contestants.open_contestant(name, options) for name in ("duckdb", "polars", "pandas")}


def test_all_have_the_same_queries() -> None:
    assert list(tpch_polars.QUERIES) == list(tpch_sql.SQL) == list(tpch_sql.ORDER) == list(QUERIES)


@pytest.mark.parametrize("name", ["polars", "pandas"])
@pytest.mark.parametrize("query", list(tpch_sql.SQL))
def test_queries_say_what_sql_says(engines: dict[str, Contestant], query: str, name: str) -> None:
    expected, found = (engines[engine].answer(query, engines[engine].run(query)) for engine in ("duckdb", name))
    assert expected["columns"]
    assert answers.difference(expected, found, order_by=tpch_sql.ORDER[query]) is None
    json.dumps(found)


@pytest.mark.parametrize("name", ["craton", "pandas"])
@pytest.mark.parametrize(("dates", "dtypes"), [("text", "numpy"), ("timestamps", "pyarrow")])
@pytest.mark.parametrize("query", ["q01", "q03", "q04", "q12"])
def test_other_ways_of_reading_give_the_same_answers(engines, tables, query, name, dates, dtypes) -> None:
    folder = with_text_dates(tables) if dates == "text" else tables
    assert folder == with_text_dates(tables) or dates != "text"
    options = {"folder": str(folder), "dates": dates, "dtypes": dtypes}
    engine = tpch_contestants.open_contestant(name, options)
    expected, found = (
        engines["duckdb"].answer(query, engines["duckdb"].run(query)),
        engine.answer(query, engine.run(query)),
    )
    assert answers.difference(expected, found, order_by=tpch_sql.ORDER[query]) is None


# ---- CylonFlow's operators ----

ROWS = 5_000


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cylon_data.make(ROWS, tmp_path_factory.mktemp("cylon"))


def test_keys_are_nine_tenths_distinct() -> None:
    for side, value in (("left", "value"), ("right", "other")):
        columns = cylon_data.columns(ROWS, side)
        assert list(columns) == ["key", value]
        assert {len(column) for column in columns.values()} == {ROWS}
        assert {str(column.dtype) for column in columns.values()} == {"int64"}
        assert len(set(columns["key"].tolist())) == 0.9 * ROWS


@pytest.mark.parametrize("source", ["memory", "parquet"])
@pytest.mark.parametrize("name", ["polars", "polars-ordered", "duckdb", "craton"])
def test_operators_say_what_pandas_says(sides: Path, name: str, source: str) -> None:
    pandas = cylon_contestants.open_contestant("pandas", {"folder": str(sides), "source": "memory"})
    other = cylon_contestants.open_contestant(name, {"folder": str(sides), "source": source})
    for case in cylon_contestants.CASES:
        expected, found = (engine.answer(case, engine.run(case)) for engine in (pandas, other))
        assert expected["rows"] >= 0.9 * ROWS
        assert found == expected


def test_ordered_polars_has_the_rows_of_pandas_in_their_order(sides: Path) -> None:
    pandas = cylon_contestants.open_contestant("pandas", {"folder": str(sides), "source": "memory"})
    polars = cylon_contestants.open_contestant("polars-ordered", {"folder": str(sides), "source": "memory"})
    for case in ("join", "groupby"):
        expected, found = pandas.run(case), polars.run(case)
        for name in expected.columns:
            assert (expected[name].to_numpy() == found[name].to_numpy()).all(), (case, name)


def test_digests_tell_results_apart() -> None:
    np = pytest.importorskip("numpy")
    columns = {"key": np.arange(10), "value": np.arange(10) * 3}
    digest = cylon_contestants.digest(columns, "key")
    assert digest["in_order"]
    assert digest["sums"] == {"key": 45, "value": 135}
    swapped = {"key": columns["key"], "value": columns["value"][[1, 0, *range(2, 10)]]}
    assert cylon_contestants.digest(swapped, "key") != digest
    turned = {name: column[::-1].copy() for name, column in columns.items()}
    assert cylon_contestants.digest(turned, None) == cylon_contestants.digest(columns, None)
    assert not cylon_contestants.digest(turned, "key")["in_order"]


# ---- small data ----


def test_small_operations_are_a_thousand_and_print_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas, craton = (small.open_contestant(name, {}) for name in ("pandas", "craton"))
    assert pandas.answer("mixed", pandas.run("mixed")) == craton.answer("mixed", craton.run("mixed"))
    calls: list[str] = []

    def counted(name: str) -> Any:
        return lambda pd, df, other: calls.append(name)

    monkeypatch.setattr(small, "OPERATIONS", {name: counted(name) for name in small.OPERATIONS})
    pandas.run("mixed")
    assert len(calls) == small.MIXED


# ---- environments ----


def test_an_environment_that_is_there_is_used(tmp_path: Path) -> None:
    wanted = Environment(("nothing==1",))
    place = tmp_path / "peer"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    (place / environments.MARKER).write_text(json.dumps(asdict(wanted), indent=1), encoding="utf-8")
    assert environments.make("peer", wanted, folder=tmp_path) == place / "bin" / "python"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (Environment((), programs=("no-such-program",)), "needs no-such-program on the PATH"),
        (Environment((), python="2.0"), "no Python 2.0 was found"),
        pytest.param(Environment(("./no-such-package",)), "ended with exit status 1", marks=pytest.mark.slow),
    ],
)
def test_an_environment_that_cannot_be_made_says_why(tmp_path: Path, environment: Environment, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        environments.make("peer", environment, folder=tmp_path)
    assert not (tmp_path / "peer" / environments.MARKER).exists()


def test_the_projects_own_contestants_use_this_interpreter() -> None:
    assert {environments.interpreter(name) for name in ("craton", "polars", "duckdb", "pandas")} == {
        Path(sys.executable)
    }


# ---- the command line ----


def test_the_entry_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)
    with pytest.raises(SystemExit):
        main(["--rows", "10"])
    assert "name the benchmark first" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["tpch", "--contestants", "excel"])
    assert "'excel' names no contestant" in capsys.readouterr().err
