"""Cleans up pools when their process ends without stopping them, and in forks of their process.

`multiprocessing` forks, and a forked process inherits every descriptor. While it holds a pool's sockets, clients are not
notified when the pool's process ends, and no other process can listen at its address; while it holds the pipes of sub
pools, these do not notice that their main pool has ended. So forks close their copies.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

from craton.actor.pools import all_pools
from craton.actor.wire.peers import Peers

groups: weakref.WeakSet[Any] = weakref.WeakSet()
"""The main pools of this process that have not been stopped."""


@atexit.register
def _end_all() -> None:
    # For event loops that ended without stopping their pools. The sub processes would end with this process's pipes; this
    # kills them now.
    for pool in list(groups):
        for process in pool.sub_processes.values():
            if os.getpid() == process.owner:
                process.end()


def _close_in_fork() -> None:
    """Close a fork's copies of sockets and pipes. The event loop's selector is shared with the parent and not changed."""
    for group in list(groups):
        for process in group.sub_processes.values():
            process.forget()
    groups.clear()
    for pool in all_pools():
        for sock in pool._listening:
            sock.close()
        for link in list(pool._links):
            link.close_descriptors()
    for peers in list(Peers._of.values()):
        peers.close_descriptors()


os.register_at_fork(after_in_child=_close_in_fork)
