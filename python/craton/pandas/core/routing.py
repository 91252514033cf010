"""Which objects and calls stay in plain pandas: small ones in memory, and what pandas calls inside its own methods."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from craton import forks
from craton.config import options

_OBJECTS = (pd.DataFrame, pd.Series)


class _Inside(threading.local):
    """How many blocks of plain pandas a thread is in; of the class, so that asking a new thread raises nothing."""

    depth = 0


_inside = _Inside()


def inside_pandas() -> bool:
    """Whether a pandas method is running that a native one fell back to."""
    return _inside.depth > 0


class plain_pandas:
    """A block in which nothing is planned: pandas' own methods run as they are."""

    def __enter__(self) -> None:
        _inside.depth += 1

    def __exit__(self, *_: object) -> None:
        _inside.depth -= 1


def is_lazy(obj: Any) -> bool:
    """Whether an object holds a plan that has not been run.

    In a process whose kernel was lost in a fork, plans are not continued but run, elsewhere, by whoever looks.
    """
    return "_view" in obj.__dict__ and not _run_in_fork(obj)


def _run_in_fork(obj: Any) -> bool:
    return forks.kernel_lost() and obj._mgr is not None


def stays_in_pandas(obj: Any) -> bool:
    """Whether an object's methods run in plain pandas: small and in memory, or called by pandas itself."""
    state = obj.__dict__
    if "_view" in state:
        return _run_in_fork(obj)
    manager = state.get("_mgr")
    if manager is None or _inside.depth or forks.kernel_lost():
        return True
    small = options.small_rows
    return bool(small) and len(manager.axes[-1]) <= small


def all_stay(*args: Any, **kwargs: Any) -> bool:
    """Whether all frames and series among arguments stay in pandas: a small table joined with a large file is a plan."""
    return all(map(stays_in_pandas, operands(args, kwargs)))


def operands(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The frames and series among arguments and in lists of them."""
    found: list[Any] = []
    for item in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(item, _OBJECTS):
            found.append(item)
        elif isinstance(item, (list, tuple, dict)):
            items = item.values() if isinstance(item, dict) else item
            found.extend(one for one in items if isinstance(one, _OBJECTS))
    return found


def in_plain_pandas(subject: str) -> Callable[..., bool]:
    """Whether a call of a function of frames runs in plain pandas.

    It does where no argument is a Craton object, or all are small and in memory, or the first parameter is missing.
    """

    def stays(*args: Any, **kwargs: Any) -> bool:
        found = operands(args, kwargs)
        ours = any(isinstance(obj, (pd.DataFrame, pd.Series)) for obj in found)
        return not ours or all(map(stays_in_pandas, found)) or not (args or subject in kwargs)

    return stays
