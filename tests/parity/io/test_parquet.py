"""read_parquet against pandas: files, folders, patterns, partitions, stored indexes, filters, bad files."""

from __future__ import annotations

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 5, 4, 0],
        "f": [1.5, np.nan, -0.0, 2.5, np.inf, 1.0],
        "s": ["b", None, "a", "c", "b", ""],
        "t": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31", "2020-01-02", "1970-01-01"]),
        "b": [True, False, True, True, False, False],
        "n": pandas.array([1, None, 3, 4, None, 6], dtype="Int64"),
        "g": ["x", "x", "y", "y", "z", "z"],
    }
)


@pytest.fixture
def folder(tmp_path):
    FRAME.to_parquet(tmp_path / "one.parquet")
    return tmp_path


def test_file(folder):
    check(lambda pd: pd.read_parquet(folder / "one.parquet"))
    check(lambda pd: pd.read_parquet(str(folder / "one.parquet"), columns=["s", "i"]))


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_dtype_backend(folder, backend):
    check(lambda pd: pd.read_parquet(folder / "one.parquet", dtype_backend=backend))


def test_folder_of_files(tmp_path):
    for i in range(3):
        FRAME.assign(i=FRAME.i + 10 * i).to_parquet(tmp_path / f"part-{i}.parquet")
    check(lambda pd: pd.read_parquet(tmp_path))
    check(lambda pd: pd.read_parquet(tmp_path)[["i", "f"]])


def test_pattern(tmp_path):
    FRAME.to_parquet(tmp_path / "a-1.parquet")
    FRAME.assign(i=7).to_parquet(tmp_path / "a-2.parquet")
    FRAME.assign(i=8).to_parquet(tmp_path / "b.parquet")
    names = [tmp_path / "a-1.parquet", tmp_path / "a-2.parquet"]
    expected = pandas.read_parquet(names)
    import craton.pandas as cp

    pandas.testing.assert_frame_equal(pandas.DataFrame(cp.read_parquet(f"{tmp_path}/a-*.parquet")), expected)


def test_hive_partitions(tmp_path):
    FRAME.to_parquet(tmp_path / "data", partition_cols=["g"])
    check(lambda pd: pd.read_parquet(tmp_path / "data"))
    check(lambda pd: pd.read_parquet(tmp_path / "data")["g"])


@pytest.mark.parametrize(
    "index",
    [
        pandas.Index(list("abcdef"), name="key"),
        pandas.Index([5, 4, 3, 2, 1, 0]),
        pandas.MultiIndex.from_product([[1, 2, 3], ["u", "v"]], names=["one", "two"]),
        pandas.RangeIndex(6, name="rows"),
    ],
    ids=["named", "unnamed", "multi", "range"],
)
def test_stored_index(tmp_path, index):
    FRAME.set_axis(index).to_parquet(tmp_path / "one.parquet")
    check(lambda pd: pd.read_parquet(tmp_path / "one.parquet"))
    check(lambda pd: pd.read_parquet(tmp_path / "one.parquet", columns=["f"]))


def test_stored_range_from_elsewhere(tmp_path):
    FRAME.set_axis(pandas.RangeIndex(10, 22, 2)).to_parquet(tmp_path / "one.parquet")
    check(lambda pd: pd.read_parquet(tmp_path / "one.parquet"), native=None)


@pytest.mark.parametrize(
    "filters",
    [
        [("i", ">", 2)],
        [("f", ">", 1.0)],
        [("f", "!=", 1.5)],
        [("s", "==", "b"), ("i", "<=", 3)],
        [[("i", "==", 5)], [("s", "in", ["a", ""])]],
        [("t", ">=", pandas.Timestamp("2020-01-01"))],
    ],
)
def test_filters(folder, filters):
    check(lambda pd: pd.read_parquet(folder / "one.parquet", filters=filters))


