"""Runs a program under pandas and under Craton, and compares all its variables and errors."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import craton
import craton.pandas
from tests.fuzz.compare import Closeness, difference
from tests.fuzz.consequences import (
    VARIANTS,
    depends_on_last_digits,
    explained_by_inputs,
    explained_by_shared_arrays,
    has_cancelled_digits,
    later_writes,
    not_explained_by_writes,
    one_call_per_step,
    steps_before,
)
from tests.fuzz.execution import (
    Difference,
    RunResult,
    closeness,
    evaluate_variables,
    quiet,
    run,
    run_in_pandas,
    scratch,
)
from tests.fuzz.explained import explanation
from tests.fuzz.programs import Program, Step

_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")


def same_error(expected: BaseException, got: BaseException) -> str | None:
    """A description of how two errors differ; None if they have the same class, and the same text but for addresses of objects."""
    if type(expected) is not type(got):
        return f"error: {type(got).__name__}: {str(got)[:200]}, not {type(expected).__name__}: {str(expected)[:200]}"
    if _ADDRESS.sub("", str(expected)) != _ADDRESS.sub("", str(got)):
        return f"message: {str(got)[:300]}, not {str(expected)[:300]}"
    return None


def of_engine(error: BaseException) -> bool:
    """Whether an error is internal to the engine, so that users of pandas must never see it."""
    return type(error).__module__.partition(".")[0] in ("polars", "craton", "pyo3_runtime")


def _lacks_variable(program: Program, outcome: RunResult, number: int) -> bool:
    """Whether a step failed because an earlier step, which raised, did not bind a variable."""
    error = outcome.errors.get(number)
    raised = any(0 <= other < number for other in outcome.errors)
    return (
        isinstance(error, NameError)
        and raised
        and f"{error.name} = " in "\n".join(step.code for step in program.steps[:number])
    )


def compare(program: Program, expected: RunResult, got: RunResult, exact: bool = False) -> list[Difference]:
    """All differences between two runs, sorted by step; those in an error's text only come last."""
    found: list[Difference] = []
    for number in sorted({*expected.errors, *got.errors}):
        one, other = expected.errors.get(number), got.errors.get(number)
        if _lacks_variable(program, expected, number) != _lacks_variable(program, got, number):
            continue  # the missing variable is reported as a separate difference
        where = program.steps[number].operation if number >= 0 else "reading"
        if one is None and other is not None:
            kind = "error of the engine" if of_engine(other) else "error"
            found.append(
                Difference(
                    kind,
                    where,
                    f"raised {type(other).__name__}: {str(other)[:300]}; pandas did not",
                    number,
                    type(other).__name__,
                )
            )
        elif one is not None and other is None:
            target = program.steps[number].target if number >= 0 else ""
            late = got.late.get(target)
            if late is not None and type(late) is type(one):
                continue
            text = f"pandas raised {type(one).__name__}: {str(one)[:200]}"
            found.append(Difference("no error", where, text, number, type(one).__name__))
        elif one is not None and other is not None and (text := same_error(one, other)) is not None:
            raised = f"{type(other).__name__}, not {type(one).__name__}"
            found.append(Difference(text.partition(":")[0], where, text, number, raised))
    names = program.variables()
    makers = {step.target: (number, step) for number, step in enumerate(program.steps) if step.target}
    for name in sorted({*names, *(n for n in expected.values if n[:1] in "rh" and n[1:].isdigit())}, key=str):
        number, step = makers.get(name, (-1, None))
        if number == -1:
            for i, other_step in enumerate(program.steps):
                if f"\n{name} = " in f"\n{other_step.code}":
                    number, step = i, other_step
        where = step.operation if step is not None else "table"
        if name in got.late:
            error, other = got.late[name], expected.late.get(name)  # of two runs of Craton, both may raise late
            if name in expected.values and type(other) is not type(error):
                kind = "error of the engine" if of_engine(error) else "error"
                what = f"{name} raised, when evaluated, {type(error).__name__}: {str(error)[:300]}"
                found.append(Difference(kind, where, what, number, type(error).__name__))
            continue
        if name not in expected.values or name not in got.values:
            continue
        with quiet():
            try:
                text = difference(expected.values[name], got.values[name], Closeness(exact=exact))
                if text is not None and not exact:
                    text = difference(expected.values[name], got.values[name], closeness(expected.values, names))
            except Exception as error:  # comparing the values evaluates more than before
                kind = "error of the engine" if of_engine(error) else "error"
                text = f"{kind}: raised, when compared, {type(error).__name__}: {str(error)[:300]}"
        if text is not None:
            found.append(Difference(text.partition(":")[0], where, f"{name}: {text}", number))
    return sorted(found, key=lambda one: (one.only_message, one.step))


