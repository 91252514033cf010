"""Methods that a program adds to ``pd.DataFrame`` and ``pd.Series``, and ``pd.testing`` on frames that libraries return.

pandas calls the user's functions with frames of its own class, and libraries return such frames. These frames must also have the
user's methods, and comparisons must treat them as frames of Craton's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pandas
import pytest

import craton
import craton.pandas

MODULES = [pytest.param(pandas, id="pandas"), pytest.param(craton.pandas, id="craton")]
Program = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _planned() -> Iterator[None]:
    with craton.option_context(small_rows=0):
        yield


def _frame(pd: Any) -> Any:
    return pd.DataFrame({"k": [1, 1, 2], "v": [1.0, 2.0, 4.0]})


CALLED: dict[str, Program] = {
    "on a column": lambda pd: _frame(pd)["v"].spread(),
    "on a computed column": lambda pd: (_frame(pd)["v"] * 2).spread(),
    "apply to columns": lambda pd: _frame(pd).apply(lambda column: column.spread()).tolist(),
    "apply to rows": lambda pd: _frame(pd).apply(lambda row: row.spread(), axis=1).tolist(),
    "apply to groups": lambda pd: _frame(pd).groupby("k")["v"].apply(lambda group: group.spread()).tolist(),
    "aggregate groups": lambda pd: _frame(pd).groupby("k").agg(lambda group: group.spread())["v"].tolist(),
    "transform groups": lambda pd: _frame(pd).groupby("k")["v"].transform(lambda group: group.spread()).tolist(),
    "windows": lambda pd: _frame(pd)["v"].rolling(2).apply(lambda window: window.spread()).tolist()[1:],
    "rows": lambda pd: [row.spread() for _, row in _frame(pd).iterrows()],
    "pipe": lambda pd: _frame(pd)["v"].pipe(lambda series: series.spread()),
    "of a library": lambda pd: pandas.Series([1, 5]).spread(),  # type: ignore[attr-defined]
    "a frame's, in groups": lambda pd: (
        _frame(pd).groupby("k")[["v"]].apply(lambda group: group.wide().iloc[:, -1].sum()).tolist()
    ),
    "a frame's, of a library": lambda pd: pandas.DataFrame({"a": [1]}).wide().shape,  # type: ignore[operator]
}


def _spread(series: Any) -> Any:
    return series.max() - series.min()


def _wide(frame: Any) -> Any:
    return frame.add_suffix("_")


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    def add(pd: Any) -> None:
        monkeypatch.setattr(pd.Series, "spread", _spread, raising=False)
        monkeypatch.setattr(pd.DataFrame, "wide", _wide, raising=False)

    return add


@pytest.mark.parametrize("program", CALLED.values(), ids=CALLED)
def test_methods_that_a_program_adds(program: Program, methods: Callable[[Any], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pandas.Series, "spread", _spread, raising=False)
        patch.setattr(pandas.DataFrame, "wide", _wide, raising=False)
        expected = program(pandas)
    methods(craton.pandas)
    assert program(craton.pandas) == expected


@pytest.mark.parametrize("cls", ["DataFrame", "Series"])
class TestAddedAttributes:
    def test_written_twice_and_removed(self, cls: str) -> None:
        ours, theirs = getattr(craton.pandas, cls), getattr(pandas, cls)
        for value in (_spread, _wide):
            ours.added = value
            assert ours.added is value
            assert theirs.added is value
        del ours.added
        assert not hasattr(ours, "added")
        assert not hasattr(theirs, "added")
        with pytest.raises(AttributeError):
            del ours.added

    def test_what_pandas_has_stays_its_own(self, cls: str) -> None:
        ours, theirs = getattr(craton.pandas, cls), getattr(pandas, cls)
        for name in (
            "head",
            "to_sql",
            "sum",
        ):  # a planned method, one that is not planned, and one that is defined on both classes
            before = getattr(theirs, name), getattr(ours, name)
            with mock.patch.object(ours, name, return_value=7):
                assert getattr(ours(dtype=float), name)() == 7
                assert getattr(theirs, name) is before[0]
            assert (getattr(theirs, name), getattr(ours, name)) == before

    def test_what_a_library_added_to_pandas_is_replaced_here_only(
        self, cls: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ours, theirs = getattr(craton.pandas, cls), getattr(pandas, cls)
        monkeypatch.setattr(theirs, "added", _wide, raising=False)
        assert ours.added is _wide
        monkeypatch.setattr(ours, "added", _spread)
        assert (ours.added, theirs.added) == (_spread, _wide)

    def test_a_subclass_keeps_its_own(self, cls: str) -> None:
        class Mine(getattr(craton.pandas, cls)):  # type: ignore[misc]
            pass

        Mine.added = _wide
        assert not hasattr(getattr(craton.pandas, cls), "added")
        del Mine.added


COMPARED = {
    "frames": ("assert_frame_equal", _frame),
    "columns": ("assert_series_equal", lambda pd: _frame(pd)["v"]),
    "planned frames": ("assert_frame_equal", lambda pd: _frame(pd)[lambda frame: frame["v"] > 1]),
    "planned columns": ("assert_series_equal", lambda pd: _frame(pd)["v"].cumsum()),
    "groups": ("assert_frame_equal", lambda pd: _frame(pd).groupby("k").sum()),
    "labels": ("assert_index_equal", lambda pd: _frame(pd).set_index("k").index),
}


@pytest.mark.parametrize(("function", "make"), COMPARED.values(), ids=COMPARED)
@pytest.mark.parametrize("turned", [False, True])
def test_what_libraries_return_is_compared(function: str, make: Program, turned: bool) -> None:
    pair = [make(craton.pandas), make(pandas)]
    if turned:
        pair.reverse()
    getattr(craton.pandas.testing, function)(*pair)


@pytest.mark.parametrize("pd", MODULES)
@pytest.mark.parametrize("other", MODULES)
def test_classes_that_differ_still_do(pd: Any, other: Any) -> None:
    class Mine(other.Series):  # type: ignore[misc]
        pass

    with pytest.raises(AssertionError, match="Series classes are different"):
        pandas.testing.assert_series_equal(pd.Series([1]), Mine([1]))
    with pytest.raises(AssertionError, match="are different"):
        pandas.testing.assert_series_equal(pd.Series([1]), other.Series([2]))
