"""Polars, PyArrow, DuckDB, SQLAlchemy and sqlite3 read the frames of an accelerated program, and return the same as with pandas."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerated import DATA, check

POLARS = {
    "to Polars": """
        import polars as pl
        for made in (pl.from_pandas(frame), pl.DataFrame(frame), pl.from_dataframe(frame)):
            print(type(made).__module__, made.shape, dict(made.schema), made["count"].sum(), made["colour"].n_unique())
        print(pl.from_pandas(frame.set_index("colour"), include_index=True).columns, pl.from_pandas(frame.index).sum())
        print(pl.from_pandas(frame["width"]).name, pl.Series(frame["colour"]).value_counts(sort=True).height)
        print(pl.DataFrame({"a": frame["width"], "b": frame["count"]}).shape, pl.Series("x", frame["width"].to_numpy()).len())
    """,
    "and back": """
        import polars as pl
        back = pl.from_pandas(frame).filter(pl.col("count") > 3).to_pandas()
        print(isinstance(back, pd.DataFrame), back.dtypes.to_string(), back["width"].sum().round(8))
        print(pd.concat([frame, back])["count"].sum(), pd.merge(frame, back, on="day").shape, (frame["count"] == back["count"].sum()).sum())
    """,
}

ARROW = {
    "to PyArrow": """
        import pyarrow as pa
        plain = frame[["width", "colour", "day", "count"]]
        for made in (pa.table(plain), pa.Table.from_pandas(plain), pa.RecordBatchReader.from_stream(plain).read_all()):
            print(made.schema.remove_metadata(), made.num_rows, sum(made["count"].to_pylist()))
        print(pa.table(frame).schema.field("grade").type, pa.table(frame).schema.metadata.keys())
        print(pa.Table.from_pandas(frame.set_index("colour")).column_names, pa.Table.from_pandas(frame, preserve_index=False).column_names)
        for column in (frame["width"], frame["colour"], frame["grade"]):
            print(pa.array(column).type, pa.chunked_array(column).length() if hasattr(column, "__arrow_c_stream__") else len(column))
    """,
    "and back": """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
        table = pa.Table.from_pandas(frame)
        back = table.filter(pc.greater(table["count"], 3)).to_pandas()
        print(back.dtypes.to_string(), back.index[:5].tolist(), back["height"].sum().round(8))
        pq.write_table(table, "table.parquet")
        print(pd.read_parquet("table.parquet").equals(frame), pd.DataFrame.from_arrow(table).shape)
        print(pd.Series(table["count"].combine_chunks(), dtype="int64[pyarrow]").sum())
    """,
    "the memory of a column": """
        import pyarrow as pa
        floats = pd.Series(np.arange(1000.0))
        shared = pa.array(floats).buffers()[1].address == floats.to_numpy().ctypes.data
        print(shared, np.shares_memory(np.asarray(floats), floats.to_numpy()), np.shares_memory(np.from_dlpack(floats.to_numpy()), floats))
    """,
}

DUCKDB = {
    "names of variables": """
        import duckdb
        print(duckdb.sql("select colour, sum(count)::int as total from frame group by colour order by colour").fetchall())
        half = frame[frame["count"] > 4]
        print(duckdb.sql("select count(*), avg(width) from half where grade = 'low'").fetchall())
        other = frame.groupby("colour")["width"].mean().reset_index()
        found = duckdb.sql("select f.colour, f.width - o.width as d from frame f join other o using (colour) order by f.day").df()
        print(isinstance(found, pd.DataFrame), found.dtypes.to_string(), found["d"].abs().sum().round(8))
        def local():
            doubled = frame.assign(twice=frame["count"] * 2)
            return duckdb.sql("select sum(twice)::int from doubled").fetchall()
        print(local())
    """,
    "registered, and as relations": """
        import duckdb
        with duckdb.connect() as connection:
            connection.register("things", frame)
            print(connection.execute("describe things").fetchall())
            connection.execute("create table kept as select * from things where big = 1")
            connection.append("kept", frame[frame["big"] == 0])
            print(connection.execute("select count(*), max(day) from kept").fetchall())
        relation = duckdb.from_df(frame).filter("count > 3").aggregate("colour, count(*) as n").order("colour")
        print(relation.df().to_string(), relation.pl().shape)
    """,
}

SQL = {
    "sqlite3": """
        import sqlite3
        connection = sqlite3.connect(":memory:")
        print(frame.to_sql("things", connection, index=False), frame["width"].to_sql("widths", connection, index_label="row"))
        read = pd.read_sql("select colour, count, day from things where big = 1", connection, parse_dates=["day"])
        print(isinstance(read, pd.DataFrame), read.dtypes.to_string(), read.groupby("colour")["count"].sum().to_string())
        print(sum(len(part) for part in pd.read_sql("select * from widths", connection, chunksize=50)))
        frame[frame["count"] > 5].to_sql("things", connection, if_exists="append", index=False, method="multi", chunksize=20)
        print(pd.read_sql_query("select count(*) as n from things", connection)["n"].item())
        connection.close()
    """
}

SQLALCHEMY = {
    "SQLAlchemy": """
        import sqlalchemy
        engine = sqlalchemy.create_engine("sqlite://")
        with engine.begin() as connection:
            print(frame.to_sql("things", connection, dtype={"colour": sqlalchemy.String(10)}))
        things = sqlalchemy.Table("things", sqlalchemy.MetaData(), autoload_with=engine)
        with engine.connect() as connection:
            query = sqlalchemy.select(things.c.colour, things.c.width).where(things.c.count > 3)
            read = pd.read_sql(query, connection, index_col="colour")
            print(read.shape, read["width"].sum().round(8))
            whole = pd.read_sql_table("things", connection, index_col="index")
            print(whole.dtypes.to_string(), whole["day"].max(), (whole["width"] - frame["width"]).abs().max())
        engine.dispose()
    """
}


@pytest.mark.parametrize("programs", [POLARS, ARROW, SQL], ids=["polars", "pyarrow", "sqlite3"])
def test_without_other_packages(programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(programs, DATA, tmp_path)


def test_duckdb(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    check(DUCKDB, DATA, tmp_path)


def test_sqlalchemy(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    check(SQLALCHEMY, DATA, tmp_path)
