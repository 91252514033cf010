"""The part of a profile that describes the workers of a session: their tasks, and samples of their memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from craton import forks
from craton.command import format_bytes
from craton.schedule.tasks import Output

if TYPE_CHECKING:
    from craton.schedule.telemetry import Sample


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A completed task; see :class:`craton.schedule.tasks.Output` for its numbers."""

    stage: str
    worker: int
    started: float
    seconds: float
    rows: int
    nbytes: int
    memory: int
    read: int
    foreign: int

    @classmethod
    def of(cls, stage: str, output: Output) -> TaskRecord:
        """Create a record from a task's output."""
        return cls(
            stage or "tasks", output.band, output.started, output.seconds, output.rows, output.nbytes, output.memory,
            output.read, output.foreign,
        )  # fmt: skip


@dataclass(slots=True)
class StageTotals:
    """Totals of the tasks of one stage."""

    name: str
    tasks: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    rows: int = 0
    nbytes: int = 0
    foreign: int = 0


#: The column names of :func:`stage_row`.
STAGES = ("stage", "tasks", "seconds", "longest", "rows", "bytes", "other workers")


def stage_row(stage: StageTotals) -> tuple[str, ...]:
    """Format a stage as a row of a table."""
    return (
        stage.name, str(stage.tasks), f"{stage.seconds:.4f}", f"{stage.longest:.4f}", f"{stage.rows:,}",
        format_bytes(stage.nbytes), format_bytes(stage.foreign),
    )  # fmt: skip


class Activity:
    """Records tasks and memory samples. Thread-safe: events come from the engine's threads, in any order with reads."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._ran: list[TaskRecord] = []
        self._samples: dict[int, list[Sample]] = {}
        self._nodes: dict[int, int] = {}

    def record(self, kind: str, fields: dict[str, Any]) -> None:
        """Record an event if it is about tasks or memory."""
        if kind == "tasks":
            ran = [TaskRecord.of(stage, output) for stage, output in fields["tasks"]]
            with self._lock:
                self._ran += ran
        elif kind == "memory":
            with self._lock:
                self._samples.setdefault(fields["worker"], []).extend(fields["samples"])
                self._nodes[fields["worker"]] = fields["node"]

    @property
    def ran(self) -> list[TaskRecord]:
        """The tasks, ordered by their start."""
        with self._lock:
            return sorted(self._ran, key=lambda task: task.started)

    @property
    def samples(self) -> dict[int, list[Sample]]:
        """The samples of each worker; the driver is worker -1."""
        with self._lock:
            return {worker: list(samples) for worker, samples in sorted(self._samples.items())}

    def node(self, worker: int) -> int:
        """Return the machine of a worker that has samples."""
        return self._nodes[worker]

    def stages(self) -> list[StageTotals]:
        """Return the totals of the stages, ordered by their start."""
        found: dict[str, StageTotals] = {}
        for task in self.ran:
            stage = found.setdefault(task.stage, StageTotals(task.stage))
            stage.tasks += 1
            stage.seconds += task.seconds
            stage.longest = max(stage.longest, task.seconds)
            stage.rows += task.rows
            stage.nbytes += task.nbytes
            stage.foreign += task.foreign
        return list(found.values())

    def tasks(self, epoch: float) -> pd.DataFrame:
        """Return the tasks as a frame, with start times relative to ``epoch``."""
        ran = self.ran
        kinds = {"stage": "str", "started": "float64", "seconds": "float64"}
        columns = {
            name: pd.Series([getattr(task, name) for task in ran], dtype=kinds.get(name, "int64"))
            for name in ("stage", "worker", "started", "seconds", "rows", "nbytes", "memory", "read", "foreign")
        }
        columns["started"] -= epoch
        return pd.DataFrame(columns)

    def memory(self, epoch: float) -> pd.DataFrame:
        """Return the samples as a frame, with times relative to ``epoch``."""
        rows = [(process_name(worker), self.node(worker), one) for worker, some in self.samples.items() for one in some]
        pages = [one.pages if one.pages >= 0 else None for *_, one in rows]
        disk = [one.disk if one.disk >= 0 else None for *_, one in rows]
        return pd.DataFrame(
            {
                "process": pd.Series([name for name, *_ in rows], dtype="str"),
                "machine": pd.Series([node for _, node, _ in rows], dtype="int64"),
                "seconds": pd.Series([one.when - epoch for *_, one in rows], dtype="float64"),
                "own": pd.Series([one.own for *_, one in rows], dtype="int64"),
                "pages": pd.Series(pages, dtype="Int64"),
                "disk": pd.Series(disk, dtype="Int64"),
            }
        )


def process_name(worker: int) -> str:
    """Return the display name of a worker's process; -1 is the driver."""
    return "driver" if worker < 0 else f"worker {worker}"
