"""Sessions on machines with addresses of their own: a Dask cluster in network namespaces, with limited bandwidth and failures."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import networks
from bench.harness.networks import Network
from craton.comm import available

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(networks.unavailable()), reason=str(networks.unavailable()))]

PORT = 8786
#: Seconds that a program may take.
DEADLINE = 150.0

_DRIVER = """
import json, sys, time
import numpy as np
import pandas
import craton
import craton.pandas as cpd
from craton.engine.tiled import TiledEngine, current_engine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory

address, folder, turns, communicator = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] or None


def program(pd):
    orders = pd.read_parquet(folder + "/orders.parquet")
    items = pd.read_parquet(folder + "/items.parquet")
    joined = orders.merge(items, on="order")
    totals = joined.groupby(["customer", "part"], dropna=False)["amount"].sum()
    ordered = joined.sort_values(["amount", "order", "line"], ignore_index=True)
    return [
        int(totals.sum()),
        totals.head(50).to_dict(),
        ordered[["order", "line", "note"]].head(200).to_dict("list"),
        int(ordered["amount"].shift().fillna(0).iloc[1000:2000].sum()),
    ]


expected = repr(program(pandas))
with craton.init("dask", address=address, workers=2, threads=1, communicator=communicator) as session:
    own = current_engine()
    settings = Settings(tiles=6, collapse_bytes=0, broadcast_bytes=1)
    engine = TiledEngine(own.runner, own.call, settings, least_bytes=0, where=own.where)
    print("ready", json.dumps(sorted(set(map(str, session.info()["address"])))), flush=True)
    with craton.option_context(small_rows=0), using(engine):
        for turn in range(turns):
            clear_memory()
            began = time.monotonic()
            found = repr(program(cpd))
            assert found == expected, (found[:300], expected[:300])
            print("turn", turn, round(time.monotonic() - began, 2), flush=True)

            async def fetched():
                members = session.runner._members
                return [await members.ref(band).status() for band in members.alive_bands()]

            print("fetched", sum(one["fetched"] for one in session.call(fetched())), flush=True)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("tables")
    count = 60_000
    orders = pd.DataFrame({"order": rng.permutation(count), "customer": rng.integers(0, 500, count)})
    orders["note"] = [None if n % 9 == 0 else f"note {n % 1000}" for n in range(count)]
    items = pd.DataFrame({"order": rng.integers(0, count, 3 * count), "line": range(3 * count)})
    items["amount"] = rng.integers(0, 10_000, 3 * count)
    items["part"] = pd.array([None if n % 11 == 0 else n % 37 for n in range(3 * count)], "Int64")
    orders.to_parquet(path / "orders.parquet", row_group_size=8000)
    items.to_parquet(path / "items.parquet", row_group_size=8000)
    return path


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Three machines with 1 Gbit/s: a Dask scheduler on the first, and a worker on each of the others."""
    delay = 1.0 if networks.has_netem() else 0.0
    with Network(3, rate="1gbit", delay=delay) as made, (tmp_path / "dask.log").open("w") as log:
        made.dask((1, 2), log)
        yield made


class Driver:
    """A program on the first machine."""

    def __init__(self, network: Network, folder: Path, turns: int, communicator: str = "") -> None:
        address = f"tcp://{network.addresses[0]}:{PORT}"
        given = [address, str(folder), str(turns), communicator]
        self.process = network.python(0, "-c", _DRIVER, *given, stdout=subprocess.PIPE, text=True)
        self.until = time.monotonic() + DEADLINE

    def line(self, start: str) -> str:
        """Wait for a line."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            assert time.monotonic() < self.until, "the program is too slow"
            if text.startswith(start):
                return text.removeprefix(start).strip()
        pytest.fail(f"the program ended before it said {start!r}: exit code {self.process.wait(10)}")

    def end(self) -> None:
        self.line("done")
        assert self.process.wait(20) == 0


