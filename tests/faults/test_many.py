"""Many sets, many pages, many clients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import children
import numpy as np
import pytest
import served
from children import intact, packed
from served import Child, files_below, wait_until

from craton.store import Store

LIMIT = 32 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    pages = tmp_path / "pages"
    pages.mkdir()
    with served.server(tmp_path / "run" / "sock", pages, LIMIT):
        yield Store.connect(str(tmp_path / "run" / "sock"))
    assert files_below(tmp_path) == ["pages", "run"]


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_sets(store: Store, count: int) -> None:
    sets = []
    for number in range(count):
        name = f"set {number}" if number % 3 else None
        sets.append(store.create_set(name, durability=children.DURABILITIES[number % 2]))
        children.append(sets[-1], children.batch_of(number, 0, 2000), packed(number))
    described = store.describe()
    assert len(described) == count
    assert (described["pages"] == 1).all()
    assert store.counters()[["sets", "pages"]].tolist() == [count, count]
    for number in random.Random(1).sample(range(count), min(count, 1000)):
        found = store.get_set(f"set {number}") if number % 3 else sets[number]
        assert intact(found.pin(0))
        (info,) = found.find([packed(number)])
        assert info is not None
        assert info.number == 0
    del sets, found
    wait_until(lambda: store.counters()["sets"] == count - len(range(0, count, 3)), "sets without users are dropped")
    for number in range(count):
        if number % 3:
            store.get_set(f"set {number}").drop()
    wait_until(lambda: store.counters()["slab_used"] <= 64, "memory is given back")
    assert not store.counters()[["sets", "pages", "page_memory", "page_disk"]].any()


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_pages(store: Store, count: int) -> None:
    pages = store.create_set("pages")
    values = np.zeros(64, np.int64)
    for number in range(count):
        values[:] = number
        (info,) = store._native.write(pages.number, _batch(values), key=packed(number))
        assert info.number == number
    infos = pages.pages()
    assert [info.number for info in infos] == list(range(count))
    for number in random.Random(2).sample(range(count), 500):
        assert (_values(pages.pin(number)) == number).all()
    found = pages.find([packed(number) for number in range(count)] + [b"none"])
    assert [info.number for info in found[:-1] if info is not None] == list(range(count))
    assert found[-1] is None
    total = 0
    with pages.reader() as reader:
        for number, page in enumerate(reader):
            values = _values(page)
            assert (values == number).all()
            total += len(values)
    assert total == 64 * count
    counters = store.counters()
    assert counters["pages"] == count
    print(f"\n{count} pages; {counters['written']:,} bytes written, {counters['read']:,} read")
    del page, values
    pages.drop()
    wait_until(lambda: store.counters()["slab_used"] <= 64, "memory is given back")


def _batch(values: np.ndarray) -> object:
    import pyarrow as pa

    return pa.record_batch({"n": values})


def _values(page: object) -> np.ndarray:
    import pyarrow as pa

    return pa.table(page.batch())["n"].to_numpy()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("count", "each"), [(12, 5), pytest.param(64, 40, marks=pytest.mark.slow)])
def test_clients(store: Store, count: int, each: int) -> None:
    """All clients work concurrently; a third of them is killed meanwhile."""
    chance = random.Random(3)
    shared = store.create_set("shared")
    children.append(shared, children.batch_of(0, 0))
    clients = [Child(children.one_of_many, store.address, seed, each) for seed in range(count)]
    for client in clients:
        client.expect("connected")
    assert store.counters()["clients"] == count + 1
    for client in clients:
        client.connection.send("go")
    victims = set(chance.sample(range(count), count // 3))
    for seed, client in enumerate(clients):
        if seed in victims:
            for _ in range(chance.randrange(each)):
                client.expect("step")
            client.kill()
    for seed, client in enumerate(clients):
        if seed not in victims:
            client.expect("done")
            client.end()
    wait_until(lambda: store.counters()["clients"] == 1, "those that have gone are noticed")
    wait_until(lambda: not store.describe()["pins"].any(), "their pins are given back")
    acknowledged = 0
    sets = {store.get_set(name).number: store.get_set(name) for name in store.describe()["name"]}
    there = {number: {info.number: info.statistics for info in pages.pages()} for number, pages in sets.items()}
    for seed, client in enumerate(clients):
        assert not client.all("wrong")
        for _, number, page, statistics in client.all("sealed"):
            assert there[number][page] == statistics
            acknowledged += 1
        if seed not in victims:
            assert len(client.all("sealed")) == 2 * each
    assert all(intact(page) for pages in sets.values() for page in pages.reader())
    print(f"\n{count} clients, {len(victims)} killed; {acknowledged} pages acknowledged, 0 lost, 0 wrong")
