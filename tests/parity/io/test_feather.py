"""read_feather and Arrow data in memory against pandas: dtypes, missing values, indexes, categories, bad files."""

from __future__ import annotations

import numpy as np
import pandas
import polars as pl
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from support import check

import craton
import craton.pandas as cp

FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 5],
        "f": [1.5, np.nan, -0.0, np.inf],
        "s": ["b", None, "a", ""],
        "t": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31"]),
        "z": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31"]).tz_localize("Europe/Berlin"),
        "d": pandas.to_timedelta([1, 2, None, 4], unit="s"),
        "b": [True, False, True, True],
        "n": pandas.array([1, None, 3, 4], dtype="Int64"),
        "m": pandas.array([True, None, False, True], dtype="boolean"),
        "a": pandas.array([1, None, 3, 4], dtype="int32[pyarrow]"),
        "c": pandas.Categorical(["x", None, "z", "x"], categories=["z", "x", "unused"]),
        "o": pandas.Categorical([2, 1, None, 1], categories=[3, 1, 2], ordered=True),
        "small": np.array([1, 2, 3, 4], dtype="int8"),
        "half": np.array([1, 2, 3, np.nan], dtype="float32"),
    }
)
TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int16()),
        "j": pa.array([1, 2, 3]),
        "u": pa.array([1, None, 2], pa.uint8()),
        "s": pa.array(["a", None, "c"]),
        "v": pa.array(["a", None, "c"], pa.string_view()),
        "f": pa.array([1.5, None, float("nan")], pa.float32()),
        "t": pa.array([1, None, 3], pa.timestamp("ms")),
        "b": pa.array([True, False, True]),
        "c": pa.array(["y", None, "x"]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("compression", ["lz4", "zstd", "uncompressed"])
def test_file(tmp_path, compression):
    FRAME.to_feather(tmp_path / "one.feather", compression=compression)
    check(lambda pd: pd.read_feather(tmp_path / "one.feather"))
    check(lambda pd: pd.read_feather(str(tmp_path / "one.feather"), columns=["s", "i"]))
    check(lambda pd: pd.read_feather(tmp_path / "one.feather").query("i > 1")["c"])


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_dtype_backend(tmp_path, backend):
    FRAME.drop(columns=["c", "o"]).to_feather(tmp_path / "one.feather")
    check(lambda pd: pd.read_feather(tmp_path / "one.feather", dtype_backend=backend))


def test_several_batches(tmp_path):
    with pa.OSFile(str(tmp_path / "many.arrow"), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
        for _ in range(3):
            writer.write_table(TABLE)
        writer.write_table(TABLE.slice(0, 0))
    check(lambda pd: pd.read_feather(tmp_path / "many.arrow"))


def test_no_rows(tmp_path):
    FRAME.drop(columns=["c", "o"]).head(0).to_feather(tmp_path / "empty.feather")
    check(lambda pd: pd.read_feather(tmp_path / "empty.feather"))


def test_stored_index(tmp_path):
    with pa.OSFile(str(tmp_path / "i.arrow"), "wb") as sink:
        table = pa.Table.from_pandas(pandas.DataFrame({"x": [1, 2]}, index=pandas.Index(["a", "b"], name="key")))
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    check(lambda pd: pd.read_feather(tmp_path / "i.arrow"))


def test_bad_files(tmp_path):
    FRAME.to_feather(tmp_path / "one.feather")
    data = (tmp_path / "one.feather").read_bytes()
    (tmp_path / "cut.feather").write_bytes(data[: len(data) // 2])
    (tmp_path / "none.feather").write_bytes(b"")
    assert isinstance(check(lambda pd: pd.read_feather(tmp_path / "nope.feather")), FileNotFoundError)
    assert check(lambda pd: pd.read_feather(tmp_path / "cut.feather")) is not None
    assert check(lambda pd: pd.read_feather(tmp_path / "none.feather")) is not None
    assert check(lambda pd: pd.read_feather(tmp_path / "one.feather", columns=["i", "nope"]), native=None) is not None


@pytest.mark.filterwarnings("ignore:Feather V1")
def test_feather_of_version_1(tmp_path):
    FRAME[["i", "s"]].to_feather(tmp_path / "old.feather", version=1)
    check(lambda pd: pd.read_feather(tmp_path / "old.feather"), native=False)


@pytest.mark.parametrize("rows", [0, 3])
def test_arrow_table(rows):
    table = TABLE.slice(0, rows) if rows else TABLE.drop_columns(["c"]).slice(0, 0)
    check(lambda pd: pd.DataFrame.from_arrow(table))
    check(lambda pd: pd.DataFrame.from_arrow(table)[["s", "i"]])


def test_arrow_table_of_chunks():
    check(lambda pd: pd.DataFrame.from_arrow(pa.concat_tables([TABLE, TABLE])))
    other = TABLE.set_column(8, "c", pa.array(["w", "x", "y"]).dictionary_encode())
    check(lambda pd: pd.DataFrame.from_arrow(pa.concat_tables([TABLE, other])))


def test_pandas_metadata_in_a_table():
    check(lambda pd: pd.DataFrame.from_arrow(pa.Table.from_pandas(FRAME.set_index("s"))))
    check(lambda pd: pd.DataFrame.from_arrow(pa.Table.from_pandas(FRAME.set_axis(range(5, 13, 2)))))


def test_polars_frame():
    frame = pl.DataFrame({"a": [1, None, 3], "b": ["x", "y", None], "c": [0.5, None, 2.0]})
    expected = pandas.DataFrame.from_arrow(frame)
    with craton.option_context(small_rows=0):
        for got in (
            cp.from_polars(frame),
            cp.from_polars(frame.lazy()),
            cp.from_arrow(frame),
            cp.DataFrame.from_arrow(frame),
        ):
            assert type(got) is cp.DataFrame
            pandas.testing.assert_frame_equal(pandas.DataFrame(got), expected)
        series = cp.from_polars(frame["b"])
        assert type(series) is cp.Series
        pandas.testing.assert_series_equal(pandas.Series(series), pandas.Series.from_arrow(frame["b"]))
    with pytest.raises(TypeError, match="from_polars takes a Polars"):
        cp.from_polars([1, 2])


@pytest.mark.parametrize("name", TABLE.column_names)
def test_arrow_array(name):
    check(lambda pd: pd.Series.from_arrow(TABLE.column(name)))
    check(lambda pd: pd.Series.from_arrow(TABLE.column(name).chunk(0)))


def test_no_arrow_data():
    assert isinstance(check(lambda pd: pd.DataFrame.from_arrow([1, 2])), TypeError)
    assert isinstance(check(lambda pd: pd.Series.from_arrow([1, 2])), TypeError)


def test_nested_columns_fall_back():
    check(lambda pd: pd.DataFrame.from_arrow(pa.table({"a": [[1, 2], None]})), native=False)


@pytest.mark.parametrize("attrs", [{}, {"q": 1}, {"a": [1, "b"], "c": {"d": None}}])
def test_attrs(tmp_path, attrs):
    frame = pandas.DataFrame({"x": range(20), "y": ["a"] * 20})
    frame.attrs = attrs
    frame.to_feather(tmp_path / "x.feather")

    def read(pd, **named):
        return pd.read_feather(tmp_path / "x.feather", **named)

    for named in ({}, {"columns": ["x"]}, {"dtype_backend": "pyarrow"}):
        check(lambda pd, named=named: read(pd, **named).attrs == attrs, native=None)
        check(lambda pd, named=named: read(pd, **named).head(3)["x"].attrs == attrs, native=None)


@pytest.mark.parametrize("kind", ["feather", "parquet", "arrow"])
def test_attrs_that_pyarrow_wrote(tmp_path, kind):
    """pyarrow stores ``attrs`` in an entry of its own in the metadata. Changes to a frame's ``attrs`` do not affect the next read."""
    frame = pandas.DataFrame({"x": range(20), "y": ["a"] * 20})
    frame.attrs = {"a": {"b": [1]}}
    table = pa.Table.from_pandas(frame)
    path = tmp_path / "x"
    pf.write_feather(table, path)
    pq.write_table(table, tmp_path / "x.parquet")
    if kind == "parquet":
        path = tmp_path / "x.parquet"

    def program(pd):
        def read():
            return pd.DataFrame.from_arrow(table) if kind == "arrow" else getattr(pd, f"read_{kind}")(path)

        first = read()
        first.attrs["a"]["b"].append(2)
        second = read()
        return [str(first.attrs), str(second.attrs), str((second["x"] + 1).attrs), str(second[second["x"] > 3].attrs)]

    assert "[1, 2]" in check(program, native=None)[0]
