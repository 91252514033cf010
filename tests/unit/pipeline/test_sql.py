"""Queries in SQL as sources: of files with DuckDB, of databases by a URL or a function that opens a connection."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import craton
from craton.pipeline import SQL, Input, PipelineFailed
from craton.store import Store


@craton.step
def doubled(sales: pd.DataFrame) -> pd.DataFrame:
    return sales.assign(twice=sales["paid"] * 2)


@craton.step
def total(doubled: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"total": [doubled["twice"].sum()], "rows": [len(doubled)]})


@pytest.fixture
def frame() -> pd.DataFrame:
    """Rows with missing values, in no order."""
    rng = np.random.default_rng(3)
    paid = rng.choice([1.5, -2.0, 0.0, None], 50).astype(float)
    return pd.DataFrame({"id": rng.permutation(50), "paid": paid, "place": rng.choice(["a", "é", None], 50)})


@pytest.fixture
def database(frame: pd.DataFrame, tmp_path: Path) -> Path:
    """A file of SQLite with the rows."""
    path = tmp_path / "sales.db"
    with sqlite3.connect(path) as connection:
        frame.to_sql("sales", connection, index=False)
    connection.close()
    return path


def run(source: Any, store: Store, given: Input | None = None, **options: Any) -> Any:
    """What a step takes of a source."""

    @craton.step(inputs={"sales": given or Input()}, takes="pandas", **options)
    def same(sales: Any) -> Any:
        return sales

    return craton.Pipeline([same], sources={"sales": source}).run(store=store, in_process=True)


def test_a_pipeline_over_a_database(frame: pd.DataFrame, database: Path, store: Store) -> None:
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(database, check_same_thread=False))
        return opened[-1]

    source = SQL("SELECT * FROM sales WHERE paid > ? ORDER BY id DESC", connect, parameters=[0.5], name="sales")
    pipeline = craton.Pipeline([doubled, total, source])
    expected = frame[frame["paid"] > 0.5].sort_values("id", ascending=False).reset_index(drop=True)
    for _ in range(2):  # without a version the steps run again
        result = pipeline.run(store=store)
        pd.testing.assert_frame_equal(result["doubled"], expected.assign(twice=expected["paid"] * 2))
        assert result["total"].to_dict("list") == {"total": [expected["paid"].sum() * 2], "rows": [len(expected)]}
        assert result.steps.loc["doubled", "state"] == "ran"
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM sales WHERE paid > 1")
    connection.close()
    assert pipeline.run(store=store)["total"]["rows"].item() == 0
    assert len(opened) == 3
    for one in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            one.execute("SELECT 1")


def test_columns_and_rows_that_a_step_takes(frame: pd.DataFrame, database: Path, store: Store) -> None:
    source = SQL("SELECT * FROM sales", lambda: sqlite3.connect(database))
    found = run(source, store, Input(columns=["place", "id"], where="paid < 1"))["same"]
    expected = frame[frame["paid"] < 1][["place", "id"]]
    assert found["id"].tolist() == expected["id"].tolist()
    assert found["place"].isna().tolist() == expected["place"].isna().tolist()
    assert found["place"].dropna().tolist() == expected["place"].dropna().tolist()


def test_with_a_version_unchanged_steps_are_cached(database: Path, store: Store) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(database)

    def states(version: str, query: str = "SELECT id FROM sales") -> str:
        found: str = run(SQL(query, connect, version=version), store).steps.loc["same", "state"]
        return found

    assert [states("monday"), states("monday"), states("tuesday")] == ["ran", "cached", "ran"]
    assert states("tuesday", "SELECT id FROM sales LIMIT 3") == "ran"


@pytest.mark.parametrize("given", [Input(), Input(columns=["place", "id"]), Input(columns=["id"], where="paid == 1.5")])
def test_files_are_queried_with_duckdb(frame: pd.DataFrame, given: Input, tmp_path: Path, store: Store) -> None:
    pytest.importorskip("duckdb")
    frame.to_parquet(tmp_path / "one.parquet", index=False)
    frame.assign(id=frame["id"] + 50).to_parquet(tmp_path / "two.parquet", index=False)
    query = f"SELECT * FROM '{tmp_path}/*.parquet' WHERE id >= $least ORDER BY id"
    found = run(SQL(query, parameters={"least": 10}), store, given)["same"]
    both = pd.concat([frame, frame.assign(id=frame["id"] + 50)])
    expected = both[both["id"] >= 10].sort_values("id")
    if given.where is not None:
        expected = expected[expected["paid"] == 1.5]
    expected = expected[list(given.columns or expected.columns)].reset_index(drop=True)
    pd.testing.assert_frame_equal(found.reset_index(drop=True).astype(expected.dtypes), expected, check_dtype=False)


def test_what_duckdb_returns_is_arrow(store: Store) -> None:
    pytest.importorskip("duckdb")

    @craton.step
    def same(numbers: pa.Table) -> pa.Table:
        return numbers

    result = craton.Pipeline([same], sources={"numbers": SQL("SELECT range AS n FROM range(5)")}).run(store=store)
    assert result["same"].equals(pa.table({"n": pa.array(range(5), pa.int64())}))


def test_urls_of_sqlalchemy(frame: pd.DataFrame, database: Path, store: Store) -> None:
    pytest.importorskip("sqlalchemy")
    found = run(SQL("SELECT id FROM sales WHERE id < :most", f"sqlite:///{database}", parameters={"most": 9}), store)
    assert found["same"]["id"].tolist() == [one for one in frame["id"] if one < 9]


def test_connections_of_adbc(frame: pd.DataFrame, database: Path, store: Store) -> None:
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi")
    found = run(SQL("SELECT id FROM sales", lambda: dbapi.connect(str(database))), store)
    assert found["same"]["id"].tolist() == frame["id"].tolist()


def test_errors_name_the_source(database: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PipelineFailed, match=r"sales(.|\n)*no such table: salse"):
        run(SQL("SELECT * FROM salse", lambda: sqlite3.connect(database)), store)
    with pytest.raises(TypeError, match="a query in SQL is a text, not int"):
        SQL(3)  # type: ignore[arg-type]
    with sqlite3.connect(database) as connection, pytest.raises(TypeError, match="URL or a function"):
        SQL("SELECT 1", connection)  # type: ignore[arg-type]
    connection.close()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(PipelineFailed, match="needs the library duckdb"):
        run(SQL("SELECT 1 AS a"), store)


def test_drawings_show_the_query() -> None:
    assert SQL("SELECT  a,\n  b FROM t").detail() == "SELECT a, b FROM t"
    assert len(SQL("SELECT " + "a, " * 40 + "b FROM t").detail()) == 60
