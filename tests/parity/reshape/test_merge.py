"""``merge`` and ``join`` against pandas."""

from __future__ import annotations

import warnings

import pandas
import pytest
from frames import frames
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import check
from tables import KEYS, LEFT, RIGHT

HOWS = ["inner", "left", "right", "outer", "left_anti", "right_anti"]
PLAIN = RIGHT[["w", "u"]]


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("key", [*KEYS, ["k", "s"], ["f", "t"], ["c", "m", "a"]])
@pytest.mark.parametrize("how", HOWS)
def test_on_columns(how, key, sort):
    check(lambda pd, left, right: left.merge(right, how=how, on=key, sort=sort), LEFT, RIGHT)


@pytest.mark.parametrize("how", HOWS)
def test_on_common_columns(how):
    check(lambda pd, left, right: left[["k", "v"]].merge(right[["k", "w", "u"]], how=how), LEFT, RIGHT)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("left_on", "right_on"), [("v", "k"), ("k", "w"), (["k", "v"], ["w", "k"]), (["k", "s"], ["k", "a"]), ("k", "k")]
)
def test_on_other_names(how, left_on, right_on):
    native = None if left_on == ["k", "s"] else True
    program = lambda pd, left, right: left.merge(right, how=how, left_on=left_on, right_on=right_on)  # noqa: E731
    check(program, LEFT, RIGHT, native=native)


def test_keys_that_no_longer_stand_apart():
    """If the keys have different names, both key columns are kept; rows without a match turn integers into floats."""
    got = check(lambda pd, a, b: a.merge(b, how="left", left_on="v", right_on="k")[["v", "k_y", "w", "u"]], LEFT, RIGHT)
    assert [str(dtype) for dtype in got.dtypes] == ["int64", "float64", "float64", "object"]


def test_dtypes_stay_where_nothing_is_missing():
    got = check(
        lambda pd, a, b: a[a.k < 4][["k", "v"]].merge(b[["k", "w"]], how="left", on="k"), LEFT[LEFT.k != 2], RIGHT
    )
    assert str(got.dtypes["w"]) == "int64"


def test_a_dtype_that_a_dropped_row_decided():
    """A row without a match makes the column float, although the next merge drops that row."""

    def program(pd, a, b):
        first = a[["k", "v"]].merge(b[["k", "w"]], how="left", on="k")
        return first.merge(b[["k", "u"]], how="inner", on="k"), first.merge(b[["k", "u"]], how="left", on="k")

    check(program, LEFT, RIGHT)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer", "cross"])
@pytest.mark.parametrize("indicator", [True, "side"])
def test_indicator(how, indicator):
    on = {} if how == "cross" else {"on": ["k"]}
    check(lambda pd, left, right: left.merge(right, how=how, indicator=indicator, **on), LEFT, RIGHT)


@pytest.mark.parametrize("suffixes", [("_l", "_r"), (None, "_r"), ("", "_r"), ["_l", None], ("_x", "_x"), (None, None)])
def test_suffixes(suffixes):
    check(lambda pd, left, right: left.merge(right, on="k", suffixes=suffixes), LEFT, RIGHT, native=None)


@pytest.mark.parametrize("validate", ["1:1", "1:m", "m:1", "m:m", "one_to_one", "many_to_one", "nonsense"])
@pytest.mark.parametrize("key", ["k", "w"])
def test_validate(validate, key):
    left = LEFT[["k", "v"]].rename(columns={"v": "w"})
    check(lambda pd, left, right: left.merge(right, on=key, validate=validate), left, RIGHT[["k", "w"]], native=None)


def test_cross():
    check(lambda pd, left, right: left.merge(right, how="cross"), LEFT, RIGHT)
    check(lambda pd, left, right: left[left.k > 9].merge(right, how="cross"), LEFT, RIGHT)


@pytest.mark.parametrize("how", HOWS)
def test_self_joins(how):
    check(lambda pd, df: df.merge(df, how=how, on="k"), LEFT)
    check(lambda pd, df: df[df.v > 2].merge(df[df.k < 3], how=how, on=["k", "s"]), LEFT)
    check(lambda pd, df: df.merge(df, how=how, left_on="k", right_on="v"), LEFT)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("empty", ["left", "right", "both"])
def test_empty(how, empty):
    def program(pd, left, right):
        left = left if empty == "right" else left[left.k > 99]
        right = right if empty == "left" else right[right.k > 99]
        return left.merge(right, how=how, on="k"), left.merge(right, how=how, on=["s", "f"], sort=True)

    check(program, LEFT, RIGHT)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("key", [*KEYS, ["k", "s"]])
@pytest.mark.parametrize("sort", [False, True])
def test_indexes(how, key, sort):
    native = None if isinstance(key, list) or how.endswith("anti") or sort or how in ("outer", "inner") else True
    left, right = LEFT.set_index(key)[["v", "b"]], RIGHT.set_index(key)[["w", "u"]]
    check(
        lambda pd, a, b: a.merge(b, how=how, left_index=True, right_index=True, sort=sort), left, right, native=native
    )
    check(lambda pd, a, b: a.join(b, how=how, sort=sort), left, right, native=native)


