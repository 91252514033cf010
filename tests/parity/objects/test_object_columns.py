"""Frames with columns of Python objects in memory: calls on the other columns are planned, and rows keep their objects."""

from __future__ import annotations

import copy
import datetime
import decimal
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

import craton
import craton.pandas
from craton import fallbacks

ROWS = 40


class Thing:
    """An object without an order, whose copies are not equal."""


KINDS: dict[str, list[Any]] = {
    "mixed": [1, "x", None, 2.5, True],
    "lists": [[1, 2], [], None, ["a"], [[3]]],
    "missing only": [None, np.nan, pandas.NaT, pandas.NA, None],
    "text": ["a", "b", None, "", "é"],
    "dates": [datetime.date(2020, 1, 1), None, datetime.date(1999, 12, 31), datetime.date(2020, 1, 1), None],
    "decimals": [decimal.Decimal("1.5"), decimal.Decimal("NaN"), None, decimal.Decimal("-0"), decimal.Decimal("2")],
    "integers": [2**70, -1, 0, None, 5],
    "dicts": [{"a": 1}, {}, None, {"b": [2]}, {"a": 1}],
    "tuples": [(1, 2), (), None, (3,), (1, 2)],
}


def frame(kind: str, rows: int = ROWS) -> pandas.DataFrame:
    numbers = np.random.default_rng(1).integers(0, 9, rows)
    objects = np.empty(rows, dtype=object)
    objects[:] = [KINDS[kind][n % 5] for n in numbers]
    others = np.empty(rows, dtype=object)
    others[:] = [str(n) if n % 2 else n for n in numbers]
    return pandas.DataFrame({"k": numbers, "o": objects, "v": numbers[::-1] / 2, "p": others, "s": "t"})


#: Programs without a fallback, but for those of the objects themselves.
PLANNED: dict[str, Callable[[Any, Any], Any]] = {
    "filter": lambda pd, df: df[df["v"] > 1],
    "sorted": lambda pd, df: df.sort_values(["k", "v"]),
    "sorted, then a part": lambda pd, df: df.sort_values("v", kind="stable").iloc[3:20:2],
    "head of a filter": lambda pd, df: df[df["k"] > 3].head(4)["o"],
    "the column": lambda pd, df: df["o"],
    "both columns": lambda pd, df: df[df["k"] != 2][["p", "o"]],
    "the column filtered": lambda pd, df: df["o"][df["v"] > 1],
    "renamed": lambda pd, df: df.rename(columns={"o": "k", "k": "o"}).query("o > 2"),
    "assigned": lambda pd, df: df.assign(w=df["k"] + df["v"]).query("w > 3"),
    "dropped": lambda pd, df: df.drop(columns=["o"])[df["k"] > 1],
    "labels": lambda pd, df: df.set_index("k").sort_index(kind="stable"),
    "reset": lambda pd, df: df[df["k"] > 2].reset_index(drop=True),
    "groups": lambda pd, df: df.groupby("k")["v"].sum(),
    "groups of a filter": lambda pd, df: df[df["v"] > 1].groupby("k")[["v"]].mean(),
    "windows": lambda pd, df: df.assign(w=df.groupby("k")["v"].cumsum(), u=df["v"].shift())[df["k"] > 1],
    "set": lambda pd, df: (df.__setitem__("z", df["v"] * 2), df[df["z"] > 2])[1],
    "numbers": lambda pd, df: (df["v"].sum(), len(df), df.shape, list(df.columns), [str(one) for one in df.dtypes]),
    "a branch that meets again": lambda pd, df: df[df["v"] > df[df["k"] > 3]["v"].mean()],
    "looked at midway": lambda pd, df: (repr(df.sort_values(["v", "k"])), df.sort_values(["v", "k"]).tail(3))[1],
}
MERGES: dict[str, Callable[[Any, Any], Any]] = {
    **{
        f"{how} merge{' with an indicator' * marked}": lambda pd, df, how=how, marked=marked: df.merge(
            few(df), on="k", how=how, indicator=marked
        )
        for how in ("inner", "left", "right", "outer")
        for marked in (False, True)
    },
    "objects on the left": lambda pd, df: df.merge(few(df)[["k", "w"]], on="k").query("w > 1")[["o", "p", "w"]],
    "objects on the right": lambda pd, df: df[["k", "v"]].merge(few(df), on="k", how="left").sort_values(["v", "k"]),
    "no match": lambda pd, df: df[["k"]].merge(few(df).assign(k=99), on="k", how="left")[["o2", "k"]],
    "only some": lambda pd, df: df.merge(few(df), on="k", how="left")["o2"],
    "two merges": lambda pd, df: df.merge(few(df), on="k", how="left").merge(few(df)[["k", "o2"]], on="k", how="outer"),
    "joined": lambda pd, df: df.join(few(df).set_index("k"), on="k").query("v > 1"),
    "crossed": lambda pd, df: df.head(3).merge(few(df)[["o2"]].head(2), how="cross"),
    "anti": lambda pd, df: df.merge(few(df)[["k"]], on="k", how="left_anti"),
}


