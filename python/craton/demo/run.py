"""The demo's command line: TPC-H data, 22 queries under pandas and under Craton, a comparison, a table, a report."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas

from craton.demo import data, report
from craton.demo.measure import Contestant, QueryResult, measure, totals, warm_up
from craton.demo.queries import QUERIES
from craton.fallbacks import explain_fallbacks
from craton.memory import clear_memory

NEEDED = ("matplotlib", "rich")
"""Modules that the demo imports beyond Craton's own dependencies."""

BYTES_A_SCALE = 3.3e9
"""Bytes of memory that pandas needs for the queries per unit of the scale factor; measured at scale factor 1."""


def main(argv: Sequence[str] | None = None, *, engine: Any = None) -> int:
    """Run the demo.

    Parameters
    ----------
    argv
        The arguments, by default those of the process.
    engine
        The pandas-like module to compare with pandas, by default `craton.pandas`.

    Returns
    -------
    int
        The exit status: 0 if all results are equal, 1 if a query differs or failed, 2 if the demo could not
        start, 130 if it was interrupted.
    """
    options = _parse(argv)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"the demo needs {' and '.join(missing)}, which {sys.executable} does not have; "
            f"install it with: pip install 'craton[demo]'",
            file=sys.stderr,
        )
        return 2
    try:
        return _run(options, engine)
    except KeyboardInterrupt:
        print("\ninterrupted; no report was written", file=sys.stderr)
        return 130
    except (OSError, RuntimeError, ValueError) as error:
        print(f"the demo could not run: {error}", file=sys.stderr)
        return 2


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m craton demo",
        description="Run the 22 TPC-H queries, written in pandas, under pandas and under Craton; compare and report.",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default: 1)")
    parser.add_argument("--queries", type=_queries, default=list(QUERIES), help="such as 1,6 or 1-5 (default: all)")
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="runs of each query; medians are shown (default: 3)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/demo"),
        metavar="DIR",
        help="folder for the report (default: build/demo)",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data (default: build/tpch/sf<scale>)")
    options = parser.parse_args(argv)
    if options.repeat < 1:
        parser.error(f"--repeat is {options.repeat}; give a number of at least 1")
    if not options.scale > 0:
        parser.error(f"--scale is {options.scale:g}; give a number above 0, such as 0.1, 1 or 10")
    return options


def _queries(text: str) -> list[str]:
    """Turn `1,6-8` into names of queries, in the order of the specification.

    Examples
    --------
    >>> _queries("6-8,1")
    ['q01', 'q06', 'q07', 'q08']
    """
    chosen: set[int] = set()
    for piece in text.split(","):
        first, dash, last = piece.strip().lower().replace("q", "").partition("-")
        try:
            chosen.update(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{piece!r} is not a query; give numbers such as 1,6 or 1-5") from None
    names = [f"q{number:02}" for number in sorted(chosen)]
    unknown = [name for name in names if name not in QUERIES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r} has unknown queries or none; give numbers from 1 to {len(QUERIES)}")
    return names


def _run(options: argparse.Namespace, engine: Any) -> int:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    contestants = Contestant("pandas", pandas), _craton(engine)
    memory = report.memory_bytes()
    if 0 < memory < options.scale * BYTES_A_SCALE:
        console.print(
            f"pandas needs about {options.scale * BYTES_A_SCALE / 1e9:.0f} GB of memory at this scale and the machine "
            f"has {memory / 1e9:.0f} GB: the demo may be killed; try a smaller --scale"
        )
    folder = _data(options, console)
    runs = "one run" if options.repeat == 1 else f"medians of {options.repeat} runs"
    console.print(f"TPC-H, scale factor {options.scale:g}, {runs}, reading included\n\n{report.heading()}")
    outcomes: list[QueryResult] = []
    with _progress(console, 2 * options.repeat * len(options.queries)) as step:
        step("warming up", 0)
        warm_up(folder, contestants)

        def announce(query: str, who: str, run: int) -> None:
            step(f"{query} under {who}" + (f", run {run} of {options.repeat}" if options.repeat > 1 else ""), 1)

        for outcome in measure(options.queries, folder, *contestants, repeat=options.repeat, announce=announce):
            outcomes.append(outcome)
            console.print(report.line(outcome))
    for text in report.summary_lines(totals(outcomes)):
        console.print(text)
    fallbacks = report.fallback_line(outcomes)
    if fallbacks is not None:
        console.print(fallbacks)
    bad = [outcome for outcome in outcomes if not outcome.equal]
    if bad:
        console.print("\nNot equal:")
        for outcome in bad:
            console.print(f"  {outcome.query}  {outcome.problem}")
    files = report.write(outcomes, report.setting(options.scale, options.repeat), options.out)
    console.print(f"\nchart    {files.chart}\nreport   {files.page}\nfigures  {files.results}")
    return 1 if bad else 0


def _craton(engine: Any) -> Contestant:
    """Return Craton, or the given engine, as a contestant; Craton's remembered results are dropped between runs."""
    if engine is None:
        engine = importlib.import_module("craton.pandas")
        return Contestant("Craton", engine, clear_memory, lambda: int(explain_fallbacks()["count"].sum()))
    return Contestant("Craton", engine)


def _data(options: argparse.Namespace, console: Any) -> Path:
    """Return the folder of the data; generate it, with progress output, if it is not complete."""
    folder = options.data if options.data is not None else data.folder_for(options.scale)
    if data.is_complete(folder, options.scale):
        console.print(f"data: {folder} (from an earlier run)")
        return Path(folder)
    console.print(f"making TPC-H data of scale factor {options.scale:g} in {folder}")
    with _progress(console, len(data.TABLES)) as step:

        def show(label: str, done: int, total: int) -> None:
            if total == 0:
                step(f"{label}: {done / 1e6:,.0f} MB", 0)
            elif done < total:
                step(f"converting {label}: {done:,} of {total:,} rows", 0)
            else:
                step(f"converted {label}", 1)
                console.print(f"  {label:<9} {total:>13,} rows")

        return data.ensure(options.scale, folder, report=show)


@contextlib.contextmanager
def _progress(console: Any, total: int) -> Iterator[Any]:
    """Show a progress bar in a terminal while the block runs; yield a function that takes a label and the steps to advance."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    # Refresh rarely: the bar is drawn by a thread of the process that is being measured.
    with Progress(
        *columns, console=console, transient=True, refresh_per_second=4, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("starting", total=total)

        def step(label: str, steps: int) -> None:
            bar.update(task, description=label, advance=steps)

        yield step
