"""``Series.cat``, durations from text and numbers, their components, and ``update``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

CATEGORIES = {
    "texts": pandas.Categorical(["b", "a", None, "b"], categories=["b", "c", "a"]),
    "ordered": pandas.Categorical(["b", "a", "b", "c"], categories=["c", "b", "a"], ordered=True),
    "numbers": pandas.Categorical([3, 1, None, 3]),
    "dates": pandas.Categorical(pandas.to_datetime(["2020-01-01", None, "2021-05-05", "2020-01-01"])),
    "missing": pandas.Categorical([None] * 4, categories=["a"]),
    "none": pandas.Categorical([None] * 4),
    "many": pandas.Categorical.from_codes([0, 199, 5, -1], categories=[f"c{i}" for i in range(200)]),
}
MEMBERS: dict[str, Callable[[Any], Any]] = {
    "codes": lambda c: c.cat.codes,
    "categories": lambda c: c.cat.categories,
    "ordered": lambda c: c.cat.ordered,
    "as_ordered": lambda c: c.cat.as_ordered(),
    "as_unordered": lambda c: c.cat.as_unordered(),
    "add": lambda c: c.cat.add_categories(["zz", "y"]),
    "add again": lambda c: c.cat.add_categories(c.cat.categories[:1]),
    "remove": lambda c: c.cat.remove_categories(c.cat.categories[:1]),
    "remove unknown": lambda c: c.cat.remove_categories(["unknown"]),
    "remove unused": lambda c: c.cat.remove_unused_categories(),
    "rename by list": lambda c: c.cat.rename_categories([f"n{i}" for i in range(len(c.cat.categories))]),
    "rename by dict": lambda c: c.cat.rename_categories({"a": "q", 3: 4}),
    "rename by function": lambda c: c.cat.rename_categories(lambda name: f"<{name}>"),
    "rename to equal ones": lambda c: c.cat.rename_categories(["x"] * len(c.cat.categories)),
    "reorder": lambda c: c.cat.reorder_categories(c.cat.categories[::-1], ordered=True),
    "reorder some": lambda c: c.cat.reorder_categories(["a"]),
    "set": lambda c: c.cat.set_categories(["a", "new", 3]),
    "set and rename": lambda c: c.cat.set_categories(["p", "q"], rename=True),
    "unknown": lambda c: c.cat.unknown,
    "setting": lambda c: setattr(c.cat, "categories", ["a"]),
    "codes of a chain": lambda c: c.cat.as_ordered().cat.set_categories(["a", "b"]).cat.codes.sum(),
    "extremes": lambda c: c.cat.as_ordered().max(),
    "sorted": lambda c: c.cat.reorder_categories(c.cat.categories[::-1]).sort_values(kind="stable"),
    "groups": lambda c: c.groupby(c.cat.remove_unused_categories(), observed=True).size(),
}


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("data", CATEGORIES)
def test_members_of_categories(data: str, name: str) -> None:
    frame = pandas.DataFrame({"c": CATEGORIES[data], "n": range(4)}, index=[3, 1, 1, 0])

    def program(pd: Any, df: Any) -> Any:
        rows = df[df["n"] > 0]
        df["d"] = df["c"]
        found = MEMBERS[name](rows["c"]), MEMBERS[name](df["c"])
        df["c"] = None
        return *found, df

    check(program, frame, native=None)
    check(lambda pd, df: MEMBERS[name](df["c"]), frame.head(0), native=None)


def test_members_of_categories_are_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        df["code"] = df["c"].cat.codes
        df["c"] = df["c"].cat.rename_categories({"a": "A"}).cat.remove_unused_categories().cat.as_ordered()
        return df[df["code"] >= 0], df.groupby("c", observed=True)["n"].sum(), df["c"].cat.categories

    check(program, pandas.DataFrame({"c": CATEGORIES["texts"], "n": range(4)}))


def test_no_categories() -> None:
    check(lambda pd, s: s.cat.codes, pandas.Series([1, 2]), native=None)


SPANS = {
    "texts": pandas.Series(["1 days", "2h", "00:03:04.5", "-1 days +02:03:04"], dtype="str"),
    "odd texts": pandas.Series(["1 days", "x", None, "NaT", ""], dtype="str"),
    "fine texts": pandas.Series(["1us", "1ns"], dtype="str"),
    "integers": pandas.Series([0, -1, 86_401, 10**6]),
    "huge integers": pandas.Series([0, 2**62]),
    "small integers": pandas.Series([1, -128], dtype="int8"),
    "floats": pandas.Series([1.5, np.nan]),
    "spans": pandas.Series(pandas.to_timedelta([1, None], unit="h")),
    "nullable": pandas.Series([1, None], dtype="Int64"),
    "none": pandas.Series([], dtype="str"),
}


@pytest.mark.parametrize("data", SPANS)
@pytest.mark.parametrize("unit", [None, "s", "D", "ms", "ns", "min"])
@pytest.mark.parametrize("errors", ["raise", "coerce"])
def test_durations(data: str, unit: Any, errors: Any) -> None:
    def program(pd: Any, column: Any) -> Any:
        spans = pd.to_timedelta(column, unit=unit, errors=errors)
        return spans, spans.sum(), spans[spans > pd.Timedelta(0)], spans.dt.components, spans.dt.total_seconds()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(program, SPANS[data].rename("d"), native=None)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_components_of_durations(unit: str) -> None:
    numbers = [0, 1, -1, 86_399_999_999_999, -86_400_000_000_001, 123_456_789_012_345, 10**15 + 7]
    spans = pandas.Series(np.array(numbers, dtype="m8[ns]").astype(f"m8[{unit}]"), name="d")

    def program(pd: Any, d: Any) -> Any:
        parts = d.dt.components
        return parts, parts["hours"].sum(), d[d.notna()].dt.components, parts[parts["days"] < 0], d.dt.days

    check(program, spans)
    check(program, pandas.concat([spans, pandas.Series([pandas.NaT], dtype=spans.dtype)]), native=None)
    check(program, spans.head(0), native=None)


def test_durations_are_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        df["d"] = pd.to_timedelta(df["n"], unit="min")
        df["e"] = pd.to_timedelta(df["t"])
        df["n"] = 0
        return df, df["d"].dt.components["hours"].max(), df[df["d"] > df["e"]]

    check(program, pandas.DataFrame({"n": [100, 200, -5], "t": ["1h", "2h", "1 days"]}))


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ([1.0, np.nan, 3.0], [np.nan, 5.0, 6.0]),
        ([1, 2, 3], [4, 5, 6]),
        ([1, 2, 3], [4.5, np.nan, 6.0]),
        (["a", None, "c"], [None, "x", "y"]),
        (pandas.Series([1, None, 3], dtype="Int64"), pandas.Series([None, 5, 6], dtype="Int64")),
    ],
    ids=str,
)
def test_update(own: Any, other: Any) -> None:
    data = pandas.DataFrame({"own": own, "other": other})

    def program(pd: Any, df: Any) -> Any:
        column = df["own"].copy()
        answer = column.update(df["other"])
        alias = df["own"]
        column.update(pd.Series(df["other"].tolist()))
        last = df["other"].copy()
        last.update([1, 2, 3])
        return answer, column, alias, df, last

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(program, data, native=None)


def test_update_is_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        column = df["x"] * 2
        before = column + 0
        column.update(df["y"])
        df["y"] = 0.0
        return column, before, column.sum()

    check(program, pandas.DataFrame({"x": [1.0, np.nan, 3.0], "y": [np.nan, 5.0, 6.0]}))


@pytest.mark.parametrize("column", ["x", "k", "c", "t"])
def test_codes_and_places_of_values(column: str) -> None:
    data = pandas.DataFrame(
        {
            "x": [2.0, np.nan, 1.0, 2.0],
            "k": pandas.Series(["b", None, "a", "b"], dtype="str"),
            "c": pandas.Categorical(["v", "u", None, "v"]),
            "t": pandas.to_datetime(["2020-02-01", None, "2020-01-01", "2020-02-01"]),
        }
    )

    def program(pd: Any, df: Any) -> Any:
        rows = df[df[column].notna()]
        codes, kinds = df[column].factorize()
        ranked, ordered = rows[column].factorize(sort=True, use_na_sentinel=False)
        codes[0] = 7
        places = rows[column].sort_values(kind="stable").searchsorted(rows[column].iloc[0], side="right")
        return codes, kinds, ranked, ordered, places, df[column]

    check(program, data)
    check(program, data.head(0), native=None)
