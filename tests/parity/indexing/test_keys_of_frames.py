"""Group-by keys that are Series: aligned by row labels, with their own dtypes, and excluded from results as in pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ROWS = pandas.DataFrame({"i": [1, 2, 3, 3, 1], "v": [3.0, 1.0, 2.0, np.nan, 5.0], "k": list("abaab")})

#: A frame and a column that was taken from it before or after its labels or rows changed.
TAKEN: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "as it is": lambda pd, df: (df, df["i"]),
    "sorted": lambda pd, df: (df.sort_values("v"), df["i"]),
    "sorted both": lambda pd, df: ((s := df.sort_values("v")), s["i"]),
    "sorted, then numbered": lambda pd, df: ((s := df.sort_values("v")).reset_index(drop=True), s["i"]),
    "sorted, the key numbered": lambda pd, df: ((s := df.sort_values("v")), s["i"].reset_index(drop=True)),
    "filtered, then numbered": lambda pd, df: ((s := df.dropna()).reset_index(drop=True), s["i"]),
    "filtered, the key before": lambda pd, df: (df.dropna(), df["i"]),
    "with other labels": lambda pd, df: (df.set_axis([4, 3, 2, 1, 0], axis=0), df["i"]),
    "the key with other labels": lambda pd, df: (df, df["i"].set_axis([4, 3, 2, 1, 0])),
    "with labels of a column": lambda pd, df: (df.set_index("k", drop=False).head(2), df["i"]),
    "turned": lambda pd, df: (df.iloc[::-1].reset_index(drop=True), df["i"]),
    "the key turned": lambda pd, df: (df, df["i"].iloc[::-1]),
    "the key some rows": lambda pd, df: (df, df["i"].iloc[1:4]),
    "copied": lambda pd, df: (df, df["i"].copy()),
}
CASTS = ["Int64", "UInt8", "float64", "str", "category", "Int32", "Float32", "int8"]
#: Methods of the group-by.
ENDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "a column": lambda df, key: df.groupby(key)["v"].sum(),
    "sizes": lambda df, key: df.groupby(key).size(),
    "two keys": lambda df, key: df.groupby([key, "k"])["v"].max(),
    "numbers of groups": lambda df, key: df.groupby(key).ngroup(),
    "running sums": lambda df, key: df.groupby(key)["v"].cumsum(),
    "on each row": lambda df, key: df.groupby(key)["v"].transform("max"),
    "keys as columns": lambda df, key: df.groupby(key, as_index=False).agg(n=("v", "count")),
    "first rows": lambda df, key: df.groupby(key).head(1),
    "rolling": lambda df, key: df.groupby(key)["v"].rolling(2, min_periods=1).sum(),
    "the column alone": lambda df, key: df["v"].groupby(key).sum(),
    "a number": lambda df, key: df.groupby(key)["v"].mean().sum(),
}


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except (TypeError, ValueError, KeyError) as error:
        return type(error).__name__


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("taken", TAKEN)
def test_keys_are_aligned(taken: str, ending: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        frame, key = TAKEN[taken](pd, df)
        first = _outcome(lambda: ENDINGS[ending](frame, key))
        str(frame)
        second = _outcome(lambda: ENDINGS[ending](frame, key))
        str(key)
        return first, second, _outcome(lambda: ENDINGS[ending](frame, key))

    check(program, ROWS, native=None)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dtype", CASTS)
def test_keys_have_their_own_dtype(dtype: str, ending: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        return (
            _outcome(lambda: ENDINGS[ending](df, df["i"].astype(dtype))),
            _outcome(lambda: ENDINGS[ending](df.astype({"i": dtype}), df["i"])),
        )

    check(program, ROWS, native=None)


@pytest.mark.parametrize("dtype", [*CASTS, None])
@pytest.mark.parametrize("as_index", [False, True])
def test_columns_that_are_left_out(dtype: str | None, as_index: bool) -> None:
    """A frame's own column is excluded, also after a cast that pandas treats as a view; a copy is not."""

    def program(pd: Any, df: Any) -> Any:
        df = df.drop(columns="k")
        key = df["i"] if dtype is None else df["i"].astype(dtype)
        numbered = df.sort_values("v").reset_index(drop=True)
        made = df.groupby(key, as_index=as_index)
        str(df)
        return (
            df.groupby(key, as_index=as_index).sum(),
            made.max(),
            df.groupby(df["i"].copy(), as_index=as_index).sum() if as_index else None,
            numbered.groupby(df.sort_values("v")["i"]).sum(),
        )

    check(program, ROWS, native=None)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "names of columns": lambda df: df.rename(columns={"i": "v", "v": "i"}, inplace=True),
    "a name": lambda df: df.rename(columns={"i": "J"}, inplace=True),
    "row labels": lambda df: df.reset_index(drop=True, inplace=True),
    "a name of row labels": lambda df: df.rename_axis("z", inplace=True),
    "a name of row labels, set": lambda df: setattr(df.index, "name", "z"),
    "a name of column labels": lambda df: setattr(df.columns, "name", "z"),
    "a dtype": lambda df: df.__setitem__("i", df["i"].astype("Int64")),
    "all names": lambda df: setattr(df, "columns", ["a", "b", "c"]),
    "all row labels": lambda df: setattr(df, "index", list("pqrst")),
    "nothing": lambda df: None,
}


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_groups_of_a_frame_that_is_changed_in_place(change: str, looked: bool) -> None:
    """A group-by returns the same at its first call, at its second, and after the frame was materialised."""

    def program(pd: Any, df: Any) -> Any:
        df = df.set_axis([4, 3, 2, 1, 0], axis=0)
        if looked:
            str(df)
        groups = df.groupby("k")
        CHANGES[change](df)
        results: list[Any] = []
        for _ in range(3):
            results += [
                _outcome(lambda name=name: groups[name].sum())  # type: ignore[misc]
                for name in ("i", "v", "J", "a")
            ]
            results += [_outcome(groups.idxmax), _outcome(lambda: groups.head(1)), hasattr(groups, "i")]
            str(df)
        return tuple(results)

    check(program, ROWS, native=None)


