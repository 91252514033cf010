"""Join maps with little memory, in several processes and threads, and in other stores."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from craton.store import BroadcastMap, JoinMap, Store
from tests.unit.store.joined_tables import CATEGORY, arrow, column, found

LIMIT = 16 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(LIMIT, directory=tmp_path) as made:
        yield made


# ---- memory ----


def test_a_map_larger_than_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    count = 150_000
    keys = rng.integers(0, 100_000, count)
    text = np.array([f"text {key} that is long" for key in keys])

    def tables() -> Iterator[dict[str, Any]]:
        for start in range(0, count, 10_000):
            some = slice(start, start + 10_000)
            yield {"k": keys[some], "t": text[some], "row": np.arange(count)[some]}

    with Store.open(4 << 20, directory=tmp_path) as store:
        made = JoinMap.build(store, tables(), on="k")
        assert made.index_pages > 4
        assert made.nbytes > 8 << 20
        assert store.counters()["page_disk"] > 0
        asked = rng.integers(0, 120_000, 20_000)
        expected = pd.DataFrame({"k": asked}).merge(
            pd.DataFrame({"k": keys, "t": text, "row": range(count)}), on="k", how="left"
        )
        joined = made.join({"k": asked}, "left")
        assert joined["k"].to_pylist() == expected["k"].tolist()
        assert joined["t"].to_pylist() == [None if pd.isna(one) else one for one in expected["t"]]
        assert joined["row"].to_pylist() == [None if pd.isna(one) else int(one) for one in expected["row"]]
        with pytest.raises(MemoryError):
            made.table()
        with store.reserve(2 << 20):
            assert made.join({"k": asked}, "left").equals(joined)
        made.drop()
        assert store.counters()["page_disk"] == 0


def test_probing_copies_nothing(store: Store) -> None:
    made = JoinMap.build(store, {"k": np.arange(100_000), "v": np.arange(100_000)}, on="k")
    before = store.counters()
    other = pickle.loads(pickle.dumps(made))
    for each in (made, other):
        assert found(each, {"k": [99_999, 5]}) == [(0, 99_999), (1, 5)]
        assert each.table()["v"][77_777].as_py() == 77_777
    after = store.counters()
    assert (after["copied"], after["slab_used"]) == (before["copied"], before["slab_used"])


# ---- processes ----

PROGRAM = """
import pickle, sys
from craton.store import JoinMap, Store
store = Store.connect(sys.argv[1])
before = store.counters()
for made in (JoinMap.open(store, "names"), pickle.loads(bytes.fromhex(sys.argv[2]))):
    ours, theirs = made.probe({"k": [f"key {n}" for n in range(19_990, 20_010)]})
    print(ours.tolist() == list(range(10)), theirs.tolist() == list(range(19_990, 20_000)), made.table()["v"][3].as_py())
after = store.counters()
print(all(after[name] == before[name] for name in ("copied", "shared", "slab_used")))
"""


def test_processes_probe_by_name_and_by_reference(store: Store) -> None:
    address = store.serve()
    made = JoinMap.build(store, {"k": [f"key {n}" for n in range(20_000)], "v": range(20_000)}, "k", name="names")
    assert (made.name, JoinMap.build(store, {"k": [1]}, "k").name) == ("names", None)
    arguments = [sys.executable, "-c", PROGRAM, address, pickle.dumps(made).hex()]
    running = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in running:
        output, _ = process.communicate(timeout=60)
        assert output.split() == ["True", "True", "3"] * 2 + ["True"]
    # The process that made the map may end before the others.
    del made
    assert len(JoinMap.open(store, "names")) == 20_000


SHORT_OF_MEMORY = """
import sys
import numpy as np
from craton.store import JoinMap, Store
made = JoinMap.open(Store.connect(sys.argv[1]), "numbers")
for seed in range(2):
    asked = np.random.default_rng([seed, int(sys.argv[2])]).integers(0, 120_000, 10_000)
    ours, theirs = made.probe({"k": asked})
    assert len(ours) == np.sum(asked < 80_000) and (theirs == asked[ours]).all()
