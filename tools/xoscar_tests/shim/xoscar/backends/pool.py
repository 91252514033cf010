"""`xoscar.backends.pool`: creation of pools."""

from typing import Any

from craton.actor import MainActorPoolType
from craton.actor import create_actor_pool as _create_actor_pool

from .indigen.pool import Pool

__all__ = ["MainActorPoolType", "create_actor_pool"]


async def create_actor_pool(*args: Any, pool_cls: type | None = None, **kwargs: Any) -> Pool:
    """Create pools; `pool_cls` is ignored."""
    pool = await _create_actor_pool(*args, **kwargs)
    pool.__class__ = Pool
    return pool