@pytest.mark.parametrize("how", HOWS)
def test_index_of_numbers(how):
    check(lambda pd, a, b: a.merge(b, how=how, left_index=True, right_index=True), LEFT, PLAIN)
    check(lambda pd, a, b: a[a.k > 1].join(b[b.w < 40], how=how), LEFT, PLAIN)
    # pandas reverses the result if a descending RangeIndex is joined with another RangeIndex
    check(lambda pd, a, b: a.sort_index(ascending=False).join(b, how=how), LEFT, PLAIN, native=None)
    check(lambda pd, a, b: a.set_index("v").sort_index(ascending=False).join(b, how=how), LEFT, PLAIN, native=None)


@pytest.mark.parametrize("how", ["left", "inner", "right", "outer"])
@pytest.mark.parametrize("key", ["k", "s", ["k", "s"]])
@pytest.mark.parametrize("sort", [False, True])
def test_columns_with_an_index(how, key, sort):
    one = isinstance(key, str)  # pandas decides whether missing labels of several levels match
    native = True if how == "inner" or (how == "left" and one) else None
    right = RIGHT.set_index(key)[["w", "u"]]
    check(lambda pd, a, b: a.join(b, on=key, how=how, sort=sort), LEFT, right, native=native)
    left = LEFT.set_index(key)[["v", "b"]]
    native = True if how == "inner" or (how == "right" and one) else None
    program = lambda pd, a, b: a.merge(b, left_index=True, right_on=key, how=how, sort=sort)  # noqa: E731
    check(program, left, RIGHT, native=native)


def test_numeric_keys_of_two_dtypes():
    whole = RIGHT.assign(k=RIGHT.k.astype("float64"))
    narrow = RIGHT.assign(k=RIGHT.k.astype("int32"))
    for right in (whole, narrow):
        check(lambda pd, a, b: a.merge(b, on="k"), LEFT, right)
        check(lambda pd, a, b: a.merge(b, on="k", how="left"), LEFT, right)
        check(lambda pd, a, b: a.merge(b, on="k", how="outer"), LEFT, right, native=None)


def test_whole_numbers_are_checked_as_pandas_does():
    right = RIGHT.assign(k=RIGHT.k + 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd, a, b: a.merge(b, on="k"), LEFT, right, native=False)


@pytest.mark.parametrize(
    "arguments",
    [
        {"on": "nope"},
        {"left_on": "k"},
        {"left_on": "k", "right_on": ["k", "w"]},
        {"on": "k", "left_on": "k"},
        {"on": "k", "how": "sideways"},
        {"how": "cross", "on": "k"},
        {"left_on": "k", "right_on": "s"},
        {"left_on": "t", "right_on": "k"},
        {"on": "k", "suffixes": (None, None)},
        {"on": "k", "validate": "1:1"},
    ],
)
def test_errors_are_pandas_own(arguments):
    error = check(lambda pd, a, b: a.merge(b, **arguments), LEFT, RIGHT, native=None)
    assert isinstance(error, Exception)


def test_no_columns_in_common():
    assert isinstance(
        check(lambda pd, a, b: a[["v"]].merge(b[["w"]]), LEFT, RIGHT, native=None), pandas.errors.MergeError
    )


def test_a_series_is_a_column():
    check(lambda pd, a, b: a.merge(b.w, left_index=True, right_index=True), LEFT, RIGHT)
    check(lambda pd, a, b: a.join(b.w), LEFT, RIGHT)
    check(lambda pd, a, b: pd.merge(a.k, b.k, on="k"), LEFT, RIGHT)
    check(lambda pd, a, b: pd.merge(left=a, right=b, on="k"), LEFT, RIGHT)


def test_a_small_frame_in_pandas_merges_with_a_plan():
    check(lambda pd, a, b: pd.merge(pandas.DataFrame(a), b, on="k"), LEFT, RIGHT, native=None)


def test_duplicate_and_odd_labels():
    left = LEFT[["k", "v", "v"]]
    check(lambda pd, a, b: a.merge(b, on="k"), left, RIGHT)
    numbers = LEFT[["k", "v"]].set_axis([0, 1], axis=1), RIGHT[["k", "w"]].set_axis([0, 1], axis=1)
    check(lambda pd, a, b: a.merge(b, on=0), *numbers)
    check(lambda pd, a, b: a.merge(b, left_on=0, right_on=1, how="outer"), *numbers, native=None)


def test_the_left_is_not_changed():
    def program(pd, a, b):
        merged = a.merge(b, on="k")
        merged["v"] = 0
        return merged, a, b

    check(program, LEFT, RIGHT, native=None)


