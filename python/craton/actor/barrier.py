"""Where the actors of a group wait for one another: at the pool of the first of them."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Sequence
from typing import Any

from craton.actor.pool.base import answers
from craton.actor.refs import ActorRef
from craton.actor.wire.peers import Peers, ask_pool

__all__ = ["wait_at"]

# Seconds after which those who wait want to know whether the others live.
_DOUBT = 0.2


async def wait_at(refs: Sequence[ActorRef], uid: str, timeout: float | None) -> None:
    """Wait until as many have come as there are actors.

    Raises
    ------
    TimeoutError
        They have not come in time.
    ServerClosed
        The process of one of them has died.
    """
    others = sorted({ref.address for ref in refs})
    async with asyncio.timeout(timeout):
        await ask_pool(refs[0].address, "barrier", (uid, len(refs), others))


class _Barrier:
    """One round."""

    def __init__(self, pool: Any, addresses: list[str]) -> None:
        self.came = 0
        self.open: asyncio.Future[None] = pool.loop.create_future()
        self._pool, self._addresses = pool, addresses
        self._watching: list[asyncio.Task[None]] = []
        self._doubt = pool.loop.call_later(_DOUBT, self._watch)

    def _watch(self) -> None:
        # A question without an answer, which fails when the process dies.
        here = self._pool.external_address
        self._watching = [self._pool.spawn(self._while_alive(where)) for where in self._addresses if where != here]

    async def _while_alive(self, address: str) -> None:
        try:
            await Peers.here().ask(address, "live", None)
        except Exception as error:
            if not self.open.done():
                self.open.set_exception(error)

    def end(self) -> None:
        """Watch no more."""
        self._doubt.cancel()
        for task in self._watching:
            task.cancel()


_rounds: weakref.WeakKeyDictionary[Any, dict[str, _Barrier]] = weakref.WeakKeyDictionary()
"""The rounds that some have come to and others have not, by their pools and the uids of groups."""


@answers("live")
async def _live(pool: Any, _: Any) -> None:
    await pool.loop.create_future()


@answers("barrier")
async def _barrier(pool: Any, value: Any) -> None:
    uid, size, addresses = value
    rounds = _rounds.setdefault(pool, {})
    barrier = rounds.get(uid)
    if barrier is None or barrier.open.done():  # who comes to a broken round begins another
        barrier = rounds[uid] = _Barrier(pool, addresses)
    barrier.came += 1
    if barrier.came == size:
        # The next to come begin another round.
        del rounds[uid]
        barrier.end()
        barrier.open.set_result(None)
        return
    try:
        await asyncio.shield(barrier.open)
    finally:
        if not barrier.open.done() or barrier.open.exception() is not None:
            # Who gives up has not come; of a broken round, nothing is left.
            barrier.came -= 1
            if not barrier.came or barrier.open.done():
                with contextlib.suppress(KeyError):
                    if rounds[uid] is barrier:
                        del rounds[uid]
                barrier.end()
