"""Group-bys of frames that the program changes afterwards, as in ``g = df.groupby("k"); df["y"] = g["x"].cumsum()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

GENERATOR = np.random.default_rng(12)
ROWS = 40
FRAME = pandas.DataFrame(
    {
        "k": GENERATOR.choice(["a", "b", None], ROWS),
        "c": pandas.Categorical(GENERATOR.choice(["u", "v"], ROWS), categories=["v", "u", "w"]),
        "n": GENERATOR.integers(0, 3, ROWS),
        "x": np.where(GENERATOR.random(ROWS) < 0.2, np.nan, GENERATOR.random(ROWS).round(2)),
        "y": GENERATOR.integers(0, 9, ROWS).astype(float),
    }
)


def _add(df: Any, g: Any) -> Any:
    df["a"] = g["x"].cumsum()
    df["b"] = g["a"].transform("max")
    return g["b"].sum()


def _replace(df: Any, g: Any) -> Any:
    df["x"] = df["x"].fillna(0.0) * 3
    return g["x"].mean(), g[["x", "y"]].sum()


def _key(df: Any, g: Any) -> Any:
    df["n"] = 1 - df["n"]
    return g["x"].sum(), g["y"].max()


def _key_with_itself(df: Any, g: Any) -> Any:
    df["n"] = df["n"]
    return g["x"].count()


def _some_rows(df: Any, g: Any) -> Any:
    df.loc[df["y"] > 4, "x"] = -1.0
    return g["x"].sum()


def _some_keys(df: Any, g: Any) -> Any:
    df.loc[df["y"] > 4, "n"] = 0
    return g["x"].sum()


def _delete(df: Any, g: Any) -> Any:
    del df["y"]
    return g["x"].sum()


def _delete_key(df: Any, g: Any) -> Any:
    df.drop(columns="n", inplace=True)
    return g["x"].sum()


def _sort(df: Any, g: Any) -> Any:
    df.sort_values("y", inplace=True, kind="stable")
    return g["x"].sum()


def _drop_rows(df: Any, g: Any) -> Any:
    df.dropna(inplace=True)
    return g["x"].sum()


def _rename(df: Any, g: Any) -> Any:
    df.columns = [name.upper() for name in df.columns]
    return g["X"].sum()


def _labels(df: Any, g: Any) -> Any:
    df.index = range(100, 100 + len(df))
    return g["x"].cumsum()


def _selected_before(df: Any, g: Any) -> Any:
    one, two = g["x"], g[["x", "y"]]
    df["x"] = 0.0
    return one.sum(), two.sum(), g["x"].sum()


def _whole(df: Any, g: Any) -> Any:
    df["a"] = g["x"].shift()
    return g.sum(numeric_only=True), g.size()


def _used_before(df: Any, g: Any) -> Any:
    before = g.sum(numeric_only=True)
    df["x"] = df["x"] + 1
    return before, g.sum(numeric_only=True), g["x"].sum()


def _functions(df: Any, g: Any) -> Any:
    df["a"] = g["x"].transform(lambda s: s.interpolate(limit_direction="both"))
    df["b"] = df["a"].fillna(g["a"].transform("median"))
    return g["b"].apply(lambda s: s.max() - s.min()), g["b"].agg(["min", "max"])


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    name[1:]: call for name, call in list(globals().items()) if name.startswith("_") and getattr(call, "__module__", "") == __name__
}  # fmt: skip
KEYS: list[Any] = ["n", ["k", "n"], ["c", "n"]]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str, key: Any, tmp_path: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        held = df[df["y"] >= 0]
        groups = held.groupby(key, observed=True)
        before = held["x"].sum()
        try:
            found = CHANGES[name](held, groups)
        except Exception as error:  # pandas' own, of a frame that no longer fits its groups
            found = type(error)
        return found, before, held, held.shape

    check_sources(program, FRAME, tmp_path, native=None)


def test_added_columns_are_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        held = df[df["y"] >= 0]
        groups = held.groupby("n")
        held["a"] = groups["x"].cumsum()
        held["b"] = groups["a"].transform("max") - groups["y"].shift(1)
        return held, groups["b"].sum(), held["b"].sum()

    check(program, FRAME)


@pytest.mark.parametrize("key", ["c", "n"])
def test_functions_of_one_column_leave_the_frame_planned(key: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        held = df[df["y"] >= 0]
        groups = held.groupby(key, observed=True)
        held["a"] = groups["x"].transform(lambda s: s.interpolate(limit_direction="both"))
        held["b"] = held["x"].fillna(groups["y"].transform("median"))
        return held, held["b"].sum(), groups["b"].max()

    check(program, FRAME)
