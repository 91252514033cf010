"""Loops whose steps use the previous value several times: without sharing, the expressions would double with each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.pandas.core.lazy import view
from craton.plan import build
from craton.plan.expr import LONG, size
from craton.plan.stages import optimize
from craton.plan.visit import topological
from craton.schedule.inline import InlineRunner

STEPS = 9

Step = Callable[[Any, Any, int], Any]

#: Functions of the current series, the first series, and the number of the step.
FLOATS: dict[str, Step] = {
    "twice": lambda x, first, i: (x + x) / 2,
    "square root": lambda x, first, i: (x + 2 / x) / 2,
    "shift": lambda x, first, i: (x + x.shift(1)) / 2,
    "difference": lambda x, first, i: x - x.diff().fillna(x) / 3,
    "where": lambda x, first, i: x.where(x > 0.3, -x / 2),
    "mask": lambda x, first, i: x.mask(x > x.shift(-1), x + 1),
    "clip": lambda x, first, i: (x * x).clip(0.01, 4) - x / 3,
    "fill": lambda x, first, i: x.fillna(first + i) / (x.abs() + 1),
    "mean": lambda x, first, i: (x + x.mean()) / 2,
    "running": lambda x, first, i: (x.cummax() + x) / 3,
    "rounded": lambda x, first, i: (x.round(3) + x) / 2,
    "power": lambda x, first, i: x**2 - x * 0.5,
    "remainder": lambda x, first, i: x % 1 + x // 1,
    "reversed": lambda x, first, i: first / (x + 1) - x,
    "selected": lambda x, first, i: x[x.notna() & (x == x)] * 0.9 + 0.1,
}
INTEGERS: dict[str, Step] = {
    "mod": lambda x, first, i: (x * x + i) % 1009 - x % 3,
    "where": lambda x, first, i: x.where(x % 2 == 0, x // 2 + x),
    "between": lambda x, first, i: (x + x.between(3, 90) * x) // 2,
    "replace": lambda x, first, i: x.replace({1: 2, 5: 7}) + x % 2,
    "isin": lambda x, first, i: x + x.isin([1, 2, 3, i]) * x,
}
BOOLEANS: dict[str, Step] = {
    "or": lambda m, first, i: (m | m.shift(1, fill_value=False)) & (m | first),
    "not": lambda m, first, i: ~(m & m) ^ (m | first),
}
TEXTS: dict[str, Step] = {
    "replace": lambda s, first, i: s.str.replace("a", "b").where(s.str.len() > 2, s + "a"),
    "slice": lambda s, first, i: s.str[:3] + s.str[-2:],
}


def floats() -> pandas.Series:
    values = np.random.default_rng(3).normal(size=500)
    values[::37] = np.nan
    values[::41] = -0.0
    return pandas.Series(values, name="x")


DATA = {
    "floats": (FLOATS, floats()),
    "nullable": (FLOATS, floats().astype("Float64")),
    "arrow": (FLOATS, floats().astype("double[pyarrow]")),
    "integers": (INTEGERS, pandas.Series(np.arange(500) * 7919 % 311, name="n")),
    "nullable integers": (INTEGERS, pandas.Series([1, 2, None, 5, 90] * 100, dtype="Int64", name="n")),
    "booleans": (BOOLEANS, pandas.Series(np.arange(500) % 7 == 3, name="m")),
    "texts": (TEXTS, pandas.Series(["abca", "", "xa", None, "aaaa", "é"] * 80, name="s", dtype="str")),
}
CASES = [(kind, name) for kind, (steps, _) in DATA.items() for name in steps]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=["-".join(case) for case in CASES])
@pytest.mark.parametrize("tiles", [0, 3])
def test_loop(kind: str, name: str, tiles: int) -> None:
    steps, data = DATA[kind]
    step = steps[name]

    def program(pd: Any, first: Any) -> Any:
        x, looked = first, None
        for i in range(STEPS):
            x = step(x, first, i)
            if i == STEPS // 2:
                looked = len(x), str(x.dtype)
        return looked, x.count(), x.iloc[:5], x

    clear_memory()
    if not tiles:
        check(program, data, native=None, rtol=1e-9)
        return
    engine = TiledEngine(
        InlineRunner(), settings=Settings(tiles=tiles, broadcast_bytes=1, collapse_bytes=0), least_bytes=0
    )
    with using(engine):
        check(program, data, native=None, rtol=1e-9)


@pytest.mark.parametrize("name", ["twice", "square root", "where", "shift", "reversed"])
def test_groups_filters_and_sorts_of_a_loop(name: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        x = df["x"]
        for i in range(STEPS):
            x = FLOATS[name](x, df["x"], i)
        kept = df[x > x.mean()]
        df = df.assign(y=x, z=x > 0)
        few = df.sort_values("y", kind="stable").head(20)
        return (
            kept,
            few,
            df.groupby("k")["y"].agg(["min", "count"]),
            df[df["z"] & (df["y"] < 3)]["k"].sum(),
            x.isna().sum(),
        )

    data = pandas.DataFrame({"x": floats(), "k": np.arange(500) % 5})
    clear_memory()
    check(program, data, native=None, rtol=1e-9)


def test_long_chains() -> None:
    """More than a thousand steps, each of which uses the previous value once."""

    def program(pd: Any, df: Any) -> Any:
        x, m = df["x"], df["m"]
        for i in range(1200):
            x = x + i
            m = m & (df["x"] != i)
        return x, m, m.sum(), df[m]["x"].max()

    check(program, pandas.DataFrame({"x": np.arange(300), "m": True}))


@pytest.mark.parametrize("name", ["twice", "square root", "shift", "mask", "running", "difference", "clip"])
@pytest.mark.parametrize("tiles", [0, 3])
def test_hundreds_of_steps(name: str, tiles: int) -> None:
    """Plans with hundreds of operators, over which no pass may be recursive. No step may evaluate, as ``x.mean()`` would."""
    steps = 40 if tiles else 300 if name == "shift" else 100

    def program(pd: Any, first: Any) -> Any:
        x = first
        for i in range(steps):
            x = FLOATS[name](x, first, i)
        return x.count(), x, (x > 0).sum()

    clear_memory()
    if not tiles:
        check(program, floats(), native=None, rtol=1e-9)
        return
    engine = TiledEngine(
        InlineRunner(), settings=Settings(tiles=tiles, broadcast_bytes=1, collapse_bytes=0), least_bytes=0
    )
    with using(engine):
        check(program, floats(), native=None, rtol=1e-9)


def test_the_plan_stays_short() -> None:
    import craton
    import craton.pandas as cpd

    with craton.option_context(small_rows=0):
        for name, step in FLOATS.items():
            x = first = cpd.Series(floats())
            for i in range(STEPS):
                x = step(x, first, i)
            held = view(x)
            plan = build.project(held.base, (("x", held.values[0].expr),))
            for op in topological(optimize(plan)):
                for exprs in op.expressions:
                    assert size(exprs) <= LONG, (name, type(op).__name__)
            assert len(repr(held.values[0].expr)) < 10_000
            assert len(craton.explain(x, stage="logical")) < 100_000
