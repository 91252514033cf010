"""Actors: objects that live in pools, often in other processes, and are called through references.

```python
import craton.actor as xo


class Counter(xo.Actor):
    def __init__(self):
        self.count = 0

    def add(self, n):
        self.count += n
        return self.count


async def main():
    async with await xo.create_actor_pool("127.0.0.1", n_process=2) as pool:
        ref = await xo.create_actor(
            Counter, address=pool.external_address, allocate_strategy=xo.allocate_strategy.RandomSubPool()
        )
        print(await ref.add(3))
```

There is no central scheduler and no registry: the address of a pool is enough to create, find, call and destroy an
actor. The API has Xoscar's names, so that programs written for Xoscar run with this module instead.
"""

from __future__ import annotations

from typing import TypeVar, Union

from craton.actor import allocate_strategy, debug
from craton.actor.actors import Actor, StatelessActor, in_thread, no_lock
from craton.actor.api import (
    actor_ref,
    create_actor,
    create_actor_pool,
    destroy_actor,
    get_pool_config,
    has_actor,
    kill_actor,
    wait_actor_pool_recovered,
)
from craton.actor.batching import extensible
from craton.actor.debug import DebugOptions, get_debug_options, set_debug_options
from craton.actor.errors import (
    ActorAlreadyExist,
    ActorError,
    ActorNotExist,
    ActorPoolNotStarted,
    NoIdleSlot,
    NotAuthenticated,
    Return,
    SendMessageFailed,
    ServerClosed,
)
from craton.actor.group_metrics import metrics
from craton.actor.groups import ActorGroup, Spread, create_actors
from craton.actor.pool.main import MainActorPool as MainActorPoolType
from craton.actor.refs import ActorRef, LocalActorRef
from craton.actor.refs import as_ref as create_actor_ref
from craton.actor.streams import Stream, generator
from craton.actor.transfer import BufferRef, FileObjectRef, buffer_ref, copy_to, file_object_ref
from craton.actor.waiting import wait_for
from craton.actor.wire.tls import TLS

_T = TypeVar("_T")
ActorRefType = Union[ActorRef, _T]  # noqa: UP007 (subscripted by its users)

__all__ = [
    "TLS",
    "Actor",
    "ActorAlreadyExist",
    "ActorError",
    "ActorGroup",
    "ActorNotExist",
    "ActorPoolNotStarted",
    "ActorRef",
    "ActorRefType",
    "BufferRef",
    "DebugOptions",
    "FileObjectRef",
    "LocalActorRef",
    "MainActorPoolType",
    "NoIdleSlot",
    "NotAuthenticated",
    "Return",
    "SendMessageFailed",
    "ServerClosed",
    "Spread",
    "StatelessActor",
    "Stream",
    "actor_ref",
    "allocate_strategy",
    "buffer_ref",
    "copy_to",
    "create_actor",
    "create_actor_pool",
    "create_actor_ref",
    "create_actors",
    "debug",
    "destroy_actor",
    "extensible",
    "file_object_ref",
    "generator",
    "get_debug_options",
    "get_pool_config",
    "has_actor",
    "in_thread",
    "kill_actor",
    "metrics",
    "no_lock",
    "set_debug_options",
    "wait_actor_pool_recovered",
    "wait_for",
]
