"""Decides which calls run in plain pandas: those on small objects in memory, and those that pandas makes inside its own methods."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from craton import forks
from craton.config import options

PANDAS_OBJECTS = (pd.DataFrame, pd.Series)


class _Inside(threading.local):
    """The nesting depth of :class:`plain_pandas` in a thread. The class attribute is the initial value in each thread."""

    depth = 0


_inside = _Inside()


def inside_pandas() -> bool:
    """Whether this thread runs pandas' own code within a :class:`plain_pandas` block, for example in a fallback."""
    return _inside.depth > 0


class plain_pandas:
    """A context in which calls are not planned: pandas' own methods run."""

    def __enter__(self) -> None:
        _inside.depth += 1

    def __exit__(self, *_: object) -> None:
        _inside.depth -= 1


class planned_calls:
    """A context in a :class:`plain_pandas` block in which calls are planned again: a function of the user runs."""

    def __enter__(self) -> None:
        self._depth, _inside.depth = _inside.depth, 0

    def __exit__(self, *_: object) -> None:
        _inside.depth = self._depth


def is_lazy(obj: Any) -> bool:
    """Whether an object holds a plan that has not been run.

    In a process that lost its kernel in a fork, this runs the plan (in another process) and returns False.
    """
    return "_view" in obj.__dict__ and not _run_in_fork(obj)


def _run_in_fork(obj: Any) -> bool:
    return forks.kernel_lost() and obj._mgr is not None


def stays_in_pandas(obj: Any, part: int = 1) -> bool:
    """Whether an object's methods run in plain pandas: small and in memory, or called by pandas itself.

    Parameters
    ----------
    part
        An object is small if it has at most this part of ``craton.options.small_rows``: that many times fewer rows.
    """
    state = obj.__dict__
    if "_view" in state:
        return _run_in_fork(obj)
    manager = state.get("_mgr")
    if manager is None:
        return True
    small = options.small_rows // part
    if small:
        labels = manager.axes[-1]
        # The length of a RangeIndex is a call of Python's.
        if len(labels._range if type(labels) is pd.RangeIndex else labels) <= small:
            return True
    return _inside.depth > 0 or forks.kernel_lost()


def all_stay(*args: Any, **kwargs: Any) -> bool:
    """Whether all frames and series among arguments stay in pandas. A join of a small table with a large file is planned."""
    return all(map(stays_in_pandas, operands(args, kwargs)))


def operands(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The frames and series among arguments and in lists of them."""
    found: list[Any] = []
    for item in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(item, PANDAS_OBJECTS):
            found.append(item)
        elif isinstance(item, (list, tuple, dict)):
            items = item.values() if isinstance(item, dict) else item
            found.extend(one for one in items if isinstance(one, PANDAS_OBJECTS))
    return found


def in_plain_pandas(subject: str) -> Callable[..., bool]:
    """Make the predicate that decides whether a call of a function of frames runs in plain pandas.

    It does if no argument is a frame or series, if all of them are small and in memory, or if the parameter ``subject`` is missing.
    """

    def stays(*args: Any, **kwargs: Any) -> bool:
        found = operands(args, kwargs)
        ours = any(isinstance(obj, (pd.DataFrame, pd.Series)) for obj in found)
        return not ours or all(map(stays_in_pandas, found)) or not (args or subject in kwargs)

    return stays
