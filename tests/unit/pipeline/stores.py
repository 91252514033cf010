"""A store for each test, and runs of pipelines on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from craton.pipeline import Pipeline, StepError
from craton.pipeline.runs.in_process import InProcess
from craton.pipeline.tasks import Outcome, StepTask
from craton.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that spills into the test's folder."""
    with Store.open(1 << 28, directory=tmp_path) as opened:
        yield opened


NUMBERS = pa.table({"n": [1, 2, 3, 4], "g": ["a", "b", "a", None]})


def run(parts: Any, store: Store, sources: Any = None, **options: Any) -> Any:
    """Run functions in this process."""
    return Pipeline(parts, sources=sources or {"numbers": NUMBERS}).run(store=store, in_process=True, **options)


def states(result: Any) -> dict[str, str]:
    return {one.name: one.state for one in result.records.values() if one.kind != "source"}


class Counting(InProcess):
    """Counts calls, and fails the first ones of some steps."""

    def __init__(self, store: Store, failures: dict[str, int] | None = None) -> None:
        super().__init__(store)
        self.calls: list[str] = []
        self.failures = dict(failures or {})
        self.lock = threading.Lock()

    def run(self, task: StepTask) -> Outcome:
        with self.lock:
            self.calls.append(task.step)
            if self.failures.get(task.step, 0) > 0:
                self.failures[task.step] -= 1
                raise StepError(task.step, "ended", "its process was killed")
        return super().run(task)


UNPICKLED: dict[str, Any] = {}
