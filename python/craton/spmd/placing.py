"""Chooses the machines of an executor's ranks."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter

from craton.cluster.hosts.base import cores, environment
from craton.cluster.sessions import ClusterSession, Session
from craton.spmd.gang import Place
from craton.spmd.rank_host import RemoteStarter, rank_host
from craton.spmd.starting import server_for
from craton.store import default_store

__all__ = ["machine_of", "nodes_of_ranks", "places_for"]


def places_for(session: Session | None, parallelism: int, without: int = -1) -> list[Place]:
    """Return a place for each rank: on the machines of a session, or on this one.

    Parameters
    ----------
    session
        The session.
    parallelism
        The number of ranks.
    without
        The number of a machine that gets none.

    Raises
    ------
    RuntimeError
        If the session has ended.
    OSError
        If a machine cannot be reached.
    """
    if not isinstance(session, ClusterSession):
        threads = environment(max(cores() // parallelism, 1))
        server = server_for(threads)
        store = default_store().address or default_store().serve()
        name = socket.gethostname()
        return [Place(name, number, server, store=store, threads=threads) for number in range(parallelism)]
    host, bands = session.machines, [band for band in session.runner.bands if band.node != without]
    nodes = nodes_of_ranks([band.node for band in bands], parallelism)
    away = any(nodes)
    own = host.nodes[0].address.rpartition(":")[0]
    path = [os.path.abspath(entry) for entry in sys.path]
    places: list[Place] = []
    for node, ranks in sorted(Counter(nodes).items()):
        threads = environment(max(sum(band.threads for band in bands if band.node == node) // ranks, 1))
        name, address, store = host.nodes[node].name, host.nodes[node].address, host.stores[node]
        reached = address.rpartition(":")[0] if away else ""
        if node == 0:
            server = server_for(threads)
            places += [Place(name, number, server, reached, "", store, threads, node) for number in range(ranks)]
        else:
            starter = RemoteStarter(session, session.call(rank_host(address)), threads, path)
            places += [Place(name, number, starter, reached, own, store, threads, node) for number in range(ranks)]
    return places


def machine_of(places: list[Place], rank: int) -> tuple[int, int] | None:
    """The number of the machine of a rank, and the number of ranks there; None if all ranks are there."""
    node = places[rank].node if 0 <= rank < len(places) else -1
    ranks = sum(place.node == node for place in places)
    return (node, ranks) if 0 < ranks < len(places) else None


def nodes_of_ranks(workers: list[int], parallelism: int) -> list[int]:
    """Return the machine of each rank: in proportion to the workers of the machines, with consecutive ranks on each.

    Parameters
    ----------
    workers
        The machine of each worker.
    parallelism
        The number of ranks.

    Examples
    --------
    >>> nodes_of_ranks([0, 1, 1, 0], 4), nodes_of_ranks([0, 1], 3), nodes_of_ranks([0, 0, 1], 6)
    ([0, 0, 1, 1], [0, 0, 1], [0, 0, 0, 0, 1, 1])
    """
    ordered = sorted(workers)
    return [ordered[rank * len(ordered) // parallelism] for rank in range(parallelism)]