#: Ways to send data: the actors' connections, Craton's communicator, and the actors' connections with UCX.
WAYS = [
    "",
    "own",
    pytest.param("ucx", marks=pytest.mark.skipif("ucx" not in available(), reason="UCX is not installed")),
]


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A way to send data; for the last, the environment of all machines says so, and that processes do not share memory."""
    found: str = request.param
    if found == "ucx":
        for name, value in (("CRATON_ACTOR_TRANSPORT", "ucx"), ("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0")):
            monkeypatch.setenv(name, value)
    return found


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_plans_on_several_machines(way: str, network: Network, folder: Path) -> None:
    driver = Driver(network, folder, 2, way if way == "own" else "")
    hosts = {one.rpartition(":")[0] for one in json.loads(driver.line("ready"))}
    assert hosts == set(network.addresses[1:])
    driver.line("turn 0")
    before = int(driver.line("fetched")), sum(map(network.sent, (1, 2)))
    driver.line("turn 1")
    after = int(driver.line("fetched")), sum(map(network.sent, (1, 2)))
    driver.end()
    counted, sent = after[0] - before[0], after[1] - before[1]
    print(f"\n{counted / 1e6:.1f} MB fetched by workers, {sent / 1e6:.1f} MB sent by their machines")
    # The rest are results, which go to the program, headers, and messages of the scheduler.
    assert 500_000 < counted <= sent <= 1.3 * counted + 8_000_000


@pytest.mark.parametrize("when", [0.2, 1.0])
def test_a_machine_dies(network: Network, folder: Path, when: float) -> None:
    driver = Driver(network, folder, 3)
    driver.line("turn 0")
    time.sleep(when)
    network.kill(2)
    driver.line("turn 1")
    driver.line("turn 2")
    driver.end()


@pytest.mark.parametrize("seconds", [5.0, 1e9])
def test_a_machine_is_cut_off(network: Network, folder: Path, seconds: float) -> None:
    driver = Driver(network, folder, 4)
    driver.line("turn 0")
    time.sleep(0.3)
    began = time.monotonic()
    network.connect(2, False)
    if seconds < 60:
        time.sleep(seconds)
        network.connect(2, True)
    driver.line("turn 1")
    print(f"\nthe turn ended {time.monotonic() - began:.1f} s after the cut")
    driver.line("turn 3")
    driver.end()


_RANKS = """
import sys, time
import numpy as np
import craton
from craton.comm import CommunicatorClosed, RankFailed
from craton.spmd import Executor

address = sys.argv[1]


def work(env):
    total = env.comm.allreduce(np.full(300_000, env.rank + 1.0))
    parts = env.comm.alltoall([np.full(50_000, env.rank * 10 + other) for other in range(env.world_size)])
    return env.machine, float(total[-1]), [int(part[0]) for part in parts]


def wait(env):
    env.barrier()
    print("waits", flush=True)
    if env.rank == 0:
        time.sleep(600)
    env.barrier()


with craton.init("dask", address=address, workers=2, threads=1):
    with Executor(4) as ex:
        found = ex.run(work).results(60)
        assert [one[1] for one in found] == [10.0] * 4, found
        assert [one[2] for one in found] == [[other * 10 + rank for other in range(4)] for rank in range(4)], found
        print("ready", len({one[0] for one in found}), flush=True)
        futures = ex.run(wait)
        began = time.monotonic()
        try:
            futures.results(60)
        except (RankFailed, CommunicatorClosed, RuntimeError) as error:
            print("failed", type(error).__name__, flush=True)
print("done", flush=True)
"""


def test_ranks_on_several_machines(network: Network) -> None:
    """SPMD programs: results, and an error on all ranks when a machine dies."""
    process = network.python(0, "-c", _RANKS, f"tcp://{network.addresses[0]}:{PORT}", stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert next(line for line in lines if line.startswith("ready"))
    assert next(line for line in lines if "waits" in line)
    began = time.monotonic()
    network.kill(2)
    assert next(line for line in lines if line.startswith("failed"))
    took = time.monotonic() - began
    print(f"\nnoticed after {took:.1f} s")
    assert took < 10
    assert next(line for line in lines if line.startswith("done"))
    assert process.wait(20) == 0


def test_nothing_is_left() -> None:
    found = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"craton-{os.getpid()}-" not in found
    links = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    assert f"crt{os.getpid() % 1_000_000}n" not in links
