"""Setting in objects that are in memory: done there, in place; lazy ones take it into the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as cpd
from craton import fallbacks
from tests.parity.support import same

SERIES: dict[str, Callable[[Any], None]] = {
    "item": lambda s: s.__setitem__(1, 9),
    "slice": lambda s: s.__setitem__(slice(1, 3), 9),
    "mask": lambda s: s.__setitem__(np.array([True, False, True, False]), 9),
    "loc": lambda s: s.loc.__setitem__(1, 9),
    "loc slice": lambda s: s.loc.__setitem__(slice(1, 2), 9),
    "iloc": lambda s: s.iloc.__setitem__(slice(None, 2), [7, 8]),
}


@pytest.mark.parametrize("how", SERIES)
def test_a_series_in_memory_keeps_its_array(how: str) -> None:
    data = np.array([1, 2, 3, 4])
    with craton.option_context(small_rows=0):
        series = cpd.Series(data, copy=False)
        array = series._mgr.array
        fallbacks.reset()
        SERIES[how](series)
        assert fallbacks.explain_fallbacks().empty
        assert series._mgr.array is array
    expected = pandas.Series(np.array([1, 2, 3, 4]))
    SERIES[how](expected)
    same(series, expected)


@pytest.mark.parametrize("key", [(1, "a"), (slice(1, 2), "b"), (slice(None), "a")])
def test_a_frame_in_memory_is_set_by_pandas(key: Any) -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"a": [1, 2, 3], "b": [1.5, 2.5, None]})
        frame.loc[key] = 9
        frame.iloc[0] = 5
        return frame

    with craton.option_context(small_rows=0):
        fallbacks.reset()
        got = program(cpd)
        assert fallbacks.explain_fallbacks().empty
    same(got, program(pandas))


def test_a_lazy_object_made_before_does_not_change() -> None:
    with craton.option_context(small_rows=0):
        series = cpd.Series([1, 2, 3])
        doubled = series * 2
        series.loc[0] = 100
        series.iloc[1:] = 7
        assert doubled.tolist() == [2, 4, 6]
        assert (series * 2).tolist() == [200, 14, 14]


def test_a_lazy_object_takes_it_into_its_plan() -> None:
    with craton.option_context(small_rows=0):
        lazy = cpd.Series([1, 2, 3]) * 2
        lazy.loc[lazy > 3] = 0
        assert "_view" in lazy.__dict__
        assert lazy.tolist() == [2, 0, 0]
