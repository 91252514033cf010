"""Delays calls in a restarted process until their actors have been recreated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from craton.actor.errors import ActorPoolNotStarted

__all__ = ["RECREATION_TIMEOUT", "PendingRecreation", "recreating"]

RECREATION_TIMEOUT = 3.0
"""Seconds that a call waits for its actor to be recreated."""

recreating: ContextVar[bool] = ContextVar("recreating", default=False)
"""True in code that runs while an actor is recreated. Actors are recreated one by one, so such code must not wait for
another actor."""


class PendingRecreation:
    """The recreation of a restarted process's actors. Only the main pool has the list of actors to recreate.

    Parameters
    ----------
    pool : Pool
        The pool of the restarted process.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._futures: dict[bytes, asyncio.Future[None]] = {}
        # The number of waiting calls for each (connection, uid).
        self._waiting: Counter[tuple[Any, bytes]] = Counter()

    def must_wait(self, link: Any, uid: bytes, actor: Any) -> bool:
        """Whether a call must wait: for its actor, or for earlier calls of the actor from the same connection."""
        return actor is None or (link, uid) in self._waiting

    def deferred(self, link: Any, kind: int, uid: bytes, *message: Any) -> Coroutine[Any, Any, Any]:
        """Register a call that must wait; return a coroutine that waits and then handles it."""
        self._waiting[link, uid] += 1
        return self._wait_and_handle(link, kind, uid, *message)

    async def _wait_and_handle(self, link: Any, kind: int, uid: bytes, *message: Any) -> Any:
        try:
            await self.wait(uid)
        finally:
            self._waiting[link, uid] -= 1
            if not self._waiting[link, uid]:
                del self._waiting[link, uid]
        return await self._pool.handle(kind, uid, *message)

    async def wait(self, uid: bytes) -> None:
        """Wait until an actor has been recreated, or all have been.

        Raises
        ------
        ActorPoolNotStarted
            The wait timed out.
        """
        if recreating.get():
            return
        future = self._of(uid)
        done, _ = await asyncio.wait([future], timeout=RECREATION_TIMEOUT)
        if not done and uid not in self._pool.actors:
            raise ActorPoolNotStarted(
                f"the process of the pool at {self._pool.external_address} was restarted, and the actor {uid!r}, if it "
                f"exists, was not recreated within {RECREATION_TIMEOUT:g} s"
            )

    def recreated(self, uid: bytes) -> None:
        """Wake the calls that wait for an actor."""
        self._release(self._of(uid))

    def all_recreated(self) -> None:
        """Wake all waiting calls, and delay no more."""
        self._pool.recreation = None
        for future in self._futures.values():
            self._release(future)

    def _of(self, uid: bytes) -> asyncio.Future[None]:
        future = self._futures.get(uid)
        if future is None:
            future = self._futures[uid] = self._pool.loop.create_future()
        return future

    def _release(self, future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)
