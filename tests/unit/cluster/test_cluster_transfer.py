"""Transfers between the stores of two machines: few messages, bounded memory, order of rows, and prefetching."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from craton.cluster import fetching, transfer
from craton.cluster.fetching import Fetcher, RemoteRows
from craton.cluster.transfer import ReadRequest, fetch, read, split_by_message
from craton.schedule.pages import OutputLost, OutputPart, PageInput, PageSink, StoredOutput, identify
from craton.store import Store


class Node:
    """Stands in for a node actor; answers once `may` is set."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[list[ReadRequest]] = []
        self.compressions: list[Any] = []
        self.gone = False
        self.fails: BaseException | None = None
        self.may = threading.Event()
        self.may.set()

    async def read(self, requests: Sequence[ReadRequest], compression: Any = "none") -> Any:
        self.asked.append(list(requests))
        self.compressions.append(compression)
        await asyncio.to_thread(self.may.wait, 10)
        if self.gone:
            raise ConnectionResetError
        if self.fails is not None:
            raise self.fails
        return await asyncio.to_thread(read, self.store, requests, compression)


class World:
    """Two machines: number 0 fetches outputs from number 1."""

    def __init__(self) -> None:
        self.here, self.there = Store.open(1 << 28), Store.open(1 << 28)
        identify(self.there)
        self.node = Node(self.there)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.kept: list[Any] = []
        self.fetcher = self.another(1 << 20)

    def another(self, prefetch_limit: int) -> Fetcher:
        return Fetcher(self.loop, self.here, 0, lambda _: self.node, prefetch_limit)

    def make(self, parts: Sequence[Sequence[pa.Table]]) -> StoredOutput:
        sink = PageSink(self.there, len(parts), 1)
        for number, tables in enumerate(parts):
            for table in tables:
                sink.write(number, table)
        self.kept.append(sink)
        return sink.finish()

    def rows(self, near: Any, key: int, name: Any = 0) -> pa.Table:
        return PageInput(self.here, [OutputPart(key, *each) for each in near[key, name]]).table()

    def until(self, what: Callable[[], bool]) -> None:
        async def go() -> None:
            async with asyncio.timeout(10):
                while not what():
                    await asyncio.sleep(0.001)

        asyncio.run_coroutine_threadsafe(go(), self.loop).result()

    def close(self) -> None:
        self.node.may.set()
        self.until(lambda: not self.fetcher._tasks)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        self.kept.clear()
        self.here.close()
        self.there.close()


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    yield found
    found.close()


def numbers(first: int, count: int) -> pa.Table:
    return pa.table(
        {"n": pa.array(range(first, first + count)), "text": [f"text {n}" for n in range(first, first + count)]}
    )


def wanted(key: int, stored: StoredOutput, part: int = 0) -> RemoteRows:
    return RemoteRows(key, stored, part, stored.parts[part])


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_small_and_large_slices_keep_their_order(world: World, compression: Any) -> None:
    other = pa.table({"other": [1.5, None]})
    # One part has a small, a large and a small slice; an output with another schema is fetched in between.
    one = world.make([[numbers(0, 10), numbers(10, 40_000), numbers(40_010, 5)], [], [numbers(7, 3)]])
    two = world.make([[other]])
    world.fetcher.compression = compression
    near = world.fetcher.fetch([wanted(1, one), wanted(2, two), wanted(1, one, 2)])
    assert world.rows(near, 1).equals(numbers(0, 40_015))
    assert world.rows(near, 1, 2).equals(numbers(7, 3))
    assert world.rows(near, 2).equals(other)
    assert world.node.compressions == [compression]
    assert world.fetcher.fetched > 40_000 * 8


def test_hundreds_of_small_parts_are_one_message_and_few_pages(world: World) -> None:
    made = {key: world.make([[numbers(key, 20)], [numbers(1000 + key, 1)]]) for key in range(1, 301)}
    near = world.fetcher.fetch([wanted(key, stored, part) for key, stored in made.items() for part in range(2)])
    assert len(world.node.asked) == 1
    assert world.rows(near, 300, 1).equals(numbers(1300, 1))
    assert world.rows(near, 7).equals(numbers(7, 20))
    assert world.here.counters()["pages"] <= 3
    # Each part is fetched once.
    world.fetcher.fetch([wanted(5, made[5])])
    assert len(world.node.asked) == 1
    del near
    world.fetcher.forget(made)
    world.until(lambda: world.here.counters()["pages"] == 0)


def test_bytes_in_flight_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (transfer, fetching):
        monkeypatch.setattr(module, "MESSAGE_BYTES", 1 << 20)
    monkeypatch.setattr(fetching, "MAX_IN_FLIGHT_PER_NODE", 4 << 20)
    world.fetcher = world.another(8 << 20)
    rows = 60_000
    large = pa.table({"n": pa.array(range(rows), pa.int64())})  # 480 kB a page
    stored = world.make([[large] * 30])
    world.node.may.clear()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(world.fetcher.fetch([wanted(1, stored)])))
    thread.start()
    world.until(lambda: len(world.node.asked) == 4)
    world.node.may.set()
    thread.join()
    assert world.fetcher.most_in_flight <= 4 << 20
    assert len(world.node.asked) == len(split_by_message(stored.parts[0])) == 15
    assert world.rows(found[0], 1).equals(pa.concat_tables([large] * 30))


