"""Runs a program with ``pd`` bound to pandas or to Craton, and keeps what it makes."""

from __future__ import annotations

import contextlib
import copy
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from tests.fuzz.compare import Closeness
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


_argsort: Any = pandas.Index.argsort


def _stable_argsort(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Of an index: ``join`` sorts by it where the other frame is empty."""
    return _argsort(self, *args, **kwargs) if args or kwargs else _argsort(self, kind="stable")


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
    pandas.Index.argsort = _stable_argsort  # type: ignore[method-assign]
    try:
        yield
    finally:
        pandas.Index.argsort = _argsort  # type: ignore[method-assign]
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


def in_pandas(program: Program) -> Outcome:
    """What a program leaves under pandas."""
    with quiet(), scratch() as folder:
        return run(program, pandas, folder)


def plain(value: Any) -> Any:
    """A copy of a value, as pandas has it."""
    if isinstance(value, pandas.DataFrame):
        return pandas.DataFrame(value, copy=True)
    return pandas.Series(value, copy=True) if isinstance(value, pandas.Series) else copy.copy(value)
