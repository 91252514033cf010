"""``str.split`` and ``str.rsplit`` with ``expand=True``: columns that the kernel splits, and those that are left to pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pytest
from support import check, check_sources

TEXTS: dict[str, list[Any]] = {
    "usual": ["a b c", "a  b", "", None, " x ", "é b", "a\tb\nc", "one"],
    "overlaps": ["aaa", "aaaa", "baab", None, "a", "ab"],
    "empty": ["", "", ""],
    "empty and missing": ["", None, ""],
    "one missing": [None, "a b"],
    "no part": ["  ", "\n", None],
    "letters": ["A.B.C", "a.b", "..", ".", "x.", "1.2.3.4"],
    "wide spaces": ["a\u00a0b", "a\u2003b c", "\x1ca\x85b", "\u200bz z"],
}
CALLS: dict[str, dict[str, Any]] = {
    "white space": {},
    "None": {"pat": None},
    "space": {"pat": " "},
    "dot": {"pat": "."},
    "text": {"pat": "aa"},
    "first": {"pat": " ", "n": 1},
    "two": {"pat": "a", "n": 2},
    "none": {"pat": "a", "n": 0},
    "negative": {"pat": "a", "n": -3},
    "white space once": {"n": 1},
}


def frame(texts: str) -> pandas.DataFrame:
    values = TEXTS[texts]
    return pandas.DataFrame({"s": pandas.Series(values, dtype="str"), "k": range(len(values))})


@pytest.mark.parametrize("name", ["split", "rsplit"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("texts", TEXTS)
def test_columns(texts: str, call: str, name: str, tmp_path: Path) -> None:
    given = CALLS[call]
    check_sources(lambda pd, f: getattr(f["s"].str, name)(expand=True, **given), frame(texts), tmp_path)
    if name == "split":
        for regex in (False, True):
            check(lambda pd, f, r=regex: f["s"].str.split(expand=True, regex=r, **given), frame(texts), native=None)


def test_in_programs() -> None:
    def beside(pd: Any, f: Any) -> Any:
        f[["one", "two", "three"]] = f["s"].str.split(" ", n=2, expand=True)
        return f[f["k"] > 0].groupby("one")["k"].sum()

    def labelled(pd: Any, f: Any) -> Any:
        parts = f.set_index("k")["s"].str.split(" ", expand=True).add_prefix("part")
        f["s"] = "changed"
        return parts[parts["part1"].notna()]

    check(beside, frame("usual"), native=None)
    check(labelled, frame("usual"))
    check(lambda pd, f: f["s"].str.rsplit(".", n=1, expand=True)[0].value_counts().sort_index(), frame("letters"))
    check(lambda pd, f: f["s"].str.split(r"\.|,", expand=True, regex=True), frame("letters"))


@pytest.mark.parametrize("dtype", ["object", "string", "category", "string[pyarrow]"])
def test_other_dtypes(dtype: str) -> None:
    data = frame("usual").astype({"s": dtype})
    check(lambda pd, f: f["s"].str.split(" ", expand=True), data, native=None)
    check(lambda pd, f: f["s"].str.rsplit("b", n=1, expand=True), data, native=None)


def test_no_rows_and_nothing_but_missing_values() -> None:
    check(lambda pd, f: f.head(0)["s"].str.split(" ", expand=True), frame("usual"), native=None)
    check(lambda pd, f: f[f["s"].isna()]["s"].str.split(" ", expand=True), frame("usual"), native=None)


def test_arguments_that_pandas_refuses() -> None:
    check(lambda pd, f: f["s"].str.split("", expand=True), frame("usual"), native=None)
    check(lambda pd, f: f["s"].str.rsplit(" ", expand=True, regex=True), frame("usual"), native=None)
    check(lambda pd, f: f["s"].str.split(3, expand=True), frame("usual"), native=None)
