"""Group-bys by Arrow floats: planned where a key has no -0.0 and no NaN, which pandas distinguishes from 0.0 and from missing values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import check

DOUBLE = pandas.ArrowDtype(pa.float64())


def doubles(values: Sequence[float | None]) -> pandas.Series:
    """A column in which NaN is not a missing value."""
    return pandas.Series(pandas.arrays.ArrowExtensionArray(pa.array(values, pa.float64(), from_pandas=False)))


def frame(keys: Sequence[float | None], dtype: str = "double[pyarrow]") -> pandas.DataFrame:
    rows = np.arange(len(keys))
    return pandas.DataFrame(
        {"k": doubles(keys).astype(dtype), "j": rows % 2, "v": rows * 1.5, "w": doubles([2.0 * row for row in rows])}
    )


PLAIN = [1.5, 0.0, 2.5, None, 1.5, -1.0, 0.0, None, np.inf, -np.inf, 1.5]
NONE_MISSING = [3.0, 0.0, 2.0, 3.0, 0.0]
ODD = {"zeros": [0.0, -0.0, 1.0, 0.0], "negative zero alone": [-0.0, 1.0, -0.0], "NaN": [1.0, np.nan, None, np.nan]}

METHODS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda groups: groups.sum(),
    "several": lambda groups: groups.agg({"v": ["min", "max"], "w": "mean"}),
    "size": lambda groups: groups.size(),
    "first": lambda groups: groups.first(),
    "nunique": lambda groups: groups["j"].nunique(),
    "transform": lambda groups: groups["v"].transform("sum"),
    "cumsum": lambda groups: groups["v"].cumsum(),
    "rank": lambda groups: groups["v"].rank(),
    "head": lambda groups: groups.head(1),
    "ngroup": lambda groups: groups.ngroup(),
    "cumcount": lambda groups: groups.cumcount(),
    "shift": lambda groups: groups["v"].shift(),
}


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("dropna", [True, False])
def test_keys_without_odd_floats(method: str, sort: bool, dropna: bool) -> None:
    for keys in (PLAIN, NONE_MISSING, [], [None, None]):
        for by in (["k"], ["k", "j"], ["j", "k"]):
            for as_index in (True, False):
                check(
                    lambda pd, a, by=by, as_index=as_index: METHODS[method](
                        a.groupby(by, sort=sort, dropna=dropna, as_index=as_index)
                    ),
                    frame(keys),
                    native=None,
                )


@pytest.mark.parametrize("keys", list(ODD))
@pytest.mark.parametrize("sort", [True, False])
def test_odd_floats_are_grouped_by_pandas(keys: str, sort: bool) -> None:
    for method in METHODS.values():
        check(lambda pd, a, method=method: method(a.groupby(["k", "j"], sort=sort)), frame(ODD[keys]), native=None)
    check(lambda pd, a: a.groupby("k", sort=sort)["v"].sum(), frame(ODD[keys]), native=False)


def test_single_floats() -> None:
    check(lambda pd, a: a.groupby("k")["v"].sum(), frame(PLAIN, "float[pyarrow]"))
    check(lambda pd, a: a.groupby("k")["v"].sum(), frame(ODD["zeros"], "float[pyarrow]"), native=False)


def test_planned_calls() -> None:
    check(lambda pd, a: a.groupby("k")["v"].sum(), frame(PLAIN))
    check(lambda pd, a: a.groupby(["k", "j"], as_index=False).agg(total=("w", "sum")), frame(PLAIN))


def test_odd_floats_that_were_dropped() -> None:
    """The values of the rows decide, not those of the column that they were selected from."""
    data = frame([0.0, -0.0, 1.0, np.nan, 2.0, 1.0])
    check(lambda pd, a: a[a["k"] > 0].groupby("k")["v"].sum(), data)
    check(lambda pd, a: a[a["j"] == 1].groupby("k")["v"].sum(), data, native=False)
    check(lambda pd, a: a.head(1).groupby("k")["v"].sum(), data)
    check(lambda pd, a: a.sort_values("v").tail(2).groupby("k")["v"].sum(), data)


def test_computed_keys() -> None:
    data = frame(PLAIN)
    check(lambda pd, a: a.groupby(a["k"] * 2)["v"].sum(), data)
    check(lambda pd, a: a.groupby(a["k"] * -1)["v"].sum(), data, native=False)  # 0.0 becomes -0.0
    check(lambda pd, a: a.groupby(a["k"] / a["k"], dropna=False)["v"].sum(), data)  # 0.0 / 0.0 is missing


def test_keys_of_joined_frames() -> None:
    data, other = frame(PLAIN), frame([0.0, 1.5, None, -0.0])[["k", "j", "w"]].rename(columns={"w": "x", "k": "l"})

    def program(pd: Any, a: Any, b: Any) -> Any:
        both = a.merge(b, on="j")
        left = a.merge(b.head(1), on="j", how="left")
        return both.groupby("k")["x"].sum(), both.groupby("l")["v"].sum(), left.groupby("l", dropna=False)["v"].sum()

    check(program, data, other, native=None)


def test_a_key_that_is_set_between_two_groupings() -> None:
    def program(pd: Any, a: Any) -> Any:
        before = a.groupby("k", dropna=False)["v"].sum()
        look = float(before.iloc[0])
        a.loc[1, "k"] = -0.0
        after = a.groupby("k", dropna=False)["v"].sum()
        a["k"] = a["k"] + 0.0
        return look, before, after, a.groupby("k")["v"].sum().reset_index().sort_values(["k", "v"])

    check(program, frame(PLAIN), native=None)


@pytest.mark.parametrize("keys", ["plain", *ODD])
def test_distinct_rows_and_values(keys: str) -> None:
    data = frame(PLAIN if keys == "plain" else ODD[keys])

    def program(pd: Any, a: Any) -> Any:
        first = a.drop_duplicates(["k", "j"])
        look = len(a["k"].drop_duplicates()), a[["k", "j"]].duplicated(keep="last").sum()
        counts = a.groupby("j")["k"].value_counts(dropna=False).sort_index(level=0)
        a.loc[0, "k"] = 2.5
        return look, first, counts, a.drop_duplicates(["k", "w"], keep=False), a["k"].unique(), a["k"].nunique()

    check(program, data, native=None)
    check(lambda pd, a: a.drop_duplicates(["k", "j"]), data, native=keys == "plain")
