"""Measures contestants in alternation, and computes medians and ratios.

Within a case, contestants take turns (A B C A B C ...), so that other load on the machine affects all of them alike.
Seconds are reported, but only ratios to a baseline within one run are meaningful.
"""

from __future__ import annotations

import datetime
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.harness import answers, conditions, machine
from bench.harness.process import Worker, WorkerError

__all__ = ["Benchmark", "Case", "Entry", "measure", "summarise"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Entry:
    """A contestant and how to start it.

    Attributes
    ----------
    name : str
        Its name in tables.
    interpreter : callable
        Returns the Python interpreter of its environment. It may create the environment first, and may raise.
    options : mapping
        Passed to the benchmark module's ``open_contestant``; plain JSON values.
    environment : mapping
        Environment variables that only this contestant has; the report names them.
    """

    name: str
    interpreter: Callable[[], Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One task that every contestant performs; for ``order_by`` see `bench.harness.answers.difference`."""

    name: str
    order_by: tuple[int, ...] | Literal["every"] | None = None


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its cases, its contestants, and how they are measured.

    Attributes
    ----------
    name, title : str
        The name in the JSON report and in tables, and the title for readers.
    module : str
        The module with ``open_contestant``; see `bench.harness.worker`.
    cases, entries : sequence
        The cases and the contestants. Every contestant runs every case.
    baseline : str
        The contestant to whose times ratios are computed. If it is not among the entries, the first contestant with a
        right answer is used.
    reference : str
        The contestant whose answers count as right; by default the baseline.
    repeat, warm_up : int
        Timed and untimed runs of every contestant in every case.
    timeout : float
        Seconds for one run.
    memory_limit : int or None
        Bytes for all processes of one contestant.
    tolerance : float
        Relative difference up to which floats in answers count as equal.
    allocator : str
        See `bench.harness.conditions.ALLOCATORS`; the same for all contestants.
    lifetime : str
        ``"benchmark"`` keeps a contestant's process for all cases; ``"case"`` gives every case a new one, and ``"run"`` every run.
    settings : mapping
        Further parameters that the report records: scale, rows, source.
    """

    name: str
    title: str
    module: str
    cases: Sequence[Case]
    entries: Sequence[Entry]
    baseline: str
    reference: str | None = None
    repeat: int = 5
    warm_up: int = 1
    timeout: float = 600
    memory_limit: int | None = None
    tolerance: float = 1e-6
    allocator: str = "kept"
    lifetime: Literal["benchmark", "case", "run"] = "benchmark"
    settings: Mapping[str, Any] = field(default_factory=dict)


Report = dict[str, Any]
Progress = Callable[[str], None]


def measure(
    benchmark: Benchmark,
    *,
    progress: Progress = lambda line: None,
    save: Callable[[Report], None] = lambda report: None,
    root: Path = ROOT,
) -> Report:
    """Run a benchmark.

    Parameters
    ----------
    benchmark : Benchmark
        The benchmark to run.
    progress : callable
        Called with a line of text after every step.
    save : callable
        Called with the report after every case, so that an interrupted run keeps its results so far.
    root : path
        The folder from which workers import the benchmark's module.

    Returns
    -------
    dict
        The report: plain JSON values; ``bench/README.md`` explains its keys.
    """
    if benchmark.repeat < 1:
        raise ValueError(f"repeat is {benchmark.repeat}; a median needs at least 1 timed run")
    report: Report = {
        "benchmark": benchmark.name,
        "title": benchmark.title,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "conditions": conditions.describe(allocator=benchmark.allocator, warm_up=benchmark.warm_up),
        "settings": {
            "repeat": benchmark.repeat,
            "warm_up": benchmark.warm_up,
            "timeout_seconds": benchmark.timeout,
            "memory_limit_bytes": benchmark.memory_limit,
            "lifetime": benchmark.lifetime,
            **benchmark.settings,
        },
        "baseline": benchmark.baseline,
        "contestants": {},
        "cases": {},
        "summary": {},
    }
    stable = _Stable(benchmark, report, progress, root)
    try:
        for case in benchmark.cases:
            report["cases"][case.name] = _run_case(benchmark, case, stable, progress)
            report["baseline"] = summarise(report)
            save(report)
            if benchmark.lifetime != "benchmark":
                stable.close()
    finally:
        stable.close()
    return report


class _Stable:
    """The workers of a run. Each is started when it is first needed, and restarted if its process has ended."""

    def __init__(self, benchmark: Benchmark, report: Report, progress: Progress, root: Path) -> None:
        self._benchmark = benchmark
        self._contestants: dict[str, dict[str, Any]] = report["contestants"]
        self._progress = progress
        self._root = root
        self._interpreters: dict[str, Path] = {}
        self._workers: dict[str, Worker] = {}
        self._refused: dict[str, WorkerError] = {}

    def get(self, entry: Entry) -> Worker:
        """Return the running worker of a contestant, and start it if needed. If it could not be opened before, raise the same error."""
        if entry.name in self._refused:
            raise self._refused[entry.name]
        worker = self._workers.get(entry.name)
        if worker is not None and worker.alive:
            return worker
        if worker is not None:
            worker.stop()
        try:
            worker = self._open(entry)
        except WorkerError as error:
            self._refused[entry.name] = error
            self._contestants[entry.name] = {
                "status": error.status,
                "message": _tidy(error),
            }
            self._progress(f"{entry.name}: {_tidy(error)}")
            raise
        self._workers[entry.name] = worker
        self._contestants[entry.name] = {
            "status": "ok",
            "versions": worker.versions,
            "seconds_to_open": worker.seconds_to_open,
            "environment": worker.environment,
            "threads": worker.threads,
        }
        return worker

    def _open(self, entry: Entry) -> Worker:
        if entry.name not in self._interpreters:
            try:
                self._interpreters[entry.name] = entry.interpreter()
            except Exception as error:
                raise WorkerError("failed", f"its environment could not be created: {error}") from error
        return Worker(
            entry.name,
            self._benchmark.module,
            entry.options,
            python=self._interpreters[entry.name],
            root=self._root,
            allocator=self._benchmark.allocator,
            environment=entry.environment,
            timeout=self._benchmark.timeout,
            memory_limit=self._benchmark.memory_limit,
        )

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            worker.stop()
        self._workers.clear()


def _run_case(benchmark: Benchmark, case: Case, stable: _Stable, progress: Progress) -> dict[str, Any]:
    results: dict[str, dict[str, Any]] = {
        entry.name: {"status": "ok", "seconds": [], "peak_memory": 0} for entry in benchmark.entries
    }
    given: dict[str, list[Any]] = {entry.name: [] for entry in benchmark.entries}
    parts: dict[str, dict[str, list[float]]] = {entry.name: {} for entry in benchmark.entries}
    turns = benchmark.warm_up + benchmark.repeat
    for turn in range(turns):
        for entry in benchmark.entries:
            result = results[entry.name]
            if result["status"] != "ok":
                continue
            try:
                worker = stable.get(entry)
                worker.resume()
                try:
                    reply = worker.run(case.name, answer=turn in (0, turns - 1))
                finally:
                    worker.pause()
                if benchmark.lifetime == "run":
                    stable.close()
            except WorkerError as error:
                result.update(status=error.status, message=_tidy(error))
                continue
            result["peak_memory"] = max(result["peak_memory"], reply["peak_memory"])
            result.setdefault("first", reply["seconds"])
            if turn >= benchmark.warm_up:
                result["seconds"].append(reply["seconds"])
                for part, seconds in reply.get("parts", {}).items():
                    parts[entry.name].setdefault(part, []).append(seconds)
            if "answer" in reply:
                given[entry.name].append(reply["answer"])
    _check_answers(benchmark, case, results, given)
    for result in results.values():
        if result["seconds"]:
            result.update(
                median=statistics.median(result["seconds"]),
                min=min(result["seconds"]),
                max=max(result["seconds"]),
            )
    for name, measured in parts.items():
        if measured:
            results[name]["parts"] = {part: statistics.median(seconds) for part, seconds in measured.items()}
    progress(f"{case.name}: " + ", ".join(f"{name} {_said(result)}" for name, result in results.items()))
    return results


def _said(result: dict[str, Any]) -> str:
    return f"{result['median']:.3f} s" if result["status"] == "ok" else str(result["status"])


def _check_answers(
    benchmark: Benchmark,
    case: Case,
    results: dict[str, dict[str, Any]],
    given: Mapping[str, list[Any]],
) -> None:
    """Mark the contestants whose answer of the first or the last run differs from the reference's. None is not compared."""
    order = [benchmark.reference, benchmark.baseline, *results]
    known = [name for name in order if name in results and results[name]["status"] == "ok"]
    if not known:
        return
    reference = known[0]
    expected = given[reference][0]
    for name, result in results.items():
        if result["status"] != "ok":
            continue
        result["checked_against"] = reference
        for number, found in enumerate(given[name]):
            if found is None:
                continue
            said = answers.difference(expected, found, order_by=case.order_by, tolerance=benchmark.tolerance)
            if said is not None:
                run = ("first", "last")[number]
                result.update(
                    status="wrong",
                    message=_tidy(f"its {run} answer {said}, as in {reference}'s answer"),
                )
                break


def measured(seconds: Sequence[float]) -> dict[str, Any]:
    """Return what a report says of a contestant in a case: its turns, and their median, least and greatest."""
    found = {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}
    return {"status": "ok", "seconds": list(seconds), **found}


def report_of_turns(
    benchmark: str,
    title: str,
    settings: Mapping[str, Any],
    baseline: str,
    names: Sequence[str],
    cases: dict[str, dict[str, Any]],
) -> Report:
    """Return the report of contestants that have taken turns in processes of their own; `cases` consist of `measured`."""
    report: Report = {
        "benchmark": benchmark,
        "title": title,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "conditions": conditions.describe(warm_up=1, fresh_process=False),
        "settings": dict(settings),
        "baseline": baseline,
        "contestants": {name: {"status": "ok"} for name in names},
        "cases": cases,
        "summary": {},
    }
    report["baseline"] = summarise(report)
    return report


def summarise(report: Report) -> str:
    """Compute the ratios and the summary of a report from its medians, and add them to it.

    A ratio is a contestant's median divided by the baseline's in the same case; above 1 is slower. Totals are computed
    over the cases in which both were right; the summary has the number of these cases.

    Returns
    -------
    str
        The contestant that served as baseline: the named one or, if it did not take part, the first with a right answer.
    """
    names: list[str] = list(dict.fromkeys(name for results in report["cases"].values() for name in results))
    right: dict[str, dict[str, float]] = {
        name: {
            case: results[name]["median"]
            for case, results in report["cases"].items()
            if name in results and results[name]["status"] == "ok"
        }
        for name in names
    }
    baseline: str = report["baseline"]
    if baseline not in names:
        baseline = next((name for name in names if right[name]), baseline)
    base = right.get(baseline, {})
    for case, results in report["cases"].items():
        for name, result in results.items():
            result.pop("ratio", None)
            if case in base and case in right[name]:
                result["ratio"] = right[name][case] / base[case]
    report["summary"] = {}
    for name in names:
        both = [case for case in right[name] if case in base]
        summary: dict[str, Any] = {
            "right": len(right[name]),
            "cases": len(report["cases"]),
            "compared": len(both),
        }
        if both:
            ratios = {case: right[name][case] / base[case] for case in both}
            worst = max(ratios, key=ratios.__getitem__)
            summary.update(
                total=math.fsum(right[name][case] for case in both),
                baseline_total=math.fsum(base[case] for case in both),
                **_first_runs(report, name, both),
                geometric_mean_ratio=math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values())),
                worst_case=worst,
                worst_ratio=ratios[worst],
            )
            summary["total_ratio"] = summary["total"] / summary["baseline_total"]
        report["summary"][name] = summary
    return baseline


def _first_runs(report: Report, name: str, cases: Sequence[str]) -> dict[str, float]:
    """Return the total seconds of a contestant's first runs of some cases, before any warm-up, if all of them are recorded."""
    firsts = [report["cases"][case][name].get("first") for case in cases]
    return {} if None in firsts else {"first_total": math.fsum(firsts)}


def _tidy(message: object) -> str:
    """Return a message on one line, shortened, and without this machine's folders and memory addresses."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", " ".join(str(message).split()))
    for folder, word in ((ROOT, "."), (Path.home(), "~")):
        text = text.replace(str(folder), word)
    return text if len(text) <= 400 else text[:397] + "..."
