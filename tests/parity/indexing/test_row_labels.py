"""Conversion between columns and row labels, and duplicate labels."""

from __future__ import annotations

import pandas
import pytest
from support import check
from tables import KEYS, LEFT

NAMED = LEFT.set_index(pandas.Index([4, 4, 2, 7, 9], name="row"))


@pytest.mark.parametrize("keys", [*KEYS, ["k"], ["k", "s"], ["c", "t", "m"]])
@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("append", [True, False])
def test_set_index(keys, drop, append):
    check(lambda pd, df: df.set_index(keys, drop=drop, append=append), LEFT)
    check(lambda pd, df: df.set_index(keys, drop=drop, append=append), NAMED)
    check(lambda pd, df: df.set_index(keys, drop=drop, append=append)[["v"]].reset_index(), LEFT)


def test_evenly_spaced_integers_become_a_range():
    got = check(lambda pd, df: df.set_index("v").index, LEFT)
    assert isinstance(got, pandas.RangeIndex)
    check(lambda pd, df: df.assign(v=df.v.astype("int32")).set_index("v"), LEFT, native=None)


@pytest.mark.parametrize("last", [2**63 - 1, 2**63 - 2, -(2**63)])
def test_the_last_number_is_no_range(last):
    frame = pandas.DataFrame({"k": [3, last, 5], "v": [1, 2, 3]})
    steps = [
        lambda df: df[df.v == 2].set_index("k"),
        lambda df: df.set_index("k")[1:2],
        lambda df: df.set_index("k").loc[[last]],
        lambda df: df.sort_values("k").set_index("k").tail(2),
    ]
    for step in steps:
        result = check(lambda pd, df, step=step: step(df), frame)
        assert len(result.index) == len(result)
        check(lambda pd, df, step=step: step(df).index.tolist(), frame)


@pytest.mark.parametrize("frame", [LEFT, NAMED, LEFT.set_index(["k", "s"])], ids=["default", "labels", "levels"])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"drop": True},
        {"level": 0},
        {"level": 0, "drop": True},
        {"level": -1},
        {"level": "s"},
        {"level": ["s", "k"]},
        {"level": 5},
        {"names": "given"},
        {"names": ["one", "two"]},
        {"allow_duplicates": True},
    ],
)
def test_reset_index(frame, arguments):
    native = None if "level" in arguments or "names" in arguments else True
    check(lambda pd, df: df.reset_index(**arguments), frame, native=native)
    if "names" not in arguments:
        check(lambda pd, df: df.v.reset_index(**arguments), frame, native=native)


def test_reset_index_of_a_series():
    check(lambda pd, df: df.v.reset_index(name="value"), LEFT)
    check(lambda pd, df: df[df.k > 1].v.reset_index(), LEFT)
    check(lambda pd, df: (df.v + df.k).reset_index(), LEFT)
    check(lambda pd, df: df.set_index("k").v.reset_index(drop=True), LEFT)


def test_a_name_that_is_taken():
    check(lambda pd, df: df.assign(index=1).reset_index(), LEFT)
    check(lambda pd, df: df.assign(row=1).reset_index(), NAMED, native=None)
    check(lambda pd, df: df.assign(row=1).reset_index(allow_duplicates=True), NAMED)


def test_labels_of_selected_rows():
    check(lambda pd, df: df[df.k > 1].reset_index(), LEFT)

    def again(pd, df):
        df = df[df.k > 1].reset_index(drop=True)
        return df[df.v > 3].reset_index()

    check(again, LEFT)


@pytest.mark.parametrize("keys", ["nope", ["k", "nope"], [[1, 2, 3, 4, 5]], [["k"]]])
def test_keys_that_pandas_sees_to(keys):
    check(lambda pd, df: df.set_index(keys), LEFT, native=None)


@pytest.mark.parametrize("keep", ["first", "last", False])
@pytest.mark.parametrize("subset", [None, *KEYS, ["f", "b"], ["s", "c", "m"], ("k", "t")])
def test_duplicates(subset, keep):
    frame = pandas.concat([LEFT, LEFT.iloc[1:4]])
    for data in (frame, frame.reset_index(drop=True)):
        check(lambda pd, df: df.duplicated(subset, keep=keep), data)
        check(lambda pd, df: df.drop_duplicates(subset, keep=keep), data)
        check(lambda pd, df: df.drop_duplicates(subset, keep=keep, ignore_index=True), data)
    if isinstance(subset, str):
        check(lambda pd, df: df[subset].drop_duplicates(keep=keep), frame)
        check(lambda pd, df: df[subset].duplicated(keep=keep), frame)


@pytest.mark.parametrize("arguments", [{"subset": "nope"}, {"keep": "middle"}, {"keep": True}, {"subset": []}])
def test_duplicates_that_pandas_sees_to(arguments):
    check(lambda pd, df: df.drop_duplicates(**arguments), LEFT, native=None)
    check(lambda pd, df: df.duplicated(**arguments), LEFT, native=None)


def test_duplicates_of_nothing():
    check(lambda pd, df: df[df.k > 99].drop_duplicates("k"), LEFT)
    check(lambda pd, df: df[df.k > 99].duplicated("k"), LEFT)


LEVELS = LEFT.set_index(["k", "s"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"mapper": "x"},
        {"mapper": ["x", "y"]},
        {"index": "x"},
        {"index": {"k": "x"}},
        {"index": str.upper},
        {"columns": "x"},
        {"index": None, "columns": "x"},
        {"mapper": "x", "axis": 1},
        {"mapper": {"k": "x"}},
        {},
    ],
)
@pytest.mark.parametrize("frame", [LEFT, NAMED, LEVELS], ids=["default", "labels", "levels"])
def test_rename_axis(frame, arguments):
    check(lambda pd, df: df.rename_axis(**arguments), frame, native=None)
    check(lambda pd, df: df.v.rename_axis(**arguments), frame, native=None)


def test_rename_axis_is_planned():
    check(lambda pd, df: df[df.k > 1].rename_axis("x").rename_axis(columns="y").reset_index(), LEFT)
    check(lambda pd, df: df.v.rename_axis(["x", "y"]).reset_index(), LEVELS)

    def in_place(pd, df):
        with pytest.warns(pandas.errors.Pandas4Warning, match="inplace keyword in DataFrame.rename_axis is deprecated"):
            return df.rename_axis("x", inplace=True), df

    check(in_place, LEFT)


@pytest.mark.parametrize(
    "program",
    [
        lambda obj: obj.droplevel("k"),
        lambda obj: obj.droplevel([1]),
        lambda obj: obj.droplevel(-1),
        lambda obj: obj.swaplevel(),
        lambda obj: obj.swaplevel(0, "s"),
        lambda obj: obj.reorder_levels(["s", "k"]),
        lambda obj: obj.reorder_levels([1, 0]),
    ],
)
def test_levels(program):
    check(lambda pd, df: program(df), LEVELS)
    check(lambda pd, df: program(df.v), LEVELS)


@pytest.mark.parametrize(
    "program",
    [lambda df: df.droplevel(0), lambda df: df.swaplevel(), lambda df: df.set_index(["k", "s"]).droplevel("nope")],
)
def test_levels_that_are_not_there(program):
    assert isinstance(check(lambda pd, df: program(df), LEFT, native=None), Exception)
