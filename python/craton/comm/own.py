"""Craton's own communicator: shared memory between processes of one machine, authenticated TCP between machines."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from craton import _native
from craton.comm.base import Communicator, Reduction
from craton.comm.errors import CollectiveMismatch
from craton.comm.numbers import (
    checked_array,
    combine_arrays,
    combine_scalars,
    is_scalar,
    native_type,
    packed,
    part_bounds,
    shape_hash,
    unpacked,
    validate,
)
from craton.comm.values import decoded, pieces

__all__ = ["Endpoint", "OwnCommunicator", "connect"]

_MIN_KEY_BYTES = 16


class Endpoint:
    """The end of a rank to which the other ranks connect.

    Attributes
    ----------
    address : bytes
        What all ranks must be given, in the order of their numbers.
    """

    def __init__(self, native: Any) -> None:
        self._native = native

    @classmethod
    def bind(cls, host: str | None = None, *, tcp: bool = False) -> Endpoint:
        """Listen for other ranks; they are answered from `connect` on.

        Parameters
        ----------
        host : str, optional
            The name or number by which other machines reach this one. Without it, only processes of this machine do.
        tcp : bool
            Use TCP between processes of one machine, too.

        Raises
        ------
        ValueError
            The host is not one of this machine.
        """
        return cls(_native.CommEndpoint(host, tcp))

    @property
    def address(self) -> bytes:
        return self._native.address

    def close(self) -> None:
        """Stop listening, if no rank has been connected."""
        self._native.close()


def connect(
    endpoint: Endpoint, rank: int, addresses: Sequence[bytes], key: bytes, *, timeout: float = 60.0
) -> OwnCommunicator:
    """Connect with all other ranks, which call this at the same time.

    Parameters
    ----------
    endpoint : Endpoint
        This rank's; it is used up.
    rank : int
        This rank's number.
    addresses : sequence of bytes
        The addresses of all ranks, by number.
    key : bytes
        Random bytes that all ranks share, at least 16. A process without them is not answered.
    timeout : float
        Seconds that the others are waited for.

    Raises
    ------
    RankFailed
        A rank did not connect in time.
    ConnectionError
        A rank has another key or another list of addresses.
    ValueError
        The key is too short, or the rank's address is not that of the endpoint.
    """
    if len(key) < _MIN_KEY_BYTES:
        raise ValueError(f"key must have at least {_MIN_KEY_BYTES} bytes, got {len(key)}: use secrets.token_bytes(32)")
    if not 0 <= rank < len(addresses):
        raise ValueError(f"rank must be from 0 to {len(addresses) - 1}, got {rank}")
    native = endpoint._native.connect(rank, [bytes(address) for address in addresses], bytes(key), timeout)
    return OwnCommunicator(native)


class OwnCommunicator(Communicator):
    """A group of ranks that are connected by `craton.comm.own`.

    An error ends the communicator with all its groups. Calls of one communicator and of all groups of it are made by one
    thread at a time; a call in a second thread raises a ValueError. A forked process cannot use its parent's
    communicator.

    A rank's own part of `allgather` and `alltoall`, and the root's value of `broadcast`, `gather` and `scatter`, are the
    objects that were given, not copies.
    """

    name: ClassVar[str] = "own"

    def __init__(self, native: Any) -> None:
        self._native = native
        self.rank = native.rank
        self.size = native.size
        _all.add(self)

    # ---- collectives ----

    def barrier(self, *, timeout: float | None = None) -> None:
        self._native.barrier(timeout)

    def broadcast(self, value: Any, root: int = 0, *, timeout: float | None = None) -> Any:
        root = self._checked(root, "root")
        if self.rank == root:
            self._native.broadcast(pieces(value), root, timeout)
            return value
        return decoded(self._native.broadcast(None, root, timeout))

    def gather(self, value: Any, root: int = 0, *, timeout: float | None = None) -> list[Any] | None:
        root = self._checked(root, "root")
        given = [] if self.rank == root else pieces(value)
        memories = self._native.gather(given, root, timeout)
        return None if memories is None else self._with_own(memories, value)

    def allgather(self, value: Any, *, timeout: float | None = None) -> list[Any]:
        return self._with_own(self._native.allgather(pieces(value), timeout), value)

    def scatter(self, values: Sequence[Any] | None, root: int = 0, *, timeout: float | None = None) -> Any:
        root = self._checked(root, "root")
        if self.rank != root:
            value = decoded(self._native.scatter(None, root, timeout))
            if isinstance(value, _WrongNumber):
                raise ValueError(value.text)
            return value
        count = -1 if values is None else len(values)
        if values is None or count != self.size:
            given = "none" if values is None else str(count)
            wrong = _WrongNumber(f"scatter takes a value for each of the {self.size} ranks from the root, got {given}")
            self._native.scatter([pieces(wrong)] * self.size, root, timeout)
            raise ValueError(wrong.text)
        given_pieces = [[] if rank == root else pieces(value) for rank, value in enumerate(values)]
        self._native.scatter(given_pieces, root, timeout)
        return values[root]

    def alltoall(self, values: Sequence[Any], *, timeout: float | None = None) -> list[Any]:
        if len(values) != self.size:
            raise ValueError(f"alltoall takes a value for each of the {self.size} ranks, got {len(values)}")
        given = [[] if rank == self.rank else pieces(value) for rank, value in enumerate(values)]
        return self._with_own(self._native.alltoall(given, timeout), values[self.rank])

    def reduce(self, value: Any, op: Reduction = "sum", root: int = 0, *, timeout: float | None = None) -> Any:
        validate(op)
        root = self._checked(root, "root")
        if is_scalar(value):
            return self._combined_numbers(self._native.gather(packed(value, op), root, timeout), value, op)
        array = checked_array(value, op)
        name = native_type(array.dtype, op)
        if name is None:
            values = self.gather(array, root, timeout=timeout)
            return None if values is None else _as_given(combine_arrays(values, op), value)
        out = np.empty(array.shape, array.dtype) if self.rank == root else None
        self._native.reduce(
            _exported(array), None if out is None else _exported(out), name, op, shape_hash(array.shape), root, timeout
        )
        return None if out is None else _as_given(out, value)

    def allreduce(self, value: Any, op: Reduction = "sum", *, timeout: float | None = None) -> Any:
        validate(op)
        if is_scalar(value):
            return self._combined_numbers(self._native.allgather(packed(value, op), timeout), value, op)
        array = checked_array(value, op)
        name = native_type(array.dtype, op)
        if name is None:
            return _as_given(combine_arrays(self.allgather(array, timeout=timeout), op), value)
        out = np.empty(array.shape, array.dtype)
        self._native.allreduce(_exported(array), _exported(out), name, op, shape_hash(array.shape), timeout)
        return _as_given(out, value)

    def reduce_scatter(self, value: Any, op: Reduction = "sum", *, timeout: float | None = None) -> Any:
        validate(op)
        array = checked_array(value, op)
        if array.ndim == 0:
            raise TypeError("reduce_scatter takes arrays of at least one dimension, got one without")
        bounds = part_bounds(array.shape[0], self.size)
        name = native_type(array.dtype, op)
        if name is None:
            parts = [array[start:stop] for start, stop in pairwise(bounds)]
            return combine_arrays(self.alltoall(parts, timeout=timeout), op)
        rows = bounds[self.rank + 1] - bounds[self.rank]
        out = np.empty((rows, *array.shape[1:]), array.dtype)
        width = int(np.prod(array.shape[1:], dtype=np.int64))
        ends = [bound * width for bound in bounds]
        self._native.reduce_scatter(array, out, name, op, shape_hash(array.shape), ends, timeout)
        return out

    # ---- point to point ----

    def send(self, value: Any, to: int, tag: int = 0, *, timeout: float | None = None) -> None:
        self._native.send(pieces(value), self._checked(to, "to"), tag, timeout)

    def receive(self, source: int, tag: int = 0, *, timeout: float | None = None) -> Any:
        return decoded(self._native.receive(self._checked(source, "source"), tag, timeout))

    # ---- groups and ends ----

    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> OwnCommunicator | None:
        chosen = self.allgather((color, key), timeout=timeout)
        members = sorted((key, rank) for rank, (other, key) in enumerate(chosen) if other == color)
        ranks = [] if color is None else [rank for _, rank in members]
        native = self._native.subgroup(ranks, 0 if color is None else color & 0xFFFF_FFFF_FFFF_FFFF)
        return None if native is None else OwnCommunicator(native)

    def abort(self, reason: str = "") -> None:
        self._native.abort(reason)

    def close(self) -> None:
        self._native.close()

    # ---- parts of the above ----

    def _checked(self, rank: int, name: str) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"{name} must be a rank from 0 to {self.size - 1}, got {rank}")
        return rank

    def _with_own(self, memories: list[Any], value: Any) -> list[Any]:
        return [value if memory is None else decoded(memory) for memory in memories]

    def _combined_numbers(self, memories: list[Any] | None, value: Any, op: Reduction) -> Any:
        if memories is None:
            return None
        found = [(op, value) if memory is None else unpacked(memory) for memory in memories]
        if any(other != op or number is None for other, number in found):
            raise CollectiveMismatch(
                "the ranks called reductions that do not agree: of numbers and of others, or by different ops"
            )
        return combine_scalars([number for _, number in found], op)


class _WrongNumber:
    """Sent by a root that did not have a value for each rank."""

    def __init__(self, text: str) -> None:
        self.text = text


def _exported(array: Any) -> Any:
    """An array whose memory native code takes: one of at least one dimension."""
    return array if array.ndim else array.reshape(1)


def _as_given(result: Any, value: Any) -> Any:
    return result[()] if isinstance(value, np.generic) else result


_all: weakref.WeakSet[OwnCommunicator] = weakref.WeakSet()


def _forget() -> None:
    for one in list(_all):
        one._native.forget()


def _close() -> None:
    for one in list(_all):
        one._native.close()


# A program that ends without closing its communicators leaves in order: others that do not need it any more go on.
atexit.register(_close)
# A forked child holds copies of the sockets: without this, the other ranks would not notice the end of the parent by them.
os.register_at_fork(after_in_child=_forget)