def test_integers_with_missing_values_become_floats(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {"i": pa.array([1, None, 3]), "j": pa.array([1, 2, 3], pa.int32()), "u": pa.array([1, None, 2], pa.uint8())}
    )
    pq.write_table(table, tmp_path / "ints.parquet")
    check(lambda pd: pd.read_parquet(tmp_path / "ints.parquet"))
    pq.write_table(table, tmp_path / "bare.parquet", write_statistics=False)
    check(lambda pd: pd.read_parquet(tmp_path / "bare.parquet"))


def test_no_rows(tmp_path):
    FRAME.head(0).to_parquet(tmp_path / "empty.parquet")
    check(lambda pd: pd.read_parquet(tmp_path / "empty.parquet"))


def test_missing_file(tmp_path):
    assert isinstance(check(lambda pd: pd.read_parquet(tmp_path / "nope.parquet")), FileNotFoundError)


def test_unknown_column(folder):
    assert check(lambda pd: pd.read_parquet(folder / "one.parquet", columns=["i", "nope"]), native=None) is not None


def test_truncated_file(folder):
    data = (folder / "one.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(data[: len(data) // 2])
    assert check(lambda pd: pd.read_parquet(folder / "cut.parquet")) is not None


def test_damaged_pages_raise_what_pandas_raises(folder):
    frame = pandas.DataFrame({"x": np.random.default_rng(0).random(50_000)})
    frame.to_parquet(folder / "bad.parquet")
    data = bytearray((folder / "bad.parquet").read_bytes())
    data[200:6000] = b"\xff" * 5800
    (folder / "bad.parquet").write_bytes(bytes(data))
    check(lambda pd: pd.read_parquet(folder / "bad.parquet"), native=None)


@pytest.mark.parametrize(
    "filters",
    [None, [("y", ">", 100)], [("y", ">", 1)], [("y", "<", 1)], [[("y", "==", 3)], [("y", "==", 5)]]],
    ids=str,
)
@pytest.mark.parametrize(
    "dtype", ["int64", "uint8", "bool", "float64", "string", "timestamp[us]", "date32", "dictionary"]
)
def test_what_filters_leave_decides_on_dtypes(tmp_path, dtype, filters):
    given = {"bool": [True, None, False, True], "string": ["a", None, "b", "c"], "dictionary": ["a", None, "b", "c"]}
    stored = pa.array(given.get(dtype, [1, None, 3, 4]))
    stored = (
        stored.dictionary_encode() if dtype == "dictionary" else stored.cast(dtype if dtype != "date32" else "int32")
    )
    stored = stored.cast("date32") if dtype == "date32" else stored
    pq.write_table(pa.table({"s": stored, "y": [-4, -4, 3, 5]}), tmp_path / "a.parquet", row_group_size=2)

    def program(pd):
        frame = pd.read_parquet(tmp_path / "a.parquet", filters=filters)
        return frame, frame["s"].isna().sum(), frame.assign(z=frame["s"])["z"].dtype, frame.groupby("y")["s"].max()

    check(program, native=None)


@pytest.mark.parametrize("filters", [None, [("s", ">", 1)], [("s", ">", 0)], [("s", ">", 9)]], ids=str)
@pytest.mark.parametrize(
    "levels", [["range", "k"], ["k", "range"], ["range"], ["numbers", "k"], ["range", "range"]], ids=str
)
def test_a_range_among_the_levels(tmp_path, levels, filters):
    """pandas stores a RangeIndex level in the metadata instead of a column, so it applies only if all rows are read."""
    stored = {"range": pandas.RangeIndex(3, name="r"), "k": pandas.Index(["a", "b", "c"], name="k")}
    stored["numbers"] = pandas.Index([5, 6, 8])
    frame = pandas.DataFrame({"s": [1, 2, 3]})
    for number, level in enumerate(levels):
        frame = frame.set_index(stored[level], append=number > 0)
    frame.to_parquet(tmp_path / "a.parquet")

    def program(pd):
        read = pd.read_parquet(tmp_path / "a.parquet", filters=filters)
        return read, read.index.nlevels, list(read.index.names), read[read["s"] > 1].reset_index(), read["s"].sum()

    check(program, native=None)
