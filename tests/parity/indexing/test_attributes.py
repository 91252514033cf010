"""``attrs`` and flags: results have them exactly where pandas propagates them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas

METHODS = [
    *("sum", "mean", "size", "count", "ngroup", "cumcount", "cumsum", "cummax"),
    *("rank", "ffill", "bfill", "pct_change", "shift", "diff", "head", "tail"),
    *("first", "last", "nunique", "quantile", "describe", "min", "std", "var"),
    *("sem", "median", "prod", "any", "all", "idxmax", "value_counts", "skew"),
]
GROUPS: dict[str, Callable[[Any], Any]] = {name: lambda g, name=name: getattr(g, name)() for name in METHODS}  # type: ignore[misc]
GROUPS |= {
    "nth": lambda g: g.nth(0),
    "agg by name": lambda g: g.agg("sum"),
    "agg of several": lambda g: g.agg(["sum", "max"]),
    "agg with names": lambda g: g.agg(n=("i", "sum")) if g.ndim == 2 else g.agg(n="sum"),
    "agg by column": lambda g: g.agg({"i": "sum"}) if g.ndim == 2 else g.agg({"i": "sum"}.get("i")),
    "transform by a function": lambda g: g.transform(lambda x: x),
    "apply": lambda g: g.apply(lambda x: x.sum()),
    "filter": lambda g: g.filter(lambda x: len(x) > 1),
    "get_group": lambda g: g.get_group("a"),
    "rolling": lambda g: g.rolling(1).sum(),
    "quantiles": lambda g: g.quantile([0.1, 0.5]),
}
OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "value_counts": lambda pd, df: df.value_counts(),
    "value_counts of a column": lambda pd, df: df["i"].value_counts(),
    "pivot_table": lambda pd, df: df.pivot_table(index="k", values="i"),
    "to_numeric": lambda pd, df: pd.to_numeric(df["i"]),
    "to_datetime": lambda pd, df: pd.to_datetime(df["i"], unit="s"),
    "merge": lambda pd, df: df.merge(df, on="k"),
    "concat": lambda pd, df: pd.concat([df, df]),
    "sort_values": lambda pd, df: df.sort_values("i"),
    "drop_duplicates": lambda pd, df: df.drop_duplicates(),
    "describe": lambda pd, df: df.describe(),
    "corr": lambda pd, df: df[["i", "f"]].corr(),
    "sum": lambda pd, df: df[["i", "f"]].sum(),
    "isna": lambda pd, df: df.isna(),
    "sum of columns": lambda pd, df: df["i"] + df["f"],
    "product of columns": lambda pd, df: df["i"].mul(df["f"], fill_value=1),
    "comparison of columns": lambda pd, df: df["i"] > df["f"],
    "truth values": lambda pd, df: (df["i"] > 1) & (df["f"] > 1),
    "combined": lambda pd, df: df["i"].combine_first(df["f"]),
    "where of columns": lambda pd, df: df["i"].where(df["f"] > 1, df["f"]),
    "filled by a column": lambda pd, df: df["i"].fillna(df["f"]),
    "mapped by a column": lambda pd, df: df["i"].map(df["f"]),
    "strings": lambda pd, df: df["k"].str.upper(),
    "map": lambda pd, df: df["k"].map({"a": 1}),
    "where": lambda pd, df: df["i"].where(df["i"] > 1),
    "fillna": lambda pd, df: df.fillna(0),
    "reset_index": lambda pd, df: df.reset_index(),
    "rename": lambda pd, df: df.rename(columns={"i": "j"}),
    "assign": lambda pd, df: df.assign(z=1),
    "filter": lambda pd, df: df[df["i"] > 1],
    "query": lambda pd, df: df.query("i > 1"),
    "iloc": lambda pd, df: df.iloc[0],
    "column": lambda pd, df: df["i"],
    "melt": lambda pd, df: df.melt(id_vars="k"),
    "nlargest": lambda pd, df: df.nlargest(1, "i"),
    "cumsum": lambda pd, df: df["i"].cumsum(),
    "rolling": lambda pd, df: df["i"].rolling(2).sum(),
    "astype": lambda pd, df: df.astype({"i": "float"}),
    "apply": lambda pd, df: df[["i", "f"]].apply(lambda row: row.sum(), axis=1),
    "duplicated": lambda pd, df: df.duplicated(),
    "copy": lambda pd, df: df.copy(),
    "join": lambda pd, df: df.join(df.set_index("k"), on="k", rsuffix="_r"),
}
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"groups: {name}": lambda pd, df, f=f: f(df.groupby("k")) for name, f in GROUPS.items()},  # type: ignore[misc]
    **{f"groups of a column: {name}": lambda pd, df, f=f: f(df.groupby("k")["i"]) for name, f in GROUPS.items()},  # type: ignore[misc]
    **{f"a column's groups: {name}": lambda pd, df, f=f: f(df["i"].groupby(df["k"])) for name, f in GROUPS.items()},  # type: ignore[misc]
    **OTHERS,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS)
def test_attributes(program: str) -> None:
    told = []
    for pd in (pandas, craton.pandas):
        with craton.option_context(small_rows=0):
            df = pd.DataFrame({"k": list("aba"), "i": [1, 2, 3], "f": [1.5, 2.0, 3.0]})
            df.attrs["source"] = {"a": [1]}
            made = PROGRAMS[program](pd, df)
            told.append((made.attrs, made.flags.allows_duplicate_labels, getattr(made, "name", None)))
            repr(made)
            told.append(made.attrs)
    assert told[2:] == told[:2]


IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "rename": lambda df: df.rename(columns={"i": "j"}, inplace=True),
    "drop": lambda df: df.drop(columns="i", inplace=True),
    "query": lambda df: df.query("i > 1", inplace=True),
    "eval": lambda df: df.eval("z = i + 1", inplace=True),
    "dropna": lambda df: df.dropna(inplace=True),
    "dropna of a column": lambda df: df["i"].dropna(inplace=True),
    "rename of a column": lambda df: df["i"].rename("j", inplace=True),
    "sort_values": lambda df: df.sort_values("i", inplace=True),
    "sort_index": lambda df: df.sort_index(inplace=True),
    "set_index": lambda df: df.set_index("k", inplace=True),
    "reset_index": lambda df: df.reset_index(inplace=True),
    "drop_duplicates": lambda df: df.drop_duplicates(inplace=True),
    "rename_axis": lambda df: df.rename_axis("r", inplace=True),
    "fillna": lambda df: df.fillna(0, inplace=True),
    "replace": lambda df: df.replace(1, 2, inplace=True),
    "where": lambda df: df["i"].where(df["i"] > 1, inplace=True),
    "clip": lambda df: df["i"].clip(2, inplace=True),
    "not in place": lambda df: df.rename(columns={"i": "j"}, inplace=False),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [*PROGRAMS, *(f"in place: {name}" for name in IN_PLACE)])
def test_flags(program: str) -> None:
    """Calls on frames that may not have duplicate labels: the flags of the results, and the errors, are pandas'."""
    told: list[Any] = []
    for pd in (pandas, craton.pandas):
        with craton.option_context(small_rows=0):
            df = pd.DataFrame({"k": list("aba"), "i": [1, 2, 3], "f": [1.5, 2.0, 3.0]})
            df = df.set_flags(allows_duplicate_labels=False)
            try:
                in_place = IN_PLACE.get(program.removeprefix("in place: "))
                made = PROGRAMS[program](pd, df) if in_place is None else in_place(df)
                told.append((repr(made), made is None or made.flags.allows_duplicate_labels, repr(df)))
            except Exception as error:
                told.append((type(error), str(error)))
    assert told[1] == told[0]


