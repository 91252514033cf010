"""Communicators: Craton's own beside MPI, Gloo, and the objects of Ray and Dask; a barrier, allreduce and alltoall of 1 KB to 256 MB.

    python -m bench.communicators
    python -m bench.communicators --ranks 4 --bytes 1024,1048576 --contestants own,mpi4py

The processes of all contestants are started once, and take turns. A turn is a number of calls by all ranks; its time is that
of the slowest rank, by call. `mpi4py` calls MPI directly, with NumPy arrays as buffers, and with a new array for each result as
the others have it; `mpi` is the same library through Craton's interface. `tcp` and `mpi4py-tcp` use TCP within the machine, too. There
may be more ranks than processors: MPI is told so.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import numpy as np

from bench import objects
from bench.harness import command, conditions
from bench.harness.measure import measured, report_of_turns

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
CONTESTANTS = ("own", "tcp", "mpi4py", "mpi4py-tcp", "mpi", "ucx", "gloo", *objects.PROGRAMS)
PACKAGES = {
    "mpi4py": "mpi4py",
    "mpi4py-tcp": "mpi4py",
    "mpi": "mpi4py",
    "ucx": "libucx",
    "gloo": "torch",
    "ray": "ray",
    "dask": "distributed",
}
BYTES = (1 << 10, 16 << 10, 128 << 10, 1 << 20, 16 << 20, 256 << 20)
#: The most seconds of a barrier, and the most of MPI's time.
BARRIER, SLOWER = 60e-6, 1.10
#: The most of MPI's time for a small message and its answer, both over TCP.
LATER = 1.20
OVER_TCP = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo"}
#: How many times as fast as others it is to be.
FASTER = {"gloo": 2, "ray": 5, "dask": 5}


# ---- the ranks ----


class _Direct:
    """mpi4py without Craton."""

    def __init__(self, size: int) -> None:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        self.comm = world.Create_group(world.group.Incl(list(range(size))))
        self.size = size

    def barrier(self) -> None:
        self.comm.Barrier()

    def allreduce(self, array: Any) -> Any:
        out = np.empty_like(array)
        self.comm.Allreduce(array, out)
        return out

    def send(self, array: Any, to: int) -> None:
        self.comm.Send(array, to)

    def receive(self, source: int) -> Any:
        out = np.empty(1)
        self.comm.Recv(out, source)
        return out

    def alltoall(self, parts: list[Any]) -> Any:
        out = np.empty(sum(part.size for part in parts), parts[0].dtype)
        self.comm.Alltoall(parts[0].base, out)
        return np.split(out, self.size)


_ANSWERED = "8 bytes to and fro"


def _first(comm: Any) -> Callable[[], Any]:
    message = np.ones(1)

    def call() -> Any:
        comm.send(message, 1)
        return comm.receive(1)

    return call


def _second(comm: Any) -> Callable[[], Any]:
    return lambda: comm.send(comm.receive(0), 0)


def _calls(comm: Any, kind: str, number: int, size: int, nbytes: int) -> Callable[[], Any]:
    if kind == "barrier":
        return comm.barrier
    if kind == _ANSWERED:
        return _first(comm) if number == 0 else _second(comm)
    array = np.ones(max(nbytes // 8, size), np.float64)
    if kind == "allreduce":
        return lambda: comm.allreduce(array)
    whole = np.ones(array.size // size * size, np.float64)
    parts = [whole[part * (whole.size // size) : (part + 1) * (whole.size // size)] for part in range(size)]
    return lambda: comm.alltoall(parts)


def _rank(path: str, number: int) -> None:
    import craton.comm
    from craton.comm.own import Endpoint

    made: dict[Any, Any] = {}
    endpoint: Any = None
    with Client(path, "AF_UNIX") as connection:
        connection.send(number)
        while True:
            try:
                what, *given = connection.recv()
            except EOFError:
                return
            if what == "bind":
                name = given[0]
                endpoint = Endpoint.bind(tcp=name == "tcp") if name in ("own", "tcp") else craton.comm.bind(name)
                connection.send(endpoint.address)
            elif what == "connect":
                name, addresses, key = given
                name = "own" if name == "tcp" else name
                made[given[0], len(addresses)] = craton.comm.connect(name, endpoint, number, addresses, key)
                connection.send(None)
            elif what == "direct":
                made[given[0], given[1]] = _Direct(given[1])
                connection.send(None)
            else:
                name, kind, size, nbytes, repeat = given
                comm = made[name, size]
                call = _calls(comm, kind, number, size, nbytes)
                call()
                comm.barrier()
                began = time.perf_counter()
                for _ in range(repeat):
                    call()
                connection.send((time.perf_counter() - began) / repeat)


# ---- the processes of a contestant ----


class _Gang:
    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "ranks")
        worker = [sys.executable, "-m", "bench.communicators", "--rank", path]
        environment = conditions.process_environment()
        with Listener(path, "AF_UNIX", backlog=most) as listener:
            if name.startswith("mpi"):
                environment |= OVER_TCP if name.endswith("tcp") else {}
                from craton.comm.mpi import launch_command

                commands = [launch_command(worker, most)]
            else:
                commands = [[*worker, str(number)] for number in range(most)]
            self._processes = [
                subprocess.Popen(one, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL) for one in commands
            ]
            found: dict[int, Connection] = {}
            for _ in range(most):
                connection = listener.accept()
                found[connection.recv()] = connection
        self._connections = [found[number] for number in range(most)]

    def connect(self, size: int) -> None:
        if self.name.startswith("mpi4py"):
            self.ask(size, "direct", self.name, size)
            return
        addresses = self.ask(size, "bind", self.name)
        self.ask(size, "connect", self.name, addresses, secrets.token_bytes(32))

    def ask(self, size: int, *request: Any) -> list[Any]:
        for connection in self._connections[:size]:
            connection.send(request)
        return [connection.recv() for connection in self._connections[:size]]

    def end(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self._folder.cleanup()


def _repeats(nbytes: int) -> int:
    return max(1, min(1000, (32 << 20) // max(nbytes, 1 << 15)))


def _name(kind: str, size: int, nbytes: int) -> str:
    units = ((1 << 20, "MB"), (1 << 10, "KB"))
    text = next((f"{nbytes // unit} {name}" for unit, name in units if nbytes >= unit), "")
    return f"{kind} {text}, {size} ranks".replace(" ,", ",")


def _can_make(name: str, kind: str, size: int) -> bool:
    """Whether a contestant can make a call: only two ranks send messages to and fro, and objects cannot be sent to a rank."""
    return kind != _ANSWERED or (size == 2 and name not in objects.PROGRAMS)


def measure(names: list[str], sizes: list[int], lengths: list[int], repeat: int, baseline: str) -> dict[str, Any]:
    """Measure all cases in turns; return a report in the format of `bench.harness.measure.measure`."""
    most = max(sizes)
    gangs = {name: objects.PROGRAMS.get(name, functools.partial(_Gang, name))(most) for name in names}
    cases: dict[str, dict[str, Any]] = {}
    try:
        for size in sizes:
            for gang in gangs.values():
                gang.connect(size)
            for kind, nbytes in [
                ("barrier", 0),
                (_ANSWERED, 0),
                *itertools.product(("allreduce", "alltoall"), lengths),
            ]:
                able = [name for name in names if _can_make(name, kind, size)]
                if not able:
                    continue
                taken: dict[str, list[float]] = {name: [] for name in able}
                for _, (name, gang) in itertools.product(range(repeat), gangs.items()):
                    if name in able:
                        taken[name].append(max(gang.ask(size, "turn", name, kind, size, nbytes, _repeats(nbytes))))
                case = cases[_name(kind, size, nbytes)] = {name: measured(seconds) for name, seconds in taken.items()}
                first = case[baseline]["median"]
                others = ", ".join(
                    f"{name} {one['median'] * 1e6:.1f} µs ({one['median'] / first:.2f})" for name, one in case.items()
                )
                print(f"{_name(kind, size, nbytes)}: {others}", file=sys.stderr, flush=True)
    finally:
        for gang in gangs.values():
            gang.end()
    title = "Communicators: seconds of a call, by the slowest rank"
    return report_of_turns(
        "communicators", title, {"repeat": repeat, "ranks": sizes, "bytes": lengths}, baseline, names, cases
    )


def _bars(report: dict[str, Any]) -> bool:
    """Print the bars; return whether all hold."""
    held = True
    for case, found in report["cases"].items():
        own = found["own"]["median"]
        if case.startswith("barrier"):
            held &= own <= BARRIER
            print(f"{case}: {own * 1e6:.1f} µs (bar: at most {BARRIER * 1e6:.0f})")
        if "mpi4py" in found and not case.startswith(_ANSWERED):
            ratio = own / found["mpi4py"]["median"]
            held &= ratio <= SLOWER
            print(f"{case}: {ratio:.2f} of MPI's time (bar: at most {SLOWER:.2f})")
        if case.startswith(_ANSWERED) and {"tcp", "mpi4py-tcp"} <= found.keys():
            ratio = found["tcp"]["median"] / found["mpi4py-tcp"]["median"]
            held &= ratio <= LATER
            print(f"{case}: over TCP {ratio:.2f} of MPI's time (bar: at most {LATER:.2f})")
        for name, least in FASTER.items():
            if name in found and not case.startswith(("barrier", _ANSWERED)):
                ratio = found[name]["median"] / own
                held &= ratio >= least
                print(f"{case}: {ratio:.2f} times as fast as {name} (bar: at least {least})")
    return held


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--rank"]:
        number = int(arguments[2]) if len(arguments) > 2 else int(os.environ["OMPI_COMM_WORLD_RANK"])
        if len(arguments) == 2:
            from mpi4py import MPI

            number = MPI.COMM_WORLD.rank
        _rank(arguments[1], number)
        return 0
    installed = tuple(
        name for name in CONTESTANTS if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name]) is not None
    )
    parser = argparse.ArgumentParser(prog="python -m bench.communicators", description=__doc__.splitlines()[0])
    command.add_options(parser, contestants=installed, repeat=7)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (default: %(default)s)")
    parser.add_argument("--bytes", default=",".join(map(str, BYTES)), help="sizes of arrays (default: %(default)s)")
    parser.set_defaults(baseline="own")
    given = parser.parse_args(arguments)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    sizes, lengths = ([int(number) for number in text.split(",")] for text in (given.ranks, given.bytes))
    report = measure(names, sizes, lengths, given.repeat, given.baseline)
    command.finish(given, report, "communicators")
    return 0 if _bars(report) else 1


if __name__ == "__main__":
    sys.exit(main())
