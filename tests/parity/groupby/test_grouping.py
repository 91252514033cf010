"""Group-by against pandas."""

from __future__ import annotations

import pickle

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "k": [2, 1, 2, 3, 1, 2],
        "g": ["b", None, "a", "b", "b", "a"],
        "h": [1.5, np.nan, -0.0, 0.0, 1.5, np.nan],
        "i": np.array([1, 2, 3, 4, 5, -7], dtype="int32"),
        "f": [1.0, np.nan, 3.0, np.nan, np.nan, -2.5],
        "s": ["x", "y", None, "z", "w", "x"],
        "b": [True, False, True, True, False, True],
        "t": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31", "2020-01-02", "2020-01-01"]),
    }
)
LABELLED = FRAME.set_index(pandas.Index(list("uvwxyu"), name="label"))
DEEP = FRAME.set_index(["k", "g"])
EMPTY = FRAME.iloc[:0]
EXTENSION = FRAME[["k", "i", "f", "s", "b"]].convert_dtypes().drop(columns="f")
ARROW = FRAME.convert_dtypes(dtype_backend="pyarrow")
NUMBERS = ["sum", "mean", "min", "max", "prod", "var", "std", "sem", "median", "any", "all", "skew", "kurt"]
ANY = ["count", "nunique", "first", "last", "size"]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("by", ["k", "g", "h", "b", "t", ["k", "g"]], ids=str)
def test_numeric_aggregates(name, by):
    check(lambda pd, df: getattr(df.groupby(by)[["i", "f"]], name)(), FRAME)


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("by", ["k", "g", "h", "b", "t", ["k", "g"]], ids=str)
@pytest.mark.parametrize("options", [{}, {"as_index": False}, {"sort": False}, {"dropna": False}], ids=str)
def test_aggregates_of_any_dtype(name, by, options):
    check(lambda pd, df: getattr(df.groupby(by, **options), name)(), FRAME)


@pytest.mark.parametrize("name", [*ANY, *NUMBERS])
@pytest.mark.parametrize("data", [EMPTY, EMPTY[["k", "i", "f"]]], ids=["all", "numbers"])
def test_empty(name, data):
    check(lambda pd, df: getattr(df.groupby("k"), name)(), data, native=None)


@pytest.mark.parametrize("name", [*ANY, "sum", "mean", "min", "max", "median", "std", "prod"])
@pytest.mark.parametrize("column", ["i", "s", "b"])
@pytest.mark.parametrize("data", [EXTENSION, ARROW], ids=["masked", "arrow"])
def test_extension_dtypes(name, column, data):
    check(lambda pd, df: getattr(df.groupby("k")[column], name)(), data, native=None)


@pytest.mark.parametrize(
    "program",
    [
        lambda df: df.groupby("k").agg(total=("i", "sum"), n=("s", "count"), first=("t", "first")),
        lambda df: df.groupby("k", as_index=False).agg(total=("i", "sum"), k2=("k", "max")),
        lambda df: df.groupby(["g", "k"], as_index=False).agg({"i": "sum", "f": "mean"}),
        lambda df: df.groupby("k").agg({"i": ["sum", "max"], "f": "mean"}),
        lambda df: df.groupby("k")[["i", "f"]].agg(["sum", "mean"]),
        lambda df: df.groupby("k", as_index=False)[["i", "f"]].agg(["sum", "mean"]),
        lambda df: df.groupby("k")["i"].agg(["sum", "mean", "nunique"]),
        lambda df: df.groupby("k")["i"].agg(low="min", high="max"),
        lambda df: df.groupby("k")["i"].agg("sum"),
        lambda df: df.groupby("k", as_index=False)["i"].sum(),
        lambda df: df.groupby("k", as_index=False)["i"].agg(["sum", "mean"]),
        lambda df: df.groupby("k")[["i", "f"]].agg(np.sum),
        lambda df: df.groupby("k").i.max(),
        lambda df: df.groupby("k").agg({"f": [np.mean, np.max, "min"], "s": len}),
        lambda df: df.groupby("k").agg(low=("f", np.min), n=("s", len)),
        lambda df: df.groupby("k").get_group(1),
        lambda df: df.groupby("g")["i"].get_group("b"),
        lambda df: df.groupby(["k", "g"]).get_group((2, "a")),
        lambda df: df.groupby("g").ngroups,
        lambda df: len(df.groupby(["k", "g"])),
        lambda df: df.groupby("k")["k"].count(),
        lambda df: df.groupby("k")[["k", "i"]].sum(),
        lambda df: df.groupby("g").sum(numeric_only=True),
        lambda df: df.groupby("k")["f"].sum(min_count=2),
        lambda df: df.groupby("k")["i"].sum(min_count=2),
        lambda df: df.groupby("k")["f"].std(ddof=0),
        lambda df: df.groupby("k")["f"].quantile(0.3),
        lambda df: df.groupby(df["k"])[["i"]].sum(),
        lambda df: df.groupby(df["k"] % 2)["i"].sum(),
        lambda df: df.groupby([df["k"] % 2, "g"])["i"].sum(),
        lambda df: df["i"].groupby(df["g"]).sum(),
        lambda df: df.groupby(df["t"] > "2020-01-01", as_index=False)["i"].sum(),
    ],
)
def test_forms(program):
    check(lambda pd, df: program(df), FRAME)
    check(lambda pd, df: program(df), LABELLED)