#: Programs on a frame; the test then sets names in place on the labels of the result.
NAMED: dict[str, Callable[[Any, Any], Any]] = {
    "group sums": lambda pd, df: df.groupby("k").sum(),
    "group sums with names": lambda pd, df: df.groupby("k").agg(x=("i", "sum")),
    "group sums and keys": lambda pd, df: df.groupby("k", as_index=False).sum(),
    "sums of groups": lambda pd, df: df.groupby("k")["i"].agg(["sum", "max"]),
    "several of a column": lambda pd, df: df["i"].agg(["sum", "min"]),
    "describe": lambda pd, df: df.describe(),
    "sums": lambda pd, df: df.sum(numeric_only=True),
    "pivot table": lambda pd, df: df.pivot_table(index="k", values="i"),
    "merge": lambda pd, df: df.merge(df, on="k"),
    "filter": lambda pd, df: df[df["i"] > 0],
    "sorted": lambda pd, df: df.sort_values("i"),
    "melt": lambda pd, df: df.melt(id_vars="k"),
    "distinct": lambda pd, df: df.drop_duplicates(),
    "set_index": lambda pd, df: df.set_index("k"),
    "quantiles": lambda pd, df: df[["i"]].quantile([0.5]),
    "assign": lambda pd, df: df.assign(z=1),
}


