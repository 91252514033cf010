"""Runs many programs in worker processes, and reports the differences. The package's docstring explains the command line."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from dataclasses import dataclass
from typing import Any, TextIO

from tests.fuzz.execution import Difference
from tests.fuzz.metamorphic import CHANGES
from tests.fuzz.programs import Program
from tests.fuzz.reach import table
from tests.fuzz.work import Counts, Finding, work

#: Seconds after which a program is stopped and reported as a finding.
TIMEOUT = 60.0
#: Seconds between two progress reports.
REPORT_EVERY = 300.0


@dataclass(slots=True)
class WorkerProcess:
    """A worker process, and the program that it runs.

    ``first`` is the number of its first program, ``number`` that of its present one, which it started at the time ``since``.
    """

    process: Any
    connection: Any
    first: int
    number: int = -1
    since: float = 0.0


@dataclass(slots=True)
class Run:
    """A run of many programs.

    Parameters
    ----------
    seed
        The seed of the whole run.
    modes
        The names of the modes, which programs use in turn.
    programs
        The largest number of programs.
    seconds
        The longest duration.
    jobs
        The number of processes.
    out
        The stream to which findings are printed immediately.
    without
        A regular expression; matching statements are not generated.
    """

    seed: str
    modes: list[str]
    programs: int
    seconds: float
    jobs: int
    out: TextIO
    without: str = ""

    def run(self) -> Counts:
        """Run the programs, and return the counts and findings."""
        until = time.time() + self.seconds
        context = multiprocessing.get_context("spawn")
        counts = Counts()
        shown: set[str] = set()
        active = [self._start(context, first, until) for first in range(self.jobs)]
        try:
            self._collect(active, context, until, counts, shown)
        except KeyboardInterrupt:
            print("interrupted", file=self.out, flush=True)
        finally:
            for one in active:
                one.process.kill()
        return counts

    def _collect(
        self, active: list[WorkerProcess], context: Any, until: float, counts: Counts, shown: set[str]
    ) -> None:
        """Receive the messages of the processes until all have ended; replace processes that fail."""
        reported = time.time()
        while active:
            if time.time() - reported > REPORT_EVERY:
                reported = time.time()
                print(f"# {counts.programs} programs, {len(counts.findings)} findings", file=self.out, flush=True)
            ready = multiprocessing.connection.wait([one.connection for one in active], timeout=1.0)
            for one in list(active):
                ended: bool | None = None
                if one.connection in ready:
                    ended = self._receive(one, counts, shown)
                elif one.number >= 0 and time.time() - one.since > TIMEOUT:
                    self._add_broken(one, counts, f"no answer for {TIMEOUT:.0f} s")
                    os.kill(one.process.pid, signal.SIGUSR1)
                    time.sleep(1)
                    one.process.kill()
                    ended = False
                elif not one.process.is_alive() and not one.connection.poll():
                    ended = False
                    self._add_broken(one, counts, f"the process died with {one.process.exitcode}")
                if ended is None:
                    continue
                one.process.join()
                active.remove(one)
                if not ended and time.time() < until and one.number >= 0:
                    active.append(self._start(context, one.number + self.jobs, until))

    def _start(self, context: Any, first: int, until: float) -> WorkerProcess:
        ours, theirs = context.Pipe(duplex=False)
        arguments = (theirs, self.seed, self.modes, self.without, first, self.jobs, until, self.programs)
        process = context.Process(target=work, args=arguments, daemon=False)
        process.start()
        theirs.close()
        return WorkerProcess(process, ours, first, since=time.time())

    def _receive(self, one: WorkerProcess, counts: Counts, shown: set[str]) -> bool | None:
        """Receive a message; return True if the process has finished, False if it failed, None if it continues."""
        try:
            message = one.connection.recv()
        except EOFError:
            one.process.join(10)
            self._add_broken(one, counts, f"the process died with {one.process.exitcode}")
            return False
        if message is None:
            return True
        if isinstance(message, int):
            one.number, one.since = message, time.time()
        elif isinstance(message, Counts):
            for finding in message.findings:
                if finding.signature not in shown:
                    shown.add(finding.signature)
                    print(finding_text(finding), file=self.out, flush=True)
            counts.add(message)
            one.since = time.time()
        else:
            print(message, file=self.out, flush=True)
            self._add_broken(one, counts, "an error of the fuzzer itself")
            return False
        return None

    def _add_broken(self, one: WorkerProcess, counts: Counts, what: str) -> None:
        label = f"{self.seed}/{one.number}"
        mode = self.modes[one.number % len(self.modes)]
        difference = Difference("broken", "program", what, -1)
        finding = Finding(label, mode, Program((), (), label=label), difference, f"broken: {what}")
        print(finding_text(finding), file=self.out, flush=True)
        counts.findings.append(finding)
        counts.programs += 1


def finding_text(finding: Finding) -> str:
    """A finding as text: the difference, and a program that shows it."""
    setup = SETUPS.get(finding.mode, "craton.options.small_rows = 0")
    program = finding.program
    if finding.mode in CHANGES and program.steps:
        program = CHANGES[finding.mode][0](program)
    target = finding.difference.variable
    bound = f"\n{target} = " in f"\n{program.text()}"
    last = target if target.isidentifier() and bound else ""
    return "\n".join(
        [
            f"# ---- {finding.signature}",
            f"# {finding.difference.kind} in {finding.difference.where}; seed {finding.seed}, mode {finding.mode}",
            *(f"# {line}" for line in finding.difference.what.splitlines()),
            program.text(setup, last),
            "",
        ]
    )


_TILES = """\
from craton.lower.tiled import Settings; from craton.engine.tiled import TiledEngine, set_engine
from craton.schedule.inline import InlineRunner; craton.options.small_rows = 0
set_engine(TiledEngine(InlineRunner(), settings=Settings(tiles={}, broadcast_bytes=1, collapse_bytes=0), least_bytes=0))"""
SETUPS = {
    "default": "",
    "no-memory": "craton.options.small_rows = craton.options.result_memory = 0",
    **{f"tiles{count}": _TILES.format(count) for count in (1, 2, 3, 17)},
    "spill": _TILES.format(3) + "; craton.options.memory_limit = 3 << 19",
}


def summary(counts: Counts, seconds: float, reach: bool) -> str:
    """The summary of a run, as text."""
    serious = {one.signature for one in counts.findings if not one.difference.only_message}
    only_message = {one.signature for one in counts.findings if one.difference.only_message}
    lines = []
    if reach:
        lines += [table(counts.emitted, counts.native, counts.pairs), ""]
    for where, kind in sorted(counts.repeated):
        lines.append(f"seen {counts.repeated[where, kind]} times more: {kind} in {where}")
    lines += [f"could not be repeated alone: {one}" for one in counts.unrepeatable]
    count = sum(counts.repeated.values()) + len(counts.findings)
    lines.append(
        f"{counts.programs} programs, {counts.steps} steps, {seconds:.0f} s, {counts.programs / max(seconds, 1e-9):.1f} a second: "
        f"{count} differ, {len(serious)} distinct differences, {len(only_message)} in an error's text only"
    )
    return "\n".join(lines)
