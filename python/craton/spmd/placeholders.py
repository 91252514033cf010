"""Results that stay on the ranks, as arguments of later calls: each rank gets its own."""

from __future__ import annotations

from typing import Any

from craton.spmd.messages import error_of

__all__ = ["Failure", "kept_result", "kept_results"]


class Failure:
    """Stands for the result of a call that raised.

    Parameters
    ----------
    packed
        The exception: see `craton.actor.wire.exceptions.pack_exception`. Not the object, which would keep the call's variables.
    """

    def __init__(self, packed: bytes) -> None:
        self.packed = packed


#: In a rank: the executor's number, and results by the number of their call.
_executor = ""
_results: dict[int, Any] = {}


def kept_results(executor: str | None = None) -> dict[int, Any]:
    """Return the results that this process keeps for an executor."""
    global _executor
    if executor is not None:
        _executor = executor
    return _results


def kept_result(executor: str, number: int) -> Any:
    """Return this rank's result of a call; what a pickled `RankFutures` becomes in a rank.

    Raises
    ------
    ValueError
        If this process is not a rank of that executor.
    Exception
        What the call raised.
    LookupError
        If its results were released, or it was cancelled.
    """
    if executor != _executor:
        raise ValueError(
            "results that stay on the ranks of an executor can be passed to its own calls only; fetch them with results(), or pass "
            "frames on with env.store"
        )
    if number not in _results:
        raise LookupError("the call has no result on this rank: it was cancelled, or its results were released")
    found = _results[number]
    if isinstance(found, Failure):
        raise error_of([found.packed])
    return found
