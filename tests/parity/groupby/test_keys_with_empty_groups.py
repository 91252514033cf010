"""Group-bys whose results have groups without rows, or labels that no column holds: categories, arrays, intervals of time."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pandas
import pytest
from support import check, same

import craton
import craton.pandas
from craton import fallbacks

RNG = np.random.default_rng(3)
ROWS = 48
TIMES = pandas.Series(pandas.date_range("2024-03-28 05:13", periods=ROWS, freq="7h13min"))
FRAME = pandas.DataFrame(
    {
        "c": pandas.Categorical.from_codes(RNG.integers(-1, 3, ROWS), categories=["z", "a", "m", "q"]),
        "o": pandas.Categorical.from_codes(RNG.integers(0, 2, ROWS), categories=[3, 1, 2], ordered=True),
        "k": RNG.integers(0, 4, ROWS),
        "g": pandas.Series(RNG.choice(["x", "y", None], ROWS)),
        "i": RNG.integers(-5, 100, ROWS).astype("int32"),
        "f": np.where(RNG.random(ROWS) < 0.2, np.nan, RNG.random(ROWS)),
        "s": RNG.choice(["p", "q", "r"], ROWS),
        "b": RNG.random(ROWS) < 0.5,
        "t": TIMES,
    }
)
FRAME["bin"] = pandas.cut(FRAME["f"], [0, 0.1, 0.5, 0.9, 2])
SHUFFLED = FRAME.assign(t=TIMES.sample(frac=1, random_state=0).to_numpy())
GAPS = FRAME.assign(t=TIMES.where(RNG.random(ROWS) < 0.8))
BERLIN = FRAME.assign(t=TIMES.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"))
ARRAY = RNG.integers(0, 3, ROWS)
TEXTS = RNG.choice(["a", "b"], ROWS)


@pytest.mark.parametrize("by", ["c", "o", "bin", ["c", "k"], ["k", "o"], ["c", "o"], ["g", "c"]], ids=str)
@pytest.mark.parametrize("options", [{}, {"sort": False}, {"dropna": False}, {"as_index": False}], ids=str)
def test_categories(by, options):
    def program(pd, df):
        groups = df.groupby(by, observed=False, **options)
        first = groups[["i", "f"]].agg(["sum", "max", "mean"])
        second = groups.agg(n=("s", "count"), low=("i", "min"), kinds=("s", "nunique"))
        third = groups["f"].std()
        total = float(second["n"].sum())
        return first, second, third, groups.size(), df["f"] - groups["f"].transform("mean"), total

    check(program, FRAME, native=True if options != {"dropna": False} else None)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "count", "size", "nunique", "any", "all", "first", "median", "var", "quantile"]
)
def test_values_of_groups_without_rows(name):
    check(lambda pd, df: getattr(df.groupby("c", observed=False)[["i", "f"]], name)(), FRAME)
    check(lambda pd, df: getattr(df.convert_dtypes().groupby("c", observed=False)["i"], name)(), FRAME, native=None)


@pytest.mark.parametrize("name", ["idxmin", "skew", "first", "min", "describe", "ngroups", "cumsum", "head"])
@pytest.mark.parametrize("column", ["i", "b", "c"])
def test_methods_that_stay_in_pandas(name, column):
    def program(pd, df):
        found = getattr(df.groupby("c", observed=False)[column], name)
        return found() if callable(found) else found

    check(program, FRAME, native=None)


@pytest.mark.parametrize(
    "key",
    [
        lambda df: ARRAY,
        lambda df: TEXTS,
        lambda df: list(TEXTS),
        lambda df: np.where(ARRAY == 1, np.nan, 1.5),
        lambda df: df["f"].to_numpy() > 0.5,
        lambda df: pandas.Index(TEXTS, dtype=object, name="own"),
        lambda df: [ARRAY, "k"],
        lambda df: ["k", list(TEXTS)],
        lambda df: lambda label: str(label)[0],
        lambda df: {0: "a", 1: "b", 2: "a"},
        lambda df: pandas.Series({0: 1, 1: 2, 2: 1}, name="mapped"),
        lambda df: pandas.Categorical(TEXTS),
    ],
)
def test_keys_with_a_value_for_each_row(key):
    def program(pd, df):
        groups = df.groupby(key(df))
        sums = groups[["i", "f"]].sum()
        return sums, groups["s"].first(), groups["f"].cumsum(), groups.size(), sums.to_numpy().sum()

    check(program, FRAME)


def test_arrays_that_change():
    def before(pd, df):
        array = ARRAY.copy()
        groups = df.groupby(array)
        array[:] = 0
        return groups["i"].sum()

    def after(pd, df):
        array = ARRAY.copy()
        groups = df.groupby(array)
        one = groups["i"].sum()
        array[:] = 0
        return one, groups["i"].sum(), groups["f"].max(), groups.ngroups

    check(before, FRAME, native=None)
    check(after, FRAME, native=None)


@pytest.mark.parametrize(
    "key", [ARRAY[:3], pandas.MultiIndex.from_arrays([ARRAY, ARRAY]), np.ones((ROWS, 2))], ids=type
)
def test_keys_that_do_not_fit(key):
    check(lambda pd, df: df.groupby(key)["i"].sum(), FRAME, native=None)


def test_dates():
    def program(pd, df):
        days = df["t"].dt.date
        sums = df.groupby(days)["f"].sum()
        with_column = df.assign(day=days)
        return sums, with_column.groupby("day")["i"].max(), df.groupby([days, "k"]).agg(n=("i", "size"))

    check(program, FRAME, native=None)
    check(program, GAPS, native=None)


RULES = ["D", "h", "2D", "5h", "W", "ME", "MS", "QE", "YE", "B"]


@pytest.mark.parametrize("data", [FRAME, SHUFFLED, GAPS, BERLIN], ids=["sorted", "shuffled", "missing", "zone"])
@pytest.mark.parametrize("rule", RULES)
def test_intervals_of_time(data, rule):
    def program(pd, df):
        by_day = df.groupby(pandas.Grouper(key="t", freq=rule))
        mixed = df.groupby(["g", pandas.Grouper(key="t", freq=rule)])
        total = float(by_day["f"].sum().sum())
        return by_day[["i", "f"]].agg(["sum", "min", "count"]), by_day.first(), mixed["f"].mean(), mixed.size(), total

    check(program, data)


@pytest.mark.parametrize("data", [FRAME, SHUFFLED, BERLIN], ids=["sorted", "shuffled", "zone"])
@pytest.mark.parametrize("rule", RULES)
def test_resample(data, rule):
    def program(pd, df):
        resampler = df.resample(rule, on="t")
        indexed = df.set_index("t")
        return (
            resampler["f"].sum(),
            resampler.agg({"i": "sum", "f": ["mean", "nunique"]}),
            resampler.agg(low=("i", "min"), last=("s", "last")),
            indexed["f"].resample(rule).ohlc(),
            indexed[["i", "f"]].resample(rule).max(),
            indexed["f"].resample(rule).agg(["std", "first"]),
            resampler.size(),
            indexed.resample(rule).f.median(),
            indexed.resample(rule).count(),
        )

    check(program, data)


@pytest.mark.parametrize(
    "options",
    [{"closed": "right"}, {"label": "right"}, {"origin": "start"}, {"origin": "end"}, {"offset": "3h"}],
    ids=str,
)
@pytest.mark.parametrize("rule", ["12h", "17min", "D", "ME"])
def test_ends_of_intervals(rule, options):
    check(lambda pd, df: df.resample(rule, on="t", **options)["f"].sum(), SHUFFLED, native=None)
    check(lambda pd, df: df.set_index("t")[["i"]].resample(rule, **options).min(), BERLIN, native=None)


@pytest.mark.parametrize(
    "program",
    [
        lambda df: df.resample("D").ffill(),
        lambda df: df.resample("D").asfreq(),
        lambda df: df.resample("D").apply(len),
        lambda df: df.resample("D")["f"].agg(lambda s: s.max() - s.min()),
        lambda df: df.resample("D").transform("sum")["f"],
        lambda df: df.resample("D").f.quantile([0.1, 0.5]),
        lambda df: df.groupby("k").resample("D")["f"].sum(),
        lambda df: len(df.resample("D")),
        lambda df: df.resample("D").ngroups,
        lambda df: [label for label, _ in df.resample("D")],
        lambda df: df.resample("D")["nope"],
        lambda df: df.resample("nonsense").sum(),
        lambda df: df.resample("D", level=0)["f"].sum(),
        lambda df: df.reset_index().resample("D").sum(),
        lambda df: str(df.resample("D", closed="right")),
        lambda df: df.iloc[:0].resample("D")["f"].sum(),
        lambda df: df.groupby(pandas.Grouper(freq="D"))["f"].cumsum(),
        lambda df: df.groupby(pandas.Grouper(freq="D"))["f"].apply(len),
        lambda df: df.groupby(pandas.Grouper(freq="D"), as_index=False)["f"].sum(),
        lambda df: df.groupby(pandas.Grouper(level="t", freq="D"))["f"].sum(),
        lambda df: df.groupby(pandas.Grouper(freq="D")).ngroups,
        lambda df: df.groupby(pandas.Grouper(key="k"))["f"].sum(),
    ],
)
def test_other_calls_of_intervals(program):
    for data in (FRAME, SHUFFLED, BERLIN):
        check(lambda pd, df: program(df.set_index("t")[["f", "i", "k"]]), data, native=None)


def test_empty_and_all_missing():
    for data in (FRAME.iloc[:0], FRAME.assign(t=pandas.NaT, c=FRAME["c"].where(FRAME["k"] > 9))):
        check(lambda pd, df: df.groupby("c", observed=False)["f"].sum(), data, native=None)
        check(lambda pd, df: df.groupby(["c", "k"], observed=False)["f"].mean(), data, native=None)
        check(lambda pd, df: df.groupby(pandas.Grouper(key="t", freq="D"))["f"].sum(), data, native=None)
        check(lambda pd, df: df.groupby(np.zeros(len(df)))["f"].sum(), data, native=None)


def test_the_frame_changes():
    def program(pd, df):
        groups = df.groupby("c", observed=False)
        resampler = df.resample("D", on="t")
        one = groups["i"].sum(), resampler["i"].sum()
        df["i"] = 0
        return *one, groups["i"].sum(), resampler["i"].sum(), resampler.max(numeric_only=True)

    check(program, FRAME, native=None)


def test_data_in_memory_stay_in_pandas():
    """Calls that pandas computes quickly on data in memory run there, and are not counted."""
    programs = [
        lambda pd, df: df.groupby("c", observed=False)["f"].sum(),
        lambda pd, df: df.groupby(ARRAY)[["f", "i"]].agg(["sum", "max"]),
        lambda pd, df: df.groupby(pandas.Grouper(key="t", freq="D")).f.mean(),
        lambda pd, df: df.resample("D", on="t")["f"].sum(),
        lambda pd, df: df.resample("D", on="t").agg({"f": "max"}),
    ]
    with craton.option_context(small_rows=1):
        for program in programs:
            frame = craton.pandas.DataFrame(FRAME)
            fallbacks.reset()
            got = program(craton.pandas, frame)
            assert fallbacks.explain_fallbacks().empty
            assert isinstance(got, (craton.pandas.DataFrame, craton.pandas.Series))
            same(got, program(pandas, FRAME))
        groups = craton.pandas.DataFrame(FRAME).groupby(ARRAY)
        same(pickle.loads(pickle.dumps(groups))["i"].sum(), FRAME.groupby(ARRAY)["i"].sum())


def test_labels_that_are_objects_and_dates():
    frame = FRAME.assign(d=[datetime.date(2024, 1, 1 + i % 3) if i % 5 else None for i in range(ROWS)])
    check(lambda pd, df: df.groupby("d")[["i", "f"]].sum(), frame, native=None)
    check(lambda pd, df: df.groupby(["d", "k"], sort=False)["i"].max(), frame, native=None)
    check(lambda pd, df: df.groupby("d", dropna=False)["i"].max(), frame, native=None)
    check(lambda pd, df: df.groupby("d", as_index=False).agg(n=("i", "sum")), frame, native=None)


@pytest.mark.parametrize(
    "labels", [[datetime.date(2020, 1, 2), 2.5], ["a", 1], [(1, 2), (1, 3)], [1, True], [None, None]], ids=str
)
@pytest.mark.parametrize("sort", [True, False])
def test_objects_that_cannot_be_sorted(labels, sort):
    objects = np.empty(2, dtype=object)
    objects[:] = labels
    frame = pandas.DataFrame({"k": objects, "v": [1, 2]})
    check(lambda pd, df: df.groupby("k", sort=sort)["v"].transform("sum"), frame, native=None)
    check(lambda pd, df: df.groupby(objects, sort=sort)["v"].sum(), frame, native=None)


def test_pivot_tables():
    """A pivot_table needs its groups as a plan, so keys of objects or with groups without rows stay in pandas."""
    frame = FRAME.assign(w=np.where(FRAME["k"] > 1, True, None))
    check(lambda pd, df: df.pivot_table(values="f", columns="w"), frame, native=None)
    check(lambda pd, df: df.pivot_table(values="f", index="g", columns="c", observed=False), FRAME, native=None)
    check(
        lambda pd, df: df.pivot_table(values="i", index="k", columns="c", observed=False, aggfunc="sum"),
        FRAME,
        native=None,
    )


def test_labels_that_all_are_missing():
    frame = pandas.DataFrame({"k": pandas.array([None, None], dtype="timedelta64[s]"), "v": [1, 2]})
    check(lambda pd, df: df.groupby(df["k"].astype(object)).max(), frame, native=None)
    check(lambda pd, df: df.groupby(df["k"].astype(object))["v"].transform("sum"), frame, native=None)
