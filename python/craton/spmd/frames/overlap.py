"""Exchanges in rounds: while the rows of a round are on their way, those of the round before are computed with.

Within a machine an exchange is a copy, which needs the processors that the computation needs, so it is one round. Between machines, large
frames are exchanged in several. Rows that must meet, those with equal keys or of one range, are of the same round, so the result of a
round is a part of the whole result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from craton.spmd.frames.hashing import ranks_and_rounds
from craton.spmd.frames.parts import joined

if TYPE_CHECKING:
    from craton.comm import Communicator
    from craton.spmd.environment import Environment

__all__ = ["by_hash", "in_rounds", "number_of_rounds"]

#: Bytes that each rank sends in a round, and the most rounds.
_ROUND, _MOST = 8 << 20, 8

#: Rounds that are exchanged or wait for it while a rank computes, so that one that computes longer does not delay the others.
_AHEAD = 3

Parts = Callable[[int], list[pd.DataFrame]]
"""Returns what is sent in a round, by rank."""


def number_of_rounds(env: Environment, *frames: pd.DataFrame) -> int:
    """Return in how many rounds frames are exchanged; the same on all ranks. All ranks call it.

    Parameters
    ----------
    env
        The environment of the rank.
    *frames
        The rank's parts.
    """
    if env.world_size == 1 or not env.spans_machines:
        return 1
    size = sum(int(frame.memory_usage(index=False).sum()) for frame in frames)
    return max(min(max(env.comm.allgather(size)) // _ROUND, _MOST), 1)


def by_hash(env: Environment, frame: pd.DataFrame, keys: Sequence[Hashable], rounds: int) -> Parts:
    """Divide rows by the hash of keys: to the ranks of `ranks_by_hash`, in some rounds."""
    size = env.world_size
    numbers = ranks_and_rounds(frame, keys, size, rounds)
    order = np.argsort(numbers, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=size * rounds))])

    def parts(number: int) -> list[pd.DataFrame]:
        first = number * size
        return [frame.take(order[ends[first + rank] : ends[first + rank + 1]]) for rank in range(size)]

    return parts


def in_rounds(env: Environment, rounds: int, *sent: Parts) -> Iterator[list[pd.DataFrame]]:
    """Exchange frames; yield for each round the rows of each frame that have come to this rank, by the rank that sent them.

    The communicator must not be used until the last round has been yielded.
    """
    if rounds == 1:
        yield _exchanged(env.comm, [parts(0) for parts in sent])
        return
    with ThreadPoolExecutor(1, "craton-exchange") as thread:
        comm = env.comm

        def begin(number: int) -> Future[list[pd.DataFrame]]:
            return thread.submit(_exchanged, comm, [parts(number) for parts in sent])

        try:
            arriving = deque(begin(number) for number in range(min(_AHEAD, rounds)))
            for number in range(rounds):
                if number + _AHEAD < rounds:
                    arriving.append(begin(number + _AHEAD))
                yield arriving.popleft().result()
        except BaseException:
            comm.abort("an exchange was given up")  # the thread may wait for the other ranks
            raise


def _exchanged(comm: Communicator, sent: list[list[pd.DataFrame]]) -> list[pd.DataFrame]:
    return [joined(comm.alltoall(parts)) for parts in sent]
