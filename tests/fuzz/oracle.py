"""Runs a program under pandas and under Craton, and compares everything that it makes."""

from __future__ import annotations

import contextlib
import copy
import gc
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas

import craton
import craton.pandas
from tests.fuzz.compare import Closeness, difference
from tests.fuzz.explained import explanation
from tests.fuzz.programs import PRELUDE, Program, Step, compiled

#: Kinds of differences that are reported, but are none of values.
LESSER = ("message",)

_PRELUDE: dict[str, Any] = {}
exec(PRELUDE, _PRELUDE)


@dataclass(frozen=True, slots=True)
class Difference:
    """What two runs of a program differ in.

    Parameters
    ----------
    kind
        In a word: values, dtype, shape, error, …
    where
        The operation of the step, and the variable.
    what
        Expected and got.
    step
        The number of the step; -1 for a table.
    raised
        The classes of the errors that Craton and pandas raised.
    """

    kind: str
    where: str
    what: str
    step: int
    raised: str = ""

    @property
    def lesser(self) -> bool:
        """Whether only the text of an error differs."""
        return self.kind in LESSER


@dataclass(slots=True)
class Outcome:
    """What a run left.

    Parameters
    ----------
    values
        The variables.
    errors
        Of the steps that raised, by their number.
    late
        Of variables that raised when they were looked at.
    """

    values: dict[str, Any]
    errors: dict[int, BaseException]
    late: dict[str, BaseException]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings, of any library, and stable sorts."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), _stable_sorts():
        warnings.simplefilter("ignore")
        yield


_nargsort = pandas.core.sorting.nargsort


def _stable(items: Any, kind: str = "quicksort", *args: Any, **kwargs: Any) -> Any:
    return _nargsort(items, "stable", *args, **kwargs)


_SORTING: list[Any] = [
    module
    for name, module in sys.modules.items()
    if name.startswith("pandas.") and getattr(module, "nargsort", None) is _nargsort
]


@contextlib.contextmanager
def _stable_sorts() -> Iterator[None]:
    """pandas' sorts keep ties in order, whatever their kind: "Ties in sort_values" in ``docs/known-differences.md``."""
    for module in _SORTING:
        module.nargsort = _stable
    try:
        yield
    finally:
        for module in _SORTING:
            module.nargsort = _nargsort


class Folder:
    """A folder for files, made when its path is first asked for."""

    def __init__(self) -> None:
        self.path = ""

    def __format__(self, _spec: str) -> str:
        self.path = self.path or tempfile.mkdtemp(prefix="fuzz-")
        return self.path


@contextlib.contextmanager
def scratch() -> Iterator[Folder]:
    """A folder for the files of one program, if it has any."""
    folder = Folder()
    try:
        yield folder
    finally:
        if folder.path:
            shutil.rmtree(folder.path, ignore_errors=True)


def namespace(module: Any, folder: Any) -> dict[str, Any]:
    """What the statements of a program see."""
    return {**_PRELUDE, "pd": module, "folder": folder}


def run(program: Program, module: Any, folder: Folder, observe: Callable[[Step, bool], None] | None = None) -> Outcome:
    """Run a program; errors of steps are kept, and it goes on."""
    found = Outcome(namespace(module, folder), {}, {})
    number = -1
    for code, step in program.statements():
        if step is not None:
            number += 1
        try:
            exec(compiled(code), found.values)
        except Exception as error:
            found.errors[number] = error
            if step is None:
                break
            if step.target:
                found.values.pop(step.target, None)
        if step is not None and observe is not None:
            observe(step, number not in found.errors)
    return found


def settle(value: Any) -> None:
    """Run the plan of a lazy object."""
    if isinstance(value, (pandas.DataFrame, pandas.Series)):
        _ = value._mgr  # type: ignore[union-attr]
    elif isinstance(value, (list, tuple)):
        for item in value:
            settle(item)
    elif isinstance(value, dict):
        for item in value.values():
            settle(item)


