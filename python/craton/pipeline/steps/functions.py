"""A function of a pipeline, as its signature, its decorator and its place in a file describe it."""

from __future__ import annotations

import builtins
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

from craton.pipeline.steps.definition import ExpectOptions, StepOptions, options_of
from craton.pipeline.steps.forms import form_named
from craton.pipeline.steps.inputs import Input
from craton.pipeline.tasks import Form
from craton.records import dataclass

__all__ = ["REQUIRED", "Place", "Step", "describe_function"]

#: The default of a parameter that has none.
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Place:
        """The first line of a function: of its decorators, if it has any."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        return cls("<unknown>", 0) if code is None else cls(_short(code.co_filename), code.co_firstlineno)


def _short(file: str) -> str:
    """A path relative to the working directory, if it is below it."""
    below = os.path.relpath(file) if os.path.isabs(file) else file
    return file if below.startswith("..") else below


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step or a check of a pipeline.

    Parameters
    ----------
    name
        Unique in the pipeline.
    function
        The user's function.
    options
        What its decorator was given.
    inputs
        For each positional parameter, what it takes; the name is always set.
    forms
        The form in which a parameter takes its table, if it says so.
    parameters
        The default of each keyword-only parameter, :data:`REQUIRED` if it has none.
    kinds
        The class of each keyword-only parameter, if its annotation or its default says so.
    place
        Where it is.
    problems
        What is wrong with it.
    """

    name: str
    function: Callable[..., Any]
    options: StepOptions | ExpectOptions
    inputs: Mapping[str, Input]
    forms: Mapping[str, Form]
    parameters: Mapping[str, Any]
    kinds: Mapping[str, type]
    place: Place
    problems: tuple[str, ...] = ()

    @property
    def kind(self) -> Literal["step", "check"]:
        """Whether it makes a table or checks some."""
        return "step" if isinstance(self.options, StepOptions) else "check"

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its tables, if it declares several."""
        return self.options.outputs if isinstance(self.options, StepOptions) else ()


def describe_function(function: Callable[..., Any]) -> Step:
    """A function as a step. What is wrong with it is in `problems`, so that all problems of a pipeline can be reported together."""
    options = options_of(function) or StepOptions()
    name = str(options.name or getattr(function, "__name__", ""))
    problems = []
    inputs: dict[str, Input] = {}
    forms: dict[str, Form] = {}
    parameters: dict[str, Any] = {}
    kinds: dict[str, type] = {}
    for parameter in inspect.signature(function).parameters.values():
        annotation = _annotation(function, parameter.annotation)
        if parameter.kind is parameter.KEYWORD_ONLY:
            parameters[parameter.name] = parameter.default
            kind = annotation if isinstance(annotation, type) else type(parameter.default)
            if kind not in (type(None), type):
                kinds[parameter.name] = kind
            continue
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            problems.append(f"the parameter {str(parameter)!r} names no table; write a parameter for each input")
            continue
        if parameter.default is not REQUIRED:
            problems.append(
                f"the parameter {parameter.name!r} has a default, so it names no table; write it after `*`, as in "
                f"def {name}(…, *, {parameter.name}={parameter.default!r})"
            )
            continue
        given = options.inputs.get(parameter.name, Input())
        inputs[parameter.name] = Input(given.of or parameter.name, given.columns, given.where)
        form = form_named(annotation) or options.takes
        if form is not None:
            forms[parameter.name] = form
    if not name.replace("_", "a").isidentifier():
        problems.append(f"{name!r} is no name that a parameter can have; give one: @craton.step(name=…)")
    for unknown in sorted(set(options.inputs) - set(inputs)):
        problems.append(
            f"inputs= names {unknown!r}, which is no positional parameter; they are {', '.join(inputs) or 'none'}"
        )
    if isinstance(options, StepOptions):
        problems += _problems_of_options(options, inputs)
    elif not inputs:
        problems.append("it takes no table to check")
    return Step(name, function, options, inputs, forms, parameters, kinds, Place.of(function), tuple(problems))


def _problems_of_options(options: StepOptions, inputs: Mapping[str, Input]) -> list[str]:
    problems = []
    if not inputs and not options.source:
        problems.append("it has no inputs; if it reads its table from elsewhere, say so: @craton.step(source=True)")
    if inputs and options.source:
        problems.append("source=True is for functions without inputs")
    if options.map_over is not None and options.map_over not in inputs:
        problems.append(
            f"map_over names {options.map_over!r}, which is no input; they are {', '.join(inputs) or 'none'}"
        )
    if options.map_over is not None and options.outputs:
        problems.append("a function that is called for each partition returns one table; leave outputs= out")
    if options.outputs and (
        options.persist is not None or options.to_parquet is not None or options.schema is not None
    ):
        problems.append("persist=, to_parquet= and schema= are for functions that return one table; leave outputs= out")
    return problems


def _annotation(function: Callable[..., Any], given: Any) -> Any:
    """An annotation as an object; None if it cannot be evaluated."""
    if not isinstance(given, str):
        return given
    inner = inspect.unwrap(function)
    try:
        return eval(given, {**vars(builtins), **getattr(inner, "__globals__", {})})
    except Exception:  # a name that exists for type checkers only
        return None
