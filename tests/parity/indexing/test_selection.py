"""Selection of rows and columns, and assignment to them, against pandas."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 5, 4],
        "f": [1.5, np.nan, -0.0, 2.5, np.inf],
        "s": ["b", None, "a", "c", "b"],
        "t": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31", "2020-01-02"]),
        "b": [True, False, True, True, False],
    }
)
LABELLED = FRAME.set_axis(["v", "w", "x", "y", "z"])
DUPLICATED = FRAME.set_axis([1, 1, 2, 3, 2])
FRAMES = {"default": FRAME, "labels": LABELLED, "duplicates": DUPLICATED, "empty": FRAME[:0]}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


@pytest.mark.parametrize("n", [0, 1, 3, 5, 9, -1, -3, -9])
@pytest.mark.parametrize("end", ["head", "tail"])
def test_head_tail(frame, n, end):
    check(lambda pd, df: getattr(df, end)(n), frame)
    check(lambda pd, df: getattr(df["i"], end)(n), frame)
    check(lambda pd, df: getattr(df[df.i > 1], end)(n), frame)


@pytest.mark.parametrize("start", [None, 0, 2, 9, -2, -9])
@pytest.mark.parametrize("stop", [None, 0, 3, 9, -1, -9])
def test_iloc_slice(frame, start, stop):
    check(lambda pd, df: df.iloc[start:stop], frame)
    check(lambda pd, df: df.iloc[start:stop, 1:3], frame)
    check(lambda pd, df: df.f.iloc[start:stop], frame)
    check(lambda pd, df: df[df.i > 1].iloc[start:stop], frame, native=None)


@pytest.mark.parametrize(
    "columns",
    [
        "i",
        ["i", "s"],
        slice("f", "t"),
        slice(None),
        ["i", "i"],
        [True, False, True, False, False],
        "nope",
        ["i", "nope"],
    ],
)
def test_loc_mask_and_columns(frame, columns):
    check(lambda pd, df: df.loc[df.i > 2, columns], frame, native=None if "nope" in str(columns) else True)
    check(lambda pd, df: df.loc[:, columns], frame, native=None if "nope" in str(columns) else True)
    check(lambda pd, df: df.loc[lambda d: d.b, columns], frame, native=None if "nope" in str(columns) else True)


def test_loc_mask_of_series(frame):
    check(lambda pd, df: df.f.loc[df.i > 2], frame)
    check(lambda pd, df: df.f[df.i > 2], frame)


@pytest.mark.parametrize(
    "value",
    [7, 2.5, "x", True, None, np.nan, np.int8(3), np.float32(1.5), pandas.Timestamp("2020-01-01"),
     pandas.Timestamp("2020-01-01", tz="Europe/Berlin"), pandas.Timestamp("2020-01-01 00:00:00.123456789"),
     pandas.Timedelta("1D"), np.datetime64("2020-01-01"), pandas.NaT, pandas.NA, 2**63, 2**70],
)  # fmt: skip
def test_set_scalar(frame, value):
    def program(pd, df):
        before = df.copy()
        view = df[["i", "f"]]
        df["new"] = value
        df["i"] = value
        return df, before, view, df[df.b]["new"]

    check(program, frame, native=None)


def test_set_scalar_is_planned():
    def program(pd, df):
        df["new"] = 1.5
        return df.assign(a=1, b=lambda d: d.a + d.new, c="x")

    check(program, FRAME)


def test_assign_aligned_series(frame):
    check(lambda pd, df: df.assign(j=df.i * 2, k=lambda d: d.j + 1), frame)


def test_assign_other_rows():
    check(lambda pd, df: df.assign(j=df[df.i > 2].i), FRAME, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.drop(columns="i"),
        lambda df: df.drop(columns=["i", "s"]),
        lambda df: df.drop("i", axis=1),
        lambda df: df.drop(["i"], axis="columns"),
        lambda df: df.drop(columns=["i", "nope"], errors="ignore"),
        lambda df: df.drop(columns=df.columns[:2]),
        lambda df: df.rename(columns={"i": "I"}),
        lambda df: df.rename(columns=str.upper),
        lambda df: df.rename({"i": 0}, axis=1),
        lambda df: df.filter(["s", "nope", "i"]),
        lambda df: df.filter(items=["s", "i"]),
        lambda df: df.filter(like="i"),
        lambda df: df.filter(regex="^[fs]"),
        lambda df: df.i.to_frame(),
        lambda df: df.i.to_frame("x"),
        lambda df: df.i.rename("x"),
        lambda df: df.i.rename(("a", 1)).to_frame(),
        lambda df: df.i.rename(None),
    ],
)
def test_columns(frame, call):
    check(lambda pd, df: call(df), frame)


@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.drop(columns="nope"),
        lambda df: df.drop(columns=["i", "nope"]),
        lambda df: df.rename(columns={"nope": "x"}, errors="raise"),
        lambda df: df.filter(),
        lambda df: df.filter(items=["i"], like="x"),
        lambda df: df.rename(),
        lambda df: df.head("3"),
        lambda df: df.iloc["a":],
        lambda df: df.drop(0),
        lambda df: df.i.rename({0: 9}),
        lambda df: df.iloc[:, 9],
        lambda df: df.loc[0],
    ],
)
def test_what_pandas_refuses_or_does_itself(frame, call):
    check(lambda pd, df: call(df), frame, native=None)


def test_inplace():
    def program(pd, df):
        other = df.copy()
        with pandas.option_context():
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = [df.drop(columns="i", inplace=True), df.rename(columns={"f": "g"}, inplace=True)]
        return df, other, [r is None for r in results]

    check(program, FRAME)


def test_inplace_warns_as_pandas():
    with pytest.warns(pandas.errors.Pandas4Warning, match="inplace keyword in DataFrame.drop") as caught:
        check(lambda pd, df: df.drop(columns="i", inplace=True), FRAME)
    assert all(warning.filename == __file__ for warning in caught)


FLOATS = FRAME.set_axis([0.5, 1.5, 2.5, 3.5, 4.5])
TIMES = FRAME.set_axis(pandas.date_range("2020-01-30", periods=5))
UNSORTED = FRAME.set_axis([30, 10, 20, 50, 40])
LEVELS = FRAME.set_index(["s", "i"]).set_axis(pandas.MultiIndex.from_product([["a", "b"], [1, 2, 3]])[:5])
INDEXED = {**FRAMES, "floats": FLOATS, "times": TIMES, "unsorted": UNSORTED, "levels": LEVELS}


@pytest.fixture(params=INDEXED)
def indexed(request):
    return INDEXED[request.param]


@pytest.mark.parametrize(
    "key",
    [0, 2, -1, 9, "w", "nope", [0, 2], [2, 0, 2], ["z", "v"], [9], [], slice(1, 3), slice("w", "y"), slice(None, None, 2),
     slice("2020-01-31", "2020-02-01"), "2020-02", [1, 2], 1, slice(1.0, 3), (["a"], 2), ("a", 2), "a", slice("a", "b"),
     [True, False, True, False, True], np.array([True, False, True, False, True]), [True], pandas.Index([0, 2]),
     pandas.Series([0, 2]), pandas.Timestamp("2020-02-01"), None, {0: 1}, ..., 1.5, [1.5], range(2)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("how", ["loc", "iloc", "getitem", "series loc", "series iloc", "series getitem"])
def test_rows(indexed, key, how):
    def program(pd, df):
        obj = df["f"] if how.startswith("series") else df
        way = how.rsplit(" ", 1)[-1]
        return obj[key] if way == "getitem" else getattr(obj, way)[key]

    check(program, indexed, native=None)


@pytest.mark.parametrize("columns", ["f", ["f", "b"], slice("f", "t"), "nope"])
@pytest.mark.parametrize("rows", [0, [0, 2], slice(0, 2), "w", ["x", "v"], slice("w", "x")], ids=str)
def test_loc_rows_and_columns(indexed, rows, columns):
    check(lambda pd, df: df.loc[rows, columns], indexed, native=None)


@pytest.mark.parametrize("columns", [0, [0, 2], slice(0, 2), -1, 9, [True, False, True]], ids=str)
@pytest.mark.parametrize("rows", [0, [0, -2], slice(0, 2), slice(None, None, -1), 7], ids=str)
def test_iloc_rows_and_columns(indexed, rows, columns):
    check(lambda pd, df: df.iloc[rows, columns], indexed, native=None)


@pytest.mark.parametrize("call", [
    lambda df: df.loc[[2, 0]], lambda df: df.iloc[[2, 0]], lambda df: df.iloc[3], lambda df: df.iloc[1, 1], lambda df: df[1:3],
    lambda df: df[::-1], lambda df: df[[True, False, True, False, False]], lambda df: df.f[[0, 3]], lambda df: df.loc[3, "f"],
    lambda df: df.loc[2:3], lambda df: df[lambda d: ["f", "i"]],
    lambda df: df[pandas.Series([True, False, True, False, False])],
])  # fmt: skip
def test_rows_are_planned(call):
    check(lambda pd, df: call(df), FRAME)


def test_rows_of_selected_rows(indexed):
    check(lambda pd, df: df[df.f > 0].iloc[[1, 0]], indexed)
    check(lambda pd, df: df[df.f > 0].iloc[::2], indexed)
    check(lambda pd, df: df[df.f > 0].iloc[-1], indexed)
    check(lambda pd, df: df[df.f > 0][1:].f.iloc[0], indexed, native=None)


def test_looping_over_rows_computes_once():
    check(lambda pd, df: [df.iloc[i] for i in range(5)], FRAME, native=False)


def test_mask_with_other_rows_is_as_in_pandas():
    with pytest.warns(UserWarning, match="reindexed"):
        check(
            lambda pd, df: df[pandas.Series([True, False, True, False, True], index=[4, 3, 2, 1, 0])],
            FRAME,
            native=None,
        )
    check(lambda pd, df: df[[True, False]], FRAME, native=None)
    check(lambda pd, df: df[(df.i > 1).iloc[:3]], FRAME, native=None)


VALUES = {
    "list": [5, 4, 3, 2, 1],
    "floats": [5.0, None, 3, 2, 1],
    "strings": ["a", None, "c", "d", "e"],
    "array": np.arange(5.0),
    "bytes": np.arange(5, dtype="int8"),
    "range": range(5),
    "index": pandas.Index([5, 4, 3, 2, 1]),
    "times": pandas.date_range("2020-01-01", periods=5),
    "series": pandas.Series([5, 4, 3, 2, 1]),
    "other labels": pandas.Series([5, 4, 3], index=[1, 2, 9]),
    "repeated labels": pandas.Series([5, 4, 3], index=[1, 1, 2]),
    "strings labels": pandas.Series([1.5, 2.5], index=["w", "z"]),
    "nullable": pandas.array([1, None, 3, 4, 5], dtype="Int64"),
    "category": pandas.Categorical(["a", "b", "a", None, "b"]),
    "short": [1, 2],
    "tuple": (1, 2, 3, 4, 5),
    "dict": {0: 1},
    "set": {1, 2},
    "frame": pandas.DataFrame({"q": [5, 4, 3, 2, 1]}),
    "matrix": np.ones((5, 2)),
    "column": np.ones((5, 1)),
    "object": np.array([1, "a", None, 2.5, ()], dtype=object),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("column", ["new", "f"])
def test_set_column(indexed, column, value):
    def program(pd, df):
        before = df[["f", "b"]]
        later = df.f * 2
        df[column] = VALUES[value]
        df["again"] = later
        return df, before, df[df.b], df.f

    check(program, indexed, native=None)


@pytest.mark.parametrize("value", ["list", "array", "series", "other labels", "strings", "index", "nullable"])
def test_set_column_is_planned(value):
    def program(pd, df):
        later = df.f * 2
        df["new"] = VALUES[value]
        df["again"] = later
        return df, df[df.i > 2]

    check(program, FRAME)


def test_an_array_that_changes_afterwards_is_not_seen():
    def program(pd, df):
        values = np.arange(5.0)
        df["new"] = values
        values[:] = -1
        return df

    check(program, FRAME)


@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.__setitem__(["i", "f"], df[["f", "i"]]),
        lambda df: df.__setitem__(["i", "new"], 3),
        lambda df: df.__setitem__(["i", "new"], [3, "x"]),
        lambda df: df.__setitem__(["i", "new"], np.ones((len(df), 2))),
        lambda df: df.__setitem__(["i", "new"], [1, 2, 3]),
        lambda df: df.__setitem__(slice(1, 3), 0),
        lambda df: df.__setitem__(df.b, 0),
        lambda df: df.__setitem__("f", df[["i"]]),
        lambda df: df.__setitem__("f", df[["i", "f"]]),
        lambda df: df.insert(1, "new", df.f * 2),
        lambda df: df.insert(0, "new", 5),
        lambda df: df.insert(1, "f", 5),
        lambda df: df.insert(9, "new", 5),
        lambda df: df.insert(1, "f", 5, True),
        lambda df: df.insert(1, "new", [1, 2]),
        lambda df: df.__delitem__("f"),
        lambda df: df.__delitem__("nope"),
        lambda df: df.pop("f"),
        lambda df: df.pop("nope"),
        lambda df: setattr(df, "f", 5),
        lambda df: setattr(df, "f", df.f + 1),
        lambda df: setattr(df, "columns", list("abcde")[: df.shape[1]]),
        lambda df: setattr(df, "columns", ["a"]),
        lambda df: df.__setitem__(("a", "b"), 1),
        lambda df: df.__setitem__(None, 1),
        lambda df: df.__setitem__(1, 1),
    ],
)
def test_setting_columns(indexed, call):
    def program(pd, df):
        before = df.copy()
        result = call(df)
        return result, df, before

    check(program, indexed, native=None)


SET = [
    1,
    2.5,
    2.0,
    "x",
    True,
    None,
    np.nan,
    pandas.NaT,
    pandas.Timestamp("2020-01-01"),
    300,
    -1,
    2**40,
    np.float32(1.5),
]


@pytest.mark.parametrize("value", SET, ids=str)
@pytest.mark.parametrize("column", ["i", "f", "s", "t", "b", "new", ["i", "f"]], ids=str)
@pytest.mark.parametrize("rows", ["mask", "nothing", "slice", "all", "list"])
def test_loc_set(rows, column, value):
    def program(pd, df):
        before = df[["i", "f"]]
        keys = {"mask": df.b, "nothing": df.i > 100, "slice": slice(1, 3), "all": slice(None), "list": [0, 4]}
        df.loc[keys[rows], column] = value
        return df, before

    check(program, FRAME, native=None)


@pytest.mark.parametrize("call", [
    lambda df: df.loc.__setitem__((df.b, "f"), 0.5),
    lambda df: df.loc.__setitem__((df.i > 2, "f"), df.f * 2),
    lambda df: df.loc.__setitem__((df.i > 2, "f"), df.loc[df.i > 2, "f"] * 2),
    lambda df: df.loc.__setitem__((df.i > 2, ["f", "b"]), False),
    lambda df: df.loc.__setitem__(df.i > 2, 0),
    lambda df: df.iloc.__setitem__((slice(1, 3), 1), 0.5),
    lambda df: df.iloc.__setitem__(([0, -1], 1), 0.5),
    lambda df: df.iloc.__setitem__(0, 1),
    lambda df: df.loc.__setitem__((9, "f"), 1.0),
    lambda df: df.loc.__setitem__(("x", "f"), 1.0),
    lambda df: df.at.__setitem__((1, "f"), 1.0),
    lambda df: df.iat.__setitem__((1, 1), 1.0),
    lambda df: df.loc.__setitem__((df.b, "new"), 1),
    lambda df: df.loc.__setitem__((slice(None), "new"), 1),
    lambda df: df.loc.__setitem__((df.b, "f"), [1.0, 2.0, 3.0]),
    lambda df: df.loc.__setitem__((df.b, "f"), [1.0]),
    lambda df: df.loc.__setitem__((df.b, "f"), df.i),
])  # fmt: skip
def test_indexers_set(indexed, call):
    def program(pd, df):
        before = df[["f", "b"]]
        call(df)
        return df, before

    check(program, indexed, native=None)


def test_loc_set_is_planned():
    def program(pd, df):
        df = df[list(df.columns)]  # makes the frame lazy: a materialised one is changed in place
        df.loc[df.i > 2, "f"] = 0.0
        df.loc[df.s == "b", "t"] = pandas.Timestamp("2000-01-01")
        df.loc[df.f > 0, "new"] = "yes"
        df.loc[df.i > 2, "f"] = df.f * 2 + 1
        df.loc[df.i > 2, "f"] = df.loc[df.i > 2, "f"] - 3
        return df

    check(program, FRAME)


@pytest.mark.parametrize("call", [
    lambda s: s.__setitem__(s > 1, 0.0), lambda s: s.__setitem__(s > 1, "x"), lambda s: s.__setitem__(slice(1, 3), 0.0),
    lambda s: s.loc.__setitem__(s > 1, np.nan), lambda s: s.__setitem__(0, 7.0), lambda s: s.iloc.__setitem__([0, 1], 7.0),
    lambda s: s.__setitem__("nope", 7.0), lambda s: s.__setitem__([0, 1], 7.0), lambda s: s.pop(0),
    lambda s: s.__setitem__(s > 1, s * 2),
])  # fmt: skip
@pytest.mark.parametrize("column", ["f", "b", "t"])
def test_series_set(indexed, column, call):
    def program(pd, df):
        series = df[column]
        call(series)
        return series, df

    check(program, indexed, native=None)


LIMIT = 2
NAMED = pandas.DataFrame(
    {"i": [3, 1, 2, 5], "f": [1.5, np.nan, 2.5, 0.0], "s": ["b", None, "a", "b"], "a b": [1, 2, 3, 4],
     "t": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31"]), "b": [True, False, True, True]},
    index=pandas.Index([10, 20, 30, 40], name="k"),
)  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    [
        "i > 2", "i > @LIMIT", "i > @local", "i > 2 and f > 1", "i > 2 & f > 1", "i > 2 | f > 1", "1 < i < 4", "not b", "~b",
        "s == 'b'", "s != 'b'", "s in ['a', 'c']", "s not in ['a', 'c']", "i == [1, 5]", "i in @items", "`a b` > 2", "index > 20",
        "k > 20", "i > f", "i + f * 2 > 5", "s.str.contains('b') == True", "i.isin([1, 2])", "t > '2020-01-01'",
        "t == '2020-01-01'", "b", "f == f", "i", "i + 1", "nope > 1", "i >", "x = i", "@missing > 1", "i > 2 and (f > 1 or s == 'a')",
        "f.isna()", "i.mean() < i", "sin(i) > 0", "-i < -2", "i % 2 == 0", "s > 'a'", "i > 2.5", "'b' == s",
    ],
)  # fmt: skip
def test_query(expression):
    def program(pd, df):
        local, items = 1, [1, 5]  # noqa: F841 - the expression reads them
        return df.query(expression)

    check(program, NAMED, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.query("i > 1 and s == 'b'"),
        lambda df: df.query("i > @LIMIT"),
        lambda df: df.query("index > 20 | `a b` < 2"),
        lambda df: df.eval("i * 2 + f"),
        lambda df: df.eval("c = i * 2"),
        lambda df: df.eval("c = i * 2\nd = c + f"),
    ],
)
def test_query_is_planned(call):
    check(lambda pd, df: call(df), NAMED)


def test_query_of_small_frames_finds_variables():
    import craton.pandas as pd

    here = 2
    frame = pd.DataFrame({"a": [1, 2, 3]})
    assert frame.query("a > @here").shape == (1, 1)
    assert frame.eval("a + @here").tolist() == [3, 4, 5]
    assert here == LIMIT


@pytest.mark.parametrize("kinds", [
    {"include": "number"}, {"exclude": "number"}, {"include": ["int64", "bool"]}, {"include": "str"}, {"include": "datetime"},
    {"include": "object"}, {}, {"include": "float", "exclude": "int64"}, {"include": "number", "exclude": "number"},
])  # fmt: skip
def test_select_dtypes(kinds):
    check(lambda pd, df: df.select_dtypes(**kinds), FRAME, native=bool(kinds) or None)


@pytest.mark.parametrize("call", [
    lambda df: df.take([2, 0]), lambda df: df.take([-1]), lambda df: df.take([9]), lambda df: df.take([0], axis=1),
    lambda df: df.sample(3, random_state=1), lambda df: df.sample(frac=0.5, random_state=1), lambda df: df.f.sample(2, random_state=0),
    lambda df: df.sample(9, replace=True, random_state=1, ignore_index=True), lambda df: df.sample(9),
    lambda df: df.truncate(1, 3), lambda df: df.truncate(before="2020-01-31"), lambda df: df.f.truncate(after=2),
    lambda df: df.set_axis(list("abcde")[: len(df)]), lambda df: df.set_axis(["q"], axis=0), lambda df: df.set_axis(list("abcde"), axis=1),
    lambda df: df.f.set_axis(range(len(df))), lambda df: df.add_prefix("p_"), lambda df: df.add_suffix("_s"),
    lambda df: df.f.add_prefix("p_"), lambda df: df.add_prefix("p_", axis=0), lambda df: df.set_axis(list("ab"), axis=1),
])  # fmt: skip
def test_more_selection(indexed, call):
    check(lambda pd, df: call(df), indexed, native=None)


@pytest.mark.parametrize("program", [
    lambda pd, df: df.eval("a + b", engine="python", parser="python"), lambda pd, df: df.query("a > 1", parser="python"),
    lambda pd, df: df.eval("x1 + a", resolvers=[{"x1": df.b}]), lambda pd, df: df.eval("a * s"), lambda pd, df: df.query("d < 20200102"),
    lambda pd, df: pd.eval("df.a + df.b"), lambda pd, df: df.set_axis(list("aabcd")[: len(df.columns)], axis=1).query("b > 0"),
])  # fmt: skip
def test_query_and_eval_as_pandas_does(program):
    days = pandas.date_range("2020-01-01", periods=3)
    check(program, pandas.DataFrame({"a": [1, 2, 3], "b": [4.0, 5.0, 6.0], "s": list("xyz"), "d": days}), native=None)


def setting(target, rows, value, columns=None):
    def program(pd, df):
        obj = df["a"] + 0 if target == "series" else df.assign(z=0)
        held = obj.loc if target == "loc" else obj
        held[rows if columns is None else (rows, columns)] = value
        return obj

    return program


@pytest.mark.parametrize("value", [float("nan"), pandas.NA])
@pytest.mark.parametrize("rows", [[False] * 3, [True, False, False]])
def test_a_missing_value_in_some_or_no_rows(rows, value):
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
    for program in (
        setting("series", rows, value),
        setting("frame", rows, value),
        setting("loc", rows, value),
        setting("loc", rows, value, "a"),
        setting("loc", rows, value, ["a", "b"]),
    ):
        check(program, frame, native=None)


def test_one_row_has_the_dtype_of_its_columns():
    frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": ["x", "y"]})
    check(lambda pd, df: (df.loc[0, ["a"]], df.loc[1, ["a", "b"]], df.loc[0, "a":"b"], df.loc[1]), frame)


@pytest.mark.parametrize("program", [
    lambda pd, df: df.loc["bar":"baz"], lambda pd, df: df.sort_index(), lambda pd, df: df[df.v > 1].index.levels[0].tolist(),
    lambda pd, df: df.loc["qux"], lambda pd, df: df.loc["baz"].loc[1],
])  # fmt: skip
def test_levels_in_an_order_of_their_own(program):
    index = pandas.MultiIndex([["foo", "bar", "baz", "qux"], [1, 0]], [[0, 1, 1, 2, 3], [0, 0, 1, 0, 1]], names=[1, 0])
    check(program, pandas.DataFrame({"v": range(5)}, index=index), native=None)
