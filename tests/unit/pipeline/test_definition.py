"""Functions with ``@craton.step`` and ``@craton.expect``: they stay functions, and what they say is checked before anything runs."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
import sys
import textwrap
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import craton
from craton.pipeline import Input, InvalidPipeline
from craton.pipeline.steps.functions import describe_function

TABLE = pa.table({"n": [1, 2, 3]})


@craton.step
def plain(numbers: pa.Table) -> pa.Table:
    """Documented."""
    return numbers


@craton.step(
    name="more",
    memory="1GiB",
    cpus=2,
    seconds=3.5,
    retries=1,
    priority=4,
    packages=["a==1"],
    variables={"B": "2", "A": "1"},
)
def with_options(numbers: pd.DataFrame, *, factor: int = 2, text: str = "x") -> pd.DataFrame:
    return numbers * factor


def test_a_step_is_the_function_itself() -> None:
    assert plain(TABLE) is TABLE
    assert plain.__doc__ == "Documented."
    assert pickle.loads(pickle.dumps(plain)) is plain
    assert copy.deepcopy(plain) is plain
    assert with_options(pd.DataFrame({"n": [1]}), factor=5)["n"].tolist() == [5]


def test_options_are_kept_and_the_signature_is_read() -> None:
    step = describe_function(with_options)
    assert (step.name, step.kind, dict(step.parameters), step.problems) == (
        "more",
        "step",
        {"factor": 2, "text": "x"},
        (),
    )
    assert step.options.limits.memory == 1 << 30
    assert step.options.setting.variables == (("A", "1"), ("B", "2"))
    assert step.forms == {"numbers": "pandas"}
    assert step.kinds == {"factor": int, "text": str}
    assert step.place.file.endswith("test_definition.py")
    assert Path(__file__).read_text().splitlines()[step.place.line - 1] == "@craton.step("


def test_a_decorator_around_a_step_is_part_of_it() -> None:
    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def call(numbers: Any) -> Any:
            return pa.concat_tables([function(numbers)] * 2)

        return call

    wrapped = doubled(plain)
    step = describe_function(wrapped)
    assert (step.name, list(step.inputs), step.function) == ("plain", ["numbers"], wrapped)
    result = craton.Pipeline([wrapped], sources={"numbers": TABLE}).run(in_process=True)
    assert result["plain"]["n"].to_pylist() == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"memory": "much"}, ValueError, "number of bytes"),
        ({"memory": 0}, ValueError, "memory is a whole number of at least 1"),
        ({"cpus": 1.5}, ValueError, "cpus is a whole number"),
        ({"seconds": 0}, ValueError, "seconds is greater than 0"),
        ({"retries": -1}, ValueError, "retries is a whole number of at least 0"),
        ({"packages": "numpy"}, TypeError, "packages is a list of texts"),
        ({"takes": "spark"}, ValueError, "takes is one of arrow, pandas"),
        ({"inputs": {"a": 3}}, TypeError, r"inputs\['a'\] is the name of a step"),
        ({"partitions": 3}, ValueError, "give map_over="),
        ({"schema": {"x": "money"}}, ValueError, "money"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        craton.step(**options)(lambda a: a)


def test_conditions_that_mean_nothing_are_refused() -> None:
    for text, why in [
        ("x >", "not understood"),
        ("f(x) > 1", "f\\(x\\)"),
        ("1 > 0", "names no column"),
        ("x in y", "list of constants"),
        ("x is None", "x is None"),
        ("import os", "not understood"),
        ("x.y > 1", "x.y"),
        ("3 and x > 1", "3 is neither"),
    ]:
        with pytest.raises(ValueError, match=why):
            Input("a", where=text)
    with pytest.raises(TypeError, match="where is a text"):
        Input("a", where=3)
    with pytest.raises(TypeError, match="columns is a list"):
        Input("a", columns="x")


def test_only_functions_are_decorated() -> None:
    with pytest.raises(TypeError, match="decorates a function"):
        craton.step(3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="'stop' or 'warn'"):
        craton.expect(action="shout")  # type: ignore[call-overload]

    async def later(numbers: Any) -> Any:
        return numbers

    with pytest.raises(TypeError, match="async"):
        craton.step(later)


FILE = """
import craton
import pandas as pd

@craton.step
def first(nothing_here):
    return 1

@craton.step
def second(frist):
    return frist

@craton.step(inputs={"other": "first"})
def third(first, days=30):
    return first

def fourth():
    return 1

@craton.step
def fifth(*tables):
    return tables

@craton.step(map_over="hours")
def sixth(first):
    return first

@craton.expect
def seventh():
    return True

def again(first):
    return first

eighth = craton.step(name="first")(again)

@craton.step
def ninth(seventh):
    return seventh
