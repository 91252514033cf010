"""Carries the installation into worker processes that start from nothing.

A forked child inherits the hooks. Under the "spawn" and "forkserver" methods ``multiprocessing`` sends the
child a dictionary of preparations and unpickles it before it runs the user's main module again; one
value in it that unpickles by calling `craton.accelerate.install` is all that is needed.
"""

from __future__ import annotations

import multiprocessing.spawn
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["forget", "prepare"]

_KEY = "craton"
_before: Callable[[str], dict[str, Any]] | None = None
_install: Callable[..., None] | None = None
_arguments: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


class _InstallWhenUnpickled:
    def __reduce__(self) -> tuple[Callable[..., None], tuple[tuple[str, ...], tuple[str, ...]]]:
        assert _install is not None
        return _install, _arguments


def prepare(install: Callable[..., None], include: Iterable[str], exclude: Iterable[str]) -> None:
    """Make processes that ``multiprocessing`` starts from now on call a function with these arguments before their main module."""
    global _before, _install, _arguments
    _install, _arguments = install, (tuple(include), tuple(exclude))
    if _before is not None:
        return
    before = _before = multiprocessing.spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data = before(name)
        if _before is not None:
            data[_KEY] = _InstallWhenUnpickled()
        return data

    multiprocessing.spawn.get_preparation_data = get_preparation_data


def forget() -> None:
    """Undo `prepare`."""
    global _before
    if _before is not None:
        multiprocessing.spawn.get_preparation_data = _before  # type: ignore[assignment]
        _before = None