assert made.join({"k": asked}, "left").num_rows == 10_000
"""


def test_processes_probe_a_map_larger_than_memory(tmp_path: Path) -> None:
    with Store.open(2 << 20, directory=tmp_path) as store:
        tables = ({"k": np.arange(start, start + 10_000)} for start in range(0, 80_000, 10_000))
        made = JoinMap.build(store, tables, "k", name="numbers")
        assert made.nbytes > store.limit
        arguments = [sys.executable, "-c", SHORT_OF_MEMORY, store.serve()]
        running = [subprocess.Popen([*arguments, str(number)]) for number in range(3)]
        assert [process.wait(timeout=120) for process in running] == [0, 0, 0]


def test_only_complete_sets_are_published(store: Store) -> None:
    address = store.serve()
    client = Store.connect(address)
    made = client.create_set()
    made.append({"n": [1]})
    assert "numbers" not in store
    made.publish("numbers")
    assert (made.name, store.get_set("numbers").to_arrow().to_pydict()) == ("numbers", {"n": [1]})
    with pytest.raises(ValueError, match='is named "numbers" already'):
        made.publish("other")
    other = store.create_set()
    with pytest.raises(FileExistsError, match="numbers"):
        other.publish("numbers")
    other.publish("other")
    del made
    client.close()
    assert len(store.get_set("numbers")) == 1
    store.get_set("numbers").drop()
    dropped = store.create_set("numbers")
    dropped.drop()
    with pytest.raises(KeyError):
        dropped.publish("name")


KILLED = """
import os, signal, sys
import craton
from craton.store import JoinMap, Store
store = Store.connect(sys.argv[1])
def tables():
    for start in range(0, 100_000, 20_000):
        if start == 60_000 and sys.argv[2] == "rows":
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"k": list(range(start, start + 20_000)), "t": [f"text {n} that is long" for n in range(20_000)]}
if sys.argv[2] == "last":
    JoinMap._complete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
