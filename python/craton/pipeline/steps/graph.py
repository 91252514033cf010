"""The graph of a pipeline: its steps, checks and sources by name, and which takes what. Checked before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from craton.errors import CratonError
from craton.pipeline.sources.base import TableSource, source_of
from craton.pipeline.steps.definition import ExpectOptions, StepOptions, options_of
from craton.pipeline.steps.functions import REQUIRED, Step, describe_function
from craton.records import dataclass

__all__ = ["InvalidPipeline", "StepGraph", "build_graph"]


class InvalidPipeline(CratonError, ValueError):
    """A pipeline cannot run as it is. Nothing of it has run.

    Parameters
    ----------
    problems
        What is wrong, with the step's name and its line.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n".join([f"the pipeline has {len(self.problems)} problems:", *(f"- {one}" for one in self.problems)])


@dataclass(frozen=True, slots=True, eq=False)
class StepGraph:
    """The steps, checks and sources of a pipeline.

    Parameters
    ----------
    steps
        Steps and checks by name, each after those whose tables it takes.
    sources
        Sources by name.
    producers
        For the name of each table that a step can take: the step or source, and which of its tables.
    gates
        For each step, the checks that must pass before it runs.
    """

    steps: Mapping[str, Step]
    sources: Mapping[str, TableSource]
    producers: Mapping[str, tuple[str, str | None]]
    gates: Mapping[str, frozenset[str]]

    def producer(self, reference: str) -> tuple[str, str | None]:
        """The step or source that a reference such as ``"split.train"`` names, and which of its tables."""
        if reference in self.producers:
            return self.producers[reference]
        name, _, output = reference.partition(".")
        return name, output or None

    def before(self, name: str) -> set[str]:
        """The steps and sources whose tables a step takes, and the checks that must pass before it runs."""
        if name in self.sources:
            return set()
        return {self.producer(str(one.of))[0] for one in self.steps[name].inputs.values()} | self.gates.get(
            name, frozenset()
        )

    def ancestors(self, names: Iterable[str]) -> set[str]:
        """These steps, and all that they need."""
        return _reached(names, self.before)

    def descendants(self, names: Iterable[str]) -> set[str]:
        """These steps, and all that need them."""
        after: dict[str, set[str]] = {}
        for name in self.steps:
            for other in self.before(name):
                after.setdefault(other, set()).add(name)
        return _reached(names, lambda name: after.get(name, set()))

    def parameters(self) -> dict[str, list[str]]:
        """The names of all parameters, and the steps that have them."""
        found: dict[str, list[str]] = {}
        for step in self.steps.values():
            for parameter in step.parameters:
                found.setdefault(parameter, []).append(step.name)
        return found


