"""What is advised instead of a call that is not planned: it is planned, and has the same result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas
from craton import fallbacks
from craton.advice import INSTEAD
from craton.refusals import Refusal

ROWS = 60
ARRAY = np.arange(ROWS) % 3


def frame() -> Any:
    numbers = np.arange(ROWS)
    data = {"k": numbers % 5, "s": np.array(["a", "B"])[numbers % 2], "v": numbers / 3}
    return craton.pandas.DataFrame(data).astype({"s": "str"})


def several_times(totals: Any) -> Any:
    return [totals.loc[("a", slice(1, 3)), "v"].sum() for _ in range(6)][-1]


def wide(df: Any) -> Any:
    return df.groupby("s")[["v", "k"]].agg(["min", "max"])


def joined(df: Any) -> Any:
    df = wide(df)
    df.columns = ["_".join(label) for label in df.columns]
    return df


Call = Callable[[Any], Any]
#: For each refusal: a call that is refused, and what is advised instead.
PAIRS: list[tuple[Refusal, Call, Call]] = [
    (Refusal.ITERATOR, lambda df: df["k"].isin(iter([1, 2])).sum(), lambda df: df["k"].isin([1, 2]).sum()),
    (
        Refusal.ROWS_DIFFER,
        lambda df: df["v"].where(df[df["k"] >= 0]["k"] >= 0).sum(),
        lambda df: df[df["k"] >= 0]["v"].where(df[df["k"] >= 0]["k"] >= 0).sum(),
    ),
    (
        Refusal.ROW_LABELS_DIFFER,
        lambda df: df["v"].where(df.assign(i=df["v"] * 3).set_index("i")["v"] >= 0).sum(),
        lambda df: df["v"].where(df["v"] >= 0).sum(),
    ),
    (
        Refusal.GROUP_KEY_TYPE,
        lambda df: df.groupby(pandas.RangeIndex(len(ARRAY)))["v"].sum().max(),
        lambda df: df.assign(key=range(len(ARRAY))).groupby("key")["v"].sum().max(),
    ),
    (
        Refusal.SORT_KEY,
        lambda df: df.sort_values("s", key=lambda s: list(s.str.lower()), kind="stable")["v"].diff().max(),
        lambda df: df.assign(l=df["s"].str.lower()).sort_values("l", kind="stable").drop(columns="l")["v"].diff().max(),
    ),
    (
        Refusal.INDEX_KEY_ARRAYS,
        lambda df: df.set_index(ARRAY).sort_index(kind="stable")["v"].diff().max(),
        lambda df: df.assign(a=ARRAY).set_index("a").sort_index(kind="stable")["v"].diff().max(),
    ),
    (
        Refusal.MERGE_KEY_ARRAY,
        lambda df: df[["v"]].merge(df[["k"]].head(3), left_on=ARRAY, right_on="k")["v"].sum(),
        lambda df: df[["v"]].assign(k=ARRAY).merge(df[["k"]].head(3), on="k")["v"].sum(),
    ),
    (
        Refusal.MERGE_KEY_DTYPES,
        lambda df: df.merge(df.astype({"s": "string[pyarrow]"})[["s"]].head(1), on="s")["v"].sum(),
        lambda df: df.merge(df.astype({"s": "str"})[["s"]].head(1), on="s")["v"].sum(),
    ),
    (
        Refusal.REPLACEMENT_PATTERNS,
        lambda df: df["s"].replace(regex=re.compile("^a"), value="z").max(),
        lambda df: df["s"].str.replace("^a", "z", regex=True).max(),
    ),
    (
        Refusal.KEY_OF_LEVELS,
        lambda df: several_times(df.groupby(["s", "k"])["v"].sum().to_frame()),
        lambda df: df.groupby(["s", "k"])["v"].sum().reset_index().query("s == 'a' and 1 <= k <= 3")["v"].sum(),
    ),
    (
        Refusal.LABELS_OF_SEVERAL_LEVELS,
        lambda df: wide(df).sort_values(("v", "max"))["v"]["min"].sum(),
        lambda df: joined(df).sort_values("v_max")["v_min"].sum(),
    ),
]


def test_each_advice_has_an_example() -> None:
    assert {refusal for refusal, _, _ in PAIRS} == set(INSTEAD)


@pytest.mark.parametrize(("refusal", "call", "instead"), PAIRS, ids=lambda item: getattr(item, "name", ""))
def test_the_advice_is_planned(refusal: Refusal, call: Call, instead: Call) -> None:
    with craton.option_context(small_rows=0):
        fallbacks.reset()
        expected = call(frame())
        found = fallbacks.explain_fallbacks()
        assert INSTEAD[refusal] in found["instead"].tolist(), found.to_string()
        fallbacks.reset()
        assert instead(frame()) == pytest.approx(expected)
        assert fallbacks.explain_fallbacks().empty, fallbacks.explain_fallbacks().to_string()


def test_warnings_have_the_advice() -> None:
    with craton.option_context(small_rows=0, fallback="error"), pytest.raises(craton.errors.FallbackError) as info:
        frame()["k"].isin(iter([1]))
    assert "; instead, pass a list" in str(info.value)


def test_pandas_frames_are_returned() -> None:
    assert type(fallbacks.explain_fallbacks()) is pandas.DataFrame
