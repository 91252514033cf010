"""Charts of the workers' tasks and memory over time. They need Matplotlib, but no display."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from craton.command import format_bytes
from craton.pandas.explain import Drawing
from craton.profiling.activity import Activity, TaskRecord, process_name
from craton.profiling.page import html_document

#: For each plan that ran, its start and the line of the program that triggered it.
Runs = Sequence[tuple[float, str]]

#: The most stages in the legend, and the most tasks for which the SVG has tooltips.
_MAX_LEGEND, _MAX_TOOLTIPS = 20, 5000
#: The least distance between two labels of program lines, as a fraction of the width.
_LABEL_GAP = 0.12
#: Dots per inch of PNG files.
_DPI = 130


class Picture:
    """A figure, and the tooltips of its bars."""

    def __init__(self, figure: Any, tooltips: Sequence[str] = ()) -> None:
        self._figure, self._tooltips = figure, tooltips

    def png(self) -> bytes:
        """Render as PNG."""
        data = io.BytesIO()
        self._figure.savefig(data, format="png", dpi=_DPI, metadata={"Software": "Craton"})
        return data.getvalue()

    def svg(self) -> str:
        """Render as SVG, with text as text elements."""
        import matplotlib as mpl

        data = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "craton"}):
            self._figure.savefig(data, format="svg", metadata={"Date": None})
        text = data.getvalue()
        text = text[text.index("<svg") :]
        return re.sub(
            r'<g id="task-(\d+)">', lambda m: f"{m[0]}<title>{escape(self._tooltips[int(m[1])])}</title>", text
        )


def render(picture: Picture, path: str | os.PathLike[str] | None) -> Drawing:
    """Return a picture in the form that notebooks display; also write it to a file if `path` is given.

    Raises
    ------
    ValueError
        If the path does not end with ``.png``, ``.svg`` or ``.html``.
    """
    svg = picture.svg()
    if path is not None:
        kind = os.path.splitext(os.fspath(path))[1].lower()
        if kind not in (".png", ".svg", ".html"):
            raise ValueError(f"cannot write {os.fspath(path)!r}: the file name must end with .png, .svg or .html")
        data = picture.png() if kind == ".png" else (html_document("Craton", svg) if kind == ".html" else svg).encode()
        with open(path, "wb") as file:
            file.write(data)
    return Drawing(svg)


def tasks(activity: Activity, epoch: float, runs: Runs) -> Picture:
    """Draw the tasks: each worker as a row, each task as a bar, each stage in one colour.

    Raises
    ------
    ValueError
        If there are no tasks.
    """
    ran = activity.ran
    if not ran:
        raise ValueError(
            "the profile has no tasks of workers; begin a session with workers first, for example craton.init('local')"
        )
    lanes = _lanes(ran)
    workers = sorted({task.worker for task in ran})
    depth = {
        worker: 1 + max(lane for task, lane in zip(ran, lanes, strict=True) if task.worker == worker)
        for worker in workers
    }
    tops, top = {}, 0.0
    for worker in workers:
        tops[worker] = top
        top += depth[worker] + 0.4
    stages = activity.stages()
    colours = {stage.name: _colour(number) for number, stage in enumerate(stages)}
    figure, axes = _figure(1.9 + 0.34 * top + 0.2 * (min(len(stages), _MAX_LEGEND) // 4 + 1))
    tooltips: list[str] = []
    if len(ran) <= _MAX_TOOLTIPS:
        for number, (task, lane) in enumerate(zip(ran, lanes, strict=True)):
            start, line = task.started - epoch, tops[task.worker] + lane + 0.5
            (bar,) = axes.barh(line, task.seconds, 0.86, start, color=colours[task.stage])
            bar.set_gid(f"task-{number}")
            tooltips.append(_tooltip(task))
    else:
        bars: dict[str, list[Any]] = {}
        for task, lane in zip(ran, lanes, strict=True):
            start, line = task.started - epoch, tops[task.worker] + lane
            stop = start + task.seconds
            corners = [(start, line + 0.07), (stop, line + 0.07), (stop, line + 0.93), (start, line + 0.93)]
            bars.setdefault(task.stage, []).append(corners)
        for stage_name, some in bars.items():
            axes.add_collection(_polygons(some, colours[stage_name]))
        axes.autoscale_view()
    axes.set_yticks([tops[w] + depth[w] / 2 for w in workers], [process_name(worker) for worker in workers])
    axes.set_ylim(top - 0.2, -0.2)
    axes.tick_params(axis="y", length=0)
    shown = stages[:_MAX_LEGEND]
    names = [_shorten(stage.name) for stage in shown]
    if len(stages) > _MAX_LEGEND:
        names[-1] += f", and {len(stages) - _MAX_LEGEND} more"
    busy = sum(task.seconds for task in ran)
    _finish(figure, axes, runs, f"Tasks: {len(ran):,} in {len(stages):,} stages, {busy:.2f} s in all")
    _legend(figure, [_patch(colours[stage.name]) for stage in shown], names)
    return Picture(figure, tooltips)


def memory(activity: Activity, epoch: float, runs: Runs) -> Picture:
    """Draw memory: the private memory of each process above, and the pages of each machine's store below.

    Raises
    ------
    ValueError
        If there are no samples.
    """
    samples = activity.samples
    if not samples:
        raise ValueError(
            "the profile has no memory samples: no session with workers ran tasks for long enough to be sampled"
        )
    figure, (above, below) = _figure(6.0, 2)
    most = max(one.own for some in samples.values() for one in some)
    unit, size = _unit(most)
    for worker, some in samples.items():
        style: dict[str, Any] = {"color": "0.45", "linestyle": "--"} if worker < 0 else {"color": _colour(worker)}
        times = [one.when - epoch for one in some]
        above.plot(times, [one.own / size for one in some], label=process_name(worker), linewidth=1.3, **style)
    above.set_ylabel(f"own memory, {unit}")
    _finish(figure, above, runs, f"Memory: at most {format_bytes(most)} in one process", last=False)
    stores = {
        activity.node(w): [one for one in some if one.pages >= 0] for w, some in samples.items() if some[-1].pages >= 0
    }
    unit, size = _unit(max((max(one.pages, one.disk) for some in stores.values() for one in some), default=0))
    spilled = any(one.disk for some in stores.values() for one in some)
    for node, some in sorted(stores.items()):
        times = [one.when - epoch for one in some]
        name = f"store of machine {node}" if len(stores) > 1 else "store"
        below.plot(
            times, [one.pages / size for one in some], label=f"{name}: in memory", color=_colour(node, 6), linewidth=1.3
        )
        if spilled:
            style = {"color": _colour(node, 6), "linestyle": ":", "linewidth": 1.6}
            below.plot(times, [one.disk / size for one in some], label=f"{name}: on disk", **style)
    below.set_ylabel(f"pages, {unit}")
    _finish(figure, below, runs, "", places=False)
    for axes in (above, below):
        axes.set_ylim(bottom=0)
    handles, names = above.get_legend_handles_labels()
    more, others = below.get_legend_handles_labels()
    _legend(figure, handles + more, names + others)
    return Picture(figure)


def _lanes(ran: Sequence[TaskRecord]) -> list[int]:
    """Return for each task the line, within its worker's row, that it is drawn in, so that bars do not overlap."""
    ends: dict[int, list[float]] = {}
    lanes = []
    for task in ran:
        busy = ends.setdefault(task.worker, [])
        # Start and duration come from different clocks, so a task may seem to start slightly before the previous one ends.
        lane = next((i for i, end in enumerate(busy) if end <= task.started + 0.001), len(busy))
        busy[lane : lane + 1] = [task.started + task.seconds]
        lanes.append(lane)
    return lanes


