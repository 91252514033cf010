"""Join maps: pairs of rows are those of pandas' merge, for keys of every type, with little memory, threads and processes; and errors."""

from __future__ import annotations

import datetime
import math
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
import polars as pl
import pyarrow as pa
import pytest

from craton.store import BroadcastMap, JoinMap, Store, shuffle

LIMIT = 16 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(LIMIT, directory=tmp_path) as made:
        yield made


# ---- the expected pairs ----


def canonical(value: Any) -> Any:
    """Equal for values that match: a number, or a value and its class."""
    if value is None:
        return None
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    return value


def pairs(ours: list[list[Any]], theirs: list[list[Any]]) -> list[tuple[int, int]]:
    """Pairs of matching rows of two lists of columns."""
    rows: dict[Any, list[int]] = {}
    for row, key in enumerate(zip(*theirs, strict=True)):
        rows.setdefault(tuple(map(canonical, key)), []).append(row)
    return [
        (row, their)
        for row, key in enumerate(zip(*ours, strict=True))
        for their in rows.get(tuple(map(canonical, key)), [])
    ]


def found(made: JoinMap, table: Any, on: Any = None) -> list[tuple[int, int]]:
    ours, theirs = made.probe(table, on)
    assert (ours.dtype, theirs.dtype) == (np.uint32, np.uint32)
    return list(zip(ours.tolist(), theirs.tolist(), strict=True))


# ---- random tables ----


def ints(low: int, high: int) -> Any:
    return lambda rng, distinct: rng.choice(
        [low, high, *[rng.randrange(max(low, -distinct), min(high, distinct) + 1)] * 8]
    )


def a_float(rng: random.Random, distinct: int) -> float:
    return rng.choice([0.0, -0.0, math.nan, 0.5, math.inf, -math.inf, *[float(rng.randrange(distinct))] * 8])


def a_text(rng: random.Random, distinct: int) -> str:
    return rng.choice(
        ["", "é", "日本語のキー", "x" * 12, "x" * 13, *[f"key {rng.randrange(distinct)}" * rng.choice([1, 3])] * 8]
    )


def a_date(rng: random.Random, distinct: int) -> datetime.date:
    return datetime.date(1969, 12, 1) + datetime.timedelta(rng.randrange(distinct))


def an_instant(rng: random.Random, distinct: int) -> datetime.datetime:
    return datetime.datetime(1969, 12, 31) + datetime.timedelta(seconds=rng.randrange(distinct))


