"""The communicator over UCX, for networks with RDMA; without one, UCX uses shared memory and TCP (the extra ``ucx``).

UCX does not authenticate or encrypt: the key tells communicators apart and nothing more, so use it on networks that you trust. Its
variables (``UCX_TLS``, ``UCX_NET_DEVICES``) choose transports and devices. Each collective sends directly between the ranks that need it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np

from craton.comm.errors import RankFailed
from craton.comm.polled import PolledCommunicator, Wait, memory_of, send_later
from craton.comm.ucx_library import UcxError, UcxPeer, Worker, find_library, worker

__all__ = ["Endpoint", "UcxCommunicator", "connect", "find_library"]

#: The number of a greeting that says that a rank leaves.
_GOODBYE = 1
# A tag: the group, by 34 bits of a hash, the kind of message (2 bits), the rank that sends (12), and for collectives their number (16).
_HELLO, _COLLECTIVE, _MESSAGE, _NOTICE = range(4)
_SEQUENCE = (1 << 16) - 1
_MOST_RANKS = 1 << 12
_LEFT = "it has closed the communicator"
_ANY_RANK = ((1 << 64) - 1) ^ ((_MOST_RANKS - 1) << 16)


def _tag(group: int, kind: int, rank: int, sequence: int = 0) -> int:
    return group << 30 | kind << 28 | rank << 16 | sequence & _SEQUENCE


def _group(name: bytes) -> int:
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "little") >> 30 | 1  # the last bit is COMMUNICATORS


class Endpoint:
    """The worker of UCX that this process has.

    Attributes
    ----------
    address : bytes
        What all ranks must be given, in the order of their numbers.
    """

    def __init__(self) -> None:
        self._worker = worker()
        self.address = self._worker.address

    @classmethod
    def bind(cls, host: str | None = None) -> Endpoint:
        """Return this process's endpoint; UCX finds the ways to other machines itself."""
        return cls()

    def close(self) -> None:
        """Do nothing: the worker lives as long as its process."""


def connect(
    endpoint: Endpoint, rank: int, addresses: Sequence[bytes], key: bytes, *, timeout: float = 60.0
) -> UcxCommunicator:
    """Connect with all other ranks, which call this at the same time.

    Parameters
    ----------
    endpoint, rank, addresses, timeout
        As for `craton.comm.connect`.
    key : bytes
        Tells communicators apart; UCX does not authenticate.

    Raises
    ------
    RankFailed
        A rank cannot be reached, did not connect in time, or has another key.
    """
    if len(addresses) > _MOST_RANKS:
        raise ValueError(f"a communicator over UCX has at most {_MOST_RANKS} ranks, got {len(addresses)}")
    own = endpoint._worker
    peers = [None if other == rank else _connected(own, other, address) for other, address in enumerate(addresses)]
    name = hashlib.sha256(key + b"".join(addresses)).digest()
    group, greeting = _group(name), np.frombuffer(name, np.uint8)
    for other, peer in enumerate(peers):
        if peer is not None:
            try:
                send_later(own.send(peer, greeting, _tag(group, _HELLO, rank)), greeting)
            except UcxError as error:
                raise RankFailed(other, str(error)) from error
    deadline = time.monotonic() + timeout
    for other, peer in enumerate(peers):
        if peer is not None and _greeting(own, other, peer, group, deadline) != name:
            raise RankFailed(other, "it has another key")
    return UcxCommunicator(own, peers, rank, name)


def _connected(own: Worker, rank: int, address: bytes) -> UcxPeer:
    try:
        return own.peer(address)
    except UcxError as error:
        raise RankFailed(rank, str(error)) from error


def _greeting(own: Worker, rank: int, peer: UcxPeer, group: int, deadline: float) -> bytes:
    """Wait for the greeting of a rank."""
    while (found := own.take(_tag(group, _HELLO, rank))) is None:
        own.look_for_ends()
        if peer.failure is not None:
            raise RankFailed(rank, peer.failure)
        if time.monotonic() > deadline:
            raise RankFailed(rank, "it did not connect in time, or has another key")
        time.sleep(0.0002)
    memory, done = found
    while not done():
        time.sleep(0.0002)
    greeting: bytes = memory.tobytes()
    return greeting


