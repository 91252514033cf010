"""Functions that are called with large groups, whose calls are planned if that is faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.pandas.udf import groups

ROWS = 3_000
GENERATOR = np.random.default_rng(4)
FRAME = pandas.DataFrame(
    {
        "k": GENERATOR.choice(["a", "b", "c", "d", "e"], ROWS, p=[0.3, 0.3, 0.2, 0.19, 0.01]),
        "s": GENERATOR.choice(["x;y", "y", "z;x;y", None], ROWS),
        "x": np.where(GENERATOR.random(ROWS) < 0.1, np.nan, GENERATOR.random(ROWS).round(3)),
        "n": GENERATOR.integers(0, 9, ROWS),
        "t": pandas.Timestamp("2024-03-01") + pandas.to_timedelta(GENERATOR.integers(0, 10**6, ROWS), unit="s"),
    }
)


def _changing(group: Any) -> Any:
    group["x"] = group["x"].fillna(0.0)
    return group["x"].sum()


def _raising(group: Any) -> Any:
    if group.name == "c":
        raise KeyError("of the user")
    return len(group)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "most frequent part": lambda g: g["s"].apply(lambda s: s.str.split(";").explode().value_counts().index[0]),
    "number": lambda g: g["x"].apply(lambda s: s.max() - s.min()),
    "number of a frame": lambda g: g.apply(lambda f: (f["x"] * f["n"]).sum() / f["n"].sum()),
    "series": lambda g: g["x"].apply(lambda s: s.describe()),
    "same rows": lambda g: g["x"].apply(lambda s: s.fillna(s.mean())),
    "same rows of a frame": lambda g: g[["x", "n"]].apply(lambda f: f.assign(y=f["x"] * 2)[f["n"] > 4]),
    "frame": lambda g: g.apply(lambda f: f.nlargest(2, ["x", "n"])[["x", "n"]]),
    "name": lambda g: g.apply(lambda f: f"{f.name}: {len(f)}"),
    "name of a series": lambda g: g["n"].apply(lambda s: s.name),
    "missing": lambda g: g["x"].apply(lambda s: None if s.isna().any() else 1.0),
    "changed": lambda g: g.apply(_changing),
    "an error": lambda g: g.apply(_raising),
    "aggregate": lambda g: g["s"].agg(lambda s: (s == "y").mean()),
    "aggregates": lambda g: g.agg(most=("x", lambda s: s.quantile(0.9) / s.quantile(0.1)), first=("t", "min")),
    "several": lambda g: g["n"].agg([lambda s: s.max() - s.min(), "sum"]),
    "dates": lambda g: g["t"].agg(lambda s: s.dt.normalize().mode().iloc[0]),
    "transformed": lambda g: g["x"].transform(lambda s: s.interpolate(limit_direction="both")),
    "of the first rows": lambda g: g["n"].apply(lambda s: s.head(2).tolist()),
}


@pytest.mark.parametrize("faster", ["both", "planned", "pandas"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_LARGE", 100)
    if faster != "both":
        rates = [0.0, 1.0] if faster == "planned" else [1.0, 0.0]
        original = groups._Trial.__init__

        def decided(self: Any, function: Any) -> None:
            original(self, function)
            self._rates = rates

        monkeypatch.setattr(groups._Trial, "__init__", decided)

    def program(pd: Any, df: Any) -> Any:
        held = df[df["n"] > 0]
        before = held["x"].sum()
        found = FUNCTIONS[name](held.groupby("k"))
        return found, before, held["x"].sum(), len(held)

    check(program, FRAME, native=None)


def test_calls_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_LARGE", 100)

    def program(pd: Any, df: Any) -> Any:
        seen: list[Any] = []

        def function(group: Any) -> int:
            seen.append(group.name)
            return len(group)

        return df.groupby("k").apply(function), seen

    check(program, FRAME, native=None)
