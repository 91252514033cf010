"""The demo's report: lines for the terminal, a bar chart, and a self-contained HTML page."""

from __future__ import annotations

import base64
import html
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from craton.demo.measure import QueryResult, Totals, totals

COLOURS = {"pandas": "#9aa5b1", "Craton": "#d9480f"}

PACKAGES = ("craton", "pandas", "polars", "pyarrow", "numpy")


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of the run, the machine and the versions, so that the figures can be interpreted later."""

    scale: float
    repeat: int
    when: str
    machine: str
    system: str
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The paths of the report's files."""

    chart: Path
    page: Path
    results: Path


def setting(scale: float, repeat: int) -> Setting:
    """Describe this machine, the versions installed on it, and the run."""
    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "from a source tree"
    gigabytes = memory_bytes() / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Setting(
        scale=scale,
        repeat=repeat,
        when=datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=f"{_processor()}, {cores} {'core' if cores == 1 else 'cores'}, {gigabytes:.0f} GiB memory",
        system=f"{platform.system()} {platform.release()} ({platform.machine()})",
        versions=versions,
    )


def memory_bytes() -> int:
    """Return the bytes of memory of this machine; 0 if they are unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def heading() -> str:
    """Return the header of the terminal's table."""
    return f"{'query':<6} {'pandas':>11} {'Craton':>11} {'speed-up':>9}  equal"


def line(outcome: QueryResult) -> str:
    """Return the terminal's line for one query."""
    return (
        f"{outcome.query:<6} {_seconds(outcome.baseline):>11} {_seconds(outcome.craton):>11} "
        f"{_times(outcome.speed_up):>9}  {'yes' if outcome.equal else 'NO'}"
    )


def summary_lines(total: Totals) -> list[str]:
    """Return the terminal's last lines: totals, and the mean of the speed-ups."""
    return [
        f"{'total':<6} {_seconds(total.baseline):>11} {_seconds(total.craton):>11} "
        f"{_times(total.speed_up):>9}  {total.equal} of {total.queries}",
        f"geometric mean of the speed-ups: {_times(total.geometric_mean)}",
    ]


def fallback_line(outcomes: Sequence[QueryResult]) -> str | None:
    """Return the terminal's line on calls that ran in pandas; None if there were none, or they were not counted."""
    counts = [f"{outcome.query} {outcome.fallbacks}" for outcome in outcomes if outcome.fallbacks]
    return f"calls that Craton passed on to pandas: {', '.join(counts)}" if counts else None


def write(outcomes: Sequence[QueryResult], about: Setting, folder: Path) -> ReportFiles:
    """Write chart, page and figures into `folder`; earlier files of the same scale are replaced.

    Parameters
    ----------
    outcomes
        The results that `measure` yielded.
    about
        The result of `setting`.
    folder
        Created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total = totals(outcomes)
    stem = f"tpch-sf{about.scale:g}"
    files = ReportFiles(folder / f"{stem}.png", folder / f"{stem}.html", folder / f"{stem}.json")
    draw(outcomes, about, files.chart)
    files.page.write_text(page(outcomes, about, files.chart.read_bytes()), encoding="utf-8")
    figures = {
        "setting": asdict(about),
        "queries": [asdict(outcome) | {"speed_up": _or_none(outcome.speed_up)} for outcome in outcomes],
        "totals": {key: _or_none(value) for key, value in (asdict(total) | {"speed_up": total.speed_up}).items()},
    }
    files.results.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return files


def draw(outcomes: Sequence[QueryResult], about: Setting, path: Path) -> None:
    """Draw the bar chart: a pair of bars for each query on a logarithmic axis of seconds, and its speed-up."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    figure = Figure(figsize=(9, 1.9 + 0.36 * len(outcomes)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    positions = range(len(outcomes))
    for offset, name, values in (
        (-0.2, "pandas", [outcome.baseline for outcome in outcomes]),
        (0.2, "Craton", [outcome.craton for outcome in outcomes]),
    ):
        axes.barh([position + offset for position in positions], values, height=0.38, color=COLOURS[name], label=name)
    finite = [value for o in outcomes for value in (o.baseline, o.craton) if not math.isnan(value)] or [1.0]
    axes.set_xscale("log")
    axes.set_xlim(min(finite) / 1.6, max(finite) * 3.2)
    for position, outcome in zip(positions, outcomes, strict=True):
        values = [value for value in (outcome.baseline, outcome.craton) if not math.isnan(value)]
        label = _times(outcome.speed_up) if outcome.equal else "not equal" if len(values) == 2 else "failed"
        colour = "#222222" if outcome.equal else "#c92a2a"
        axes.text(
            (max(values) if values else min(finite)) * 1.08, position, label, va="center", fontsize=9, color=colour
        )
    axes.set_yticks(list(positions), [outcome.query.upper() for outcome in outcomes])
    axes.set_ylim(len(outcomes) - 0.4, -0.6)
    axes.set_xlabel(f"seconds, reading included, {_runs(about.repeat)} (logarithmic; shorter is better)")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.xaxis.set_minor_formatter("")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    axes.grid(axis="x", which="major", color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    total = totals(outcomes)
    axes.set_title(
        f"TPC-H, scale factor {about.scale:g}: the same pandas code under pandas and under Craton\n"
        f"in total {_seconds(total.baseline)} and {_seconds(total.craton)}: {_times(total.speed_up)}, "
        f"{total.equal} of {total.queries} results equal",
        loc="left",
        fontsize=11,
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=130, format="png", metadata={"Software": "Craton demo"})


def page(outcomes: Sequence[QueryResult], about: Setting, chart: bytes) -> str:
    """Return the HTML page, with the chart inside."""
    total = totals(outcomes)
    rows = "\n".join(_row(outcome) for outcome in outcomes)
    facts = {
        "Data": f"TPC-H, scale factor {about.scale:g}, Parquet",
        "Measured": f"{_runs(about.repeat)}; times include reading the files and converting the result to pandas",
        "When": about.when,
        "Machine": about.machine,
        "System": about.system,
        **about.versions,
    }
    listed = "\n".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in facts.items())
    verdict = (
        "All results are equal to pandas’."
        if total.equal == total.queries
        else f"{total.queries - total.equal} of {total.queries} results are not equal to pandas’, or failed."
    )
    return PAGE.format(
        scale=f"{about.scale:g}",
        speed_up=_times(total.speed_up),
        mean=_times(total.geometric_mean),
        baseline=_seconds(total.baseline),
        craton=_seconds(total.craton),
        equal=f"{total.equal} of {total.queries}",
        fallbacks=_fallbacks(outcomes),
        verdict=html.escape(verdict),
        verdict_class="good" if total.equal == total.queries else "bad",
        chart=base64.b64encode(chart).decode("ascii"),
        rows=rows,
        facts=listed,
    )


