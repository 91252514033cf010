"""A histogram of the durations of a pool's calls."""

from __future__ import annotations

__all__ = ["BUCKETS", "DurationHistogram"]

BUCKETS = 32
"""Number of buckets. The first counts calls of less than 1 µs, each further one up to twice as long; the last, all others."""


class DurationHistogram:
    """A histogram of durations with exponential buckets.

    Attributes
    ----------
    seconds : float
        The sum of all durations.
    """

    __slots__ = ("_counts", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        # A bucket for every bit length of a duration in µs that a float can hold, so that `record` needs no bounds check.
        self._counts = [0] * 1100

    def record(self, seconds: float) -> None:
        """Add one call of this duration."""
        self.seconds += seconds
        self._counts[int(seconds * 1e6).bit_length()] += 1

    @property
    def buckets(self) -> list[int]:
        """The counts of the `BUCKETS` buckets."""
        return [*self._counts[: BUCKETS - 1], sum(self._counts[BUCKETS - 1 :])]
