"""Runs a program with ``pd`` bound to pandas or to Craton, and returns its variables and errors."""

from __future__ import annotations

import contextlib
import copy
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from tests.fuzz.compare import Closeness
from tests.fuzz.programs import PRELUDE, Program, Step, compiled

#: Kinds of differences that concern only the text of an error.
MESSAGE_KINDS = ("message",)

_PRELUDE: dict[str, Any] = {}
exec(PRELUDE, _PRELUDE)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two runs of a program.

    Parameters
    ----------
    kind
        One word: values, dtype, shape, error, …
    where
        The operation of the step.
    what
        The variable, and the value that it has and should have.
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
    def variable(self) -> str:
        """The name of the variable that differs."""
        return self.what.partition(":")[0]

    @property
    def only_message(self) -> bool:
        """Whether only the text of an error differs."""
        return self.kind in MESSAGE_KINDS


@dataclass(slots=True)
class RunResult:
    """The variables and errors of a run.

    Parameters
    ----------
    values
        The variables by name.
    errors
        The errors of steps, by the step's number.
    late
        The errors that were raised when variables were evaluated, by name.
    """

    values: dict[str, Any]
    errors: dict[int, BaseException]
    late: dict[str, BaseException]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warnings of all libraries."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


class Folder:
    """A folder for files, which is created when its path is first formatted into a text."""

    def __init__(self) -> None:
        self.path = ""

    def __format__(self, _spec: str) -> str:
        self.path = self.path or tempfile.mkdtemp(prefix="fuzz-")
        return self.path


@contextlib.contextmanager
def scratch() -> Iterator[Folder]:
    """A temporary folder for the files of one program."""
    folder = Folder()
    try:
        yield folder
    finally:
        if folder.path:
            shutil.rmtree(folder.path, ignore_errors=True)


def namespace(module: Any, folder: Any) -> dict[str, Any]:
    """The globals of the statements of a program."""
    return {**_PRELUDE, "pd": module, "folder": folder}


def run(
    program: Program, module: Any, folder: Folder, observe: Callable[[Step, bool], None] | None = None
) -> RunResult:
    """Run a program. An error of a step is recorded, and the next step runs."""
    found = RunResult(namespace(module, folder), {}, {})
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


def evaluate(value: Any) -> None:
    """Run the plan of a lazy object."""
    if isinstance(value, (pandas.DataFrame, pandas.Series)):
        _ = value._mgr  # type: ignore[union-attr]
    elif isinstance(value, (list, tuple)):
        for item in value:
            evaluate(item)
    elif isinstance(value, dict):
        for item in value.values():
            evaluate(item)


def evaluate_variables(program: Program, found: RunResult, names: list[str]) -> None:
    """Evaluate all variables, in the program's evaluation order, and record the errors that this raises."""
    for name in reversed(names) if program.evaluation_order == "last" else names:
        try:
            evaluate(found.values.get(name))
        except Exception as error:
            found.late[name] = error


def closeness(values: dict[str, Any], names: list[str]) -> Closeness:
    """The tolerance for floats in a program with these variables."""
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


def run_in_pandas(program: Program) -> RunResult:
    """Run a program under pandas."""
    with quiet(), scratch() as folder:
        return run(program, pandas, folder)


def pandas_copy(value: Any) -> Any:
    """A copy of a value, with pandas' class for frames and series."""
    if isinstance(value, pandas.DataFrame):
        return pandas.DataFrame(value, copy=True)
    return pandas.Series(value, copy=True) if isinstance(value, pandas.Series) else copy.copy(value)
