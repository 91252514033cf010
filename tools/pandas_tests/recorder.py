"""pytest plugin that records the result of each test immediately in a file, which survives a crash of the process.

`run.py` loads it into every pytest process, in every mode. It writes one JSON object per line: for the collected
tests, and for the start and the end of each test. If the process dies, the test that started and did not end
is the one that killed it.

If Craton is installed, the plugin also counts the native calls and fallbacks of each test, from Craton's
events. Each test has a time limit: an alarm that fails the test, and a watchdog that
kills the process if the test is blocked in native code, where no alarm is delivered.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

RECORD = os.environ["PANDAS_TESTS_RECORD"]
DONE = os.environ.get("PANDAS_TESTS_DONE")
SAMPLE = int(os.environ.get("PANDAS_TESTS_SAMPLE", "0"))
TIMEOUT = float(os.environ.get("PANDAS_TESTS_TIMEOUT", "60"))


class TestTimeout(BaseException):
    """Raised in a test that runs too long. It is not an Exception, so that no test catches it as an expected one."""


class Recorder:
    """The hooks, and the state of the test that is running."""

    def __init__(self) -> None:
        self.stream = os.open(RECORD, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.native = self.fallback = 0
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.outcome = "passed"
        self.message = ""
        self.started = 0.0
        if "craton" in sys.modules:
            from craton import events

            events.subscribe(self.on_event)

    def write(self, **fields: Any) -> None:
        # One unbuffered system call per line, so that all lines are in the file if the process is killed.
        os.write(self.stream, (json.dumps(fields, separators=(",", ":")) + "\n").encode())

    def on_event(self, kind: str, fields: dict[str, Any]) -> None:
        if kind != "call":
            return
        if fields["native"]:
            self.native += 1
        else:
            self.fallback += 1
            self.reasons[fields["name"], str(fields.get("reason"))] += 1

    # Collection -----------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests that an earlier process, which died, has already recorded, and those outside of a sample."""
        if SAMPLE:
            items[:] = sample(items, SAMPLE)
        if DONE is None:
            return
        with open(DONE, encoding="utf-8") as file:
            done = {json.loads(line) for line in file}
        left_out = [item for item in items if item.nodeid in done]
        if left_out:
            items[:] = [item for item in items if item.nodeid not in done]
            config.hook.pytest_deselected(items=left_out)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.write(collected=Counter(item.nodeid.partition("::")[0] for item in session.items))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write(collect_error=report.nodeid, message=str(report.longrepr)[-500:])

    # Running --------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.native = self.fallback = 0
        self.reasons.clear()
        self.outcome, self.message = "passed", ""
        self.write(start=item.nodeid)
        self.started = time.perf_counter()
        signal.signal(signal.SIGALRM, self.on_alarm)
        signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
        faulthandler.dump_traceback_later(2 * TIMEOUT, exit=True)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
            self.write(
                test=item.nodeid,
                outcome=self.outcome,
                seconds=round(time.perf_counter() - self.started, 4),
                native=self.native,
                fallback=self.fallback,
                reasons=[[name, reason, number] for (name, reason), number in self.reasons.items()],
                message=self.message,
            )

    def on_alarm(self, number: int, frame: Any) -> None:
        raise TestTimeout(f"the test ran longer than {TIMEOUT:.0f} s")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            outcome = "failed" if report.when == "call" else "error"
        elif report.skipped:
            outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        else:
            outcome = "xpassed" if hasattr(report, "wasxfail") and report.when == "call" else "passed"
        if outcome != "passed" and self.outcome not in ("failed", "error"):
            self.outcome = outcome
            if report.failed:
                self.message = _message(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.write(end=True)


def sample(items: list[pytest.Item], number: int) -> list[pytest.Item]:
    """At most `number` tests of each test function, evenly spaced."""
    members: dict[str, list[pytest.Item]] = {}
    for item in items:
        members.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = {
        all_of[i * len(all_of) // min(number, len(all_of))].nodeid
        for all_of in members.values()
        for i in range(min(number, len(all_of)))
    }
    return [item for item in items if item.nodeid in chosen]


def _message(report: pytest.TestReport) -> str:
    """The exception and the place that raised it, short enough to group failures by."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr)[:400]
    return f"{crash.message[:400]} [{os.path.basename(crash.path)}:{crash.lineno}]"


def pytest_configure(config: pytest.Config) -> None:
    """Start to record."""
    config.pluginmanager.register(Recorder(), "pandas-tests-recorder")
