"""Run the queries under two contestants, alternating, and keep what came out: seconds, rows, and whether it is equal.

A timing covers everything that a user waits for: reading the files, computing, and having the result as plain pandas
data. The contestants take turns within each query, and who begins changes from run to run, so that a change in
the machine's mood hits both. Nothing that one run computed may serve the next.
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
        As the report calls it.
    module
        Its pandas-like module.
    forget
        Makes it forget what earlier runs computed.
    fallbacks
        Gives the number of calls so far that ran in pandas instead of in the engine.
    """

    name: str
    module: Any
    forget: Callable[[], object] | None = None
    fallbacks: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the runs of one query gave.

    Attributes
    ----------
    query, title
        Such as `q06` and the specification's name for it.
    baseline_seconds, seconds
        One entry a run for pandas and for Craton; empty when the first run failed.
    rows
        Rows of pandas' result.
    problem
        How the results differ or what was raised; None when all runs were equal.
    fallbacks
        Calls of Craton's last run that ran in pandas instead of in the engine; None where nobody counts them.
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
        """How many times faster than pandas; NaN when either failed."""
        return self.baseline / self.craton

    @property
    def equal(self) -> bool:
        """Whether every run gave what pandas gave."""
        return self.problem is None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the queries that both contestants finished, and the mean that no single query dominates."""

    baseline: float
    craton: float
    geometric_mean: float
    equal: int
    queries: int

    @property
    def speed_up(self) -> float:
        """Ratio of the sums; NaN when no query was finished by both."""
        return self.baseline / self.craton if self.craton else math.nan


def totals(outcomes: Iterable[Outcome]) -> Totals:
    """Add up the outcomes; queries that a contestant did not finish count only as not equal."""
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
) -> Iterator[Outcome]:
    """Run the named queries and yield an outcome after each.

    Parameters
    ----------
    names
        Keys of `QUERIES`.
    folder
        The folder of the tables' Parquet files.
    baseline, contestant
        Whose results are right, and who has to match them.
    repeat
        Runs of each query under each of the two.
    announce
        Told before each run.
    """
    for name in names:
        yield _measure_one(name, folder, baseline, contestant, repeat, announce or (lambda *_: None))


def warm_up(folder: Path, contestants: Iterable[Contestant]) -> None:
    """Read every file once and let each contestant run something small, so that nobody pays for being first."""
    for path in sorted(folder.glob("*.parquet")):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass
    for contestant in contestants:
        nation = contestant.module.read_parquet(str(folder / "nation.parquet"))
        materialise(nation.groupby("n_regionkey", as_index=False)["n_nationkey"].sum())


def _measure_one(
    name: str, folder: Path, baseline: Contestant, contestant: Contestant, repeat: int, announce: Announce
) -> Outcome:
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
                took, result = _timed(name, folder, who)
            except Exception as error:
                problem = f"{who.name} failed: {_told(error)}"
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
    return Outcome(
        query=name,
        title=(query.__doc__ or name).strip().rstrip("."),
        baseline_seconds=tuple(seconds[baseline.name]),
        seconds=tuple(seconds[contestant.name]),
        rows=-1 if expected is None else len(expected),
        problem=problem,
        fallbacks=fallbacks,
    )


def _told(error: Exception) -> str:
    """Say on one line what was raised, and where."""
    said = " ".join(str(error).split())
    if len(said) > 300:
        said = said[:297] + "..."
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {said} (raised at {Path(place.filename).name}:{place.lineno})"


def _timed(name: str, folder: Path, who: Contestant) -> tuple[float, pandas.DataFrame]:
    if who.forget is not None:
        who.forget()
    gc.collect()
    begun = time.perf_counter()
    result = materialise(QUERIES[name](who.module, str(folder)))
    return time.perf_counter() - begun, result
