"""``resample`` of groups: native where the edges of intervals do not depend on a group's times, and equal everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

RULES = ("D", "h", "6h", "W", "W-WED", "ME", "MS", "QE", "QS", "QE-JAN", "YE", "YS", "2D", "7h", "B", "12h")
NATIVE = frozenset(RULES) - {"2D", "7h", "B"}
GIVEN: tuple[dict[str, Any], ...] = (
    {}, {"closed": "right"}, {"closed": "left"}, {"label": "right"}, {"closed": "right", "label": "left"},
    {"origin": "epoch"}, {"offset": "1h"},
)  # fmt: skip
NAMES = (
    "sum",
    "mean",
    "min",
    "max",
    "median",
    "std",
    "var",
    "sem",
    "prod",
    "count",
    "nunique",
    "first",
    "size",
    "ohlc",
)
KEYS: tuple[Any, ...] = ("k", "g", ["k"], ["g", "k"], "f")


def data(chance: np.random.Generator) -> pandas.DataFrame:
    rows = int(chance.integers(1, 80))
    seconds = chance.integers(0, 86_400 * int(chance.choice([1, 5, 60, 500])), rows).astype("timedelta64[s]")
    times = (np.datetime64("2020-01-28", "s") + seconds).astype(f"M8[{chance.choice(['s', 'ms', 'us', 'ns'])}]")
    if chance.random() < 0.3:
        times = times.astype("M8[D]").astype(times.dtype)
    return pandas.DataFrame(
        {
            "t": times,
            "k": chance.integers(0, 3, rows),
            "g": chance.choice(["a", "b"], rows),
            "f": chance.choice([1.5, np.nan], rows),
            "x": np.where(chance.random(rows) < 0.2, np.nan, chance.integers(-5, 5, rows) / 2),
            "y": chance.integers(-9, 9, rows).astype(str(chance.choice(["int8", "int64", "uint8"]))),
        }
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    chance = np.random.default_rng(seed)
    df = data(chance)
    for _ in range(12):
        rule, given = str(chance.choice(RULES)), GIVEN[chance.integers(0, len(GIVEN))]
        by, name = KEYS[chance.integers(0, len(KEYS))], str(chance.choice(NAMES))
        selected = ("x", "y", ["x", "y"], ["y"])[chance.integers(0, 4)]

        def program(pd: Any, df: Any, by: Any = by, selected: Any = selected, how: Any = (rule, given, name)) -> Any:
            groups = df.set_index("t").groupby(by)[selected].resample(how[0], **how[1])
            return getattr(groups, how[2])()

        check(program, df, native=None, rtol=1e-9)


@pytest.mark.parametrize("rule", sorted(NATIVE))
def test_native(rule: str) -> None:
    df = data(np.random.default_rng(5)).assign(t=lambda d: d["t"].astype("M8[us]"))
    for name in ("sum", "mean", "max", "count", "std"):
        check(lambda pd, df, n=name: getattr(df.set_index("t").groupby("k")["x"].resample(rule), n)(), df, rtol=1e-9)
        check(lambda pd, df, n=name: getattr(df.groupby("g")[["y", "t"]].resample(rule, on="t"), n)(), df, rtol=1e-9)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "then a total": lambda pd, df: df.set_index("t").groupby("k")["x"].resample("D").sum().groupby(level=0).sum(),
    "then a shift": lambda pd, df: df.set_index("t").groupby("k")["y"].resample("D").max().shift().mean(),
    "a loop": lambda pd, df: [(key, len(one)) for key, one in df.set_index("t").groupby("k")["x"].resample("W")],
    "asked twice": lambda pd, df: [
        getattr(groups, name)() for groups in [df.set_index("t").groupby("k")["x"].resample("D")] for name in ("sum", "ffill", "max")
    ],
    "a function": lambda pd, df: df.set_index("t").groupby("k")["x"].resample("D").agg(lambda v: v.max() - v.min()),
    "several": lambda pd, df: df.set_index("t").groupby("k")["x"].resample("D").agg(["sum", "max"]),
    "by column": lambda pd, df: df.set_index("t").groupby("k")[["x", "y"]].resample("D").agg({"x": "sum", "y": "max"}),
    "of one column": lambda pd, df: df.set_index("t").groupby("k").resample("D")["x"].sum(),
    "changed meanwhile": lambda pd, df: _changed(df.set_index("t")),
    "no times": lambda pd, df: df.groupby("k")["x"].resample("D").sum(),
    "a missing time": lambda pd, df: df.assign(t=df["t"].where(df["y"] > 0)).set_index("t").groupby("k")["x"].resample("D").sum(),
    "no rows": lambda pd, df: df.iloc[:0].set_index("t").groupby("k")["x"].resample("D").sum(),
    "unknown interval": lambda pd, df: df.set_index("t").groupby("k")["x"].resample("no").sum(),
    "only for some": lambda pd, df: df.set_index("t").groupby("k")["x"].resample("D").sum(min_count=2),
    "a zone": lambda pd, df: df.set_index(df["t"].dt.tz_localize("Europe/Berlin")).groupby("k")["x"].resample("D").sum(),
    "as columns": lambda pd, df: df.set_index("t").groupby("k", as_index=False)["x"].resample("D").sum(),
    "unsorted": lambda pd, df: df.set_index("t").groupby("k", sort=False)["x"].resample("D").sum(),
    "categories": lambda pd, df: _by_categories(df).resample("D").sum(),
    "texts": lambda pd, df: df.set_index("t").groupby("k")["g"].resample("D").max(),
}  # fmt: skip


def _by_categories(df: Any) -> Any:
    return df.assign(k=df["k"].astype("category")).set_index("t").groupby("k", observed=True)["x"]


def _changed(df: Any) -> Any:
    groups = df.groupby("k")["x"].resample("D")
    df["x"] = 0.0
    return groups.sum()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_programs(name: str, seed: int) -> None:
    df = data(np.random.default_rng(seed)).assign(t=lambda d: d["t"].astype("M8[us]"))
    check(PROGRAMS[name], df, native=None, rtol=1e-9)


@pytest.mark.parametrize("lengths", [[20, 12, 8], [5, 1, 1], [4, 4], [7], [2, 9, 3]], ids=str)
@pytest.mark.parametrize("gap", [0, 1, 7])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_frequency_of_a_level(backwards: bool, gap: int, lengths: list[int]) -> None:
    """A level keeps the frequency if the intervals of each group begin where those of the one before it end."""
    starts = np.cumsum([0, *(length + gap for length in lengths[:-1])])
    seconds = np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths, strict=True)])
    times = pandas.Timestamp("2000-01-01") + pandas.to_timedelta(seconds, unit="s")
    keys = np.repeat(np.arange(len(lengths)), lengths)
    df = pandas.DataFrame({"k": -keys if backwards else keys, "x": np.arange(len(keys)), "t": times})

    def program(pd: Any, df: Any) -> Any:
        groups = df.set_index("t").groupby("k")
        found = [groups["x"].resample("h").sum(), groups["x"].resample("min").max(), groups[["x"]].resample("s").mean()]
        return (
            *found,
            *(str(one.index.levels[1].freq) for one in found),
            *(one["x"].sum() if one.ndim > 1 else one.sum() for one in found),
        )

    check(program, df)