def looked_at(program: Program, found: Outcome, names: list[str]) -> None:
    """Compute all variables, in the program's order of looking."""
    for name in reversed(names) if program.looks == "last" else names:
        try:
            settle(found.values.get(name))
        except Exception as error:
            found.late[name] = error


def closeness(values: dict[str, Any], names: list[str]) -> Closeness:
    """How close floats must be in a program with such variables."""
    largest, bits = 1.0, 64
    for name in names:
        value = values.get(name)
        if isinstance(value, pandas.Series):
            value = value.to_frame()
        if isinstance(value, pandas.DataFrame):
            for i in range(value.shape[1]):
                array = value.iloc[:, i]
                if array.dtype.kind == "f" and array.dtype.itemsize == 4:
                    bits = 32
                if array.dtype.kind in "fiu" and len(array):
                    numbers = array.to_numpy(dtype=float, na_value=np.nan)
                    finite = np.abs(numbers[np.isfinite(numbers)])
                    largest = max(largest, float(finite.max()) if len(finite) else 1.0)
    return Closeness(largest, bits)


def same_error(expected: BaseException, got: BaseException) -> str | None:
    """What two errors differ in."""
    if type(expected) is not type(got):
        return f"error: {type(got).__name__}: {str(got)[:200]}, not {type(expected).__name__}: {str(expected)[:200]}"
    if str(expected) != str(got):
        return f"message: {str(got)[:300]}, not {str(expected)[:300]}"
    return None


def of_engine(error: BaseException) -> bool:
    """Whether an error is none that a user of pandas should see."""
    return type(error).__module__.partition(".")[0] in ("polars", "craton", "pyo3_runtime")


def compare(program: Program, expected: Outcome, got: Outcome, exact: bool = False) -> list[Difference]:
    """All differences between two runs, those of early steps first."""
    found: list[Difference] = []
    for number in sorted({*expected.errors, *got.errors}):
        one, other = expected.errors.get(number), got.errors.get(number)
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
            if name in expected.values:
                error = got.late[name]
                kind = "error of the engine" if of_engine(error) else "error"
                what = f"{name} raised when looked at {type(error).__name__}: {str(error)[:300]}"
                found.append(Difference(kind, where, what, number, type(error).__name__))
            continue
        if name not in expected.values or name not in got.values:
            continue
        with quiet():
            try:
                text = difference(expected.values[name], got.values[name], Closeness(exact=exact))
                if text is not None and not exact:
                    text = difference(expected.values[name], got.values[name], closeness(expected.values, names))
            except Exception as error:  # what was looked at a part of raises when the whole is compared
                kind = "error of the engine" if of_engine(error) else "error"
                text = f"{kind}: raised when compared {type(error).__name__}: {str(error)[:300]}"
        if text is not None:
            found.append(Difference(text.partition(":")[0], where, f"{name}: {text}", number))
    return sorted(found, key=lambda one: (one.lesser, one.step))


Mode = Callable[[], AbstractContextManager[Any]]


def check(program: Program, mode: Mode, fresh: bool = False) -> list[Difference]:
    """Run a program both ways, and compare; differences that are explained are left out.

    Parameters
    ----------
    program
        The program.
    mode
        A context in which Craton runs it.
    fresh
        Whether Craton forgets results of earlier programs before.
    """
    return against(program, in_pandas(program), mode, fresh)


def in_pandas(program: Program) -> Outcome:
    """What a program leaves under pandas."""
    with quiet(), scratch() as folder:
        return run(program, pandas, folder)


def against(
    program: Program,
    expected: Outcome,
    mode: Mode,
    fresh: bool = False,
    observe: Callable[[Step, bool], None] | None = None,
) -> list[Difference]:
    """As :func:`check`, with pandas' outcome at hand."""
    return beside(program, expected, mode, fresh, observe)[0]


def beside(
    program: Program,
    expected: Outcome,
    mode: Mode,
    fresh: bool = False,
    observe: Callable[[Step, bool], None] | None = None,
) -> tuple[list[Difference], Outcome]:
    """As :func:`against`, and the outcome under Craton."""
    found, got = _beside(program, expected, mode, fresh, observe)
    found = [one for one in found if not (follows(program, expected, got, one) or shared(program, got, one))]
    if found and not craton.options.reproducible and all(hangs_on_digits(program, expected, got, one) for one in found):
        with craton.option_context(reproducible=True):
            found = found if _beside(program, expected, mode, True)[0] else []
    return found, got