def test_prefetching_follows_the_order_of_tasks_within_the_limit(world: World) -> None:
    world.fetcher = world.another(1_000_000)
    large = pa.table({"n": pa.array(range(50_000), pa.int64())})  # 400 kB
    made = {key: world.make([[large]]) for key in range(1, 6)}
    world.node.may.clear()
    for key in (4, 2, 1, 3, 5):
        world.fetcher.prefetch(key, [wanted(key, made[key])])
    world.node.may.set()
    world.until(lambda: world.fetcher.fetched == 2 * large.nbytes)  # a third does not fit
    assert world.fetcher.prefetched == 0
    first = {request.key for requests in world.node.asked for request in requests}
    near = world.fetcher.fetch([wanted(key, made[key]) for key in first])
    assert all(world.rows(near, key).equals(large) for key in first)
    assert world.fetcher.prefetched == 2 * large.nbytes
    # There is room again.
    world.until(lambda: world.fetcher.fetched == 4 * large.nbytes)
    world.fetcher.forget(made)
    assert world.fetcher._ahead == 0
    world.until(lambda: not world.fetcher._tasks)
    assert all(source.waiting == source.nbytes == source.messages == 0 for source in world.fetcher._sources.values())


def test_needed_parts_are_fetched_before_prefetched_ones(world: World) -> None:
    stored = {key: world.make([[numbers(key, 10)]]) for key in range(1, 4)}
    world.node.may.clear()
    world.fetcher.prefetch(1, [wanted(1, stored[1])])
    world.until(lambda: len(world.node.asked) == 1)
    world.fetcher.prefetch(2, [wanted(2, stored[2])])  # held back: it is small, and a message is in flight
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(world.fetcher.fetch([wanted(3, stored[3])])))
    thread.start()
    world.until(lambda: len(world.node.asked) == 2)
    assert world.node.asked[1][0].key == 3
    world.node.may.set()
    thread.join()
    world.until(lambda: sum(map(len, world.node.asked)) == 3)


def test_a_lost_output_does_not_affect_others_in_the_same_message(world: World) -> None:
    one, two = world.make([[numbers(0, 10)]]), world.make([[numbers(5, 10)]])
    assert world.kept[0].pages is not None
    world.kept[0].pages.drop()
    with pytest.raises(OutputLost) as lost:
        world.fetcher.fetch([wanted(2, two), wanted(1, one)])
    assert lost.value.key == 1
    near = world.fetcher.fetch([wanted(2, two)])
    assert world.rows(near, 2).equals(numbers(5, 10))
    assert len(world.node.asked) == 1
    again = world.make([[numbers(0, 10)]])
    assert world.rows(world.fetcher.fetch([wanted(1, again)]), 1).equals(numbers(0, 10))


def test_a_failed_fetch_is_retried_at_the_next_request(world: World) -> None:
    stored = world.make([[numbers(0, 10)]])
    world.node.fails = MemoryError("no room")
    with pytest.raises(MemoryError):
        world.fetcher.fetch([wanted(1, stored)])
    world.node.fails, world.node.gone = None, True
    with pytest.raises(OutputLost):
        world.fetcher.fetch([wanted(1, stored)])
    world.node.gone = False
    assert world.rows(world.fetcher.fetch([wanted(1, stored)]), 1).equals(numbers(0, 10))
    assert world.fetcher._in_flight == 0


def test_a_recomputed_output_is_fetched_from_its_new_location(world: World) -> None:
    old, new = world.make([[numbers(0, 10)]]), world.make([[numbers(0, 10)]])
    world.node.may.clear()
    world.fetcher.prefetch(1, [wanted(1, old)])
    world.until(lambda: len(world.node.asked) == 1)
    threading.Timer(0.05, world.node.may.set).start()
    assert world.rows(world.fetcher.fetch([wanted(1, new)]), 1).equals(numbers(0, 10))
    assert [requests[0].number for requests in world.node.asked] == [old.number, new.number]


def test_forgetting_an_output_fails_pending_fetches(world: World) -> None:
    stored = world.make([[numbers(0, 10)]])
    world.node.may.clear()
    raised: list[BaseException] = []

    def bring() -> None:
        try:
            world.fetcher.fetch([wanted(1, stored)])
        except OutputLost as error:
            raised.append(error)

    thread = threading.Thread(target=bring)
    thread.start()
    world.until(lambda: len(world.node.asked) == 1)
    world.fetcher.forget([1])
    thread.join(5)
    assert len(raised) == 1


def test_a_cancelled_fetch_does_not_wait(world: World) -> None:
    stored = world.make([[numbers(0, 10)]])
    world.node.may.clear()
    looks = iter([False, True])
    assert world.fetcher.fetch([wanted(1, stored)], lambda: next(looks)) is None
    world.node.may.set()
    near = world.fetcher.fetch([wanted(1, stored)])
    assert world.rows(near, 1).equals(numbers(0, 10))
    assert len(world.node.asked) == 1


def test_fetching_a_part_into_the_drivers_memory(world: World) -> None:
    stored = world.make([[numbers(0, 30_000), numbers(30_000, 20)], []])

    def here(part: int, compression: Any) -> pa.Table:
        return asyncio.run(fetch(world.node, 9, stored, part, compression))

    assert here(0, "none").equals(numbers(0, 30_020))
    assert here(0, "lz4").equals(numbers(0, 30_020))
    assert here(1, "none").equals(numbers(0, 1).slice(1))
    assert world.kept[0].pages is not None
    world.kept[0].pages.drop()
    with pytest.raises(OutputLost):
        here(0, "none")
