"""Small data: 1,000 mixed operations on a frame of 10 rows, Craton against pandas.

    python -m bench.small --detail

Each operation ends with a value that a program would use, so no computation is deferred. ``--detail``
also measures every operation alone, which shows where an overhead comes from.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Any

from bench.harness import command
from bench.harness.measure import Benchmark, Case
from bench.harness.worker import Contestant
from bench.pandas_likes import PANDAS_LIKES, PandasLike

__all__ = ["OPERATIONS", "main", "open_contestant"]

ROWS = 10
MIXED = 1_000
ALONE = 100


def _set_column(pd: Any, df: Any, other: Any) -> Any:
    changed = df.copy()
    changed["e"] = changed["a"] * 2
    return changed


def _set_where(pd: Any, df: Any, other: Any) -> Any:
    changed = df.copy()
    changed.loc[changed["a"] > 5, "b"] = 0.0
    return changed


OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "make": lambda pd, df, other: pd.DataFrame({"a": [1, 2, 3], "b": [1.5, None, 2.5], "c": ["x", "y", "z"]}),
    "column": lambda pd, df, other: df["a"],
    "columns": lambda pd, df, other: df[["a", "c"]],
    "add": lambda pd, df, other: df["a"] + df["b"],
    "compare": lambda pd, df, other: df["a"] > 3,
    "filter": lambda pd, df, other: df[(df["a"] > 3) & df["b"].notna()],
    "cell": lambda pd, df, other: df.loc[2, "b"],
    "slice": lambda pd, df, other: df.iloc[1:4],
    "head": lambda pd, df, other: df.head(3),
    "shape": lambda pd, df, other: (len(df), df.shape, list(df.columns)),
    "sum": lambda pd, df, other: df["b"].sum(),
    "mean": lambda pd, df, other: df[["a", "b"]].mean(),
    "isin": lambda pd, df, other: df["c"].isin(["x", "y"]),
    "fillna": lambda pd, df, other: df["b"].fillna(0.0),
    "upper": lambda pd, df, other: df["c"].str.upper(),
    "year": lambda pd, df, other: df["d"].dt.year,
    "assign": lambda pd, df, other: df.assign(e=df["a"] * 2),
    "set column": _set_column,
    "set where": _set_where,
    "rename": lambda pd, df, other: df.rename(columns={"a": "z"}),
    "drop": lambda pd, df, other: df.drop(columns=["b"]),
    "sort": lambda pd, df, other: df.sort_values("b"),
    "set index": lambda pd, df, other: df.set_index("a"),
    "unique": lambda pd, df, other: df["c"].unique(),
    "value counts": lambda pd, df, other: df["c"].value_counts(),
    "group": lambda pd, df, other: df.groupby("c")["a"].sum(),
    "aggregate": lambda pd, df, other: df.groupby("c", as_index=False).agg(n=("a", "count"), m=("b", "mean")),
    "merge": lambda pd, df, other: df.merge(other, on="c"),
    "concat": lambda pd, df, other: pd.concat([df, df], ignore_index=True),
    "apply": lambda pd, df, other: df["a"].apply(lambda value: value + 1),
    "to dict": lambda pd, df, other: df.to_dict("records"),
    "cumsum": lambda pd, df, other: df["a"].cumsum(),
}
"""Name to an operation on the frame ``df`` and a second frame, ``other``."""


class SmallOperations:
    """The operations under one module."""

    def __init__(self, engine: PandasLike) -> None:
        self._pd = pd = engine.pd
        self._frame = pd.DataFrame(
            {
                "a": list(range(ROWS)),
                "b": [0.5 * row if row % 4 else None for row in range(ROWS)],
                "c": ["xyz"[row % 3] for row in range(ROWS)],
                "d": pd.date_range("2024-01-31", periods=ROWS, freq="D"),
            }
        )
        self._other = pd.DataFrame({"c": ["x", "y", "w"], "f": [10, 20, 30]})
        self.versions, self.forget = engine.versions, engine.forget

    def run(self, case: str) -> Any:
        """Run the mixed operations, or one operation many times, and return the last result of each."""
        if case != "mixed":
            operation = OPERATIONS[case]
            return {case: [operation(self._pd, self._frame, self._other) for _ in range(ALONE)][-1]}
        results: dict[str, Any] = {}
        done = 0
        while done < MIXED:
            for name, operation in OPERATIONS.items():
                results[name] = operation(self._pd, self._frame, self._other)
                done += 1
                if done == MIXED:
                    break
        return results

    def answer(self, case: str, result: Any) -> Any:
        """Return the ``repr`` of each result."""
        return {name: repr(value) for name, value in result.items()}


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant: ``"craton"`` or ``"pandas"``; there are no options."""
    engine = PANDAS_LIKES[name]()
    importlib.import_module("numpy")
    return SmallOperations(engine)


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.small", description=__doc__.splitlines()[0])
    parser.add_argument("--detail", action="store_true", help=f"also measure every operation alone, {ALONE} times")
    command.add_options(parser, contestants=("craton", "pandas"), repeat=9)
    parser.set_defaults(baseline="pandas", warm_memory=0)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, ("craton", "pandas"), "contestant")
    cases = ["mixed", *(OPERATIONS if given.detail else ())]
    benchmark = Benchmark(
        name="small",
        title=f"Small data: {MIXED:,} mixed operations on a frame of {ROWS} rows"
        + (f", and each of them {ALONE} times" if given.detail else ""),
        module="bench.small",
        cases=[Case(case) for case in cases],
        entries=command.entries(names, {}),
        reference="pandas",
        settings={"rows": ROWS, "operations": MIXED},
        **command.limits(given),
    )
    report = command.execute(given, benchmark, "small-detail" if given.detail else "small")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
