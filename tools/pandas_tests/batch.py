"""Runs a batch of test files in one pytest process, and obtains the outcome of every test even if the process dies.

Starting Python, pandas and pytest takes about two seconds, so files share a process. If the process
dies, exceeds the memory limit, or hangs, its record shows which test was running: that test counts
as crashed, and another process runs the remaining tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from results import ROOT, FileResult, TestResult, key_of, pandas_directory

__all__ = ["Limits", "run_batch"]

MARKERS = "not slow and not single_cpu and not db and not network and not clipboard"
MAX_CRASHES = 30


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a test: seconds, and bytes of memory of its process; and of tests of each test function, 0 for all."""

    seconds: float = 60.0
    memory: int = 3 << 30
    sample: int = 0


@dataclass(slots=True)
class _Record:
    """What the processes of a batch have recorded so far."""

    tests: dict[str, TestResult] = field(default_factory=dict)
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    running: str | None = None
    ended: bool = False

    def read(self, path: Path) -> None:
        """Read the lines that a process wrote."""
        self.running, self.ended = None, False
        with path.open(encoding="utf-8") as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:  # an incomplete line: the process died while writing it
                    continue
                if "start" in line:
                    self.running = line["start"]
                elif "test" in line:
                    self.running = None
                    reasons = line.pop("reasons")
                    name = line.pop("test")
                    self.tests[name] = TestResult(**line)
                    counter = self.reasons.setdefault(name.partition("::")[0], Counter())
                    for method, reason, number in reasons:
                        counter[f"{method}: {reason}"] += number
                elif "collect_error" in line:
                    self.tests[line["collect_error"]] = TestResult("error", message=line["message"])
                elif "end" in line:
                    self.ended = True


def run_batch(mode: str, files: list[str], limits: Limits) -> list[FileResult]:
    """Run `files` in `mode` and return the result of each.

    Parameters
    ----------
    mode
        "baseline", "default" or "planned".
    files
        Test files, relative to pandas' directory.
    limits
        The limits of one test.
    """
    record = _Record()
    with tempfile.TemporaryDirectory(prefix="pandas-tests-") as directory:
        for attempt in range(MAX_CRASHES):
            lines, done = Path(directory, f"{attempt}.jsonl"), Path(directory, "done")
            lines.touch()
            done.write_text("".join(json.dumps(name) + "\n" for name in record.tests))
            death = _run_pytest(mode, files, limits, lines, done, Path(directory))
            before = len(record.tests)
            record.read(lines)
            if record.ended:
                break
            if record.running is not None:
                record.tests[record.running] = TestResult("crashed", message=death)
            elif len(record.tests) == before:
                # The process died before any test started, so another attempt would fail, too.
                record.tests |= {f"{file}::(process)": TestResult("crashed", message=death) for file in files}
                break
    key = key_of(mode)
    results = {file: FileResult(file, key) for file in files}
    for name, test in record.tests.items():
        results[name.partition("::")[0]].tests[name] = test
    for file, counter in record.reasons.items():
        results[file].reasons = dict(counter)
    return list(results.values())


def _run_pytest(mode: str, files: list[str], limits: Limits, lines: Path, done: Path, directory: Path) -> str:
    """Run one process to its end, and return a description of how it ended."""
    base = pandas_directory()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    if mode != "baseline":
        command += ["-p", "craton.accelerate.pytest_plugin"]
    # pandas' own configuration, without its default options, which write a report into the working directory.
    command += ["-p", "recorder", "-c", str(base / "pyproject.toml"), "--rootdir", str(base), "-o", "addopts="]
    command += ["-q", "--no-header", "--tb=short", "--no-summary", "--no-strict-data-files", "-m", MARKERS]
    command += ["--continue-on-collection-errors", *(str(base / file) for file in files)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(ROOT / "python"), str(Path(__file__).parent))),
        "PYTHONHASHSEED": "0",
        "PANDAS_TESTS_RECORD": str(lines),
        "PANDAS_TESTS_DONE": str(done),
        "PANDAS_TESTS_TIMEOUT": str(limits.seconds),
        "PANDAS_TESTS_SAMPLE": str(limits.sample),
    }
    if mode == "planned":
        environment["CRATON_SMALL_ROWS"] = "0"
    else:
        environment.pop("CRATON_SMALL_ROWS", None)
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=directory)
        killed = _watch(process, limits)
    if killed:
        return killed
    tail = log.read_text(errors="replace")[-1500:]
    return f"the process ended with status {process.returncode}: {tail}"


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> str:
    """Wait for a process; if it uses too much memory, kill it and return the reason."""
    watched = psutil.Process(process.pid)
    while True:
        try:
            process.wait(timeout=1.0)
            return ""
        except subprocess.TimeoutExpired:
            pass
        try:
            used = watched.memory_info().rss
        except psutil.Error:
            time.sleep(0.1)
            continue
        if used > limits.memory:
            process.kill()
            process.wait()
            return f"killed: it used {used >> 20} MiB of memory, and {limits.memory >> 20} MiB are allowed"
