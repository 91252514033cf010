"""Shuffles between machines, which the local host simulates: results, kills during shuffles, and leftovers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import watching
from jobs import Spread, Summed, shuffle
from watching import runs, until

import craton
import craton.comm
from craton.cluster.sessions import ClusterSession
from craton.engine.tiled import TiledEngine, current_engine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.schedule.tasks import Output, Read, Task, new_key
from craton.store import default_store

pytestmark = pytest.mark.usefixtures("no_session")


def begun(host: Any = "local", **more: Any) -> ClusterSession:
    session = craton.init(host, **{"workers": 2, "threads": 1, "nodes": 2, **more})
    assert isinstance(session, ClusterSession)
    return session


def run(session: ClusterSession, tasks: list[Task]) -> list[Output]:
    return session.call(session.runner.run(tasks))


def release(session: ClusterSession, tasks: Sequence[Task]) -> None:
    async def go() -> None:
        session.runner.release([task.key for task in tasks])

    session.call(go())


def check(outputs: Sequence[Output], total: int, parts: int) -> None:
    for part, output in enumerate(outputs):
        values = np.arange(part, total, parts)
        assert output.value == (int(values.sum()), float(2 * values.sum()), len(values))


def statuses(session: ClusterSession) -> list[dict[str, Any]]:
    async def go() -> list[dict[str, Any]]:
        return [await session.runner._members.ref(band).status() for band in range(len(session.runner.bands))]

    return session.call(go())


@pytest.mark.parametrize(
    ("rows", "tiles", "parts", "compression", "communicator"),
    [
        (1000, 40, 40, "lz4", None),
        pytest.param(1000, 40, 40, "none", None, marks=pytest.mark.slow),
        (200_000, 4, 3, "none", None),
        pytest.param(200_000, 4, 3, "lz4", None, marks=pytest.mark.slow),
        (1000, 40, 40, "lz4", "own"),
        (200_000, 4, 3, "none", "own"),
        (1000, 40, 40, "none", "ucx"),
        (200_000, 4, 3, "lz4", "ucx"),
        (200_000, 4, 3, "none", "gloo"),
    ],
)
def test_a_shuffle(rows: int, tiles: int, parts: int, compression: str, communicator: str | None) -> None:
    if communicator not in (None, *craton.comm.available()):
        pytest.skip(f"what the communicator {communicator!r} needs is not installed")
    session = begun(compression=compression, communicator=communicator)
    spread, gather = shuffle(rows, tiles, parts)
    outputs = run(session, [*spread, *gather])
    check(outputs[tiles:], rows * tiles, parts)
    assert sum(one["fetched"] for one in statuses(session)) > 0
    for part, task in enumerate(gather):  # some outputs are on the other machine
        table = session.call(session.runner.fetch(task.key))
        assert table["n"].to_pylist() == [part + parts * place for place in range(10)]
    release(session, [*spread, *gather])
    clear_memory()  # drop results that other tests have cached
    until(lambda: len(default_store().describe()) == 0)


def test_parts_are_prefetched_while_others_are_computed(tmp_path: Path) -> None:
    session = begun(threads=2)
    go_on = tmp_path / "go on"
    spread, gather = shuffle(100_000, 7, 4)
    last = Task(new_key(), Spread(7, 100_000, 4, go_on), (), 4, 1_600_000)
    keys = (*(task.key for task in spread), last.key)
    gather = [Task(task.key, Summed(), (Read(keys, task.inputs[0].parts),)) for task in gather]
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run(session, [*spread, last, *gather])))
    thread.start()
    try:
        # The gathering tasks cannot have begun, because one of their producers is waiting.
        until(lambda: sum(one["fetched"] for one in statuses(session)) > 2_000_000)
        assert not found
    finally:
        go_on.touch()
        thread.join(30)
    check(found[0][8:], 800_000, 4)
    assert sum(one["prefetched"] for one in statuses(session)) > 2_000_000


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def children() -> set[int]:
    return {one.pid for one in psutil.Process().children(True) if one.status() != psutil.STATUS_ZOMBIE}


def segments() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "craton" in name}


def stores(session: ClusterSession, workers: list[int]) -> list[int]:
    """Return the process of the other machine's store."""
    node = session.runner.host.nodes[1].address
    return [one.pid for one in psutil.Process().children(True) if one.pid not in workers and serves(one, node)]


