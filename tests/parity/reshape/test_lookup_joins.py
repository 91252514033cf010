"""Joins of many rows with few in memory, which the kernel computes in the order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ROWS, OTHERS = 120_000, 9_000


@pytest.fixture(scope="module")
def tables() -> tuple[pandas.DataFrame, pandas.DataFrame]:
    rng = np.random.default_rng(3)
    names = np.array([f"name {number}" for number in range(OTHERS // 2)], dtype=object)
    names[::97] = None
    left = pandas.DataFrame(
        {
            "name": pandas.Series(names[rng.integers(0, len(names), ROWS)], dtype="str"),
            "kind": rng.integers(0, 3, ROWS),
            "x": rng.normal(size=ROWS),
            "place": pandas.Categorical.from_codes(rng.integers(-1, 4, ROWS), categories=list("abcd")),
        }
    )
    right = pandas.DataFrame(
        {
            "name": pandas.Series(rng.permutation(np.repeat(names, 2)), dtype="str"),
            "kind": rng.integers(0, 4, OTHERS),
            "label": pandas.Series([f"label {number}" for number in range(OTHERS)], dtype="str"),
            "weight": np.arange(OTHERS),
        }
    )
    return left, right


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("on", [["name"], ["name", "kind"]], ids=["one key", "two keys"])
def test_rows_are_in_the_order_of_pandas(tables: Any, how: Any, on: list[str]) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        joined = left.merge(right, on=on, how=how, suffixes=("", "_right"))
        return len(joined), joined["weight"].isna().sum(), joined, joined.tail(3)

    check(program, *tables)


def test_filtered_and_sorted_rows_are_in_the_order_of_pandas(tables: Any) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        few = right.drop_duplicates("name").rename(columns={"name": "key"}).drop(columns="kind")
        kept = left[left["x"] > 0].sort_values(["kind", "x"])
        joined = kept.merge(few, left_on="name", right_on="key", how="left").merge(
            few[["label", "weight"]], on="label", how="inner", suffixes=("", "_again")
        )
        return joined.head(20), joined["label"].iloc[-1], joined.groupby("kind", sort=False)["label"].first()

    check(program, *tables)


def test_no_rows_are_looked_up(tables: Any) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        none = right[right["weight"] < 0]
        return left.merge(none, on="name", how="left"), left.merge(none, on="name"), left[:0].merge(right, on="name")

    check(program, *tables)
