"""What each source, step and check of a run did."""

from __future__ import annotations

from dataclasses import dataclass

from craton.pipeline.tasks import Outcome

__all__ = ["Record"]


@dataclass(slots=True)
class Record:
    """What a part of a run did.

    Parameters
    ----------
    name, kind
        The step, source or check.
    state
        ``"ran"``, ``"cached"``, ``"failed"``, ``"skipped"``, or ``"warned"``.
    rows, nbytes
        Of its tables.
    new, copied, shared
        As in :class:`~craton.pipeline.tasks.Outcome`.
    waited, seconds, cpu_seconds
        Until it was admitted; from then to the end; of processors.
    peak_memory
        The most bytes of its processes, besides inputs.
    attempts, calls
        How often it was tried, and the number of partitions.
    reason
        Why it was not cached, failed or was skipped.
    printed
        What it printed.
    """

    name: str
    kind: str
    state: str = "ran"
    rows: int = 0
    nbytes: int = 0
    new: int = 0
    copied: int = 0
    shared: int = 0
    waited: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    attempts: int = 0
    calls: int = 0
    reason: str = ""
    printed: str = ""

    def add(self, outcome: Outcome) -> None:
        """Add what a call did."""
        self.new += outcome.new
        self.copied += outcome.copied
        self.shared += outcome.shared
        self.cpu_seconds += outcome.cpu_seconds
        self.peak_memory = max(self.peak_memory, outcome.peak_memory)
        self.calls += 1
        self.printed += outcome.printed