class UcxCommunicator(PolledCommunicator):
    """A group of ranks that UCX connects."""

    name: ClassVar[str] = "ucx"

    def __init__(
        self, own: Worker, peers: list[UcxPeer | None], rank: int, name: bytes, whole: UcxCommunicator | None = None
    ) -> None:
        super().__init__(rank, len(peers), whole)
        self._worker, self._peers, self._name, self._group = own, peers, name, _group(name)
        self._collectives = self._splits = 0
        self._root = self if whole is None else whole
        self._left: set[UcxPeer] = set() if whole is None else whole._left

    def _start_allgather(self, own: Any, out: Any) -> Callable[[], bool]:
        size = own.size
        return self._exchange(lambda _: own, lambda other: out[size * other : size * (other + 1)])

    def _start_broadcast(self, memory: Any, root: int) -> Callable[[], bool]:
        if self.rank == root:
            return self._exchange(lambda _: memory, lambda _: None)
        return self._exchange(lambda _: None, lambda other: memory if other == root else None)

    def _start_gather(self, own: Any, out: Any | None, lengths: list[int], root: int | None) -> Callable[[], bool]:
        ends = [0, *accumulate(lengths)]
        return self._exchange(
            lambda other: own if root is None or root == other else None,
            lambda other: None if out is None else out[ends[other] : ends[other + 1]],
        )

    def _start_alltoall(self, given: Any, counts: list[int], out: Any, lengths: list[int]) -> Callable[[], bool]:
        sent, received = (list(pairwise([0, *accumulate(each)])) for each in (counts, lengths))
        return self._exchange(
            lambda other: given[slice(*sent[other])],
            lambda other: out[slice(*received[other])],
        )

    def _exchange(self, given: Callable[[int], Any], room: Callable[[int], Any]) -> Callable[[], bool]:
        """Send memory to other ranks and receive theirs; None where nothing is sent, or received."""
        self._collectives += 1
        requests: list[tuple[int, Callable[[], bool]]] = []
        for step in range(1, self.size):  # at each step, every rank receives from one and sends to one
            source, target = (self.rank - step) % self.size, (self.rank + step) % self.size
            into, memory = room(source), given(target)
            if into is not None and into.size:
                tag = _tag(self._group, _COLLECTIVE, source, self._collectives)
                requests.append((source, self._worker.receive(into, tag)))
            if memory is not None and memory.size:
                requests.append((target, self._send(target, memory, _COLLECTIVE, self._collectives)))
        into, memory = room(self.rank), given(self.rank)
        if into is not None and memory is not None:
            into[:] = memory

        def done() -> bool:
            while requests:
                other, complete = requests[-1]
                left = self._has_left(other)
                if not complete():
                    if left:
                        raise RankFailed(other, _LEFT)
                    return False
                requests.pop()
            return True

        return done

    def _send(self, to: int, memory: Any, kind: int, sequence: int = 0) -> Callable[[], bool]:
        peer = self._peers[to]
        assert peer is not None
        try:
            return self._worker.send(peer, memory, _tag(self._group, kind, self.rank, sequence))
        except UcxError as error:
            raise RankFailed(to, str(error)) from error

    def _start_send(self, memory: Any, to: int) -> Callable[[], bool]:
        return self._send(to, memory, _MESSAGE)

    def _receive_message(self, wait: Wait, source: int) -> Any:
        found: list[tuple[Any, Callable[[], bool]]] = []

        def arrived() -> bool:
            left = self._has_left(source)  # what it sent before that is here
            message = self._worker.take(_tag(self._group, _MESSAGE, source))
            if message is None and left:
                raise RankFailed(source, _LEFT)
            if message is not None:
                found.append(message)
            return message is not None

        wait.until(arrived)
        memory, done = found[0]
        wait(done)
        return memory

    def _has_left(self, rank: int) -> bool:
        return self._peers[rank] in self._left

    def close(self) -> None:
        """Release the connections. Messages that were sent still arrive. Further calls do nothing."""
        ended = self._closed
        super().close()
        if not ended and self._root is self:
            self._tell_all(np.zeros(1, np.uint8), _HELLO, _GOODBYE)
            deadline = time.monotonic() + 10
            while self._worker.sending and self._ended is None and time.monotonic() < deadline:
                time.sleep(0.0005)

    def _send_notice(self, text: str, late: bool) -> None:
        self._tell_all(memory_of(bytes([late]) + text.encode()[:2000]), _NOTICE)

    def _tell_all(self, message: Any, kind: int, sequence: int = 0) -> None:
        for other, peer in enumerate(self._peers):
            if peer is not None:
                try:
                    send_later(self._send(other, message, kind, sequence), message)
                except RankFailed:
                    continue  # it does not need to know any more

    def _look_for_notice(self) -> tuple[str, bool] | None:
        found = self._worker.take(_tag(self._group, _NOTICE, 0), _ANY_RANK)
        if found is not None:
            memory, done = found
            while not done():  # notices are short: they come in one piece
                time.sleep(0)
            return memory[1:].tobytes().decode(errors="replace"), bool(memory[0])
        for rank, peer in enumerate(self._peers):
            if peer not in self._left and self._worker.take(_tag(self._group, _HELLO, rank, _GOODBYE)) is not None:
                assert peer is not None
                self._left.add(peer)
        self._worker.look_for_ends()
        for rank, peer in enumerate(self._peers):
            if peer is not None and peer.failure is not None and peer not in self._left:
                raise RankFailed(rank, peer.failure)
        return None

    def _form_group(self, ranks: list[int], number: int) -> UcxCommunicator | None:
        self._splits += 1
        if not ranks:
            return None
        name = hashlib.sha256(self._name + f"{self._splits} {number}".encode()).digest()
        return UcxCommunicator(
            self._worker, [self._peers[other] for other in ranks], ranks.index(self.rank), name, self._root
        )

    def _failure(self, error: Exception) -> Exception | None:
        if isinstance(error, RankFailed):
            return error
        if isinstance(error, UcxError):
            failed = [rank for rank, peer in enumerate(self._peers) if peer is not None and peer.failure is not None]
            return RankFailed(failed[0] if failed else -1, str(error))
        return None
