"""Keys that select nothing, and ``...``: they are checked as other keys are, and assignments by them change nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import case_id, check

LABELS = {
    "range": pandas.RangeIndex(4),
    "int": pandas.Index([3, 1, 2, 0]),
    "repeated": pandas.Index([1, 1, 0, 2]),
    "float": pandas.Index([0.5, 1.0, np.nan, 2.0]),
    "str": pandas.Index(["b", "a", "c", "d"]),
    "object": pandas.Index(["b", 1, None, "d"], dtype=object),
    "bool": pandas.Index([True, False, True, False]),
    "category": pandas.CategoricalIndex(["b", "a", "b", "c"]),
    "dates": pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-05"]),
    "spans": pandas.to_timedelta([0, 1, 2, 4], unit="h"),
    "Int64": pandas.Index([3, 1, None, 0], dtype="Int64"),
    "levels": pandas.MultiIndex.from_product([["a", "b"], [1, 2]]),
}
#: Keys of no rows, made from the frame.
EMPTY: list[Any] = [
    lambda f: [],
    lambda f: np.array([]),
    lambda f: np.array([], dtype="int64"),
    lambda f: np.array([], dtype="uint8"),
    lambda f: np.array([], dtype=object),
    lambda f: np.array([], dtype="datetime64[us]"),
    lambda f: np.array([], dtype=str),
    lambda f: f.index[:0],
    lambda f: pandas.Index([]),
    lambda f: pandas.Index([], dtype="Int64"),
    lambda f: pandas.Series([], dtype="int64"),
    lambda f: pandas.Series([], dtype=object),
    lambda f: pandas.array([], dtype="Int64"),
    lambda f: slice(0, 0),
    lambda f: [False] * 4,
]


def _frame(pd: Any, index: Any) -> Any:
    data = {"x": [1.0, np.nan, 3.0, 4.0], "i": [4, 3, 2, 1], "s": ["a", None, "c", ""]}
    f = pd.DataFrame(data, index=index)
    return f[f["i"] > 0].assign(y=f["x"] * 2)  # a plan that has not run


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("number", range(len(EMPTY)))
@pytest.mark.filterwarnings("ignore")
def test_rows(labels: str, number: int) -> None:
    make, index = EMPTY[number], LABELS[labels]
    for access in ("iloc", "loc"):

        def get(pd: Any, access: str = access) -> Any:
            f = _frame(pd, index)
            rows = getattr(f, access)[make(f)]
            return len(rows), rows, rows["x"].sum()

        def of_column(pd: Any, access: str = access) -> Any:
            f = _frame(pd, index)
            return getattr(f["x"], access)[make(f)].sum()

        def assign(pd: Any, access: str = access) -> Any:
            f = _frame(pd, index)
            before = f["x"].sum()
            getattr(f, access)[make(f)] = 7
            return before, f, f["x"].sum()

        for columns in ([], [0, 1], slice(None), 0) if access == "iloc" else ([], ["x", "i"], slice(None), "x"):

            def both(pd: Any, access: str = access, columns: Any = columns) -> Any:
                f = _frame(pd, index)
                return getattr(f, access)[make(f), columns]

            def assign_both(pd: Any, access: str = access, columns: Any = columns) -> Any:
                f = _frame(pd, index)
                getattr(f, access)[make(f), columns] = 7
                return f

            check(both, native=None)
            check(assign_both, native=None)
        check(get, native=None)
        check(of_column, native=None)
        check(assign, native=None)


#: Keys of rows, some of them wrong for some labels.
ROWS: list[Any] = [slice(2, 5), slice("a", "c"), [1, 2], [0, 99], ["a"], slice(None), slice(0.5, 1.0), slice(2, 0, -1)]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("rows", ROWS, ids=case_id)
@pytest.mark.filterwarnings("ignore")
def test_no_columns(rows: Any, labels: str) -> None:
    index = LABELS[labels]
    for value in (7, np.nan, [1], np.arange(4), pandas.Series([1, 2, 3, 4])):
        for access in ("iloc", "loc"):

            def assign(pd: Any, access: str = access, value: Any = value) -> Any:
                f = _frame(pd, index)
                getattr(f, access)[rows, []] = value
                return f, f["x"].sum()

            check(assign, native=None)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.filterwarnings("ignore")
def test_ellipsis(labels: str) -> None:
    index = LABELS[labels]
    for access in ("iloc", "loc"):
        for value in (7, None, "v"):
            for column in (None, "x", "i"):

                def assign(pd: Any, access: str = access, value: Any = value, column: str | None = column) -> Any:
                    f = _frame(pd, index)
                    changed = f if column is None else f[column].copy()
                    getattr(changed, access)[...] = value
                    return changed, len(f)

                check(assign, native=None)
        check(lambda pd, access=access: getattr(_frame(pd, index), access)[...], native=None)
        check(lambda pd, access=access: getattr(_frame(pd, index)["x"], access)[...], native=None)
        check(lambda pd, access=access: getattr(_frame(pd, index), access)[..., 0], native=None)