@pytest.mark.parametrize("small_rows", [0, 100_000])
@pytest.mark.parametrize("look", [str, len, lambda made: made.to_numpy(), lambda made: made.shape])
@pytest.mark.parametrize("name", [*NAMED, "a file"])
def test_names_that_are_set_in_place_stay_where_they_are_set(
    name: str, look: Callable[[Any], Any], small_rows: int, tmp_path: Path
) -> None:
    data = pandas.DataFrame({"k": list("aab"), "i": [1, 2, 3]})
    data.to_parquet(tmp_path / "a.parquet")
    (data * 2).to_parquet(tmp_path / "b.parquet")
    told = []
    for pd in (pandas, craton.pandas):
        with craton.option_context(small_rows=small_rows):
            if name == "a file":
                made, other = pd.read_parquet(tmp_path / "a.parquet"), pd.read_parquet(tmp_path / "b.parquet")
            else:
                made = NAMED[name](pd, pd.DataFrame({"k": list("aab"), "i": [1, 2, 3]}))
                other = NAMED[name](pd, pd.DataFrame({"k": list("abc"), "i": [4, 5, 6]}))
            look(made)
            made.index.name = "rows"
            if made.ndim == 2:
                made.columns.name = "columns"
            look(other)
            third = NAMED[name](pd, pd.DataFrame({"k": list("xyz"), "i": [7, 8, 9]})) if name in NAMED else other
            told.append(
                [(one.index.name, getattr(one, "columns", one.index).name, repr(one)) for one in (made, other, third)]
            )
    assert told[1] == told[0]


RELABELLED: dict[str, Callable[[Any], Any]] = {
    "set_index": lambda df: df.set_index("k"),
    "set_index of several": lambda df: df.set_index(["k", "k"]),
    "set_index of a result": lambda df: df.assign(z=1).set_index("k"),
    "set_axis of rows": lambda df: df.set_axis([0, 0, 0]),
    "set_axis of columns": lambda df: df.set_axis(["x", "x", "x"], axis=1),
    "set_axis of a column": lambda df: df["i"].set_axis([1, 1, 1]),
    "droplevel": lambda df: df.set_index(["k", "i"]).droplevel(1),
    "droplevel of a column": lambda df: df.set_index(["k", "i"])["f"].droplevel(1),
    "reset_index of a level": lambda df: df.set_index(["k", "i"]).reset_index(level=1),
    "reset_index without the level": lambda df: df.set_index(["k", "i"]).reset_index(level=1, drop=True),
    "rename": lambda df: df.rename(columns={"i": "f"}),
    "loc of one twice": lambda df: df.loc[[0, 0]],
    "concat": lambda df: df.iloc[[1, 1]],
}


@pytest.mark.parametrize("program", RELABELLED)
def test_labels_that_may_not_repeat(program: str) -> None:
    """Craton checks the labels for duplicates in the same calls as pandas."""
    told: list[Any] = []
    for pd in (pandas, craton.pandas):
        with craton.option_context(small_rows=0):
            df = pd.DataFrame({"k": list("aba"), "i": [1, 2, 3], "f": [1.5, 2.0, 3.0]})
            try:
                made = RELABELLED[program](df.set_flags(allows_duplicate_labels=False))
                told.append((repr(made), made.flags.allows_duplicate_labels))
            except pandas.errors.DuplicateLabelError as error:
                told.append(type(error))
    assert told[1] == told[0]


TWO_OPERANDS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: (lambda a, b, name=name: getattr(operator, name)(a, b))
        for name in ("add", "sub", "lt", "eq", "and_", "pow")
    },
    **{f".{name}": (lambda a, b, name=name: getattr(a, name)(b)) for name in ("add", "eq", "rsub", "mul")},
    "filled": lambda a, b: a.add(b, fill_value=1),
    "along rows": lambda a, b: a.add(b, axis=0),
    "where": lambda a, b: a.where(b > 1),
    "a ufunc": lambda a, b: np.maximum(a, b),
    "in place": operator.iadd,
    "combine_first": lambda a, b: a.combine_first(b),
}


@pytest.mark.parametrize("small", [0, 1_000])
@pytest.mark.parametrize("attrs", ["none", "left", "right", "both", "flag of the left", "flag of the right"])
@pytest.mark.parametrize("kinds", ["SS", "FF", "FS", "S1", "F1"])
@pytest.mark.filterwarnings("ignore")
def test_attrs_and_flags_of_two_operands(kinds: str, attrs: str, small: int) -> None:
    def operand(pd: Any, kind: str, side: str) -> Any:
        if kind == "1":
            return 2
        made = pd.Series([1, 2, 3], name="n") if kind == "S" else pd.DataFrame({"n": [1, 2, 3], "m": [4, 5, 6]})
        if attrs in (side, "both"):
            made.attrs[side] = 1
        return made.set_flags(allows_duplicate_labels=False) if attrs == f"flag of the {side}" else made

    def run(pd: Any, name: str) -> Any:
        left, right = operand(pd, kinds[0], "left"), operand(pd, kinds[1], "right")
        if name == "and_":
            left, right = left > 1, right > 1 if kinds[1] != "1" else True
        try:
            result = TWO_OPERANDS[name](left, right)
        except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
            return type(error)
        return result.attrs, result.flags.allows_duplicate_labels, getattr(result, "name", None)

    with craton.option_context(small_rows=small):
        for name in TWO_OPERANDS:
            assert run(craton.pandas, name) == run(pandas, name), name
