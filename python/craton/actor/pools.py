"""The pools of this process, by their addresses."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

_pools: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""The pools of this process, by their addresses."""


def register_pool(pool: Any) -> None:
    """Make the actors of a pool of this process known here."""
    _pools[pool.external_address] = _pools[pool.advertised] = pool


def local_pool(address: str) -> Any:
    """Return the pool at that address if it runs in this event loop, else None."""
    pool = _pools.get(address)
    return pool if pool is not None and pool.loop is asyncio._get_running_loop() and not pool.stopped else None


def all_pools() -> list[Any]:
    """Return the pools of this process, each once for each of its addresses."""
    return list(_pools.values())
