"""``concat`` and ``melt`` against pandas."""

from __future__ import annotations

import warnings

import pandas
import pytest
from frames import frames
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import check
from tables import KEYS, LEFT, RIGHT

OPTIONS = [{}, {"ignore_index": True}, {"keys": ["p", "q"]}, {"keys": [1, 2], "names": ["part"]}, {"sort": True}]
NO_BOOL = [label for label in LEFT.columns if label != "b"]


@pytest.mark.parametrize("join", ["outer", "inner"])
@pytest.mark.parametrize("options", OPTIONS)
def test_stacked(join, options):
    def program(pd, a, b):
        return (
            pd.concat([a, b], join=join, **options),
            pd.concat([a, a], join=join, **options),
            pd.concat([a[["k", "f"]], b[["w", "k"]]], join=join, **options),
            pd.concat([a[a.k > 2], b[b.k > 1]], join=join, **options),
            pd.concat([a.set_index("s")[["k", "f"]], b.set_index("s")[["f", "k"]]], join=join, **options),
            pd.concat([a.set_index(["s", "v"])[["k"]], b.set_index(["s", "w"])[["k"]]], join=join, **options),
            pd.concat([a.k, b.k], join=join, **options),
            pd.concat([a.k, b.f], join=join, **options),
        )

    check(program, LEFT[NO_BOOL], RIGHT.drop(columns="u"))


def test_booleans_that_meet_nothing_become_objects():
    check(lambda pd, a, b: pd.concat([a, b]), LEFT, RIGHT, native=None)


@pytest.mark.parametrize("other", ["int8", "uint64", "float32", "Int64", "Float64", "str", "bool", "int64[pyarrow]"])
def test_common_dtypes(other):
    right = RIGHT[["k"]].astype(other)
    check(lambda pd, a, b: pd.concat([a, b]), LEFT[["k"]], right, native=None)
    check(lambda pd, a, b: pd.concat([a.k, b.k], ignore_index=True), LEFT[["k"]], right, native=None)


def test_units_of_time():
    right = RIGHT[["t"]].astype("datetime64[ns]")
    check(lambda pd, a, b: pd.concat([a, b]), LEFT[["t"]], right)


@pytest.mark.parametrize("key", KEYS)
def test_row_labels_of_every_dtype(key):
    check(
        lambda pd, a, b: pd.concat([a, b]),
        LEFT.set_index(key)[["v"]],
        RIGHT.set_index(key)[["w"]].set_axis(["v"], axis=1),
    )


def test_names():
    check(lambda pd, a, b: pd.concat([a.rename_axis("x"), b.rename_axis("y")]), LEFT[["k"]], RIGHT[["k"]], native=None)
    check(lambda pd, a, b: pd.concat({"p": a, "q": b}), LEFT[["k"]], RIGHT[["k"]])
    check(lambda pd, a, b: pd.concat([a, None, b]), LEFT[["k"]], RIGHT[["k"]])
    check(lambda pd, a, b: pd.concat(frame for frame in (a, b)), LEFT[["k"]], RIGHT[["k"]])


def test_side_by_side():
    def program(pd, df):
        return (
            pd.concat([df.k, df.f + 1], axis=1),
            pd.concat([df[["k", "f"]], df.f.rename("z"), df[["s"]]], axis=1),
            pd.concat([df[["k", "f"]], df[["f"]]], axis=1, ignore_index=True),
            pd.concat([df.k, df.s], axis=1, keys=["one", "two"]),
            pd.concat([df.set_index("s").k, df.set_index("s").v], axis="columns"),
        )

    check(program, LEFT)


def test_side_by_side_of_other_rows_is_left_to_pandas():
    check(lambda pd, a, b: pd.concat([a, b], axis=1), LEFT, RIGHT, native=False)


@pytest.mark.parametrize(
    "program",
    [
        lambda pd, a, b: pd.concat([]),
        lambda pd, a, b: pd.concat([None]),
        lambda pd, a, b: pd.concat(a),
        lambda pd, a, b: pd.concat([a, 1]),
        lambda pd, a, b: pd.concat([a, b], join="left"),
        lambda pd, a, b: pd.concat([a, b], keys=["p"]),
        lambda pd, a, b: pd.concat([a, b], ignore_index=True, keys=["p", "q"]),
        lambda pd, a, b: pd.concat([a, b], axis=2),
        lambda pd, a, b: pd.concat([a, a], verify_integrity=True),
    ],
)
def test_errors_are_pandas_own(program):
    assert isinstance(check(program, LEFT[["k"]], RIGHT[["k"]], native=None), Exception)


@pytest.mark.parametrize("options", [{}, {"ignore_index": False}, {"var_name": "which", "value_name": "what"}])
def test_melt(options):
    check(lambda pd, df: df.melt("s", ["k", "v"], **options), LEFT)
    check(lambda pd, df: df.melt(["s", "t"], ["k", "f"], **options), LEFT)
    check(lambda pd, df: pd.melt(df[["k", "f", "v"]], **options), LEFT)
    check(lambda pd, df: pd.melt(df[["k", "f", "v"]], "v", **options), LEFT)
    check(lambda pd, df: df.set_index(["s", "t"]).melt("c", ["k", "f"], **options), LEFT)
    check(lambda pd, df: df.melt("v", ["k", "s"], **options), LEFT, native=None)
    check(lambda pd, df: df.melt("v", ["nope"], **options), LEFT, native=None)
    check(lambda pd, df: df.melt("v", ["k"], **options), LEFT.rename_axis("cols", axis=1), native=None)


