"""What happens to pools when a process ends without stopping them, and when it forks.

`multiprocessing` forks, and a fork has copies of every descriptor. While it holds a pool's sockets, nobody who is
connected to them learns that the pool's process has ended, and no other can listen there; while it holds the pipes of
sub pools, those do not learn of the end of their main pool.
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
    # A loop that ended without stopping its pools: their processes end with this one's pipes, now rather than later.
    for pool in list(groups):
        for process in pool.sub_processes.values():
            if os.getpid() == process.owner:
                process.end()


def _let_go() -> None:
    """Close a fork's copies of sockets and pipes. What belongs to the loop, which is shared, stays as it is."""
    for group in list(groups):
        for process in group.sub_processes.values():
            process.forget()
    groups.clear()
    for pool in all_pools():
        for sock in pool._listening:
            sock.close()
        for link in list(pool._links):
            link.let_go()
    for peers in list(Peers._of.values()):
        peers.let_go()


os.register_at_fork(after_in_child=_let_go)
