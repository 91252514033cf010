"""Strings of dtype object, as ``str.split().str[0]`` returns them, give pandas' results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner

TEXTS: dict[str, list[str | None]] = {
    "usual": ["a b", "", None, "  ß  y ", "a", "b a b", "Ab,1,,c,", "É x", None, "a b", "1 2", "A\u0301 z"],
    "no missing": ["a b", "c", "é f", "a", "Aa x", "aaa", "a b c d", "12 x"],
    "one": ["a"],
}
#: Calls that are planned, whatever the strings are.
PLANNED: list[Callable[[Any, Any], Any]] = [
    lambda pd, s: s,
    lambda pd, s: s.isna(),
    lambda pd, s: s.notna(),
    lambda pd, s: s.dropna(),
    lambda pd, s: s.fillna("none"),
    lambda pd, s: s == "a",
    lambda pd, s: s[s != "a"],
    lambda pd, s: s.isin(["a", "b"]),
    lambda pd, s: s.isin([]),
    lambda pd, s: s.value_counts(),
    lambda pd, s: s.value_counts(normalize=True, ascending=True),
    lambda pd, s: s.value_counts(dropna=False),
    lambda pd, s: s.unique(),
    lambda pd, s: s.map({"a": "one", "b": "two"}),
    lambda pd, s: s.map({"a": 1}),
    lambda pd, s: s.astype("str").value_counts(),
    lambda pd, s: s.str.upper(),
    lambda pd, s: s.str.strip().str.lower().value_counts(),
    lambda pd, s: s.str.len(),
    lambda pd, s: s.str.len().sum(),
    lambda pd, s: s.str[:1],
    lambda pd, s: s.str.replace("a", "z"),
    lambda pd, s: s.str.replace("[ab]", "z", regex=True),
    lambda pd, s: s.str.split("a").str.len(),
    lambda pd, s: s.str.split("b").str[0].str.title(),
    lambda pd, s: s.str.split("a").explode(),
    lambda pd, s: s.str.findall("[a-z]").explode().value_counts().sort_index(),
    lambda pd, s: s.str.count("a"),
    lambda pd, s: s.str.find("a"),
    lambda pd, s: s.str.zfill(3),
    lambda pd, s: s.fillna("").str.contains("a"),
    lambda pd, s: s.dropna().str.startswith("a"),
    lambda pd, s: s.rename("other").to_frame(),
    lambda pd, s: s.head(3),
    lambda pd, s: s.to_frame("k").assign(n=1).sort_values(["n", "k"]),
    lambda pd, s: s.to_frame("k").sort_values("k", kind="stable", na_position="first"),
    lambda pd, s: s.to_frame("k").assign(n=1).sort_values("k", kind="stable", ascending=False).head(4),
]
OTHER: list[Callable[[Any, Any], Any]] = [
    lambda pd, s: s.str.contains("a"),
    lambda pd, s: s.str.isalpha(),
    lambda pd, s: s.str.contains("a", na=False),
    lambda pd, s: s.str[0],
    lambda pd, s: s.str[3],
    lambda pd, s: s.str.extract("([a-z])"),
    lambda pd, s: s.str.split("a", expand=True),
    lambda pd, s: s.str.get_dummies("a"),
    lambda pd, s: s.str.cat(sep="-"),
    lambda pd, s: s.str.encode("utf8"),
    lambda pd, s: s + "x",
    lambda pd, s: s < "a",
    lambda pd, s: s == 1,
    lambda pd, s: s == s,
    lambda pd, s: s.isin(["a", None, np.nan, 1]),
    lambda pd, s: s.isin(s),
    lambda pd, s: s.fillna(1),
    lambda pd, s: s.fillna(s.shift()),
    lambda pd, s: s.astype("category"),
    lambda pd, s: s.astype("string"),
    lambda pd, s: s.astype(object),
    lambda pd, s: s.nunique(),
    lambda pd, s: s.count(),
    lambda pd, s: s.mode(),
    lambda pd, s: s.min() if s.notna().all() else s.dropna().min(),
    lambda pd, s: s.sort_values(kind="stable"),
    lambda pd, s: s.drop_duplicates(),
    lambda pd, s: s.groupby(s).size(),
    lambda pd, s: s.to_frame("k").assign(n=1).groupby("k").sum(),
    lambda pd, s: s.to_frame("k").assign(n=1).groupby("k", as_index=False, dropna=False)["n"].sum(),
    lambda pd, s: s.where(s == "a"),
    lambda pd, s: s.replace("a", "z"),
    lambda pd, s: s.shift(),
    lambda pd, s: s.describe(),
    lambda pd, s: pd.get_dummies(s),
    lambda pd, s: pd.concat([s, s]),
    lambda pd, s: s.reindex([0, 50]),
    lambda pd, s: s.to_frame("k").merge(s.to_frame("k").drop_duplicates(), on="k"),
    lambda pd, s: s.to_frame("k").merge(pd.DataFrame({"n": [1, 2]}), left_index=True, right_index=True, how="outer"),
    lambda pd, s: s[s.isna()].str.upper(),
    lambda pd, s: s[s.isna()].value_counts(),
    lambda pd, s: s[s == "nowhere"].str.upper(),
    lambda pd, s: s[s == "nowhere"].value_counts(),
    lambda pd, s: s.map({"a": 1, np.nan: 2}),
    lambda pd, s: s.map(str.upper, na_action="ignore"),
    lambda pd, s: s.tolist(),
    lambda pd, s: repr(s),
]


def _texts(name: str, rows: int = 0) -> pandas.Series:
    texts = TEXTS[name]
    return pandas.Series((texts * (rows // len(texts) + 1))[: rows or len(texts)], dtype="str", name="t")


@pytest.mark.parametrize("name", TEXTS)
def test_planned_calls(name: str) -> None:
    for program in PLANNED:
        check(lambda pd, s, p=program: p(pd, s.str.split(" ").str[0]), _texts(name))
        check(lambda pd, s, p=program: p(pd, s.str.split().str.join("-")), _texts(name))
    engine = TiledEngine(InlineRunner(), settings=Settings(tiles=5, broadcast_bytes=1, collapse_bytes=0), least_bytes=0)
    with using(engine):
        for program in PLANNED:
            check(lambda pd, s, p=program: p(pd, s.str.split(" ").str[-1]), _texts(name, 23))


@pytest.mark.parametrize("name", TEXTS)
def test_other_calls(name: str) -> None:
    for program in OTHER:
        check(lambda pd, s, p=program: p(pd, s.str.split(" ").str[0]), _texts(name), native=None)


GROUPED: list[Callable[[Any, Any], Any]] = [
    lambda pd, f: f.groupby("first")["x"].sum(),
    lambda pd, f: f.groupby("first", sort=False)["x"].mean(),
    lambda pd, f: f.groupby("first", dropna=False)["x"].max(),
    lambda pd, f: f.groupby(["first", "k"])["x"].sum(),
    lambda pd, f: f.groupby(["k", "first"], dropna=False)["x"].agg(["sum", "count"]),
    lambda pd, f: f.groupby("first")[["x", "k"]].agg({"x": "sum", "k": "max"}).reset_index(),
    lambda pd, f: f.groupby("first")["x"].cumsum(),
    lambda pd, f: f.groupby("first")["x"].transform("mean"),
    lambda pd, f: f["x"].groupby(f["first"]).sum(),
]
OTHER_GROUPED: list[Callable[[Any, Any], Any]] = [
    lambda pd, f: f.groupby("first").size(),
    lambda pd, f: f.groupby("first").ngroup(),
    lambda pd, f: f.groupby("first").agg(n=("x", "sum")),
    lambda pd, f: f.groupby("first").head(1),
    lambda pd, f: f.groupby("first").first(),
    lambda pd, f: f.groupby("first").sum(),
    lambda pd, f: f.groupby("first").cumcount(),
    lambda pd, f: f.groupby("first")["x"].head(1),
    lambda pd, f: f.groupby("first")["x"].nth(0),
    lambda pd, f: f.groupby("first")["x"].value_counts(),
    lambda pd, f: f.groupby("first")["x"].describe(),
    lambda pd, f: f.groupby("first", as_index=False)["x"].sum(),
    lambda pd, f: f.groupby("first", as_index=False).agg({"x": "sum"}),
    lambda pd, f: f.groupby("first")["x"].apply(lambda one: one.sum()),
    lambda pd, f: f.groupby("first")["t"].first(),
    lambda pd, f: f.groupby("k")["first"].first(),
    lambda pd, f: f.groupby("k")["first"].nunique(),
    lambda pd, f: f.groupby("k")["first"].value_counts(),
    lambda pd, f: f.groupby("first")["first"].count(),
    lambda pd, f: f.groupby(f["first"].rename("other"))["x"].sum(),
    lambda pd, f: f.groupby([f["first"], "k"])["x"].sum(),
    lambda pd, f: f[f["first"].isna()].groupby("first")["x"].sum(),
    lambda pd, f: f[f["first"] == "nowhere"].groupby("first")["x"].sum(),
    lambda pd, f: f.pivot_table(index="first", columns="k", values="x"),
    lambda pd, f: [name for name, _ in f.groupby("first")],
    lambda pd, f: f.set_index("first"),
    lambda pd, f: f.set_index("first").groupby(level=0)["x"].sum(),
    lambda pd, f: f.sort_values("first", kind="stable"),
    lambda pd, f: f.drop_duplicates("first"),
    lambda pd, f: f.value_counts("first"),
    lambda pd, f: f.melt(id_vars="x", value_vars=["first"]),
    lambda pd, f: f.describe(include="all"),
    lambda pd, f: f.query("first == 'a'"),
    lambda pd, f: f.nunique(),
    lambda pd, f: f.fillna("none"),
    lambda pd, f: f.replace({"a": "z"}),
    lambda pd, f: f.isna().sum(),
    lambda pd, f: f.dropna(),
    lambda pd, f: f.merge(f.groupby("first")["x"].sum().rename("sum").reset_index(), on="first"),
    lambda pd, f: f.join(f.groupby("first")["x"].sum().rename("sum"), on="first"),
]


@pytest.mark.parametrize("name", TEXTS)
def test_groups(name: str) -> None:
    data = _texts(name).to_frame().assign(x=np.arange(len(TEXTS[name])) % 4, k=np.arange(len(TEXTS[name])) % 3)
    for program in GROUPED:
        check(lambda pd, f, p=program: p(pd, f.assign(first=f["t"].str.split(" ").str[0])), data)
    for program in OTHER_GROUPED:
        check(lambda pd, f, p=program: p(pd, f.assign(first=f["t"].str.split(" ").str[0])), data, native=None)


def test_a_program() -> None:
    def program(pd: Any, f: Any) -> Any:
        f["first"] = f["t"].str.split(" ").str[0].str.strip()
        counts = f["first"].value_counts()
        f["first"] = f["first"].fillna("none")
        few = f[f["first"].isin(["a", "none"])]
        f.loc[f["x"] > 3, "first"] = "large"
        kinds = f["first"].map({"a": "one", "large": "two"})
        return counts, few, kinds, f, few.assign(n=few["first"].str.len())["n"].sum()

    check(program, _texts("usual").to_frame().assign(x=range(12)), native=None)
