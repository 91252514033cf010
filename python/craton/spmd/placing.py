"""Chooses the machines of an executor's ranks."""

from __future__ import annotations

import socket
from typing import Any

from craton.cluster.hosts.base import cores, environment
from craton.spmd.gang import Place
from craton.spmd.starting import server_for
from craton.store import default_store

__all__ = ["places_for"]


def places_for(session: Any, parallelism: int) -> list[Place]:
    """Return a place for each rank: on the machines of a session, or on this one.

    Raises
    ------
    RuntimeError
        If the machines cannot start ranks.
    """
    threads = environment(max(cores() // parallelism, 1))
    server = server_for(threads)
    store = default_store().address or default_store().serve()
    name = socket.gethostname()
    return [Place(name, number, server, store=store, threads=threads) for number in range(parallelism)]
