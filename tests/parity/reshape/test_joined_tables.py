"""Merges of tables in memory, whose columns are taken from the arrays in memory by row position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import _copy, outcome, same, to_craton
from tables import KEYS, LEFT, RIGHT

import craton
import craton.pandas
from craton.pandas.core import execute

HOWS = ["inner", "left", "right", "outer"]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each view of joined tables that a program evaluates: whether its columns were taken by position."""
    found: list[bool] = []
    joined = execute._joined

    def recorded(view: Any) -> Any:
        result = joined(view)
        found.append(result is not None)
        return result

    monkeypatch.setattr(execute, "_joined", recorded)
    return found


def check(program: Callable[..., Any], *data: Any) -> None:
    """Compare a program with pandas, with frames of two rows and more planned, and calls on data in memory in pandas."""
    expected, error = outcome(program, pandas, [_copy(item) for item in data])
    with craton.option_context(small_rows=1):
        got, raised = outcome(program, craton.pandas, [to_craton(_copy(item)) for item in data])
    assert type(raised) is type(error), (raised, error)
    same(got, expected)


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("key", [*KEYS, ["k", "s"], ["f", "t"], ["c", "m", "a"]])
@pytest.mark.parametrize("how", HOWS)
def test_columns_of_all_dtypes(how: str, key: Any, sort: bool, taken: list[bool]) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        joined = left.merge(right, how=how, on=key, sort=sort)
        return len(joined), joined, joined[joined.columns[-1]], joined[joined.columns[0]]

    check(program, LEFT, RIGHT)
    assert any(taken)


@pytest.mark.parametrize("how", HOWS)
def test_chains(how: str, taken: list[bool]) -> None:
    """The second join repeats and drops rows of the first, and adds missing values to its columns."""

    def program(pd: Any, left: Any, right: Any) -> Any:
        few = right[["k", "w"]].rename(columns={"w": "other"})
        first = left.merge(right[["k", "u", "w"]], how="left", on="k")
        second = first.merge(few, how=how, on="k").rename(columns={"other": "z"})
        third = second[["z", "k", "v"]].merge(few, how="inner", on="k").drop(columns="z")
        return second, third, first, second["u"].sum(), third["v"].tail(3), second.merge(second[["k"]], on="k").shape

    check(program, LEFT, RIGHT)
    assert any(taken)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("labels", ["default", "range", "numbers", "texts", "dates", "levels"])
