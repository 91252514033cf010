"""Group-bys of frames that also have columns of Python objects: methods that do not need these are planned, and the others are pandas'."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "k": ["a", "b", None, "a", "b", "a"],
        "n": [1, 2, 1, 1, 2, 3],
        "x": [1.5, None, 2.5, -1.0, 0.0, 4.0],
        "day": [datetime.date(2020, 1, i) for i in (1, 2, 3, 1, 2, 3)],
        "any": [1, "two", None, 4.0, (5,), {6}],
    }
)
PLANNED: dict[str, Callable[[Any], Any]] = {
    "named": lambda g: g.agg(n=("x", "size"), first=("x", "first")),
    "named, then added up": lambda g: g.agg(n=("x", "sum"))["n"].sum(),
    "by dict": lambda g: g.agg({"x": ["sum", "max"]}),
    "by dict of one": lambda g: g.agg({"x": "mean"}),
    "by dict of a function": lambda g: g.agg({"x": lambda s: s.max() - s.min()}),
    "size": lambda g: g.size(),
    "cumcount": lambda g: g.cumcount(),
    "numbers": lambda g: g.mean(numeric_only=True),
    "sum of numbers": lambda g: g.sum(numeric_only=True),
    "selected": lambda g: g["x"].sum(),
    "selected list": lambda g: g[["x"]].max(),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "objects": lambda g: g.agg(d=("day", "first"), x=("x", "sum")),
    "objects by dict": lambda g: g.agg({"day": "count", "x": "sum"}),
    "all": lambda g: g.first(),
    "list": lambda g: g.agg(["first", "count"]),
    "not numbers": lambda g: g.sum(),
    "an unknown column": lambda g: g.agg({"z": "sum"}),
    "an object": lambda g: g["any"].count(),
    "frame counts": lambda g: g["day"].value_counts(),
}
OPTIONS: list[dict[str, Any]] = [{}, {"as_index": False}, {"sort": False}, {"dropna": False}]


@pytest.mark.parametrize("by", ["k", "n", ["k", "n"]], ids=str)
@pytest.mark.parametrize("given", OPTIONS, ids=str)
@pytest.mark.parametrize("name", [*PLANNED, *OTHERS])
def test_a_method(name: str, given: dict[str, Any], by: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        before = df.assign(w=df["x"] * 2)
        found = (PLANNED | OTHERS)[name](before.groupby(by, **given))
        return found, before["w"].sum()

    check(program, FRAME, native=True if name in PLANNED else None)


@pytest.mark.parametrize("name", [*PLANNED, *OTHERS])
def test_a_key_of_objects(name: str) -> None:
    check(lambda pd, df: (PLANNED | OTHERS)[name](df.groupby("day")), FRAME, native=None)
    check(lambda pd, df: (PLANNED | OTHERS)[name](df.groupby(["n", "day"])), FRAME, native=None)


@pytest.mark.parametrize("name", ["size", "named", "numbers", "list"])
def test_only_objects(name: str) -> None:
    check(lambda pd, df: (PLANNED | OTHERS)[name](df[["day", "any"]].groupby(df["n"])), FRAME, native=None)


@pytest.mark.parametrize("dropna", [True, False])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummin", "cummax"])
@pytest.mark.parametrize("dtype", ["bool", "boolean", "bool[pyarrow]"])
@pytest.mark.parametrize("rows", [0, 1, 6])
def test_cumulation_of_booleans(rows: int, dtype: str, name: str, dropna: bool) -> None:
    given: list[Any] = [True, False, True, True, True, False]
    if dtype != "bool":
        given[4] = None
    data = FRAME[["k", "n", "x"]].assign(b=pandas.array(given, dtype=dtype)).head(rows)  # type: ignore[call-overload]

    def program(pd: Any, df: Any) -> Any:
        runs = {by: getattr(df.groupby(by, dropna=dropna)["b"], name)() for by in ("k", "n")}
        df["run"] = runs["n"]
        both = getattr(df.groupby(["k", "n"], dropna=dropna)[["b", "x"]], name)()
        return *runs.values(), df.groupby(["n", "run"]).agg(c=("x", "count"))["c"].max(), both

    check(program, data, native=True if name == "cumsum" and dtype == "bool" else None)


SHIFTS: dict[str, Callable[[Any], Any]] = {
    "one": lambda g: g.shift(),
    "back": lambda g: g.shift(-1),
    "far": lambda g: g.shift(9),
    "filled": lambda g: g.shift(1, fill_value="x"),
    "filled by none": lambda g: g.shift(1, fill_value=None),
    "nothing": lambda g: g.shift(0),
    "no number": lambda g: g.shift("x"),
}


@pytest.mark.parametrize("by", ["k", "n", ["k", "n"], "day"], ids=str)
@pytest.mark.parametrize("given", OPTIONS, ids=str)
@pytest.mark.parametrize("name", SHIFTS)
def test_shifted_objects(name: str, given: dict[str, Any], by: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        df["word"] = df["k"].str.split("x").str[0]
        df["period"] = pd.Series(pandas.period_range("2020", periods=len(df), freq="D"))
        kept = df[df["n"] > 0]
        groups = kept.groupby(by, **given)
        found = [SHIFTS[name](groups[column]) for column in ("word", "any", "day", "period", "x")]
        kept["before"] = found[0]
        frame = SHIFTS[name](kept.groupby("n")[["any", "x", "day"]])
        later = kept[kept["before"].notna()]
        return *found, frame, kept, later["before"].tolist(), kept["before"].isna().sum(), kept["x"].sum()

    check(program, FRAME, native=None)


def test_shifted_texts_are_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        kept = df[df["n"] > 0]
        kept["word"] = kept["k"].str.split("x").str[0]
        kept["next"] = kept.groupby("n")["word"].shift(-1)
        return kept.groupby(["n"])["x"].sum(), kept["next"].isna().sum(), kept[["n", "next"]]

    check(program, FRAME)
