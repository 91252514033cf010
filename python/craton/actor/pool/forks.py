"""What a fork of a process with pools must not keep.

`multiprocessing` forks, and a fork has copies of every descriptor. While it holds a pool's sockets, nobody who is
connected to them learns that the pool's process has ended, and no other can listen there.
"""

from __future__ import annotations

import os

from craton.actor.refs import _pools
from craton.actor.wire.peers import Peers


def let_go() -> None:
    """Close the copies of every pool's, and every connection's, sockets. What belongs to the loop stays as it is."""
    for pool in list(_pools.values()):
        for sock in pool._listening:
            sock.close()
        for link in list(pool._links):
            link.let_go()
    for peers in list(Peers._of.values()):
        peers.let_go()


os.register_at_fork(after_in_child=let_go)
