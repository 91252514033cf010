"""Arrays with zero or several dimensions as keys, values and parameters: results and errors are pandas'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

KEYS = {
    "mask of two columns": np.array([[True, False], [False, True], [True, True]]),
    "mask of one column": np.array([[True], [False], [True]]),
    "mask by column": np.asfortranarray([[True, False], [False, True], [True, True]]),
    "square mask": np.eye(3, dtype=bool),
    "mask of three dimensions": np.ones((3, 1, 1), dtype=bool),
    "mask of one row": np.ones((1, 3), dtype=bool),
    "mask without rows": np.zeros((0, 2), dtype=bool),
    "true": np.array(True),
    "false": np.array(False),
    "missing": pandas.array([True, None, False], dtype="boolean"),
    "numbers": np.array([[0, 1], [1, 2]]),
    "number": np.array(1),
}

#: Reads from a frame ``df`` of integers, floats and texts, and from a planned column ``s`` of it.
READS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "frame": lambda pd, df, s, key: df[key],
    "frame loc": lambda pd, df, s, key: df.loc[key],
    "frame loc column": lambda pd, df, s, key: df.loc[key, "a"],
    "frame iloc": lambda pd, df, s, key: df.iloc[key],
    "frame iloc column": lambda pd, df, s, key: df.iloc[key, 0],
    "series": lambda pd, df, s, key: s[key],
    "series loc": lambda pd, df, s, key: s.loc[key],
    "series iloc": lambda pd, df, s, key: s.iloc[key],
    "where": lambda pd, df, s, key: s.where(key),
    "mask": lambda pd, df, s, key: s.mask(key, 9),
    "isin": lambda pd, df, s, key: s.isin(key),
    "frame isin": lambda pd, df, s, key: df.isin(key),
    "sum": lambda pd, df, s, key: s + key,
    "equal": lambda pd, df, s, key: s == key,
    "take": lambda pd, df, s, key: s.take(key),
    "groupby": lambda pd, df, s, key: s.groupby(key).sum(),
    "map": lambda pd, df, s, key: s.map(key),
    "fillna": lambda pd, df, s, key: s.fillna(key),
    "clip": lambda pd, df, s, key: s.clip(key),
    "assign": lambda pd, df, s, key: df.assign(z=key),
    "set_index": lambda pd, df, s, key: df.set_index(key),
    "concat": lambda pd, df, s, key: pd.concat([s, s], keys=key),
    "melt": lambda pd, df, s, key: df.melt(id_vars=key),
    "melted values": lambda pd, df, s, key: df.melt(value_vars=key),
    "pop": lambda pd, df, s, key: df.pop(key),
    "value_counts": lambda pd, df, s, key: df.value_counts(key),
    "drop": lambda pd, df, s, key: s.drop(key),
}
SETS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "frame": lambda df, s, key: df.__setitem__(key, 7),
    "frame loc": lambda df, s, key: df.loc.__setitem__(key, 7),
    "frame loc column": lambda df, s, key: df.loc.__setitem__((key, "a"), 7),
    "frame iloc": lambda df, s, key: df.iloc.__setitem__(key, 7),
    "frame iloc column": lambda df, s, key: df.iloc.__setitem__((key, 0), 7),
    "series": lambda df, s, key: s.__setitem__(key, 7),
    "series loc": lambda df, s, key: s.loc.__setitem__(key, 7),
    "series iloc": lambda df, s, key: s.iloc.__setitem__(key, 7),
}


def frame() -> pandas.DataFrame:
    return pandas.DataFrame({"a": [1, 2, 3], "b": [4.0, 5, 6]})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", READS)
def test_reading(name: str, key: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        df["c"] = df["a"] + 1
        s = df["c"] * 2
        result = READS[name](pd, df, s, KEYS[key])
        return result, df["a"].sum(), s.max()

    check(program, frame(), native=None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", SETS)
def test_setting(name: str, key: str) -> None:
    """Errors have pandas' text, and leave the frame unchanged."""

    def program(pd: Any, df: Any) -> Any:
        df["c"] = df["a"] + 1
        s = df["c"] * 2
        error = None
        try:
            SETS[name](df, s, KEYS[key])
        except Exception as raised:
            error = type(raised).__name__, str(raised)
        return error, df, s, df["a"].sum(), s.sum()

    check(program, frame(), native=None)


@pytest.mark.parametrize("keys", [1, "ab", np.array(True), None])
def test_scalars_as_keys_of_concat(keys: Any) -> None:
    check(lambda pd, df: pd.concat([df, df], keys=keys), frame(), native=None)


@pytest.mark.parametrize("name", ["pop", "value_counts"])
@pytest.mark.parametrize("item", [[True], slice(1), ["a"], "a", "zz"], ids=str)
def test_unhashable_labels(name: str, item: Any) -> None:
    check(lambda pd, df: (getattr(df, name)(item), df), frame(), native=None)
