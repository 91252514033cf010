"""The interface of communicators, and what every implementation guarantees; `tests/unit/comm` is their contract suite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

__all__ = ["Communicator", "Reduction"]

#: The reductions of numbers and arrays; a table cannot be reduced.
Reduction = Literal["sum", "prod", "min", "max", "and", "or"]


class Communicator(ABC):
    """A group of ranks, which call its collectives together and in the same order.

    Values are scalars, NumPy arrays, Arrow tables, pandas and Polars frames, or any other objects that can be pickled. Every rank
    receives a value of the type that was sent; arrays and tables that arrive may be read-only views of shared memory.

    Guarantees of all implementations:

    - Messages between two ranks with one tag arrive in the order in which they were sent.
    - A reduction combines the ranks' values in the order of the ranks' numbers or in an order that depends only on the size of the
      group and of the value, so that it gives the same bits on every rank and in every run.
    - A call that cannot be completed raises within two seconds on every rank that takes part: `RankFailed` if a rank has ended or
      cannot be reached, `TimeoutError` after `timeout` seconds, `CommunicatorClosed` if the communicator was closed or aborted.
      After such an error the communicator is unusable, with all groups that were split from it and the whole that it was split from:
      all further calls raise `CommunicatorClosed`. Errors of arguments (TypeError, ValueError, KeyError) are raised before anything is
      sent, and leave it usable.
    - Ctrl-C interrupts a call within a second.
    - Ranks that call different collectives, or one collective with arguments that do not agree (root, reduction, shape, dtype), get
      a `CollectiveMismatch` where that can be noticed without another message, and never a wrong value.

    A communicator and its groups are used by one thread at a time; `abort` may be called in any thread.

    Arrays are reduced as NumPy's functions do it: integers wrap, NaN is the least and the greatest, and/or are bitwise, and the sum of
    booleans is their disjunction. Python's own numbers are reduced as Python does it, and integers do not overflow. A rank's own value in
    the results of `broadcast`, `gather`, `allgather`, `scatter` and `alltoall` may be the object that was given.

    Attributes
    ----------
    rank : int
        The number of this rank, from 0.
    size : int
        The number of ranks.
    """

    name: ClassVar[str]
    """The `communicator` argument of ``craton.init`` and of executors."""

    rank: int
    size: int

    # ---- collectives ----

    @abstractmethod
    def barrier(self, *, timeout: float | None = None) -> None:
        """Return when all ranks have called it."""

    @abstractmethod
    def broadcast(self, value: Any, root: int = 0, *, timeout: float | None = None) -> Any:
        """Return the root's value on all ranks; the other ranks' `value` is ignored."""

    @abstractmethod
    def gather(self, value: Any, root: int = 0, *, timeout: float | None = None) -> list[Any] | None:
        """Return the values of all ranks, by rank, on the root; None on the others. Sizes may differ."""

    @abstractmethod
    def allgather(self, value: Any, *, timeout: float | None = None) -> list[Any]:
        """Return the values of all ranks, by rank, on all ranks. Sizes may differ."""

    @abstractmethod
    def scatter(self, values: Sequence[Any] | None, root: int = 0, *, timeout: float | None = None) -> Any:
        """Return the root's value for this rank; `values` has one for each rank, and is ignored on the others.

        Raises
        ------
        ValueError
            On all ranks, if the root's `values` does not have `size` values.
        """

    @abstractmethod
    def alltoall(self, values: Sequence[Any], *, timeout: float | None = None) -> list[Any]:
        """Send a value to each rank; return those of all ranks for this one, by rank. Sizes may differ.

        Raises
        ------
        ValueError
            If `values` does not have `size` values.
        """

    @abstractmethod
    def reduce(self, value: Any, op: Reduction = "sum", root: int = 0, *, timeout: float | None = None) -> Any:
        """Return the reduction of the ranks' numbers or arrays of one shape and dtype on the root; None on the others."""

    @abstractmethod
    def allreduce(self, value: Any, op: Reduction = "sum", *, timeout: float | None = None) -> Any:
        """Return the reduction of the ranks' numbers or arrays of one shape and dtype on all ranks."""

    @abstractmethod
    def reduce_scatter(self, value: Any, op: Reduction = "sum", *, timeout: float | None = None) -> Any:
        """Return this rank's part of the reduction of arrays, cut along the first axis as `numpy.array_split` does."""

    # ---- tables ----

    def shuffle(self, table: Any, keys: Sequence[str], *, timeout: float | None = None) -> Any:
        """Send each row of a table to the rank that the hash of its keys belongs to; return the rows that belong to this one.

        Rows come by the rank that sent them, and then in its order. Rows with equal keys, missing ones included, meet on one rank.

        Raises
        ------
        KeyError
            If the table has no such column.
        """
        from craton.comm.tables import partition_by_hash

        return self._concatenated(self.alltoall(partition_by_hash(table, keys, self.size), timeout=timeout))

    def _concatenated(self, parts: list[Any]) -> Any:
        from craton.comm.tables import concatenated

        return concatenated(parts)

    # ---- point to point ----

    @abstractmethod
    def send(self, value: Any, to: int, tag: int = 0, *, timeout: float | None = None) -> None:
        """Send a value to a rank. It may return before the value has arrived; the caller may change it then."""

    @abstractmethod
    def receive(self, source: int, tag: int = 0, *, timeout: float | None = None) -> Any:
        """Return the next value that a rank has sent with a tag."""

    # ---- groups and ends ----

    @abstractmethod
    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> Communicator | None:
        """Form groups of the ranks with the same color, ordered by key and rank; None for ranks whose color is None.

        Called by all ranks. A group's calls do not disturb those of the others, nor those of the whole.
        """

    @abstractmethod
    def abort(self, reason: str = "") -> None:
        """End the communicator on all ranks: their calls raise. May be called in any thread."""

    @abstractmethod
    def close(self) -> None:
        """Release the connections. Messages that were sent still arrive. Further calls do nothing."""

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: rank {self.rank} of {self.size}>"