def test_row_labels_of_one_side(labels: str, how: str, taken: list[bool]) -> None:
    index = {
        "default": None,
        "range": pandas.RangeIndex(3, 3 + 2 * len(LEFT), 2, name="r"),
        "numbers": pandas.Index(np.arange(len(LEFT)) % 3),
        "texts": pandas.Index([f"t{i % 4}" for i in range(len(LEFT))], name="t"),
        "dates": pandas.DatetimeIndex(np.datetime64("2024-01-01") + (np.arange(len(LEFT)) % 3).astype("m8[D]")),
        "levels": pandas.MultiIndex.from_arrays(
            [np.arange(len(LEFT)) % 3, np.arange(len(LEFT)) % 2 == 0], names=["a", "b"]
        ),
    }[labels]

    def program(pd: Any, left: Any, right: Any) -> Any:
        joined = left.join(right.set_index("k")[["w", "u"]], on="k", how=how)
        joined.index.names = ["own", "level"][: joined.index.nlevels]
        return joined, joined.loc[joined.index[0]], left, joined.reset_index()

    left = LEFT[["k", "v", "s"]]
    check(program, left if index is None else left.set_axis(index), RIGHT)
    assert any(taken)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("rows", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_empty_and_single_rows(how: str, rows: tuple[int, int]) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        on_labels = left.set_index("k").merge(right.set_index("k"), how=how, left_index=True, right_index=True)
        return left.merge(right, how=how, on="k"), left.merge(right, how=how, on=["k", "s"]), on_labels

    check(program, LEFT.iloc[: rows[0]], RIGHT.iloc[: rows[1]])


@pytest.mark.parametrize("how", HOWS)
def test_writes_after_the_merge(how: str) -> None:
    """Neither a write to an operand nor one to the result changes the other."""

    def program(pd: Any, left: Any, right: Any) -> Any:
        joined = left.merge(right, how=how, on="k")
        left.loc[left.index[0], "v"] = -1
        right["w"] = right["w"] * 2
        before = joined.copy()
        joined.loc[0, "v"] = 99
        joined["u"] = "x"
        return before, joined, left, right

    check(program, LEFT[["k", "v", "s"]], RIGHT[["k", "w", "u", "t"]])


@pytest.mark.parametrize("how", HOWS)
def test_texts_in_chunks_and_objects(how: str, taken: list[bool]) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        texts = pd.concat([left[["k", "s"]]] * 3, ignore_index=True)
        others = right[["k", "w"]].copy()
        others["o"] = [(i, "x") for i in range(len(others))]
        joined = texts.merge(others, how=how, on="k")
        return joined, joined["o"], joined["s"].str.upper(), joined.groupby("k")["w"].sum()

    check(program, LEFT, RIGHT)
    assert any(taken)


@pytest.mark.parametrize("how", HOWS)
def test_keys_far_apart(how: str) -> None:
    keys = [-(2**63), 2**63 - 1, 0, 5, 5, 6, -(2**63) + 1]

    def program(pd: Any, left: Any, right: Any) -> Any:
        return left.merge(right, how=how, on="k"), left.merge(right.drop_duplicates("k").iloc[2:5], how=how, on="k")

    left = pandas.DataFrame({"k": keys, "v": range(len(keys))})
    right = pandas.DataFrame({"k": [6, 5, 5, 2**63 - 1, 7, -(2**63)], "w": range(6)})
    check(program, left, right)
    check(program, right.rename(columns={"w": "v"}), left.rename(columns={"v": "w"}))


def test_columns_one_after_the_other_join_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from craton.pandas.core.joined import positions

    calls: list[int] = []
    matches = positions._matches
    monkeypatch.setattr(positions, "_matches", lambda *given: calls.append(1) or matches(*given))
    with craton.option_context(small_rows=1):
        joined = craton.pandas.DataFrame(LEFT).merge(craton.pandas.DataFrame(RIGHT), how="outer", on="k")
        expected = LEFT.merge(RIGHT, how="outer", on="k")
        for label in expected.columns:
            pandas.testing.assert_series_equal(pandas.Series(joined[label]), expected[label])
        assert len(calls) == 1
        del joined
        assert not positions._known


def test_numbers_of_a_merge_are_planned(taken: list[bool]) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        joined = left.merge(right, on="k")
        return joined.groupby("u")["w"].sum(), joined["w"].mean(), joined.head(2)

    check(program, LEFT[["k", "v"]], RIGHT[["k", "w", "u"]])
    assert not any(taken)


@pytest.mark.parametrize("how", HOWS)
def test_filters_and_new_columns(how: str, taken: list[bool]) -> None:
    def program(pd: Any, left: Any, right: Any) -> Any:
        few = right[right["w"] > 1]
        joined = left[left["v"] > 1].merge(few[["k", "w", "u", "t"]], on="k", how=how)
        joined["sum"] = joined["v"] + joined["w"]
        kept = joined[joined["sum"] > 3]
        right["w"] = 0
        again = kept.merge(left[["k", "s"]], on="k", how=how).assign(half=lambda frame: frame["sum"] / 2)
        return joined, kept, kept["u"], len(again), again, again[again["half"] > 1000], again["half"].max()

    check(program, LEFT[["k", "v"]].assign(s="x"), RIGHT)
    assert any(taken) or how != "inner"  # integers that may become floats are decided by a query first


@pytest.mark.parametrize("how", HOWS)
def test_a_side_that_is_computed_first(how: str, taken: list[bool]) -> None:
    """The sums of groups, and rows without duplicates, are joined to the rows that they come from."""

    def program(pd: Any, left: Any, right: Any) -> Any:
        sums = left.groupby("k", as_index=False)["f"].sum().rename(columns={"f": "sum"})
        joined = left.merge(sums, on="k", how=how)
        share = joined["f"] / joined["sum"]
        distinct = left[["k", "s"]].drop_duplicates("k").rename(columns={"s": "first"})
        both = joined.merge(distinct, on="k", how=how)
        return joined, share, sums, both, both["first"], joined[joined["sum"] == joined["sum"].max()]

    check(program, LEFT[["k", "f", "s", "c"]], RIGHT)
    assert any(taken)


def test_outer_joins_on_dates_have_the_frequency_that_pandas_infers() -> None:
    days = pandas.to_datetime(["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-05"])

    def program(pd: Any, left: Any, right: Any) -> Any:
        joined = left.join(right, how="outer")
        return (
            joined,
            joined.index.freq,
            left.iloc[:2].join(right.iloc[2:], how="outer"),
            left.iloc[:0].join(right, how="outer"),
        )

    left = pandas.DataFrame({"x": [1, 2, 3]}, index=days[:3])
    right = pandas.DataFrame({"y": [1, 2, 3]}, index=days[1:] + pandas.Timedelta(days=1))
    check(program, left, right)


def test_outer_joins_with_an_empty_table_sort_as_pandas_does() -> None:
    keys = np.random.default_rng(0).integers(0, 5, 40).astype("float32")

    def program(pd: Any, left: Any, right: Any) -> Any:
        return left.set_index("k").join(right.set_index("k"), how="outer"), right.set_index("k").join(
            left.set_index("k"), how="outer"
        )

    left = pandas.DataFrame({"k": keys, "v": range(40)})
    check(program, left, left.rename(columns={"v": "w"}).iloc[:0])