CATEGORY = pa.dictionary(pa.int32(), pa.string())
KINDS: dict[str, tuple[list[pa.DataType], Any]] = {
    "int8": ([pa.int8()], ints(-128, 127)),
    "uint8": ([pa.uint8()], ints(0, 255)),
    "int16": ([pa.int16()], ints(-(2**15), 2**15 - 1)),
    "uint16": ([pa.uint16()], ints(0, 2**16 - 1)),
    "int32": ([pa.int32()], ints(-(2**31), 2**31 - 1)),
    "uint32": ([pa.uint32()], ints(0, 2**32 - 1)),
    "int64": ([pa.int64()], ints(-(2**63), 2**63 - 1)),
    "uint64": ([pa.uint64()], ints(0, 2**64 - 1)),
    "float32": ([pa.float32()], a_float),
    "float64": ([pa.float64()], a_float),
    "bool": ([pa.bool_()], lambda rng, distinct: rng.random() < 0.5),
    "text": ([pa.string(), pa.large_string(), pa.string_view(), CATEGORY], a_text),
    "binary": (
        [pa.binary(), pa.large_binary(), pa.binary_view()],
        lambda rng, distinct: a_text(rng, distinct).encode(),
    ),
    "date": ([pa.date32(), pa.date64()], a_date),
    "instant": ([pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")], an_instant),
    "zoned": (
        [pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Tokyo")],
        lambda rng, distinct: an_instant(rng, distinct).replace(tzinfo=datetime.UTC),
    ),
    "time": (
        [pa.time32("s"), pa.time64("us")],
        lambda rng, distinct: datetime.time(0, rng.randrange(60), rng.randrange(60)),
    ),
    "duration": (
        [pa.duration("s"), pa.duration("us")],
        lambda rng, distinct: datetime.timedelta(seconds=rng.randrange(-distinct, distinct)),
    ),
}


def column(rng: random.Random, kind: str, count: int, distinct: int) -> list[Any]:
    share = rng.choice([0, 0.1])
    return [None if rng.random() < share else KINDS[kind][1](rng, distinct) for _ in range(count)]


def arrow(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(data_type):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, data_type)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_every_type(store: Store, kind: str) -> None:
    rng = random.Random(kind)
    theirs, ours = (column(rng, kind, count, 40) for count in (300, 200))
    for data_type in KINDS[kind][0]:
        made = JoinMap.build(store, {"k": arrow(theirs, data_type), "row": range(300)}, on="k")
        for other in KINDS[kind][0]:
            assert found(made, {"k": arrow(ours, other)}) == pairs([ours], [theirs]), (data_type, other)
            table = pa.table({"k": arrow(ours, other)})
            assert found(made, table.slice(7, 150)) == pairs([ours[7:157]], [theirs])
        assert made.table()["row"].to_pylist() == list(range(300))
    assert store.describe()["pages"].sum() == 3


@pytest.mark.parametrize("kind", [*KINDS, "several"])
def test_the_rows_are_those_of_pandas_merge(store: Store, kind: str) -> None:
    rng = random.Random(kind)
    kinds = rng.sample([name for name in KINDS if name not in ("zoned", "time")], 3) if kind == "several" else [kind]
    keys = [f"k{number}" for number in range(len(kinds))]
    sides = []
    for count, name in ((200, "left"), (300, "right")):
        columns = {
            key: arrow(column(rng, one, count, 4 if len(kinds) > 1 else 40), KINDS[one][0][1 if one == "binary" else -1])
            for key, one in zip(keys, kinds, strict=True)
        }
        sides.append(pa.table({**columns, name: range(count)}))
    left, right = sides
    made = JoinMap.build(store, right, on=keys)
    frames = [side.to_pandas(types_mapper=pd.ArrowDtype) for side in sides]
    for frame in frames:  # pandas compares the values of categories as objects
        for key in keys:
            if isinstance(frame[key].dtype.pyarrow_dtype, pa.DictionaryType):
                frame[key] = frame[key].astype(pd.ArrowDtype(pa.string()))
    if any(part in ("float32", "float64") for part in kinds):  # NaN and null differ in Arrow only
        frames = [side.to_pandas() for side in sides]
        sides = [pa.Table.from_pandas(frame) for frame in frames]
        left, made = sides[0], JoinMap.build(store, sides[1], on=keys)
    for how in ("inner", "left"):
        expected = frames[0].merge(frames[1], on=keys, how=how)
        joined = made.join(left, how)  # type: ignore[arg-type]
        assert joined.column_names == list(expected.columns)
        assert joined["left"].to_pylist() == expected["left"].tolist()
        assert joined["right"].to_pylist() == [None if pd.isna(row) else int(row) for row in expected["right"]]
    rows = set(found(made, left))
    matched = sorted({row for row, _ in rows})
    assert made.join(left, "semi").equals(left.take(matched))
    assert made.join(left, "anti")["left"].to_pylist() == [row for row in range(200) if row not in matched]


@pytest.mark.parametrize("seed", range(20))
def test_random_tables_with_little_memory(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices(list(KINDS), k=rng.choice([1, 1, 2, 3]))
    on = [f"k{number}" for number in range(len(kinds))]
    distinct = rng.choice([3, 30, 1000])
    theirs = [column(rng, kind, rng_count, distinct) for kind in kinds for rng_count in [(0, 1, 4000)[seed % 3]]]
    ours = [column(rng, kind, 1000 if seed % 5 else 0, distinct) for kind in kinds]
    with Store.open(2 << 20, directory=tmp_path) as store:
        types = [rng.choice(KINDS[kind][0]) for kind in kinds]
        columns = [arrow(values, data_type) for values, data_type in zip(theirs, types, strict=True)]
        table = pa.table([*columns, list(range(len(theirs[0])))], [*on, "row"])
        parts = iter([table.slice(start, 700) for start in range(0, max(table.num_rows, 1), 700)])
        made = JoinMap.build(store, parts, on, page_bytes=rng.choice([None, 1 << 12, 1 << 14]))
        assert (len(made), made.on, made.schema.names) == (table.num_rows, on, [*on, "row"])
        asked = pa.table([arrow(v, rng.choice(KINDS[kind][0])) for v, kind in zip(ours, kinds, strict=True)], on)
        assert found(made, asked) == pairs(ours, theirs)
        renamed = asked.rename_columns([f"other {name}" for name in on])
        assert found(made, renamed, renamed.column_names) == pairs(ours, theirs)


def test_numbers_match_exactly_whatever_their_types(store: Store) -> None:
    values = [0, 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), -1]
    made = JoinMap.build(store, {"k": pa.array(values, pa.int64())}, on="k")
    floats = [0.0, -0.0, 1.0, 1.5, 2.0**53, 2.0**63, -(2.0**63), math.nan, 1e300, 2.0**64]
    assert found(made, {"k": pa.array(floats)}) == [(0, 0), (1, 0), (2, 1), (4, 3), (6, 6)]
    assert found(made, {"k": pa.array([2**63 - 1, 2**63, 2**64 - 1], pa.uint64())}) == [(0, 5)]
    assert found(made, {"k": pa.array([-1, 1, None], pa.int8())}) == [(0, 7), (1, 1)]
    made = JoinMap.build(store, {"k": pa.array(floats)}, on="k")
    assert found(made, {"k": pa.array([2**63, 2**53, 2**53 + 1, 2**64 - 1], pa.uint64())}) == [(0, 5), (1, 4)]
    assert found(made, {"k": pa.array([1.5, math.nan, 1.0], pa.float32())}) == [(0, 3), (1, 7), (2, 2)]
    assert found(made, {"k": pa.array([1.5, 1.0, math.nan], pa.float16())}) == [(0, 3), (1, 2), (2, 7)]


def test_instants_match_whatever_their_units(store: Store) -> None:
    days = pa.array([0, -1, 2**31 - 1, None], pa.date32())
    made = JoinMap.build(store, {"k": days}, on="k")
    seconds = pa.array([86_400 * (2**31 - 1), 0, 1, -86_400, None], pa.timestamp("s"))
    assert found(made, {"k": seconds}) == [(0, 2), (1, 0), (3, 1), (4, 3)]
    with pytest.raises(TypeError, match='of the kind "instant"'):
        made.probe({"k": seconds.cast(pa.timestamp("s", "UTC"))})


def test_several_keys_do_not_run_together(store: Store) -> None:
    texts = ["", "a", "ab", "b", "\0", "\1", "a\0", "\0a", "x" * 249, "x" * 250, "x" * 300]
    both = [(one, other) for one in texts for other in [*texts, None]]
    table = pa.table({"a": [one for one, _ in both], "b": [other for _, other in both]})
    made = JoinMap.build(store, table, on=["a", "b"])
    assert found(made, table) == [(row, row) for row in range(len(both))]
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), None]
    grid = pa.table({"a": [one for one in numbers for _ in numbers], "b": numbers * len(numbers)})
    made = JoinMap.build(store, grid, on=["a", "b"])
    assert found(made, grid) == [(row, row) for row in range(grid.num_rows)]
    assert found(made, grid.select(["b", "a"]), ["b", "a"]) == found(made, grid, ["b", "a"])


@pytest.mark.parametrize("kind", ["arrow", "batch", "polars", "pandas", "dict", "set", "iterator"])
def test_data_of_every_kind(store: Store, kind: str) -> None:
    table = pa.table({"k": [f"key {number % 7}" for number in range(100)], "v": range(100)})
    kept = store.create_set()
    kept.append(table)
    data = {
        "arrow": table,
        "batch": table.to_batches()[0],
        "polars": pl.DataFrame(table),
        "pandas": table.to_pandas(),
        "dict": table.to_pydict(),
        "set": kept,
        "iterator": iter([table.slice(0, 60), table.slice(60)]),
    }[kind]
    made = JoinMap.build(store, data, on="k")
    assert len(made) == 100
    asked = {"k": ["key 3", "none", "key 0"]}
    if kind not in ("set", "iterator"):
        assert found(made, data)[:15] == [(0, 7 * row) for row in range(15)]
    assert found(made, asked) == [(0, row) for row in range(3, 100, 7)] + [(2, row) for row in range(0, 100, 7)]
    joined = made.join(asked, "left")
    assert joined["v"].to_pylist() == [*range(3, 100, 7), None, *range(0, 100, 7)]
    assert made.join(pl.DataFrame(asked), "anti").to_pydict() == {"k": ["none"]}


def test_partitions_of_a_shuffle_are_not_copied(store: Store) -> None:
    rng = np.random.default_rng(1)
    build = pa.table({"k": rng.integers(0, 5000, 40_000), "v": np.arange(40_000)})
    probe = pa.table({"k": rng.integers(0, 6000, 20_000), "w": np.arange(20_000)})
    ours, theirs = (shuffle(store, side, "k", 4) for side in (probe, build))
    total = 0
    for mine, other in zip(ours, theirs, strict=True):
        before = store.counters()
        made = JoinMap.build(store, other, on="k")
        after = store.counters()
        assert after["shared"] - before["shared"] >= 16 * len(made) - 100
        joined = made.join(mine.to_arrow())
        expected = mine.to_arrow().to_pandas().merge(other.to_arrow().to_pandas(), on="k")
        assert joined.to_pandas().equals(expected)
        total += joined.num_rows
    assert total == len(probe.to_pandas().merge(build.to_pandas(), on="k"))


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


# ---- errors ----


def test_errors_while_building(store: Store) -> None:
    table = {"k": [1, 2], "v": [1, 2]}
    with pytest.raises(ValueError, match="on must name at least one column"):
        JoinMap.build(store, table, [])
    with pytest.raises(ValueError, match="more than once"):
        JoinMap.build(store, table, ["k", "k"])
    with pytest.raises(KeyError, match="no column is named"):
        JoinMap.build(store, table, "x")
    with pytest.raises(KeyError, match="several columns are named"):
        JoinMap.build(store, pa.table([[1], [2]], ["k", "k"]), "k")
    with pytest.raises(TypeError, match="expected a table"):
        JoinMap.build(store, [1, 2], "k")
    with pytest.raises(ValueError, match="page_bytes must be greater than 0"):
        JoinMap.build(store, table, "k", page_bytes=0)
    for values in (
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.decimal128(5, 1)),
        pa.array([b"ab"], pa.binary(2)),
    ):
        with pytest.raises(TypeError, match="cannot be a key"):
            JoinMap.build(store, {"k": values}, "k")
    with pytest.raises(ValueError, match=r"expected the columns of the table before.*k: int64.*got.*k: double"):
        JoinMap.build(store, iter([{"k": [1]}, {"k": [1.5]}]), "k")
    with pytest.raises(ValueError, match="no table was given"):
        JoinMap.build(store, iter([]), "k")
    assert store.describe().empty
    made = JoinMap.build(store, table, "k", name="numbers")
    with pytest.raises(FileExistsError, match="'numbers' exists"):
        JoinMap.build(store, table, "k", name="numbers")
    assert len(store.describe()) == 1
    # A set that is no map.
    store.create_set("join:plain").append(table)
    with pytest.raises(ValueError, match="is not a join map"):
        JoinMap.open(store, "plain")
    assert found(made, table) == [(0, 0), (1, 1)]


