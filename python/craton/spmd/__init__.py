"""SPMD programs: the same function on every rank, with a communicator between them.

``Executor(4)`` starts four ranks on the machines of the current session; ``executor.run(function)`` calls a function on each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craton.spmd.environment import Environment
    from craton.spmd.errors import ExecutorClosed, ResultLost
    from craton.spmd.executor import Executor
    from craton.spmd.futures import RankFuture, RankFutures
    from craton.spmd.moving import gather, scatter, to_session
    from craton.spmd.objects import RankObjects

_LAZY = {
    "Environment": "environment",
    "Executor": "executor",
    "ExecutorClosed": "errors",
    "RankFuture": "futures",
    "RankFutures": "futures",
    "RankObjects": "objects",
    "ResultLost": "errors",
    "gather": "moving",
    "scatter": "moving",
    "to_session": "moving",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'craton.spmd' has no attribute {name!r}")
    from importlib import import_module

    return globals().setdefault(name, getattr(import_module(f"craton.spmd.{_LAZY[name]}"), name))


__all__ = [
    "Environment",
    "Executor",
    "ExecutorClosed",
    "RankFuture",
    "RankFutures",
    "RankObjects",
    "ResultLost",
    "gather",
    "scatter",
    "to_session",
]