def _beside(
    program: Program,
    expected: Outcome,
    mode: Mode,
    fresh: bool,
    observe: Callable[[Step, bool], None] | None = None,
) -> tuple[list[Difference], Outcome]:
    with quiet(), scratch() as folder, mode():
        if fresh:
            craton.clear_memory()
        got = run(program, craton.pandas, folder, observe)
        names = [*program.variables(), *(name for name in expected.values if name[:1] in "rh" and name[1:].isdigit())]
        looked_at(program, got, names)
        found = compare(program, expected, got)
        return [one for one in found if explanation(program, expected, got, one) is None], got


def hangs_on_digits(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """Whether a difference may come of the last digits of sums, by which rows are told apart, sorted or counted.

    Something that the step reads then differs in its last digits. That this is the reason is tried: there is no difference where
    sums are exact.
    """
    if (
        found.kind
        not in ("values", "value", "index", "shape", "length", "text", "name", "names", "dtype", "error", "no error")
        or found.step < 0
    ):
        return False
    read: set[str] = set(program.steps[found.step].uses)
    for step in reversed(program.steps[: found.step]):
        if step.target in read:
            read |= set(step.uses)
    for name in read & expected.values.keys() & got.values.keys():
        with quiet():
            if difference(expected.values[name], got.values[name], Closeness(exact=True)) is not None:
                return True
    return False


def follows(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """Whether pandas comes to Craton's result from what Craton had before, which differs in the last digits of sums only."""
    if not hangs_on_digits(program, expected, got, found):
        return False
    step = program.steps[found.step]
    raised = found.raised if found.kind == "error" else ""
    if not step.target or (step.target not in got.values and not raised):
        return False
    # What is written to the result afterwards belongs to it.
    writes = [s for s in program.steps[found.step + 1 :] if not s.target and s.code.startswith(step.target)]
    values = {
        name: _plain(got.values[name])
        for name in {*step.uses, *(used for write in writes for used in write.uses)} - {step.target}
        if name in got.values and name not in _PRELUDE and name != "pd"
    }
    with quiet(), scratch() as folder:
        names = namespace(pandas, folder) | values
        try:
            exec(compiled(step.code), names)
            for write in writes:
                exec(compiled(write.code), names)
            result = names[step.target]
            if raised:
                return False
            return difference(result, got.values[step.target], closeness(expected.values, [*values])) is None
        except Exception as error:
            return type(error).__name__ == raised


def shared(program: Program, got: Outcome, found: Difference) -> bool:
    """Whether pandas comes to Craton's result where each step makes arrays of its own: else a later step changes one by chance."""
    name = program.steps[found.step].target if found.step >= 0 else ""
    if not name or name not in got.values or found.kind not in ("values", "value"):
        return False
    # What is another name of an object stays one: its writes are no chance.
    own = "{code}\n{name} = {name}.copy() if hasattr({name}, 'copy') and all({name} is not one for one in [{uses}]) else {name}"
    steps = [
        replace(s, code=own.format(code=s.code, name=s.target, uses=", ".join(s.uses))) if s.target else s
        for s in program.steps
    ]
    with quiet(), scratch() as folder:
        apart = run(replace(program, steps=tuple(steps)), pandas, folder)
        try:
            return name in apart.values and difference(apart.values[name], got.values[name], Closeness()) is None
        except Exception:
            return False


def _plain(value: Any) -> Any:
    """A value as pandas has it."""
    if isinstance(value, pandas.DataFrame):
        return pandas.DataFrame(value, copy=True)
    return pandas.Series(value, copy=True) if isinstance(value, pandas.Series) else copy.copy(value)


def tidy() -> None:
    """Drop what earlier programs left."""
    craton.clear_memory()
    gc.collect()
