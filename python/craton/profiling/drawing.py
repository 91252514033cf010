"""Drawings of what workers did: their tasks, and their memory over time. Needs Matplotlib, and no display."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from craton.command import format_bytes
from craton.pandas.explain import Drawing
from craton.profiling.activity import Activity, Ran, process
from craton.profiling.page import around

#: When plans began, and the lines that had them run.
Runs = Sequence[tuple[float, str]]

#: Stages that have a name in the drawing, and tasks that tell of themselves in SVG.
_NAMED, _TOLD = 20, 5000
#: What two places in the program that are written have between them at least, as a share of the width.
_APART = 0.12
_DOTS = 130


class Picture:
    """A figure, and what its parts tell of themselves when they are pointed at."""

    def __init__(self, figure: Any, told: Sequence[str] = ()) -> None:
        self._figure, self._told = figure, told

    def png(self) -> bytes:
        """As PNG."""
        data = io.BytesIO()
        self._figure.savefig(data, format="png", dpi=_DOTS, metadata={"Software": "Craton"})
        return data.getvalue()

    def svg(self) -> str:
        """As SVG, its texts as texts."""
        import matplotlib as mpl

        data = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "craton"}):
            self._figure.savefig(data, format="svg", metadata={"Date": None})
        text = data.getvalue()
        text = text[text.index("<svg") :]
        return re.sub(r'<g id="task-(\d+)">', lambda m: f"{m[0]}<title>{escape(self._told[int(m[1])])}</title>", text)


def written(picture: Picture, path: str | os.PathLike[str] | None) -> Drawing:
    """A picture as what notebooks show; and as a file, if one is named.

    Raises
    ------
    ValueError
        If files of that kind are not written.
    """
    svg = picture.svg()
    if path is not None:
        kind = os.path.splitext(os.fspath(path))[1].lower()
        if kind not in (".png", ".svg", ".html"):
            raise ValueError(f"a drawing is written as .png, .svg or .html, and not as {os.fspath(path)!r}")
        data = picture.png() if kind == ".png" else (around("Craton", svg) if kind == ".html" else svg).encode()
        with open(path, "wb") as file:
            file.write(data)
    return Drawing(svg)


def tasks(activity: Activity, epoch: float, runs: Runs) -> Picture:
    """A row a worker, a bar a task, a colour a stage.

    Raises
    ------
    ValueError
        If there are no tasks.
    """
    ran = activity.ran
    if not ran:
        raise ValueError(
            "no worker ran a task while this was recorded; craton.init('local') begins a session with workers"
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
    figure, axes = _figure(1.9 + 0.34 * top + 0.2 * (min(len(stages), _NAMED) // 4 + 1))
    told: list[str] = []
    if len(ran) <= _TOLD:
        for number, (task, lane) in enumerate(zip(ran, lanes, strict=True)):
            start, line = task.started - epoch, tops[task.worker] + lane + 0.5
            (bar,) = axes.barh(line, task.seconds, 0.86, start, color=colours[task.stage])
            bar.set_gid(f"task-{number}")
            told.append(_told(task))
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
    axes.set_yticks([tops[w] + depth[w] / 2 for w in workers], [process(worker) for worker in workers])
    axes.set_ylim(top - 0.2, -0.2)
    axes.tick_params(axis="y", length=0)
    shown = stages[:_NAMED]
    names = [_cut(stage.name) for stage in shown]
    if len(stages) > _NAMED:
        names[-1] += f", and {len(stages) - _NAMED} more"
    busy = sum(task.seconds for task in ran)
    _finish(figure, axes, runs, f"Tasks: {len(ran):,} in {len(stages):,} stages, {busy:.2f} s in all")
    _legend(figure, [_patch(colours[stage.name]) for stage in shown], names)
    return Picture(figure, told)


def memory(activity: Activity, epoch: float, runs: Runs) -> Picture:
    """A line a process, and below two for each machine's store.

    Raises
    ------
    ValueError
        If there are no samples.
    """
    samples = activity.samples
    if not samples:
        raise ValueError(
            "no memory was sampled: while this was recorded, no session with workers ran a task for long enough"
        )
    figure, (above, below) = _figure(6.0, 2)
    most = max(one.own for some in samples.values() for one in some)
    unit, size = _unit(most)
    for worker, some in samples.items():
        style: dict[str, Any] = {"color": "0.45", "linestyle": "--"} if worker < 0 else {"color": _colour(worker)}
        times = [one.when - epoch for one in some]
        above.plot(times, [one.own / size for one in some], label=process(worker), linewidth=1.3, **style)
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


def _lanes(ran: Sequence[Ran]) -> list[int]:
    """Which of the lines of its worker each task is drawn in, so that none covers another."""
    ends: dict[int, list[float]] = {}
    lanes = []
    for task in ran:
        busy = ends.setdefault(task.worker, [])
        # Clocks are read beside each other: what follows another task may seem to begin a little before its end.
        lane = next((i for i, end in enumerate(busy) if end <= task.started + 0.001), len(busy))
        busy[lane : lane + 1] = [task.started + task.seconds]
        lanes.append(lane)
    return lanes


def _told(task: Ran) -> str:
    return (
        f"{task.stage}\n{process(task.worker)}, {task.seconds:.4f} s\n{task.rows:,} rows, {format_bytes(task.nbytes)}"
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
    """What both drawings have: when plans began to run, a grid, and no frame."""
    first, last_one = axes.get_xlim()
    written_at = float("-inf")
    for start, place in sorted(runs):
        axes.axvline(start, color="0.6", linewidth=0.7, linestyle=(0, (4, 3)), zorder=0)
        if places and start - written_at >= _APART * (last_one - first):
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
    """Colours that are told apart: twenty, and from the next on the same again."""
    import matplotlib as mpl

    shade = (number + first) % 20
    return mpl.colormaps["tab20"](shade * 2 % 20 + shade // 10)


def _cut(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:31]}…"


def _unit(most: int) -> tuple[str, int]:
    """The unit in which numbers up to this are written."""
    return ("GiB", 1 << 30) if most >= 2 << 30 else ("MiB", 1 << 20)
