"""read_sql, read_sql_query, read_sql_table and to_sql against pandas: sqlite3, and SQLAlchemy and ADBC where they are installed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pandas
import pytest
from support import case_id, check

import craton
import craton.pandas as cp

ROWS = pandas.DataFrame(
    {
        "i": [3, 1, 2, 5] * 50,
        "f": [1.5, None, -2.0, 0.25] * 50,
        "s": ["x", None, "yy", "z"] * 50,
        "t": pandas.date_range("2020-01-01", periods=200, freq="h"),
    }
)


@pytest.fixture
def con() -> Iterator[Any]:
    with contextlib.closing(sqlite3.connect(":memory:")) as con:
        ROWS.to_sql("rows", con, index=False)
        yield con


def _sqlalchemy() -> Iterator[Any]:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    ROWS.to_sql("rows", engine, index=False)
    yield engine
    engine.dispose()


def _adbc() -> Iterator[Any]:
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi")
    with dbapi.connect() as con:
        ROWS.assign(t=ROWS["t"].astype(str)).to_sql("rows", con, index=False)
        yield con


@pytest.fixture(params=[_sqlalchemy, _adbc], ids=["sqlalchemy", "adbc"])
def other(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield from request.param()


READS = [
    {},
    {"index_col": "i"},
    {"index_col": ["s", "i"]},
    {"parse_dates": ["t"]},
    {"parse_dates": {"t": "%Y-%m-%d %H:%M:%S"}},
    {"coerce_float": False},
    {"dtype_backend": "numpy_nullable"},
    {"dtype_backend": "pyarrow"},
    {"dtype": {"i": "float64"}},
]


def steps(frame: Any) -> tuple[Any, ...]:
    """Filter, look, count, group, add a column, take a number."""
    some = frame[frame["f"] > 0]
    frame = frame.assign(more=frame["f"] * 2)
    return frame, some.head(3), frame.isna().sum(), frame.groupby("s")["f"].agg(["sum", "count"]), frame["more"].max()


@pytest.mark.parametrize("named", READS, ids=case_id)
def test_queries(con: Any, named: dict[str, Any]) -> None:
    check(lambda pd: steps(pd.read_sql_query("select * from rows", con, **named)), native=None)
    check(lambda pd: steps(pd.read_sql("select * from rows where i > 1", con, **named)), native=None)


@pytest.mark.parametrize("named", READS, ids=case_id)
def test_queries_of_other_libraries(other: Any, named: dict[str, Any]) -> None:
    check(lambda pd: steps(pd.read_sql_query("select * from rows", other, **named)), native=None)
    if "dtype" not in named:
        check(lambda pd: steps(pd.read_sql("rows", other, **named)), native=None)
        check(lambda pd: pd.read_sql_table("rows", other, columns=["f", "s"])["f"].sum(), native=None)


@pytest.mark.parametrize("size", [1, 60, 200, 1000])
def test_chunks(con: Any, size: int) -> None:
    def program(pd: Any) -> Any:
        parts = pd.read_sql_query("select * from rows", con, chunksize=size)
        first = next(parts)
        totals = [first.groupby("s")["f"].sum(), *(part[part["i"] > 1].groupby("s")["f"].sum() for part in parts)]
        return type(parts).__name__, first, pd.concat(totals).groupby(level=0).sum()

    check(program, native=None)
    with craton.option_context(small_rows=0):
        assert all(type(part) is cp.DataFrame for part in cp.read_sql("select * from rows", con, chunksize=70))


def test_chunks_that_are_not_read(con: Any) -> None:
    """Closing the generator closes the cursor, so that the table can be dropped."""
    parts = cp.read_sql_query("select * from rows", con, chunksize=10)
    assert len(next(parts)) == 10
    parts.close()
    con.execute("drop table rows")
    with pytest.raises(StopIteration):
        next(parts)


def test_only_needed_columns_of_a_table_are_selected() -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    ROWS.to_sql("rows", engine, index=False)
    queries: list[str] = []
    sqlalchemy.event.listen(engine, "before_cursor_execute", lambda *args: queries.append(args[2]))
    with craton.option_context(small_rows=0):
        got = cp.read_sql_table("rows", engine, columns=["i", "f"])
        assert list(got.columns) == ["i", "f"]
        assert got[got["i"] > 2]["f"].sum() == ROWS[ROWS["i"] > 2]["f"].sum()
    selected = [query for query in queries if query.startswith("SELECT rows.")]
    assert len(selected) == 1
    assert "rows.s" not in selected[0]
    engine.dispose()


WRITES = [
    {},
    {"index": False},
    {"index_label": "n"},
    {"chunksize": 30},
    {"dtype": {"i": "REAL"}},
    {"method": "multi", "chunksize": 20},
    {"if_exists": "replace"},
    {"if_exists": "append"},
    {"if_exists": "fail"},
    {"if_exists": "nope"},
]
CHANGES = {
    "all": lambda f: f,
    "filtered": lambda f: f[f["i"] > 1],
    "computed": lambda f: f.assign(z=f["f"] * 2)[["z", "i"]],
    "groups": lambda f: f.groupby("s")["f"].sum(),
    "indexed": lambda f: f.set_index("s")[["i"]],
}


@pytest.mark.parametrize("named", WRITES, ids=case_id)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_written_tables(tmp_path: Any, named: dict[str, Any], change: Any) -> None:
    ROWS.to_parquet(tmp_path / "x.parquet")

    def program(pd: Any) -> Any:
        with contextlib.closing(sqlite3.connect(":memory:")) as con:
            frame = change(pd.read_parquet(tmp_path / "x.parquet"))
            if named.get("if_exists") in ("append", "fail"):
                frame.to_sql("out", con, **{**named, "if_exists": "replace"})
            written = frame.to_sql("out", con, **named)
            return written, pd.read_sql("select * from out", con), con.execute("select count(*) from out").fetchall()

    check(program, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda pd, con: pd.read_sql("select * from nope", con),
        lambda pd, con: pd.read_sql("rows", con),
        lambda pd, con: pd.read_sql_table("rows", con),
        lambda pd, con: pd.read_sql("select * from rows", None),
        lambda pd, con: pd.read_sql("select * from rows", con, index_col="nope"),
        lambda pd, con: pd.read_sql("select * from rows", con, chunksize=-1),
        lambda pd, con: list(pd.read_sql("select * from rows", con, chunksize="x")),
        lambda pd, con: pd.read_sql("select * from rows", con, parse_dates=["s"]),
        lambda pd, con: pd.read_sql("select * from rows", con, dtype_backend="nope"),
        lambda pd, con: pd.read_sql("select * from rows where i = ?", con, params=(1,)),
        lambda pd, con: pd.read_sql("select * from rows where i = ?", con),
        lambda pd, con: pd.read_sql("select i, i from rows", con),
        lambda pd, con: pd.read_sql("select * from rows where i > 99", con),
        lambda pd, con: pd.read_sql("not sql", con),
        lambda pd, con: pd.read_sql("select * from rows", "nope://"),
    ],
)
def test_bad_calls(con: Any, call: Any) -> None:
    def program(pd: Any) -> Any:
        try:
            return call(pd, con)
        except Exception as error:
            return type(error), str(error).partition(" at 0x")[0]

    check(program, native=None)
