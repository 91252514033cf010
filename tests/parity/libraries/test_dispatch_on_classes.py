"""Libraries find a frame of Craton by the class pandas.DataFrame: in dictionaries keyed by class, and with ``==``."""

from __future__ import annotations

import functools
from typing import Any

import pandas
import pandas.testing as pt
import pytest

import craton
import craton.pandas

PAIRS = [(craton.pandas.DataFrame, pandas.DataFrame), (craton.pandas.Series, pandas.Series)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_the_classes_are_equal(ours: Any, theirs: Any) -> None:
    assert ours == theirs
    assert theirs == ours
    assert (ours != theirs) is False
    assert hash(ours) == hash(theirs)
    assert {theirs: "found"}[ours] == {ours: "found"}[theirs] == "found"
    assert ours in (theirs, int)
    assert ours is not theirs


def test_other_classes_are_not() -> None:
    class Mine(craton.pandas.DataFrame):  # type: ignore[misc, name-defined]
        pass

    distinct = [craton.pandas.DataFrame, craton.pandas.Series, Mine, pandas.Index, object, None]
    assert [[one == other for other in distinct] for one in distinct] == [
        [row == column for column in range(len(distinct))] for row in range(len(distinct))
    ]
    assert len({*distinct, pandas.DataFrame, pandas.Series}) == len(distinct)
    assert Mine != pandas.DataFrame


@pytest.mark.parametrize("small_rows", [0, 1000])
def test_a_registry_of_exact_classes(small_rows: int) -> None:
    registry: dict[type, Any] = {pandas.DataFrame: len, pandas.Series: sum}
    dispatched = functools.singledispatch(lambda _: "nothing")
    dispatched.register(pandas.DataFrame, lambda _: "frame")
    dispatched.register(pandas.Series, lambda _: "column")
    with craton.option_context(small_rows=small_rows):
        frame = craton.pandas.DataFrame({"a": [1, 2, 3]})
        part = frame[frame["a"] > 1]
        assert registry[type(part)](part) == 2
        assert registry[type(part["a"])](part["a"]) == 5
        assert (dispatched(part), dispatched(part["a"])) == ("frame", "column")
        # Results of pandas' class are still converted.
        assert type(craton.pandas.concat([part, pandas.DataFrame({"a": [1]})])) is craton.pandas.DataFrame


def _frame(pd: Any) -> Any:
    frame = pd.DataFrame(
        {"b": ["x", None, "y"], "a": [1.5, 2.0, None], "c": pd.Categorical(["p", "q", "p"])}, index=[3, 1, 2]
    )
    return frame[frame["a"].isna() | (frame["a"] > 0)]


OPTIONS = [
    {},
    {"check_exact": True},
    {"check_frame_type": True},
    {"check_column_type": True, "check_index_type": True},
    {"check_like": True},
    {"check_categorical": False, "check_names": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_pandas_finds_equal_frames_equal(options: dict[str, Any], turned: bool) -> None:
    with craton.option_context(small_rows=0):
        left, right = _frame(craton.pandas), _frame(pandas)
        if options.get("check_like"):
            left = left[["c", "a", "b"]].sort_index()
        pair = (right, left) if turned else (left, right)
        pt.assert_frame_equal(*pair, **options)
        for column in "abc":
            pt.assert_series_equal(*(one.sort_index()[column] for one in pair))
        pt.assert_index_equal(*(one.sort_index().index for one in pair), exact=True)
        pt.assert_extension_array_equal(*(one.sort_index()["c"].array for one in pair))
        with pytest.raises(AssertionError, match="are different"):
            pt.assert_frame_equal(pair[0], pair[1].assign(a=0.0))
        with pytest.raises(AssertionError, match="Expected type"):
            pt.assert_frame_equal(pair[0], pair[1]["a"])
