"""Python functions of rows, groups and elements: Craton, which calls them in worker processes, against pandas.

    python -m bench functions --rows 2000000
    python -m bench functions --contestants craton,pandas,modin

The functions are typical of users' code: they read a few values and compute a number. Craton starts its worker processes
in the warm-up runs; with ``--warm-up 0``, the measured time includes their start.
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

__all__ = ["CASES", "main", "open_contestant"]

CONTESTANTS = ("craton", "pandas", "modin")
ROWS_A_GROUP = 100


def _of_row(row: Any) -> float:
    return row["a"] * 2 if row["b"] > 0.5 else row["c"] + 1.0


def _of_group(group: Any) -> float:
    return (group["a"] * group["b"]).sum() / group["c"].max()  # type: ignore[no-any-return]


def _of_cell(cell: float) -> str:
    return f"{cell:.3f}".rstrip("0")


CASES: dict[str, Callable[[Any], Any]] = {
    "apply": lambda df: df[["a", "b", "c"]].apply(_of_row, axis=1),
    "groupby.apply": lambda df: df.groupby("key")[["a", "b", "c"]].apply(_of_group),
    "map": lambda df: df["a"].map(_of_cell),
}
"""Name of a case to the function that applies it to the frame."""


class Functions:
    """The cases under one engine."""

    def __init__(self, engine: PandasLike, rows: int, rows_a_group: int) -> None:
        np = importlib.import_module("numpy")
        random = np.random.default_rng(7)
        self._engine = engine
        self._frame = engine.pd.DataFrame(
            {
                "a": random.random(rows),
                "b": random.random(rows),
                "c": random.integers(1, 100, rows),
                "key": random.integers(0, max(rows // rows_a_group, 1), rows),
            }
        )
        self.versions, self.forget = engine.versions, engine.forget

    def run(self, case: str) -> Any:
        """Run one case, and return its result in memory."""
        return self._engine.materialise(CASES[case](self._frame))

    def answer(self, case: str, result: Any) -> Any:
        """Return the number of rows of a result, and a sample of about 50 of them."""
        found = importlib.import_module("pandas").DataFrame(self._engine.to_pandas(result)).iloc[:, 0]
        return {"rows": len(found), "some": [repr(value) for value in found.iloc[:: max(len(found) // 50, 1)].tolist()]}


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant; ``options`` has ``rows``, the rows of the frame, and ``rows_a_group``, the average rows per group."""
    return Functions(PANDAS_LIKES[name](), options["rows"], options["rows_a_group"])


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.functions", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the frame (default: %(default)s)")
    parser.add_argument("--rows-a-group", type=int, default=ROWS_A_GROUP, help="on average (default: %(default)s)")
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated (default: %(default)s)")
    command.add_options(parser, contestants=("craton", "pandas"), repeat=3)
    parser.set_defaults(baseline="pandas", warm_memory=0)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    cases = command.chosen(parser, given.cases, tuple(CASES), "case")
    options = {"rows": given.rows, "rows_a_group": given.rows_a_group}
    benchmark = Benchmark(
        name="functions",
        title=f"Python functions over {given.rows:,} rows, {given.rows_a_group:,} rows per group",
        module="bench.functions",
        cases=[Case(case) for case in cases],
        entries=command.entries(names, options),
        reference="pandas",
        settings=options,
        **command.limits(given),
    )
    stem = "functions" if given.rows_a_group == ROWS_A_GROUP else f"functions-groups-of-{given.rows_a_group}"
    report = command.execute(given, benchmark, stem)
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
