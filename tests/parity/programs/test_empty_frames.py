"""Frames without columns, without rows, and without either: in memory, selected, filtered, and from files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

CALLS = {
    name: eval(f"lambda pd, df: {name}")
    for name in """
df.dropna()
df.dropna(how='all')
df.dropna(thresh=1)
df.dropna(axis=1)
df.drop_duplicates()
df.duplicated()
df.count()
df.sum()
df.mode()
df.nunique()
df.describe() if len(df.columns) else None
df.head(2)
df.iloc[1:]
df.iloc[::-1]
df.sort_index(ascending=False)
df.reset_index()
df.reset_index(drop=True)
df.assign(z=1)
df.isna()
df.isna().any(axis=1)
df.fillna(0)
df.shift()
df.cumsum()
df.isin([1])
df.melt()
df.T
(df.shape, len(df), df.empty, df.index, df.columns)
pd.concat([df, df])
pd.concat([df, df], axis=1) if df.index.is_unique else None
df.merge(df, left_index=True, right_index=True)
df.value_counts() if len(df.columns) else None
df == df
df + 1
df.select_dtypes('number')
df.sort_values([])
df.drop(index=df.index[:1])
df[[]]
df.loc[df.index[:1]]
df.set_axis(range(len(df)))
df[df.index == df.index]
df.to_csv()
df.groupby(level=0).size()
list(df.itertuples(name=None))
repr(df)
""".strip().splitlines()
}
LABELS = {
    "range": pandas.RangeIndex(3),
    "labels": pandas.Index(["a", "b", "a"], name="label"),
    "none": pandas.RangeIndex(0),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_frame_without_columns(call, labels, tmp_path):
    check_sources(call, pandas.DataFrame(index=labels), tmp_path)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_columns_of_a_frame(call, tmp_path):
    data = pandas.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "x"]})
    check_sources(lambda pd, df: call(pd, df[[]]), data, tmp_path)
    check_sources(lambda pd, df: call(pd, df[df.a > 1][[]]), data, tmp_path)
    check_sources(lambda pd, df: call(pd, df.set_index("b")[[]]), data, tmp_path)
    check_sources(lambda pd, df: call(pd, df[df.a > 1].select_dtypes("datetime")), data, tmp_path)


def test_labels_of_a_frame_without_columns_are_of_any_number():
    def program(pd: Any, df: Any) -> Any:
        empty = df[[]]
        empty.index = ["p", "q"]
        return empty, len(empty)

    check(program, pandas.DataFrame({"a": [1, 2, 3]}), native=None)


FRAMES = {
    "range": pandas.DataFrame({"a": pandas.Series([], dtype="int64"), "t": pandas.Series([], dtype="str")}),
    "labels": pandas.DataFrame({"a": pandas.Series([], dtype="int64")}, index=pandas.Index([], dtype="str", name="q")),
    "levels": pandas.DataFrame({"a": [1], "b": [2], "z": [1.0]}).set_index(["a", "b"]).iloc[:0],
    "named": pandas.DataFrame({"a": [1]}, index=pandas.Index([1], name="q")).iloc[:0],
    "category": pandas.DataFrame({"a": pandas.Categorical(["a"]), "d": pandas.to_datetime(["2020"])}).iloc[:0],
    "no category": pandas.DataFrame({"a": pandas.Categorical([])}),
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    "named", [{}, {"keep": "last"}, {"keep": False}, {"ignore_index": True}, {"subset": []}], ids=str
)
def test_duplicates_of_no_rows(named, data, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        none = df[df.index != df.index]
        counted = {key: item for key, item in named.items() if key != "ignore_index"}
        found = [df.duplicated(**counted), none.duplicated(**counted), df.iloc[:, 0].drop_duplicates()]
        return found, df.drop_duplicates(**named), none.drop_duplicates(**named)

    check_sources(program, data, tmp_path)


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES)
def test_facts_of_no_rows(data, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        first = df.iloc[:, 0]
        return df.count(), first.count(), first.nunique(), first.unique(), first.isna().sum(), first.value_counts()

    check_sources(program, data, tmp_path)


@pytest.mark.parametrize("dtype", ["int64", "float64", "str", "bool", "datetime64[ns]", "Int64", "category"])
def test_steps_over_no_rows(dtype, tmp_path):
    data = pandas.DataFrame({"a": pandas.Series([], dtype=dtype), "k": pandas.Series([], dtype="int64")})

    def program(pd: Any, df: Any) -> Any:
        none = df[df.k > 0]
        parts = [df.a.shift(1), none.a.shift(-1), none.a.isin([1]), df.a.map({}), df.a.where(df.k > 1)]
        return parts, df.merge(none, on="k"), pd.concat([df, none]), none.groupby("k").a.count(), df.sort_values("a")

    check_sources(program, data, tmp_path)


def test_a_file_with_columns_of_which_none_is_read(tmp_path):
    pandas.DataFrame({"a": np.arange(3)}).to_parquet(tmp_path / "a.parquet")
    check(lambda pd: pd.read_parquet(tmp_path / "a.parquet", columns=[]).shape, native=None)
    check(lambda pd: len(pd.read_parquet(tmp_path / "a.parquet", columns=[]).reset_index()), native=None)


@pytest.mark.parametrize("dtype", ["str", "string[pyarrow]", "string[python]", object])
@pytest.mark.parametrize("index", [None, "g", "text"])
@pytest.mark.parametrize("pattern", ["(a)", "(?P<q>a)(b)?"])
def test_extract_without_rows(pattern, index, dtype):
    """pandas replaces the row labels by a RangeIndex."""
    labels = {None: None, "g": pandas.Index([5, 7], name="g"), "text": ["x", "y"]}[index]
    data = pandas.DataFrame({"s": pandas.array(["ab", "b"], dtype=dtype)}, index=labels)

    def program(pd, df):
        none = df[df["s"] == "z"]["s"]
        some = df[df["s"] != "z"]["s"]
        return [
            (rows.str.extract(pattern), rows.str.extract(pattern).reset_index(), rows.str.extract("(b)", expand=False))
            for rows in (none, some)
        ]

    check(program, data, native=None)


@pytest.mark.parametrize("rows", [0, 3, 20_000])
@pytest.mark.parametrize(
    "dtype", ["int64", "int8", "uint32", "float64", "float32", "bool", "datetime64[us]", "timedelta64[s]", "Int64"]
)
def test_arrays_of_no_rows(dtype: str, rows: int) -> None:
    """NumPy may read the memory that an empty array points to, for example in a masked cast, so the memory must be valid."""
    data = pandas.DataFrame({"i": np.arange(rows), "x": pandas.Series(np.arange(rows) % 2).astype(dtype)})

    def program(pd: Any, df: Any) -> Any:
        none = df[df["i"] < 0]
        array = np.asarray(none["x"])
        out = np.zeros(0)
        np.copyto(out, none["i"], where=none["i"] > 1)
        chosen = np.select([none["i"] > 0, none["i"] > 3], [none["x"], none["x"]])
        part = np.where(none["i"] > 0, none["x"], none["x"].shift())
        return len(none), array, out, chosen, part, none["x"].to_numpy(), none.to_numpy(), none["x"].count()

    check(program, data, native=None)
