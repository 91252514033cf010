"""Assignment to parts of objects: in place if the object is materialised, as a part of the plan if it is lazy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as cpd
from craton import fallbacks
from tests.parity.support import check, same

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


DTYPES = ["int64", "uint8", "float64", "float32", "bool", "Int64", "Float64", "boolean", "int64[pyarrow]", "str"]
ASSIGNMENTS = ["w = t", "w = t + t", "w = 3", "w = 1.5", "q = t", "q = 3", "w = w\nq = w", "t = w\nw = t", "w = w + w"]


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("lines", ASSIGNMENTS)
@pytest.mark.parametrize("other", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eval_in_place_keeps_a_dtype_where_it_can(dtype: str, other: str, lines: str) -> None:
    data = pandas.DataFrame({"w": [1, 0, 1], "t": [0, 1, 1]}).astype({"w": dtype, "t": other})

    def program(pd: Any, df: Any) -> Any:
        df = df[df["w"].notna()]
        df.eval(lines, inplace=True)
        return df, df.eval(lines) if "=" in lines else None, df["w"].count()

    check(program, data, native=None)


@pytest.mark.parametrize("value", [5, 5.5, None, "x"])
@pytest.mark.parametrize("rows", ["all", "labels", "mask", "index"])
@pytest.mark.parametrize("name", [True, False, 1, 0, 1.0, "q"])
def test_columns_named_by_booleans(name: Any, rows: str, value: Any) -> None:
    data = pandas.DataFrame({False: [1, 2, 3], "p": [1.5, None, 2.5]})

    def program(pd: Any, df: Any) -> Any:
        df = df.assign(q=1)
        chosen = {"all": slice(None), "labels": [0, 2], "mask": df["p"].notna(), "index": df.index}[rows]
        df.loc[chosen, name] = value
        return df, df.dtypes, df.count().sum()

    check(program, data, native=None)


ROWS: list[Any] = [slice(None), slice(None, None, 2), [0, 2], [], np.array([True, False, True]), 1]
COLUMNS: dict[str, list[Any]] = {
    "iloc": [0, -1, [0], [-1], [0, 0], [], slice(None), slice(0, 1), slice(-1, None), [True], [False], np.array([-1])],
    "loc": ["a", ["a"], ["a", "a"], [], slice(None), slice("a", "a"), [True], [False], "z", ["z"]],
}


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("indexer", COLUMNS)
@pytest.mark.parametrize("dtype", ["Int64", "str", "category", "datetime64[ns, UTC]", "int64"])
def test_keys_of_the_only_column(dtype: str, indexer: str, others: int) -> None:
    """pandas raises an error for some of them if the dtype is an extension dtype, and then does not change the frame."""
    data = pandas.DataFrame({"a": pandas.Series([1, 2, 3]).astype("str" if dtype == "str" else "int64").astype(dtype)})

    def program(pd: Any, df: Any, rows: Any, columns: Any, value: Any) -> Any:
        df = df[df["a"].notna()].assign(**dict.fromkeys("bc"[:others], 1))
        try:
            getattr(df, indexer)[rows, columns] = value
        except Exception as error:
            return type(error).__name__, str(error), df
        return df, df.dtypes.astype(str).tolist()

    for rows in ROWS:
        value = None if isinstance(rows, slice) else data["a"][1]
        for columns in COLUMNS[indexer]:
            check(program, data, rows, columns, value, native=None)


def test_plain_keys_of_the_only_column_stay_planned() -> None:
    data = pandas.DataFrame({"a": [1, 2, 3]}, dtype="Int64")
    for indexer, columns in (("iloc", 0), ("loc", "a"), ("iloc", slice(None)), ("loc", slice(None))):

        def program(pd: Any, df: Any, indexer: str = indexer, columns: Any = columns) -> Any:
            df = df + 1
            getattr(df, indexer)[[0, 2], columns] = 7
            return df

        check(program, data)
