"""The store of a group, in which large values lie that its processes send to one another and to others of the machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from craton.actor.pool.base import answers
from craton.actor.wire import shared

if TYPE_CHECKING:
    from craton.store import Store

__all__ = ["GroupStore"]


class GroupStore:
    """The store of the process of a main pool: the one that it has, or one that is opened when it is first asked for.

    The latter is closed with the pool; what was read of it stays valid.
    """

    def __init__(self) -> None:
        self._opening: asyncio.Future[tuple[Store, bool]] | None = None
        self._store: Store | None = None
        self._mine = self._closed = False

    async def get(self) -> Store | None:
        """Return it, served; None where large values go as bytes, or if the pool has stopped."""
        if self._closed or not shared.enabled():
            return None
        if self._store is None:
            if self._opening is None:
                self._opening = asyncio.get_running_loop().run_in_executor(None, shared.opened)
                self._opening.add_done_callback(self._opened)
            await asyncio.shield(self._opening)
        return self._store

    def _opened(self, opening: asyncio.Future[tuple[Store, bool]]) -> None:
        # Also if nobody waits for it any more.
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            return
        store, mine = opening.result()
        if not self._closed:
            self._store, self._mine = store, mine
        elif mine:
            store.close()

    def close(self) -> None:
        """Close it if it was opened for the group."""
        self._closed = True
        if self._store is not None and self._mine:
            self._store.close()
        self._store = None


@answers("store")
async def _store(pool: Any, _: Any) -> str | None:
    store = await pool.store.get()
    return None if store is None else store.address