@pytest.mark.parametrize(
    ("host", "times", "communicator"),
    [
        ("local", 2, None),
        pytest.param("local", 100, None, marks=pytest.mark.slow),
        pytest.param("dask", 30, None, marks=pytest.mark.slow),
        ("local", 2, "own"),
        pytest.param("local", 50, "own", marks=pytest.mark.slow),
        pytest.param("local", 20, "ucx", marks=pytest.mark.slow),
    ],
)
def test_kills_during_shuffles(
    host: str, times: int, communicator: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if communicator not in (None, *craton.comm.available()):
        pytest.skip(f"what the communicator {communicator!r} needs is not installed")
    if host == "dask":
        pytest.importorskip("distributed")
    default_store()  # opened before the leftovers are counted
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = children(), segments()
    session = begun(host, communicator=communicator)
    rng = random.Random(11)
    longest = 0.0
    for _ in range(times):
        spread, gather = shuffle(20_000, 12, 8)
        pids = session.info()["pid"].tolist()
        if rng.random() < 0.2:  # kill a machine's store instead of a worker
            until(lambda of=pids: bool(stores(session, of)))  # the last kill may not have been noticed yet
            pids = stores(session, pids)
        timer = threading.Timer(rng.random() * 0.3, kill, [rng.choice(pids)])
        began = time.monotonic()
        timer.start()
        outputs = run(session, [*spread, *gather])
        longest = max(longest, time.monotonic() - began)
        timer.join()
        check(outputs[12:], 240_000, 8)
        release(session, [*spread, *gather])
        until(lambda: bool(session.info()["alive"].all()), 30)
    assert longest < 30
    print(f"\n{times} kills, the longest run {longest:.1f} s")
    assert len(session.runner._lineage) == 0
    clear_memory()  # drop results that other tests have cached
    until(lambda: len(default_store().describe()) == 0)
    craton.shutdown()
    until(lambda: children() <= before[0])
    until(lambda: segments() <= before[1])
    until(lambda: not list(tmp_path.iterdir()))


def serves(process: psutil.Process, address: str) -> bool:
    """Return whether a process listens at an address."""
    port = int(address.rpartition(":")[2])
    with contextlib.suppress(psutil.Error):
        return any(
            one.laddr.port == port and one.status == psutil.CONN_LISTEN for one in process.net_connections("tcp")
        )
    return False


_DRIVER = """
import craton
from jobs import shuffle

session = craton.init("local", workers=2, threads=1, nodes=2)
print(*session.info()["pid"], flush=True)


async def turn():
    spread, gather = shuffle(50_000, 12, 8)
    await session.runner.run([*spread, *gather])
    session.runner.release([task.key for task in [*spread, *gather]])


try:
    while True:
        session.call(turn())
        print("a turn", flush=True)
except KeyboardInterrupt:
    craton.shutdown()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_driver_ends_during_a_shuffle(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text(_DRIVER)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    memory = segments()
    driver = watching.driver(program, TMPDIR=str(temporary))
    try:
        assert driver.stdout is not None
        driver.stdout.readline()
        assert driver.stdout.readline().startswith("a turn")
        processes = psutil.Process(driver.pid).children(True)
        assert len(processes) >= 3  # two workers, and the other machine's store
        began = time.monotonic()
        driver.send_signal(number)
        driver.wait(20)
        until(lambda: not any(runs(one.pid) for one in processes), 10)
        took = time.monotonic() - began
        print(f"\n{number.name}: all is gone after {took:.2f} s")
        until(lambda: not list(temporary.iterdir()), 10)
        assert segments() <= memory
    finally:
        driver.kill()
        driver.communicate()


def test_an_interrupt_during_a_shuffle(tmp_path: Path) -> None:
    session = begun()
    spread, gather = shuffle(100_000, 7, 4)
    never = Task(new_key(), Spread(7, 100_000, 4, tmp_path / "never"), (), 4)
    keys = (*(task.key for task in spread), never.key)
    gather = [Task(task.key, Summed(), (Read(keys, task.inputs[0].parts),)) for task in gather]
    at: list[float] = []

    def interrupt() -> None:
        with contextlib.suppress(AssertionError):
            until(lambda: sum(one["fetched"] for one in statuses(session)) > 0)
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(session, [*spread, never, *gather])
    took = time.monotonic() - at[0]
    thread.join()
    print(f"\nstopped after {took:.2f} s")
    assert took < 1.5
    assert len(session.runner._lineage) == 0
    clear_memory()  # drop results that other tests have cached
    until(lambda: len(default_store().describe()) == 0)
    until(lambda: all(one["held"] == 0 for one in statuses(session)))


def test_names_of_communicators() -> None:
    with pytest.raises(ValueError, match="there is no communicator 'tin can': use one of own"):
        begun(communicator="tin can")
    with pytest.raises(ValueError, match="not started by mpiexec"):
        begun(communicator="mpi")


def test_plans_by_a_communicator(tmp_path: Path) -> None:
    """A join, a group-by and a sort on two machines, equal to those of this process."""
    import craton.pandas as pd

    rng = np.random.default_rng(5)
    rows = 60_000
    left = pd.DataFrame(
        {"k": rng.integers(0, 900, rows), "x": rng.normal(size=rows), "t": rng.choice(["a", None, "c"], rows)}
    )
    right = pd.DataFrame({"k": np.arange(900), "g": rng.integers(0, 40, 900)})
    left.to_parquet(tmp_path / "left.parquet", row_group_size=5000)
    right.to_parquet(tmp_path / "right.parquet", row_group_size=100)

    def program() -> list[Any]:
        first, second = pd.read_parquet(tmp_path / "left.parquet"), pd.read_parquet(tmp_path / "right.parquet")
        merged = first.merge(second, on="k").sort_values(["g", "x"])
        return [
            merged.head(1000).to_dict("list"),
            merged.groupby(["g", "t"], dropna=False)["x"].agg(["count", "min", "max"]).to_dict("list"),
            float(merged["x"].shift().fillna(0).iloc[100:200].sum()),
        ]

    with craton.option_context(reproducible=True):
        expected = program()
    clear_memory()
    with begun(communicator="own") as session:
        own = current_engine()
        assert own is not None
        settings = Settings(tiles=6, collapse_bytes=0, broadcast_bytes=1)
        engine = TiledEngine(own.runner, own.call, settings, least_bytes=0, where=own.where)
        with craton.option_context(small_rows=0, reproducible=True), using(engine):
            assert repr(program()) == repr(expected)
        assert sum(one["fetched"] for one in statuses(session)) > 0