"""


def load(folder: Path, text: str, name: str = "steps_of_a_file") -> Any:
    """A module from a text."""
    import importlib.util

    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line_of(text: str, function: str) -> int:
    """The line of the decorator of a function."""
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines, 1) if line.startswith(f"def {function}("))
    return at - 1 if lines[at - 2].startswith("@") else at


def test_all_problems_of_a_module_are_reported_with_their_lines(tmp_path: Path) -> None:
    module = load(tmp_path, FILE)
    with pytest.raises(InvalidPipeline) as caught:
        craton.Pipeline([module, module.fourth])
    problems = "\n".join(caught.value.problems)
    for function, name, text in [
        ("first", "first", "the input 'nothing_here' is no step and no source"),
        ("second", "second", "the input 'frist' is no step and no source; did you mean 'first'?"),
        ("third", "third", "the parameter 'days' has a default, so it names no table; write it after `*`"),
        ("third", "third", "inputs= names 'other', which is no positional parameter"),
        ("fourth", "fourth", "it has no inputs"),
        ("fifth", "fifth", "the parameter '*tables' names no table"),
        ("sixth", "sixth", "map_over names 'hours', which is no input"),
        ("seventh", "seventh", "it takes no table to check"),
        ("again", "first", "has the name 'first', too"),
        ("ninth", "ninth", "the input 'seventh' is the check 'seventh', which makes no table"),
    ]:
        matching = [one for one in caught.value.problems if f"{name!r}: " in one and text in one]
        assert matching, f"{function}: {text}\n{problems}"
        assert any(f"steps_of_a_file.py:{line_of(FILE, function)}:" in one for one in matching), matching


def test_a_cycle_is_reported_with_its_path(tmp_path: Path) -> None:
    text = """
    import craton

    @craton.step
    def a(c, numbers): return c

    @craton.step
    def b(a): return a

    @craton.step
    def c(b): return b

    @craton.step
    def d(c): return c
    """
    module = load(tmp_path, text, "steps_in_a_cycle")
    with pytest.raises(InvalidPipeline, match=r"in a cycle: . → . → . → . ") as caught:
        craton.Pipeline(module, sources={"numbers": TABLE})
    message = str(caught.value)
    path = message.partition("cycle: ")[2].partition(" (")[0].split(" → ")
    assert path[0] == path[-1]
    assert set(path) == {"a", "b", "c"}
    follows = {"a": "b", "b": "c", "c": "a"}
    assert all(follows[one] == other for one, other in itertools.pairwise(path))
    assert "'a' at" in message
    assert "steps_in_a_cycle.py:4" in message


def test_parameters_are_checked() -> None:
    @craton.step
    def scaled(numbers: pa.Table, *, factor: int, power: int = 1) -> pa.Table:
        return numbers

    pipeline = craton.Pipeline([scaled], sources={"numbers": TABLE})
    with pytest.raises(InvalidPipeline, match="step 'scaled': the parameter 'factor' has no default"):
        pipeline.run(in_process=True)
    with pytest.raises(InvalidPipeline, match="no step has a parameter 'facto'; did you mean 'factor'"):
        pipeline.run(in_process=True, parameters={"facto": 1, "factor": 1})
    with pytest.raises(InvalidPipeline, match=r"no step has a parameter 'other\.factor'"):
        pipeline.run(in_process=True, parameters={"other.factor": 1, "factor": 1})
    with pytest.raises(InvalidPipeline, match="there is no step 'scale'; did you mean 'scaled'"):
        pipeline.run(in_process=True, only="scale", parameters={"factor": 1})


def test_columns_that_a_source_or_a_schema_does_not_have_are_found_before_a_run() -> None:
    @craton.step(inputs={"numbers": ["m"]}, schema={"x": "int64"})
    def wrong(numbers: pa.Table) -> pa.Table:
        return numbers

    @craton.step(inputs={"wrong": ["y"]})
    def after(wrong: pa.Table) -> pa.Table:
        return wrong

    with pytest.raises(InvalidPipeline) as caught:
        craton.Pipeline([wrong, after], sources={"numbers": TABLE})
    problems = caught.value.problems
    assert "'numbers' has no column 'm'" in problems[0]
    assert "'wrong' has no column 'y'" in problems[1]


def test_parts_that_are_no_parts_are_refused() -> None:
    with pytest.raises(TypeError, match="functions, modules and sources, not Table"):
        craton.Pipeline([plain, TABLE])
    with pytest.raises(InvalidPipeline, match="has no name"):
        craton.Pipeline([plain, craton.pipeline.InMemory(TABLE)])
    with pytest.raises(InvalidPipeline, match="there are two sources 'numbers'"):
        craton.Pipeline([plain, craton.pipeline.InMemory(TABLE, name="numbers")], sources={"numbers": TABLE})
