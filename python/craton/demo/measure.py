"""Runs the queries under two contestants in turn, and records the times, the rows, and whether the results are equal.

A time includes everything that a user waits for: reading the files, computing, and converting the result to plain pandas
data. The contestants take turns within each query, and the one that begins changes from run to run, so that changes in the
load of the machine affect both. Remembered results are dropped between runs.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from craton.demo.compare import difference, materialise
from craton.demo.queries import QUERIES

Announce = Callable[[str, str, int], None]
"""Called as `announce(query, contestant, run)` just before a run, counted from 1."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """An engine under test.

    Attributes
    ----------
    name
        Its name in the report.
    module
        Its pandas-like module.
    forget
        Drops the results that it remembers of earlier runs.
    fallbacks
        Returns the number of calls so far that ran in pandas instead of in the engine.
    """

    name: str
    module: Any
    forget: Callable[[], object] | None = None
    fallbacks: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The measurements and the comparison of one query.

    Attributes
    ----------
    query, title
        Such as `q06`, and its name in the specification.
    baseline_seconds, seconds
        The time of each run of pandas and of Craton; empty if the first run failed.
    rows
        Rows of pandas' result.
    problem
        The difference between the results, or the exception; None if all runs were equal.
    fallbacks
        Calls of Craton's last run that ran in pandas instead of in the engine; None if they are not counted.
    """

    query: str
    title: str
    baseline_seconds: tuple[float, ...]
    seconds: tuple[float, ...]
    rows: int
    problem: str | None
    fallbacks: int | None = None

    @property
    def baseline(self) -> float:
        """Median seconds of pandas; NaN when it failed."""
        return statistics.median(self.baseline_seconds) if self.baseline_seconds else math.nan

    @property
    def craton(self) -> float:
        """Median seconds of Craton; NaN when it failed."""
        return statistics.median(self.seconds) if self.seconds else math.nan

    @property
    def speed_up(self) -> float:
        """Pandas' median time divided by Craton's; NaN when either failed."""
        return self.baseline / self.craton

    @property
    def equal(self) -> bool:
        """Whether the result of every run equals pandas'."""
        return self.problem is None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the queries that both contestants finished, and the geometric mean of their speed-ups."""

    baseline: float
    craton: float
    geometric_mean: float
    equal: int
    queries: int

    @property
    def speed_up(self) -> float:
        """Ratio of the sums; NaN when no query was finished by both."""
        return self.baseline / self.craton if self.craton else math.nan


def totals(outcomes: Iterable[QueryResult]) -> Totals:
    """Add up the results; queries that a contestant did not finish count only as not equal."""
    outcomes = list(outcomes)
    finished = [outcome for outcome in outcomes if not math.isnan(outcome.speed_up)]
    return Totals(
        baseline=sum(outcome.baseline for outcome in finished),
        craton=sum(outcome.craton for outcome in finished),
        geometric_mean=statistics.geometric_mean(o.speed_up for o in finished) if finished else math.nan,
        equal=sum(outcome.equal for outcome in outcomes),
        queries=len(outcomes),
    )


def measure(
    names: Iterable[str],
    folder: Path,
    baseline: Contestant,
    contestant: Contestant,
    *,
    repeat: int = 1,
    announce: Announce | None = None,
) -> Iterator[QueryResult]:
    """Run the named queries, and yield the result of each.

    Parameters
    ----------
    names
        Keys of `QUERIES`.
    folder
        The folder of the tables' Parquet files.
    baseline, contestant
        The contestant whose results are taken as correct, and the one that is compared with it.
    repeat
        Runs of each query under each of the two.
    announce
        Called before each run.
    """
    for name in names:
        yield _measure_one(name, folder, baseline, contestant, repeat, announce or (lambda *_: None))


def warm_up(folder: Path, contestants: Iterable[Contestant]) -> None:
    """Read every file once and run a small query under each contestant, so that the first one has no disadvantage."""
    for path in sorted(folder.glob("*.parquet")):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass
    for contestant in contestants:
        nation = contestant.module.read_parquet(str(folder / "nation.parquet"))
        materialise(nation.groupby("n_regionkey", as_index=False)["n_nationkey"].sum())


def _measure_one(
    name: str, folder: Path, baseline: Contestant, contestant: Contestant, repeat: int, announce: Announce
) -> QueryResult:
    seconds: dict[str, list[float]] = {baseline.name: [], contestant.name: []}
    expected: pandas.DataFrame | None = None
    results: list[pandas.DataFrame] = []
    problem: str | None = None
    fallbacks: int | None = None
    for run in range(repeat):
        for who in (baseline, contestant) if run % 2 == 0 else (contestant, baseline):
            announce(name, who.name, run + 1)
            before = who.fallbacks() if who.fallbacks is not None else 0
            try:
                took, result = _run_timed(name, folder, who)
            except Exception as error:
                problem = f"{who.name} failed: {_describe_error(error)}"
                break
            if who.fallbacks is not None:
                fallbacks = who.fallbacks() - before
            seconds[who.name].append(took)
            if who is contestant:
                results.append(result)
            elif expected is None:
                expected = result
        if problem is not None:
            break
    if expected is not None and problem is None:
        problem = next((found for found in (difference(expected, result) for result in results) if found), None)
    query = QUERIES[name]
    return QueryResult(
        query=name,
        title=(query.__doc__ or name).strip().rstrip("."),
        baseline_seconds=tuple(seconds[baseline.name]),
        seconds=tuple(seconds[contestant.name]),
        rows=-1 if expected is None else len(expected),
        problem=problem,
        fallbacks=fallbacks,
    )


def _describe_error(error: Exception) -> str:
    """Describe an exception and where it was raised, on one line."""
    message = " ".join(str(error).split())
    if len(message) > 300:
        message = message[:297] + "..."
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {message} (raised at {Path(place.filename).name}:{place.lineno})"


def _run_timed(name: str, folder: Path, who: Contestant) -> tuple[float, pandas.DataFrame]:
    if who.forget is not None:
        who.forget()
    gc.collect()
    begun = time.perf_counter()
    result = materialise(QUERIES[name](who.module, str(folder)))
    return time.perf_counter() - begun, result
