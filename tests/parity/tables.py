"""Two small tables with repeats and missing values of every dtype family, for the tests of whole-table methods."""

from __future__ import annotations

import numpy as np
import pandas as pd

LEFT = pd.DataFrame(
    {
        "k": [3, 1, 2, 1, 5],
        "f": [1.5, np.nan, 0.0, np.nan, 2.5],
        "s": ["a", "b", None, "a", "c"],
        "t": pd.to_datetime(["2020-01-01", None, "2020-01-02", "2020-01-01", "2019-01-01"]),
        "m": pd.array([1, None, 3, 3, 1], dtype="Int64"),
        "a": pd.array(["x", None, "x", "y", "y"], dtype="string[pyarrow]"),
        "c": pd.Categorical(["x", "y", None, "x", "z"], categories=["y", "x", "z"]),
        "v": [1, 2, 3, 4, 5],
        "b": [True, False, True, True, False],
    }
)
RIGHT = pd.DataFrame(
    {
        "k": [1, 3, 1, 7],
        "f": [np.nan, 1.5, 9.0, 0.0],
        "s": ["a", None, "c", "a"],
        "t": pd.to_datetime(["2020-01-01", None, "2020-01-01", "2021-01-01"]),
        "m": pd.array([3, 1, None, 8], dtype="Int64"),
        "a": pd.array(["y", "x", None, "w"], dtype="string[pyarrow]"),
        "c": pd.Categorical(["x", None, "z", "z"], categories=["y", "x", "z"]),
        "w": [10, 20, 30, 40],
        "u": [True, False, True, True],
    }
)
KEYS = ["k", "f", "s", "t", "m", "a", "c"]
