"""pandas' options that decide the classes of results: Craton follows them, and caches results separately for each setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas
import pytest
from support import check

import craton
import craton.pandas

FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 1],
        "f": [1.5, None, 2.5, 0.0],
        "b": [True, False, True, True],
        "t": pandas.to_datetime(["2024-01-01", "2023-01-01", None, "2022-02-02"]),
        "n": pandas.array([1, None, 3, 4], dtype="Int64"),
        "s": ["a", "b", None, "c"],
    }
)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **{
        f"{column} {name}": (lambda df, name=name, column=column: getattr(df[column], name)())  # type: ignore[misc]
        for column in "ifbn"
        for name in (
            *("sum", "mean", "median", "min", "max", "std", "var", "sem", "prod", "any", "all", "count", "nunique"),
            *("argmax", "argmin", "idxmax", "idxmin", "skew", "kurt", "first_valid_index", "last_valid_index"),
        )
    },
    "text": lambda df: (df["s"].count(), df["s"].max(), df["s"].nunique(), df["s"].str.len().sum()),
    "times": lambda df: (df["t"].max(), df["t"].count(), df["t"].argmax(), df["t"].mean()),
    "filtered": lambda df: (df[df["i"] > 1]["i"].idxmax(), df[df["i"] > 1]["f"].idxmin(), df[df["i"] > 1].index[0]),
    "quantile": lambda df: (df["f"].quantile(0.3), df["i"].quantile(0.5)),
    "cells": lambda df: (df["i"][1], df["f"].iloc[0], df.at[2, "i"], df.iat[0, 1], df.loc[1, "b"], df["i"].iat[2]),
    "of frames": lambda df: (df[["i", "f"]].sum()["i"], df[["i", "f"]].count()["f"], df[["i", "f"]].max().max()),
    "of groups": lambda df: (df.groupby("b")["i"].sum().iloc[0], df.groupby("b").ngroups, df.groupby("b").size().max()),
    "products": lambda df: (df["i"].dot(df["i"]), df["i"].corr(df["f"]), df["i"].cov(df["f"]), df["i"].autocorr()),
    "search": lambda df: df["i"].sort_values().searchsorted(2),
    "items": lambda df: [type(one) for one in (df["i"].tolist()[0], next(iter(df["i"])), df["i"].item if 0 else 1)],
    "length": lambda df: (len(df), df.size, df["i"].size, df["i"].sum() + 1),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_scalars_of_python(program: str) -> None:
    def classes(df: Any) -> list[Any]:
        found = PROGRAMS[program](df)
        return [
            (type(one).__module__, type(one).__name__, f"{one:.10g}" if isinstance(one, float) else repr(one))
            for one in (found if isinstance(found, (tuple, list)) else [found])
        ]

    for setting in (True, False, True):
        with pandas.option_context("future.python_scalars", setting):
            expected = classes(FRAME)
            with craton.option_context(small_rows=0):
                got = classes(craton.pandas.DataFrame(FRAME))
        assert got == expected, setting


@pytest.mark.parametrize("storage", ["python", "pyarrow", "auto"])
def test_storage_of_text(storage: str, tmp_path: Any) -> None:
    path = tmp_path / "f.csv"
    FRAME.to_csv(path)
    FRAME.drop(columns="t").to_json(tmp_path / "f.json", orient="records", lines=True)
    with pandas.option_context("mode.string_storage", storage):
        check(lambda pd: [dtype.storage for dtype in pd.read_csv(path).dtypes if dtype == "str"], native=None)
        check(
            lambda pd: [
                str(one.storage) for one in pd.read_json(tmp_path / "f.json", lines=True).dtypes if one == "str"
            ],
            native=None,
        )
        check(lambda pd: pd.read_csv(path, dtype={"i": "str"})["i"].dtype.storage, native=None)
        check(lambda _, df: df["i"].astype("str").dtype.storage, FRAME, native=None)
