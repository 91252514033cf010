"""Functions of groups that are planned from what they compute: arithmetic on reductions. All others are called as in pandas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

#: NumPy warns of divisions of numbers by zero. Where the warning is an error, functions with arithmetic on numbers are not planned.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SCALE = 2.5


def data(rows: int = 60) -> pandas.DataFrame:
    numbers = np.arange(rows)
    return pandas.DataFrame(
        {
            "k": np.array(["a", "b", None, "a", "c"], dtype=object)[numbers % 5],
            "j": numbers % 3,
            "x": np.where(numbers % 7 == 3, np.nan, (numbers * 37 % 11) / 4),
            "y": numbers * 29 % 13 - 4.5,
            "i": numbers * 17 % 19 - 6,
            "t": np.array(["p", "q"], dtype=object)[numbers % 2],
        },
        index=numbers + 3,
    )


def spread(s: Any) -> Any:
    return s.max() - s.min()


def scaled(s: Any, by: float = 2.0) -> Any:
    return spread(s) * SCALE / by


AGGREGATIONS: dict[str, Callable[[Any], Any]] = {
    "spread": spread,
    "scaled": scaled,
    "share": lambda s: (s > 0).mean(),
    "missing": lambda s: s.isna().sum(),
    "rows": lambda s: len(s),
    "rows of all": lambda s: s.size + s.shape[0],
    "ends": lambda s: s.iloc[-1] - s.iloc[0],
    "mean deviation": lambda s: (s - s.mean()).abs().mean(),
    "squares": lambda s: (s**2).sum() / s.count(),
    "numpy": lambda s: np.max(s) - np.mean(s),
    "flag": lambda s: (s.median() >= 1) & (len(s) > 3),
    "distinct": lambda s: s.nunique() / len(s),
    "ratio": lambda s: s.std() / s.mean(),
    "quantiles": lambda s: s.quantile(0.9) - s.quantile(0.1),
    "a quantile": lambda s: s.quantile(0.37),
    "steps": lambda s: s.diff().abs().max(),
    "root": lambda s: np.sqrt((s**2).mean()),
    "filled": lambda s: s.fillna(0).mean(),
    "earlier": lambda s: (s > s.shift()).sum(),
}


#: Differences of integers are not planned: pandas computes them in 64 bits, where they may overflow.
DIFFERENCES = frozenset(["steps", "difference"])


@pytest.mark.parametrize("name", AGGREGATIONS)
@pytest.mark.parametrize("options", [{}, {"sort": False}, {"dropna": False}, {"as_index": False}], ids=str)
def test_aggregations_by_functions_are_planned(name, options):
    function = AGGREGATIONS[name]

    def program(pd: Any, df: Any) -> Any:
        late = df[df["j"] < 2]
        groups = late.groupby("k", **options)
        one = groups["x"].agg(function)
        several = late.groupby(["k", "j"], **options)[["x", "i"]].agg(function)
        return one, several, groups["i"].agg(["max", function]), len(several)

    check(program, data(), native=None if name in DIFFERENCES else True)


def test_named_aggregations_mix_names_and_functions():
    def program(pd: Any, df: Any) -> Any:
        how = {"x": [spread, "mean"], "i": lambda s: s.sum() / len(s)}
        by_column = df.groupby("k").agg(how)
        how["x"] = "sum"
        named = df.groupby("k").agg(
            low=("x", "min"), range=("i", spread), share=pd.NamedAgg("y", lambda s: (s > 0).mean()), rows=("t", "size")
        )
        return by_column, named, named["range"].sum()

    check(program, data(), native=True)


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "centred": lambda s: s - s.mean(),
    "scores": lambda s: (s - s.mean()) / s.std(),
    "to one": lambda s: (s - s.min()) / (s.max() - s.min()),
    "share": lambda s: s / s.sum() * 100,
    "above": lambda s: s > s.median(),
    "missing": lambda s: s.isna(),
    "first": lambda s: s - s.iloc[0],
    "double": lambda s: s * 2,
    "filled by the mean": lambda s: s.fillna(s.mean()),
    "filled by a number": lambda s: s.fillna(-1),
    "shifted": lambda s: s.shift(-1),
    "change": lambda s: s / s.shift(2) - 1,
    "difference": lambda s: s.diff(),
    "filled by a quantile": lambda s: s.fillna(s.quantile(0.25)) - s.quantile(0.75),
    "logarithm": lambda s: np.log1p(s.abs()),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations_by_functions_are_planned(name):
    function = TRANSFORMATIONS[name]

    def program(pd: Any, df: Any) -> Any:
        df["z"] = df.groupby("j")["x"].transform(function)
        both = df.groupby(["j", "t"])[["y", "i"]].transform(function)
        return df, both.max(), df.groupby("j", dropna=False)["i"].transform(function)

    check(program, data(), native=None if name in DIFFERENCES else True)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations_leave_rows_without_a_group_missing(name):
    function = TRANSFORMATIONS[name]

    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k")
        return groups["x"].transform(function), groups["i"].transform(function), groups[["x", "i"]].transform(function)

    check(program, data(), native=None)


def test_differences_of_floats_are_planned():
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("j")["x"]
        return groups.agg(lambda s: s.diff().abs().max()), groups.transform(lambda s: s.diff()).sum()

    check(program, data(), native=True)


def test_a_number_of_a_group_is_in_each_of_its_rows():
    def program(pd: Any, df: Any) -> Any:
        return (
            df.groupby("j")["i"].transform(spread),
            df.groupby("j")[["x", "y"]].transform(lambda s: s.mean()),
            df.groupby("k")["i"].transform(lambda s: len(s)),
        )

    check(program, data(), native=True)
    check(lambda pd, df: df.groupby("j")[["x", "i"]].transform(spread), data(), native=False)


FILTERS: dict[str, Callable[[Any], Any]] = {
    "large": lambda g: len(g) > 12,
    "shape": lambda g: g.shape[0] > 15,
    "mean": lambda g: g["x"].mean() > 1.2,
    "attribute": lambda g: g.i.max() - g.i.min() >= 18,
    "two columns": lambda g: (g["x"].max() < g["y"].max()) & (g["x"] > 2).any(),
    "unequal": lambda g: g["x"].max() != 2.5,
    "none": lambda g: len(g) > 1000,
    "texts": lambda g: (g["t"] == "p").sum() > 5,
    "distinct texts": lambda g: g["t"].nunique() > 1,
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_by_functions_are_planned(name):
    function = FILTERS[name]

    def program(pd: Any, df: Any) -> Any:
        kept = df.groupby("k").filter(function)
        again = df[["k", "j", "x", "y", "i", "t"]].groupby(["k", "j"]).filter(function)
        return kept, again, df.reset_index(drop=True).groupby("j").filter(function), kept["x"].sum(), len(again)

    check(program, data(), native=True)


def test_filters_of_a_column():
    def program(pd: Any, df: Any) -> Any:
        df = df.set_index(["t", "j"])
        kept = df.groupby("k")["x"].filter(lambda s: s.max() > 2.4)
        return kept, kept.sum(), df["i"].groupby(level="t").filter(lambda s: (s > 11).sum() > 2)

    check(program, data(), native=True)


@pytest.mark.parametrize("options", [{}, {"sort": False}, {"dropna": False}], ids=str)
def test_functions_of_tables_are_planned(options):
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k", **options)
        weighted = groups.apply(lambda g: (g["x"] * g.y).sum() / g["y"].sum())
        record = df.groupby(["k", "j"], **options).apply(
            lambda g: pd.Series({"high": g.x.max(), "rows": len(g), "range": g["i"].max() - g["i"].min()}),
            include_groups=False,
        )
        whole = groups.apply(lambda g: pd.Series([len(g), g.i.sum()], index=["rows", "total"]))
        return weighted, record, whole, record["high"].sum(), groups["x"].apply(spread)

    check(program, data(), native=True)


def test_a_squared_correlation_of_two_columns():
    def program(pd: Any, df: Any) -> Any:
        r2 = df.groupby(["k", "j"]).apply(lambda g: g["x"].corr(g["y"]) ** 2)
        both = df.groupby("k").apply(lambda g: pd.Series({"r": g["x"].corr(g["i"]), "c": g["y"].cov(g["i"])}))
        return r2, both, r2.sum()

    check(program, data(), native=True, rtol=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda groups: groups.apply(lambda g: g["x"].corr(g["y"])),
        lambda groups: groups["x"].transform(lambda s: (s - s.mean()) / s.std()),
        lambda groups: groups[["x", "y"]].agg(lambda s: s.mean() / s.var()),
        lambda groups: groups.filter(lambda g: g["x"].std() > 0),
    ],
)
def test_a_constant_column_has_the_rounding_errors_of_pandas(call):
    def program(pd: Any, df: Any) -> Any:
        df.loc[df["k"] == "a", "x"] = 0.1
        return call(df.groupby("k"))

    check(program, data(14), native=None)


def test_numbers_of_python_are_divided_as_in_python():
    for function in (
        lambda s: 1.5 / (len(s) - 1),
        lambda s: 2 / (s.nunique() * 0.5 - 0.5),
        lambda s: s.sum() / (len(s) - 1),
        lambda s: s.nunique() / len(s),
    ):
        check(lambda pd, df, f=function: df.groupby("k")["i"].agg(f), data(6), native=None)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_warning_that_is_an_error_is_raised():
    check(lambda pd, df: df.groupby("j")["i"].agg(lambda s: s.max() / (s.min() - s.min())), data(), native=None)
    check(lambda pd, df: df.groupby("j")["i"].agg(lambda s: s.max() / 2), data(), native=None)
    check(lambda pd, df: df.iloc[:4].groupby("j").apply(lambda g: g["x"].cov(g["i"])), data(), native=None)


def test_functions_of_texts_are_planned():
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("j")
        return (
            groups["t"].agg(lambda s: s.nunique()),
            groups["k"].agg(lambda s: s.count() / len(s)),
            groups["k"].agg(lambda s: (s != "a").mean()),
            groups["t"].transform(lambda s: s == "p"),
            groups.apply(lambda g: pd.Series({"p": (g["t"] == "p").sum(), "missing": g["k"].isna().mean()})),
        )

    check(program, data(), native=True)
    check(lambda pd, df: df.groupby("j")["t"].agg(lambda s: s.iloc[0]), data(), native=None)


def test_quantiles_of_infinities_go_to_pandas():
    frame = data()
    frame.loc[20, "x"] = np.inf
    check(lambda pd, df: df.groupby("j")["x"].agg(lambda s: s.quantile(0.95)), frame, native=None)


def test_changes_of_integers_are_planned():
    check(lambda pd, df: df.groupby("j")[["i", "x"]].pct_change(), data(), native=True)
    check(lambda pd, df: df.groupby("k")["i"].pct_change(-2), data(), native=True)
    check(lambda pd, df: df.iloc[:0].groupby("k")["i"].pct_change(), data(), native=None)


# -- functions that are not traced --------------------------------------------------------------------------------------


def test_functions_with_effects_are_called_for_each_group():
    def program(pd: Any, df: Any) -> Any:
        seen: list[float] = []

        def counted(s: Any) -> Any:
            seen.append(float(s.max()))
            return s.max()

        total = 0

        def summed(s: Any) -> Any:
            nonlocal total
            total += len(s)
            return s.min()

        found = df.groupby("j")["i"].agg(counted), df.groupby("j")["i"].agg(summed)
        return found, seen, total

    check(program, data(), native=None)


UNTRACED: dict[str, Callable[[Any], Any]] = {
    "condition": lambda s: s.max() if s.max() > 2 else s.min(),
    "truth": lambda s: s.max() and s.min(),
    "text": lambda s: f"{s.max():.1f}",
    "name": lambda s: s.max() if s.name == "x" else s.min(),
    "list": lambda s: list(s),
    "loop": lambda s: sum(one for one in s if one > 0),
    "math": lambda s: math.floor(s.count()),
    "sorted": lambda s: s.sort_values().iloc[0],
    "constant": lambda s: 1,
    "mode": lambda s: s.mode()[0],
    "lower quantile": lambda s: s.quantile(0.9, interpolation="lower"),
    "two quantiles": lambda s: s.quantile([0.1, 0.9]).sum(),
    "index": lambda s: s.index[0],
    "error": lambda s: s.no_such_method(),
    "division of integers": lambda s: 1 / (s.nunique() - s.nunique()),
    "membership": lambda s: int(2.5 in s.to_numpy()),
    "own attribute": lambda s: s.operation,
}


@pytest.mark.parametrize("name", UNTRACED)
def test_other_functions_are_called_as_in_pandas(name):
    function = UNTRACED[name]
    check(lambda pd, df: df.groupby("j")["x"].agg(function), data(), native=None)
    check(lambda pd, df: df.groupby("j").apply(lambda g: function(g["x"])), data(), native=None)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64", "bool", "Int64", "Float64", "double[pyarrow]", "str"])
def test_columns_of_other_dtypes_go_to_pandas(dtype):
    frame = data()
    frame["v"] = frame["i"].abs().astype(dtype)
    for function in (spread, lambda s: s.max(), lambda s: len(s)):
        check(lambda pd, df, function=function: df.groupby("j")["v"].agg(function), frame, native=None)
    check(lambda pd, df: df.groupby("j")["v"].transform(lambda s: s - s.min()), frame, native=None)
    check(lambda pd, df: df.groupby("j").filter(lambda g: g["v"].max() > 11), frame, native=None)


def test_no_rows_and_categories():
    for frame in (data().iloc[:0], data(1), data().assign(k=pandas.Categorical(data()["k"], list("abcd")))):
        for observed in (True, False):

            def program(pd: Any, df: Any, observed: bool = observed) -> Any:
                groups = df.groupby("k", observed=observed)
                return (
                    groups["x"].agg(spread),
                    groups["x"].transform(lambda s: s - s.mean()),
                    groups.filter(lambda g: len(g) > 2),
                    groups.apply(lambda g: g["x"].max()),
                    groups[["x", "i"]].agg(lambda s: s.sum()),
                )

            check(program, frame, native=None)


def test_the_number_of_arguments_and_globals_are_read_at_the_call():
    def program(pd: Any, df: Any) -> Any:
        global SCALE
        SCALE = 3.0
        first = df.groupby("j")["i"].agg(scaled)
        SCALE = 2.5
        factor = 2

        def by_factor(s: Any) -> Any:
            return s.max() * factor

        second = df.groupby("j")["i"].agg(by_factor)
        factor = 3
        return first, second, df.groupby("j")["i"].agg(by_factor), df.groupby("j")["i"].agg(scaled, 4.0)

    check(program, data(), native=None)


def test_the_frame_changes_after_the_call():
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("j")
        kept = groups.filter(lambda g: g["x"].max() > 2)
        centred = groups["x"].transform(lambda s: s - s.mean())
        df.loc[:, "x"] = 0.0
        return kept, centred, kept["x"].sum(), df["x"].sum()

    check(program, data(), native=None)


MOVING: dict[str, Callable[[Any], Any]] = {
    "expanding mean": lambda s: s.expanding().mean(),
    "rolling sum": lambda s: s.rolling(3, min_periods=1).sum(),
    "of earlier rows": lambda s: s.shift().rolling(window=2).max(),
    "centred": lambda s: s - s.rolling(3, center=True).median(),
    "deviation": lambda s: s.rolling(4).std(),
    "weighted": lambda s: s.ewm(span=3, adjust=False).mean(),
    "counted": lambda s: s.rolling(2).count().fillna(0),
    "of deviations": lambda s: (s - s.mean()).expanding(2).min(),
}


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("columns", ["x", "i", ["x", "i"]], ids=str)
def test_moving_windows_in_transformations_are_planned(name, columns):
    function = MOVING[name]

    def program(pd: Any, df: Any) -> Any:
        df["x"] = df["x"].where(df["i"] != 5, math.inf)
        late = df[df["j"] < 2]
        one = late.groupby("k")[columns].transform(function)
        several = late.groupby(["k", "j"], sort=False)[columns].transform(function)
        late["i"] = 0
        return one, several, late.groupby("k")["i"].transform(function).sum(), len(one)

    check(program, data())
    check(program, data(0), native=None)


def test_windows_that_pandas_refuses_raise_its_errors():
    def program(pd: Any, df: Any) -> Any:
        for function in (lambda s: s.rolling(-1).mean(), lambda s: s.rolling("2D").mean(), lambda s: s.ewm().mean()):
            with pytest.raises(ValueError):
                df.groupby("k")["x"].transform(function)
        return df.groupby("k")["x"].transform(lambda s: s.rolling(2).apply(len))

    check(program, data(), native=None)


NOW = pandas.Timestamp("2024-03-01 12:30")
DAYS: dict[str, Callable[[Any], Any]] = {
    "since": lambda s: (NOW - s.max()).days,
    "until": lambda s: (s.min() - NOW).days,
    "between": lambda s: (s.max() - s.min()).days / 7 + 1,
    "long ago": lambda s: (NOW - s.max()).days > 30,
}


@pytest.mark.parametrize("name", DAYS)
def test_days_between_times_are_planned(name):
    function = DAYS[name]
    df = data()
    df["t"] = (pandas.Timestamp("2024-01-01") + pandas.to_timedelta(df["i"] * 731, unit="min")).astype("datetime64[us]")

    def program(pd: Any, df: Any) -> Any:
        late = df[df["j"] < 2]
        one = late.groupby("k").agg(a=("t", function), b=("x", "max"))
        several = late.groupby(["k", "j"])["t"].agg(function)
        late["t"] = NOW
        return one, several, late.groupby("k")["t"].agg(["max", function]), len(one)

    check(program, df)


def test_days_between_missing_times_are_floats():
    df = data()
    df["t"] = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(df["i"], unit="D")
    df.loc[df["k"] == "b", "t"] = pandas.NaT

    def program(pd: Any, df: Any) -> Any:
        found = df.groupby("k")["t"].agg(lambda s: (NOW - s.max()).days)
        times = df.groupby("k")["t"].agg(lambda s: s.max())
        lengths = df.groupby("k")["t"].agg(lambda s: s.max() - s.min())
        return found, times, lengths, df.groupby("k")["t"].agg(lambda s: (s.max() - s.min()).seconds)

    check(program, df, native=None)


def _squared(pd, group):
    return pd.Series({"r2": group.corr(numeric_only=True)["x"]["i"] ** 2})


@pytest.mark.parametrize(
    "options", [{}, {"as_index": False}, {"as_index": False, "sort": False, "dropna": False}], ids=str
)
def test_correlations_of_frames(options):
    rows = np.arange(80)
    frame = pandas.DataFrame(
        {
            "c": pandas.Categorical(np.array(["u", "v", None, "w"])[rows * 3 % 4], categories=["w", "q", "u", "v"]),
            "k": rows * 7 % 5,
            "x": np.where(rows % 6 == 2, np.nan, rows * 29 % 13 - 4.5),
            "i": (rows * 17 % 19 - 6).astype("int32"),
            "s": np.array(["p", "q"])[rows % 2],
        }
    )
    frame.loc[frame["k"] == 3, "i"] = 5  # constant

    def program(pd, df):
        one = df.groupby(["c", "k"], observed=True, **options)[["x", "i"]].apply(lambda group: _squared(pd, group))
        two = df.groupby("k", **options)[["i", "x"]].apply(lambda g: pd.Series({"r": g.corr()["i"]["x"], "n": len(g)}))
        df["x"] = np.inf
        infinite = df.groupby("k", **options)[["x", "i"]].apply(lambda group: _squared(pd, group))
        own = df.groupby("k", **options)[["x", "i"]].apply(lambda g: pd.Series({"r": g.corr()["i"]["i"]}))
        return one, two, one["r2"].sum(), infinite, own

    check(program, frame, native=None, rtol=1e-9)
    check(program, frame.iloc[:0], native=None)
