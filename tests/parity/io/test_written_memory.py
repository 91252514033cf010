"""Frames over memory that the program can write to: a result has the values at its call, and later calls see the writes."""

import gc

import numpy as np
import pandas as pd
import pytest
from support import same

import craton
import craton.pandas as cp
from craton.pandas.core import scanning

ROWS = 1_000


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        craton.clear_memory()
        yield


def write(array):
    array[:] = array[::-1].copy()
    array[0] = array[1]


def shared(array):
    """A function that returns an array and a frame over its memory."""
    return lambda module: (own := array.copy(), module.DataFrame({"a": own}, copy=False))


def every_other(module):
    array = np.arange(2.0 * ROWS)[::2]
    return array, module.DataFrame({"a": array}, copy=False)


def two_columns(module):
    array = np.arange(2.0 * ROWS).reshape(ROWS, 2)
    return array, module.DataFrame(array, columns=["a", "b"], copy=False)


def foreign(module):
    array = np.frombuffer(bytearray(8 * ROWS))
    array[:] = np.arange(ROWS)
    return array, module.DataFrame({"a": array}, copy=False)


SHARED = {
    "floats": shared(np.arange(float(ROWS))),
    "integers": shared(np.arange(ROWS)),
    "booleans": shared(np.arange(ROWS) % 3 == 0),
    "nullable": shared(pd.array(range(ROWS), dtype="Int64")),
    "dates": shared(pd.array(np.arange(ROWS).astype("M8[us]"))),
    "every other": every_other,
    "two columns": two_columns,
    "foreign": foreign,
}

LOOKS = {
    "filter": lambda frame: frame[frame["a"] > frame["a"].iloc[3]],
    "column": lambda frame: frame["a"],
    "sorted": lambda frame: frame.sort_values("a", kind="stable"),
    "shifted": lambda frame: frame["a"].shift(),
    "group": lambda frame: frame.assign(k=range(ROWS)).groupby("k").max(),
    "max": lambda frame: frame["a"].max(),
    "first": lambda frame: frame["a"].iloc[0],
    "unplanned": lambda frame: frame["a"].autocorr(),
    "isin": lambda frame: frame["a"].isin(frame["a"].head(3)),
    "describe": lambda frame: frame.describe(),
}


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("look", LOOKS)
def test_a_result_is_of_its_call_and_the_next_call_sees_the_write(kind, look):
    if kind in ("dates", "booleans") and look == "unplanned":
        pytest.skip("no such number of these")
    array, frame = SHARED[kind](cp)
    found = [LOOKS[look](frame)]
    for _ in range(2):
        write(array)
        found.append(LOOKS[look](frame))
    array, frame = SHARED[kind](pd)
    same(found[0], LOOKS[look](frame))
    for later in found[1:]:
        write(array)
        same(later, LOOKS[look](frame))


def test_an_aggregate_is_not_remembered_across_a_write():
    array = np.arange(float(ROWS))
    series = cp.Series(array, copy=False)
    assert series.sum() == array.sum()
    array[:] = 1
    assert series.sum() == ROWS
    assert series.describe()["mean"] == 1
    array[0] = np.nan
    assert series.isna().sum() == 1
    assert series.count() == ROWS - 1


def test_a_group_by_of_memory_that_is_written_to():
    array = np.zeros((ROWS, 2))
    frame = cp.DataFrame(array, columns=["k", "v"], copy=False)
    groups = frame.groupby("k")
    array[:, 1] = 3
    assert groups["v"].sum().tolist() == [3 * ROWS]


@pytest.mark.parametrize(
    "dtype", ["int64", "float64", "Int64", "datetime64[us]", "category", "str", "int64[pyarrow]", "boolean"]
)
@pytest.mark.parametrize("way", ["array", "values"])
@pytest.mark.parametrize("planned_first", [False, True])
def test_arrays_that_pandas_hands_out(dtype, way, planned_first):
    found = []
    for module in (pd, cp):
        series = (
            module.Series(["0", "1", "1", "0"] * 10).astype("int64")
            if dtype != "str"
            else module.Series(["0", "1"] * 20)
        )
        series = series.astype(dtype)
        early = series == series.iloc[1] if planned_first else None
        array = getattr(series, way)
        if isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[1]
        else:
            array[0] = array[1]
        found.append(
            (
                series.tolist(),
                series.iloc[0],
                early if early is None else early.tolist(),
                series[series == series.iloc[0]].tolist(),
            )
        )
    assert found[0] == found[1]


def test_what_was_handed_out_before_the_first_plan():
    series = cp.Series(np.arange(ROWS))
    array = series.array
    doubled = series * 2
    array[0] = 1000
    assert doubled.iloc[0] == 0
    assert series.sum() == np.arange(ROWS).sum() + 1000


def frames():
    table = pd.DataFrame(
        {
            "a": np.arange(ROWS),
            "f": np.arange(ROWS) / 2,
            "t": pd.date_range("2020", periods=ROWS),
            "i": pd.array(range(ROWS), dtype="Int64"),
            "k": pd.Categorical(["x", "y"] * (ROWS // 2)),
            "s": ["text"] * ROWS,
        }
    )
    yield "columns", table
    yield "two-dimensional", pd.DataFrame(np.arange(2.0 * ROWS).reshape(ROWS, 2), columns=["a", "b"])
    yield "sorted", table.sort_values("f", ascending=False)
    yield "filtered", table[table["a"] > 5]
    yield "sliced", table.iloc[5:500:2]
    yield "indexed", table.set_index("a")
    yield "reset", table.set_index("a").reset_index()
    yield "merged", table.merge(table[["a"]], on="a")
    yield "together", pd.concat([table, table])
    yield "added", table.assign(z=table["a"] + 1)
    yield "copied", table.copy()
    yield "grouped", table.groupby("k", observed=True).sum(numeric_only=True)
    yield "column", table["a"].to_frame()


@pytest.mark.parametrize("name", [name for name, _ in frames()])
def test_what_pandas_alone_refers_to_is_not_copied(name):
    """Only pandas refers to these arrays, so plans read them in place."""
    frame = cp.DataFrame(dict(frames())[name])
    gc.collect()
    _, _, watched = scanning.snapshot_of(frame._mgr)
    assert not watched


def test_memory_that_somebody_holds_is_copied_until_it_is_released():
    array = np.arange(ROWS)
    series = cp.Series(array, copy=False)
    assert scanning.snapshot_of(series._mgr)[2]
    del array
    assert not scanning.snapshot_of(series._mgr)[2]


@pytest.mark.parametrize("dtype", ["string[python]", "object", "boolean"])
def test_memory_with_missing_values_that_is_looked_at_again(dtype):
    texts = dtype in ("string[python]", "object")
    array = pd.array(["x", "x", None] if texts else [True, False, None], dtype=dtype)
    new = "y" if texts else False

    def program(module):
        own = array.copy()
        frame = module.DataFrame({"a": own}, copy=False)
        yield frame[::2]
        yield frame[::2]
        own[0] = new
        yield frame[::2]
        yield frame["a"].value_counts(dropna=False)

    for expected, got in zip(program(pd), program(cp), strict=True):
        same(got, expected)


def test_objects_that_are_equal_are_others():
    held = np.array([1, "a", 2.5, None, np.nan], dtype=object)
    copied = held.copy()
    assert scanning._equal(held, copied)
    copied[0] = True
    assert not scanning._equal(held, copied)
    copied = held.copy()
    copied[2] = pd.NA
    assert not scanning._equal(held, copied)