def few(df: Any) -> Any:
    small = df[df["k"] > 3].drop_duplicates("k") if "o" not in df else df[["k", "o", "v"]][df["k"] > 3].head(4)
    return small.rename(columns={"o": "o2", "v": "w"})


FALLING_BACK: dict[str, Callable[[Any, Any], Any]] = {
    "rows of groups": lambda pd, df: df.groupby("k").head(2),
    "missing": lambda pd, df: (df.isna().sum(), df["o"].isna().sum(), df.count()),
    "without missing": lambda pd, df: df.dropna(),
    "filled": lambda pd, df: df.fillna({"o": 0}).query("k > 2"),
    "merged": lambda pd, df: df.merge(df[["k", "v"]].drop_duplicates("k"), on="k", how="left"),
    "merged with objects": lambda pd, df: df[["k", "v"]].merge(df[["k", "o"]].head(3), on="k", how="outer"),
    "below": lambda pd, df: pd.concat([df, df[df["k"] > 2]])[["o", "k"]],
    "beside": lambda pd, df: pd.concat([df, df["o"].rename("q")], axis=1).query("k > 1"),
    "shifted": lambda pd, df: df.shift(1).tail(3),
    "shifted objects": lambda pd, df: df["o"].shift().head(),
    "texts": lambda pd, df: df["o"].astype(str).str.len().sum(),
    "values": lambda pd, df: df[df["k"] > 2].to_numpy().tolist(),
    "rows": lambda pd, df: [row.o for row in df[df["k"] > 2].itertuples()],
    "mapped": lambda pd, df: df["o"].map(type).map(lambda cls: cls.__name__).value_counts(),
    "where": lambda pd, df: df.where(df["k"] > 2),
    "where of objects": lambda pd, df: df["o"].where(df["k"] > 2, df["p"]),
    "set in rows": lambda pd, df: (df.loc.__setitem__((df["k"] > 2, "o"), 7), df[df["v"] > 1])[1],
    "set in other rows": lambda pd, df: (df.loc.__setitem__((df["k"] > 2, "v"), 7.5), df[df["v"] > 1])[1],
    "a cell": lambda pd, df: (df.at.__setitem__((3, "o"), "new"), df.sort_values("k", kind="stable"), df["o"][3])[1:],
    "first of groups": lambda pd, df: df.groupby("k")["p"].first(),
    "counts of groups": lambda pd, df: df.groupby("k").size(),
    "aggregates of all": lambda pd, df: df.groupby("k")[["p", "v"]].count(),
    "transposed": lambda pd, df: df.head(3).T,
    "melted": lambda pd, df: df.melt(["k"], ["o", "p"]).query("k > 2"),
    "described": lambda pd, df: df.describe(),
    "equal": lambda pd, df: (df.equals(df.copy()), df["p"].equals(df["p"][df["k"] > -1])),
    "inferred": lambda pd, df: df[df["k"] > 2].infer_objects().dtypes.astype(str).tolist(),
    "memory": lambda pd, df: df.memory_usage(index=False).tolist(),
    "numbers only": lambda pd, df: (df.sum(numeric_only=True), df.select_dtypes("number").max()),
    "selected by dtype": lambda pd, df: df.select_dtypes(object).iloc[::3],
    "largest": lambda pd, df: df.nlargest(3, "v"),
    "sampled": lambda pd, df: df.sample(5, random_state=3),
    "exploded": lambda pd, df: df[["k", "o"]].explode("o"),
    "persisted": lambda pd, df: getattr(df.sort_values(["v", "k"]), "persist", df.sort_values(["v", "k"]).copy)()[
        ["o", "k"]
    ],
    "arithmetic": lambda pd, df: (df["p"] * 2)[df["k"] > 2],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", {**PLANNED, **MERGES, **FALLING_BACK})
def test_programs(program: str, kind: str) -> None:
    check({**PLANNED, **MERGES, **FALLING_BACK}[program], frame(kind), native=None)


@pytest.mark.parametrize("program", PLANNED)
def test_what_is_planned(program: str) -> None:
    with craton.option_context(small_rows=0):
        df = craton.pandas.DataFrame(frame("mixed"))
        fallbacks.reset()
        PLANNED[program](craton.pandas, df)
        assert fallbacks.explain_fallbacks().empty, fallbacks.explain_fallbacks().to_string()


@pytest.mark.parametrize("small_rows", [0, 1, 100_000])
def test_objects_keep_their_identity(small_rows: int) -> None:
    things = [Thing() for _ in range(ROWS)]
    with craton.option_context(small_rows=small_rows):
        df = craton.pandas.DataFrame({"k": np.arange(ROWS) % 7, "o": things})
        chosen = df[df["k"] > 3].sort_values("k", ascending=False, kind="stable")
        expected = sorted((n for n in range(ROWS) if n % 7 > 3), key=lambda n: -(n % 7))
        assert [id(one) for one in chosen["o"]] == [id(things[n]) for n in expected]
        assert chosen["o"].iloc[0] is things[expected[0]]
        assert all(one is other for one, other in zip(df["o"].array, things, strict=True))


def test_a_plan_keeps_the_objects_of_its_call() -> None:
    with craton.option_context(small_rows=0):
        df = craton.pandas.DataFrame(frame("mixed"))
        before = frame("mixed")
        chosen, column = df[df["k"] > 2], df["o"]
        df.loc[:, "o"] = "replaced"
        df.at[0, "p"] = "replaced"
        expected = before[before["k"] > 2]
        assert chosen["o"].tolist() == expected["o"].tolist() or chosen["o"].equals(expected["o"])
        assert chosen["p"].tolist() == expected["p"].tolist()
        assert column.equals(before["o"])
        column[1] = "mine"
        assert df["o"].tolist() == ["replaced"] * ROWS


def test_copies_and_pickles() -> None:
    expected = frame("lists").sort_values("k", kind="stable").head(9)
    with craton.option_context(small_rows=0):
        df = craton.pandas.DataFrame(frame("lists")).sort_values("k", kind="stable").head(9)
        for made in (pickle.loads(pickle.dumps(df)), copy.deepcopy(df), df.copy()):
            pandas.testing.assert_frame_equal(pandas.DataFrame(made), expected)


def test_two_frames_of_one_index() -> None:
    def program(pd: Any, a: Any, b: Any) -> Any:
        b.index = a.index
        made = a.assign(q=b["v"], r=b["k"])
        return made[made["q"] > 1], made["q"].sum(), a.assign(o2=b["o"])[["o", "o2"]].tail(4)

    check(program, frame("mixed"), frame("lists"), native=None)