def _tooltip(task: TaskRecord) -> str:
    return (
        f"{task.stage}\n{process_name(task.worker)}, {task.seconds:.4f} s\n{task.rows:,} rows, {format_bytes(task.nbytes)}"
        f"\nread {format_bytes(task.read)}, {format_bytes(task.foreign)} of it made by others"
    )


def _figure(height: float, count: int = 1) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("drawings need Matplotlib: pip install 'craton[demo]'", name=error.name) from None
    figure = Figure(figsize=(10, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(count, sharex=True)


def _finish(figure: Any, axes: Any, runs: Runs, title: str, *, last: bool = True, places: bool = True) -> None:
    """Add what both charts have in common: lines where plans began to run, the title, a grid, and no frame."""
    first, last_one = axes.get_xlim()
    written_at = float("-inf")
    for start, place in sorted(runs):
        axes.axvline(start, color="0.6", linewidth=0.7, linestyle=(0, (4, 3)), zorder=0)
        if places and start - written_at >= _LABEL_GAP * (last_one - first):
            written_at = start
            axes.annotate(
                place, (start, 1), xycoords=("data", "axes fraction"), xytext=(2, 1), textcoords="offset points",
                fontsize=7, color="0.4", annotation_clip=False,
            )  # fmt: skip
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    if last:
        axes.set_xlabel(
            "seconds since the profile began; dashed: a plan begins to run"
            if runs
            else "seconds since the profile began"
        )
    axes.grid(color="#e3e6ea", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 5), frameon=False, fontsize=8)


def _polygons(corners: Sequence[Any], colour: Any) -> Any:
    from matplotlib.collections import PolyCollection

    return PolyCollection(corners, facecolors=[colour], linewidths=0)


def _patch(colour: Any) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour)


def _colour(number: int, first: int = 0) -> Any:
    """Return one of twenty distinct colours; they repeat after that."""
    import matplotlib as mpl

    shade = (number + first) % 20
    return mpl.colormaps["tab20"](shade * 2 % 20 + shade // 10)


def _shorten(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:31]}…"


def _unit(most: int) -> tuple[str, int]:
    """Return the unit, and its bytes, for an axis whose largest value is `most` bytes."""
    return ("GiB", 1 << 30) if most >= 2 << 30 else ("MiB", 1 << 20)
