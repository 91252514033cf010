"""Draws a report as a heat map with one cell per call, coloured by its time relative to pandas' time."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

from bench.harness.measure import Report

__all__ = ["draw"]

#: The ratios at the ends of the colour scale: a hundred times faster, and ten times slower.
LEAST, MOST = 0.01, 10.0


def draw(report: Report, target: Path, names: tuple[str, ...] | None = None) -> Path:
    """Write the heat map as an image, and return its path.

    Parameters
    ----------
    report : dict
        A report whose cases are named ``family: call``.
    target : path
        The image file to write.
    names : tuple of str, optional
        The contestants; by default all but pandas.
    """
    pyplot = importlib.import_module("matplotlib.pyplot")
    colors = importlib.import_module("matplotlib.colors")
    families = _families(report)
    names = names or tuple(name for name in report["summary"] if name != "pandas")
    width = max(map(len, families.values()))
    figure, axes = pyplot.subplots(
        len(names),
        1,
        figsize=(1.15 * width, 0.62 * len(families) * len(names) + 1),
        squeeze=False,
        layout="constrained",
    )
    scale = colors.TwoSlopeNorm(0.0, math.log10(LEAST), math.log10(MOST))
    for name, axis in zip(names, axes[:, 0], strict=True):
        for line, (family, calls) in enumerate(families.items()):
            for place, (call, results) in enumerate(calls):
                ratio = _ratio(results, name)
                shade = "white" if ratio is None else pyplot.cm.RdYlGn_r(scale(_bounded(ratio)))
                axis.add_patch(pyplot.Rectangle((place, line), 0.98, 0.94, color=shade))
                text = "–" if ratio is None else f"{ratio:.2g}"
                axis.text(place + 0.49, line + 0.34, call[:20], ha="center", va="center", fontsize=6)
                axis.text(place + 0.49, line + 0.68, text, ha="center", va="center", fontsize=7, weight="bold")
            axis.text(-0.1, line + 0.5, family, ha="right", va="center", fontsize=8)
        axis.set_xlim(0, width)
        axis.set_ylim(len(families), 0)
        axis.axis("off")
        axis.set_title(f"{name}: seconds divided by pandas' seconds; {report['title'].lower()}", fontsize=9, loc="left")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    pyplot.close(figure)
    return target


def _families(report: Report) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for case, results in report["cases"].items():
        family, _, call = case.partition(": ")
        if call:
            found.setdefault(family, []).append((call, results))
    return found


def _ratio(results: dict[str, Any], name: str) -> float | None:
    ours, theirs = results.get(name, {}), results.get("pandas", {})
    return ours["median"] / theirs["median"] if "median" in ours and "median" in theirs else None


def _bounded(ratio: float) -> float:
    return min(max(math.log10(ratio), math.log10(LEAST)), math.log10(MOST))
