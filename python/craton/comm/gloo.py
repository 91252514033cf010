"""The communicator over Gloo, by PyTorch (``pip install torch``), for programs that use PyTorch's processes anyway.

Gloo connects the ranks by TCP; nothing is authenticated or encrypted, so use it on networks that you trust. A rank that ends is
noticed when its connection breaks. The ranks find each other by a store of PyTorch, which the first rank's endpoint serves.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist

from craton.comm.errors import CommunicatorClosed, RankFailed
from craton.comm.polled import PolledCommunicator, Wait, memory_of

__all__ = ["Endpoint", "GlooCommunicator", "connect"]

#: Gloo's own timeout. Calls end earlier, by the timeouts of the interface.
_NEVER = timedelta(days=20)
_LENGTH, _BODY = 1, 2


class Endpoint:
    """A store of PyTorch, by which the ranks find each other if it is the first rank's.

    Attributes
    ----------
    address : bytes
        What all ranks must be given, in the order of their numbers.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._store: Any = dist.TCPStore(host, 0, None, True, timedelta(seconds=60), False)
        self.address = json.dumps([host, self._store.port, secrets.token_hex(8)]).encode()

    @classmethod
    def bind(cls, host: str | None = None) -> Endpoint:
        """Serve a store at a host of this machine; without one, processes of this machine only can reach it."""
        return cls("127.0.0.1" if host is None else host)

    def close(self) -> None:
        """Stop serving."""
        self._store = None


def connect(
    endpoint: Endpoint, rank: int, addresses: Sequence[bytes], key: bytes, *, timeout: float = 60.0
) -> GlooCommunicator:
    """Connect with all other ranks, which call this at the same time.

    Parameters
    ----------
    endpoint, rank, addresses, timeout
        As for `craton.comm.connect`.
    key : bytes
        Tells communicators apart; Gloo does not authenticate.

    Raises
    ------
    RankFailed
        A rank did not connect in time.
    """
    host, port, _ = json.loads(addresses[0])
    limit = timedelta(seconds=timeout)
    # Gloo listens where this machine's name leads, unless it is told.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if endpoint._host == "127.0.0.1" else "")
    if not os.environ["GLOO_SOCKET_IFNAME"]:
        del os.environ["GLOO_SOCKET_IFNAME"]
    name = hashlib.sha256(key + b"".join(addresses)).hexdigest()
    try:
        store = endpoint._store if rank == 0 else dist.TCPStore(host, port, None, False, limit, False)
        store = dist.PrefixStore(name, store)
        store.set(f"here {rank}", "1")
        store.wait([f"here {other}" for other in range(len(addresses))], limit)
        made = GlooCommunicator(store, rank, len(addresses), None)
    except (RuntimeError, ValueError) as error:
        raise RankFailed(0 if rank else 1, f"the ranks did not connect within {timeout} s: {error}") from error
    # The first rank's store must live as long as others use it.
    made._endpoint = endpoint
    return made


class GlooCommunicator(PolledCommunicator):
    """A group of ranks that Gloo connects."""

    name: ClassVar[str] = "gloo"

    def __init__(self, store: Any, rank: int, size: int, whole: PolledCommunicator | None) -> None:
        super().__init__(rank, size, whole)
        self._store = store
        self._splits = 0
        self._endpoint: Endpoint | None = None
        self._group: Any = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, _NEVER)

    def _start_allgather(self, own: Any, out: Any) -> Callable[[], bool]:
        parts = list(torch.from_numpy(out).split(own.size))
        return _polled(self._group.allgather([parts], [_tensor(own)]), own, out)

    def _start_broadcast(self, memory: Any, root: int) -> Callable[[], bool]:
        if memory.size == 0 or self.size == 1:
            return _done
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = root, 0
        return _polled(self._group.broadcast([_tensor(memory)], options), memory)

    def _start_gather(self, own: Any, out: Any | None, lengths: list[int], root: int | None) -> Callable[[], bool]:
        # Gloo gathers tensors of equal length only.
        here = [other if root is None else root for other in range(self.size)]
        counts = [own.size if here[other] == other else 0 for other in range(self.size)]
        given = np.tile(own, self.size) if root is None else own
        found = np.empty(0, np.uint8) if out is None else out
        return self._start_alltoall(given, counts, found, lengths if out is not None else [0] * self.size)

    def _start_alltoall(self, given: Any, counts: list[int], out: Any, lengths: list[int]) -> Callable[[], bool]:
        if self.size == 1:
            out[:] = given[: out.size]
            return _done
        work = self._group.alltoall_base(_tensor(out), _tensor(given), lengths, counts)
        return _polled(work, given, out)

    def _start_send(self, memory: Any, to: int) -> Callable[[], bool]:
        length = memory_of(np.array([memory.size], np.int64))
        works = [self._group.send([_tensor(length)], to, _LENGTH), self._group.send([_tensor(memory)], to, _BODY)]
        return _waited(works)

    def _receive_message(self, wait: Wait, source: int) -> Any:
        length = np.empty(8, np.uint8)
        wait(_waited([self._group.recv([_tensor(length)], source, _LENGTH)]))
        memory = np.empty(int(length.view(np.int64)[0]), np.uint8)
        wait(_waited([self._group.recv([_tensor(memory)], source, _BODY)]))
        return memory

    def _send_notice(self, text: str, late: bool) -> None:
        try:
            self._store.set("notice", json.dumps([text[:2000], late]))
        except RuntimeError:
            # The first rank's store has gone with it; the others notice that by themselves.
            return

    def _look_for_notice(self) -> tuple[str, bool] | None:
        try:
            if not self._store.check(["notice"]):
                return None
            text, late = json.loads(self._store.get("notice"))
        except RuntimeError as error:
            raise RankFailed(0, f"its store cannot be reached: {error}") from error
        return str(text), bool(late)

    def _form_group(self, ranks: list[int], number: int) -> GlooCommunicator | None:
        self._splits += 1
        if not ranks:
            return None
        store = dist.PrefixStore(f"group {self._splits} {number}", self._store)
        return GlooCommunicator(store, ranks.index(self.rank), len(ranks), self._whole)

    def _failure(self, error: Exception) -> Exception | None:
        if isinstance(error, RuntimeError) and not isinstance(error, CommunicatorClosed):
            return CommunicatorClosed(f"Gloo failed, perhaps because a rank has ended: {error}")
        return None


def _tensor(memory: Any) -> Any:
    return torch.from_numpy(memory if memory.flags.writeable else memory.copy())


def _done() -> bool:
    return True


def _polled(work: Any, *memories: Any) -> Callable[[], bool]:
    """A request of Gloo as a function, which keeps the memory alive and raises the error of the request."""
    kept = memories

    def done() -> bool:
        if not work.is_completed():
            return False
        work.wait()
        return bool(kept) or True

    return done


def _waited(works: list[Any]) -> Callable[[], bool]:
    """Messages of Gloo as a function. They cannot be polled: a thread waits for them."""
    ended = threading.Event()
    failed: list[Exception] = []

    def wait() -> None:
        try:
            for work in works:
                work.wait()
        except Exception as error:
            failed.append(error)
        ended.set()

    def done() -> bool:
        if not ended.is_set():
            return False
        if failed:
            raise failed[0]
        return True

    threading.Thread(target=wait, name="craton-comm", daemon=True).start()
    return done
