"""``craton run`` and ``craton plan``: run the pipeline of a file, or show what a run would do.

::

    python -m craton run pipeline.py [--param NAME=VALUE] [--only STEP] [--from STEP] [--no-cache] [--draw FILE]
    python -m craton plan pipeline.py [--param NAME=VALUE] [--only STEP] [--from STEP] [--draw FILE]
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from craton.command import exit_status, format_bytes, table_lines
from craton.pipeline.pipeline import Pipeline, RunSettings
from craton.pipeline.runs.result import Result
from craton.pipeline.runs.scheduling import Ended
from craton.pipeline.steps.graph import did_you_mean

__all__ = ["plan", "run"]


def run(arguments: Sequence[str]) -> int:
    """Run a pipeline, and return the process's exit status: 1 if a step failed."""
    parser = _parser("run", "Run the pipeline of a Python file.")
    parser.add_argument("--no-cache", action="store_true", help="run steps whose results are in the store, too")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parsed = parser.parse_args(arguments)

    def work() -> int:
        pipeline, options = _prepared(parsed)
        if parsed.draw is not None:
            pipeline.draw(parsed.draw)
        report = None if parsed.quiet else _report
        result = pipeline.run(**options, settings=RunSettings(cache=not parsed.no_cache, check=False, report=report))
        if not parsed.quiet:
            print("\n".join(_result_lines(result)))
        for error in result.errors.values():
            print(f"\ncraton run: {error}", file=sys.stderr)
        return 1 if result.errors else 0

    return exit_status("craton run", work)


def plan(arguments: Sequence[str]) -> int:
    """Print what a run would do, and return the process's exit status."""
    parsed = _parser("plan", "Show what a run of the pipeline of a Python file would do.").parse_args(arguments)

    def work() -> int:
        pipeline, options = _prepared(parsed)
        if parsed.draw is not None:
            pipeline.draw(parsed.draw)
        frame = pipeline.plan(**options)
        rows = [[str(name), *map(str, row)] for name, row in zip(frame.index, frame.to_numpy(), strict=True)]
        print("\n".join(table_lines([["step", *frame.columns], *rows], range(len(frame.columns) + 1), "  ")))
        return 0

    return exit_status("craton plan", work)


def _parser(command: str, text: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"craton {command}", description=text)
    parser.add_argument("file", metavar="FILE", help="a Python file with steps and sources, or with a pipeline")
    parser.add_argument("--pipeline", metavar="NAME", help="the variable of the pipeline, if the file has several")
    parser.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter; NAME may be STEP.NAME"
    )
    parser.add_argument("--only", action="append", metavar="STEP", help="run only this step and what it needs")
    parser.add_argument(
        "--from", dest="start", action="append", metavar="STEP", help="run this step and all that need it again"
    )
    parser.add_argument("--draw", metavar="FILE", help="draw the graph into a file, .svg or .png")
    return parser


def _prepared(parsed: argparse.Namespace) -> tuple[Pipeline, dict[str, Any]]:
    """The pipeline of a command, and the arguments for it."""
    pipeline = _pipeline_of(_load(Path(parsed.file)), parsed.pipeline)
    parameters = dict(_parameter(pipeline, text) for text in parsed.param)
    return pipeline, {"only": parsed.only, "start": parsed.start, "parameters": parameters}


def _load(path: Path) -> ModuleType:
    """The file as a module, whose folder can be imported from, as that of a script."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _pipeline_of(module: ModuleType, wanted: str | None) -> Pipeline:
    found = {name: one for name, one in vars(module).items() if isinstance(one, Pipeline)}
    if wanted is not None:
        if wanted not in found:
            raise ValueError(f"{module.__file__} has no pipeline {wanted!r}{did_you_mean(wanted, found)}")
        return found[wanted]
    if len(set(map(id, found.values()))) > 1:
        raise ValueError(f"{module.__file__} has several pipelines; choose one: --pipeline {' | '.join(found)}")
    return next(iter(found.values())) if found else Pipeline(module)


def _parameter(pipeline: Pipeline, text: str) -> tuple[str, Any]:
    """A parameter of the command line, in the type of its annotation or default."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--param {text}: write NAME=VALUE")
    return name, _READERS.get(pipeline.parameter_kind(name), _literal)(value)


#: Characters of a name in a line of progress.
_MOST_NAME = 60


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1", "yes")


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


_READERS: dict[type | None, Callable[[str], Any]] = {str: str, int: int, float: float, bool: _boolean}


def _report(name: str, ended: Ended) -> None:
    """Print a line for a part of a run that has ended."""
    name = name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"
    if ended.state == "skipped":
        print(f"  {name}: skipped, because {ended.because} failed", flush=True)
    else:
        print(f"  {name}: {ended.state} in {ended.seconds:.2f} s", flush=True)


def _result_lines(result: Result) -> list[str]:
    heads = ["step", "kind", "state", "rows", "size", "new", "copied", "shared", "seconds"]
    rows = [
        [
            one.name,
            one.kind,
            one.state,
            f"{one.rows:,}",
            *(format_bytes(size) for size in (one.nbytes, one.new, one.copied, one.shared)),
            f"{one.seconds:.2f}",
        ]
        for one in result.records.values()
    ]
    total = f"{format_bytes(result.bytes_new)} new, {format_bytes(result.bytes_copied)} copied, {format_bytes(result.bytes_shared)} shared"
    return ["", *table_lines([heads, *rows], range(3), "  "), f"{total}, in {result.seconds:.2f} s"]