@settings(max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(one=frames(max_rows=5), other=frames(max_rows=5), pick=st.data())
def test_random_concats(one, other, pick):
    options = {"join": pick.draw(st.sampled_from(["outer", "inner"])), **pick.draw(st.sampled_from(OPTIONS))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd, a, b: pd.concat([a, b], **options), one, other, native=None)
        check(lambda pd, a, b: pd.concat([a, a], **options), one, other, native=None)


def test_an_iterator_is_read_once():
    import craton.pandas as pd

    with pandas.option_context("display.width", 80):
        parts = iter([pd.DataFrame(LEFT[["k"]]), pd.DataFrame(RIGHT[["k"]])])
        assert len(pd.concat(parts)) == 9


@pytest.mark.parametrize("chosen", ["head(2)", "head()", "tail(2)", "iloc[1:3]", "take([0, 1])", "drop_duplicates()"])
@pytest.mark.parametrize("parts", ["[a, a]", "[a, a, a]", "[a['k'], a['k']]", "[a[['k']], a]"])
def test_labels_of_parts_that_count_from_zero_are_no_range(parts, chosen):
    """The labels of concatenated parts are not a RangeIndex, whichever rows are selected; a RangeIndex would be united by other rules."""

    def program(pd, a):
        rows = eval(f"pd.concat({parts}).{chosen}", {"pd": pd, "a": a})
        return type(rows.index).__name__, rows

    check(program, LEFT, native=None)
    check(lambda pd, a: pd.concat([pd.concat([a["k"]] * 2), a["k"]], axis=1), LEFT, native=None)
    check(
        lambda pd, a: pd.concat([pd.concat([a["k"]] * 2), pd.concat([a["k"]] * 2).head(3)], axis=1), LEFT, native=None
    )


DERIVED = {
    "renamed": lambda d: d.add_prefix("p"),
    "added": lambda d: d.assign(z=1)[["z"]],
    "computed": lambda d: (d[["k"]] * 2).add_suffix("_2"),
    "column": lambda d: d["k"].rename("z").to_frame(),
    "shifted": lambda d: d.shift().add_prefix("p"),
    "all selected": lambda d: d[d["k"].notna() | d["k"].isna()].add_prefix("p"),
    "all distinct": lambda d: d.assign(n=range(len(d))).drop_duplicates().add_prefix("p"),
    "sorted as before": lambda d: d.assign(n=range(len(d))).sort_values("n").add_prefix("p"),
    "some selected": lambda d: d[d["k"] > 1].add_prefix("p"),
    "made anew": lambda d: type(d)({"z": range(len(d))}),
}
LABELS = {
    "range": lambda d: d,
    "integers": lambda d: d.set_axis([7 * i % 11 + 1 for i in range(len(d))]),
    "floats": lambda d: d.set_axis([i / 2 for i in range(len(d))]),
    "selected": lambda d: d[d["k"] < 9],
}


#: What differs if it was looked at (docs/known-differences.md): the Index of a result that happens to have all rows.
BY_DATA = {"all selected", "all distinct", "sorted as before"}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(
    ("derived", "looked"),
    [*((name, False) for name in DERIVED), *((name, True) for name in sorted(DERIVED.keys() - BY_DATA))],
)
def test_labels_of_which_none_are_left(derived, labels, looked):
    """pandas takes labels that several objects share once, which decides the dtype of labels of which none are left."""

    def program(pd, a):
        a = LABELS[labels](a)
        b = pd.DataFrame({"q": [1.5]}, index=pd.Index(["x"]))
        c = DERIVED[derived](a)
        if looked:
            repr(a), repr(b), repr(c)
        found = [
            pd.concat([a, b, c], axis=1, join="inner"),
            pd.concat([b, a, c], axis=1, join="inner"),
            pd.concat([a, c], axis=1, join="inner"),
            pd.concat([c["z"] if "z" in c else c.iloc[:, 0], b["q"], a["k"]], axis=1, join="inner"),
            a.join([b, c], how="inner"),
        ]
        return *(str(one.index.dtype) for one in found), *found

    check(program, LEFT[["k", "f"]], native=None)


@pytest.mark.parametrize("labels", LABELS)
def test_labels_that_stay_are_one_index(labels):
    """``reindex`` to its own labels, and methods that keep all rows, return the same Index, which ``Index.is_`` shows."""

    def program(pd, a):
        a = LABELS[labels](a)
        same = a.reindex(a.index)
        column = a["k"].reindex(a.index)
        other = a.reindex(list(a.index))
        repr(same)
        given = a.index[::2]
        rows = a.reindex(given)
        later = rows["f"] + 1
        found = (same, column, a.assign(z=1), a["k"] + 1, a.shift())
        kept = (rows.index.is_(given), later.index.is_(given), rows.index.is_(a.index))
        return *(one.index.is_(a.index) for one in found), *kept, same, column.sum(), other, later

    check(program, LEFT[["k", "f"]], native=None)
