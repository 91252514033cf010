"""Several values set in several columns: pandas sets them by position in a frame of a single block, else column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from support import check_classes_of_errors

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")

FRAMES: dict[str, dict[str, Any]] = {
    "floats": {"A": [1.0, 2.0, 1.0], "B": [3.0, 3.0, 4.0]},
    "integers": {"A": [1, 2, 1], "B": [3, 3, 4]},
    "two dtypes": {"A": [1, 2, 1], "B": [3.0, 3.0, 4.0]},
    "one column": {"A": [1.0, 2.0, 1.0]},
    "nullable": {"A": pandas.array([1, 2, 1], dtype="Int64"), "B": pandas.array([3, None, 4], dtype="Int64")},
    "texts": {"A": list("aba"), "B": list("xyz")},
}

MADE: dict[str, Callable[[Any], Any]] = {
    "plain": lambda frame: frame,
    "filtered": lambda frame: frame[frame["A"] == frame["A"]],
    "sorted": lambda frame: frame.sort_values("A", kind="stable"),
    "looked at": lambda frame: (made := frame[frame["A"] == frame["A"]], repr(made), len(made))[0],
}

KEYS: dict[str, Callable[[Any], Any]] = {
    "a mask": lambda frame: frame["A"] == frame["A"].iloc[0],
    "labels": lambda frame: [0, 2],
    "a slice": lambda frame: slice(0, 1),
    "all": lambda frame: slice(None),
    "an array": lambda frame: np.array([True, False, True]),
}

VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "a column": lambda pd, frame: frame[frame.columns[-1]],
    "a Series": lambda pd, frame: pd.Series([8.0, 9.0], index=[0, 2]),
    "columns exchanged": lambda pd, frame: frame[list(frame.columns[::-1])],
    "fewer columns": lambda pd, frame: pd.DataFrame({"A": [8.0, 9.0, 10.0]}),
    "other columns": lambda pd, frame: pd.DataFrame({"q": [8.0, 9.0]}),
    "an array": lambda pd, frame: np.array([[8.0], [9.0]]),
    "a list": lambda pd, frame: [8.0, 9.0],
    "a longer list": lambda pd, frame: [8.0, 9.0, 10.0],
    "by column": lambda pd, frame: pd.Series([1.0, 2.0], index=["A", "B"]),
    "a dictionary": lambda pd, frame: {"A": 1, "B": 2},
    "a scalar": lambda pd, frame: 5,
    "doubled": lambda pd, frame: frame * 2,
}


def _positions(key: Any) -> Any:
    return key.to_numpy() if isinstance(key, pandas.Series) else key


WAYS: dict[str, Callable[[Any, Any, Any], None]] = {
    "loc": lambda frame, key, value: frame.loc.__setitem__(key, value),
    "iloc": lambda frame, key, value: frame.iloc.__setitem__(_positions(key), value),
    "loc of all columns": lambda frame, key, value: frame.loc.__setitem__((key, slice(None)), value),
    "loc of a list": lambda frame, key, value: frame.loc.__setitem__((key, list(frame.columns)), value),
    "iloc of a list": lambda frame, key, value: frame.iloc.__setitem__((_positions(key), [0, -1]), value),
    "rows": lambda frame, key, value: frame.__setitem__(key, value),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("frame", FRAMES)
def test_values_of_several_columns(frame: str, made: str, way: str) -> None:
    for key in KEYS.values():
        for value in VALUES.values():

            def program(pd: Any, key: Any = key, value: Any = value) -> Any:
                changed = MADE[made](pd.DataFrame(FRAMES[frame]))
                WAYS[way](changed, key(changed), value(pd, changed))
                return changed, changed["A"].count()

            check_classes_of_errors(program)
