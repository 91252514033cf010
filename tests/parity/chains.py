"""Random programs over a frame, whose steps choose columns when they run, in the same way under pandas and Craton.

A step is ``step(pd, df, pick) -> result``; ``pick(kinds)`` gives a column label. The program ends when a step returns
something that is not a DataFrame.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pandas

Step = Callable[[Any, Any, "Pick"], Any]


class Pick:
    """Deterministic choices from numbers that Hypothesis drew, which are reused when they run out."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self._next = 0

    def number(self, bound: int) -> int:
        """A number that is at least 0 and less than ``bound``."""
        value = self._numbers[self._next % len(self._numbers)]
        self._next += 1
        return value % max(bound, 1)

    def of(self, items: Any) -> Any:
        """One of the items."""
        items = list(items)
        return items[self.number(len(items))]

    def column(self, df: Any) -> Any:
        """A column label."""
        return self.of(df.columns)

    def columns(self, df: Any) -> list[Any]:
        """One to three different column labels."""
        return list(dict.fromkeys(self.column(df) for _ in range(1 + self.number(3))))


COMPARE = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
REDUCTIONS = ["sum", "mean", "min", "max", "count", "nunique", "median", "std", "var", "any", "all", "first", "last"]
HOWS = ["inner", "left", "right", "outer"]


def _constant(dtype: Any, pick: Pick) -> Any:
    kind = getattr(dtype, "kind", "O")
    if pandas.api.types.is_string_dtype(dtype):
        return pick.of(["a", "b", ""])
    if kind == "M":
        return pandas.Timestamp("2000-02-29 12:30")
    if kind == "m":
        return pandas.Timedelta("1D")
    if kind == "b":
        return pick.of([True, False])
    return pick.of([0, 1, 2, -1, 0.5])


def mask(pd: Any, df: Any, pick: Pick) -> Any:
    """A comparison of a column with a constant or another column."""
    name = pick.column(df)
    compare = pick.of(COMPARE)
    if pick.number(4) == 0:
        return compare(df[name], df[pick.column(df)])
    return compare(df[name], _constant(df[name].dtype, pick))


