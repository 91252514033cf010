"""The barrier of an `ActorGroup`, kept in the pool of its first actor."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Sequence
from typing import Any

from craton.actor.pool.base import request_handler
from craton.actor.refs import ActorRef
from craton.actor.wire.peers import Peers, ask_pool

__all__ = ["wait_at"]

# Seconds that a barrier waits before it starts to watch whether the other actors' processes are alive.
_WATCH_DELAY = 0.2


async def wait_at(refs: Sequence[ActorRef], uid: str, timeout: float | None) -> None:
    """Wait until all actors of the group have arrived at the barrier.

    Raises
    ------
    TimeoutError
        Some actors did not arrive in time.
    ServerClosed
        The process of one of the actors has died.
    """
    others = sorted({ref.address for ref in refs})
    async with asyncio.timeout(timeout):
        await ask_pool(refs[0].address, "barrier", (uid, len(refs), others))


class _Barrier:
    """One use of a group's barrier: it ends when all actors have arrived."""

    def __init__(self, pool: Any, addresses: list[str]) -> None:
        self.arrived = 0
        self.open: asyncio.Future[None] = pool.loop.create_future()
        self._pool, self._addresses = pool, addresses
        self._watching: list[asyncio.Task[None]] = []
        self._watch_timer = pool.loop.call_later(_WATCH_DELAY, self._watch)

    def _watch(self) -> None:
        # The "live" request is never answered, so it fails exactly when the other process dies.
        here = self._pool.external_address
        self._watching = [self._pool.spawn(self._while_alive(where)) for where in self._addresses if where != here]

    async def _while_alive(self, address: str) -> None:
        try:
            await Peers.here().ask(address, "live", None)
        except Exception as error:
            if not self.open.done():
                self.open.set_exception(error)

    def end(self) -> None:
        """Stop watching the other processes."""
        self._watch_timer.cancel()
        for task in self._watching:
            task.cancel()


_rounds: weakref.WeakKeyDictionary[Any, dict[str, _Barrier]] = weakref.WeakKeyDictionary()
"""The unfinished rounds: pool -> uid of the group -> round."""


@request_handler("live")
async def _live(pool: Any, _: Any) -> None:
    await pool.loop.create_future()


@request_handler("barrier")
async def _barrier(pool: Any, value: Any) -> None:
    uid, size, addresses = value
    rounds = _rounds.setdefault(pool, {})
    barrier = rounds.get(uid)
    if barrier is None or barrier.open.done():  # a failed round is replaced
        barrier = rounds[uid] = _Barrier(pool, addresses)
    barrier.arrived += 1
    if barrier.arrived == size:
        # Later arrivals start a new round.
        del rounds[uid]
        barrier.end()
        barrier.open.set_result(None)
        return
    try:
        await asyncio.shield(barrier.open)
    finally:
        if not barrier.open.done() or barrier.open.exception() is not None:
            # A caller that was cancelled or timed out no longer counts as arrived. A failed or empty round is removed.
            barrier.arrived -= 1
            if not barrier.arrived or barrier.open.done():
                with contextlib.suppress(KeyError):
                    if rounds[uid] is barrier:
                        del rounds[uid]
                barrier.end()
