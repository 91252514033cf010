"""Several quantiles, the n-th rows, and the correlations of groups; calls that fall back compute only the columns that they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

import craton
import craton.pandas


def data(rows: int = 60) -> pandas.DataFrame:
    numbers = np.arange(rows)
    return pandas.DataFrame(
        {
            "k": np.array(["a", "b", "a", "c", "b"], dtype=object)[numbers % 5],
            "j": np.where(numbers % 11 == 5, np.nan, numbers % 3),
            "x": np.where(numbers % 7 == 3, np.nan, (numbers * 37 % 11) / 4),
            "y": numbers * 29 % 13 - 4.5,
            "i": numbers * 17 % 19 - 6,
            "t": np.array(["p", "q"], dtype=object)[numbers % 2],
        }
    )


# -- quantiles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "q", [[0.1, 0.9], [0.5], (0.25, 0.75, 0.25), np.array([0.0, 1.0]), [], [1.5], [[0.5]]], ids=str
)
@pytest.mark.parametrize("options", [{}, {"sort": False}, {"dropna": False}, {"as_index": False}], ids=str)
def test_several_quantiles(q, options):
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("j", **options)
        shares = q.copy() if isinstance(q, (list, np.ndarray)) else q
        one = groups["x"].quantile(shares)
        two = df.groupby(["k", "j"], **options)[["x", "i"]].quantile(q)
        if isinstance(shares, list):
            shares.append(2.0)
        return one, two, one.sum(), two["i"].unstack() if options.get("as_index", True) else len(two)

    check(program, data(), native=None)


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_between_values(how):
    frame = data()
    frame["v"] = frame["y"].astype("Float64")

    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k")
        return (
            groups[["x", "i"]].quantile([0.2, 0.4], interpolation=how),
            groups.quantile([0.2, 0.4], interpolation=how, numeric_only=True),
            groups["v"].quantile([0.5], interpolation=how),
            df.iloc[:0].groupby("k")["x"].quantile([0.5, 0.2], interpolation=how),
        )

    check(program, frame, native=None)


def test_quantiles_are_planned():
    check(lambda pd, df: df.groupby(["k", "t"])[["x", "i"]].quantile([0.1, 0.9]), data(), native=True)


# -- nth --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [[0, -1], [1, 1, -3], [7], [-100, 2], 0, -2, [], [0.5], np.array([0, 1])], ids=str)
def test_some_rows_of_each_group(n):
    def program(pd: Any, df: Any) -> Any:
        late = df[df["y"] > -3]
        return late.groupby("j").nth(n), late.groupby(["k", "j"])["x"].nth(n), late.groupby("k")[["x", "i"]].nth(n)

    check(program, data(), native=None)


@pytest.mark.parametrize("start", [None, 0, 1, 5, 100, -2, -100])
@pytest.mark.parametrize("stop", [None, 0, 2, 100, -1, -3, -100])
def test_slices_of_each_group(start, stop):
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("j")
        some = groups.nth(slice(start, stop))
        return some, some["x"].sum(), groups["x"].nth(slice(start, stop, 1))

    check(program, data(), native=True)


def test_other_slices_of_each_group():
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k")
        return groups.nth(slice(None, None, 2)), groups.nth((slice(1), slice(-1, None))), groups.nth(slice(0, 3, 2))

    check(program, data(), native=None)
    check(lambda pd, df: df.groupby("k").nth(slice(None, None, -1)), data(), native=None)
    check(lambda pd, df: df.groupby("k").nth[:2], data(), native=None)


@pytest.mark.parametrize("options", [{}, {"sort": False}, {"dropna": False}, {"as_index": False}], ids=str)
def test_samples_have_the_rows_of_pandas(options):
    def program(pd: Any, df: Any) -> Any:
        late = df[df["y"] > -3]
        state = np.random.RandomState(3)
        found = [
            late.groupby("k", **options).sample(2, random_state=0),
            late.groupby(["k", "j"], **options)[["x", "i"]].sample(frac=0.5, random_state=state),
            late.groupby("j", **options)["x"].sample(3, replace=True, random_state=state),
            late.groupby("t", **options).sample(frac=0, random_state=state),
        ]
        return found, state.randint(1000), found[0]["x"].sum()

    check(program, data(), native=True)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_samples_by_as_many_keys_as_there_are_rows(rows):
    """pandas takes that many arrays for labels of rows, if they are of its own classes."""

    def program(pd: Any, df: Any) -> Any:
        late = df.assign(s=df["t"].astype("str"), n=df["i"].astype("Int64"))
        return [
            late.groupby(by[:rows]).sample(random_state=0)
            for by in (["k", "s", "n"], ["s", "n", "k"], ["n", "t", "s"], ["s", "k", "t"])
        ]

    check(program, data(rows), native=None)


def test_samples_that_pandas_refuses():
    for call in (
        lambda groups: groups.sample(100, random_state=0),
        lambda groups: groups.sample(3, frac=0.5),
        lambda groups: groups.sample(-1),
        lambda groups: groups.sample(1, random_state="a"),
        lambda groups: groups.sample(2, weights=np.arange(60), random_state=1),
    ):
        check(lambda pd, df, call=call: call(df.groupby("k")), data(), native=None)
        check(lambda pd, df, call=call: call(df.groupby("k")["x"]), data().iloc[:0], native=None)


# -- correlations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["corr", "cov"])
@pytest.mark.parametrize("options", [{}, {"sort": False}], ids=str)
def test_matrices_of_groups(name, options):
    def program(pd: Any, df: Any) -> Any:
        one = getattr(df.groupby("k", **options)[["x", "y"]], name)()
        several = getattr(df.groupby(["k", "t"], **options)[["i", "x", "y"]], name)()
        return one, several, several.loc["a"]["x"].sum()

    check(program, data(), native=None, rtol=1e-9)
    check(lambda pd, df: getattr(df.groupby(["k", "t"])[["x", "y"]], name)(), data(), native=True, rtol=1e-9)


@pytest.mark.parametrize("name", ["corr", "cov"])
def test_matrices_of_few_rows_and_constants(name):
    frame = data(14)
    frame.loc[frame["k"] == "a", "x"] = 0.1 if name == "corr" else 0.125
    frame.loc[frame["k"] == "b", "y"] = np.nan
    for some in (frame, frame.iloc[:4], frame.iloc[:1], frame.iloc[:0]):
        with np.errstate(all="ignore"):
            check(lambda pd, df: getattr(df.groupby("k")[["x", "y", "i"]], name)(), some, native=None, rtol=1e-9)
    frame.loc[3, "i"] = 5
    frame.loc[2, "x"] = np.inf
    check(lambda pd, df: getattr(df.groupby("k")[["x", "i"]], name)(), frame, native=None, rtol=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda groups: groups.corr(numeric_only=True),
        lambda groups: groups.corr(),
        lambda groups: groups[["x", "y"]].corr(method="spearman"),
        lambda groups: groups[["x", "y"]].corr("pearson", 5),
        lambda groups: groups[["x", "y"]].cov(ddof=0),
        lambda groups: groups[["x"]].corr(),
    ],
)
@pytest.mark.parametrize("key", ["k", "j", ["k", "j"]])
def test_parameters_of_correlations(call, key):
    # A correlation that is 0.0 in one order of additions may be 1e-17 in another.
    check(lambda pd, df: call(df.groupby(key)).round(12), data(), native=None, rtol=1e-9)


@pytest.mark.parametrize("name", ["corr", "cov"])
def test_a_column_with_another(name):
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby(["k", "t"])
        found = getattr(groups["x"], name)(df["y"])
        return found, found.sum(), getattr(df.groupby("t")["i"], name)(df["y"] * 2)

    check(program, data(), native=True, rtol=1e-9)

    def others(pd: Any, df: Any) -> Any:
        groups = df.groupby("k")["x"]
        return getattr(groups, name)(df["y"].iloc[::-1]), getattr(groups, name)(pd.Series([1.0, 2.5, 3.0]))

    check(others, data(), native=None, rtol=1e-9)


def test_attributes_of_the_frame():
    def program(pd: Any, df: Any) -> Any:
        df.attrs = {"source": "here"}
        groups = df.groupby("k")
        found = [
            groups[["x", "y"]].corr(),
            groups["x"].quantile([0.5, 0.2]),
            groups[["x"]].quantile([0.5, 0.2]),
            groups.nth([0, 1]),
            groups["x"].cov(df["y"]),
            groups["x"].agg(lambda s: s.max() - s.min()),
            groups["x"].transform(lambda s: s - s.max()),
            groups[["x", "y"]].transform(lambda s: s - s.max()),
            groups.filter(lambda g: len(g) > 13),
            groups.apply(lambda g: g["x"].max()),
            groups.apply(lambda g: pd.Series({"a": g["x"].max()})),
        ]
        return [one.attrs for one in found], found

    check(program, data(), native=None)


# -- fallbacks --------------------------------------------------------------------------------------------------------


def test_fallbacks_compute_the_keys_and_the_selected_columns(tmp_path: Path):
    frame = data()
    frame.to_parquet(tmp_path / "data.parquet")
    with craton.option_context(small_rows=0):
        df = craton.pandas.read_parquet(tmp_path / "data.parquet")
        late = df[df["y"] > -3]
        expected = frame[frame["y"] > -3]
        for call in (
            lambda df: df.groupby("k")["x"].agg(list),
            lambda df: df.groupby(df["k"])["t"].unique(),
            lambda df: df.groupby(["k", "j"], as_index=False)["x"].nlargest(2),
            lambda df: df.groupby("t")[["x", "i"]].apply(lambda g: g.sort_values("i").head(2)),
            lambda df: df.groupby("k")["x"].apply(lambda s: s.nsmallest(2)),
        ):
            found = call(late)
            assert "_mgr" not in late.__dict__
            (pandas.testing.assert_series_equal if found.ndim == 1 else pandas.testing.assert_frame_equal)(
                found, call(expected)
            )


def test_the_frame_changes_between_fallbacks():
    def program(pd: Any, df: Any) -> Any:
        late = df[df["y"] > -3]
        groups = late.groupby("k")
        one, two = groups["x"], groups[["x", "i"]]
        first = one.agg(list), two.agg(lambda s: s.sort_values().iloc[0])
        late["x"] = late["x"] * 2
        late["k"] = "z"
        return first, one.agg(list), two.agg(lambda s: s.sort_values().iloc[0]), groups["x"].agg(list)

    check(program, data(), native=None)