STEPS: dict[str, Step] = {
    "columns": lambda pd, df, pick: df[pick.columns(df)],
    "filter": lambda pd, df, pick: df[mask(pd, df, pick)],
    "filter_both": lambda pd, df, pick: df[mask(pd, df, pick) & mask(pd, df, pick)],
    "filter_not": lambda pd, df, pick: df[~mask(pd, df, pick)],
    "loc": lambda pd, df, pick: df.loc[mask(pd, df, pick), pick.columns(df)],
    "head": lambda pd, df, pick: df.head(pick.number(6)),
    "tail": lambda pd, df, pick: df.tail(pick.number(6)),
    "iloc": lambda pd, df, pick: df.iloc[pick.number(3) : 2 + pick.number(5)],
    "sort": lambda pd, df, pick: df.sort_values(
        pick.columns(df), ascending=bool(pick.number(2)), kind="stable", na_position=pick.of(["first", "last"])
    ),
    "reset": lambda pd, df, pick: df.reset_index(drop=bool(pick.number(2))),
    "set_index": lambda pd, df, pick: df.set_index(pick.column(df)),
    "drop_duplicates": lambda pd, df, pick: df.drop_duplicates(
        pick.columns(df), keep=pick.of(["first", "last", False])
    ),
    "dropna": lambda pd, df, pick: df.dropna(subset=pick.columns(df)),
    "rename": lambda pd, df, pick: df.rename(columns={pick.column(df): "renamed"}),
    "drop": lambda pd, df, pick: df.drop(columns=pick.column(df)),
    "assign_constant": lambda pd, df, pick: df.assign(new=pick.of([1, 2.5, "x", True])),
    "assign_arithmetic": lambda pd, df, pick: df.assign(
        new=pick.of(ARITHMETIC)(df[pick.column(df)], pick.of([1, 2, 3, -2, 0.5]))
    ),
    "assign_columns": lambda pd, df, pick: df.assign(new=pick.of(ARITHMETIC)(df[pick.column(df)], df[pick.column(df)])),
    "fillna": lambda pd, df, pick: (
        df.assign(new=df[name].fillna(_constant(df[name].dtype, pick))) if (name := pick.column(df)) is not None else df
    ),
    "isna": lambda pd, df, pick: df.isna(),
    "isin": lambda pd, df, pick: (
        df[df[name].isin([_constant(df[name].dtype, pick)])] if (name := pick.column(df)) is not None else df
    ),
    "where": lambda pd, df, pick: df.assign(new=df[pick.column(df)].where(mask(pd, df, pick))),
    "shift": lambda pd, df, pick: df.assign(new=df[pick.column(df)].shift(pick.of([1, -1, 2]))),
    "cumulate": lambda pd, df, pick: df.assign(
        new=getattr(df[pick.column(df)], pick.of(["cumsum", "cummax", "cummin"]))()
    ),
    "rank": lambda pd, df, pick: df.assign(new=df[pick.column(df)].rank(method=pick.of(["average", "min", "first"]))),
    "group_agg": lambda pd, df, pick: df.groupby(
        pick.columns(df), as_index=bool(pick.number(2)), sort=bool(pick.number(4)), dropna=bool(pick.number(3))
    ).agg({pick.column(df): pick.of(REDUCTIONS)}),
    "group_named": lambda pd, df, pick: df.groupby(pick.column(df), observed=True).agg(
        one=(pick.column(df), pick.of(REDUCTIONS)), two=(pick.column(df), pick.of(REDUCTIONS))
    ),
    "group_size": lambda pd, df, pick: df.groupby(pick.columns(df), observed=True).size().reset_index(name="n"),
    "group_transform": lambda pd, df, pick: df.assign(
        new=df.groupby(pick.column(df), observed=True)[pick.column(df)].transform(
            pick.of(["sum", "min", "count", "max"])
        )
    ),
    "merge_self": lambda pd, df, pick: (
        df.merge(df[key], on=key, how=pick.of(HOWS), suffixes=("_l", "_r"))
        if (key := pick.columns(df)) is not None
        else df
    ),
    "merge_aggregate": lambda pd, df, pick: (
        df.merge(
            df.groupby(key, observed=True)[pick.column(df)].count().rename("many").reset_index(),
            on=key,
            how=pick.of(HOWS),
        )
        if (key := pick.column(df)) is not None
        else df
    ),
    "concat": lambda pd, df, pick: pd.concat([df, df.head(2)], ignore_index=bool(pick.number(2))),
    "melt": lambda pd, df, pick: df.melt(id_vars=[pick.column(df)]),
    "astype": lambda pd, df, pick: df.astype({pick.column(df): pick.of(["float64", "str", "int64"])}),
    # steps that end a program
    "series": lambda pd, df, pick: df[pick.column(df)],
    "reduce": lambda pd, df, pick: getattr(df[pick.column(df)], pick.of(REDUCTIONS[:-2]))(),
    "reduce_frame": lambda pd, df, pick: getattr(df, pick.of(["count", "nunique", "min", "max"]))(),
    "sum_numeric": lambda pd, df, pick: df.sum(numeric_only=True),
    "value_counts": lambda pd, df, pick: df[pick.column(df)].value_counts(),
    "unique": lambda pd, df, pick: df[pick.column(df)].unique(),
    "describe": lambda pd, df, pick: df[pick.column(df)].describe(),
    "shape": lambda pd, df, pick: (df.shape, df.dtypes),
    "index": lambda pd, df, pick: df.index,
    "repr": lambda pd, df, pick: repr(df),
    "upper": lambda pd, df, pick: df[pick.column(df)].str.upper(),
    "contains": lambda pd, df, pick: df[pick.column(df)].str.contains("a", regex=False),
    "year": lambda pd, df, pick: df[pick.column(df)].dt.year,
}


def program(steps: list[tuple[str, list[int]]]) -> Callable[[Any, Any], Any]:
    """The program of named steps with their drawn numbers."""

    def run(pd: Any, df: Any) -> Any:
        for name, numbers in steps:
            df = STEPS[name](pd, df, Pick(numbers))
            if not isinstance(df, pandas.DataFrame):
                return df
        return df

    return run
