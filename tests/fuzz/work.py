"""The work of one process: builds programs, runs them, reduces those that differ, and reports to the main process."""

from __future__ import annotations

import faulthandler
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas

import craton.pandas
from craton import fallbacks
from tests.fuzz import execution, metamorphic, oracle
from tests.fuzz import operations as _operations  # noqa: F401  registers the operations
from tests.fuzz.building import build
from tests.fuzz.execution import Difference, RunResult
from tests.fuzz.modes import CHANGED, MODES, SAME_BITS
from tests.fuzz.programs import Program, Step
from tests.fuzz.reach import Pairs
from tests.fuzz.shrink import shrink, signature

#: How many differences with the same operation and kind one process reduces.
MAX_SHRUNK = 4
#: The number of programs after which the memory that they used is dropped.
TIDY_AFTER = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """A program whose results differ.

    Parameters
    ----------
    seed
        The seed of the program as it was generated.
    mode
        The mode in which it ran.
    program
        The reduced program.
    difference
        The first difference in the reduced program.
    signature
        Equal for findings that probably have the same cause.
    """

    seed: str
    mode: str
    program: Program
    difference: Difference
    signature: str


@dataclass(slots=True)
class Counts:
    """Counts and findings of a process since its last report.

    Attributes
    ----------
    programs, steps
        The number of programs and steps that ran.
    emitted
        The number of generated calls, and of their parameters.
    native
        The number of calls that did not fall back to pandas.
    pairs
        The number of plans with each pair of an operator and its input.
    findings, repeated, unrepeatable
        The reduced differences; the number of similar ones that were not reduced; descriptions of those that did not recur in a
        second run.
    """

    programs: int = 0
    steps: int = 0
    emitted: Counter[tuple[str, str]] = field(default_factory=Counter)
    native: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    repeated: Counter[tuple[str, str]] = field(default_factory=Counter)
    unrepeatable: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Add other counts to these."""
        self.programs += other.programs
        self.steps += other.steps
        self.emitted += other.emitted
        self.native += other.native
        self.pairs += other.pairs
        self.findings += other.findings
        self.repeated += other.repeated
        self.unrepeatable += other.unrepeatable


class Worker:
    """Runs programs, one after another.

    Parameters
    ----------
    seed
        The seed of the whole run.
    modes
        The names of the modes, which programs use in turn.
    shrinking
        Seconds for the reduction of one difference.
    without
        A regular expression; matching statements are not generated.
    """

    def __init__(self, seed: str, modes: list[str], shrinking: float = 15.0, without: str = "") -> None:
        self.seed = seed
        self.without = without
        self.modes = modes
        self.shrinking = shrinking
        self.counts = Counts()
        self._seen: Counter[tuple[str, str]] = Counter()
        self._fell_back = 0

    def program(self, number: int) -> tuple[Program, RunResult]:
        """A program of the run, and its results under pandas."""
        label = f"{self.seed}/{number}"
        with execution.quiet(), execution.scratch() as folder:
            program, builder = build(label, execution.namespace(pandas, folder), self.without)
        self.counts.emitted += builder.emitted
        return program, RunResult(builder.env, builder.errors, {})

    def run(self, number: int) -> Finding | None:
        """Run a program in its mode; return its reduced difference, if it has one."""
        mode = self.modes[number % len(self.modes)]
        program, expected = self.program(number)
        with Pairs(self.counts.pairs):
            found = self._differences(program, expected, mode)
        self.counts.programs += 1
        self.counts.steps += len(program.steps)
        if self.counts.programs % TIDY_AFTER == 0:
            oracle.tidy()
        if not found:
            return None
        again = self._check(program, mode, fresh=True) or self._check(program, mode)
        if not again:
            with execution.quiet(), execution.scratch() as folder:
                clean = execution.run(program, pandas, folder)
                execution.evaluate_variables(program, clean, program.variables())
            if not oracle.compare(program, clean, expected):
                self.counts.unrepeatable.append(f"{program.label} {mode}: {found[0].where}: {found[0].what[:200]}")
            return None
        finding = self._shrink_difference(program, again[0], mode)
        if finding is not None:
            self.counts.findings.append(finding)
        return finding

    def _check(self, program: Program, mode: str, fresh: bool = False) -> list[Difference]:
        if mode in SAME_BITS:
            return metamorphic.check_bits(program, MODES[mode], MODES["single-node"])
        if mode in CHANGED:
            return metamorphic.check(program, mode, MODES[mode])
        return oracle.check(program, MODES[mode], fresh)

    def _differences(self, program: Program, expected: RunResult, mode: str) -> list[Difference]:
        if mode in CHANGED or mode in SAME_BITS:
            return self._check(program, mode)
        fallbacks.reset()
        self._fell_back = 0

        def observe(step: Step, ran: bool) -> None:
            count = sum(fallbacks._counts.values())
            if ran and count == self._fell_back:
                self.counts.native[step.operation] += 1
            self._fell_back = count

        return oracle.check_against(program, expected, MODES[mode], observe=observe)

    def _shrink_difference(self, program: Program, difference: Difference, mode: str) -> Finding | None:
        known = (difference.where, difference.kind)
        self._seen[known] += 1
        if self._seen[known] > MAX_SHRUNK:
            self.counts.repeated[known] += 1
            return None

        def fails(candidate: Program) -> bool:
            try:
                found = self._check(candidate, mode, fresh=True)
            except RecursionError:  # the reduced program puts a Series into itself
                return False
            return bool(found) and (found[0].where, found[0].kind, found[0].raised) == (*known, difference.raised)

        small = shrink(program, fails, seconds=self.shrinking) if self.shrinking else program
        found = self._check(small, mode, fresh=True)
        return Finding(program.label, mode, small, found[0] if found else difference, signature(small, difference.kind))

    def take_counts(self) -> Counts:
        """Return the counts since the last call, and reset them."""
        counts, self.counts = self.counts, Counts()
        return counts


def work(
    connection: Any, seed: str, modes: list[str], without: str, first: int, step: int, until: float, most: int
) -> None:
    """The main function of a worker process. It sends the number of each program before it runs, and its counts periodically.

    Parameters
    ----------
    connection
        The process's end of a pipe.
    seed, modes, without
        As in :class:`Worker`.
    first, step, most
        The numbers of the programs: ``range(first, most, step)``.
    until
        The ``time.time()`` at which to stop.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # prints the stack of a process that does not answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one stops it
    worker = Worker(seed, modes, without=without)
    counts = time.time()
    try:
        for number in _numbers(first, step, most, until):
            connection.send(number)
            worker.run(number)
            if worker.counts.findings or time.time() - counts > 2:
                connection.send(worker.take_counts())
                counts = time.time()
        connection.send(worker.take_counts())
        connection.send(None)
    except BaseException:
        connection.send(traceback.format_exc())
        raise


def _numbers(first: int, step: int, most: int, until: float) -> Iterator[int]:
    number = first
    while number < most and time.time() < until:
        yield number
        number += step


__all__ = ["Counts", "Finding", "Worker", "craton", "work"]
