"""read_orc and to_orc against pandas: dtypes, columns, missing values, files that are not what they should be."""

from __future__ import annotations

import datetime
import decimal

import fsspec
import numpy as np
import pandas
import pyarrow as pa
import pytest
from pyarrow import orc
from support import case_id, check

import craton
import craton.pandas as cp

ROWS = pandas.DataFrame(
    {
        "i": [3, 1, 2] * 40,
        "f": [1.5, None, -2.0] * 40,
        "s": ["x", None, "yy"] * 40,
        "b": [True, False, True] * 40,
        "t": pandas.date_range("2020-01-01", periods=120, freq="D"),
        "small": np.arange(120, dtype="int8"),
        "nullable": pandas.array([1, None, 3] * 40, dtype="Int64"),
        "flag": [True, None, False] * 40,
        "day": [datetime.date(2020, 1, 1), None, datetime.date(1999, 12, 31)] * 40,
        "money": [decimal.Decimal("1.50"), None, decimal.Decimal("-3.25")] * 40,
    }
)


@pytest.fixture
def path(tmp_path):
    ROWS.to_orc(tmp_path / "x.orc")
    return tmp_path / "x.orc"


STEPS = {
    "all": lambda pd, f: (f, f.dtypes, len(f), f.attrs),
    "sum": lambda pd, f: f["i"].sum(),
    "some": lambda pd, f: f[f["i"] > 1].head(5),
    "groups": lambda pd, f: f.groupby("s")["f"].agg(["sum", "count"]),
    "dates": lambda pd, f: f[f["t"] >= "2020-03-01"]["i"].mean(),
    "missing": lambda pd, f: (f.isna().sum(), f["nullable"].sum(), f["nullable"].dtype),
    "changed": lambda pd, f: (f.assign(z=f["i"] * 2), f["i"].max()),
    "objects": lambda pd, f: f[["day", "money", "flag"]].tail(4),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("named", [{}, {"dtype_backend": "numpy_nullable"}, {"dtype_backend": "pyarrow"}], ids=str)
def test_programs(path, step, named):
    check(lambda pd: step(pd, pd.read_orc(path, **named)), native=None)


def test_what_is_planned(path):
    check(lambda pd: pd.read_orc(path, columns=["i", "s", "f", "b"]).query("i > 1").groupby("s")["f"].sum())
    check(lambda pd: pd.read_orc(str(path))["t"].max())
    with craton.option_context(small_rows=0):
        assert "_view" in cp.read_orc(path).__dict__


@pytest.mark.parametrize(
    "columns",
    [["i"], ["s", "i"], ["i", "i"], [], ["nope"], [1], ("i",), "i", ["t", "nope"], None, ["flag"]],
    ids=case_id,
)
def test_columns(path, columns):
    check(lambda pd: pd.read_orc(path, columns=columns), native=None)
    check(lambda pd: len(pd.read_orc(path, columns=columns)), native=None)


def test_only_needed_columns_are_read(path, monkeypatch):
    read = []
    theirs = orc.ORCFile.read_stripe

    def read_stripe(self, number, columns=None):
        read.append(sorted(columns))
        return theirs(self, number, columns)

    monkeypatch.setattr(orc.ORCFile, "read_stripe", read_stripe)
    with craton.option_context(small_rows=0, result_memory=0):
        frame = cp.read_orc(path)
        assert frame[frame["i"] > 1]["f"].count() == 80
        assert frame["small"].sum() == sum(range(120))
    assert {tuple(columns) for columns in read} == {("f", "i"), ("small",)}


def test_several_stripes(tmp_path):
    rows = pa.table({"a": range(200_000), "b": [None if i % 7 == 0 else str(i % 50) for i in range(200_000)]})
    orc.write_table(rows, tmp_path / "x.orc", stripe_size=100_000)
    assert orc.ORCFile(tmp_path / "x.orc").nstripes > 1
    check(lambda pd: pd.read_orc(tmp_path / "x.orc"))
    check(lambda pd: pd.read_orc(tmp_path / "x.orc").groupby("b")["a"].sum())
    check(lambda pd: pd.read_orc(tmp_path / "x.orc").iloc[70_000:70_010])


def test_nested_types(tmp_path):
    nested = pa.table({"a": [1, 2], "l": [[1], [2, 3]], "s": [{"x": 1}, {"x": 2}], "z": pa.array([b"x", None])})
    orc.write_table(nested, tmp_path / "x.orc")
    check(lambda pd: pd.read_orc(tmp_path / "x.orc"), native=None)
    check(lambda pd: pd.read_orc(tmp_path / "x.orc", columns=["a"]), native=None)
    check(lambda pd: pd.read_orc(tmp_path / "x.orc", columns=["s.x"]), native=None)


def test_empty_files(tmp_path):
    ROWS[["i", "f", "t", "b"]].head(0).to_orc(tmp_path / "x.orc")
    check(lambda pd: pd.read_orc(tmp_path / "x.orc"), native=None)
    check(lambda pd: pd.read_orc(tmp_path / "x.orc")["i"].sum(), native=None)


def test_bad_files(tmp_path, path):
    for name, data in [("no", b"no orc"), ("empty", b""), ("cut", path.read_bytes()[:-20])]:
        (tmp_path / name).write_bytes(data)
        check(lambda pd, name=name: pd.read_orc(tmp_path / name), native=None)
    check(lambda pd: pd.read_orc(tmp_path / "nope.orc"), native=None)
    check(lambda pd: pd.read_orc(path, dtype_backend="nope"), native=None)
    check(lambda pd: pd.read_orc(3), native=None)
    check(lambda pd: pd.read_orc(tmp_path), native=None)


def test_a_file_that_changes(path):
    with craton.option_context(small_rows=0):
        frame, other = cp.read_orc(path), cp.read_orc(path)
        new = path.with_name("new.orc")
        ROWS.head(2).to_orc(new)
        new.replace(path)
        assert frame["i"].sum() == ROWS["i"].sum()
        frame = cp.read_orc(path)
        path.write_bytes(b"something else")
        with pytest.raises(craton.errors.SourceChanged):
            frame["i"].sum()
    assert len(other) == len(ROWS)


def test_file_systems(path):
    fsspec.filesystem("memory").pipe("/orc/x.orc", path.read_bytes())
    check(lambda pd: pd.read_orc("memory://orc/x.orc", columns=["i", "s"]).groupby("s")["i"].sum(), native=None)
    check(lambda pd: pd.read_orc(f"file://{path}")["i"].sum(), native=None)
    with open(path, "rb") as file:
        check(lambda pd: (file.seek(0), pd.read_orc(file)["i"].sum())[1], native=None)


WRITTEN = {
    "plain": lambda f: f,
    "filtered": lambda f: f[f["i"] > 1],
    "reset": lambda f: f[f["i"] > 1].reset_index(drop=True),
    "indexed": lambda f: f.set_index("s"),
    "named": lambda f: f.rename_axis("n"),
    "unsigned": lambda f: f.assign(u=f["i"].astype("uint8")),
    "category": lambda f: f.assign(c=f["s"].astype("category")),
    "computed": lambda f: f.assign(z=f["f"] * 2)[["z", "t"]],
}


@pytest.mark.parametrize("change", WRITTEN.values(), ids=WRITTEN)
def test_written_files(tmp_path, change):
    ROWS.to_parquet(tmp_path / "x.parquet")
    for index in (None, True, False):

        def program(pd, index=index):
            frame = change(pd.read_parquet(tmp_path / "x.parquet"))
            result = frame.to_orc(tmp_path / "out.orc", index=index)
            return result, pd.read_orc(tmp_path / "out.orc")

        check(program, native=None)
    check(lambda pd: type(change(pd.read_parquet(tmp_path / "x.parquet")).to_orc()), native=None)


def test_a_file_is_written_over_itself(tmp_path):
    def program(pd):
        path = tmp_path / "x.orc"
        ROWS.to_orc(path)
        frame = pd.read_orc(path)
        frame.to_orc(path)
        again = pd.read_orc(path)
        again[again["i"] > 1].reset_index(drop=True).to_orc(path)
        return frame["i"].sum(), again["f"].sum(), pd.read_orc(path)

    check(program, native=None)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    """pandas truncates the file before it raises; Craton's plan fails first, and otherwise the call is pandas' own."""
    path = tmp_path / "out.orc"
    with craton.option_context(small_rows=0):
        frame = cp.DataFrame({"a": [1, 2, 3]})
        frame.to_orc(path)
        with pytest.raises(ValueError, match="non-default index"):
            frame[frame["a"] > 1].to_orc(path)
    assert pandas.read_orc(path)["a"].tolist() == [1, 2, 3]
