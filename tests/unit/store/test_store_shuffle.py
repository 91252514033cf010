"""The shuffle into a store: no row is lost or reordered, with several threads and processes and more data than memory; and errors."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craton import _native
from craton.store import LocalitySet, ShuffleWriter, Store, shuffle

LIMIT = 64 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(LIMIT, directory=tmp_path) as made:
        yield made


def rows(count: int, start: int = 0, writer: int = 0) -> pa.Table:
    values = np.arange(start, start + count)
    return pa.table({"key": values * 7919 % 1000, "row": values, "writer": np.full(count, writer), "half": values / 2})


def tables(sets: list[LocalitySet]) -> list[pa.Table]:
    return [one.to_arrow() for one in sets if len(one)]


def parts_of(table: pa.Table, n: int) -> list[list[int]]:
    """The row numbers of each partition, computed from the documented definition of the hash."""
    numbers = [int(value) * n >> 64 for value in pa.array(_native.hash_rows(table, ["key"])).to_pylist()]
    parts: list[list[int]] = [[] for _ in range(n)]
    for row, number in zip(table["row"].to_pylist(), numbers, strict=True):
        parts[number].append(row)
    return parts


@pytest.mark.parametrize("partitions", [1, 64, 2000])
def test_rows_go_to_the_partition_of_their_hash_in_order(store: Store, partitions: int) -> None:
    table = rows(50_000)
    sets = shuffle(store, table, "key", partitions)
    found = [one.to_arrow()["row"].to_pylist() if len(one) else [] for one in sets]
    assert found == parts_of(table, partitions)


@pytest.mark.parametrize("kind", ["arrow", "batch", "polars", "pandas", "dict", "set", "iterator"])
def test_data_of_every_kind(store: Store, kind: str) -> None:
    table = rows(1000)
    made = store.create_set()
    made.append(table)
    data: Any = {
        "arrow": table,
        "batch": table.to_batches()[0],
        "polars": pl.DataFrame(table),
        "pandas": table.to_pandas(),
        "dict": {name: table[name].to_numpy() for name in table.column_names},
        "set": made,
        "iterator": iter(table.to_batches(max_chunksize=77)),
    }[kind]
    sets = shuffle(store, data, ["key"], 4)
    assert [part["row"].to_pylist() for part in tables(sets)] == [part for part in parts_of(table, 4) if part]


def test_columns_of_every_shape(store: Store) -> None:
    count = 3000
    texts = [None if row % 7 == 0 else "x" * (row % 40) + str(row) for row in range(count)]
    table = pa.table(
        {
            "row": pa.array(range(count), pa.int64()),
            "text": texts,
            "view": pa.array(texts, pa.string_view()),
            "flag": pa.array([None if row % 11 == 0 else row % 2 == 0 for row in range(count)]),
            "list": [None if row % 5 == 0 else list(range(row % 4)) for row in range(count)],
            "texts": [[f"a text that is long: {row}"] * (row % 3) for row in range(count)],
            "struct": [{"a": row, "b": texts[row]} for row in range(count)],
            "map": pa.array([[("k", row)] for row in range(count)], pa.map_(pa.string(), pa.int64())),
            "words": pa.array([f"the word {row % 5}, in few forms" for row in range(count)]).dictionary_encode(),
            "null": pa.nulls(count),
            "small": pa.array([row % 100 for row in range(count)], pa.int8()),
            "decimal": pa.array(range(count), pa.int64()).cast(pa.decimal128(30, 2)),
        }
    )
    sets = shuffle(store, table, ["text", "small"], 16)
    found = [row for part in tables(sets) for row in part.to_pylist()]
    assert sorted(found, key=lambda row: row["row"]) == table.to_pylist()


def test_shared_strings_of_polars(store: Store) -> None:
    # All views point to the same two long strings. Pages must not hold a copy of the string for each row.
    words = pl.Series(["a word that is longer than twelve bytes", "and another one of these"])
    df = pl.DataFrame({"row": range(20_000)}).with_columns(word=words.gather(pl.int_range(20_000, eager=True) % 2))
    sets = shuffle(store, df, "row", 8)
    found = pl.concat([pl.DataFrame(part) for part in tables(sets)]).sort("row")
    assert found.equals(df)
    assert sum(info.nbytes for one in sets for info in one.pages()) < 20_000 * 100


def test_ranges(store: Store) -> None:
    table = rows(5000)
    sets = shuffle(store, table, "key", 3, kind="range", boundaries={"key": np.array([300, 600])})
    found = [part["key"].to_pylist() for part in tables(sets)]
    assert [(min(part), max(part)) for part in found] == [(0, 299), (300, 599), (600, 999)]
    assert sum(map(len, found)) == 5000
    falling = shuffle(store, table, "key", 2, kind="range", boundaries=pd.DataFrame({"key": [500]}), descending=[True])
    assert [min(part["key"].to_pylist()) for part in tables(falling)] == [501, 0]


def test_no_rows(store: Store) -> None:
    sets = shuffle(store, rows(0), "key", 3)
    assert [len(one) for one in sets] == [0, 0, 0]


def test_threads_share_pages_and_keep_their_order(store: Store) -> None:
    sets = [store.create_set() for _ in range(8)]
    with ShuffleWriter(sets, "key", page_bytes=1 << 17) as writer:

        def write(number: int) -> None:
            for start in range(0, 20_000, 500):
                writer.write(rows(500, start=start, writer=number))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.describe().loc[sets[0].number, ["writing", "operation"]].tolist() == ["concurrent", "write"]
    assert store.describe().loc[sets[0].number, "operation"] == "none"
    found = tables(sets)
    for number in range(4):
        parts = [part.filter(pa.compute.equal(part["writer"], number))["row"].to_pylist() for part in found]
        assert parts == parts_of(rows(20_000), 8)
    # 160 small tables, and few pages.
    assert sum(len(one) for one in sets) <= 8 * 12


CHILD = """
import sys
import threading
import numpy as np
from craton.store import ShuffleWriter, Store

