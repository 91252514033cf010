"""Single cells of planned frames: the first by a query, later ones from the column, which is kept until the frame changes."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

import craton
import craton.pandas as cpd
from craton.pandas.core.routing import is_lazy

ROWS = 50


def table(index: str) -> pd.DataFrame:
    numbers = np.arange(ROWS)
    frame = pd.DataFrame(
        {
            "i": numbers * 3,
            "f": np.where(numbers % 7 == 0, np.nan, numbers / 3),
            "t": [None if n % 5 == 0 else f"text {n}" for n in numbers],
            "c": pd.Categorical([["x", "y", None][n % 3] for n in numbers]),
            "d": pd.Series(pd.date_range("2024-01-01", periods=ROWS, freq="h")).where(numbers % 4 != 0),
            "z": pd.date_range("2024-03-30", periods=ROWS, freq="h", tz="Europe/Berlin"),
            "w": pd.Series(numbers).astype("timedelta64[s]"),
            "n": pd.array([None if n % 6 == 0 else n for n in numbers], "Int64"),
            "b": numbers % 2 == 0,
            "a": pd.array([None if n % 3 == 0 else n for n in numbers], "int32[pyarrow]"),
            "o": [datetime.date(2024, 1, 1 + n % 28) if n % 2 else (n,) for n in numbers],
            "s": pd.array(np.where(numbers % 3 == 0, 0.0, numbers), pd.SparseDtype("float64", 0.0)),
        }
    )
    labels = {
        "default": pd.RangeIndex(ROWS),
        "numbers": pd.Index(numbers[::-1] * 10, name="k"),
        "texts": pd.Index([f"r{n}" for n in numbers]),
        "repeated": pd.Index(numbers % 45),
        "levels": pd.MultiIndex.from_arrays([numbers // 5, numbers % 5]),
    }
    return frame.set_axis(labels[index], axis=0)


def same(ours: object, theirs: object) -> None:
    assert type(ours) is type(theirs)
    assert ours is theirs or ours == theirs or (pd.isna(ours) and pd.isna(theirs)), (ours, theirs)


def planned(frame: pd.DataFrame) -> pd.DataFrame:
    made = cpd.DataFrame(frame)
    made = made[made["i"] >= 0] if not isinstance(frame.index, pd.RangeIndex) else made.assign(i=made["i"] + 0)
    assert is_lazy(made)
    return made


@pytest.mark.parametrize("index", ["default", "numbers", "texts", "repeated", "levels"])
@pytest.mark.parametrize("column", list("iftcdzwnbaos"))
def test_cells_in_a_loop(index: str, column: str) -> None:
    theirs = table(index)
    with craton.option_context(small_rows=0):
        ours = planned(theirs)
        place = theirs.columns.get_loc(column)
        for position in (3, 0, 7, -1, 3, 49, 12):
            same(ours.iloc[position, place], theirs.iloc[position, place])
        if index == "repeated":
            return  # a label stands for several rows
        for position in (3, 0, 7, 3, 49):
            label = theirs.index[position]
            same(ours.loc[label, column], theirs.loc[label, column])


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("change", ["column", "rows", "cell", "rename", "labels"])
def test_cells_after_changes(change: str) -> None:
    """What was kept of a frame is forgotten with each change."""

    def program(df: pd.DataFrame) -> list[object]:
        found = [df.loc[n, "f"] for n in range(5)]
        if change == "column":
            df["f"] = df["f"] * 2
        elif change == "rows":
            df.drop(index=[0, 3], inplace=True)
        elif change == "cell":
            df.loc[4, "f"] = -1.0
        elif change == "rename":
            df.rename(columns={"f": "i", "i": "f"}, inplace=True)
        else:
            df.index = df.index[::-1]
        found += [df.loc[n, "f"] for n in (1, 2, 4, 1)] + [df.iloc[2, 0]]
        copied = df.copy()
        copied["f"] = 0
        return [*found, copied.loc[2, "f"], df.loc[2, "f"], df["f"].sum()]

    theirs = table("default")[["i", "f", "t"]]
    with craton.option_context(small_rows=0):
        ours = planned(theirs)
        for one, other in zip(program(ours), program(theirs.copy()), strict=True):
            same(one, other)


def test_errors_of_cells() -> None:
    theirs = table("default")
    with craton.option_context(small_rows=0):
        ours = planned(theirs)
        for key, kind in (
            ((99, "f"), KeyError),
            ((1, "missing"), KeyError),
            (("1", "f"), KeyError),
            ((1, 2), KeyError),
        ):
            for frame in (ours, theirs):
                with pytest.raises(kind):
                    frame.loc[key]
        for place in ((99, 0), (0, 99), (0, -99), (-99, 0)):
            for frame in (ours, theirs):
                with pytest.raises(IndexError):
                    frame.iloc[place]
        same(ours.iloc[2, -1], theirs.iloc[2, -1])
        twice = planned(theirs[["i", "f"]])[["i", "f", "f"]]
        pd.testing.assert_series_equal(pd.Series(twice.loc[3, "f"]), theirs[["i", "f", "f"]].loc[3, "f"])
