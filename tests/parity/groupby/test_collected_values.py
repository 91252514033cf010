"""Lists, distinct values and largest values of groups, transforms by several names, and resampled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

import craton
import craton.pandas
from craton import fallbacks


def data(rows: int = 60) -> pandas.DataFrame:
    numbers = np.arange(rows)
    frame = pandas.DataFrame(
        {
            "k": pandas.Series(np.array(["a", "b", "a", None, "b"], dtype=object)[numbers % 5], dtype="str"),
            "j": np.where(numbers % 11 == 5, np.nan, numbers % 3),
            "x": np.where(numbers % 7 == 3, np.nan, (numbers * 37 % 11) / 4),
            "z": np.where(numbers % 2, -0.0, 0.0),
            "i": numbers * 17 % 19 - 6,
            "b": numbers % 3 == 1,
            "s": pandas.Series(np.array(["p", None, "q"], dtype=object)[numbers % 3], dtype="str"),
            "t": pandas.Series(np.datetime64("2024-01-01", "us") + (numbers * 7 % 5).astype("timedelta64[h]")),
            "n": pandas.array([None if number % 4 == 1 else number % 6 for number in numbers], dtype="Int64"),
            "c": pandas.Categorical(np.array(["u", "v", None], dtype=object)[numbers * 5 % 3]),
        }
    )
    frame["d"] = frame["t"] - frame["t"].min() if rows else frame["t"] - frame["t"]
    frame["o"] = pandas.Series([[1, "r", None, 2.5][number % 4] for number in numbers], dtype=object)
    frame["w"] = frame["t"].dt.tz_localize("Europe/Berlin")
    return frame


COLUMNS = ["x", "z", "i", "b", "s", "t", "n", "c", "d", "o", "w"]
OPTIONS: list[dict[str, Any]] = [{}, {"sort": False}, {"dropna": False}, {"as_index": False}, {"group_keys": False}]


def plain(value: Any) -> Any:
    """Values with their types, so that ``1`` and ``True`` differ, and NaN equals NaN."""
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0):
        return type(value).__name__, str(getattr(value, "dtype", "")), list(map(plain, value))
    return type(value).__name__, str(value)


def spelled(result: Any) -> Any:
    """A result with texts in place of its Python objects."""
    if isinstance(result, pandas.Series):
        return result.map(lambda value: str(plain(value))).astype("str")
    return pandas.DataFrame(
        {str(label): result[label].map(lambda value: str(plain(value))) for label in result.columns}
    )


def same(program: Any, frame: pandas.DataFrame, native: bool = True) -> None:
    theirs = program(pandas, frame.copy())
    with craton.option_context(small_rows=0):
        fallbacks.reset()
        ours = program(craton.pandas, craton.pandas.DataFrame(frame.copy()))
        counted = fallbacks.explain_fallbacks()
    assert not native or not len(counted), counted.to_string()
    for one, other in zip(theirs, ours, strict=True):
        assert type(other).__name__ == type(one).__name__
        if one.ndim == 1:
            assert (one.dtype, one.name) == (other.dtype, other.name)
        else:
            assert list(one.dtypes) == list(other.dtypes)
            pandas.testing.assert_index_equal(one.columns, other.columns, exact=True)
        pandas.testing.assert_index_equal(one.index, other.index, exact=True)
        (pandas.testing.assert_series_equal if one.ndim == 1 else pandas.testing.assert_frame_equal)(
            spelled(one), pandas.Series(spelled(other)) if one.ndim == 1 else pandas.DataFrame(spelled(other))
        )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rows", [60, 1, 0])
def test_lists_and_distinct_values(options: dict[str, Any], rows: int) -> None:
    def program(pd: Any, df: Any) -> Any:
        found = []
        for by in ("j", ["k", "j"]):
            for column in COLUMNS:
                groups = df.groupby(by, **options)[column]
                found += [groups.agg(list), groups.agg(tuple), groups.unique(), groups.apply(list)]
                found += [groups.agg(lambda s: list(s)), groups.agg("unique")]
        return found

    same(program, data(rows))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_lists_beside_aggregates(options: dict[str, Any]) -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k", **options)
        what = {"i": list, "s": "unique", "x": ["mean", tuple]}
        first = groups.agg(what)
        what["i"] = "sum"
        df["i"] = 0
        return (
            first,
            df.groupby("k", **options).agg(what),
            df.groupby(["k", "j"], **options).agg(items=("s", list), total=("i", "sum"), kinds=("s", "unique")),
            df.groupby("j", **options)[["i", "s"]].agg(list),
            df.groupby("j", **options)["s"].agg(["unique", "nunique", list]),
            df.groupby("j", **options)["s"].agg(all=list, rows="count"),
        )

    same(program, data())


def test_sets() -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k")["i"]
        return [groups.agg(kind).map(sorted) for kind in (set, lambda s: set(s))] + [groups.apply(set).map(len)]

    same(program, data(), native=False)


def test_results_are_independent() -> None:
    """Lists and arrays can be changed in place."""

    def program(pd: Any, df: Any) -> Any:
        lists, arrays = df.groupby("j")["i"].agg(list), df.groupby("j")["x"].unique()
        lists.iloc[0].append(100)
        arrays.iloc[0][:] = -1.0
        return lists, arrays, df["x"].groupby(df["j"]).unique(), df["i"].groupby(df["j"]).agg(list)

    same(program, data(), native=False)


def first(values: Any) -> Any:
    return values.iloc[0]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_functions_that_plans_do_not_have(options: dict[str, Any]) -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby(["k", "j"], **options)
        what = {"i": lambda s: s.mode()[0], "s": [first, "count"], "t": lambda s: s.name}
        one = groups.agg(what)
        what["i"] = "sum"
        df["i"] = 0
        again = df.groupby("k", **options)
        return (
            one,
            again.agg(what),
            again["x"].agg([lambda s: np.percentile(s.dropna(), 90), lambda s: s.mode().iloc[0], "mean"]),
            again["s"].agg(lambda s: s.value_counts().index[0]),
            again.agg(a=("x", lambda s: s.dropna().iloc[-1]), b=("x", "max")),
            again["b"].agg(lambda s: s.mode().tolist()),
            again["i"].agg([max, np.ptp, np.std]),
        )

    same(program, data())
    same(
        lambda pd, df: [df.groupby("k")["i"].agg(first), df.groupby(["k", "j"])["i"].agg(first)], data(0), native=False
    )


@pytest.mark.parametrize("options", [*OPTIONS[:3], OPTIONS[4]], ids=str)
@pytest.mark.parametrize("rows", [60, 1, 0])
def test_transforms_that_plans_do_not_have(options: dict[str, Any], rows: int) -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby(["k", "j"], **options)
        one = groups["x"].transform(lambda s: s.rolling(2, min_periods=1).mean())
        df["x"] = one.fillna(0)
        again = df.groupby("k", **options)
        return (
            one,
            again["x"].transform(lambda s: s.ffill().bfill()),
            again["s"].transform(lambda s: f"{s.name} {len(s.dropna())}"),
            again["i"].transform(lambda s: s.sort_values().to_numpy()),
            again["t"].transform(lambda s: s.mode()[0]),
            again["n"].transform(lambda s: s.cumsum()),
            df["x"],
        )

    same(program, data(rows), native=False)


def test_an_error_in_a_function() -> None:
    for pd in (pandas, craton.pandas):
        with craton.option_context(small_rows=0), pytest.raises(KeyError, match="of the function"):
            pd.DataFrame(data()).groupby("k")["x"].agg(lambda s: {}["of the function"])


def test_functions_that_are_not_the_types() -> None:
    def program(pd: Any, df: Any) -> Any:
        def list(values: Any) -> Any:  # shadows the builtin
            return len(values)

        groups = df.groupby("j")["i"]
        return groups.agg(lambda s: list(s)), groups.agg(lambda s: sorted(s)), groups.agg(lambda s, n=2: [n])

    same(program, data(), native=False)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("arguments", [(), (1,), (3, "last"), (2, "all"), (0,), (50,)], ids=str)
def test_largest_and_smallest(options: dict[str, Any], arguments: tuple[Any, ...]) -> None:
    def program(pd: Any, df: Any) -> Any:
        found = []
        for by in ("j", ["k", "j"]):
            for column in ("x", "z", "i", "b", "t", "n", "d", "w"):
                groups = df.groupby(by, **options)[column]
                found += [groups.nlargest(*arguments), groups.nsmallest(*arguments)]
        labelled = df.set_index("i").groupby("k", **options)["x"]
        return [*found, labelled.nlargest(*arguments), labelled.nsmallest(*arguments)]

    same(program, data())
    same(program, data(1))
    same(program, data(0))


@pytest.mark.parametrize("call", [lambda g: g["s"].nlargest(2), lambda g: g["x"].nlargest(2, "some")])
def test_errors_of_largest(call: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        call(data().groupby("j"))
    with craton.option_context(small_rows=0), pytest.raises(theirs.type, match=str(theirs.value)[:20]):
        call(craton.pandas.DataFrame(data()).groupby("j"))


def test_transform_by_several_names() -> None:
    def program(pd: Any, df: Any) -> Any:
        names = {"x": "mean", "i": "sum"}
        one = df.groupby("k").transform(names)
        names["x"] = "max"
        df["share"] = df["i"] / one["i"]
        two = df.groupby(["k", "j"], dropna=False)[["x", "i"]].transform(names)
        many = df.groupby("j")["x"].transform(["mean", "count"])
        wide = df.groupby("j")[["x", "i"]].transform(["min", "max"])
        return one, two, many, wide, df["share"].sum(), len(df.groupby("k").transform({"t": "first"}))

    check(program, data(), native=None)
    check(program, data(0), native=None)


@pytest.mark.parametrize(
    "names",
    [{"x": ["mean", "sum"]}, [["mean"]], {}, [], {"k": "max"}, {"absent": "sum"}, {"x": "cumsum"}, {"x": len}],
    ids=str,
)
def test_other_transforms(names: Any) -> None:
    check(lambda pd, df: df.groupby("k").transform(names), data(), native=None)
    check(lambda pd, df: df.groupby("k")["i"].transform(names), data(), native=None)
    check(lambda pd, df: df.groupby("k")[["i", "x"]].transform(names), data(), native=None)


def test_describe_of_all_dtypes() -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("j")
        return (
            groups["s"].describe(),
            groups[["x", "i"]].describe(percentiles=[0.1, 0.9]),
            groups[["t", "i"]].describe(),
            groups["i"].describe()["mean"].sum(),
        )

    check(program, data(), native=None)


@pytest.mark.parametrize("name", ["ffill", "bfill", "nearest", "asfreq", "interpolate"])
def test_more_rows_by_resampling(name: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        times = df.drop_duplicates("t").set_index("t").sort_index()
        one = getattr(times["x"].resample("30min"), name)()
        several = getattr(times[["x", "i"]].resample("20min"), name)()
        return one, several, one.sum(), len(several), times["x"].resample("2h").transform("mean")

    check(program, data(), native=None)


@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
def test_rows_of_groups(options: dict[str, Any]) -> None:
    """``groups`` and ``indices`` are made once, of the keys."""

    def program(pd: Any, df: Any) -> Any:
        found: list[Any] = []
        for by in ("k", ["k", "j"], "t", "c"):
            groups = df.set_index("x").groupby(by, **options)
            assert groups.groups is groups.groups
            found += [[str(label), rows] for label, rows in groups.groups.items()]
            found += [[str(label), rows.tolist()] for label, rows in groups["i"].indices.items()]
        groups = df.groupby("j", **options)
        before = len(groups.groups)
        df["j"] = 1
        return found, before, [rows.tolist() for rows in groups.groups.values()], len(df.groupby("j").indices)

    check(program, data(), native=None)
    check(program, data(0), native=None)