@settings(max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(left=frames(max_rows=6), right=frames(max_rows=6), pick=st.data())
def test_random_merges(left, right, pick):
    how = pick.draw(st.sampled_from([*HOWS, "inner", "left", "cross"]))
    options = {"how": how, "sort": pick.draw(st.booleans()) and how != "cross"}
    key = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2, unique=True)
    mode = (
        "cross"
        if how == "cross"
        else pick.draw(st.sampled_from(["on", "on", "names", "indexes", "left_on", "right_on"]))
    )
    if mode == "on":
        options["on"] = pick.draw(key)
    elif mode == "names":
        options |= {"left_on": pick.draw(key), "right_on": pick.draw(key)}
    elif mode == "indexes":
        options |= {"left_index": True, "right_index": True}
    elif mode == "left_on":
        options |= {"left_on": pick.draw(key), "right_index": True}
    elif mode == "right_on":
        options |= {"left_index": True, "right_on": pick.draw(key)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd, a, b: a.merge(b, **options), left, right, native=None)


def test_suffixes_of_join():
    right = RIGHT[["k", "w"]]

    def old(pd, a, b):
        with pytest.warns(pandas.errors.Pandas4Warning, match="'lsuffix' and 'rsuffix' keywords"):
            return a.join(b, lsuffix="_l"), a.join(b, lsuffix="_l", rsuffix="_r")

    check(old, LEFT, right)
    check(lambda pd, a, b: a.join(b, suffixes=("_l", "_r")), LEFT, right)
    assert isinstance(check(lambda pd, a, b: a.join(b), LEFT, right, native=None), ValueError)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("key", ["k", "s", "t", "c"])
@pytest.mark.parametrize("levels", [("left",), ("right",), ("left", "right")])
def test_levels_as_keys(how, key, levels):
    def program(pd, a, b):
        a = a.set_index(key) if "left" in levels else a
        b = b.set_index(key) if "right" in levels else b
        on = [[key], ["m", key], [key, "m"]]
        return [a.merge(b, on=keys, how=how, indicator=True) for keys in on]

    check(program, LEFT, RIGHT)


def test_levels_as_keys_of_several_names():
    check(lambda pd, a, b: a.set_index(["k", "s"]).merge(b.set_index(["s", "k"]), on=["k", "s"]), LEFT, RIGHT)
    check(lambda pd, a, b: a.set_index(["k", "v"]).merge(b.set_index(["w", "k"]), on="k", how="outer"), LEFT, RIGHT)
    check(lambda pd, a, b: a.set_index("v").merge(b, left_on="v", right_on="k", how="outer"), LEFT, RIGHT)
    check(lambda pd, a, b: a.set_index("k").merge(b.set_index("k"), on="k", how="left_anti"), LEFT, RIGHT, native=None)


def test_an_inner_join_of_no_rows_has_the_labels_of_the_other_side():
    right = RIGHT.set_index("s")[["w"]]
    check(lambda pd, a, b: a.join(b, on="s", how="inner"), LEFT, right)
    check(lambda pd, a, b: a[a.k > 99].join(b, on="s", how="inner"), LEFT, right)


@pytest.mark.parametrize("wrong", [2, "str", None, [1]])
def test_operands_that_are_no_frames_raise_as_in_pandas(wrong):
    frame = pandas.DataFrame({"a": [1, 2]})
    check(lambda pd, df: pd.merge(wrong, df, on="a"), frame, native=None)
    check(lambda pd, df: pd.merge(df, wrong, on="a"), frame, native=None)


@pytest.mark.parametrize("how", ["left", "inner"])
def test_only_the_rows_of_a_join_are_counted(how):
    right = pandas.DataFrame({"b": [1.0, 2.0]}, index=[0, 2])
    check(
        lambda pd, df, other: len(df.join(other, how=how)), pandas.DataFrame({"a": [1, 2, 3]}, index=[0, 1, 2]), right
    )


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_order_by_a_key_of_the_other_side_that_is_not_looked_at(how):
    left = pandas.DataFrame({"k": list("cabbacda"), "x": range(8)})
    right = pandas.DataFrame({"j": list("abcabcee"), "y": range(8)})

    def program(pd, a, b):
        totals = b.groupby("j", as_index=False)["y"].sum()
        return a.merge(totals[totals["y"] > 3], left_on="k", right_on="j", how=how)[["k", "x", "y"]]

    check(program, left, right)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "int64[pyarrow]"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_sorted_integers_that_are_equal_as_floats(how, dtype):
    large = 2**53
    ints = pandas.DataFrame({"k": pandas.array([large + 1, large, large + 2, 5], dtype=dtype), "a": range(4)})
    floats = pandas.DataFrame({"k": [float(large), 5.0, 7.5], "b": range(3)})

    def program(pd, left, right):
        return (
            left.merge(right, on="k", how=how, sort=True),
            right.merge(left, on="k", how=how, sort=True),
            left.join(right.set_index("k"), on="k", how=how, sort=True),
            left.merge(right, on="k", how=how, sort=True)["a"].shift().sum(),
        )

    check(program, ints, floats, native=None)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("levels", [["k"], ["k", "v"], ["s", "k", "v"]])
def test_joins_on_some_levels_of_the_row_labels(how, levels):
    right = RIGHT.drop_duplicates(["k", "s"]).set_index(["k", "s"])[["w"]]

    def program(pd, a, b):
        joined = a.set_index(levels).join(b, on=["k", "s"], how=how)
        return joined["w"].sum(), joined

    check(program, LEFT.dropna(subset=["k", "s"]), right, native=None)