def _reached(names: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following(name)
    return found


def build_graph(parts: Any, sources: Mapping[str, Any]) -> StepGraph:
    """Build the graph of functions, modules and sources.

    Raises
    ------
    InvalidPipeline
        If it cannot run.
    """
    steps, origins = _collect(parts, sources)
    problems = [f"{step.place}: {step.kind} {step.name!r}: {text}" for step in steps for text in step.problems]
    problems += _twice(steps, origins)
    named = {step.name: step for step in steps}
    producers = _producers(named, origins)
    draft = StepGraph(named, origins, producers, {})
    for step in steps:
        problems += _missing(step, draft)
    if not problems:
        problems += _cycles(draft)
    if problems:
        raise InvalidPipeline(problems)
    ordered = {name: named[name] for name in _order(draft)}
    gates = _gates(StepGraph(ordered, origins, producers, {}))
    made = StepGraph(ordered, origins, producers, gates)
    return StepGraph({name: named[name] for name in _order(made)}, origins, producers, gates)


# ---- the parts ----


def _collect(parts: Any, sources: Mapping[str, Any]) -> tuple[list[Step], dict[str, TableSource]]:
    """The steps of functions and modules, and the sources by name."""
    steps: dict[int, Step] = {}
    origins: list[tuple[str, TableSource]] = []
    for part in [parts] if isinstance(parts, (ModuleType, FunctionType)) else list(parts):
        for name, one in _expanded(part):
            if isinstance(one, TableSource):
                origins.append((one.name or name, one))
            else:
                steps.setdefault(id(one), describe_function(one))
    origins += [(name, source_of(one)) for name, one in sources.items()]
    found: dict[str, TableSource] = {}
    problems = []
    for name, one in origins:
        if not name:
            problems.append(f"{one.place}: {one!r} has no name; give one: name=…, or Pipeline(…, sources={{name: …}})")
        elif found.setdefault(name, one) is not one:
            problems.append(f"{one.place}: there are two sources {name!r}; the other one is at {found[name].place}")
    if problems:
        raise InvalidPipeline(problems)
    return list(steps.values()), found


def _expanded(part: Any) -> Iterator[tuple[str, Any]]:
    """The functions and sources of a part of a pipeline, with the names that they have there."""
    if isinstance(part, ModuleType):
        for name, one in vars(part).items():
            if isinstance(one, TableSource) or (isinstance(one, FunctionType) and options_of(one) is not None):
                yield name, one
    elif isinstance(part, (TableSource, FunctionType)) or (callable(part) and hasattr(part, "__wrapped__")):
        yield "", part
    else:
        raise TypeError(
            f"a pipeline is made of functions, modules and sources, not {type(part).__name__}; "
            "name tables in memory: Pipeline(…, sources={name: table})"
        )


def _producers(steps: Mapping[str, Step], sources: Mapping[str, TableSource]) -> dict[str, tuple[str, str | None]]:
    found: dict[str, tuple[str, str | None]] = {name: (name, None) for name in sources}
    for step in steps.values():
        if step.kind == "step":
            found.setdefault(step.name, (step.name, None))
            for output in step.outputs:
                found.setdefault(output, (step.name, output))
    return found


# ---- problems ----


def _twice(steps: Sequence[Step], sources: Mapping[str, TableSource]) -> list[str]:
    """Names that two have."""
    problems = []
    seen: dict[str, str] = {name: f"the source at {one.place}" for name, one in sources.items()}
    for step in steps:
        for name in (step.name, *step.outputs):
            if name in seen:
                problems.append(f"{step.place}: {step.kind} {step.name!r}: {seen[name]} has the name {name!r}, too")
            else:
                seen[name] = f"the {step.kind} at {step.place}"
    return problems


def _missing(step: Step, graph: StepGraph) -> Iterator[str]:
    """Inputs that no step and no source makes, and columns that a source or a step does not have."""
    for parameter, wanted in step.inputs.items():
        name, output = graph.producer(str(wanted.of))
        where = f"{step.place}: {step.kind} {step.name!r}: the input {parameter!r}"
        other = graph.steps.get(name)
        if other is not None and other.kind == "check":
            yield f"{where} is the check {name!r}, which makes no table"
        elif other is None and name not in graph.sources:
            known = [*graph.sources, *(one for one in graph.producers if one not in graph.sources and one != step.name)]
            yield f"{where} is no step and no source{did_you_mean(str(wanted.of), known) or _listed(known)}"
        elif output is not None and (other is None or (other.outputs and output not in other.outputs)):
            known = list(other.outputs) if other is not None else []
            yield f"{where}: {name!r} makes no table {output!r}{did_you_mean(output, known)}"
        else:
            yield from (f"{where}: {text}" for text in _missing_columns(wanted.columns, name, output, graph))


def _missing_columns(columns: Sequence[str] | None, name: str, output: str | None, graph: StepGraph) -> Iterator[str]:
    if columns is None:
        return
    if name in graph.sources:
        known = graph.sources[name].column_names()
    else:
        options = graph.steps[name].options
        schema = options.schema if isinstance(options, StepOptions) and output is None else None
        known = None if schema is None else [column for column, _ in schema]
    if known is None:
        return
    for column in columns:
        if column not in known:
            yield f"{name!r} has no column {column!r}{did_you_mean(column, known)}"


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question about the most similar name; empty if none is similar.

    >>> did_you_mean("oders", ["orders", "customers"])
    "; did you mean 'orders'?"
    """
    close = difflib.get_close_matches(given, list(known), 1, 0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _listed(known: Sequence[str]) -> str:
    return (
        f"; there are {', '.join(known)}"
        if known
        else "; there are none; sources are given as Pipeline(…, sources={name: …})"
    )


def _cycles(graph: StepGraph) -> list[str]:
    """A cycle of the graph, with the line of each of its steps."""
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done or name in graph.sources:
            return None
        path.append(name)
        for other in sorted(graph.before(name)):
            found = visit(other)
            if found is not None:
                return found
        path.pop()
        done.add(name)
        return None

    for name in graph.steps:
        found = visit(name)
        if found is not None:
            around = list(reversed(found))  # in the direction of the tables
            lines = ", ".join(f"{one!r} at {graph.steps[one].place}" for one in around[:-1])
            return [f"the steps take each other's tables in a cycle: {' → '.join(around)} ({lines})"]
    return []


# ---- order ----


def _order(graph: StepGraph) -> list[str]:
    """The names of the steps, each after those that it needs, otherwise as they were given."""
    done: list[str] = []
    seen: set[str] = set()
    places = {name: number for number, name in enumerate(graph.steps)}

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        for other in sorted(graph.before(name) & places.keys(), key=places.__getitem__):
            visit(other)
        done.append(name)

    for name in graph.steps:
        visit(name)
    return done


def _gates(graph: StepGraph) -> dict[str, frozenset[str]]:
    """For each step the checks on its inputs that must pass first.

    A check may itself need what a step makes of its input. Such a step does not wait for the check.
    """
    gates: dict[str, frozenset[str]] = {}
    for check in graph.steps.values():
        if not isinstance(check.options, ExpectOptions) or check.options.action != "stop":
            continue
        checked = {graph.producer(str(one.of))[0] for one in check.inputs.values()}
        for step in graph.steps.values():
            takes = {graph.producer(str(one.of))[0] for one in step.inputs.values()}
            gated = StepGraph(graph.steps, graph.sources, graph.producers, gates)
            if step.kind == "step" and takes & checked and step.name not in gated.ancestors([check.name]):
                gates[step.name] = gates.get(step.name, frozenset()) | {check.name}
    return gates


def check_parameters(graph: StepGraph, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of each step: what is given for the step (``"step.name"``) or for all steps (``"name"``), and the defaults.

    Raises
    ------
    InvalidPipeline
        If one is unknown, or one without a default is missing.
    """
    problems = []
    known = graph.parameters()
    for name in given:
        step, dot, parameter = name.rpartition(".")
        if not dot and name in known:
            continue
        if dot and step in known.get(parameter, ()):
            continue
        names = [*known, *(f"{one}.{parameter}" for parameter, steps in known.items() for one in steps)]
        text = f"no step has a parameter {name!r}{did_you_mean(name, names)}"
        problems.append(f"{text}; parameters are {', '.join(known) or 'none: write them after `*` in a function'}")
    made: dict[str, dict[str, Any]] = {}
    for one in graph.steps.values():
        made[one.name] = {}
        for parameter, default in one.parameters.items():
            value = given.get(f"{one.name}.{parameter}", given.get(parameter, default))
            if value is REQUIRED:
                problems.append(
                    f"{one.place}: {one.kind} {one.name!r}: the parameter {parameter!r} has no default; "
                    f"give a value: run(parameters={{{parameter!r}: …}})"
                )
            made[one.name][parameter] = value
    if problems:
        raise InvalidPipeline(problems)
    return made
