"""Messages between two machines in network namespaces: Craton's own communicator beside plain sockets, UCX and Gloo. Needs root.

    python -m bench.machines
    python -m bench.machines --rate 1gbit --contestants own,sockets

Each contestant has a process on each machine. In its turn it passes a message of 8 bytes to and fro, and sends large messages one after
another, which the other machine answers when all have arrived. The contestants take turns; medians of all turns are reported.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import socket
import sys
import tempfile
import time
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np

from bench.harness import command, conditions, networks
from bench.harness.measure import measured, report_of_turns

__all__ = ["main", "measure"]

CONTESTANTS = ("own", "sockets", "ucx", "gloo")
PACKAGES = {"ucx": "libucx", "gloo": "torch"}
#: Exchanges of small messages, and the number and the bytes of large ones, in a turn.
SMALL, LARGE, NBYTES = 500, 8, 32 << 20
#: The least part of the sockets' throughput, for large messages.
LEAST = 0.9


class _Sockets:
    """A connection, used directly."""

    def __init__(self, rank: int, addresses: list[tuple[str, int]], listener: socket.socket) -> None:
        if rank == 0:
            self._link, _ = listener.accept()
        else:
            self._link = socket.create_connection(addresses[0])
        listener.close()
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._memory = bytearray(NBYTES)

    def send(self, array: Any) -> None:
        self._link.sendall(array.view(np.uint8))

    def receive(self, nbytes: int) -> None:
        view = memoryview(self._memory)[:nbytes]
        while view:
            view = view[self._link.recv_into(view) :]


class _Communicator:
    """A communicator of two ranks."""

    def __init__(self, name: str, endpoint: Any, rank: int, addresses: list[bytes], key: bytes) -> None:
        import craton.comm

        self._other = 1 - rank
        self._comm = craton.comm.connect(name, endpoint, rank, addresses, key)

    def send(self, array: Any) -> None:
        self._comm.send(array, self._other)

    def receive(self, nbytes: int) -> None:
        self._comm.receive(self._other)


def _turn(rank: int, pair: Any) -> tuple[float, float]:
    """Pass messages; return the seconds of a small exchange and of a large message."""
    small, large = np.zeros(1), np.zeros(NBYTES // 8)
    began = time.perf_counter()
    for _ in range(SMALL):
        if rank == 0:
            pair.send(small)
        pair.receive(8)
        if rank:
            pair.send(small)
    between = time.perf_counter()
    for _ in range(LARGE):
        if rank == 0:
            pair.send(large)
        else:
            pair.receive(NBYTES)
    if rank:
        pair.send(small)
    else:
        pair.receive(8)
    return (between - began) / SMALL, (time.perf_counter() - between) / LARGE


def _rank(path: str, name: str, rank: int, host: str) -> None:
    with Client(path) as connection:
        endpoint: Any
        if name == "sockets":
            endpoint = socket.create_server((host, 0))
            connection.send(endpoint.getsockname()[:2])
            addresses, _ = connection.recv()
            pair: Any = _Sockets(rank, addresses, endpoint)
        else:
            import craton.comm

            endpoint = craton.comm.bind(name, host=host)
            connection.send(endpoint.address)
            addresses, key = connection.recv()
            pair = _Communicator(name, endpoint, rank, addresses, key)
        _turn(rank, pair)
        connection.send(None)
        while connection.recv() == "turn":
            connection.send(_turn(rank, pair))


def _started(network: networks.Network, name: str, listener: Listener, path: str) -> list[Connection]:
    """Start a contestant's processes, and connect them."""
    found: list[Connection] = []
    for rank in range(2):
        given = ["-m", "bench.machines", "--rank", path, name, str(rank), network.addresses[rank]]
        network.python(rank, *given, env={**conditions.process_environment(), "GLOO_SOCKET_IFNAME": "eth0"})
        found.append(listener.accept())
    message = [one.recv() for one in found], secrets.token_bytes(32)
    for one in found:
        one.send(message)
    for one in found:
        one.recv()
    return found


def measure(names: list[str], rate: str, repeat: int, baseline: str) -> dict[str, Any]:
    """Measure all contestants in turns; return a report in the format of `bench.harness.measure.measure`."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with networks.Network(2, rate=rate) as network, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ranks")
        with Listener(path, "AF_UNIX", backlog=2) as listener:
            ranks = {name: _started(network, name, listener, path) for name in names}
        for _ in range(repeat):
            for name, both in ranks.items():
                for one in both:
                    one.send("turn")
                taken[name].append(max(one.recv() for one in both))
        for both in ranks.values():
            for one in both:
                one.send("end")
                one.close()
    cases: dict[str, dict[str, Any]] = {}
    for place, case in enumerate(("8 bytes, to and fro", f"{NBYTES >> 20} MB")):
        cases[case] = {}
        for name, turns in taken.items():
            cases[case][name] = measured([one[place] for one in turns])
    title = f"Messages between two machines, {rate}: seconds of a message"
    return report_of_turns("machines", title, {"repeat": repeat, "rate": rate}, baseline, names, cases)


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--rank"]:
        _rank(arguments[1], arguments[2], int(arguments[3]), arguments[4])
        return 0
    installed = tuple(
        name for name in CONTESTANTS if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name]) is not None
    )
    parser = argparse.ArgumentParser(prog="python -m bench.machines", description=__doc__.splitlines()[0])
    command.add_options(parser, contestants=installed, repeat=7)
    parser.add_argument("--rate", default="10gbit", help="of each machine's network (default: %(default)s)")
    parser.set_defaults(baseline="own")
    given = parser.parse_args(arguments)
    if reason := networks.unavailable():
        parser.error(reason)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    report = measure(names, given.rate, given.repeat, given.baseline)
    command.finish(given, report, "machines")
    held = True
    for case, found in report["cases"].items():
        if "sockets" in found:
            part = found["sockets"]["median"] / found["own"]["median"]
            print(f"{case}: {part:.2f} of what plain sockets reach" + ("" if "fro" in case else f" (bar: {LEAST})"))
            held &= part >= LEAST or "fro" in case
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