JoinMap.build(store, tables(), "k", name="names")
"""


@pytest.mark.parametrize("step", ["rows", "last"])
def test_a_builder_that_is_killed_leaves_nothing(store: Store, step: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, store.serve(), step], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while not store.describe().empty and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.describe().empty
    assert store.counters()["page_memory"] == 0
    with pytest.raises(KeyError, match="no join map named 'names'"):
        JoinMap.open(store, "names")
    assert len(JoinMap.build(store, {"k": [1]}, "k", name="names")) == 1


def test_an_error_while_tables_arrive_leaves_nothing(store: Store) -> None:
    def tables() -> Iterator[Any]:
        yield {"k": np.arange(200_000)}
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        JoinMap.build(store, tables(), "k", name="names")
    assert store.describe().empty


def test_a_map_that_is_dropped_while_others_probe(store: Store) -> None:
    address = store.serve()
    made = JoinMap.build(store, {"k": np.arange(50_000), "v": np.arange(50_000)}, "k", name="numbers")
    other = JoinMap.open(Store.connect(address), "numbers")
    view = other.table()
    asked = pa.table({"k": np.arange(40_000, 60_000)})
    seen: list[Any] = []
    probed = threading.Semaphore(0)

    def probe() -> None:
        try:
            while len(seen) < 10_000:
                seen.append(len(other.probe(asked)[0]))
                probed.release()
        except KeyError as error:
            seen.append(str(error))

    threads = [threading.Thread(target=probe) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert all(probed.acquire(timeout=30) for _ in range(4))
    made.drop()
    for thread in threads:
        thread.join()
    assert set(seen) == {10_000, "'the join map was dropped from the store'"}
    assert view["v"].to_pylist() == list(range(50_000))
    made.drop()
    with pytest.raises(KeyError, match="dropped"):
        made.table()
    with pytest.raises(KeyError, match="no join map named 'numbers'"):
        JoinMap.open(store, "numbers")


def test_a_pickled_map_that_was_dropped(store: Store) -> None:
    made = JoinMap.build(store, {"k": [1]}, "k")
    sent = pickle.dumps(made)
    other = pickle.loads(sent)
    assert pickle.loads(pickle.dumps(other)).on == ["k"]
    made.drop()
    with pytest.raises(KeyError, match="dropped"):
        len(pickle.loads(sent))
    with pytest.raises(KeyError, match="dropped"):
        other.probe({"k": [1]})


def test_threads_probe_at_once(store: Store) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 20_000, 60_000)
    made = JoinMap.build(store, {"k": keys}, "k", page_bytes=1 << 18)
    assert made.index_pages > 1
    asked = [rng.integers(0, 25_000, 70_000) for _ in range(4)]
    results: dict[int, Any] = {}

    def probe(number: int) -> None:
        results[number] = made.probe({"k": asked[number]})

    threads = [threading.Thread(target=probe, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    frame = pd.DataFrame({"k": keys, "theirs": np.arange(len(keys))})
    for number, (ours, theirs) in results.items():
        mine = pd.DataFrame({"k": asked[number], "ours": np.arange(len(asked[number]))})
        expected = mine.merge(frame, on="k")
        assert np.array_equal(ours, expected["ours"])
        assert np.array_equal(theirs, expected["theirs"])


@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize("client", [True, False])
def test_forked_processes(store: Store, served: bool, client: bool) -> None:
    if client and not served:
        pytest.skip("a client has a server")
    if served:
        address = store.serve()
    used = Store.connect(address) if client else store
    made = JoinMap.build(used, {"k": np.arange(300_000)}, "k")
    assert len(made.probe({"k": np.arange(200_000)})[0]) == 200_000  # on several threads
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(50)
            if served:
                status = 0 if len(made.probe({"k": np.arange(200_000, 350_000)})[0]) == 100_000 else 2
            else:
                try:
                    made.probe({"k": [1]})
                except ConnectionError as error:
                    status = 0 if "not served" in str(error) else 3
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert len(made.probe({"k": np.arange(200_000)})[0]) == 200_000
    if client:
        del made
        used.close()


def test_unnamed_maps_live_as_long_as_references(store: Store) -> None:
    made = JoinMap.build(store, {"k": [1]}, "k")
    with made:
        assert len(store.describe()) == 1
    assert store.describe().empty
    with pytest.raises(ValueError, match="the join map is closed"):
        made.drop()
    with JoinMap.build(store, {"k": [1]}, "k", name="kept"):
        pass
    with JoinMap.open(store, "kept") as again:
        assert found(again, {"k": [1]}) == [(0, 0)]
        again.drop()
    assert store.describe().empty


# ---- copies in other stores ----


def test_copies_in_other_stores(store: Store, tmp_path: Path) -> None:
    rng = random.Random(5)
    theirs = column(rng, "text", 20_000, 3000)
    table = pa.table({"k": arrow(theirs, CATEGORY), "v": range(20_000)})
    made = BroadcastMap.build(store, table, "k", page_bytes=1 << 16)
    assert made.index_pages > 1
    asked = {"k": column(rng, "text", 1000, 3000)}
    sent = [pickle.dumps(batch) for batch in made.to_batches()]
    with Store.open(LIMIT, directory=tmp_path) as other:
        taken = []

        def batches() -> Iterator[pa.RecordBatch]:
            for data in sent:
                taken.append(data)
                yield pickle.loads(data)

        copy = BroadcastMap.receive(other, batches())
        assert len(taken) == len(sent)
        again = BroadcastMap.receive(other, batches())
        assert len(taken) == len(sent) + 1
        assert type(again) is BroadcastMap
        assert len(other.describe()) == 1
        for each in (copy, again):
            assert found(each, asked) == found(made, asked)
            assert each.join(asked, "left").equals(made.join(asked, "left"))
        # A copy of a copy.
        third = JoinMap.from_batches(other, copy.to_batches(), name="third")
        assert found(JoinMap.open(other, "third"), asked) == found(made, asked)
        assert third.table().equals(made.table())
        empty = JoinMap.from_batches(other, JoinMap.build(store, {"k": pa.array([], pa.int64())}, "k").to_batches())
        assert (len(empty), found(empty, {"k": [1]})) == (0, [])
        before = len(other.describe())
        with pytest.raises(ValueError, match="has 2 batches"):
            JoinMap.from_batches(other, [pickle.loads(data) for data in sent[:3]])
        with pytest.raises(ValueError, match="expected the batches of a join map"):
            JoinMap.from_batches(other, table.to_batches())
        with pytest.raises(ValueError, match="expected the batches of a join map"):
            JoinMap.from_batches(other, [])
        swapped = [pickle.loads(data) for data in (sent[0], sent[2], sent[1], *sent[3:])]
        with pytest.raises(ValueError, match="rows, not"):
            JoinMap.from_batches(other, swapped)
        with pytest.raises(FileExistsError, match="'third' exists"):
            JoinMap.from_batches(other, copy.to_batches(), name="third")
        assert len(other.describe()) == before