def test_a_series_that_gets_another_name() -> None:
    def program(pd: Any, df: Any) -> Any:
        values = df["v"]
        groups = values.groupby(df["k"])
        values.name = "other"
        first = groups.sum()
        str(values)
        return first, groups.sum(), groups.sum().name

    check(program, ROWS, native=None)


def test_what_is_set_on_a_group_by() -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k", as_index=False)
        groups.as_index = True
        first = groups["i"].sum(), groups.sum()
        groups.as_index = False
        groups.sort = False
        return *first, groups.sum(), groups.as_index, groups.sort

    check(program, ROWS, native=None)


#: Methods of a group-by whose key has integers that a missing value turns into floats.
_UNDECIDED = ["shift", "cumsum", "rank", "ffill", "diff", "head", "nunique", "count", "first", "min", "size"]


@pytest.mark.parametrize("as_index", [True, False])
@pytest.mark.parametrize("key", ["q", ["q", "t"], "t"], ids=str)
@pytest.mark.parametrize("function", _UNDECIDED)
def test_keys_whose_dtype_depends_on_the_data(function: str, key: Any, as_index: bool) -> None:
    frame = pandas.DataFrame(
        {
            "o": np.array(["x", None, "y", "x"], dtype=object),  # Python objects, which plans do not compute with
            "t": [1.0, 2.0, 2.0, 1.0],
            "y": [6, -50, 5, 1],
            "c": pandas.Categorical(["b", "a", "b", None]),
            "z": [1, 2, 3, 4],
        }
    )

    def program(pd: Any, df: Any) -> Any:
        df = df.assign(q=df.groupby("t")["y"].shift())
        results: list[Any] = []
        for columns in (["z"], "z", ["c", "z"], ["q"]):
            groups = df.groupby(key, as_index=as_index)[columns]
            results.append(_outcome(getattr(groups, function)))
        results.append(_outcome(getattr(df.drop(columns="o").groupby(key, as_index=as_index), function)))
        cast = df.groupby(df["z"].astype("uint64"))[["y", "t"]]
        return tuple(results), cast.first(), cast.cumsum()

    check(program, frame, native=None)
