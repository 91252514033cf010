"""The graph of a pipeline as a drawing: sources on top, each step below what it takes."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from craton.command import format_bytes
from craton.pipeline.steps.definition import ExpectOptions
from craton.pipeline.steps.graph import StepGraph
from craton.records import dataclass

__all__ = ["Drawing", "draw_graph"]

#: Pixels.
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 58, 28, 46, 16
#: Rounds in which the boxes of a layer are moved towards those that they are connected with.
_ROUNDS = 8

_FILL = {"source": "#dcebd7", "step": "#dbe7f6", "check": "#fbf3c9"}
_STROKE = {"failed": "#c0392b", "skipped": "#b0b4bd", "warned": "#d68910", "cached": "#5b8c5a"}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing, which notebooks show.

    Parameters
    ----------
    text
        SVG.
    """

    text: str

    def _repr_svg_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Drawing of {len(self.text):,} characters of SVG>"


def draw_graph(graph: StepGraph, path: str | None = None, records: Mapping[str, Any] | None = None) -> Drawing:
    """Draw a graph, and write the drawing to a file.

    Parameters
    ----------
    graph
        The graph.
    path
        A file to write, ``.svg`` or ``.png``.
    records
        What the steps did, by name, which the boxes then show.

    Raises
    ------
    ValueError
        If the path has another suffix.
    ImportError
        If a PNG is wanted and cairosvg is not installed.
    """
    drawing = Drawing(_svg(graph, records or {}))
    if path is not None:
        suffix = Path(path).suffix.lower()
        if suffix == ".png":
            Path(path).write_bytes(_png(drawing.text))
        elif suffix == ".svg":
            Path(path).write_text(drawing.text + "\n", encoding="utf-8")
        else:
            raise ValueError(f"a drawing is written as .svg or .png, not as {path!r}")
    return drawing


def _png(text: str) -> bytes:
    try:
        cairosvg: Any = importlib.import_module("cairosvg")
    except ImportError:
        raise ImportError("drawing a PNG needs the library cairosvg; install it, or write an .svg") from None
    made: bytes = cairosvg.svg2png(bytestring=text.encode(), scale=2)
    return made


# ---- layout ----


def _svg(graph: StepGraph, records: Mapping[str, Any]) -> str:
    edges = [(other, name) for name in graph.steps for other in sorted(_inputs(graph, name))]
    layers, chains = _layers([*graph.sources, *graph.steps], edges)
    _sort(layers, chains)
    spots = _spots(layers, chains)
    width = max((x + _width(one) for one, (x, _) in spots.items()), default=0) + _MARGIN
    height = len(layers) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L10 5 L0 10 z" fill="#556"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height}" fill="white"/>',
    ]
    lines += [_edge(chain, spots, graph) for chain in chains]
    lines += [_box(name, *spots[name], graph, records.get(name)) for name in (*graph.sources, *graph.steps)]
    return "\n".join([*lines, "</svg>"])