@pytest.mark.parametrize("level", [0, "g", ["g", "k"], [1]], ids=str)
def test_levels(level):
    check(lambda pd, df: df.groupby(level=level)[["i", "f"]].sum(), DEEP)
    check(lambda pd, df: df["i"].groupby(level=level).max(), DEEP)


def test_index_name_as_key():
    check(lambda pd, df: df.groupby("label")["i"].sum(), LABELLED)
    check(lambda pd, df: df.groupby(["label", "k"])["i"].sum(), LABELLED)


@pytest.mark.parametrize("by", ["k", "g", ["k", "g"]], ids=str)
@pytest.mark.parametrize("data", [FRAME, LABELLED, DEEP.reset_index()], ids=["default", "labels", "reset"])
@pytest.mark.parametrize(
    "program",
    [
        lambda gb: gb["f"].transform("sum"),
        lambda gb: gb[["i", "f"]].transform("mean"),
        lambda gb: gb["i"].transform("max"),
        lambda gb: gb["b"].transform("first"),
        lambda gb: gb["s"].transform("nunique"),
        lambda gb: gb["i"].transform("size"),
        lambda gb: gb["f"].cumsum(),
        lambda gb: gb[["f", "k"]].cummax(),
        lambda gb: gb.cumcount(),
        lambda gb: gb.cumcount(ascending=False),
        lambda gb: gb.shift(),
        lambda gb: gb["i"].shift(-1),
        lambda gb: gb["i"].shift(2, fill_value=7),
        lambda gb: gb["f"].diff(),
        lambda gb: gb[["f", "s", "t"]].ffill(),
        lambda gb: gb["f"].bfill(limit=1),
        lambda gb: gb[["i", "f"]].rank(),
        lambda gb: gb["f"].rank(method="first", ascending=False),
        lambda gb: gb.head(1),
        lambda gb: gb.tail(2),
        lambda gb: gb.head(-1),
        lambda gb: gb["i"].head(1),
        lambda gb: gb[["i", "f"]].tail(1),
        lambda gb: gb.nth(0),
        lambda gb: gb["i"].nth(-1),
        lambda gb: gb["f"].pct_change(),
        lambda gb: gb["i"].diff(),
        lambda gb: gb["s"].transform("first"),
        lambda gb: gb[["i", "f"]].rank(pct=True),
    ],
)
def test_rows(program, by, data):
    check(lambda pd, df: program(df.groupby(by)), data)


@pytest.mark.parametrize(
    "program",
    [
        lambda df: df.groupby("nope"),
        lambda df: df.groupby(["k", "nope"]),
        lambda df: df.groupby("k")["nope"],
        lambda df: df.groupby("k")[["i", "nope"]],
        lambda df: df.groupby("k").agg({"nope": "sum"}),
        lambda df: df.groupby("k").agg("nope"),
        lambda df: df.groupby("k").nope,
        lambda df: df.groupby("k").mean(),
        lambda df: df.groupby(),
        lambda df: df.groupby("k").shift("x"),
        lambda df: df.groupby("k").get_group(17),
        lambda df: df.groupby(["k"]).get_group(1),
        lambda df: df.groupby("k").get_group("a"),
        lambda df: df.groupby("k").agg(["sum", "sum"]),
        lambda df: df.groupby("k")["i"].agg({"a": "sum"}),
        lambda df: df.groupby("k").agg(),
        lambda df: df.groupby("k")["i"].quantile(2),
    ],
)
def test_errors(program):
    check(lambda pd, df: program(df), FRAME, native=None)


