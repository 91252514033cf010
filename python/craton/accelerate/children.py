"""Installs the accelerator in worker processes of ``multiprocessing`` that are not forked.

A forked child inherits the hooks. With the start methods "spawn" and "forkserver", ``multiprocessing`` sends the
child a dictionary of preparation data, which the child unpickles before it runs the user's main module again. This module
adds a value to that dictionary whose unpickling calls `craton.accelerate.install`.
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
    """Make later processes of ``multiprocessing`` call ``install(include, exclude)`` before they run their main module."""
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
