"""The errors of communicators."""

from __future__ import annotations

from craton.errors import CratonError

__all__ = ["CollectiveMismatch", "CommunicatorClosed", "RankFailed"]


class RankFailed(CratonError, ConnectionError):
    """A rank of the group has ended, or cannot be reached.

    Parameters
    ----------
    rank
        Its number.
    reason
        What is known.
    """

    def __init__(self, rank: int, reason: str = "") -> None:
        super().__init__(f"rank {rank} has failed{': ' if reason else ''}{reason}")
        self.rank = rank
        self.reason = reason

    def __reduce__(self) -> tuple[type[RankFailed], tuple[int, str]]:
        return RankFailed, (self.rank, self.reason)


class CommunicatorClosed(CratonError, RuntimeError):
    """The communicator was closed or aborted, or is unusable after an error."""


class CollectiveMismatch(CratonError, ValueError):
    """The ranks called different collectives, or one with arguments that do not agree."""
