"""The levels of a group-by's MultiIndex: their order, and missing keys among them, also after further operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check_sources

DATA = pandas.DataFrame(
    {
        "t": ["y", None, "x", "y", "x", "w", None],
        "f": [2.0, 1.0, np.nan, 1.0, np.nan, np.nan, 2.0],
        "i": [3, 1, 2, 3, 1, 1, 2],
        "d": pandas.to_datetime(["2021", "2020", None, "2020", "2021", None, "2020"]),
        "I": pandas.array([2, None, 1, 2, None, 1, 3], dtype="Int64"),
        "c": pandas.Categorical(["q", "p", None, "q", "p", "p", None], categories=["q", "p", "unused"]),
        "v": [1, 2, 3, 4, 5, 6, 7],
    }
)
KEYS = [["t", "f"], ["d", "i"], ["I", "t", "f"], ["c", "f"], ["i", "v"]]
GROUPS = {
    "sorted": {"dropna": False},
    "appearing": {"sort": False},
    "appearing with missing": {"sort": False, "dropna": False},
    "usual": {},
}


def _seen(result: Any) -> Any:
    """The levels and codes of a MultiIndex; any other object unchanged."""
    if isinstance(result, pandas.MultiIndex):
        return [list(level) for level in result.remove_unused_levels().levels], result
    return result


def _unstacked(result: Any) -> Any:
    return result.unstack() if result.index.is_unique and result.index.nlevels > 1 else result


STEPS = {
    "index": lambda r: _seen(r.index),
    "slice": lambda r: (r.iloc[1:3], _seen(r.iloc[1:].index), r[1:]),
    "loc": lambda r: r.loc[r.index[0] :],
    "first": lambda r: r.loc[r.index[0][0]],
    "filter": lambda r: (r[r > 2], _seen(r[r > 2].index), _unstacked(r[r > 2])),
    "unstack": _unstacked,
    "unstack first": lambda r: r.unstack(0),
    "sorted": lambda r: (r.sort_index(), _seen(r.sort_index().index), _unstacked(r.sort_index())),
    "sorted down": lambda r: r.sort_index(ascending=False),
    "sorted by one": lambda r: (r.sort_index(level=1), r.sort_index(level=0, ascending=False, na_position="first")),
    "sorted values": lambda r: (_unstacked(r.sort_values(kind="stable")), r.sort_values(kind="stable").sort_index()),
    "swapped": lambda r: (r.swaplevel(0, 1).sort_index(), r.swaplevel(0, 1).unstack(), _seen(r.swaplevel(0, 1).index)),
    "reset": lambda r: (r.reset_index(), r.reset_index(level=0), r.iloc[1:].reset_index()),
    "dropped": lambda r: r.droplevel(0),
    "renamed": lambda r: (r.rename_axis(list("xyz")[: r.index.nlevels]).sort_index(), _unstacked(r.rename("q"))),
    "grouped": lambda r: (
        r.groupby(level=0).sum(),
        r.groupby(level=1, dropna=False).sum(),
        r.groupby(level=[0, 1]).max(),
    ),
    "appended": lambda r: _seen(pandas.concat([pandas.Series(r), pandas.Series(r.iloc[:1])]).index),
    "frame": lambda r: (r.to_frame("q").sort_index(), r.to_frame("q").assign(w=1).iloc[1:].unstack()),
    "head": lambda r: (r.head(2).unstack(), r.head(0), r.nlargest(2).index),
    "largest": lambda r: r.sort_values(kind="stable").tail(3).sort_index(),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("named", GROUPS.values(), ids=GROUPS)
def test_what_comes_after_a_group_by(named, step, tmp_path):
    for keys in KEYS:

        def program(pd: Any, df: Any, keys: Any = keys) -> Any:
            found = []
            for part in (df, df[df.v > 1]):
                grouped = part.groupby(keys, observed=True, **named).v.sum()
                found.append(step(grouped))
            return found

        check_sources(program, DATA, tmp_path)


@pytest.mark.parametrize("named", GROUPS.values(), ids=GROUPS)
def test_frames_of_groups(named, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        table = df.groupby(["t", "f"], **named).agg(n=("v", "count"), s=("v", "sum"))
        return (
            table.unstack(),
            table[table.n > 1].unstack(),
            table.iloc[1:],
            table.sort_index(level="f"),
            table.query("n > 0"),
        )

    check_sources(program, DATA, tmp_path)


LEFT_OUT = {
    "texts and floats": {"a": ["x", "y", "x", "z", None], "b": [None, 1, 2, None, 3]},
    "floats": {"a": [-2.25, 10.0, np.nan, 1.0], "b": [3, -3, 0, np.nan]},
    "whole numbers": {"a": [-2.25, 10.0, np.nan, np.nan], "b": [3, -3, 0, 9]},
    "times and nullable": {
        "a": pandas.to_datetime(["2021", None, "2020", "2019"]),
        "b": pandas.array([2, 1, 2, None], dtype="Int64"),
    },
    "categories": {
        "a": pandas.Categorical(["q", None, "p", "q"], categories=["q", "p", "unused"]),
        "b": [2, 1, 2, None],
    },
}


@pytest.mark.parametrize("dropna", [True, False])
@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("data", LEFT_OUT.values(), ids=LEFT_OUT)
def test_labels_on_rows_that_are_left_out(data, sort, dropna, tmp_path):
    data = pandas.DataFrame({**data, "v": range(len(data["a"]))})

    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby(["a", "b"], sort=sort, dropna=dropna, observed=True)
        grouped = groups.v.sum()
        found = [*map(list, grouped.index.levels), grouped.unstack(0), grouped.unstack()]
        found += [
            grouped[grouped > 0].unstack(),
            grouped.sort_index(ascending=False).unstack(),
            groups.size().unstack(),
        ]
        return [*found, grouped.index.remove_unused_levels().levels[0], grouped.iloc[1:].index.levels[1]]

    check_sources(program, data, tmp_path)
    if sort:
        check_sources(lambda pd, df: df.pivot_table(values="v", index="a", columns="b", dropna=dropna), data, tmp_path)


def test_counts_of_rows(tmp_path):
    def program(pd: Any, df: Any) -> Any:
        counts = df[["t", "f"]].value_counts(dropna=False)
        return counts, counts.sort_index(), counts.unstack(), df[["t", "f"]].value_counts(sort=False)

    check_sources(program, DATA, tmp_path)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32"])
def test_described_groups_go_on_as_floats(dtype, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        described = df.astype({"i": dtype}).groupby("v")["i"].describe()
        return described.reset_index().melt(id_vars="v"), described.sum(), described["min"] + described["max"]

    check_sources(program, DATA, tmp_path)
