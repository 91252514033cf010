"""What a run made: its tables, and what each of its steps did."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from craton.command import format_bytes
from craton.errors import CratonError
from craton.pipeline.conversion import given
from craton.pipeline.manager import Decision
from craton.pipeline.runs.records import Record
from craton.pipeline.runs.tables import Table
from craton.pipeline.steps.draw import draw_graph
from craton.pipeline.steps.graph import StepGraph, did_you_mean
from craton.pipeline.tasks import Form, StepError, Stored

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PipelineFailed", "Result"]


class PipelineFailed(CratonError):
    """Steps of a run failed. Those that do not need them have run.

    Attributes
    ----------
    errors : dict
        The error of each step that failed.
    result : Result
        What was made.
    """

    def __init__(self, errors: Mapping[str, BaseException], result: Result) -> None:
        super().__init__(errors, result)
        self.errors, self.result = dict(errors), result

    def __str__(self) -> str:
        skipped = [one.name for one in self.result.records.values() if one.state == "skipped"]
        lines = [
            str(error) if isinstance(error, StepError) else "".join(traceback.format_exception(error))
            for error in self.errors.values()
        ]
        if skipped:
            lines.append(f"did not run, since they need what failed: {', '.join(skipped)}")
        return "\n\n".join(lines)


class Result:
    """The tables of a run, by the names of their steps, and what the steps did.

    Made by :meth:`craton.pipeline.Pipeline.run`. The tables stay in the store as long as this object, or one that was read from it, lives.

    Attributes
    ----------
    seconds : float
        How long the run took.
    warnings : list of str
        What checks say that only warn.
    errors : dict
        The error of each step that failed.
    """

    def __init__(
        self,
        graph: StepGraph,
        tables: Mapping[tuple[str, str | None], Table],
        records: Mapping[str, Record],
        seconds: float,
        warnings: list[str],
        errors: Mapping[str, BaseException],
        decisions: Sequence[Decision],
    ) -> None:
        self._graph, self._tables, self._decisions = graph, dict(tables), list(decisions)
        self.records = dict(records)
        self.seconds = seconds
        self.warnings, self.errors = warnings, dict(errors)

    def __getitem__(self, name: str) -> Any:
        """The table of a step, in the form that the step returned; a dict if it returned several."""
        return self.table(name)

    def table(self, name: str, form: Form | None = None) -> Any:
        """The table of a step.

        Parameters
        ----------
        name
            The step's name, or that of one of several tables: ``"table"`` if the step declares it, or ``"step.table"``.
        form
            The form; by default the one that the step returned.

        Raises
        ------
        KeyError
            If there is none.
        """
        step, output = self._graph.producer(name)
        if (step, output) in self._tables:
            stored = self._tables[step, output].stored
            return given(stored.pages.to_arrow(), stored.form, form or stored.form)
        several = {out: one.stored for (owner, out), one in self._tables.items() if owner == step and output is None}
        if several:
            return {out: given(one.pages.to_arrow(), one.form, form or one.form) for out, one in several.items()}
        if step in self._graph.sources:
            raise KeyError(f"{name!r} is a source; a result has the tables of steps")
        if step in self._graph.steps:
            record = self.records.get(step)
            raise KeyError(f"step {step!r} made no such table; it {_state(record)}")
        raise KeyError(f"there is no step {name!r}{did_you_mean(name, self.keys())}")

    def stored(self, name: str) -> Stored:
        """The table of a step in the store."""
        return self._tables[self._graph.producer(name)].stored

    def keys(self) -> list[str]:
        """The names of the steps whose tables there are."""
        made = {name for name, _ in self._tables}
        return [name for name in self._graph.steps if name in made]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    @property
    def bytes_new(self) -> int:
        """Bytes of tables that were made: by steps, and decoded from files."""
        return sum(one.new for one in self.records.values())

    @property
    def bytes_copied(self) -> int:
        """Bytes that were copied, of those that were made and of inputs."""
        return sum(one.copied for one in self.records.values())

    @property
    def bytes_shared(self) -> int:
        """Bytes of tables that are parts of their inputs, or that were in the store before, so that nothing was written."""
        return sum(one.shared for one in self.records.values())

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all steps."""
        return sum(one.cpu_seconds for one in self.records.values())

    @property
    def steps(self) -> pd.DataFrame:
        """What each source, step and check did: one row for each."""
        import pandas as pd

        columns = [*_COLUMNS, "reason"]
        rows = [[getattr(one, _FIELDS.get(name, name)) for name in columns] for one in self.records.values()]
        return pd.DataFrame(
            rows, columns=columns, index=pd.Index([one.name for one in self.records.values()], name="step")
        )

    @property
    def decisions(self) -> pd.DataFrame:
        """Which steps were admitted when, which had to wait, and why."""
        import pandas as pd

        columns = ["seconds", "step", "admitted", "reason", "projected", "free"]
        return pd.DataFrame([[getattr(one, name) for name in columns] for one in self._decisions], columns=columns)

    def draw(self, path: str | None = None) -> Any:
        """The graph, with what each step did; as :meth:`craton.pipeline.Pipeline.draw`."""
        return draw_graph(self._graph, path, self.records)

    def _summary(self) -> str:
        parts = [f"{format_bytes(self.bytes_new)} new", f"{format_bytes(self.bytes_copied)} copied"]
        parts += [f"{format_bytes(self.bytes_shared)} shared", f"{self.seconds:.2f} s"]
        failed = f"; failed: {', '.join(self.errors)}" if self.errors else ""
        return ", ".join(parts) + failed

    def __repr__(self) -> str:
        return f"<Result of {len(self.records)} steps: {self._summary()}>"

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{head}</th>" for head in ("step", *_COLUMNS))
        lines = []
        for one in self.records.values():
            cells = [escape(one.name)]
            for name in _COLUMNS:
                value = getattr(one, _FIELDS.get(name, name))
                cells.append(_cell(name, value))
            hint = f' title="{escape(one.reason)}"' if one.reason else ""
            lines.append(f"<tr{hint}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        return (
            f"<div>{self.draw().text}<p>{escape(self._summary())}</p>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        )


_COLUMNS = (
    "kind", "state", "rows", "bytes", "new", "copied", "shared", "waited", "seconds", "cpu_seconds", "peak_memory", "attempts", "calls",
)  # fmt: skip
_FIELDS = {"bytes": "nbytes"}
_SIZES = {"bytes", "new", "copied", "shared", "peak_memory"}


def _cell(name: str, value: Any) -> str:
    if name in _SIZES:
        return format_bytes(value)
    if isinstance(value, float):
        return f"{value:.2f} s"
    return escape(f"{value:,}" if isinstance(value, int) else str(value))


def _state(record: Record | None) -> str:
    if record is None:
        return "was not part of the run"
    return {"failed": "failed", "skipped": f"did not run: {record.reason}"}.get(record.state, "made other tables")