Mode = Callable[[], AbstractContextManager[Any]]


def check(program: Program, mode: Mode, fresh: bool = False) -> list[Difference]:
    """Run a program under pandas and under Craton, and return the differences that are not documented.

    Parameters
    ----------
    program
        The program.
    mode
        A context in which Craton runs it.
    fresh
        Whether Craton's remembered results of earlier programs are dropped first.
    """
    return check_against(program, run_in_pandas(program), mode, fresh)


def check_against(
    program: Program,
    expected: RunResult,
    mode: Mode,
    fresh: bool = False,
    observe: Callable[[Step, bool], None] | None = None,
) -> list[Difference]:
    """Like :func:`check`, given the results of pandas."""
    return check_with_result(program, expected, mode, fresh, observe)[0]


def check_with_result(
    program: Program,
    expected: RunResult,
    mode: Mode,
    fresh: bool = False,
    observe: Callable[[Step, bool], None] | None = None,
) -> tuple[list[Difference], RunResult]:
    """Like :func:`check_against`; also return the results of Craton."""
    found, got = _run_and_compare(program, expected, mode, fresh, observe)
    found = [
        one
        for one in found
        if not (explained_by_inputs(program, expected, got, one) or explained_by_shared_arrays(program, got, one))
    ]
    earlier = {one.step: _results_before(program, one.step, mode) for one in found if one.step > 0}
    found = [
        one
        for one in found
        if one.step not in earlier or not explained_by_inputs(program, expected, got, one, had=earlier[one.step])
    ]
    found = not_explained_by_writes(program, got, found, lambda number: _results_before(program, number, mode))
    found = [] if _explained_by_single_calls(program, found, mode) else found
    if (
        found
        and not craton.options.reproducible
        and all(_depends_on_last_digits(program, expected, got, one, earlier) for one in found)
    ):
        with craton.option_context(reproducible=True):
            found = found if _run_and_compare(program, expected, mode, True)[0] else []
    for variant in VARIANTS if found else ():
        changed = variant(program, found)
        if changed is not None and not _run_and_compare(changed, run_in_pandas(changed), mode, True)[0]:
            found = []
    return found, got


def _explained_by_single_calls(program: Program, found: list[Difference], mode: Mode) -> bool:
    """Whether differences can be explained after the steps in which they occur are divided into steps of one call each.

    The later steps that write into the results of these steps are divided as well.
    """
    pieces = program
    numbers = {one.step for one in found if one.step >= 0}
    for number in sorted(numbers.union(*(later_writes(program, one) for one in numbers)), reverse=True):
        pieces = one_call_per_step(pieces, number) or pieces
    if pieces is program:
        return False
    expected = run_in_pandas(pieces)
    left, got = _run_and_compare(pieces, expected, mode, True)

    def explained(one: Difference) -> bool:
        writes = one.step > 0 and not pieces.steps[one.step].target
        had = _results_before(pieces, one.step, mode) if writes else None
        return explained_by_inputs(pieces, expected, got, one, had=had)

    left = [one for one in left if not explained(one)]
    single = frozenset(pieces.variables()) - frozenset(program.variables())
    return not not_explained_by_writes(pieces, got, left, lambda number: _results_before(pieces, number, mode), single)


def _depends_on_last_digits(
    program: Program,
    expected: RunResult,
    got: RunResult,
    found: Difference,
    earlier: dict[int, tuple[RunResult, RunResult]],
) -> bool:
    return (
        depends_on_last_digits(program, expected, got, found)
        or (found.step in earlier and depends_on_last_digits(program, *earlier[found.step], found))
        or has_cancelled_digits(program, found)
    )


def _results_before(program: Program, number: int, mode: Mode) -> tuple[RunResult, RunResult]:
    """The results of pandas and Craton before a step."""
    before = steps_before(program, number)
    with quiet(), scratch() as folder, mode():
        got = run(before, craton.pandas, folder)
        evaluate_variables(before, got, before.variables())
    return run_in_pandas(before), got


def _run_and_compare(
    program: Program,
    expected: RunResult,
    mode: Mode,
    fresh: bool,
    observe: Callable[[Step, bool], None] | None = None,
) -> tuple[list[Difference], RunResult]:
    with quiet(), scratch() as folder, mode():
        if fresh:
            craton.clear_memory()
        got = run(program, craton.pandas, folder, observe)
        names = [*program.variables(), *(name for name in expected.values if name[:1] in "rh" and name[1:].isdigit())]
        evaluate_variables(program, got, names)
        found = compare(program, expected, got)
        return [one for one in found if explanation(program, expected, got, one) is None], got


def tidy() -> None:
    """Drop the memory that earlier programs used."""
    craton.clear_memory()
    gc.collect()
