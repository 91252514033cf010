"""Counts that a pool keeps of the calls that it handles."""

from __future__ import annotations

__all__ = ["BUCKETS", "Handled"]

BUCKETS = 32
"""The first counts what took less than a microsecond, each further one up to twice as long, the last everything else."""


class Handled:
    """How long calls took.

    Attributes
    ----------
    seconds : float
        All of them together.
    """

    __slots__ = ("_counts", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        # As many as there can be, so that counting need not look.
        self._counts = [0] * 1100

    def took(self, seconds: float) -> None:
        """Count one."""
        self.seconds += seconds
        self._counts[int(seconds * 1e6).bit_length()] += 1

    @property
    def buckets(self) -> list[int]:
        """How many took how long."""
        return [*self._counts[: BUCKETS - 1], sum(self._counts[BUCKETS - 1 :])]
