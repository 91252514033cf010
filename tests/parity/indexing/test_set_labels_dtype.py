"""Values set by column labels of another dtype: pandas joins the labels, so that all column labels may get another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

LABELS: dict[str, list[Any]] = {
    "text": ["a", "b", "c"],
    "text and a missing label": ["a", np.nan, "c"],
    "None": [None, "b", "c"],
    "integers": [0, 1, 2],
    "floats": [0.0, 1.0, 2.0],
    "mixed": ["a", 1, 2.0],
    "booleans": [True, False, "c"],
    "dates": [pandas.Timestamp("2020-01-01"), pandas.Timestamp("2020-01-02"), pandas.Timestamp("2020-01-03")],
}
KEYS: list[Any] = [
    ["a"],
    ["a", "c"],
    [np.nan],
    [None],
    [1],
    [1.0],
    [1, 2.0],
    np.array([1, 2]),
    np.array([1.0]),
    [True],
    ["2020-01-02"],
    pandas.Index(["a"], dtype=object),
    [True, False, True],
    slice(None),
    "a",
]


@pytest.mark.parametrize("labels", LABELS)
def test_labels_after_values_were_set(labels: str) -> None:
    data = pandas.DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).set_axis(pandas.Index(LABELS[labels], name="n"), axis=1)

    def program(pd: Any, df: Any, key: Any, rows: str) -> Any:
        chosen = {"all": slice(None), "mask": df.iloc[:, 0] > 1, "none": df.iloc[:, 0] > 9, "labels": [0]}[rows]
        df.loc[chosen, key] = 7.5
        total = df.sum().sum()
        return df, df.columns.dtype, total, df.T.index.dtype

    for key in KEYS:
        for rows in ("all", "mask", "none", "labels"):
            check(program, data, key, rows, native=None)
