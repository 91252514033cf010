"""Leaks: opening and connecting to stores many times leaves no descriptors, mappings or threads."""

from __future__ import annotations

import gc
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import served
from served import files_below, resources, segments, wait_until

from craton.store import Store, get, put

times = pytest.mark.parametrize("times", [60, pytest.param(1000, marks=pytest.mark.slow)])


def flat(work: Callable[[int], None], times: int) -> None:
    """Check that many repetitions leave no more resources than the first few."""
    for turn in range(20):
        work(turn)
    gc.collect()
    before = resources()
    for turn in range(20, 20 + times):
        work(turn)
    gc.collect()
    # Threads may take a moment to end, and allocators keep some mappings.
    wait_until(lambda: resources()["threads"] <= before["threads"], "threads have ended")
    after = resources()
    assert after["descriptors"] <= before["descriptors"], (before, after)
    assert after["segments mapped"] <= before["segments mapped"], (before, after)
    assert after["mappings"] <= before["mappings"] + 20, (before, after)
    print(f"\nbefore {times} turns {before}, after {after}")


@times
def test_stores(tmp_path: Path, times: int) -> None:
    own = segments()

    def turn(number: int) -> None:
        with Store.open(8 << 20, directory=tmp_path) as store:
            value = [np.full(1000 * (number % 50), number), "text"]
            found = get(put(value, store=store))
            assert np.array_equal(found[0], value[0])
            store.create_set("pages", durability="write-through").append({"n": np.arange(1000)})
            if number % 4 == 0:
                Store.connect(store.serve()).get_set("pages").to_arrow()

    flat(turn, times)
    assert files_below(tmp_path) == []
    assert segments() <= own


@times
def test_connections(tmp_path: Path, times: int) -> None:
    with served.server(tmp_path / "run" / "sock", tmp_path, 16 << 20) as server:
        keeper = Store.connect(str(tmp_path / "run" / "sock"))
        pages = keeper.create_set("pages")
        pages.append({"n": np.arange(1000)})
        at_server = f"/proc/{server.pid}"
        counted: list[tuple[int, int]] = []

        def turn(number: int) -> None:
            store = Store.connect(str(tmp_path / "run" / "sock"))
            page = store.get_set("pages").pin(0)
            assert len(page.addresses()) > 0
            store.create_set().append({"n": np.arange(10 * (number % 20))})
            if number == 19:
                wait_until(lambda: keeper.counters()["clients"] <= 2, "clients that have gone are noticed")
                counted.append((len(os.listdir(f"{at_server}/fd")), len(os.listdir(f"{at_server}/task"))))

        flat(turn, times)
        wait_until(lambda: keeper.counters()["clients"] == 1, "clients that have gone are noticed")
        (descriptors, threads), *_ = counted
        wait_until(lambda: len(os.listdir(f"{at_server}/task")) <= threads, "the server's threads have ended")
        wait_until(lambda: len(os.listdir(f"{at_server}/fd")) <= descriptors, "the server's descriptors are closed")
        assert keeper.counters()["sets"] == 1


def test_refused_calls_leak_nothing(tmp_path: Path) -> None:
    with Store.open(4 << 20, directory=tmp_path) as store:
        address = store.serve()
        pages = store.create_set("pages")

        def turn(_: int) -> None:
            client = Store.connect(address)
            with pytest.raises(MemoryError):
                client.get_set("pages").append({"n": np.zeros(1 << 20)})
            with pytest.raises(KeyError):
                client.get_set("none")
            with pytest.raises(ConnectionError):
                Store.connect(str(tmp_path / "nobody"))
            with pytest.raises(FileExistsError):
                client.create_set("pages")

        flat(turn, 50)
        wait_until(lambda: store.counters()["clients"] == 0, "clients that have gone are noticed")
        assert store.counters()["slab_used"] <= 64
        assert len(pages) == 0


def test_a_forked_process_leaves_the_store_alone(tmp_path: Path) -> None:
    """A forked process may close the store that it inherited, and end, without harm to the parent's store."""
    with Store.open(8 << 20, directory=tmp_path) as store:
        address = store.serve(str(tmp_path / "run" / "sock"))
        pages = store.create_set("pages", durability="write-through")
        pages.append({"n": np.arange(1000)})
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                store.close()
                os.write(writing, b"closed")
            finally:
                os._exit(0)
        os.close(writing)
        if not select.select([reading], [], [], served.PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == b"closed"
        assert os.waitpid(child, 0)[1] == 0
        assert pages.to_arrow().num_rows == 1000
        assert Store.connect(address).get_set("pages").to_arrow().num_rows == 1000
