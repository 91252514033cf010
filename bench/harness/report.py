"""The output of a run: a JSON file, a table for the terminal and a plot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bench.harness import conditions

__all__ = ["RESULTS", "plot", "save", "table"]

RESULTS = Path(__file__).resolve().parents[1] / "results"
"""The default folder for reports."""


def save(report: dict[str, Any], folder: Path, stem: str) -> Path:
    """Write a report atomically as ``folder/stem.json``, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{stem}.json"
    scratch = folder / f"{stem}.json.tmp"
    scratch.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(scratch, target)
    return target


def table(report: dict[str, Any]) -> str:
    """Return a report as text: medians and ratios in a table with a row per case and a column per contestant, and then the failures."""
    names = list(report["summary"])
    baseline = report["baseline"]
    lines = [[report["benchmark"], *names]]
    for case, results in report["cases"].items():
        lines.append([case, *(_cell(results.get(name), name == baseline) for name in names)])
    lines.append(
        [
            "total",
            *(_total(report["summary"][name], name == baseline) for name in names),
        ]
    )
    widths = [max(len(line[at]) for line in lines) for at in range(len(names) + 1)]
    text = [
        line[0].ljust(widths[0])
        + "".join("  " + cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in lines
    ]
    text.insert(1, "-" * len(text[0]))
    text.insert(len(text) - 1, "-" * len(text[0]))
    said = [
        f"{report['title']}",
        f"Medians of {report['settings']['repeat']} runs in seconds where no other unit is given; × is the ratio to {baseline}.",
        *([conditions.text(report["conditions"])] if "conditions" in report else []),
        "",
    ]
    return "\n".join(said + text + _first_runs(report) + _remarks(report))


def _first_runs(report: dict[str, Any]) -> list[str]:
    """Return a line with the totals of the first runs, which the medians do not include."""
    totals = {name: one["first_total"] for name, one in report["summary"].items() if "first_total" in one}
    if not totals or not report["settings"].get("warm_up"):
        return []
    said = (f"{name} {seconds:.3f} ({_part(report['summary'][name])})" for name, seconds in totals.items())
    return ["", "First runs in their processes, seconds in total: " + ", ".join(said)]


def _part(summary: dict[str, Any]) -> str:
    return f"{summary['compared']}/{summary['cases']}"


def _cell(result: dict[str, Any] | None, is_baseline: bool) -> str:
    if result is None:
        return "-"
    if result["status"] != "ok":
        return str(result["status"])
    ratio = "" if is_baseline or "ratio" not in result else f" {result['ratio']:6.2f}×"
    return f"{_duration(result['median'])}{ratio}"


def _duration(seconds: float) -> str:
    """Return a duration as text: in seconds, or in microseconds if it is very short."""
    return f"{seconds:.3f}" if seconds >= 0.01 else f"{1e6 * seconds:.1f} µs"


def _total(summary: dict[str, Any], is_baseline: bool) -> str:
    if "total" not in summary:
        return f"{summary['right']}/{summary['cases']}"
    if is_baseline:
        return f"{summary['total']:.3f}"
    part = "" if summary["compared"] == summary["cases"] else f"{summary['compared']}/{summary['cases']}: "
    return f"{part}{summary['total']:.3f} {summary['total_ratio']:6.2f}×"


def _remarks(report: dict[str, Any]) -> list[str]:
    """Return one line for every distinct failure, with the cases in which it occurred."""
    cases: dict[tuple[str, str], list[str]] = {}
    for case, results in report["cases"].items():
        for name, result in results.items():
            if result["status"] != "ok":
                cases.setdefault((name, f"{result['status']}: {result['message']}"), []).append(case)
    return (
        [
            "",
            *(f"{name} ({', '.join(befell)}) {message}" for (name, message), befell in cases.items()),
        ]
        if cases
        else []
    )


def plot(report: dict[str, Any], folder: Path, stem: str) -> Path:
    """Plot the medians as ``folder/stem.png``, with a group of bars per case on a logarithmic scale; return the path."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names, cases = list(report["summary"]), list(report["cases"])
    width = 0.84 / max(len(names), 1)
    figure = Figure(
        figsize=(max(7.0, 1.5 + 0.16 * len(cases) * max(len(names), 3)), 4.6),
        layout="constrained",
    )
    axes = figure.add_subplot()
    floor = min(
        (r["min"] for results in report["cases"].values() for r in results.values() if r["status"] == "ok"),
        default=1e-3,
    )
    for number, name in enumerate(names):
        places, heights, spread = [], [], []
        for at, case in enumerate(cases):
            place = at + (number - (len(names) - 1) / 2) * width
            result = report["cases"][case].get(name, {"status": "not run"})
            if result["status"] == "ok":
                places.append(place)
                heights.append(result["median"])
                spread.append((result["median"] - result["min"], result["max"] - result["median"]))
            else:
                axes.text(
                    place,
                    floor * 0.62,
                    result["status"],
                    rotation=90,
                    ha="center",
                    va="bottom",
                    fontsize=6,
                    color="0.35",
                )
        axes.bar(places, heights, width, label=_legend(report, name), color=f"C{number % 10}")
        if places:
            ends = tuple(zip(*spread, strict=True))
            axes.errorbar(places, heights, yerr=ends, fmt="none", ecolor="0.25", elinewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor * 0.6)
    axes.set_xticks(range(len(cases)), [case.replace(", ", "\n") for case in cases])
    axes.set_ylabel("seconds (median; lines: minimum to maximum)")
    axes.set_title(report["title"], fontsize=11)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    axes.legend(
        fontsize=8,
        ncols=min(len(names), 5),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.09),
        frameon=False,
    )
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{stem}.png"
    FigureCanvasAgg(figure).print_png(target)
    return target


def _legend(report: dict[str, Any], name: str) -> str:
    summary = report["summary"][name]
    if name == report["baseline"] or "total_ratio" not in summary:
        return name
    return f"{name} (total {summary['total_ratio']:.2f}×)"
