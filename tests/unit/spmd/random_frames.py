"""Random frames of all dtypes, their parts, and the comparison of wholes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Chance = np.random.Generator


def _maybe(chance: Chance, values: Any, share: float = 0.2) -> Any:
    values = np.asarray(values, object)
    values[chance.random(len(values)) < share] = None
    return values


#: Columns by the name of their kind, with many duplicates.
KINDS: dict[str, Callable[[Chance, int], Any]] = {
    "int64": lambda c, n: c.integers(-3, 4, n),
    "int8": lambda c, n: c.integers(-3, 4, n).astype(np.int8),
    "uint32": lambda c, n: c.integers(0, 5, n).astype(np.uint32),
    "float64": lambda c, n: np.where(c.random(n) < 0.2, np.nan, c.integers(-3, 4, n) / 2),
    "float32": lambda c, n: np.where(c.random(n) < 0.2, np.nan, c.integers(-3, 4, n)).astype(np.float32),
    "zeros": lambda c, n: c.choice([0.0, -0.0, np.inf, -np.inf, np.nan], n),
    "bool": lambda c, n: c.random(n) < 0.5,
    "Int64": lambda c, n: pd.array(_maybe(c, c.integers(0, 4, n)), "Int64"),
    "boolean": lambda c, n: pd.array(_maybe(c, c.random(n) < 0.5), "boolean"),
    "str": lambda c, n: pd.array(_maybe(c, c.choice(["", "a", "b", "ä", "long " * 5], n)), "str"),
    "object": lambda c, n: pd.Series(_maybe(c, c.choice(["x", "y", "z"], n)), dtype=object),
    "category": lambda c, n: pd.Categorical(_maybe(c, c.choice(["p", "q", "r"], n)), categories=["r", "q", "p", "s"]),
    "ordered": lambda c, n: pd.Categorical(c.choice([1, 2, 3], n), categories=[3, 2, 1], ordered=True),
    "datetime": lambda c, n: pd.to_datetime(_maybe(c, np.datetime64("2020-01-01") + c.integers(0, 4, n))),
    "tz": lambda c, n: pd.to_datetime(_maybe(c, np.datetime64("2020-01-01") + c.integers(0, 4, n))).tz_localize(
        "Europe/Berlin"
    ),
    "timedelta": lambda c, n: pd.to_timedelta(c.integers(0, 4, n), unit="h"),
}


def random_frame(chance: Chance, rows: int, kinds: list[str] | None = None) -> pd.DataFrame:
    """A frame with a column `id` of distinct numbers, and columns that are named by their kinds."""
    columns = {kind: KINDS[kind](chance, rows) for kind in kinds or KINDS}
    return pd.DataFrame({"id": chance.permutation(rows), **columns})


def cut(chance: Chance, frame: pd.DataFrame, ranks: int) -> list[pd.DataFrame]:
    """Divide a frame into parts, of which some may be empty."""
    at = np.sort(chance.integers(0, len(frame) + 1, ranks - 1))
    if ranks > 1 and chance.random() < 0.3:
        at[chance.integers(0, ranks - 1)] = 0
        at.sort()
    bounds = [0, *at.tolist(), len(frame)]
    return [frame.iloc[bounds[rank] : bounds[rank + 1]] for rank in range(ranks)]


def assert_same(parts: list[Any], expected: pd.DataFrame) -> None:
    """Compare the whole of some parts, in order, with labels and dtypes."""
    pd.testing.assert_frame_equal(pd.concat(parts), expected, check_index_type=False, check_column_type=False)


def assert_same_rows(parts: list[Any], expected: pd.DataFrame) -> None:
    """Compare the rows of the whole in any order, and the dtypes."""
    found = pd.concat(parts)
    assert found.dtypes.to_list() == expected.dtypes.to_list()
    assert list(found.columns) == list(expected.columns)
    assert sorted(_texts(found)) == sorted(_texts(expected))


def _texts(frame: pd.DataFrame) -> list[str]:
    return [
        repr(
            [
                "missing"
                if pd.isna(value)
                else float(value) + 0.0
                if isinstance(value, (int, float, np.number))
                else value
                for value in row
            ]
        )
        for row in frame.itertuples(index=False)
    ]
