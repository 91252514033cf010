"""Machines of their own in network namespaces: each with an address, a delay, a bandwidth and losses. Needs root and iproute2."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Numbers of networks: a machine that was removed may exist for a moment longer.
_networks = itertools.count()

_DASK_PORT = 8786
ROOT = Path(__file__).resolve().parents[2]


def unavailable() -> str | None:
    """Return why namespaces cannot be made here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} (iproute2) is not installed"
    made = subprocess.run(["ip", "netns", "add", f"craton-{os.getpid()}-try"], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", f"craton-{os.getpid()}-try"], check=True)
    return None


def has_netem() -> bool:
    """Return whether the kernel can delay and lose packets."""
    name = f"craton-{os.getpid()}-netem"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        command = ["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
        return subprocess.run(command, capture_output=True).returncode == 0
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


class Network:
    """Machines on one bridge.

    Parameters
    ----------
    count
        The number of machines.
    rate
        Of what each machine sends, such as ``"1gbit"``.
    delay, loss
        Of what each machine sends: milliseconds, and per cent of the packets. Needs a kernel with netem: see :func:`has_netem`.
    """

    def __init__(self, count: int, rate: str = "10gbit", delay: float = 0.0, loss: float = 0.0) -> None:
        number, made = os.getpid() % 250, next(_networks)
        self._tag = f"{os.getpid() % 1_000_000}n{made}"
        self._bridge = f"crt{self._tag}"
        self.names = [f"craton-{os.getpid()}-{made}-{i}" for i in range(count)]
        self.addresses = [f"10.77.{number}.{i + 1}" for i in range(count)]
        self._processes: list[tuple[int, subprocess.Popen[Any]]] = []
        try:
            _do("ip", "link", "add", self._bridge, "type", "bridge")
            _do("ip", "link", "set", self._bridge, "up")
            for i, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
                _do("ip", "netns", "add", name)
                outer = self._outer(i)
                _do("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
                _do("ip", "link", "set", outer, "master", self._bridge, "up")
                self._in(i, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
                self._in(i, "ip", "link", "set", "lo", "up")
                self._in(i, "ip", "link", "set", "eth0", "up")
                kind = ["tbf", "rate", rate, "burst", "256kb", "latency", "200ms"]
                if delay or loss:
                    kind = ["netem", "rate", rate, "delay", f"{delay}ms", "loss", f"{loss}%", "limit", "100000"]
                self._in(i, "tc", "qdisc", "add", "dev", "eth0", "root", *kind)
        except BaseException:
            self.close()
            raise

    def _outer(self, machine: int) -> str:
        """The name of the bridge's end of a machine's cable."""
        return f"c{self._tag}v{machine}"

    def _in(self, machine: int, *command: str) -> None:
        _do("ip", "netns", "exec", self.names[machine], *command)

    def start(self, machine: int, command: Sequence[str], **more: Any) -> subprocess.Popen[Any]:
        """Start a process on a machine."""
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT)]),
            **more.pop("env", {}),
        }
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.names[machine], *command], env=variables, start_new_session=True, **more
        )
        self._processes.append((machine, process))
        return process

    def python(self, machine: int, *arguments: str, **more: Any) -> subprocess.Popen[Any]:
        """Start a Python program on a machine."""
        return self.start(machine, [sys.executable, "-W", "ignore", *arguments], **more)

    def dask(self, machines: Sequence[int], log: Any) -> str:
        """Start a scheduler of Dask on the first machine, and a worker with one thread on each of some; return its address."""
        quiet: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT}
        address = f"tcp://{self.addresses[0]}:{_DASK_PORT}"
        place = ["--host", self.addresses[0], "--port", str(_DASK_PORT)]
        self.python(0, "-m", "dask", "scheduler", *place, "--no-dashboard", **quiet)
        for machine in machines:
            how = [
                "--nthreads",
                "1",
                "--nworkers",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--host",
                self.addresses[machine],
            ]
            self.python(machine, "-m", "dask", "worker", address, *how, **quiet)
        return address

    def connect(self, machine: int, connected: bool) -> None:
        """Cut a machine off, or connect it again."""
        _do("ip", "link", "set", self._outer(machine), "up" if connected else "down")

    def sent(self, machine: int) -> int:
        """Return the bytes that a machine has sent."""
        found = subprocess.run(
            ["ip", "netns", "exec", self.names[machine], "cat", "/sys/class/net/eth0/statistics/tx_bytes"],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(found.stdout)

    def pids(self, machine: int) -> list[int]:
        """Return the processes of a machine."""
        found = subprocess.run(["ip", "netns", "pids", self.names[machine]], capture_output=True, text=True)
        return [int(one) for one in found.stdout.split()]

    def kill(self, machine: int) -> None:
        """Kill all processes of a machine."""
        while pids := self.pids(machine):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def close(self) -> None:
        """End all processes, and remove the machines."""
        for machine, name in enumerate(self.names):
            self.kill(machine)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        for _, process in self._processes:
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True)

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