def _row(outcome: QueryResult) -> str:
    cells: list[tuple[str, Any]] = [
        ("", outcome.query.upper()),
        ("", outcome.title),
        ("number", f"{outcome.rows:,}" if outcome.rows >= 0 else "–"),
        ("number", _seconds(outcome.baseline)),
        ("number", _seconds(outcome.craton)),
        ("number", _times(outcome.speed_up)),
        ("number", "–" if outcome.fallbacks is None else outcome.fallbacks),
        ("good" if outcome.equal else "bad", "yes" if outcome.equal else f"no: {outcome.problem}"),
    ]
    inner = "".join(f'<td class="{kind}">{html.escape(str(value))}</td>' for kind, value in cells)
    return f"<tr>{inner}</tr>"


def _fallbacks(outcomes: Sequence[QueryResult]) -> str:
    counted = [outcome.fallbacks for outcome in outcomes if outcome.fallbacks is not None]
    return str(sum(counted)) if counted else "–"


def _or_none(value: float) -> float | None:
    """Return `value`, or None for NaN, which JSON cannot represent."""
    return None if math.isnan(value) else value


def _seconds(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f} s"


def _times(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1f}×"


def _runs(repeat: int) -> str:
    return "one run" if repeat == 1 else f"medians of {repeat} runs"


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Craton: TPC-H at scale factor {scale}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0.2rem; }}
h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.figures {{ display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.2rem 0; }}
.figures div {{ color: #5c6670; }}
.figures b {{ display: block; font-size: 1.7rem; line-height: 1.2; color: #222; }}
img {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; width: 100%; font-size: 0.93rem; }}
th, td {{ text-align: left; padding: 0.3rem 0.7rem; border-bottom: 1px solid #e3e6ea; vertical-align: top; }}
th.number, td.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
tfoot td {{ font-weight: 600; border-bottom: 0; }}
.good {{ color: #2b7a34; }}
.bad {{ color: #c92a2a; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1.2rem; font-size: 0.93rem; }}
dt {{ color: #5c6670; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>TPC-H at scale factor {scale}: pandas and Craton</h1>
<p>The same pandas code, run under <code>import pandas as pd</code> and under <code>import craton.pandas as pd</code>,
on the same files. <span class="{verdict_class}">{verdict}</span></p>
<div class="figures">
<div><b>{speed_up}</b>as fast in total</div>
<div><b>{mean}</b>geometric mean</div>
<div><b>{baseline}</b>pandas</div>
<div><b>{craton}</b>Craton</div>
<div><b>{equal}</b>results equal</div>
</div>
<img alt="Bar chart of the seconds that each query took under pandas and under Craton"
  src="data:image/png;base64,{chart}">
<h2>Queries</h2>
<table>
<thead><tr><th>Query</th><th>Name</th><th class="number">Rows</th><th class="number">pandas</th>
<th class="number">Craton</th><th class="number">Speed-up</th>
<th class="number">Fallbacks</th><th>Equal</th></tr></thead>
<tbody>
{rows}
</tbody>
<tfoot><tr><td colspan="3">Total</td><td class="number">{baseline}</td><td class="number">{craton}</td>
<td class="number">{speed_up}</td><td class="number">{fallbacks}</td><td>{equal}</td></tr></tfoot>
</table>
<p>Equal means: values, dtypes, index, column names and row order, exactly; floats to a relative 1e-9, because a sum
depends on the order of its terms. Fallbacks are calls that Craton passed on to pandas in one run of the query.</p>
<h2>Setting</h2>
<dl>
{facts}
</dl>
</body>
</html>
"""
