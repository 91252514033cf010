"""Xoscar's names for Xoscar's tests, implemented by `craton.actor`."""

from craton.actor import *  # noqa: F403
from craton.actor import allocate_strategy

from . import debug
from .backends import pool as _pool

create_actor_pool = _pool.create_actor_pool

__all__ = ["allocate_strategy", "create_actor_pool", "debug"]
