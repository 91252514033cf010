"""Stores: sets of pages, sharing and copying, eviction and spilling, and errors."""

from __future__ import annotations

import gc
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craton.store import CorruptPage, Store

LIMIT = 64 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(LIMIT, directory=tmp_path) as made:
        yield made


def numbers(rows: int = 1000, start: int = 0) -> pa.RecordBatch:
    values = np.arange(start, start + rows)
    return pa.record_batch({"n": values, "half": values / 2, "text": [f"number {value}" for value in values]})


def test_appended_rows_are_read_back(store: Store) -> None:
    made = store.create_set("numbers")
    made.append(numbers(1000))
    made.append(numbers(10, start=1000))
    assert [info.rows for info in made.pages()] == [1000, 10]
    assert made.to_arrow().equals(pa.Table.from_batches([numbers(1000), numbers(10, start=1000)]))
    assert made.to_arrow([1]).column_names == ["half"]


def test_pages_are_read_together_or_not_at_all(store: Store) -> None:
    made = store.create_set()
    for start in range(0, 3000, 1000):
        made.append(numbers(1000, start))
    made.append({"other": [1]})
    ((first, second), (third,)) = made.read([([2, 0, 3], None), ([1], [1, 0])])
    assert pa.table(first)["n"].to_pylist() == [*range(2000, 3000), *range(1000)]
    assert pa.table(second).column_names == ["other"]
    assert pa.table(third).column_names == ["half", "n"]
    del first, second, third
    with pytest.raises(KeyError, match="no page"):
        made.read([([0, 1, 99], None)])
    with pytest.raises(ValueError, match="column"):
        made.read([([0], [7])])
    assert store.describe().loc[made.number, "pins"] == 0
    assert made.read([]) == []
    with pytest.raises(pa.ArrowInvalid):
        made.to_arrow()  # pages of different schemas cannot be one table


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"n": [1, 2, None]}),
        pa.table({"n": pa.array([], pa.int32()), "s": pa.array([], pa.string())}),
        pl.DataFrame(
            {"s": ["a", None, "longer than twelve bytes"], "c": pl.Series(["x", "y", "x"], dtype=pl.Categorical)}
        ),
        pd.DataFrame({"s": ["a", "b"], "t": pd.to_datetime(["2020-01-01", None])}),
        {"nested": [[{"a": 1}], None, []]},
    ],
    ids=["arrow", "no rows", "polars", "pandas", "dict"],
)
def test_tables_of_every_kind(store: Store, table: object) -> None:
    made = store.create_set()
    made.append(table)
    assert made.to_arrow().equals(pa.table(table).replace_schema_metadata(made.to_arrow().schema.metadata))


def test_resharing_copies_only_what_is_new(store: Store) -> None:
    made = store.create_set("input")
    made.append(pa.record_batch({"a": np.arange(1_000_000), "b": np.arange(1_000_000.0)}))
    batch = made.to_arrow().to_batches()[0]
    before = store.counters()
    derived = store.create_set("derived")
    derived.append(batch.select(["b"]))
    derived.append(batch.slice(1000, 64_000))
    derived.append(batch.append_column("c", pa.array(np.arange(1_000_000, dtype="int8"))))
    after = store.counters()
    assert after["copied"] - before["copied"] == 1_000_000
    assert after["shared"] - before["shared"] == 8_000_000 + 2 * 512_000 + 16_000_000
    made.drop()
    read = [pa.table(derived.pin(i).batch()) for i in range(3)]
    assert read[0]["b"].to_numpy()[-1] == 999_999.0
    assert read[1]["a"].to_numpy()[0] == 1000
    assert read[2].column_names == ["a", "b", "c"]


def test_reading_copies_nothing(store: Store) -> None:
    made = store.create_set()
    (info,) = made.append(pa.record_batch({"n": np.arange(100_000)}))
    page = made.pin(info)
    (address,) = [address for address, length in page.addresses() if length]
    assert pa.table(page.batch())["n"].chunk(0).buffers()[1].address == address
    assert pl.DataFrame(page.batch())["n"].to_numpy().__array_interface__["data"][0] == address


def test_keys_are_unique_in_a_set(store: Store) -> None:
    made = store.create_set()
    (first,) = made.append({"n": [1]}, key=b"k")
    (second,) = made.append({"n": [2]}, key=b"k")
    assert (first.number, second.number) == (0, 0)
    assert [info and info.number for info in made.find([b"k", b"other"])] == [0, None]
    assert made.to_arrow()["n"].to_pylist() == [1]


def test_names_are_unique(store: Store) -> None:
    store.create_set("a")
    with pytest.raises(FileExistsError, match=r"named \"a\""):
        store.create_set("a")
    with pytest.raises(KeyError, match="nobody"):
        store.get_set("nobody")
    assert "a" in store
    assert "nobody" not in store


def test_a_set_without_a_name_is_dropped_with_its_last_reference(store: Store) -> None:
    made = store.create_set()
    made.append(numbers())
    assert store.counters()["sets"] == 1
    del made
    gc.collect()
    assert store.counters()["sets"] == 0
    assert store.counters()["slab_used"] == 0


def test_views_outlive_their_page_and_their_store(tmp_path: Path) -> None:
    with Store.open(LIMIT, directory=tmp_path) as store:
        made = store.create_set("numbers")
        made.append(numbers())
        table = made.to_arrow()
        made.drop()
        with pytest.raises(KeyError):
            made.pin(0)
    assert table["n"].to_pylist() == list(range(1000))
    with pytest.raises(ValueError, match="closed"):
        store.create_set()


