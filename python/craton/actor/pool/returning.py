"""Calls of actors that are still to be made again, in a process that has taken a dead one's place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from craton.actor.errors import ActorPoolNotStarted

__all__ = ["PATIENCE", "Returning", "made_again"]

PATIENCE = 3.0
"""Seconds that calls wait for their actor."""

made_again: ContextVar[bool] = ContextVar("made_again", default=False)
"""Whether this is what an actor does while it is made again. The next one is made when it is done: it waits for none."""


class Returning:
    """Which actors are there again; which ones are to come, only the main pool knows.

    Parameters
    ----------
    pool : Pool
        Where they are made.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._there: dict[bytes, asyncio.Future[None]] = {}
        # How many calls wait, by the connection that they came through and the actor.
        self._kept: Counter[tuple[Any, bytes]] = Counter()

    def keeps(self, link: Any, uid: bytes, actor: Any) -> bool:
        """Whether a call has to wait: for its actor, or for those that came before it through the same connection."""
        return actor is None or (link, uid) in self._kept

    def later(self, link: Any, kind: int, uid: bytes, *message: Any) -> Coroutine[Any, Any, Any]:
        """Take note of a call that has to wait; return what waits and then handles it."""
        self._kept[link, uid] += 1
        return self._later(link, kind, uid, *message)

    async def _later(self, link: Any, kind: int, uid: bytes, *message: Any) -> Any:
        try:
            await self.wait(uid)
        finally:
            self._kept[link, uid] -= 1
            if not self._kept[link, uid]:
                del self._kept[link, uid]
        return await self._pool.handle(kind, uid, *message)

    async def wait(self, uid: bytes) -> None:
        """Wait until an actor has been made again, or all have been.

        Raises
        ------
        ActorPoolNotStarted
            That takes too long.
        """
        if made_again.get():
            return
        there = self._of(uid)
        done, _ = await asyncio.wait([there], timeout=PATIENCE)
        if not done and uid not in self._pool.actors:
            raise ActorPoolNotStarted(
                f"the process of the pool at {self._pool.external_address} has been started again, and has not made "
                f"the actor {uid!r} again within {PATIENCE:g} s, if there is one"
            )

    def one_is_made(self, uid: bytes) -> None:
        """Let those go on who wait for an actor."""
        self._release(self._of(uid))

    def all_are_made(self) -> None:
        """Let everybody go on, and keep nobody any more."""
        self._pool.returning = None
        for there in self._there.values():
            self._release(there)

    def _of(self, uid: bytes) -> asyncio.Future[None]:
        there = self._there.get(uid)
        if there is None:
            there = self._there[uid] = self._pool.loop.create_future()
        return there

    def _release(self, there: asyncio.Future[None]) -> None:
        if not there.done():
            there.set_result(None)
