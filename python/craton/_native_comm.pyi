"""Types of communicators in ``craton._native``; `craton.comm.own` is the interface to them.

Values are bytes: sequences of pieces, which are contiguous bytes-like objects that follow each other without a gap. What is
received is read-only memory, aligned to 64 bytes. All calls release the interpreter lock, run signal handlers at least every
50 ms, and raise the errors of `craton.comm.errors`; ``timeout`` is in seconds.
"""

from collections.abc import Sequence
from typing import Any

from craton._native_store import Memory

_Pieces = Sequence[Any]

class CommEndpoint:
    """The end of a rank to which others connect.

    Parameters
    ----------
    host : str, optional
        The name or number by which other machines reach this one; without it, only this machine's processes do.
    tcp : bool
        Use TCP between processes of one machine, too.

    Raises
    ------
    ValueError
        The host is not one of this machine.
    """

    def __new__(cls, host: str | None = None, tcp: bool = False) -> CommEndpoint: ...
    @property
    def address(self) -> bytes:
        """What the other ranks need."""

    def connect(self, rank: int, addresses: Sequence[bytes], key: bytes, timeout: float) -> CommGroup:
        """Connect with all other ranks.

        Raises
        ------
        RankFailed
            A rank did not connect within ``timeout`` seconds.
        ConnectionError
            A rank has another key or other addresses.
        ValueError
            The arguments are not those of this endpoint, or it was used already.
        """

    def close(self) -> None:
        """Stop listening."""

class CommGroup:
    """A group of connected ranks, of which this process is one."""

    @property
    def rank(self) -> int:
        """The number of this rank in the group."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    @property
    def closed(self) -> bool:
        """Whether all further calls fail."""

    def barrier(self, timeout: float | None) -> None:
        """Return when all ranks have called it."""

    def broadcast(self, pieces: _Pieces | None, root: int, timeout: float | None) -> Memory | None:
        """Send the root's pieces to all; return them on the others, None on the root."""

    def gather(self, pieces: _Pieces, root: int, timeout: float | None) -> list[Memory | None] | None:
        """Return the values of all ranks on the root, with None for its own; None on the others."""

    def allgather(self, pieces: _Pieces, timeout: float | None) -> list[Memory | None]:
        """Return the values of all ranks, with None for this rank's own."""

    def scatter(self, values: Sequence[_Pieces] | None, root: int, timeout: float | None) -> Memory | None:
        """Return the root's value for this rank; None on the root."""

    def alltoall(self, values: Sequence[_Pieces], timeout: float | None) -> list[Memory | None]:
        """Send a value to each rank; return those of all ranks for this one, with None for its own."""

    def allreduce(self, array: Any, out: Any, number: str, op: str, shape: int, timeout: float | None) -> None:
        """Write the reduction of all ranks' arrays into a contiguous array.

        Parameters
        ----------
        array, out : buffers
            Contiguous, of one length, and different.
        number : str
            The type of the elements, as NumPy names it without the byte order: ``f8``.
        op : str
            The reduction.
        shape : int
            A hash of the shape, which must be equal on all ranks.
        """

    def reduce(
        self, array: Any, out: Any | None, number: str, op: str, shape: int, root: int, timeout: float | None
    ) -> None:
        """Write the reduction of all ranks' arrays on the root."""

    def reduce_scatter(
        self, array: Any, out: Any, number: str, op: str, shape: int, bounds: Sequence[int], timeout: float | None
    ) -> None:
        """Write this rank's part of the reduction; ``bounds`` are 0 and the ends of the ranks' parts, in elements."""

    def send(self, pieces: _Pieces, to: int, tag: int, timeout: float | None) -> None:
        """Send a message."""

    def receive(self, source: int, tag: int, timeout: float | None) -> Memory:
        """Return the next message of a rank with a tag."""

    def subgroup(self, ranks: Sequence[int], color: int) -> CommGroup | None:
        """Return the group of these ranks of this group, in their order; None for no ranks.

        All ranks of this group call it; those of one group with the same arguments. Nothing is sent.
        """

    def abort(self, reason: str) -> None:
        """End the calls of all ranks; in any thread."""

    def close(self) -> None:
        """Close the group, and with the group of all ranks the connections."""

    def forget(self) -> None:
        """In a forked child: give up the parent's sockets."""