@pytest.mark.parametrize(
    "program",
    [
        lambda df: df.groupby("k")["i"].agg(lambda values: values.max() - values.min()),
        lambda df: df.groupby("k").filter(lambda group: len(group.to_numpy()) > 1),
        lambda df: df.groupby("k")[["s"]].sum(),
        lambda df: list(df.groupby("k").groups),
        lambda df: [key for key, _ in df.groupby("k")],
    ],
)
def test_fallbacks_are_counted(program):
    check(lambda pd, df: program(df), FRAME, native=None)


def test_a_changed_frame_is_grouped_as_pandas_does():
    def program(pd, df):
        groups = df.groupby("k")
        df["new"] = df["i"] + 1
        return groups["new"].sum()

    check(program, FRAME, native=None)


@pytest.mark.parametrize("name", ["idxmin", "idxmax"])
@pytest.mark.parametrize("data", [FRAME, LABELLED], ids=["default", "labels"])
def test_labels_of_extremes(name, data):
    check(lambda pd, df: getattr(df.groupby("k")["i"], name)(), data)
    check(lambda pd, df: getattr(df.groupby("g")[["i", "b"]], name)(), data)
    check(lambda pd, df: getattr(df.groupby("k")["f"], name)(), data, native=None)
    check(lambda pd, df: df.groupby("k").agg(least=("i", "idxmin"), total=("f", "sum")), data)


@pytest.mark.parametrize("by", ["k", "g", ["k", "b"]], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"normalize": True}, {"sort": False}, {"ascending": True}, {"dropna": False}], ids=str
)
def test_value_counts(by, options):
    check(lambda pd, df: df.groupby(by)["s"].value_counts(**options), FRAME)
    check(lambda pd, df: df.groupby(by)[["s", "t"]].value_counts(**options), FRAME)


def test_ngroup_and_describe():
    check(lambda pd, df: df.groupby("g").ngroup(), FRAME)
    check(lambda pd, df: df.groupby("k").ngroup(ascending=False), FRAME)
    check(lambda pd, df: df.groupby("k")[["i", "f"]].describe(), FRAME)
    check(lambda pd, df: df.groupby("k")["f"].describe(), FRAME)


@pytest.mark.parametrize(
    "texts", [["b", "a", None, "é", ""], ["a"], [None, None], [f"t{i}" for i in range(40)]], ids=str
)
def test_ranks_of_texts_that_are_repeated(texts):
    rows = len(texts) * 30
    frame = pandas.DataFrame({"s": pandas.Series(texts * 30, dtype="str"), "n": range(rows)}).sample(
        frac=1, random_state=2
    )
    check(lambda pd, df: df.dropna().groupby("s").ngroup(), frame)
    check(lambda pd, df: df.dropna().groupby("s").ngroup(ascending=False).mul(df["n"]).sum(), frame)
    for method in ("average", "min", "max", "dense", "first"):
        check(lambda pd, df, method=method: df["s"].rank(method=method), frame, native=None)
        check(lambda pd, df, method=method: df["s"].rank(method=method, ascending=False, pct=True), frame, native=None)
    check(lambda pd, df: df[df["n"] < 0].groupby("s").ngroup(), frame, native=None)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_medians_and_quantiles_beside_missing_values(share):
    rng = np.random.default_rng(4)
    values = np.where(rng.random(500) < share, np.nan, rng.normal(size=500).round(1))
    frame = pandas.DataFrame(
        {"k": rng.integers(0, 60, 500), "x": values, "i": pandas.Series(values * 10).round().astype("Int64")}
    )
    check(lambda pd, df: [df["x"].median(), df["i"].median(), df["x"].quantile(0.3)], frame)
    check(lambda pd, df: df.groupby("k")[["x", "i"]].median(), frame)
    check(lambda pd, df: df.groupby("k")["x"].quantile(0.3).sum(), frame)