def test_more_than_memory_is_spilled_and_read_back(store: Store) -> None:
    made = store.create_set("large")
    rows = 1 << 20
    for i in range(32):  # 256 MiB in 64 MiB
        made.append(pa.record_batch({"n": np.full(rows, i)}))
    seen = [int(pa.table(page.batch())["n"].to_numpy().max()) for page in made.reader()]
    assert sorted(seen) == list(range(32))
    counted = store.counters()
    assert counted["slab_used"] <= LIMIT
    assert counted["written"] > 0
    assert counted["read"] > 0


def test_the_images_are_arrow_files(store: Store, tmp_path: Path) -> None:
    made = store.create_set("durable", durability="write-through")
    table = pl.DataFrame({"s": ["a", None, "longer than twelve bytes"], "n": [1, 2, 3]})
    made.append(table)
    (path,) = tmp_path.rglob("*.arrow")
    assert pl.from_arrow(pa.ipc.open_file(path).read_all()).equals(table)


def test_pinned_pages_are_not_evicted(store: Store) -> None:
    made = store.create_set()
    pinned = []

    def fill() -> None:
        while True:
            (info,) = made.append(pa.record_batch({"n": np.zeros(1 << 20)}))
            pinned.append(made.pin(info))

    with pytest.raises(MemoryError, match="pinned"):
        fill()
    assert len(pinned) == 8
    pinned.clear()
    made.append(pa.record_batch({"n": np.zeros(1 << 20)}))


def test_pages_of_an_ended_set_are_evicted_without_being_written(store: Store) -> None:
    ended = store.create_set("ended")
    for _ in range(4):
        ended.append(pa.record_batch({"n": np.zeros(1 << 20)}))
    ended.end_lifetime()
    other = store.create_set("other")
    for _ in range(6):
        other.append(pa.record_batch({"n": np.ones(1 << 20)}))
    counted = store.counters()
    assert counted["evicted_ended"] > 0
    assert counted["written"] == 0


def test_discardable_pages_are_evicted_without_being_written(store: Store) -> None:
    made = store.create_set("cache", durability="discard")
    for i in range(16):
        made.append(pa.record_batch({"n": np.zeros(1 << 20)}), key=b"%d" % i, rebuild=0.01)
    counted = store.counters()
    assert counted["evicted_discarded"] > 0
    assert counted["written"] == 0
    assert any(info is None for info in made.find([b"%d" % i for i in range(16)]))


def test_a_reservation_evicts_pages(store: Store) -> None:
    made = store.create_set()
    for _ in range(7):
        made.append(pa.record_batch({"n": np.zeros(1 << 20)}))
    with store.reserve(LIMIT // 2) as held:
        assert held.nbytes == LIMIT // 2
        assert store.counters()["slab_used"] <= LIMIT // 2
    assert store.counters()["reserved"] == 0
    with pytest.raises(MemoryError):
        store.reserve(LIMIT * 2)
    with store.reserve(LIMIT * 2, at_least=0) as held:
        assert held.nbytes <= LIMIT


def test_the_error_of_a_damaged_page_names_its_file(store: Store, tmp_path: Path) -> None:
    made = store.create_set("durable", durability="write-through")
    for i in range(3):
        made.append(pa.record_batch({"n": np.full(1 << 20, i)}))
    victim = sorted(tmp_path.rglob("*.arrow"))[1]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    filler = store.create_set("filler")
    for _ in range(10):
        filler.append(pa.record_batch({"n": np.ones(1 << 20)}))
    for i in (0, 2):
        assert pa.table(made.pin(i).batch())["n"][0].as_py() == i
    with pytest.raises(CorruptPage, match=re.escape(str(victim))):
        made.pin(1)
    with pytest.raises(CorruptPage, match=r"checksum|differs|damaged"):
        made.pin(1)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write everywhere")
    tmp_path.chmod(0o500)
    with Store.open(8 << 20, directory=tmp_path) as store:
        made = store.create_set()
        made.append(pa.record_batch({"n": np.zeros(900_000)}))
        with pytest.raises(OSError, match=str(tmp_path)):
            made.append(pa.record_batch({"n": np.ones(900_000)}))
        assert made.to_arrow()["n"].to_numpy().sum() == 0


def test_many_threads_read_one_set(store: Store) -> None:
    made = store.create_set()
    for i in range(64):
        made.append(pa.record_batch({"n": np.full(1 << 18, i)}))
    seen: list[int] = []
    with made.reader(workers=4) as reader:

        def work() -> None:
            for page in reader:
                seen.append(int(pa.table(page.batch())["n"][0].as_py()))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(seen) == list(range(64))


def test_describe_and_metrics(store: Store) -> None:
    made = store.create_set("numbers", durability="write-through", reading="random")
    made.append(numbers())
    made.pin(0)
    row = store.describe().loc[made.number]
    assert (row["name"], row["pages"], row["rows"], row["hits"]) == ("numbers", 1, 1000, 1)
    assert (row["durability"], row["reading"]) == ("write-through", "random")
    text = store.prometheus()
    assert "# TYPE craton_pages gauge" in text
    assert 'craton_set_pages{set="numbers"} 1' in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"durability": "never"}, "durability"), ({"writing": "x"}, "writing"), ({"reading": "x"}, "reading")],
)
def test_attributes_are_checked(store: Store, arguments: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        store.create_set(**arguments)  # type: ignore[arg-type]


def test_appending_something_other_than_a_table_raises(store: Store) -> None:
    with pytest.raises(TypeError, match="table"):
        store.create_set().append([1, 2, 3])


def test_closed_stores_leave_no_files_or_descriptors(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with Store.open(8 << 20, directory=tmp_path) as store:
            made = store.create_set()
            for _ in range(4):
                made.append(pa.record_batch({"n": np.zeros(1 << 19)}))
            del made
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
