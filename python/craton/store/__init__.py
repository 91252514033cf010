r"""The store: one copy of the data, shared by every process and larger than memory.

A :class:`Store` holds :class:`LocalitySet`\ s of pages in shared memory and spills to disk the pages that do not fit. It runs in
this process (:meth:`Store.open`) or in another one (:func:`connect`), with the same interface. ``craton.put`` and ``craton.get``
use the process's store, :func:`default_store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from craton._native import CorruptPage, CorruptSet, SetConflict
from craton.store.aggregation import HashAggregate, HashMap
from craton.store.join_map import BroadcastMap, JoinMap
from craton.store.object_folder import UnknownOutcome
from craton.store.process import close_store, connect, default_store
from craton.store.sets import LocalitySet, PageReader
from craton.store.shuffle import ShuffleWriter, shuffle
from craton.store.store import Store

if TYPE_CHECKING:
    from craton.store.objects import Ref, cache, get, put

_OBJECTS = ("Ref", "cache", "get", "put")


def __getattr__(name: str) -> Any:
    if name not in _OBJECTS:
        raise AttributeError(f"module 'craton.store' has no attribute {name!r}")
    from craton.store import objects

    return globals().setdefault(name, getattr(objects, name))


__all__ = [
    "BroadcastMap",
    "CorruptPage",
    "CorruptSet",
    "HashAggregate",
    "HashMap",
    "JoinMap",
    "LocalitySet",
    "PageReader",
    "Ref",
    "SetConflict",
    "ShuffleWriter",
    "Store",
    "UnknownOutcome",
    "cache",
    "close_store",
    "connect",
    "default_store",
    "get",
    "put",
    "shuffle",
]