def test_describe_of_groups_that_a_plan_makes():
    made = {
        "filtered": lambda df: df[df["i"] > 1],
        "key with missing values": lambda df: df,
        "no rows": lambda df: df[df["i"] > 99],
        "no group": lambda df: df[df["g"].isna()],
    }
    for make in made.values():
        check(lambda pd, df, make=make: make(df).groupby("g")["f"].describe(), FRAME, native=None)
        check(lambda pd, df, make=make: make(df).groupby(["g", "k"])[["i", "f"]].describe().sum(), FRAME, native=None)
    check(lambda pd, df: df[df["i"] > 1].groupby("k")["f"].describe(), FRAME)


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("rows", [9, 14, 60])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_describe_by_keys_that_may_be_missing(count, rows, missing):
    rng = np.random.default_rng(count)
    keys = {
        "a": pandas.array(rng.choice([1.5, -1.0, 10.0, 0.5], rows), dtype="Float64"),
        "b": pandas.array(rng.choice(["a b", "2.5", "ab", "a", "B"], rows), dtype="str"),
        "c": rng.choice([1.0, -1.0, 4.25], rows),
    }
    data = pandas.DataFrame(keys)
    if missing:
        data = data.mask(rng.random(data.shape) < 0.3)
    data["v"] = rng.permutation(rows)
    by = ["a", "b", "c"][:count]
    for make in (lambda df: df, lambda df: df[df["v"] > 2]):
        check(lambda pd, df, make=make: make(df).groupby(by)["v"].describe(), data, native=None if missing else True)
        check(lambda pd, df, make=make: make(df).groupby(by)[["v"]].describe().cumsum(), data, native=None)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
@pytest.mark.parametrize("numbers", [[5, 3, -(2**63), 9, 10**9, -4], [-(2**63)] * 6, [2**62, -(2**62), 5, 2**62, 1, 1]])
@pytest.mark.filterwarnings("ignore")
def test_differences_of_times(numbers, kind, unit):
    data = FRAME[["k", "g"]].assign(t=np.array(numbers, dtype="int64").view(f"{kind}[{unit}]"))
    for rows in (6, 1, 0):
        for keys in ("k", "g", ["k", "g"]):
            check(lambda pd, df, keys=keys: df.groupby(keys)["t"].diff(), data[:rows], native=None)
            check(lambda pd, df, keys=keys: df.groupby(keys)[["t"]].diff(-2), data[:rows], native=None)
            check(lambda pd, df, keys=keys: df.groupby(keys)["t"].diff().isna().sum(), data[:rows], native=None)
    times = data.assign(t=np.array([5, 3, 8, 9, 1, 4], dtype="int64").view(f"{kind}[{unit}]"))
    check(lambda pd, df: df.sort_values("t").groupby("k")["t"].diff() > pd.Timedelta("1s"), times)


