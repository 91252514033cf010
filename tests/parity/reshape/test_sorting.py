"""``sort_values``, ``sort_index``, ``nlargest`` and ``nsmallest`` against pandas."""

from __future__ import annotations

import pandas
import pytest
from support import check
from tables import KEYS, LEFT


@pytest.mark.parametrize("by", [*KEYS, "b", ["s", "f"], ["b", "c", "k"], ["t", "m"]])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("na_position", ["first", "last"])
@pytest.mark.parametrize("ignore_index", [True, False])
def test_sort_values(by, ascending, na_position, ignore_index):
    options = {"ascending": ascending, "na_position": na_position, "ignore_index": ignore_index, "kind": "stable"}
    check(lambda pd, df: df.sort_values(by, **options), LEFT)
    if isinstance(by, str):
        check(lambda pd, df: df[by].sort_values(**options), LEFT)


@pytest.mark.parametrize("ascending", [[True, False], [False, True], (True, True)])
def test_directions_of_several_keys(ascending):
    check(lambda pd, df: df.sort_values(["s", "f"], ascending=ascending), LEFT)


def test_ties_keep_their_order():
    frame = pandas.DataFrame({"k": [1, 0] * 2000, "v": range(4000)})
    for ascending in (True, False):
        check(lambda pd, df, up=ascending: df.sort_values("k", ascending=up, kind="stable"), frame)


def test_by_a_level_of_the_index():
    check(lambda pd, df: df.set_index(["k", "s"]).sort_values(["s", "v"]), LEFT)
    check(lambda pd, df: df.rename_axis("row").sort_values(["b", "row"], ascending=False), LEFT, native=None)


def test_other_order_after_a_filter():
    check(lambda pd, df: df[df.k > 1].sort_values("v", ascending=False).head(2).reset_index(drop=True), LEFT)
    check(lambda pd, df: df.sort_values("v", ascending=False)[["k"]], LEFT)


@pytest.mark.parametrize(
    "arguments",
    [
        {"by": "nope"},
        {"by": ["k", "s"], "ascending": [True]},
        {"by": "k", "kind": "bogo"},
        {"by": "k", "na_position": "middle"},
        {"by": "k", "key": lambda column: -column},
        {"by": []},
        {"by": "k", "ascending": None},
        {"by": 0, "axis": 1},
    ],
)
def test_what_pandas_does_itself(arguments):
    check(lambda pd, df: df.sort_values(**arguments), LEFT, native=None)


@pytest.mark.parametrize("method", ["sort_values", "sort_index", "drop_duplicates", "reset_index", "set_index"])
def test_in_place(method):
    def program(pd, df):
        other = df[["k", "v"]]
        arguments = {"sort_values": ["k"], "set_index": ["k"]}.get(method, [])
        with pytest.warns(pandas.errors.Pandas4Warning, match=f"inplace keyword in DataFrame.{method} is deprecated"):
            result = getattr(df, method)(*arguments, inplace=True)
        return result is None, df, other

    check(program, LEFT)


@pytest.mark.parametrize("ascending", [True, False, [True, False]])
@pytest.mark.parametrize("na_position", ["first", "last"])
@pytest.mark.parametrize("keys", [["k", "s"], ["s", "f"], ["t", "c"]])
def test_sort_index_of_levels(keys, ascending, na_position):
    frame = LEFT.set_index(keys)
    options = {"ascending": ascending, "na_position": na_position}
    check(lambda pd, df: df.sort_index(**options), frame)
    check(lambda pd, df: df.v.sort_index(**options), frame)
    for level in (0, keys[1], [1, 0]):
        for remaining in (True, False):
            check(
                lambda pd, df, n=level, r=remaining: df.sort_index(level=n, sort_remaining=r, **options),
                frame,
                native=None,
            )


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("na_position", ["first", "last"])
@pytest.mark.parametrize("key", KEYS)
def test_sort_index(key, ascending, na_position):
    options = {"ascending": ascending, "na_position": na_position, "kind": "stable"}
    native = None if isinstance(LEFT[key].dtype, pandas.CategoricalDtype) else True  # a label is missing
    check(lambda pd, df: df.sort_index(**options), LEFT.set_index(key), native=native)
    check(lambda pd, df: df.sort_index(ignore_index=True, **options), LEFT.set_index(key), native=native)
    check(lambda pd, df: df.sort_values("k", kind="stable").sort_index(**options), LEFT)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("na_position", ["first", "last"])
@pytest.mark.parametrize(
    "labels", [[None, "a"], ["b", "a", None], ["a", None, "b"], ["a", "b"], [None, None], [None, "b", "a"], [None]]
)
def test_sort_index_of_categories(labels, ascending, na_position):
    """pandas does not sort labels whose codes are sorted already, and the code of a missing label is less than all others."""
    options = {"ascending": ascending, "na_position": na_position}
    frame = pandas.DataFrame({"x": range(1, len(labels) + 1)}, index=pandas.CategoricalIndex(labels, ["a", "b"]))

    def program(pd, df):
        made = df.sort_index(**options)
        return (
            made,
            made["x"].cumsum(),
            df["x"].sort_index(**options),
            df.sort_index(level=0, **options),
            df.rename_axis("c").reset_index().set_index("c").sort_index(kind="stable", **options),
            df.sort_index(ignore_index=True, **options),
        )

    check(program, frame, native=None)


@pytest.mark.parametrize("method", ["nlargest", "nsmallest"])
@pytest.mark.parametrize("keep", ["first", "last", "all"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_extremes(method, keep, n):
    for key in ["k", "f", "t", "m", "b"]:
        check(lambda pd, df, by=key: getattr(df, method)(n, by, keep=keep), LEFT)
        check(lambda pd, df, by=key: getattr(df[by], method)(n, keep=keep), LEFT)
    native = True if keep == "first" else None
    check(lambda pd, df: getattr(df, method)(n, ["b", "k"], keep=keep), LEFT, native=native)
    check(lambda pd, df: getattr(df, method)(n, ["b", "f"], keep=keep), LEFT, native=None)


@pytest.mark.parametrize("arguments", [(2, "s"), (0, "k"), (-1, "k"), (2, "nope"), (2, "k", "middle")])
def test_extremes_that_pandas_does_itself(arguments):
    check(lambda pd, df: df.nlargest(*arguments), LEFT, native=None)
