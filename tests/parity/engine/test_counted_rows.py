"""Columns without missing values, by file statistics or in memory: counts use the number of rows, and joins need no null checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

import craton
import craton.pandas as cpd

PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "groups": lambda pd, df, other: df.groupby("k")[["whole", "gaps", "real", "text"]].count(),
    "filtered groups": lambda pd, df, other: (
        df[df["whole"] > 3].groupby("k").agg(n=("whole", "count"), m=("gaps", "count"))
    ),
    "all rows": lambda pd, df, other: (df.count(), df[df["whole"] > 3]["whole"].count(), df["gaps"].count()),
    "joined": lambda pd, df, other: df.merge(other, on="k").groupby("k")[["whole", "more", "gaps"]].count(),
    "joined to the left": lambda pd, df, other: (
        other.merge(df, on="k", how="left").groupby("k")[["whole", "more"]].count()
    ),
    "joined to the right": lambda pd, df, other: (
        df.merge(other, on="k", how="right").groupby("k")[["whole", "more"]].count()
    ),
    "outer": lambda pd, df, other: df.merge(other, on="k", how="outer").groupby("k")[["whole", "more"]].count(),
    "keys of a left join": lambda pd, df, other: (
        df.merge(other, on="k", how="left").groupby("whole")[["k", "more"]].count()
    ),
    "one below the other": lambda pd, df, other: pd.concat([df, other]).groupby("k")[["whole", "more", "gaps"]].count(),
    "rows before": lambda pd, df, other: df.assign(b=df["whole"].shift(1)).groupby("k")["b"].count(),
    "chosen": lambda pd, df, other: (
        df.assign(b=df["whole"].where(df["whole"] > 2)).groupby("k")[["b", "whole"]].count()
    ),
    "renamed": lambda pd, df, other: df.rename(columns={"gaps": "whole", "whole": "gaps"}).groupby("k").count(),
    "counted twice": lambda pd, df, other: (
        df.groupby("k", as_index=False)["whole"].count().groupby("whole")["k"].count()
    ),
    "counts beside sums": lambda pd, df, other: df.groupby("k")["whole"].agg(["count", "sum", "size", "mean"]),
    "among": lambda pd, df, other: df[df["k"].isin(other["k"])].groupby("k")["whole"].count(),
    "without a key": lambda pd, df, other: df.groupby("gaps", dropna=False)["whole"].count(),
    "on each row": lambda pd, df, other: df.groupby("k")["whole"].transform("count"),
}


KEYS: dict[str, tuple[list[Any], str]] = {
    "whole": ([1, 2, 2, 3, 5, 5], "int64"),
    "gaps": ([1, None, 2, 3, None, 5], "Int64"),
    "real": ([1.0, None, 2.0, 3.5, None, 5.0], "float64"),
    "text": (["a", None, "b", "b", None, "c"], "str"),
    "whole text": (["a", "b", "b", "c", "e", "e"], "str"),
    "time": (["2020-01-01", None, "2020-01-02", None, "2020-01-03", "2020-01-03"], "datetime64[us]"),
}
PAIRS = [
    ("whole", "whole"), ("whole", "gaps"), ("gaps", "whole"), ("gaps", "gaps"), ("real", "real"),
    ("text", "text"), ("text", "whole text"), ("whole text", "text"), ("time", "time"),
]  # fmt: skip
JOINS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{how: (lambda pd, a, b, how=how: a.merge(b, on="k", how=how)) for how in ("inner", "left", "right", "outer")},
    "left_anti": lambda pd, a, b: a.merge(b, on="k", how="left_anti"),
    "among": lambda pd, a, b: a[a["k"].isin(b["k"])],
    "not among": lambda pd, a, b: a[~a["k"].isin(b["k"])],
    "among groups": lambda pd, a, b: a[a["k"].isin(b.groupby("k")["y"].sum().index)],
    "groups joined": lambda pd, a, b: a.merge(b.groupby("k", as_index=False, dropna=False)["y"].sum(), on="k"),
    "joined twice": lambda pd, a, b: a.merge(b, on="k", how="left").merge(a, on="k", how="outer"),
    "of a left join": lambda pd, a, b: b.merge(
        a.merge(b, on="k", how="left")[["y_y", "k"]].rename(columns={"y_y": "y"}), on="y"
    ),
    "two keys": lambda pd, a, b: a.merge(b, on=["k", "y"], how="left"),
}


@pytest.mark.parametrize("stored", [True, False], ids=["from files", "in memory"])
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_joins(pair: tuple[str, str], join: str, stored: bool, tmp_path: Path) -> None:
    for name, key in zip("ab", pair, strict=True):
        values, dtype = KEYS[key]
        table = pandas.DataFrame({"k": pandas.Series(values, dtype=dtype), "y": [3, 1, 4, 1, 5, 9]})  # type: ignore[call-overload]
        (table if name == "a" else table.iloc[1:]).to_parquet(tmp_path / name, index=False)

    def run(pd: Any) -> Any:
        a, b = pd.read_parquet(tmp_path / "a"), pd.read_parquet(tmp_path / "b")
        if not stored:
            a, b = pd.DataFrame(a.to_dict("series")), pd.DataFrame(b.to_dict("series"))
        joined = JOINS[join](pd, a, b)
        return joined, len(joined), joined.count().sum()

    check(run, native=None)


def _tables(folder: Path, *, files: int) -> None:
    rng = np.random.default_rng(5)
    df = pandas.DataFrame(
        {
            "k": rng.integers(0, 5, 40),
            "whole": rng.integers(0, 9, 40),
            "gaps": pandas.array([None if i % 3 else i for i in range(40)], dtype="Int64"),
            "real": [np.nan if i % 7 == 0 else i / 2 for i in range(40)],
            "text": [None if i == 11 else "ab"[i % 2] for i in range(40)],
        }
    )
    (folder / "df").mkdir()
    for number in range(files):  # in the first file, only `gaps` and `real` have missing values
        df.iloc[number * 10 : number * 10 + 10].to_parquet(folder / "df" / f"{number}.parquet", row_group_size=4)
    other = pandas.DataFrame({"k": [1, 2, 2, 7], "more": [1.0, 2.0, 3.0, 4.0]})
    other.to_parquet(folder / "other.parquet")


@pytest.mark.parametrize("files", [1, 4])
@pytest.mark.parametrize("program", PROGRAMS)
def test_counts(program: str, files: int, tmp_path: Path) -> None:
    _tables(tmp_path, files=files)

    def run(pd: Any) -> Any:
        return PROGRAMS[program](pd, pd.read_parquet(tmp_path / "df"), pd.read_parquet(tmp_path / "other.parquet"))

    check(run, native=None)


def test_what_is_counted_is_not_read(tmp_path: Path) -> None:
    _tables(tmp_path, files=4)
    with craton.option_context(small_rows=0):
        counts = cpd.read_parquet(tmp_path / "df").groupby("k")[["whole", "gaps"]].count()
        text = str(craton.explain(counts))
        assert "[k, gaps]" in text or "[gaps, k]" in text, text
        assert counts["whole"].sum() == 40
        assert counts["gaps"].sum() == 14
