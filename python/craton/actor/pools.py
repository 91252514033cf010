"""The registry of this process's pools, by address. A module of its own, so that references need not import pools."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

_pools: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def register_pool(pool: Any) -> None:
    """Register a pool of this process, so that local calls to its actors bypass the network."""
    _pools[pool.external_address] = _pools[pool.advertised] = pool


def local_pool(address: str) -> Any:
    """Return the pool at that address if it runs in this event loop, else None."""
    pool = _pools.get(address)
    return pool if pool is not None and pool.loop is asyncio._get_running_loop() and not pool.stopped else None


def all_pools() -> list[Any]:
    """Return the pools of this process; a pool with two addresses is returned twice."""
    return list(_pools.values())