store, ours = Store.connect(sys.argv[1]), [int(number) for number in sys.argv[2].split(",")]
with ShuffleWriter([store.get_set(f"part {number}") for number in range(4)], "key", page_bytes=1 << 16) as writer:

    def write(number):
        for start in range(0, 10_000, 1000):
            values = np.arange(start, start + 1000)
            own = np.full(1000, number)
            writer.write({"key": values * 7919 % 1000, "row": values, "writer": own, "half": values / 2})

    threads = [threading.Thread(target=write, args=(number,)) for number in ours]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_of_several_processes_write_to_one_set_of_partitions(store: Store) -> None:
    address = store.serve()
    sets = [store.create_set(f"part {number}") for number in range(4)]
    children = [subprocess.Popen([sys.executable, "-c", CHILD, address, ours]) for ours in ("1,2,3", "4,5")]
    with ShuffleWriter(sets, "key") as writer:
        for start in range(0, 10_000, 1000):
            writer.write(rows(1000, start=start))
    assert [child.wait(120) for child in children] == [0, 0]
    for number in range(6):
        found = [part.filter(pa.compute.equal(part["writer"], number))["row"].to_pylist() for part in tables(sets)]
        assert found == parts_of(rows(10_000), 4)


KILLED = """
import os, signal, sys
import numpy as np
from craton.store import ShuffleWriter, Store

store = Store.connect(sys.argv[1])
sets = [store.get_set(f"part {number}") for number in range(4)]
writer = ShuffleWriter(sets, "key", page_bytes=1 << 16)
start = 0
while any(len(one) < 3 for one in sets):
    values = np.arange(start, start + 50_000)
    writer.write({"key": values * 7919 % 1000, "row": values, "writer": np.full(50_000, 1), "half": values / 2})
    start += 50_000
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_only_its_unsealed_rows(store: Store) -> None:
    address = store.serve()
    sets = [store.create_set(f"part {number}") for number in range(4)]
    with ShuffleWriter(sets, "key", page_bytes=1 << 16) as writer:
        writer.write(rows(5000))
        child = subprocess.Popen([sys.executable, "-c", KILLED, address])
        assert child.wait(120) == -9
        writer.write(rows(5000, start=5000))
    expected = parts_of(rows(200_000), 4)
    for part, wanted in zip(tables(sets), expected, strict=True):
        ours = part.filter(pa.compute.equal(part["writer"], 0))["row"].to_pylist()
        assert ours == [row for row in wanted if row < 10_000]
        # The sealed pages of the killed writer are complete, and none is missing between them.
        others = part.filter(pa.compute.equal(part["writer"], 1))
        assert others["row"].to_pylist() == wanted[: len(others)]
        assert others["half"].to_pylist() == [row / 2 for row in wanted[: len(others)]]
        assert len(others) > 0


def test_a_collected_writer_frees_its_open_pages(store: Store) -> None:
    sets = [store.create_set() for _ in range(4)]
    with ShuffleWriter(sets, "key") as other:
        other.write(rows(1000, writer=1))
        writer = ShuffleWriter(sets, "key", page_bytes=1 << 16)
        writer.write(rows(200_000))
        sealed = sum(info.rows for one in sets for info in one.pages())
        assert 0 < sealed < 200_000
        del writer
        other.write(rows(1000, start=1000, writer=1))
    assert sum(info.rows for one in sets for info in one.pages()) == sealed + 2000
    counters = store.counters()
    assert counters["slab_used"] <= counters["page_memory"] * 17 // 16
    for part, expected in zip(tables(sets), parts_of(rows(2000), 4), strict=True):
        assert part.filter(pa.compute.equal(part["writer"], 1))["row"].to_pylist() == expected


def test_thousands_of_partitions_with_few_rows(store: Store) -> None:
    sets = [store.create_set() for _ in range(4096)]
    table = pa.table({"key": np.arange(20_000), "row": np.arange(20_000), "text": [f"text {n}" for n in range(20_000)]})
    with ShuffleWriter(sets, "key") as writer:
        for start in range(0, 20_000, 1000):
            writer.write(table.slice(start, 1000))
            assert store.counters()["slab_used"] <= LIMIT // 4
    found = [one.to_arrow()["row"].to_pylist() if len(one) else [] for one in sets]
    assert found == parts_of(table, 4096)
    # Pages are not larger than their contents, except for alignment.
    assert store.counters()["page_memory"] < 4096 * 64 * 6


def test_the_memory_of_a_writer_is_bounded(tmp_path: Path) -> None:
    with Store.open(1 << 30, directory=tmp_path) as store:
        sets = [store.create_set() for _ in range(16)]
        page = 1 << 20
        with ShuffleWriter(sets, "key", page_bytes=page) as writer:
            for start in range(0, 4_000_000, 100_000):
                writer.write(rows(100_000, start=start))
                counters = store.counters()
                # Sealed pages are nearly full: a page is sealed when its free space is too small for the rows of one more pass.
                assert counters["slab_used"] <= counters["page_memory"] * 9 // 8 + 16 * page * 17 // 16
        assert counters["page_memory"] > 4 * 16 * page
        infos = [info for one in sets for info in one.pages()]
        assert sum(info.rows for info in infos) == 4_000_000
        # Pages are at least 8/9 full.
        assert store.counters()["slab_used"] <= sum(info.nbytes for info in infos) * 9 // 8


def appended(count: int) -> pa.Table:
    texts = [None if row % 7 == 0 else "x" * (row % 40) + str(row) for row in range(count)]
    whole = pa.array(range(count), pa.int64())
    return pa.table(
        {
            "row": whole,
            "text": texts,
            "large": pa.array(texts, pa.large_string()),
            "view": pa.array(texts, pa.string_view()),
            "bytes": pa.array([None if text is None else text.encode() for text in texts], pa.binary()),
            "flag": pa.array([None if row % 11 == 0 else row % 2 == 0 for row in range(count)]),
            "struct": [None if row % 13 == 0 else {"a": row, "b": texts[row]} for row in range(count)],
            "null": pa.nulls(count),
            "small": pa.array([row % 100 for row in range(count)], pa.int8()),
            "half": pa.array([row / 2 for row in range(count)], pa.float32()),
            "date": pa.array([row % 5000 for row in range(count)], pa.int32()).cast(pa.date32()),
            "time": whole.cast(pa.timestamp("us", "UTC")),
            "fixed": pa.array([f"{row:08}".encode() for row in range(count)], pa.binary(8)),
            "decimal": whole.cast(pa.decimal128(30, 2)),
            "wide": whole.cast(pa.decimal256(50, 2)),
        }
    )


@pytest.mark.parametrize("page_bytes", [1 << 12, 1 << 17, None])
def test_columns_of_every_type_that_is_appended(store: Store, page_bytes: int | None) -> None:
    table = appended(3000)
    sets = [store.create_set() for _ in range(5)]
    with ShuffleWriter(sets, ["text", "small"], page_bytes=page_bytes) as writer:
        for batch in table.to_batches(max_chunksize=77):
            writer.write(batch)
    whole = shuffle(store, table, ["text", "small"], 5)
    for found, expected in zip(tables(sets), tables(whole), strict=True):
        found.validate(full=True)
        assert found.to_pylist() == expected.to_pylist()
    assert sum(map(len, tables(sets))) == 3000


def test_threads_write_more_than_fits_into_memory(store: Store) -> None:
    # 4 times 32 MB into a store of 64 MB, half of which is reserved.
    sets = [store.create_set() for _ in range(16)]
    with store.reserve(LIMIT // 2), ShuffleWriter(sets, "key") as writer:

        def write(number: int) -> None:
            for start in range(0, 1_000_000, 10_000):
                writer.write(rows(10_000, start=start, writer=number))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert store.counters()["written"] > LIMIT // 2
    total = 0
    for one in sets:
        last = np.full(4, -1)
        with one.reader() as reader:
            for page in reader:
                part = pa.table(page.batch())
                found, writers = part["row"].to_numpy(), part["writer"].to_numpy()
                assert (found / 2 == part["half"].to_numpy()).all()
                for number in range(4):
                    own = found[writers == number]
                    assert (np.diff(own, prepend=last[number]) > 0).all()
                    last[number] = own[-1] if len(own) else last[number]
                total += len(found)
                del part, page, found, writers, own
    assert total == 4_000_000


def test_a_writer_refuses_rows_after_a_failed_finish(store: Store) -> None:
    sets = [store.create_set() for _ in range(2)]
    writer = ShuffleWriter(sets, "key")
    writer.write(rows(10))
    sets[1].drop()
    with pytest.raises(KeyError, match="no set"):
        writer.finish()
    with pytest.raises(ValueError, match="takes no rows"):
        writer.write(rows(1))


def test_more_than_fits_into_memory(store: Store) -> None:
    # 160 MB into a store of 64 MB.
    sets = [store.create_set() for _ in range(16)]
    with ShuffleWriter(sets, "key") as writer:
        for start in range(0, 5_000_000, 250_000):
            writer.write(rows(250_000, start=start))
    counters = store.counters()
    assert counters["written"] > LIMIT
    assert counters["page_memory"] <= LIMIT
    total = keys = 0
    for one in sets:
        last = -1
        with one.reader() as reader:
            for page in reader:
                part = pa.table(page.batch())["row"].to_numpy()
                assert (np.diff(part, prepend=last) > 0).all()
                last, total, keys = int(part[-1]), total + len(part), keys + int(part.sum())
                del part, page
    assert (total, keys) == (5_000_000, 5_000_000 * 4_999_999 // 2)


def test_pages_shrink_when_little_memory_is_free(store: Store) -> None:
    # With 9 MiB free, pages are smaller than the default.
    with store.reserve(LIMIT - (9 << 20)):
        sets = shuffle(store, rows(600_000), "key", 4)
        assert sum(info.rows for one in sets for info in one.pages()) == 600_000
    assert [part["row"].to_pylist() for part in tables(sets)] == parts_of(rows(600_000), 4)


def test_a_writer_refuses_rows_after_it_ran_out_of_memory(store: Store) -> None:
    sets = [store.create_set() for _ in range(2)]
    writer = ShuffleWriter(sets, "key")
    with store.reserve(LIMIT - 4096):
        writer.write(rows(10))
        with pytest.raises(MemoryError, match="do not fit"):
            writer.write(rows(100_000))
    with pytest.raises(ValueError, match="takes no rows"):
        writer.write(rows(1))


def test_an_error_in_the_block_discards_unsealed_rows(store: Store) -> None:
    sets = [store.create_set()]
    writer = ShuffleWriter(sets, "key")

    def fail() -> None:
        with writer:
            writer.write(rows(10))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(sets[0]) == 0
    with pytest.raises(ValueError, match="abandoned"):
        writer.write(rows(1))


def test_errors_of_invalid_arguments(store: Store) -> None:
    with pytest.raises(KeyError, match=r'no column is named "nope"; there are .*"key", "row"'):
        shuffle(store, rows(10), "nope", 2)
    with pytest.raises(IndexError, match="column 9 of 4"):
        shuffle(store, rows(10), 9, 2)
    with pytest.raises(ValueError, match="keys must name at least one column"):
        shuffle(store, rows(10), [], 2)
    with pytest.raises(ValueError, match="partitions must be from 1 to 65536, got 0"):
        shuffle(store, rows(10), "key", 0)
    with pytest.raises(ValueError, match="3 ranges, but there are 2 partitions"):
        shuffle(store, rows(10), "key", 2, kind="range", boundaries={"key": [1, 2]})
    with pytest.raises(ValueError, match="boundaries"):
        shuffle(store, rows(10), "key", 2, kind="range")
    with pytest.raises(TypeError, match=r"expected a table.*got int"):
        shuffle(store, 7, "key", 2)
    with ShuffleWriter([store.create_set()], 0) as writer:
        writer.write(rows(10))
        with pytest.raises(ValueError, match=r"expected the columns .*key: Int64.* got .*other: Int64"):
            writer.write({"other": [1]})
    with pytest.raises(ValueError, match="finished"):
        writer.write(rows(1))
    dropped = store.create_set()
    dropped.drop()
    with pytest.raises(KeyError, match="no set"):
        ShuffleWriter([dropped], "key")


@pytest.mark.parametrize("rows", [10, 5_000, 400_000])
@pytest.mark.parametrize("kind", ["dict", "frame", "series"])
@pytest.mark.parametrize("stream", [False, True])
def test_rows_do_not_change_after_they_were_written(rows: int, kind: str, stream: bool) -> None:
    """Arrays and frames that a program fills again for each part."""
    keys, values = np.zeros(rows, np.int64), np.zeros(rows)
    table: Any = {"k": keys, "x": values}
    if kind == "frame":
        table = pd.DataFrame({"k": keys, "x": values}, copy=False)
    elif kind == "series":
        table = {"k": pd.Series(keys, copy=False), "x": pd.Series(values, copy=False)}

    def parts() -> Iterator[Any]:
        for number in range(5):
            keys[:] = values[:] = number
            if kind == "frame":
                table.loc[:, "k"], table.loc[:, "x"] = number, float(number)
            yield table
        keys[:] = values[:] = -1

    with Store.open(memory_limit=256 << 20) as store:
        if stream:
            sets = shuffle(store, parts(), "k", 2)
        else:
            sets = [store.create_set() for _ in range(2)]
            with ShuffleWriter(sets, ["k"]) as writer:
                for part in parts():
                    writer.write(part)
        found = pa.concat_tables([part.to_arrow() for part in sets if len(part)])
        assert found["k"].value_counts().to_pylist() == [
            {"values": each["values"], "counts": rows} for each in found["k"].value_counts().to_pylist()
        ]
        assert sorted(found["k"].unique().to_pylist()) == [0, 1, 2, 3, 4]
        assert (found["x"].to_numpy() == found["k"].to_numpy()).all()
