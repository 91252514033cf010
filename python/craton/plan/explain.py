"""Shows a plan as text or as a drawing, at any stage of planning.

Each operator takes one line: what it does, its estimated rows, and whether their order is observed. An operator that several
others read is shown once and then referred to by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from craton.plan.names import printable
from craton.plan.operators import Operator, schema
from craton.plan.order import observed_order
from craton.plan.size import estimated_rows
from craton.plan.visit import readers, topological


def describe(op: Operator) -> tuple[str, str]:
    """The operator's name and its detail, which is one line."""
    return type(op).__name__, op.detail


def short(count: int) -> str:
    """A number of rows with three significant digits.

    Examples
    --------
    >>> short(12), short(1_234_567)
    ('12', '1.23 M')
    """
    for size, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {suffix}"
    return str(count)


#: Notes on an operator, one line each.
Notes = Callable[[Operator], Iterable[str]]


def no_notes(op: Operator) -> Iterable[str]:
    """No notes."""
    return ()


def explain_text(root: Operator, *, ordered: bool = True, notes: Notes = no_notes) -> str:
    """The plan as indented text, the last operator first.

    Parameters
    ----------
    root
        The plan.
    ordered
        Whether the order of the result's rows is observed.
    notes
        Further lines for an operator, shown below its own.
    """
    count = readers(root)
    seen_order = observed_order(root, ordered)
    numbers: dict[Operator, int] = {}
    lines: list[str] = []

    def visit(op: Operator, depth: int) -> None:
        indent = "  " * depth
        if op in numbers:
            lines.append(f"{indent}↑ shared #{numbers[op]}")
            return
        mark = ""
        if count[op] > 1:
            numbers[op] = len(numbers) + 1
            mark = f"#{numbers[op]} "
        name, detail = describe(op)
        order = "" if seen_order.get(op) else ", any order"
        lines.append(f"{indent}{mark}{name} {detail}  (~{short(estimated_rows(op))} rows{order})")
        lines.extend(f"{indent}  · {note}" for note in notes(op))
        for child in op.inputs:
            visit(child, depth + 1)

    visit(root, 0)
    return printable("\n".join(lines))


#: Pixels of the SVG drawing.
_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 300, 62, 30, 46


def explain_svg(root: Operator, *, ordered: bool = True, notes: Notes = no_notes) -> str:
    """The plan as an SVG drawing: the result on top, arrows in the direction of the rows; parameters as :func:`explain_text`."""
    seen_order = observed_order(root, ordered)
    corners, width, height = _layout(root)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="#556"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for op, (x, y) in corners.items():
        for child in op.inputs:
            cx, cy = corners[child]
            parts.append(
                f'<line x1="{cx + _BOX_WIDTH / 2:.0f}" y1="{cy:.0f}" x2="{x + _BOX_WIDTH / 2:.0f}" '
                f'y2="{y + _BOX_HEIGHT:.0f}" stroke="#556" stroke-width="1.4" marker-end="url(#arrow)"/>'
            )
    for op, (x, y) in corners.items():
        name, detail = describe(op)
        order = "in order" if seen_order.get(op) else "any order"
        said = list(notes(op))
        whole = "\n· ".join([f"{name} {detail}", *said])
        last = f"{len(schema(op))} columns" if not said else "· ".join(["", *said])
        parts.append(
            f"<g><title>{escape(whole)}</title>"
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
            f'fill="{_COLOURS.get(name, "#eef1f6")}" stroke="#556"/>'
            f'<text x="{x + 10:.0f}" y="{y + 19:.0f}" font-weight="bold">{name}</text>'
            f'<text x="{x + _BOX_WIDTH - 10:.0f}" y="{y + 19:.0f}" text-anchor="end" fill="#556">'
            f"~{short(estimated_rows(op))} rows, {order}</text>"
            f'<text x="{x + 10:.0f}" y="{y + 37:.0f}" font-size="11">{escape(_cut(detail, 46))}</text>'
            f'<text x="{x + 10:.0f}" y="{y + 53:.0f}" font-size="10" fill="#556">{escape(_cut(last, 52))}</text></g>'
        )
    parts.append("</svg>")
    return printable("\n".join(parts))


def _layout(root: Operator) -> tuple[dict[Operator, tuple[float, float]], int, int]:
    """The upper left corner of each operator's box, and the width and height of the drawing, in pixels."""
    depth: dict[Operator, int] = {}
    for op in topological(root):
        depth.setdefault(op, 0)
        for child in op.inputs:
            depth[child] = max(depth.get(child, 0), depth[op] + 1)
    columns: dict[Operator, float] = {}
    leaves = 0

    def place(op: Operator) -> float:
        nonlocal leaves
        if op not in columns:
            spots = [place(child) for child in op.inputs]
            columns[op] = sum(spots) / len(spots) if spots else float(leaves)
            leaves += not spots
        return columns[op]

    place(root)
    step_x, step_y = _BOX_WIDTH + _GAP_X, _BOX_HEIGHT + _GAP_Y
    corners = {op: (_GAP_X + column * step_x, float(_GAP_Y + depth[op] * step_y)) for op, column in columns.items()}
    return corners, max(leaves, 1) * step_x + _GAP_X, (max(depth.values()) + 1) * step_y + _GAP_Y


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_COLOURS = {
    "Scan": "#dcebd7",
    "Join": "#fde6cf",
    "Aggregate": "#e3dcf2",
    "Sort": "#d6e6f5",
    "Filter": "#fbf3c9",
    "Window": "#f6dfe6",
}