def test_errors_while_probing(store: Store) -> None:
    made = JoinMap.build(store, {"k": [1, 2], "t": ["a", "b"], "v": [3, 4]}, ["k", "t"])
    with pytest.raises(KeyError, match="no column is named"):
        made.probe({"k": [1]})
    with pytest.raises(ValueError, match="the map has 2 key columns"):
        made.probe({"k": [1], "t": ["a"]}, on="k")
    with pytest.raises(TypeError, match='column "t" of the kind "text"'):
        made.probe({"k": [1], "t": [1]})
    with pytest.raises(TypeError, match="cannot be a key"):
        made.probe({"k": [[1]], "t": ["a"]})
    with pytest.raises(TypeError, match="expected a table"):
        made.probe([1])
    table = {"k": [2, 3], "t": ["b", "c"], "v": [0, 0]}
    with pytest.raises(ValueError, match="how must be one of"):
        made.join(table, "outer")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"both sides have columns named \['v'\]"):
        made.join(table)
    assert made.join(table, suffix="_map").to_pydict() == {"k": [2], "t": ["b"], "v": [0], "v_map": [4]}
    with pytest.raises(ValueError, match="both sides"):
        made.join({**table, "v_map": [0, 0]}, suffix="_map")
    # Null columns match nulls only.
    assert found(made, {"k": [2, None], "t": pa.nulls(2)}) == []
    nulls = JoinMap.build(store, {"k": pa.nulls(2)}, "k")
    assert found(nulls, {"k": [1, None]}) == [(1, 0), (1, 1)]


def test_tables_that_are_changed_after_a_probe(store: Store) -> None:
    keys, values = np.array([1, 2, 3]), np.array([10, 20, 30])
    made = JoinMap.build(store, {"k": keys, "v": values}, "k")
    keys[:], values[:] = 7, 7
    asked, others = np.array([3, 1]), np.array([0, 1])
    ours, theirs = made.probe({"k": asked, "w": others})
    joined = made.join({"k": asked, "w": others})
    asked[:], others[:] = 9, 9
    assert (ours.tolist(), theirs.tolist()) == ([0, 1], [2, 0])
    assert joined.to_pydict() == {"k": [3, 1], "w": [0, 1], "v": [30, 10]}


def test_maps_of_a_closed_store(tmp_path: Path) -> None:
    with Store.open(LIMIT, directory=tmp_path) as store:
        made = JoinMap.build(store, {"k": [1]}, "k")
        view = made.table()
    assert view["k"].to_pylist() == [1]
    with pytest.raises(ValueError, match="closed"):
        made.probe({"k": [1]})
