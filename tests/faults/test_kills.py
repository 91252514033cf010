"""Processes killed at random moments: other processes lose nothing, and the resources of the dead are released."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import children
import pytest
import served
from children import intact
from served import Child, files_below, holders, segments, wait_until

from craton.store import LocalitySet, Store

LIMIT = 16 << 20
STEPS = 60
SEED = 20
#: The number of kills in a quick and in a long run, and how many processes run at a time.
QUICK, LONG, TOGETHER = 10, 170, 3
#: For a quick and a long run, the servers killed while clients work, and the stores killed while they are opened and closed.
QUICK_SERVERS, LONG_SERVERS = (8, 2), (130, 30)

kills = pytest.mark.parametrize("kills", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A client of a served store. After the test, check that the store and its folder are empty."""
    address = tmp_path / "runtime" / "store.sock"
    pages = tmp_path / "pages"
    pages.mkdir()
    with served.server(address, pages, LIMIT) as server:
        before = len(os.listdir(f"/proc/{server.pid}/fd"))
        client = Store.connect(str(address))
        yield client
        wait_until(lambda: client.counters()["clients"] == 1, "the dead are noticed")
        for number in client.describe().index:
            with contextlib.suppress(KeyError):  # an unnamed set whose last user has just ended
                client._native.drop_set(number)
        wait_until(lambda: client.counters()["slab_used"] <= 64, "memory is given back")
        counters = client.counters()
        assert not counters[["page_memory", "page_disk", "reserved", "pages", "sets"]].any(), counters
        # The store's folder and its lock file remain.
        wait_until(lambda: len(files_below(pages)) <= 2, "images and the folders of sets are removed")
        after = len(os.listdir(f"/proc/{server.pid}/fd"))
        assert after <= before + 40, f"the server had {before} descriptors, and has {after}"
    assert files_below(tmp_path / "pages") == []
    assert files_below(address.parent) == []


def settled(store: Store) -> None:
    """Wait until the pins and reservations of dead processes are released."""
    wait_until(lambda: store.counters()["clients"] == 1, "the dead are noticed")
    wait_until(lambda: store.counters()["reserved"] == 0, "reservations of the dead are given back")
    wait_until(lambda: not store.describe()["pins"].any(), "pins of the dead are given back")


def consistent(store: Store) -> None:
    """Wait until the memory in use equals that of the existing pages, apart from rounding."""

    def counted() -> bool:
        counters, sets = store.counters(), store.describe()
        assert counters["pages"] == sets["pages"].sum()
        # Each page has up to four buffers, which are rounded up to 64 bytes. Pages may be moving between memory and disk.
        most = counters["page_memory"] + 64 * (4 * counters["pages"] + 1)
        settled = counters["page_memory"] == sets["memory"].sum() and counters["page_disk"] == sets["disk"].sum()
        return bool(settled and counters["slab_used"] <= most)

    wait_until(counted, "memory is what the pages take")


def intact_or_missing(pages: LocalitySet, number: int) -> bool | None:
    """Return whether a page is intact; None if it does not exist."""
    try:
        return intact(pages.pin(number))
    except KeyError:
        return None


def check_writer(store: Store, child: Child, seed: int) -> tuple[int, int]:
    """Check every page that a dead writer left; return how many were acknowledged, and how many of these had to exist."""
    assert not child.all("wrong"), child.all("wrong")
    dropped = {said[1:] for said in child.all("dropping")}
    sealed = {said[1:3]: said[3] for said in child.all("sealed")}
    kept = 0
    for durability in children.DURABILITIES:
        name = children.name_of(seed, durability)
        if name not in store:  # killed before it created the set
            continue
        pages = store.get_set(name)
        there = {info.number: info for info in pages.pages()}
        for (number, page), statistics in sealed.items():
            if number != pages.number or (number, page) in dropped:
                continue
            if durability == "discard" and page not in there:
                continue
            assert page in there, f"page {number}/{page} of {name} was acknowledged and is lost"
            assert there[page].statistics == statistics
            kept += 1
        for info in there.values():
            found = intact_or_missing(pages, info.number)
            assert found or (found is None and durability == "discard"), f"page {info} of {name} is wrong or lost"
        pages.drop()
    return len(sealed), kept


