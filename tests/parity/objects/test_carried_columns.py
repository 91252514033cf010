"""Columns and row labels of dtypes that plans carry: objects, complex numbers, periods, intervals and sparse arrays."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import case_id, check

import craton
import craton.pandas
from craton import fallbacks
from craton.refusals import Reason, Refusal

ARRAYS: dict[str, Callable[[], Any]] = {
    "objects": lambda: np.array([1, "a", None, 2.5, np.nan, True, "a"], dtype=object),
    "texts": lambda: np.array(["a", "b", None, "c", np.nan, "a", "b"], dtype=object),
    "integers": lambda: np.array([3, 1, 2, 2, 1, 5, 6], dtype=object),
    "complex": lambda: np.array([1j, 2, np.nan, 1, 1, 0, 2]),
    "periods": lambda: (
        pandas.PeriodIndex(["2020-01", None, "2019-12", "2020-01", "2020-02", "2020-03", None], freq="M").array
    ),
    "intervals": lambda: pandas.interval_range(0, 7).array,
    "intervals with missing ones": lambda: pandas.arrays.IntervalArray.from_tuples(
        [(0, 1), np.nan, (1, 2), (0, 1)] * 2
    )[:7],
    "sparse": lambda: pandas.arrays.SparseArray([0, 1, 2, 0, 0, 1, 1]),
}
#: Programs whose calls are all planned, for every one of these dtypes.
PLANNED: dict[str, Callable[[Any, Any], Any]] = {
    "slice": lambda pd, s: s.iloc[1:4],
    "rows": lambda pd, s: s.iloc[[3, 0, 0, 2]],
    "mask": lambda pd, s: s[pd.Series([True, False] * 3 + [True])],
    "labels": lambda pd, s: s.loc[[2, 1]],
    "one row": lambda pd, s: [s.iloc[0], s.loc[3]],
    "frame": lambda pd, s: s.to_frame("x").assign(y=range(7)).sort_values("y", ascending=False).head(3),
    "column": lambda pd, s: pd.DataFrame({"x": s, "y": 1})["x"],
    "assigned": lambda pd, s: pd.DataFrame({"y": range(7)}).assign(x=s).query("y > 2"),
    "unique rows": lambda pd, s: pd.DataFrame({"x": s, "y": [1, 1, 2, 2, 3, 3, 3]}).drop_duplicates("y"),
    "joined": lambda pd, s: pd.DataFrame({"x": s, "k": range(7)}).merge(pd.DataFrame({"k": [3, 1, 1]}), on="k"),
    "empty": lambda pd, s: s.iloc[:0],
    "reordered": lambda pd, s: s.reindex([5, 0, 1]),
    "renamed": lambda pd, s: s.rename("other").reset_index(drop=True),
    "as objects": lambda pd, s: s.astype(object),
    "rows as objects": lambda pd, s: s.astype(object).iloc[[2, 1]],
    "as text": lambda pd, s: s.astype(str),
    "labels of the same values": lambda pd, s: s.to_frame("x").assign(x=s)["x"].tail(2),
}


def series(kind: str) -> pandas.Series:
    return pandas.Series(ARRAYS[kind](), name="x", dtype=ARRAYS[kind]().dtype)


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("program", PLANNED.values(), ids=PLANNED)
def test_planned(program: Callable[..., Any], kind: str) -> None:
    check(program, series(kind))


@pytest.mark.parametrize("kind", [kind for kind in ARRAYS if kind != "sparse"])
def test_missing_values(kind: str) -> None:
    check(lambda pd, s: [s.isna(), s.notna(), s.dropna(), s.iloc[[2, 1, 1]].isna()], series(kind))
    check(lambda pd, s: pd.DataFrame({"x": s, "y": [1, None, 2, 3, 4, 5, 6]}).dropna(), series(kind))


def test_missing_values_that_joins_add() -> None:
    def joined(pd: Any, s: Any) -> Any:
        found = pd.DataFrame({"x": s, "k": range(7)}).merge(pd.DataFrame({"k": [3, 99, 1]}), how="right")["x"]
        return [found, found.isna(), found == "a", found != 1, found.dropna()]

    check(joined, series("objects"))
    for kind in ("periods", "intervals", "sparse", "complex"):
        others = pandas.DataFrame({"k": [9, 1]})
        check(
            lambda pd, s, right=others: pd.DataFrame({"x": s, "k": range(7)}).merge(right, how="right"),
            series(kind),
            native=None,
        )


SCALARS = ["a", 1, 2.5, True, None, np.nan, pandas.NaT, 1j, datetime.date(2020, 1, 1), decimal.Decimal(1), np.int8(1)]
SCALARS += [pandas.Period("2020-01", freq="M"), pandas.Period("2020", freq="Y"), pandas.Interval(0, 1), "2020-01"]


@pytest.mark.parametrize("scalar", SCALARS, ids=case_id)
@pytest.mark.parametrize("kind", ARRAYS)
def test_comparisons(kind: str, scalar: Any) -> None:
    for program in (
        lambda pd, s: s == scalar,
        lambda pd, s: s != scalar,
        lambda pd, s: scalar == s,
        lambda pd, s: s < scalar,
        lambda pd, s: s.iloc[[4, 2, 0]] >= scalar,
        lambda pd, s: s[s == scalar],
    ):
        check(program, series(kind), native=None)


def test_comparisons_that_are_planned() -> None:
    check(lambda pd, s: [s == "a", s != 1, s[s == 2.5], s.to_frame() == "a"], series("objects"))
    check(lambda pd, s: [s > "2020-01", s == pd.Period("2020-01", freq="M")], series("periods"))
    check(lambda pd, s: s == pandas.Interval(1, 2), series("intervals"))


class Counted:
    """An object whose comparisons are counted."""

    calls = 0

    def __eq__(self, other: object) -> bool:
        Counted.calls += 1
        return False

    __hash__ = None  # type: ignore[assignment]


def test_objects_of_users_are_compared_once() -> None:
    Counted.calls = 0
    with craton.option_context(small_rows=0):
        objects = craton.pandas.Series([Counted(), Counted(), 3], dtype=object)
        assert (objects.iloc[:2] == 1).tolist() == [False, False]
    assert Counted.calls == 2


# -- casts to objects -------------------------------------------------------------------------------------------------

SOURCES: dict[str, pandas.Series] = {
    "int64": pandas.Series([3, 1, 2]),
    "int8": pandas.Series([3, 1, 2], dtype="int8"),
    "uint64": pandas.Series([3, 1, 2**63], dtype="uint64"),
    "float64": pandas.Series([1.5, np.nan, -0.0]),
    "float32": pandas.Series([1.5, np.nan, 0.1], dtype="float32"),
    "bool": pandas.Series([True, False, True]),
    "str": pandas.Series(["a", None, "b"]),
    "string": pandas.Series(["a", None, "b"], dtype="string"),
    "datetime64": pandas.Series(pandas.to_datetime(["2020-01-01", None, "1969-12-31"])),
    "datetime64 with zone": pandas.Series(
        pandas.to_datetime(["2020-01-01", None, "1969-12-31"]).tz_localize("Europe/Paris")
    ),
    "timedelta64": pandas.Series(pandas.to_timedelta([1, None, -2], unit="h")),
    "Int64": pandas.Series([1, None, 2], dtype="Int64"),
    "boolean": pandas.Series([True, None, False], dtype="boolean"),
    "Float64": pandas.Series([1.5, None, 2], dtype="Float64"),
    "category": pandas.Series(["b", None, "a"], dtype="category"),
    "int64[pyarrow]": pandas.Series([1, None, 2], dtype="int64[pyarrow]"),
    "double[pyarrow]": pandas.Series([1.5, None, 2], dtype="double[pyarrow]"),
    "timestamp[pyarrow]": pandas.Series(pandas.to_datetime(["2020-01-01", None, "2021-01-01"])).astype(
        "timestamp[us][pyarrow]"
    ),
}


@pytest.mark.parametrize("dtype", SOURCES)
def test_casts_to_objects(dtype: str) -> None:
    def types(pd: Any, s: Any) -> Any:
        return [[type(one).__name__ for one in s.astype(object)], s.astype("O"), s.to_frame("x").astype({"x": object})]

    check(types, SOURCES[dtype])
    check(
        lambda pd, s: [s.astype(object).iloc[[2, 1]], s.astype(object).isna(), s.astype(object).dropna()],
        SOURCES[dtype],
    )
    check(lambda pd, s: s.astype(object)[s.notna()].astype(object), SOURCES[dtype], native=None)
    check(lambda pd, s: s.astype(object).astype(s.dtype), SOURCES[dtype], native=None)
    check(
        lambda pd, s: [s.astype(object).shift(), s.astype(object).max(), s.astype(object) == 1],
        SOURCES[dtype],
        native=None,
    )
    check(lambda pd, s: pd.concat([s.astype(object), s.astype(object)]), SOURCES[dtype], native=None)


@pytest.mark.parametrize("ordered", [False, True])
def test_casts_to_given_categories(ordered: bool) -> None:
    text = pandas.Series(["b", None, "a", "b"])
    for values, categories in (
        (text, ["b", "unused", "a"]),
        (text.iloc[:0], ["a", "b"]),
        (pandas.Series([3, 1, 3]), [3, 2, 1]),
        (pandas.Series(pandas.to_datetime(["2020-01-01", None])), pandas.to_datetime(["2021-01-01", "2020-01-01"])),
    ):
        dtype = pandas.CategoricalDtype(categories, ordered=ordered)
        check(lambda pd, s, dtype=dtype: [s.astype(dtype), s.to_frame("x").astype({"x": dtype})], values)
    check(lambda pd, s: s.astype(pandas.CategoricalDtype([1.0, 2.0])), pandas.Series([1.0, np.nan]), native=None)


# -- row labels -------------------------------------------------------------------------------------------------------

LABELS: dict[str, Callable[[], pandas.Index]] = {
    "mixed objects": lambda: pandas.Index(["x", 2, None, "y"], dtype=object),
    "texts": lambda: pandas.Index(["x", "a", "b", "y"], dtype=object, name="name"),
    "repeated integers": lambda: pandas.Index([3, 1, 1, 2], dtype=object),
    "periods": lambda: pandas.period_range("2020", periods=4, freq="M", name="month"),
    "intervals": lambda: pandas.interval_range(0, 4),
    "complex": lambda: pandas.Index([1j, 2, 3, 1]),
}
LABELLED: dict[str, Callable[[Any, Any], Any]] = {
    "slice": lambda pd, df: df.iloc[1:3],
    "rows": lambda pd, df: df.iloc[[2, 0]],
    "mask": lambda pd, df: df[df["a"] > 1],
    "no rows": lambda pd, df: df[df["a"] > 9],
    "column": lambda pd, df: [df["a"], df["a"].index],
    "sorted": lambda pd, df: df.sort_values("a"),
    "row by label": lambda pd, df: df.loc[df.index[0]],
    "arithmetic": lambda pd, df: [df["a"] + df["f"], df[["a", "f"]] * 2],
    "assigned": lambda pd, df: df.assign(z=df["a"] * 2),
    "sums": lambda pd, df: [df["a"].sum(), df[["a", "f"]].mean()],
    "labels dropped": lambda pd, df: df.reset_index(drop=True),
    "groups": lambda pd, df: df.groupby("a")["f"].sum(),
    "joined by a column": lambda pd, df: df.merge(df, on="a"),
    "windows": lambda pd, df: [df.shift(), df["f"].cumsum(), df["a"].rank()],
    "without missing values": lambda pd, df: df.dropna(),
    "concatenated without labels": lambda pd, df: pd.concat([df, df], ignore_index=True),
    "label of the largest": lambda pd, df: df["a"].idxmax(),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("program", LABELLED.values(), ids=LABELLED)
def test_row_labels(program: Callable[..., Any], kind: str) -> None:
    data = pandas.DataFrame({"a": [3, 1, 2, 1], "b": list("uvwx"), "f": [1.5, np.nan, 2, 0]}, index=LABELS[kind]())
    check(program, data, native=None if kind == "mixed objects" and program is LABELLED["row by label"] else True)


@pytest.mark.parametrize("kind", LABELS)
def test_row_labels_that_become_columns_or_are_aligned(kind: str) -> None:
    data = pandas.DataFrame({"a": [3, 1, 2, 1], "f": [1.5, np.nan, 2, 0]}, index=LABELS[kind]())
    for program in (
        lambda pd, df: df.reset_index(),
        lambda pd, df: df["a"] + df["f"].iloc[1:],
        lambda pd, df: df.sort_index(),
        lambda pd, df: df.groupby(level=0).sum(),
        lambda pd, df: df.join(df.add_suffix("2")),
        lambda pd, df: pd.concat([df, df]),
        lambda pd, df: df.reindex(df.index[::-1]),
        lambda pd, df: df.set_index("a", append=True),
        lambda pd, df: df.assign(z=df.index),
        lambda pd, df: df.to_csv(),
        lambda pd, df: df.stack(),
    ):
        check(program, data, native=None)


def test_columns_that_become_row_labels() -> None:
    for kind in ("objects", "integers", "complex", "periods", "intervals"):
        check(lambda pd, s: pd.DataFrame({"x": s, "y": range(7)}).set_index("x").iloc[1:5], series(kind))


# -- memory that users share ------------------------------------------------------------------------------------------


def test_an_array_that_the_program_holds_is_left_to_pandas() -> None:
    with craton.option_context(small_rows=0):
        array = pandas.interval_range(0, 3).array
        held = craton.pandas.Series(array, copy=False)
        fallbacks.reset()
        assert held.iloc[:2].tolist() == list(array[:2])
        reasons = fallbacks.explain_fallbacks()["reason"].tolist()
    assert reasons == [str(Reason(Refusal.SHARED_ARRAY, str(array.dtype)))]


def test_later_writes_do_not_change_a_plan() -> None:
    for kind in ("objects", "complex", "periods", "intervals"):

        def program(pd: Any, s: Any) -> Any:
            part = s.iloc[1:6]
            s.iloc[2] = s.iloc[0]
            return [part, s]

        check(program, series(kind), native=None)
