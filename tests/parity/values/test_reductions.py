"""Reductions against pandas: values, classes of scalars, corner cases, errors."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

SERIES = {
    "int64": pandas.Series([3, 1, 2, 2, -4]),
    "int8": pandas.Series([3, 1, 100, 100, -4], dtype="int8"),
    "uint8": pandas.Series([3, 1, 200, 200, 0], dtype="uint8"),
    "uint64": pandas.Series([3, 2**63, 7], dtype="uint64"),
    "overflow": pandas.Series([2**62, 2**62, 2**62]),
    "float64": pandas.Series([1.5, np.nan, -0.0, 0.0, 2.5]),
    "infinite": pandas.Series([1.5, np.inf, np.nan]),
    "both": pandas.Series([1.5, np.inf, -np.inf]),
    "float32": pandas.Series([1.5, np.nan, 2.25], dtype="float32"),
    "bool": pandas.Series([True, False, True]),
    "str": pandas.Series(["b", None, "a", "ä", ""]),
    "datetime": pandas.Series(pandas.to_datetime(["2020-01-01 00:00", None, "1999-12-31 12:00"])),
    "datetime_ns": pandas.Series(pandas.to_datetime(["2020-01-01 00:00:00.123456789", None])).astype("M8[ns]"),
    "zoned": pandas.Series(pandas.to_datetime(["2020-01-01", None, "2021-07-01"])).dt.tz_localize("Europe/Berlin"),
    "timedelta": pandas.Series(pandas.to_timedelta([1, None, 3], unit="D")),
    "Int64": pandas.Series([3, None, 2, 3], dtype="Int64"),
    "boolean": pandas.Series([True, None, False], dtype="boolean"),
    "Float64": pandas.Series([1.5, None, 2.5], dtype="Float64"),
    "string": pandas.Series(["b", None, "a"], dtype="string"),
    "arrow_int": pandas.Series([3, None, 2], dtype="int64[pyarrow]"),
    "arrow_float": pandas.Series([1.5, None, 2], dtype="double[pyarrow]"),
    "arrow_bool": pandas.Series([True, None, False], dtype="bool[pyarrow]"),
    "arrow_str": pandas.Series(["b", None, "a"], dtype="string[pyarrow]"),
    "category": pandas.Series(["b", None, "a", "b"], dtype="category"),
    "empty_int": pandas.Series([], dtype="int64"),
    "empty_float": pandas.Series([], dtype="float64"),
    "empty_str": pandas.Series([], dtype="str"),
    "empty_time": pandas.Series([], dtype="M8[us]"),
    "nan": pandas.Series([np.nan, np.nan]),
    "none_str": pandas.Series([None, None], dtype="str"),
    "NA": pandas.Series([None, None], dtype="Int64"),
    "one": pandas.Series([7]),
}
NAMES = ("sum", "prod", "mean", "median", "min", "max", "var", "std", "sem", "count", "nunique", "any", "all")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", SERIES)
def test_series(kind, name):
    rtol = 1e-6 if kind == "float32" else 1e-12
    check(lambda pd, s: getattr(s, name)(), SERIES[kind], native=None, rtol=rtol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["int64", "float64", "bool", "Int64", "arrow_float", "empty_int"])
def test_series_is_planned(kind, name):
    # Not planned: products, which must be checked for overflow, and `nunique` of Arrow floats, which distinguishes 0.0 and -0.0.
    refused = name == "prod" or (kind, name) == ("arrow_float", "nunique")
    check(lambda pd, s: getattr(s, name)(), SERIES[kind], native=None if refused else True)


@pytest.mark.parametrize("kind", SERIES)
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.sum(skipna=False),
        lambda s: s.max(skipna=False),
        lambda s: s.mean(skipna=False),
        lambda s: s.all(skipna=False),
        lambda s: s.any(skipna=False),
        lambda s: s.sum(min_count=1),
        lambda s: s.sum(min_count=4),
        lambda s: s.prod(min_count=1),
        lambda s: s.var(ddof=0),
        lambda s: s.std(ddof=3),
        lambda s: s.sem(ddof=9),
        lambda s: s.nunique(dropna=False),
        lambda s: s.sum(numeric_only=True),
        lambda s: s.sum(axis=0),
        lambda s: s.sum(axis=1),
        lambda s: s.sum("index"),
        lambda s: s.mean(nonsense=1),
        lambda s: s.sum(skipna=None),
    ],
)
def test_series_options(kind, call):
    check(lambda pd, s: call(s), SERIES[kind], native=None, rtol=1e-6 if kind == "float32" else 1e-12)


def test_reduction_of_an_expression():
    frame = pandas.DataFrame({"a": [1.0, 2.0, np.nan], "b": [3, 4, 5], "s": ["x", "y", "x"]})
    check(lambda pd, df: (df.a * df.b)[df.s == "x"].sum(), frame)
    check(lambda pd, df: df[df.b > 100].a.mean(), frame)
    check(lambda pd, df: df.loc[df.b > 3, "a"].mean(), frame, native=None)


FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 2],
        "j": np.array([1, 2, 3, 100], dtype="int8"),
        "f": [1.5, np.nan, -0.0, 2.5],
        "b": [True, False, True, True],
    },
    index=[4, 3, 2, 1],
)
FRAMES = {
    "numbers": FRAME,
    "ints": FRAME[["i"]],
    "bools": FRAME[["b"]],
    "mixed": FRAME.assign(s=["b", None, "a", "b"], t=pandas.to_datetime(["2020-01-01", None, "2021-06-01", "1999-12-31"])),
    "strings": FRAME.assign(s=["b", None, "a", "b"])[["s"]],
    "times": pandas.DataFrame({"t": pandas.to_datetime(["2020-01-01", None]), "u": pandas.to_datetime(["2020-01-01", "2021-01-01"])}),
    "spans": pandas.DataFrame({"d": pandas.to_timedelta([1, None, 3], unit="D")}),
    "nullable": pandas.DataFrame({"I": pandas.array([1, None, 3], dtype="Int64"), "F": pandas.array([1.5, None, 2], dtype="Float64")}),
    "boolean": pandas.DataFrame({"B": pandas.array([True, None, False], dtype="boolean"), "I": pandas.array([1, 2, 3], dtype="Int64")}),
    "arrow": pandas.DataFrame(
        {"a": pandas.array([1, None, 3], dtype="int64[pyarrow]"), "d": pandas.array([1.5, 2, 3], dtype="double[pyarrow]")}
    ),
    "both": pandas.DataFrame({"I": pandas.array([1, None, 3], dtype="Int64"), "i": [1, 2, 3], "f": [1.5, np.nan, 2]}),
    "floats": pandas.DataFrame({"f": np.array([1.5, 2.5], dtype="float32"), "g": [1.5, np.nan]}),
    "empty": FRAME[:0],
    "nothing": pandas.DataFrame({"f": [np.nan, np.nan], "i": [1, 2]}),
    "columns": FRAME.rename(columns={"i": 0, "f": ("a", 1)}).rename_axis(columns="n"),
    "repeated": FRAME.set_axis(list("aabb"), axis=1),
    "category": pandas.DataFrame({"c": pandas.Categorical(["a", None, "b"]), "i": [1, 2, 3]}),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", FRAMES)
def test_frame(kind, name):
    rtol = 1e-6 if kind == "floats" else 1e-12
    check(lambda pd, df: getattr(df, name)(), FRAMES[kind], native=None, rtol=rtol)


@pytest.mark.parametrize("name", NAMES)
def test_frame_is_planned(name):
    check(lambda pd, df: getattr(df, name)(), FRAME)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.sum(numeric_only=True),
        lambda df: df.mean(numeric_only=True),
        lambda df: df.any(bool_only=True),
        lambda df: df.std(numeric_only=True, ddof=0),
        lambda df: df.max(skipna=False),
        lambda df: df.sum(skipna=False, numeric_only=True),
        lambda df: df.sum(min_count=3, numeric_only=True),
        lambda df: df.nunique(dropna=False),
        lambda df: df.count(numeric_only=True),
        lambda df: df.sum(axis=1, numeric_only=True),
        lambda df: df.max(axis=None, numeric_only=True),
        lambda df: df.quantile(numeric_only=True),
        lambda df: df.quantile([0.1, 0.9], numeric_only=True),
        lambda df: df.quantile(0.3, interpolation="nearest", numeric_only=True),
        lambda df: df.quantile(2),
        lambda df: df.quantile([]),
    ],
)
def test_frame_options(kind, call):
    check(lambda pd, df: call(df), FRAMES[kind], native=None, rtol=1e-6 if kind == "floats" else 1e-12)


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest", "nonsense"])
@pytest.mark.parametrize("q", [0, 0.1, 0.25, 0.5, 0.75, 0.999, 1, [0.2, 0.7], [], 1.5, "x"], ids=str)
@pytest.mark.parametrize("kind", SERIES)
def test_quantile(kind, q, how):
    check(lambda pd, s: s.quantile(q, interpolation=how), SERIES[kind], native=None)


def test_quantile_of_many():
    values = pandas.Series(np.random.default_rng(0).normal(size=1001))
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        check(lambda pd, s, how=how: s.quantile([i / 97 for i in range(98)], interpolation=how), values, rtol=0)
        check(
            lambda pd, s, how=how: s.quantile([i / 7 for i in range(8)], interpolation=how),
            (values * 100).astype(int),
            rtol=0,
        )


def test_reductions_of_indefinite_dtypes():
    left = pandas.DataFrame({"k": [1, 2, 3], "x": [1, 2, 3]})
    right = pandas.DataFrame({"k": [1, 2, 4], "y": [10, 20, 40], "b": [True, False, True]})

    def program(pd, left, right):
        joined = left.merge(right, on="k", how="left")
        whole = left.merge(right[right.k < 3], on="k")
        return joined.y.sum(), joined.y.max(), whole.y.max(), whole.b.any(), joined[["x", "y"]].sum(), whole.sum()

    check(program, left, right)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.agg("sum"),
        lambda df: df.agg(["count", "max"]),
        lambda df: df.agg(["count"]),
        lambda df: df.agg({df.columns[0]: "max"}),
        lambda df: df.agg({df.columns[0]: ["max", "count"], df.columns[-1]: ["min"]}),
        lambda df: df.agg({"nope": "max"}),
        lambda df: df.agg("nonsense"),
        lambda df: df.agg(["count", len]),
        lambda df: df.agg({df.columns[0]: "count", df.columns[-1]: "count"}),
        lambda df: df.agg("mean", numeric_only=True),
        lambda df: df.describe(),
        lambda df: df.describe(include="all"),
        lambda df: df.describe(include="number"),
        lambda df: df.describe(exclude="number"),
        lambda df: df.describe(percentiles=[0.1, 0.5]),
        lambda df: df.describe(percentiles=[]),
        lambda df: df.describe(percentiles=[2]),
    ],
)
def test_frame_summaries(kind, call):
    check(lambda pd, df: call(df), FRAMES[kind], native=None, rtol=1e-6 if kind == "floats" else 1e-12)


@pytest.mark.parametrize("kind", SERIES)
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.agg("max"),
        lambda s: s.agg(["min", "max", "count"]),
        lambda s: s.agg({"a": "min", "b": "count"}),
        lambda s: s.agg("sum", min_count=1),
        lambda s: s.agg(["count", "nonsense"]),
        lambda s: s.agg(lambda v: v.count()),
        lambda s: s.describe(),
        lambda s: s.describe(percentiles=[0.9]),
    ],
)
def test_series_summaries(kind, call):
    check(lambda pd, s: call(s), SERIES[kind], native=None, rtol=1e-6 if kind == "float32" else 1e-12)


@pytest.mark.parametrize("call", [
    lambda df: df.describe(), lambda df: df.f.describe(), lambda df: df.agg(["sum", "max"]), lambda df: df.f.agg(["sum", "mean"]),
    lambda df: df.agg({"i": "sum", "f": ["mean", "max"]}), lambda df: df.agg("mean"), lambda df: df[["i", "f"]].describe(),
])  # fmt: skip
def test_summaries_are_planned(call):
    check(lambda pd, df: call(df), FRAME)


def test_describe_runs_once(monkeypatch):
    import craton
    import craton.pandas
    from craton.pandas.core.routing import is_lazy
    from craton.pandas.reductions import statistics

    runs = []
    monkeypatch.setattr(
        statistics, "collect_scalars", lambda plans, run=statistics.collect_scalars: runs.append(plans) or run(plans)
    )
    for summarise in (
        lambda df: df.describe(),
        lambda df: df.agg(["sum", "mean"]),
        lambda df: df.agg({"i": "sum", "f": ["max"]}),
    ):
        with craton.option_context(small_rows=0):
            frame = craton.pandas.DataFrame(FRAME)
            chosen = frame[frame.i > 0]
            runs.clear()
            summarise(chosen)
            assert is_lazy(chosen)
        assert len(runs) == 1
