"""Text about tiled plans for ``explain`` and summaries: before a run, and from the measurements of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from craton.command import format_bytes, table_lines
from craton.lower.tiled.planner import Stage, Tiling
from craton.lower.tiled.single_task import single_task_note
from craton.plan.explain import Notes, describe, short
from craton.plan.names import printable
from craton.plan.operators import Operator

_HEAD = (
    "stage", "for", "tiles", "rows", "bytes", "seconds", "longest", "from", "to", "memory", "other workers", "other machines",
    "spilled", "exchange",
)  # fmt: skip
_LEFT = (0, 1, len(_HEAD) - 1)


def expected(op: Operator) -> list[str]:
    """Notes on an operator of a plan that will run as tiles."""
    what = single_task_note(op)
    return [] if what is None else [f"runs on one worker: {what}"]


def measured(tiling: Tiling) -> Notes:
    """Notes on the operators of a plan that has run: their stages, and the decisions made from measurements."""
    stages: dict[Operator, list[Stage]] = defaultdict(list)
    for stage in tiling.stages:
        stages[stage.operator].append(stage)

    def notes(op: Operator) -> list[str]:
        own = stages.get(op, ())
        named = [f"stage{'s' * (len(own) > 1)} {', '.join(stage.name for stage in own)}"] if own else []
        return [*named, *map(printable, tiling.notes.get(op, ()))]

    return notes


def summary(tiling: Tiling, where: str) -> str:
    """A one-line summary of a plan that has run."""
    stages = tiling.stages
    parts = [
        f"{tiling.seconds or 0.0:.3f} s",
        _counted(len(stages), "stage"),
        _counted(sum(stage.tiles for stage in stages), "tile"),
        f"{sum(stage.seconds for stage in stages):.3f} s of tasks",
        f"{format_bytes(sum(stage.moved.spilled for stage in stages))} spilled",
        f"{format_bytes(sum(stage.moved.sent for stage in stages))} sent between machines",
    ]
    return f"tiled {where}: {', '.join(parts)}"


def table(stages: Sequence[Stage]) -> str:
    """A table of the stages of a plan that has run, in the order in which they ended."""
    return "\n".join(table_lines([_HEAD, *map(_row, stages)], _LEFT, gap="  "))


def _row(stage: Stage) -> tuple[str, ...]:
    return (
        stage.name, describe(stage.operator)[0], str(stage.tiles), short(stage.rows), format_bytes(stage.nbytes),
        f"{stage.seconds:.3f}", f"{stage.longest:.3f}", f"{stage.began:.3f}", f"{stage.ended:.3f}",
        format_bytes(stage.memory) if stage.memory else "-", format_bytes(stage.foreign), format_bytes(stage.moved.sent),
        format_bytes(stage.moved.spilled), printable(stage.exchange),
    )  # fmt: skip


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
