"""The store of a group, through which its processes exchange large values with each other and with other local processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from craton.actor.pool.base import request_handler
from craton.actor.wire import shared

if TYPE_CHECKING:
    from craton.store import Store

__all__ = ["GroupStore"]


class GroupStore:
    """The store of a main pool's process: the process's current store, or else one that is opened on first use.

    A store that was opened here is closed with the pool; values that were read from it stay valid.
    """

    def __init__(self) -> None:
        self._opening: asyncio.Future[tuple[Store, bool]] | None = None
        self._store: Store | None = None
        self._mine = self._closed = False

    async def get(self) -> Store | None:
        """Return the store, serving other processes; None if sharing is disabled or the pool has stopped."""
        if self._closed or not shared.enabled():
            return None
        if self._store is None:
            if self._opening is None:
                self._opening = asyncio.get_running_loop().run_in_executor(None, shared.opened)
                self._opening.add_done_callback(self._opened)
            await asyncio.shield(self._opening)
        return self._store

    def _opened(self, opening: asyncio.Future[tuple[Store, bool]]) -> None:
        # A callback, so that it also runs if all callers of `get` were cancelled.
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            return
        store, mine = opening.result()
        if not self._closed:
            self._store, self._mine = store, mine
        elif mine:
            store.close()

    def close(self) -> None:
        """Close the store if it was opened for the group."""
        self._closed = True
        if self._store is not None and self._mine:
            self._store.close()
        self._store = None


@request_handler("store")
async def _store(pool: Any, _: Any) -> str | None:
    store = await pool.store.get()
    return None if store is None else store.address
