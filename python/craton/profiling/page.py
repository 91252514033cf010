"""A profile as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from craton.profiling.activity import STAGES, stage_row

if TYPE_CHECKING:
    from craton.pandas.explain import Drawing
    from craton.profiling.recording import Profile


def page(report: Profile) -> str:
    """Return the page of a profile: the summary, and in a session with workers its tasks, memory and stages."""
    first = str(report).partition("\n")[0]
    parts = [
        f"<p>{escape(first.partition(': ')[2])}</p>",
        *_chart_or_nothing(report.plot_tasks),
        *_chart_or_nothing(report.plot_memory),
    ]
    if stages := report._activity.stages():
        parts.append(_table("Stages", STAGES, [stage_row(stage) for stage in stages]))
    summary = report.summary().to_html(index=False, na_rep="", float_format="{:.4f}".format, border=0)
    return html_document("Craton profile", "\n".join([*parts, "<h2>Calls</h2>", summary]))


def _chart_or_nothing(plot: Callable[[], Drawing]) -> list[str]:
    """Return a chart as a list of one, or an empty list if there is nothing to draw."""
    try:
        return [str(plot())]
    except ValueError:
        return []


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<h2>{escape(title)}</h2>\n<table>\n<thead>{line(head, 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def html_document(title: str, body: str) -> str:
    """Return an HTML page with this title and body."""
    return PAGE.format(title=escape(title), body=body)


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }}
h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
svg {{ max-width: 100%; height: auto; display: block; margin: 1rem 0; font-family: system-ui, sans-serif; }}
table {{ border-collapse: collapse; font-size: 0.9rem; }}
th, td {{ text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid #e3e6ea;
  font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
