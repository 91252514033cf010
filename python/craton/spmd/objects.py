"""Objects that live on the ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craton.spmd.executor import Executor
    from craton.spmd.futures import RankFutures

__all__ = ["RankObjects"]


class RankObjects:
    """An object on each rank, which :meth:`craton.spmd.Executor.start` has made."""

    def __init__(self, executor: Executor, made: RankFutures) -> None:
        self._executor, self._made = executor, made

    def execute(self, method: str | Callable[..., Any], /, *args: Any, **kwargs: Any) -> RankFutures:
        """Call a method on each rank's object; see :meth:`craton.spmd.Executor.execute`."""
        return self._executor._submit("execute", self._made._call.number, method, args, kwargs)

    def __repr__(self) -> str:
        return f"<RankObjects on {self._executor!r}>"
