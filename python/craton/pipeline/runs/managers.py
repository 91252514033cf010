"""The manager of each store, which all runs of this process on the store share."""

from __future__ import annotations

import itertools
import os
import threading
import weakref

from craton.pipeline.manager import Manager, StoreMemory
from craton.store.store import Store

__all__ = ["manager_of", "unique_name"]

_lock = threading.Lock()
_managers: weakref.WeakKeyDictionary[Store, dict[int, Manager]] = weakref.WeakKeyDictionary()
_count = itertools.count(1)


def manager_of(store: Store, cpus: int | None = None) -> Manager:
    """What admits the steps of this process that use a store.

    Parameters
    ----------
    store
        The store.
    cpus
        Processors of all machines that run the steps; by default those of this machine.
    """
    cpus = cpus or len(os.sched_getaffinity(0))
    with _lock:
        managers = _managers.setdefault(store, {})
        if cpus not in managers:
            managers[cpus] = Manager(StoreMemory(weakref.proxy(store)), cpus)
        return managers[cpus]


def unique_name(pipeline: str) -> str:
    """A name for a run of a pipeline; the same pipeline may run several times at once."""
    return f"{pipeline} #{next(_count)}"
