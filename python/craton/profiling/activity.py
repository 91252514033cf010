"""What the workers of a session did while a profile was recorded: their tasks, and their memory over time."""

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
class Ran:
    """A task that was done; its numbers are those of :class:`craton.schedule.tasks.Output`."""

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
    def of(cls, stage: str, output: Output) -> Ran:
        """What is kept of an output."""
        return cls(
            stage or "tasks", output.band, output.started, output.seconds, output.rows, output.nbytes, output.memory,
            output.read, output.foreign,
        )  # fmt: skip


@dataclass(slots=True)
class Stage:
    """The tasks of one name, added up."""

    name: str
    tasks: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    rows: int = 0
    nbytes: int = 0
    foreign: int = 0


#: What :func:`stage_cells` returns.
STAGES = ("stage", "tasks", "seconds", "longest", "rows", "bytes", "other workers")


def stage_cells(stage: Stage) -> tuple[str, ...]:
    """A stage as the cells of a line."""
    return (
        stage.name, str(stage.tasks), f"{stage.seconds:.4f}", f"{stage.longest:.4f}", f"{stage.rows:,}",
        format_bytes(stage.nbytes), format_bytes(stage.foreign),
    )  # fmt: skip


class Activity:
    """A recording. Events come in threads of the engine's; what is recorded may be read at any time."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._ran: list[Ran] = []
        self._samples: dict[int, list[Sample]] = {}
        self._nodes: dict[int, int] = {}

    def take(self, kind: str, fields: dict[str, Any]) -> None:
        """Note an event, if it is one of these."""
        if kind == "tasks":
            ran = [Ran.of(stage, output) for stage, output in fields["tasks"]]
            with self._lock:
                self._ran += ran
        elif kind == "memory":
            with self._lock:
                self._samples.setdefault(fields["worker"], []).extend(fields["samples"])
                self._nodes[fields["worker"]] = fields["node"]

    @property
    def ran(self) -> list[Ran]:
        """The tasks, in the order in which they began."""
        with self._lock:
            return sorted(self._ran, key=lambda task: task.started)

    @property
    def samples(self) -> dict[int, list[Sample]]:
        """The samples of each worker, and of the driver as -1."""
        with self._lock:
            return {worker: list(samples) for worker, samples in sorted(self._samples.items())}

    def node(self, worker: int) -> int:
        """The machine of a worker of which there are samples."""
        return self._nodes[worker]

    def stages(self) -> list[Stage]:
        """The stages, in the order in which they began."""
        found: dict[str, Stage] = {}
        for task in self.ran:
            stage = found.setdefault(task.stage, Stage(task.stage))
            stage.tasks += 1
            stage.seconds += task.seconds
            stage.longest = max(stage.longest, task.seconds)
            stage.rows += task.rows
            stage.nbytes += task.nbytes
            stage.foreign += task.foreign
        return list(found.values())

    def tasks(self, epoch: float) -> pd.DataFrame:
        """The tasks as a frame, with times from ``epoch`` on."""
        ran = self.ran
        kinds = {"stage": "str", "started": "float64", "seconds": "float64"}
        columns = {
            name: pd.Series([getattr(task, name) for task in ran], dtype=kinds.get(name, "int64"))
            for name in ("stage", "worker", "started", "seconds", "rows", "nbytes", "memory", "read", "foreign")
        }
        columns["started"] -= epoch
        return pd.DataFrame(columns)

    def memory(self, epoch: float) -> pd.DataFrame:
        """The samples as a frame, with times from ``epoch`` on."""
        rows = [(process(worker), self.node(worker), one) for worker, some in self.samples.items() for one in some]
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


def process(worker: int) -> str:
    """What a worker is called."""
    return "driver" if worker < 0 else f"worker {worker}"
