"""A process of a gang: ``python rank.py SOCKET [NUMBER]``."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from multiprocessing.connection import Client
from typing import Any

import cloudpickle


def bound(name: str) -> Any:
    import craton.comm

    if name == "tcp":
        from craton.comm.own import Endpoint

        return Endpoint.bind(tcp=True)
    return craton.comm.bind(name)


def answer(endpoints: dict[int, Any], made: dict[int, Any], what: str, number: int, rank: int, given: Any) -> Any:
    import craton.comm

    if what == "bind":
        endpoints[number] = bound(*given)
        return endpoints[number].address
    if what == "connect":
        name, addresses, key = given
        name = "own" if name == "tcp" else name
        made[number] = craton.comm.connect(name, endpoints.pop(number), rank, addresses, key)
        return None
    if what == "run":
        program, arguments = given
        return program(made[number], *arguments)
    made.pop(number).close()
    return None


def main() -> None:
    if len(sys.argv) > 2:
        number = int(sys.argv[2])
    else:
        from mpi4py import MPI  # initialises MPI, for which all processes wait

        number = MPI.COMM_WORLD.rank
    endpoints: dict[int, Any] = {}
    made: dict[int, Any] = {}
    with Client(sys.argv[1], "AF_UNIX") as connection:
        connection.send((number, os.getpid()))
        while True:
            try:
                what, communicator, rank, given = connection.recv()
            except (EOFError, ConnectionError):
                return
            try:
                result = answer(endpoints, made, what, communicator, rank, cloudpickle.loads(given))
            except BaseException as error:
                error.add_note(f"on rank {rank}:\n{traceback.format_exc()}")
                result = error
            with contextlib.suppress(ConnectionError):
                connection.send(cloudpickle.dumps(result))


main()
if len(sys.argv) > 2:
    os._exit(0)