@kills
def test_writers(store: Store, kills: int) -> None:
    chance, acknowledged, kept = random.Random(SEED), 0, 0
    common = children.make_common(store, SEED)
    for first in range(0, kills, TOGETHER):
        seeds = range(first, min(first + TOGETHER, kills))
        writers = [Child(children.write, store.address, seed, STEPS) for seed in seeds]
        for writer in writers:
            writer.run_to(chance, STEPS)
            writer.kill()
        settled(store)
        wait_until(lambda: store.describe()["name"].notna().all(), "sets without a name go with their users")
        for seed, writer in zip(seeds, writers, strict=True):
            sealed, left = check_writer(store, writer, seed)
            acknowledged, kept = acknowledged + sealed, kept + left
        settled(store)
        consistent(store)
    for pages in common[:2]:
        assert len(pages) == children.COMMON_PAGES
    assert all(intact(page) for pages in common[:2] for page in pages.reader())
    assert store.counters()["written"] > 0
    print(
        f"\n{kills} writers killed; {acknowledged} pages acknowledged, {kept} of them had to be there; 0 lost, 0 wrong"
    )


@kills
def test_readers(store: Store, kills: int) -> None:
    chance, read = random.Random(SEED + 1), 0
    common = children.make_common(store, SEED)
    for first in range(0, kills, TOGETHER):
        seeds = range(first, min(first + TOGETHER, kills))
        readers = [Child(children.read, store.address, seed, STEPS) for seed in seeds]
        writer = Child(children.write, store.address, first, STEPS)
        for reader in readers:
            reader.run_to(chance, STEPS)
            reader.kill()
        writer.expect("done")
        writer.end()
        settled(store)
        check_writer(store, writer, first)
        consistent(store)
        for reader in readers:
            assert not reader.all("wrong")
            read += len(reader.all("read"))
        users = store.describe().set_index("name")["users"]
        assert (users[[f"common {name}" for name in children.DURABILITIES]] == 1).all(), users
    assert [len(pages) for pages in common[:2]] == [children.COMMON_PAGES] * 2
    assert all(intact(page) for pages in common[:2] for page in pages.reader())
    print(f"\n{kills} readers killed; {read} pages read, 0 wrong")


class Caller:
    """A thread that calls a store until a call fails."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call, self.calls, self.ended = call, 0, 0.0
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        try:
            while True:
                with contextlib.suppress(MemoryError):
                    self.call()
                self.calls += 1
        except BaseException as error:
            self.ended, self.error = time.monotonic(), error.with_traceback(None)


class Clients:
    """Two clients of one server, three threads that call it, and the pages that they have pinned."""

    def __init__(self, address: str, seed: int) -> None:
        self.address, self.seed = address, seed
        self.first, self.second = Store.connect(address), Store.connect(address)
        chance = random.Random(seed)
        back = self.first.create_set("back")
        through = self.first.create_set("through", durability="write-through")
        self.pinned: list[Any] = []
        self.sealed = 0

        def write() -> None:
            children.append(chance.choice([back, through]), children.batch_of(seed, self.sealed))
            self.sealed += 1

        def read() -> None:
            pages = self.second.get_set(chance.choice(["back", "through"]))
            page = pages.pin(chance.choice(pages.pages()))
            assert intact(page)
            self.pinned = [*self.pinned[-2:], page]

        def look() -> None:
            with self.second.reserve(1 << 20, at_least=0):
                self.first.describe()
                self.second.create_set()

        write(), write()
        children.append(through, children.batch_of(seed, -1 & 0xFFFF))
        children.append(back, children.batch_of(seed, 1 << 20))
        self.callers = [Caller(write), Caller(read), Caller(look)]

    def check_after(self, killed: float) -> None:
        """Check that every call failed with an error that names the store's address, and that pinned pages are still readable."""
        for caller in self.callers:
            caller.thread.join(served.PATIENCE)
            assert isinstance(caller.error, ConnectionError), repr(caller.error)
            assert self.address in str(caller.error)
            assert caller.ended - killed < 2.0, f"it took {caller.ended - killed:.1f} s to notice"
        calls: list[Callable[[], object]] = [
            self.first.counters, self.second.describe, self.first.create_set, lambda: self.first.reserve(1, at_least=0),
            lambda: self.second.get_set("back"), lambda: "back" in self.first, self.second.prometheus,
        ]  # fmt: skip
        for call in calls:
            begun = time.monotonic()
            with pytest.raises(ConnectionError) as caught:
                call()
            assert self.address in str(caught.value)
            assert time.monotonic() - begun < 2.0
        assert all(intact(page) for page in self.pinned)


