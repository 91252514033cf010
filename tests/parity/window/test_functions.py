"""Functions of the user over moving windows, windows with weights or times, and other columns that pandas computes by one call."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

import craton
from craton.pandas.core.routing import is_lazy


def table(rows: int = 30) -> pandas.DataFrame:
    draw = np.random.default_rng(5)
    return pandas.DataFrame(
        {
            "x": np.where(draw.random(rows) < 0.2, np.nan, draw.normal(size=rows)),
            "y": draw.integers(-5, 9, rows),
            "t": pandas.Timestamp("2024-02-27 07:30") + pandas.to_timedelta(np.arange(rows) * 11, unit="h"),
            "z": pandas.Series(pandas.date_range("2024-03-30", periods=rows, freq="h", tz="Europe/Paris")),
            "s": pandas.Series([None if i % 6 == 0 else f"a{i % 4} b{i % 3}" for i in range(rows)], dtype="str"),
            "k": draw.integers(0, 3, rows),
        }
    )


def missing_times(rows: int = 30) -> pandas.DataFrame:
    frame = table(rows)
    frame.loc[frame.index[1::5], ["t", "z"]] = pandas.NaT
    return frame


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "apply": lambda pd, f: f["x"].rolling(3, min_periods=1).apply(lambda w: w.max() - w.min()),
    "apply to arrays": lambda pd, f: f["y"].rolling(4).apply(np.ptp, raw=True),
    "arguments": lambda pd, f: f["y"].rolling(2).apply(lambda w, a, b: w.sum() * a + b, args=(2,), kwargs={"b": 1}),
    "of a frame": lambda pd, f: f[["x", "y"]].rolling(3).apply(np.sum, raw=True),
    "of one column of a frame": lambda pd, f: f.rolling(3)["y"].apply(lambda w: w.iloc[0]),
    "expanding": lambda pd, f: f["y"].expanding(2).apply(np.prod, raw=True),
    "of time": lambda pd, f: f.set_index("t")["y"].rolling("30h").apply(len),
    "agg": lambda pd, f: f["y"].rolling(3).agg(["mean", np.max, lambda w: w.sum()]),
    "agg of a function": lambda pd, f: f[["x", "y"]].rolling(3).agg(lambda w: w.sum()),
    "agg by column": lambda pd, f: f[["x", "y"]].rolling(3).agg({"x": np.sum, "y": ["min", np.max]}),
    "beside others": lambda pd, f: f.assign(w=f["y"].rolling(2).apply(np.sum, raw=True)).groupby("k")["w"].sum(),
    "compared": lambda pd, f: f[f["x"] > f["x"].rolling(3, min_periods=1).apply(np.mean, raw=True)],
    "weights of times": lambda pd, f: f["y"].ewm(halflife="2D", times=f["t"]).mean(),
    "weights": lambda pd, f: f[["x", "y"]].rolling(5, win_type="triang").mean(),
    "weighted std": lambda pd, f: f["y"].rolling(4, win_type="gaussian").std(std=2),
    "argsort": lambda pd, f: f["y"] + f["x"].argsort(),
    "argsort of texts": lambda pd, f: f["s"].argsort(kind="stable"),
    "frequency": lambda pd, f: f.set_index("t")[["x", "y"]].asfreq("h").sum(),
    "frequency filled": lambda pd, f: f.set_index("t")["y"].asfreq("6h", method="ffill"),
    "frequency of values": lambda pd, f: f.set_index("t")[["y", "s"]].asfreq("11h"),
    "frequency with a value": lambda pd, f: f.set_index("t")["y"].asfreq("D", fill_value=0),
    "normalised": lambda pd, f: f.set_index("t")["y"].asfreq("D", normalize=True),
    "dates": lambda pd, f: f["t"].dt.date,
    "times of day": lambda pd, f: f["z"].dt.timetz,
    "groups of dates": lambda pd, f: f.assign(d=f["t"].dt.date).groupby("d")["y"].sum(),
    "rows of a date": lambda pd, f: f[f["t"].dt.date == datetime.date(2024, 2, 28)]["y"],
    "dates of some rows": lambda pd, f: f[f["y"] > 0].assign(d=lambda g: g["t"].dt.time)[["d", "x"]],
    "texts of times": lambda pd, f: f["t"].astype(str),
    "texts of midnights": lambda pd, f: f["t"].dt.normalize().astype(str) + "!",
    "texts of zones": lambda pd, f: f["z"].astype("str"),
    "texts of a frame": lambda pd, f: f[["t", "y"]].astype(str),
    "parts as numbers": lambda pd, f: f["s"].dropna().str.split("a").str[1].str[:1].astype(int).sum(),
    "replaced by a function": lambda pd, f: f["s"].str.replace(r"\d", lambda m: m[0] * 2, regex=True),
    "bytes": lambda pd, f: f["s"].str.encode("utf-8"),
    "found": lambda pd, f: f["s"].dropna().str.index("b"),
    "joined": lambda pd, f: f["s"].str.join("."),
}


#: Programs in which another call falls back.
IN_PART = ("rows of a date",)


@pytest.mark.parametrize("program", PROGRAMS)
def test_columns_that_pandas_computes(program: str) -> None:
    native = None if program in IN_PART else True
    check(PROGRAMS[program], table(), native=native)
    check(PROGRAMS[program], table().iloc[3:20:2], native=native)
    if program not in ("of time", "weights of times") and not program.startswith(("frequency", "normalised")):
        check(PROGRAMS[program], missing_times(), native=None)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_rows(program: str) -> None:
    check(PROGRAMS[program], table().head(0), native=None)


@pytest.mark.parametrize(
    "program", ["apply", "agg", "argsort", "dates", "frequency filled", "texts of times", "joined"]
)
def test_from_files(program: str, tmp_path: Path) -> None:
    check_sources(PROGRAMS[program], table().drop(columns="z"), tmp_path, native=True)


def test_a_function_is_called_once_for_each_window() -> None:
    seen: list[float] = []

    def last(window: Any) -> Any:
        seen.append(window[-1])
        return window[-1]

    with craton.option_context(small_rows=0):
        frame = craton.pandas.DataFrame({"x": [1.0, 2.0, 4.0], "y": [1, 1, 2]})
        made = frame.groupby("y", as_index=False)["x"].sum()["x"].rolling(2).apply(last, raw=True)
        assert seen == [4.0]
        assert made.iloc[1] == 4.0
        assert len(seen) == 1


def test_the_column_remains_planned() -> None:
    with craton.option_context(small_rows=0):
        column = craton.pandas.DataFrame(table())["y"].abs()
        for made in (column.rolling(2).apply(np.sum, raw=True), column.argsort()):
            assert is_lazy(column)
            assert is_lazy(made)


def test_errors_of_functions() -> None:
    def fails(window: Any) -> Any:
        raise KeyError("no")

    check(lambda pd, f: f["y"].rolling(2).apply(fails), table(), native=None)
    check(lambda pd, f: f["y"].rolling(2).apply(np.sum, raw="yes"), table(), native=None)
    check(lambda pd, f: f["s"].dropna().str.index("zz"), table(), native=None)
    check(lambda pd, f: f["s"].dropna().str.split("a").str[1].astype(int), table(), native=None)
    check(lambda pd, f: pd.concat([f, f]).set_index("t").asfreq("h"), table(), native=None)
    check(lambda pd, f: f.asfreq("h"), table(), native=None)
