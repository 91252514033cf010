"""The `Profile`: records calls and plan runs, and summarises them."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, replace
from time import perf_counter, time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pandas as pd

from craton import events, forks
from craton.callers import user_location
from craton.command import table_lines
from craton.profiling.activity import STAGES, Activity, stage_row

if TYPE_CHECKING:
    from craton.pandas.explain import Drawing

RUN = "(run)"


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call or plan run, and the line of the user's program that caused it.

    ``nested`` is true for a call that was made by another recorded call, whose time includes it.
    """

    name: str
    native: bool
    reason: str | None
    seconds: float
    rows: int | None
    file: str | None
    line: int | None
    nested: bool
    thread: int

    @property
    def place(self) -> str:
        """``file:line``, without the file's directory, or ``In[3]:line``; "" if no line of the user's program is known."""
        return "" if self.file is None else f"{_cell_name(self.file) or os.path.basename(self.file)}:{self.line}"


def _cell_name(file: str) -> str | None:
    """IPython's name for the code of a cell, as in its tracebacks: ``In[3]``. None for other files."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    name = None if shell is None else shell.compile.format_code_name(file)
    return None if name is None else name[1]


class Profile:
    """A recording of the engine's events; see :mod:`craton.profiling`.

    Examples
    --------
    >>> import craton.pandas as pd
    >>> from craton.profiling import profile
    >>> with profile() as report:
    ...     total = pd.DataFrame({"a": [1, 2]})["a"].sum()
    >>> report.calls().columns.tolist()
    ['method', 'native', 'reason', 'seconds', 'rows', 'file', 'line', 'nested']
    """

    def __init__(self) -> None:
        self._calls: list[tuple[float, Call]] = []
        self._outermost: dict[int, list[int]] = {}
        self._lock = forks.lock()
        self._started = 0.0
        self._clocks: tuple[float, float] | None = None
        self._activity = Activity()
        self.seconds = 0.0
        """How long the recording has lasted, not counting pauses."""

    # Recording ------------------------------------------------------------------------------------------

    def start(self) -> Profile:
        """Start or resume recording."""
        self._started = perf_counter()
        if self._clocks is None:
            self._clocks = self._started, time()
        events.subscribe(self._record)
        return self

    def stop(self) -> None:
        """Stop recording, and keep what was recorded."""
        if self._started:
            self.seconds += perf_counter() - self._started
            self._started = 0.0
        events.unsubscribe(self._record)

    def __enter__(self) -> Profile:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _record(self, kind: str, fields: dict[str, Any]) -> None:
        now = perf_counter()
        if kind == "call":
            name, native, reason = fields["name"], bool(fields["native"]), fields.get("reason")
        elif kind == "run":
            name, native, reason = RUN, True, None
        else:
            self._activity.record(kind, fields)
            return
        seconds = float(fields["seconds"])
        file, line = user_location(2) or (None, None)
        thread = threading.get_ident()
        call = Call(name, native, reason, seconds, fields.get("rows"), file, line, nested=False, thread=thread)
        begun = fields.get("started", now - seconds)
        with self._lock:
            # A call's event is emitted when the call ends, after those of the calls that it made. So the calls of this
            # thread that ended after this one began are nested in it.
            outermost = self._outermost.setdefault(thread, [])
            while outermost and self._calls[outermost[-1]][0] > begun:
                position = outermost.pop()
                ended, inner = self._calls[position]
                self._calls[position] = (ended, replace(inner, nested=True))
            outermost.append(len(self._calls))
            self._calls.append((now, call))

    # Reading --------------------------------------------------------------------------------------------

    @property
    def records(self) -> list[Call]:
        """All recorded calls and runs, in the order in which they ended."""
        with self._lock:
            return [call for _, call in self._calls]

    def calls(self) -> pd.DataFrame:
        """Return all recorded calls and runs as a frame: method, native, reason, seconds, rows, file, line, nested."""
        records = self.records
        return pd.DataFrame(
            {
                "method": pd.Series([call.name for call in records], dtype="str"),
                "native": pd.Series([call.native for call in records], dtype="bool"),
                "reason": pd.Series([call.reason for call in records], dtype="str"),
                "seconds": pd.Series([call.seconds for call in records], dtype="float64"),
                "rows": pd.Series([call.rows for call in records], dtype="Int64"),
                "file": pd.Series([call.file for call in records], dtype="str"),
                "line": pd.Series([call.line for call in records], dtype="Int64"),
                "nested": pd.Series([call.nested for call in records], dtype="bool"),
            }
        )

    def summary(self) -> pd.DataFrame:
        """Return totals of the calls that were not nested, by place, method and reason; the slowest first.

        Returns
        -------
        pandas.DataFrame
            Columns ``place`` ("file:line", in a notebook "In[3]:line"), ``method``, ``native``, ``reason``, ``calls``, ``seconds`` and
            ``rows`` (the sum over the calls for which it is known; missing if it is known for none).
        """
        totals: dict[tuple[str, str, bool, str | None], list[Any]] = {}
        for call in self.records:
            if call.nested:
                continue
            total = totals.setdefault((call.place, call.name, call.native, call.reason), [0, 0.0, None])
            total[0] += 1
            total[1] += call.seconds
            if call.rows is not None:
                total[2] = (total[2] or 0) + call.rows
        rows = sorted(totals.items(), key=lambda item: -item[1][1])
        return pd.DataFrame(
            {
                "place": pd.Series([key[0] for key, _ in rows], dtype="str"),
                "method": pd.Series([key[1] for key, _ in rows], dtype="str"),
                "native": pd.Series([key[2] for key, _ in rows], dtype="bool"),
                "reason": pd.Series([key[3] for key, _ in rows], dtype="str"),
                "calls": pd.Series([total[0] for _, total in rows], dtype="int64"),
                "seconds": pd.Series([total[1] for _, total in rows], dtype="float64"),
                "rows": pd.Series([total[2] for _, total in rows], dtype="Int64"),
            }
        )

    def tasks(self) -> pd.DataFrame:
        """Return all tasks that workers ran, ordered by their start.

        Returns
        -------
        pandas.DataFrame
            ``stage``, ``worker``, ``started`` (seconds since the recording began), ``seconds``, ``rows`` and ``nbytes`` (of
            its output), ``memory`` (peak bytes, not counting the inputs; 0 if it was not measured), ``read`` (bytes of its
            inputs) and ``foreign`` (the part of ``read`` that other processes had made).
        """
        return self._activity.tasks(self._epoch)

    def memory(self) -> pd.DataFrame:
        """Return the memory of the session's processes over time, sampled 20 times per second.

        Returns
        -------
        pandas.DataFrame
            ``process`` ("driver", "worker 0" and so on), ``machine`` (its number), ``seconds`` since the recording began,
            ``own`` (bytes of the process's private memory), and of its machine's store ``pages`` and ``disk`` (bytes of pages
            in memory, and on disk; missing in all but one process of each machine).
        """
        return self._activity.memory(self._epoch)

    def plot_tasks(self, path: str | os.PathLike[str] | None = None) -> Drawing:
        """Draw the workers' tasks over time: each worker as a row, each task as a bar, each stage in one colour.

        Parameters
        ----------
        path
            A file to write; its name ends with ``.png``, ``.svg`` or ``.html``.

        Returns
        -------
        Drawing
            The chart as SVG, which notebooks display.

        Raises
        ------
        ValueError
            If the profile has no tasks of workers, or the file name has another ending.
        ModuleNotFoundError
            If Matplotlib is missing.
        """
        from craton.profiling import drawing

        return drawing.render(drawing.tasks(self._activity, self._epoch, self._runs()), path)

    def plot_memory(self, path: str | os.PathLike[str] | None = None) -> Drawing:
        """Draw the memory of the session's processes and of their machines' stores over time; see :meth:`plot_tasks`."""
        from craton.profiling import drawing

        return drawing.render(drawing.memory(self._activity, self._epoch, self._runs()), path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as a self-contained HTML page, with the summary, the stages and the charts."""
        from craton.profiling.page import page

        with open(path, "w", encoding="utf-8") as file:
            file.write(page(self))

    @property
    def _epoch(self) -> float:
        """When the recording began, in seconds since 1970."""
        return 0.0 if self._clocks is None else self._clocks[1]

    def _runs(self) -> list[tuple[float, str]]:
        """For each plan that ran, its start in seconds since the recording began, and the line that triggered it."""
        if self._clocks is None:
            return []
        with self._lock:
            found = list(self._calls)
        begun = self._clocks[0]
        return [(ended - call.seconds - begun, call.place) for ended, call in found if call.name == RUN]

    @property
    def native_share(self) -> float:
        """The fraction of the user's calls that ran natively; 1.0 if there were no calls."""
        calls = [call for call in self.records if not call.nested and call.name != RUN]
        return sum(call.native for call in calls) / len(calls) if calls else 1.0

    def __str__(self) -> str:
        return _as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        html: str = self.summary().to_html(index=False, na_rep="", float_format="{:.4f}".format)
        return html


def profile() -> Profile:
    """Return a new profile, to be used as a context manager.

    Examples
    --------
    >>> import craton.pandas as pd
    >>> from craton.profiling import profile
    >>> with profile() as report:
    ...     frame = pd.DataFrame({"a": [3, 1, 2]}).sort_values("a")
    >>> 0.0 <= report.native_share <= 1.0
    True
    """
    return Profile()


def _as_text(report: Profile) -> str:
    summary = report.summary()
    records = report.records
    runs = [call for call in records if call.name == RUN]
    calls = [call for call in records if call.name != RUN and not call.nested]
    lines = [
        f"Craton profile: {len(calls)} calls, {report.native_share:.0%} native, in {report.seconds:.3f} s; "
        f"{len(runs)} plans ran in {sum(call.seconds for call in runs):.3f} s"
    ]
    if len(summary):
        header = ("seconds", "calls", "rows", "line", "method", "how")
        cells = [
            (
                f"{row.seconds:.4f}",
                str(row.calls),
                "" if pd.isna(row.rows) else f"{row.rows:,}",
                row.place,
                row.method,
                "native" if row.native else f"fallback: {row.reason}",
            )
            for row in summary.itertuples()
        ]
        rule = tuple("-" * max(map(len, column)) for column in zip(header, *cells, strict=True))
        lines += table_lines([header, rule, *cells], left=(3, 4, 5), gap="  ")
    if stages := report._activity.stages():
        lines += ["", *table_lines([STAGES, *map(stage_row, stages)], left=(0,), gap="  ")]
    return "\n".join(lines)