def kill_server(address: Path, pages: Path, seed: int, chance: random.Random) -> tuple[int, set[int]]:
    """Kill a server while clients call it; return how many pages it had acknowledged, and the inodes of its memory."""
    with served.server(address, pages, LIMIT // 4) as server:
        clients = Clients(str(address), seed)
        moment = chance.randrange(STEPS)
        wait_until(lambda: clients.callers[0].calls >= moment, f"{moment} pages are written")
        time.sleep(chance.uniform(0, 0.01))
        assert address.is_socket(), "a process that cleaned up after an earlier server has removed this server's socket"
        inodes = segments(server.pid)
        assert inodes
        assert not any(path.startswith("/dev/shm") for path in open_files(server.pid))
        server.process.kill()
        clients.check_after(time.monotonic())
        server.kill()
    assert segments() & inodes
    return clients.sealed, inodes


def open_files(pid: int) -> list[str]:
    """Return the targets of a process's open descriptors."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def gone(address: Path, pages: Path) -> None:
    """Wait until nothing is left of a dead server."""
    wait_until(lambda: files_below(pages) == [], "the folder of the dead server is removed")
    wait_until(lambda: files_below(address.parent) == [], "the socket of the dead server is removed")


@pytest.mark.parametrize(("kills", "cycles"), [QUICK_SERVERS, pytest.param(*LONG_SERVERS, marks=pytest.mark.slow)])
def test_servers(tmp_path: Path, kills: int, cycles: int) -> None:
    chance, acknowledged = random.Random(SEED + 2), 0
    pages = tmp_path / "pages"
    address = tmp_path / "runtime" / "store.sock"
    pages.mkdir()
    own = segments()
    for seed in range(kills):
        sealed, inodes = kill_server(address, pages, seed, chance)
        acknowledged += sealed
        gc.collect()
        wait_until(lambda inodes=inodes: not holders(inodes), "nobody has the dead server's memory")
        if seed % 3:  # otherwise the next one starts while the folder of this one is being removed
            gone(address, pages)
    gone(address, pages)
    for seed in range(cycles):
        child = Child(children.open_and_close, str(pages), seed, STEPS)
        child.run_to(chance, STEPS)
        child.kill()
        wait_until(lambda: files_below(pages) == [], "the folder of the dead store is removed")
    assert segments() <= own
    print(f"\n{kills} servers and {cycles} stores killed; {acknowledged} pages acknowledged; nothing left behind")


def kill_command(address: Path, pages: Path, seed: int) -> None:
    with served.command(address, pages, LIMIT) as server:
        clients = Clients(str(address), seed)
        wait_until(lambda: clients.callers[0].calls >= 5, "pages are written")
        server.kill()
        clients.check_after(time.monotonic())
        assert server.wait(served.PATIENCE) == -signal.SIGKILL


def test_a_command_that_is_killed(tmp_path: Path) -> None:
    pages, address = tmp_path / "pages", tmp_path / "runtime" / "store.sock"
    pages.mkdir()
    for seed in range(2):
        kill_command(address, pages, seed)
    gone(address, pages)
    with served.command(address, pages, LIMIT):
        Store.connect(str(address)).create_set("new")
        assert files_below(address.parent) == ["store.sock"]
    assert files_below(tmp_path) == ["pages", "runtime"]
