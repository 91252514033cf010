"""Columns of frames in memory, which pandas selects without a scan, in programs that plan later calls over them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

import craton
import craton.pandas as pd
from craton.pandas.core.lazy import view
from craton.pandas.core.routing import is_lazy

ROWS = 50


def data() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "i": rng.integers(0, 6, ROWS),
        "j": rng.integers(0, 4, ROWS),
        "f": np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(size=ROWS).round(3)),
        "h": rng.random(ROWS).round(3),
        "s": pandas.Series([None if n % 9 == 0 else f"t{n % 5}" for n in range(ROWS)], dtype="str"),
        "c": pandas.Categorical([f"c{n % 3}" for n in range(ROWS)]),
        "t": pandas.date_range("2024-01-30", periods=ROWS, freq="7h"),
        "n": pandas.array([None if n % 7 == 0 else n for n in range(ROWS)], dtype="Int64"),
        "o": [n if n % 2 else str(n) for n in range(ROWS)],
    }


INDEXES: dict[str, Any] = {
    "default": None,
    "labels": [f"r{n}" for n in range(ROWS)],
    "duplicates": [n // 2 for n in range(ROWS)],
    "times": pandas.date_range("2020", periods=ROWS, freq="h"),
    "levels": pandas.MultiIndex.from_arrays([[n // 10 for n in range(ROWS)], list(range(ROWS))], names=["a", "b"]),
}


def _key_of_the_frame(pd: Any, df: Any) -> Any:
    key = df["i"]
    before = df.groupby(key).sum(numeric_only=True)
    df["z"] = df["h"] * 2
    return before, df.groupby(key).sum(numeric_only=True), df.groupby([key, df["s"]]).size()


def _key_after_a_planned_change(pd: Any, df: Any) -> Any:
    key, cast = df["i"], df["i"].astype("int64")
    few = df[df["f"] > 0]
    df["z"] = few["h"].sum()
    df["y"] = few["h"]
    return df.groupby(key).sum(numeric_only=True), df.groupby(cast).sum(numeric_only=True)


def _key_of_a_part(pd: Any, df: Any) -> Any:
    part = df[["i", "h"]]
    part["w"] = part["h"] + 1
    key = part["w"].round()
    part["y"] = df[df["f"] > 0]["h"]
    return part.groupby(part["i"]).sum(), part.groupby(key).sum()


def _renamed_key(pd: Any, df: Any) -> Any:
    key = df["i"].rename("k")
    return df.groupby(key)["h"].sum(), df.groupby(df.rename(columns={"j": "q"})["q"])[["h", "f"]].max()


def _frame_changed_after(pd: Any, df: Any) -> Any:
    column, part = df["f"], df[["f", "h"]]
    df.loc[df["i"] > 2, "f"] = -1.0
    df["h"] = 0.0
    return column.sum(), part[part["f"] > 0], df[df["f"] < 0], column[df["i"] == 1]


def _column_changed_after(pd: Any, df: Any) -> Any:
    column, part = df["f"], df[["s", "h"]]
    mask = df["s"].str.startswith("t1")
    column.iloc[:5] = 7.0
    part.loc[part.index[0], "h"] = 9.0
    return df[mask], column[column > 1], part[part["h"] > 0.5], df["f"].sum(), part.groupby("s")["h"].sum()


def _array_changed_after(pd: Any, df: Any) -> Any:
    array = np.arange(float(len(df)))
    frame = pd.DataFrame({"a": array, "b": array}, index=df.index, copy=False)
    a, b = frame["a"], frame["b"]
    first = frame[frame["a"] > 3].groupby("a")["b"].sum()
    array[5] = 100.0
    second = a[a > 50], frame.groupby(b).size(), frame[["b"]][frame["a"] > 50]
    array[6] = 200.0
    return first, second, a.sum(), frame[frame["b"] > 50]


def _renamed_labels(pd: Any, df: Any) -> Any:
    column = df["h"]
    df.index.name = "rows"
    other = df["f"]
    column.index = column.index[::-1]
    return column + other, df.groupby(column).size().head(3), other[other > 0], column[df["i"] > 2].sum()


def _names(pd: Any, df: Any) -> Any:
    column = df["h"]
    column.name = "other"
    part = df[["h", "i"]]
    part.columns = ["i", "h"]
    return column[column > 0.5], part[part["i"] > 0.5], part.groupby("h")["i"].sum(), part.merge(df, on="h").head()


def _temporary(pd: Any, df: Any) -> Any:
    column, part = pd.DataFrame(df.copy())["s"], pd.DataFrame(df.copy())[["s", "h"]]
    gc.collect()
    return column[column == "t1"], part[part["s"] == "t1"], column.value_counts(), part.groupby("s")["h"].mean()


def _chosen_by_dtype(pd: Any, df: Any) -> Any:
    numbers, rest = df.select_dtypes("number"), df.select_dtypes(exclude="number")
    numbers["z"] = numbers["i"] + 1
    return numbers[numbers["f"] > 0].sum(), rest[df["i"] > 2], rest.shape, numbers


def _assigned(pd: Any, df: Any) -> Any:
    made = df.assign(a=df["h"] + 1, e=lambda d: d["a"] * 2, g=lambda d: d.groupby("s")["e"].transform("sum"))
    made["a"] = 0.0
    twice = df.assign(i=lambda d: d["i"] + 1, j=lambda d: d["i"] * 2)
    return made, twice[twice["j"] > 4], df["h"].sum(), df.assign(z=lambda d: 1).drop(columns="z")


def _cells(pd: Any, df: Any) -> Any:
    labels = [df.index[0], df.index[3]]
    found = [df.loc[label, "h"] for label in labels if not isinstance(label, tuple)]
    return found, [df.iloc[3, 2], df.iloc[-1, 0], df.iat[2, 3]], df.loc[df.index[2]], df.loc[df.index[1], ["i", "s"]]


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "key of the frame": _key_of_the_frame,
    "key after a planned change": _key_after_a_planned_change,
    "key of a part": _key_of_a_part,
    "renamed key": _renamed_key,
    "frame changed after": _frame_changed_after,
    "column changed after": _column_changed_after,
    "array changed after": _array_changed_after,
    "renamed labels": _renamed_labels,
    "names": _names,
    "temporary": _temporary,
    "chosen by dtype": _chosen_by_dtype,
    "assigned": _assigned,
    "cells": _cells,
    "duplicate columns": lambda pd, df: df.set_axis(list("aabcdefgh"), axis=1)[["a", "c"]].head(3),
    "reversed columns": lambda pd, df: (df[["h", "f", "j", "i"]].to_numpy().shape, df[["h", "f"]].T.iloc[:, 0]),
    "columns of dates": lambda pd, df: (
        df[["f", "h"]].set_axis(pd.to_datetime(["2020-01-01", "2021-02-01"]), axis=1)[["2020-01-01"]].sum()
    ),
    "columns of one name": lambda pd, df: df[df["i"] > 2].set_axis(list("aabcdefgh"), axis=1)[["b", "a"]],
    "rows and columns": lambda pd, df: (df.loc[df["i"] > 2, ["s", "h"]], df.loc[df["i"] > 2, ["s"]].count()),
    "rows and unknown columns": lambda pd, df: df.loc[df["i"] > 2, ["s", "nothing"]],
    "repeated columns": lambda pd, df: df[["h", "h"]].sum(),
    "unknown column": lambda pd, df: df[["h", "nothing"]],
    "unknown label": lambda pd, df: df.loc["nothing", "h"],
    "empty": lambda pd, df: (df.iloc[:0]["s"].value_counts(), df.iloc[:0][["s", "h"]].groupby("s").sum()),
    "parts joined": lambda pd, df: (
        df[["i", "s"]].merge(df[["j", "h"]], left_on="i", right_on="j").groupby("s")["h"].sum()
    ),
    "any": lambda pd, df: ((df["i"] > 2).any(), df[["i", "j"]].any(), df[["h", "f"]].to_numpy().sum(axis=0)[0]),
}


def _compare(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _compare(one, other)
    elif isinstance(expected, pandas.DataFrame):
        assert_frame_equal(pandas.DataFrame(found), expected)
    elif isinstance(expected, pandas.Series):
        assert_series_equal(pandas.Series(found), expected)
    else:
        assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("rows", [1, 0], ids=["in memory", "planned"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("index", INDEXES)
def test_programs(index, name, rows):
    labels = INDEXES[index]
    if name == "array changed after" and not rows:
        return  # a plan reads the array when it is built

    def run(module: Any) -> Any:
        made = pandas.DataFrame(data())
        return PROGRAMS[name](module, module.DataFrame(made if labels is None else made.set_axis(labels)))

    with craton.option_context(small_rows=rows):
        try:
            expected = run(pandas)
        except Exception as error:
            with pytest.raises(type(error)):
                run(pd)
            return
        _compare(run(pd), expected)


def test_a_column_is_not_scanned():
    with craton.option_context(small_rows=1):
        df = pd.DataFrame(data())
        part, column = df[["i", "h"]], df["f"]
        assert not is_lazy(part)
        assert not is_lazy(column)
        assert "_scan" not in df.__dict__
        assert np.shares_memory(column.to_numpy(), df["f"].to_numpy())


def test_plans_over_a_frame_and_its_columns_have_one_source():
    with craton.option_context(small_rows=1):
        df = pd.DataFrame(data())
        part, column = df[["i", "h"]], df["f"]
        assert view(column).base is view(df).base
        assert view(part).base is view(df).base
        assert view(part["h"]).base is view(df).base
        df["f"] = 0.0
        assert view(column).base is not view(df).base


def test_a_column_keeps_no_other_column():
    with craton.option_context(small_rows=1):
        df = pd.DataFrame({"a": np.arange(5.0), "s": list("abcde"), "b": np.arange(5)})
        column = df["s"]
        _ = view(df)
        array = df._mgr.blocks[df._mgr.blknos[0]].values
        del df
        gc.collect()
        assert len([one for one in gc.get_referrers(array) if type(one).__name__ == "Block"]) == 0
        assert column[column > "b"].tolist() == ["c", "d", "e"]


@pytest.mark.parametrize("dtype", ["str", "string[pyarrow]", "string[python]", object])
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_texts_selected_by_filters(dtype, rows):
    def run(module: Any) -> Any:
        texts = pandas.array([None if n % 5 == 0 else f"text {n % 7}" for n in range(rows)], dtype=dtype)
        values = {"s": texts, "g": texts[::-1], "x": np.arange(rows) % 6, "c": pandas.Categorical(["a"] * rows)}
        df = module.DataFrame(values)
        kept = df[df["x"] > 1]
        again = kept[kept["x"] < 5]
        named = again.assign(u=again["s"].str.upper(), v=again["g"])
        few = df.dropna(subset=["s"])
        few["w"] = few["s"] + "!"
        shifted = df.assign(p=df["s"].shift(1))
        odd = df.set_index("g")
        return (
            kept,
            again[["g", "s"]],
            named[named["x"] != 3],
            few,
            few[few["x"] == 2]["w"],
            shifted[shifted["x"] > 3],
            odd[odd["x"] > 1],
            kept.reset_index()[["s", "index"]],
            kept["s"].value_counts(),
            kept.sort_values("x", kind="stable")["s"],
        )

    with craton.option_context(small_rows=0):
        _compare(run(pd), run(pandas))