def _inputs(graph: StepGraph, name: str) -> set[str]:
    return {graph.producer(str(one.of))[0] for one in graph.steps[name].inputs.values()}


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> tuple[list[list[Any]], list[list[Any]]]:
    """The boxes of each layer, and the path of each edge, which has a place in every layer that it crosses."""
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for start, end in edges:
            depth[end] = max(depth[end], depth[start] + 1)
    first = {start: min(depth[end] for at, end in edges if at == start) for start, _ in edges}
    entered = {end for _, end in edges}
    for name in names:  # a source is drawn just above the first step that takes it
        if name not in entered and name in first:
            depth[name] = first[name] - 1
    layers: list[list[Any]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for name in names:
        layers[depth[name]].append(name)
    chains = []
    for start, end in edges:
        passed = [(start, end, level) for level in range(depth[start] + 1, depth[end])]
        for place in passed:
            layers[place[2]].append(place)
        chains.append([start, *passed, end])
    return layers, chains


def _sort(layers: list[list[Any]], chains: list[list[Any]]) -> None:
    """Order each layer by the mean position of what its boxes are connected with, down and up in turn."""
    above: dict[Any, list[Any]] = {}
    below: dict[Any, list[Any]] = {}
    for chain in chains:
        for upper, lower in itertools.pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    for number in range(_ROUNDS):
        near, order = (above, layers) if number % 2 == 0 else (below, layers[::-1])
        for fixed, layer in itertools.pairwise(order):
            places = {one: place for place, one in enumerate(fixed)}
            own = {one: place for place, one in enumerate(layer)}

            def mean(
                one: Any, places: dict[Any, int] = places, own: dict[Any, int] = own, near: dict[Any, Any] = near
            ) -> float:
                known = [places[other] for other in near.get(one, ()) if other in places]
                return sum(known) / len(known) if known else own[one]

            layer.sort(key=mean)


def _spots(layers: list[list[Any]], chains: list[list[Any]]) -> dict[Any, tuple[float, float]]:
    """The upper left corner of each box, and of each place through which an edge passes."""
    total = [sum(_width(one) + _GAP_X for one in layer) - _GAP_X for layer in layers]
    spots = {}
    for level, layer in enumerate(layers):
        x = _MARGIN + (max(total) - total[level]) / 2
        for one in layer:
            spots[one] = (x, float(_MARGIN + level * (_HEIGHT + _GAP_Y)))
            x += _width(one) + _GAP_X
    return spots


def _width(one: Any) -> int:
    """Pixels of a box, or of the place through which an edge passes."""
    return _WIDTH if isinstance(one, str) else 24


# ---- shapes ----


def _edge(chain: list[Any], spots: Mapping[Any, tuple[float, float]], graph: StepGraph) -> str:
    """A smooth line along a path, downwards."""
    x, y = spots[chain[0]]
    at = (x + _WIDTH / 2, y + _HEIGHT)
    path = [f"M{at[0]:.0f} {at[1]:.0f}"]
    for one in chain[1:]:
        x, y = spots[one]
        to = (x + _width(one) / 2, y)
        bend = (to[1] - at[1]) / 2
        path.append(f"C{at[0]:.0f} {at[1] + bend:.0f} {to[0]:.0f} {to[1] - bend:.0f} {to[0]:.0f} {to[1]:.0f}")
        at = to
        if not isinstance(one, str):
            at = (to[0], to[1] + _HEIGHT)
            path.append(f"L{at[0]:.0f} {at[1]:.0f}")
    dashed = ' stroke-dasharray="5 4"' if graph.steps[chain[-1]].kind == "check" else ""
    return f'<path d="{" ".join(path)}" fill="none" stroke="#556" stroke-width="1.4"{dashed} marker-end="url(#arrow)"/>'


def _box(name: str, x: float, y: float, graph: StepGraph, record: Any) -> str:
    kind = "source" if name in graph.sources else graph.steps[name].kind
    detail, place = _detail(name, graph)
    stroke = "#556"
    if record is not None:
        stroke = _STROKE.get(record.state, stroke)
        size = f"{record.rows:,} rows, {format_bytes(record.nbytes)}" if kind != "check" and record.rows else ""
        detail = "; ".join(filter(None, (record.state if record.state != "ran" else "", size))) or detail
    whole = "\n".join(filter(None, (f"{kind} {name}", detail, str(place), getattr(record, "reason", ""))))
    top = y + (24 if detail else 34)
    radius = {"source": 22, "step": 6, "check": 0}[kind]
    return (
        f"<g><title>{escape(whole)}</title>"
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" fill="{_FILL[kind]}" '
        f'stroke="{stroke}" stroke-width="{1 if stroke == "#556" else 2.5}"/>'
        f'<text x="{x + _WIDTH / 2:.0f}" y="{top:.0f}" text-anchor="middle" font-weight="bold">{escape(_cut(name, 24))}</text>'
        f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 43:.0f}" text-anchor="middle" font-size="11" fill="#445">{escape(_cut(detail, 32))}</text>'
        "</g>"
    )


def _detail(name: str, graph: StepGraph) -> tuple[str, Any]:
    """A line for a box, and the line of the program."""
    if name in graph.sources:
        source = graph.sources[name]
        return source.detail(), source.place
    step = graph.steps[name]
    options = step.options
    if isinstance(options, ExpectOptions):
        return "warns" if options.action == "warn" else "stops", step.place
    parts = [] if options.map_over is None else [f"for each part of {options.map_over}"]
    parts += [
        f"{parameter}={default!r}"
        for parameter, default in step.parameters.items()
        if isinstance(default, (int, float, str))
    ]
    return ", ".join(parts), step.place


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