@pytest.mark.parametrize("values", [100, 3], ids=["overflows", "fits"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "Int8", "int8[pyarrow]"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_totals_of_small_integers(values, dtype, name):
    data = pandas.DataFrame({"k": [1, 1, 2], "x": pandas.array([values, values, 1], dtype=dtype)})
    check(lambda pd, df: getattr(df.groupby("k")["x"], name)(), data)
    check(lambda pd, df: getattr(df.groupby("k")["x"], name)(min_count=2), data)


def test_sums_of_integers_wrap():
    data = pandas.DataFrame({"k": [1, 1, 2], "x": [2**62, 2**62, 5]})
    check(lambda pd, df: df.groupby("k")["x"].sum(), data)


@pytest.mark.parametrize(
    "options",
    [
        {"index": "k", "columns": "b", "values": "f"},
        {"index": "k", "columns": "b", "values": "i", "aggfunc": "sum", "fill_value": 0},
        {"index": ["k", "b"], "values": ["i", "f"], "aggfunc": "max"},
        {"index": "k", "columns": ["b", "g"], "values": "i", "aggfunc": "count"},
        {"index": "k", "columns": "b", "values": "f", "aggfunc": ["sum", "count"]},
        {"index": "k", "columns": "b", "aggfunc": {"i": "sum", "f": "mean"}},
        {"columns": "k", "values": "i", "aggfunc": "min"},
        {"index": "g", "aggfunc": "nunique"},
        {"index": "k", "columns": "b", "values": "i", "aggfunc": "size"},
        {"index": "k", "columns": "b", "values": "i", "aggfunc": "sum", "margins": True},
        {"index": "k", "columns": "b", "values": "i", "sort": False},
    ],
    ids=str,
)
def test_pivot_table(options):
    check(lambda pd, df: df.pivot_table(**options), FRAME)


def test_pivot_table_by_a_function():
    options = {"index": "k", "columns": "b", "values": "i", "aggfunc": lambda values: values.max()}
    check(lambda pd, df: df.pivot_table(**options), FRAME)


def test_first_and_last_over_many_chunks():
    rows = 1_200_000
    generator = np.random.default_rng(0)
    data = pandas.DataFrame({"k": generator.integers(0, 1000, rows), "v": np.arange(rows)})
    check(lambda pd, df: df.groupby("k")["v"].agg(["first", "last", "size"]), data)
    check(lambda pd, df: df.groupby("k", sort=False)["v"].first(), data)
    check(lambda pd, df: df.groupby("k")["v"].idxmax(), data)
    check(lambda pd, df: df.groupby("k")["v"].cumcount(), data)


def test_categorical_keys():
    keys = pandas.Categorical(["b", "a", None, "b", "c", "a"], categories=["c", "d", "b", "a"])
    data = FRAME.assign(c=keys)
    check(lambda pd, df: df.groupby("c")["i"].sum(), data)
    check(lambda pd, df: df.groupby("c", sort=False)["i"].sum(), data)
    check(lambda pd, df: df.groupby(["c", "k"])["i"].sum(), data)
    check(lambda pd, df: df.groupby("c", as_index=False)["f"].mean(), data)
    check(lambda pd, df: df.groupby("c", observed=False)["i"].sum(), data, native=None)
    check(lambda pd, df: df.groupby("k")["c"].agg(["first", "count", "nunique"]), data)


def test_a_group_by_can_be_pickled_and_described():
    def program(pd, df):
        groups = pickle.loads(pickle.dumps(df.groupby("k")))
        return groups["i"].sum(), [name for name in dir(df.groupby("k")) if name in df.columns]

    check(program, FRAME, native=None)


def test_classes():
    def program(pd, df):
        groups = df.groupby("k")
        return (
            isinstance(groups, pandas.api.typing.DataFrameGroupBy),
            isinstance(groups["i"], pandas.api.typing.SeriesGroupBy),
            type(groups).__name__,
            groups.ndim,
            groups["i"].ndim,
            groups.obj is df,
            groups.keys,
        )

    check(program, FRAME)


def looked_at(take):
    def program(pd, df):
        key = take(df)
        str(key)
        return df.groupby(key).sum(), df.groupby([key, lambda label: label % 2]).sum()

    return program


@pytest.mark.parametrize("take", [lambda df: df["a"], lambda df: df["a"] + 0, lambda df: df["a"].rename("z")])
def test_a_frames_own_column_stays_its_own_when_it_was_looked_at(take):
    check(looked_at(take), pandas.DataFrame({"a": [1, 1, 2], "b": [1, 2, 3], "c": [4, 5, 6]}), native=None)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint16", "uint64", "UInt16", "float32"])
@pytest.mark.parametrize(
    "program",
    [
        lambda df: df.groupby("k").diff().sum(),
        lambda df: df.groupby("k")["t"].diff().sum(),
        lambda df: df.groupby("k")["t"].diff(-1).max(),
        lambda df: df.groupby("k")["t"].shift().sum(),
        lambda df: df[df["t"] > 100].groupby("k")["t"].diff().sum(),
    ],
)
def test_numbers_of_differences_of_groups(program, dtype):
    data = pandas.DataFrame({"k": ["a", "a", "b", "b", "c"], "t": pandas.array([6, 3, 1, 9, 0], dtype=dtype)})
    check(lambda pd, df: program(df), data, native=None)


LARGE_IN_GROUPS = {
    **{f"rank {how}": (lambda g, how=how: g.rank(method=how)) for how in ("average", "min", "max", "first", "dense")},
    "rank down": lambda g: g.rank(ascending=False, pct=True),
    **{name: (lambda g, name=name: getattr(g, name)()) for name in ("cummax", "cummin", "cumsum", "shift", "diff")},
    **{name: (lambda g, name=name: g.transform(name)) for name in ("max", "first", "nunique", "count", "sum")},
}


@pytest.mark.parametrize("keys", [["a", "a", None, "a"], ["a", "a", "b", "a"]], ids=["a key is missing", "all keys"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "int32", "float64", "int64[pyarrow]"])
@pytest.mark.parametrize("name", LARGE_IN_GROUPS)
def test_neighbours_above_2_to_the_53(name, dtype, keys):
    """pandas converts NumPy integers to floats if a row is in no group, and neighbouring large integers then become equal."""
    least = 2**53 if "64" in dtype else 2**30
    values = [least + 1, least, 7, least + 2]
    data = pandas.DataFrame({"x": keys, "g": pandas.array(values, dtype=dtype), "w": [1, 2, 3, 4]})

    def program(pd, df):
        column, frame = LARGE_IN_GROUPS[name](df.groupby("x")["g"]), LARGE_IN_GROUPS[name](df.groupby("x"))
        return column, frame, (column * 2).sum(), frame["g"].nunique()

    check(program, data, native=None, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "int32", "int8"])
def test_quantiles_at_the_limits(dtype, how):
    """pandas computes quantiles of integers as floats, and the largest of these floats is greater than every integer."""
    limits = np.iinfo(dtype.lower())
    values = [limits.max, limits.max - 1, limits.min, limits.min, 5, limits.max]
    data = pandas.DataFrame({"k": [1, 1, 2, 2, 3, 4], "y": pandas.array(values, dtype=dtype)})

    def program(pd, df):
        found = df.groupby("k")["y"].quantile(0.5, interpolation=how)
        return (
            found,
            found.sum(),
            df.groupby("k").quantile(0.9, interpolation=how),
            df["y"].quantile(0.5, interpolation=how),
        )

    check(program, data, native=None, rtol=1e-9)


def test_truth_values_choose_rows_of_a_group_by():
    data = pandas.DataFrame({"g": ["x", "y", "z"], True: [1, 2, 3], False: [4, 4, 5]})

    def program(pd, df):
        frame = pd.crosstab(df["g"], df[False] > 4)
        counted = frame[frame[True] < 1]
        return counted.groupby(False)[[True, False]].shift(), counted.groupby(True)[False].sum(), counted[False]

    check(program, data, native=None)
    check(lambda pd, df: df.groupby("g")[[True, False, True]].sum(), data, native=None)
    check(lambda pd, df: df.groupby("g")[[True, False]].sum(), data, native=None)
    check(lambda pd, df: df.set_axis([0, 1, 2], axis=1).groupby(0)[[False, True, True]].sum(), data, native=None)


SEPARATE = {
    "mask": lambda df: df[df["v"] > 1],
    "rows and column": lambda df: df.loc[df["v"] > 1, ["k", "v"]],
    "query": lambda df: df.query("v > 1"),
    "sort": lambda df: df.sort_values("v", ascending=False),
    "take": lambda df: df.take([0, 1]),
    "sum": lambda df: df + 1,
    "cast": lambda df: df.astype({"k": "float"}),
    "new column": lambda df: df.assign(k=df["v"] % 2),
    "filled": lambda df: df.where(df["v"] > 1).fillna(0),
}


@pytest.mark.parametrize("made", SEPARATE)
def test_a_key_of_an_equal_frame_is_not_the_frames_column(made, tmp_path):
    """pandas leaves a key out of the results if it is the frame's own column, not if another call computed the same values."""
    data = pandas.DataFrame({"k": [2, 1, 2, 1], "v": [1, 2, 3, 4]})
    data.to_parquet(tmp_path / "rows.parquet")

    def program(pd, df):
        one, two = SEPARATE[made](df), SEPARATE[made](df)
        key = one["k"]
        before = one.groupby(key).sum(), one.groupby(two["k"]).sum()
        _ = len(one), repr(one), repr(two)
        return (
            *before,
            one.groupby(key).sum(),
            one.groupby(one["k"]).agg("max"),
            one.groupby(two["k"]).agg("max"),
            one.groupby([one["k"], two["v"]]).size(),
            one.assign(z=1).groupby(one["k"]).sum(),
            SEPARATE[made](df).groupby(SEPARATE[made](df)["k"]).sum(),
        )

    check(program, data, native=None)
    check(lambda pd, df: program(pd, pd.read_parquet(tmp_path / "rows.parquet")), data, native=None)


def test_keys_of_a_file_that_was_read_twice(tmp_path):
    pandas.DataFrame({"k": [2, 1, 2], "v": [1, 2, 3]}).to_parquet(tmp_path / "rows.parquet")

    def program(pd):
        one, two = pd.read_parquet(tmp_path / "rows.parquet"), pd.read_parquet(tmp_path / "rows.parquet")
        return one.groupby(one["k"]).sum(), one.groupby(two["k"]).sum(), two.groupby(one["k"])["v"].sum()

    check(program)


@pytest.mark.parametrize("missing", [pandas.NA, None, pandas.NaT, np.nan])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64", "str", "Int64", "bool"])
def test_get_group_of_a_missing_name(dtype, missing):
    data = pandas.DataFrame({"k": pandas.Series([1, 2, 1]).astype(dtype), "v": [1, 2, 3]})
    check(lambda pd, df: df.groupby("k").get_group(missing), data, native=None)
    check(lambda pd, df: df.groupby("k")["v"].get_group(missing), data, native=None)
    check(lambda pd, df: df.head(0).groupby("k").get_group(missing), data, native=None)
