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
    buckets : list of int
        How many took how long.
    """

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * BUCKETS

    def took(self, seconds: float) -> None:
        """Count one."""
        self.seconds += seconds
        self.buckets[min(int(seconds * 1e6).bit_length(), BUCKETS - 1)] += 1
