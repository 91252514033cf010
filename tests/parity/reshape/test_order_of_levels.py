"""The labels in a level of a MultiIndex have pandas' order, which determines the order of columns in ``unstack``.

When rows are selected, pandas keeps the levels of the index, including labels that no row has any more. The order of the
remaining labels is that of the original level.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

DATA = pandas.DataFrame(
    {
        "k": [1, 1, 2, 2, 3, 3],
        "c": ["z", "y", "x", "y", "w", "x"],
        "f": [2.5, np.nan, -1.0, 2.5, 0.5, 9.0],
        "v": [1, 2, 3, 4, 5, 6],
    }
)
#: Programs that make rows with several levels.
SOURCES: dict[str, Callable[[Any, Any], Any]] = {
    "columns": lambda pd, df: df.set_index(["k", "c"]),
    "columns with a gap": lambda pd, df: df.set_index(["f", "c"]),
    "one after another": lambda pd, df: df.set_index("c").set_index("k", append=True),
    "three": lambda pd, df: df.set_index(["k", "f", "c"]).droplevel("f"),
    "the other way round": lambda pd, df: df.set_index(["k", "c"]).swaplevel(),
    "groups": lambda pd, df: df.groupby(["k", "c"])[["v"]].sum(),
    "groups by first appearance": lambda pd, df: df.groupby(["c", "k"], sort=False)[["v"]].sum(),
    "groups with a gap": lambda pd, df: df.groupby(["f", "c"], dropna=False)[["v"]].sum(),
    "keys before equal labels": lambda pd, df: pd.concat({"q": df.set_index("c")[:3], "p": df.set_index("c")[:3]}),
    "keys before labels that differ": lambda pd, df: pd.concat(
        {"q": df.set_index("c")[:3], "p": df.set_index("c")[3:]}
    ),
    "keys before numbers": lambda pd, df: pd.concat([df[4:1:-1], df[4:1:-1]], keys=[2, 1]),
    "keys before levels": lambda pd, df: pd.concat([df.set_index(["k", "c"]).droplevel(0)[:3]] * 2, keys=["b", "a"]),
    "frames with levels": lambda pd, df: pd.concat(
        [df[3:].groupby(["c", "k"], sort=False)[["v"]].sum(), df[:2].groupby(["c", "k"], sort=False)[["v"]].sum()]
    ),
    "counts": lambda pd, df: df[["c", "k"]].value_counts().rename("v").to_frame(),
    "counts of groups": lambda pd, df: df.groupby("k")[["f"]].value_counts().rename("v").to_frame(),
    "labels of other rows": lambda pd, df: df.assign(
        k=df["k"].cumsum(), c=df["c"].shift(-1), x=df["v"].shift().fillna(0)
    ).set_index(["k", "c"])[["v"]],
    "another column": lambda pd, df: df.set_index(["k", "c"]).assign(v=lambda f: f["v"] * 2, w=1),
}
#: Selections of rows, and what is then read.
CHOICES: dict[str, Callable[[Any], Any]] = {
    "all": lambda t: t,
    "by a mask": lambda t: t[t["v"] > 2],
    "the first": lambda t: t.head(3),
    "the last": lambda t: t.iloc[-2:],
    "every other": lambda t: t.iloc[::2],
    "places": lambda t: t.take([2, 0]),
    "sorted, then the first": lambda t: t.sort_values("v", ascending=False, kind="stable").head(2),
    "the largest": lambda t: t.nlargest(2, "v"),
    "distinct": lambda t: t.drop_duplicates("v").head(3),
    "twice": lambda t: t[t["v"] > 1].head(2),
    "without gaps": lambda t: t.where(t["v"] < 4).dropna(subset=["v"]),
    "queried": lambda t: t.query("v >= 3"),
    "its levels sorted": lambda t: t[t["v"] < 5].sort_index(),
}
LOOKS: dict[str, Callable[[Any], Any]] = {
    "unstacked": lambda t: t[["v"]].unstack(),
    "unstacked by the first": lambda t: t["v"].unstack(0),
    "levels that rows have": lambda t: [list(level) for level in t.index.remove_unused_levels().levels],
    "grouped": lambda t: t.groupby(level=1)["v"].sum(),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("source", SOURCES)
def test_every_choice(source: str, choice: str, look: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        return LOOKS[look](CHOICES[choice](SOURCES[source](pd, df)))

    check(program, DATA, native=None)


@pytest.mark.parametrize("choice", CHOICES)
def test_levels_of_files(choice: str, tmp_path: Any) -> None:
    check_sources(lambda pd, df: CHOICES[choice](df)["v"].unstack(), DATA.set_index(["k", "c"]), tmp_path)


def test_counts_of_one_column_have_their_labels_sorted() -> None:
    check(lambda pd, df: df[["c"]].value_counts().index.levels[0].tolist(), DATA, native=None)
    check(lambda pd, df: df.groupby("c")[["f"]].value_counts().unstack(), DATA, native=None)


def test_the_calendar_has_labels_of_its_own() -> None:
    data = DATA.assign(t=pandas.date_range("2024-01-30", periods=6)).set_index(["k", "c"])
    check(lambda pd, df: df["t"].take([3, 2]).dt.isocalendar()["week"].unstack(), data, native=None)


GAPS = pandas.DataFrame(
    {
        "k": [1, 1, 2, 2, 3, 3, 1],
        "c": ["z", "y", None, "y", "w", "x", "z"],
        "f": [2.5, np.nan, -1.0, 2.5, 0.5, 9.0, np.nan],
        "s": ["q", None, "q", "p", "a", "q", None],
    }
)


@pytest.mark.parametrize("flags", list(itertools.product([True, False], repeat=4)), ids=str)
@pytest.mark.parametrize("counted", [["f"], ["s"], ["s", "f"], ["k"], None], ids=str)
@pytest.mark.parametrize("by", ["c", ["c", "k"], "f", "k"], ids=str)
def test_counts_of_groups_with_gaps(by: Any, counted: Any, flags: tuple[bool, ...]) -> None:
    sort, dropna, by_count, present = flags

    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby(by, sort=sort, dropna=dropna)
        counts = (groups if counted is None else groups[counted]).value_counts(sort=by_count, dropna=present)
        return counts, counts.unstack() if counts.index.nlevels > 1 else None

    check(program, GAPS, native=None)


TRUTHS = pandas.DataFrame({"s": [True, False, True], "t": [True] * 3, "n": [1, 2, 3], "w": [1.0, 2.0, np.nan]})
#: Steps that make booleans missing, which converts columns of booleans to objects.
GAPPED: dict[str, Callable[[Any, Any], Any]] = {
    "none is": lambda pd, df: df,
    "where": lambda pd, df: df.where(df["n"] > 1),
    "shift": lambda pd, df: df.shift(),
    "shift of groups": lambda pd, df: df.groupby("n").shift().assign(n=df["n"]),
    "merge": lambda pd, df: df[["n"]].merge(df[1:].assign(s=True, t=False), on="n", how="left"),
    "reindex": lambda pd, df: df.reindex([0, 2, 9]),
    "transform": lambda pd, df: df.groupby("w").transform("ffill"),
    "concat": lambda pd, df: pd.concat([df, df[["n"]]]),
}
LABELLED: dict[str, Callable[[Any], Any]] = {
    "one": lambda df: df.set_index("s"),
    "one more": lambda df: df.set_index("s", append=True),
    "two": lambda df: df.set_index(["s", "t"]),
    "groups": lambda df: df.groupby(["s", "n"], dropna=False)[["t"]].count(),
    "groups without missing": lambda df: df.groupby(["n", "s"])[["t"]].count(),
    "counts": lambda df: df[["s", "t"]].value_counts(dropna=False).to_frame(),
    "pivot": lambda df: df.pivot_table(index=["s", "t"], values="n"),
}
AFTERWARDS: dict[str, Callable[[Any], Any]] = {
    "all": lambda t: t,
    "dropna": lambda t: t.dropna(),
    "head": lambda t: t.head(1),
    "sorted": lambda t: t.sort_index(),
    "columns": lambda t: t.reset_index(),
    "one level": lambda t: t.reset_index(0),
    "and back": lambda t: t.reset_index().set_index(["s", t.columns[0]]),
}


@pytest.mark.parametrize("then", AFTERWARDS)
@pytest.mark.parametrize("labels", LABELLED)
@pytest.mark.parametrize("gaps", GAPPED)
def test_levels_of_truth_values(gaps: str, labels: str, then: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        table = AFTERWARDS[then](LABELLED[labels](GAPPED[gaps](pd, df)))
        levels = getattr(table.index, "levels", [table.index])
        return table, [str(level.dtype) for level in levels], [level.tolist() for level in levels]

    check(program, TRUTHS, native=None)


#: Frames with the levels ``k`` and ``c``: sorted or unsorted, with labels that no row has, or with repeated rows.
SIDES: dict[str, Callable[[Any, Any], Any]] = {
    "columns": lambda pd, df: df[1:].set_index(["k", "c"]),
    "chosen": lambda pd, df: df.set_index(["k", "c"]).query("v > 2"),
    "none chosen": lambda pd, df: df.set_index(["k", "c"]).query("v > 9"),
    "repeated": lambda pd, df: df.assign(k=df["k"] // 3, c="x").set_index(["k", "c"]),
    "groups": lambda pd, df: df.groupby(["k", "c"])[["v"]].sum(),
    "groups by first appearance": lambda pd, df: df[::-1].groupby(["k", "c"], sort=False)[["v"]].sum(),
    "keys": lambda pd, df: pd.concat([df[["c", "v"]].set_index("c")[:2]] * 2, keys=[2, 1], names=["k"]),
    "categories": lambda pd, df: df.astype({"c": "category"}).set_index(["k", "c"]).query("v > 2"),
}
JOINS: dict[str, Callable[[Any, Any], Any]] = {
    **{how: lambda a, b, how=how: a.join(b, how=how, rsuffix="_r") for how in ("left", "right", "inner", "outer")},
    "sorted": lambda a, b: a.join(b, how="inner", rsuffix="_r", sort=True),
    "with itself": lambda a, b: a.join(a, how="outer", rsuffix="_r"),
    "on columns": lambda a, b: a.merge(
        b.reset_index().rename(columns={"k": "j", "c": "d"}), left_index=True, right_on=["j", "d"]
    ),
    "to a column": lambda a, b: a.assign(j=1).merge(b.reset_index("c").rename_axis("i"), left_on="j", right_index=True),
}


@pytest.mark.filterwarnings("ignore:The 'lsuffix' and 'rsuffix' keywords")
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("left", SIDES)
def test_levels_of_joined_rows(left: str, join: str) -> None:
    def program(pd: Any, df: Any, right: str) -> Any:
        table = JOINS[join](SIDES[left](pd, df), SIDES[right](pd, df))
        return table, [level.tolist() for level in getattr(table.index, "levels", [])]

    for right in SIDES:
        check(program, DATA, right, native=None)


def test_joins_of_sorted_levels_stay_planned() -> None:
    indexed = DATA.set_index(["k", "c"])
    for how in ("left", "right", "inner"):
        check(lambda pd, df, how=how: df[["v"]].join(df[1:][["f"]], how=how), indexed)
    check(lambda pd, df: df[["v"]].join(df[["f"]], how="outer"), indexed)
    check(
        lambda pd, df: df.groupby(["k", "c"])[["v"]].sum().join(df[2:].groupby(["k", "c"])["f"].max(), how="outer"),
        DATA,
    )


#: Programs in which an index of integers becomes a level. It is a RangeIndex, whose labels are Python integers, if they are evenly spaced.
RANGES: dict[str, Callable[[Any, Any], Any]] = {
    "appended to": lambda pd, df: df.set_index("k", append=True),
    "appended to, then chosen": lambda pd, df: df.set_index(["k", "c"], append=True).query("v != 3"),
    "swapped": lambda pd, df: df.set_index("k", append=True).swaplevel(),
    "sorted": lambda pd, df: df.set_index("k", append=True).sort_index(),
    "joined": lambda pd, df: df.set_index("k", append=True).join(df[["k"]].set_index("k", append=True), how="outer"),
    "made columns": lambda pd, df: df[["k", "v"]].set_index("k", append=True).transpose(),
}
SPACED: dict[str, Callable[[Any], Any]] = {
    "all": lambda df: df,
    "chosen": lambda df: df[df["v"] > 2],
    "every other": lambda df: df.iloc[::2],
    "with a gap": lambda df: df[df["v"] != 3],
    "reversed": lambda df: df.iloc[::-1],
    "in another order": lambda df: df.iloc[[2, 0, 1]],
    "repeated": lambda df: df.iloc[[0, 0, 1]],
    "none": lambda df: df[df["v"] > 9],
    "labels of a column": lambda df: df.set_index("v"),
}


def _classes(table: Any, axis: str) -> Any:
    index = getattr(table, axis)
    return table, [type(level) for level in index.levels], [type(label) for label in index[0]] if len(index) else None


@pytest.mark.parametrize("spaced", SPACED)
@pytest.mark.parametrize("way", RANGES)
def test_ranges_that_become_levels(way: str, spaced: str) -> None:
    axis = "columns" if way == "made columns" else "index"
    check(lambda pd, df: _classes(RANGES[way](pd, SPACED[spaced](df)), axis), DATA, native=None)


def test_ranges_below_keys() -> None:
    for count in (6, 4):
        check(lambda pd, df, count=count: _classes(pd.concat([df, df[:count]], keys=["a", "b"]), "index"), DATA)
    check(lambda pd, df: _classes(pd.concat({"x": df[::2]}).query("v > 2"), "index"), DATA)


def test_the_name_of_groups_by_a_transposed_column(tmp_path: Any) -> None:
    times = pandas.DataFrame({"y": pandas.array(["2024-01-31", "2024-03-31 02:30"], dtype="datetime64[ms]")})

    def program(pd: Any, df: Any) -> Any:
        wide = df.set_index("y", append=True).swaplevel().transpose()
        return [type(part) for part in wide.groupby(("2024-03-31T02:30:00", 1)).any().index.names[0]]

    check_sources(program, times, tmp_path)
