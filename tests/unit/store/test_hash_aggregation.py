"""Hash aggregation in a store: the groups are those of Polars and of dicts, with little memory, threads and processes; and errors."""

from __future__ import annotations

import datetime
import math
import random
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

from craton.store import HashAggregate, HashMap, Store

LIMIT = 16 << 20
SUM = {"n": ("v", "sum")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(LIMIT, directory=tmp_path) as made:
        yield made


def groups(aggregate: HashAggregate, keys: int = 1) -> dict[Any, tuple[Any, ...]]:
    """The results of each key; NaN as a key is "nan"."""
    found: dict[Any, tuple[Any, ...]] = {}
    for batch in aggregate.finish():
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            key = tuple("nan" if isinstance(part, float) and math.isnan(part) else part for part in row[:keys])
            assert key not in found
            found[key] = row[keys:]
    return found


def column(rng: random.Random, kind: str, count: int, distinct: int) -> list[Any]:
    """Random values with nulls."""
    one = {
        "int": lambda: rng.randrange(-distinct, distinct),
        "float": lambda: rng.choice([0.0, -0.0, math.nan, 0.5, *[float(rng.randrange(distinct))] * 6]),
        "text": lambda: rng.choice(
            ["", "é", "日本語のキー", "ß" * 20, *[f"key {rng.randrange(distinct)}" * rng.choice([1, 3])] * 6]
        ),
        "date": lambda: datetime.date(2026, 1, 1) + datetime.timedelta(rng.randrange(distinct)),
        "bool": lambda: rng.random() < 0.5,
    }[kind]
    return [None if rng.random() < 0.1 else one() for _ in range(count)]


TYPES = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "date": pa.date32(), "bool": pa.bool_()}


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_against_a_dict(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices(list(TYPES), k=rng.choice([1, 1, 2, 3]))
    keys = [f"k{number}" for number in range(len(kinds))]
    wanted: dict[str, Any] = {
        "rows": (None, "count"),
        "count": ("x", "count"),
        "sum": ("i", "sum"),
        "fsum": ("x", "sum"),
        "min": ("i", "min"),
        "fmin": ("x", "min"),
        "max": ("d", "max"),
        "fmax": ("x", "max"),
        "last": ("i", "last"),
    }
    aggregate = HashAggregate(store, keys, wanted, memory=rng.choice([None, 1 << 16]))
    expected: dict[Any, list[Any]] = {}
    for _ in range(rng.randrange(1, 6)):
        count = rng.choice([0, 1, 100, 3000])
        values: dict[str, list[Any]] = {
            key: column(rng, kind, count, rng.choice([3, 1000])) for key, kind in zip(keys, kinds, strict=True)
        }
        values |= {
            "i": column(rng, "int", count, 100),
            "x": column(rng, "float", count, 8),
            "d": column(rng, "date", count, 50),
        }
        types = {
            **{key: TYPES[kind] for key, kind in zip(keys, kinds, strict=True)},
            "i": pa.int64(),
            "x": pa.float64(),
            "d": pa.date32(),
        }
        aggregate.add(pa.table({name: pa.array(values[name], data_type) for name, data_type in types.items()}))
        for row in zip(*values.values(), strict=True):
            key = tuple("nan" if isinstance(part, float) and math.isnan(part) else part for part in row[: len(keys)])
            expected.setdefault(key, []).append(row[len(keys) :])

    def results(rows: list[Any]) -> tuple[Any, ...]:
        ints, floats, dates = ([value for value in part if value is not None] for part in zip(*rows, strict=True))
        plain = [value for value in floats if not math.isnan(value)] or floats
        return (
            len(rows), len(floats), sum(ints), sum(floats), min(ints, default=None), min(plain, default=None),
            max(dates, default=None), max(plain, default=None), ints[-1] if ints else None,
        )  # fmt: skip

    assert len(aggregate) == len(expected)
    found = groups(aggregate, len(keys))
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        for one, other in zip(found[key], results(rows), strict=True):
            # The values of a sum are multiples of 0.5, so their order does not matter.
            assert one == other or (math.isnan(one) and math.isnan(other)), key


@pytest.mark.parametrize("kind", ["arrow", "batch", "polars", "pandas", "dict", "set", "iterator"])
def test_data_of_every_kind(store: Store, kind: str) -> None:
    table = pa.table({"k": [f"key {number % 7}" for number in range(1000)], "v": range(1000)})
    kept = store.create_set()
    kept.append(table)
    data = {
        "arrow": table,
        "batch": table.to_batches()[0],
        "polars": pl.DataFrame(table),
        "pandas": table.to_pandas(),
        "dict": table.to_pydict(),
        "set": kept,
        "iterator": (part for part in table.to_batches(max_chunksize=77)),
    }[kind]
    sums = HashAggregate(store, "k", SUM)
    sums.add(data)
    assert groups(sums) == {(f"key {number}",): (sum(range(number, 1000, 7)),) for number in range(7)}


@pytest.mark.parametrize(
    "data_type",
    [
        pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"),
        pa.duration("ms"), pa.time64("us"), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("keys", [["k"], ["k", "other"]], ids=len)
def test_keys_of_every_type_keep_their_type(store: Store, data_type: pa.DataType, keys: list[str]) -> None:
    values = pa.array([0, 1, 1, None], pa.int8())
    if pa.types.is_time64(data_type):
        values = values.cast(pa.int64())
    elif pa.types.is_temporal(data_type):
        values = values.cast(pa.int32() if pa.types.is_date32(data_type) else pa.int64())
    elif not (pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_boolean(data_type)):
        values = pa.array(["", "text of more than 12 bytes", "text of more than 12 bytes", None])
    array = values.cast(data_type)
    table = pa.table({"k": array, "other": pa.array(["é"] * 4), "v": [1, 2, 3, 4]})
    aggregate = HashAggregate(store, keys, SUM)
    aggregate.add(table.slice(0, 0))
    aggregate.add(table.slice(1, 3))
    aggregate.add(table.slice(0, 1))
    found = aggregate.finish().read_all()
    assert found.schema.field("k").type == data_type
    rows = {(row["k"], row.get("other", "é")): row["n"] for row in found.to_pylist()}
    assert rows == {(array[0].as_py(), "é"): 1, (array[1].as_py(), "é"): 5, (None, "é"): 4}


def test_categories_are_their_values(store: Store) -> None:
    frame = pd.DataFrame({"k": pd.Categorical(["b", "a", None, "b"], ["unused", "a", "b"]), "v": [1, 2, 3, 4]})
    sums = HashAggregate(store, "k", SUM)
    sums.add(frame)
    sums.add({"k": ["a"], "v": [5]})
    assert groups(sums) == {("a",): (7,), ("b",): (5,), (None,): (3,)}


def test_values_of_every_type(store: Store) -> None:
    types = [
        pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.uint64(), pa.float32(), pa.bool_(), pa.date32(), pa.duration("s"),
        pa.timestamp("us"),
    ]  # fmt: skip
    for data_type in types:
        values = pa.array([1, None, 0], pa.int32() if pa.types.is_date32(data_type) else pa.int64()).cast(data_type)
        wanted: dict[str, Any] = {how: ("v", how) for how in ("min", "max", "last", "count")}
        if not (pa.types.is_date(data_type) or pa.types.is_timestamp(data_type)):
            wanted["sum"] = ("v", "sum")
        aggregate = HashAggregate(store, "k", wanted)
        aggregate.add(pa.table({"k": [1, 1, 1], "v": values}))
        found = aggregate.finish().read_all()
        assert [found.schema.field(how).type for how in ("min", "max", "last")] == [data_type] * 3
        first, last = values[0].as_py(), values[2].as_py()
        (row,) = found.to_pylist()
        assert (row["min"], row["max"], row["last"], row["count"]) == (min(first, last), max(first, last), last, 2)
        assert row.get("sum", first) == first


def test_three_times_the_memory(store: Store) -> None:
    count = 400_000
    numbers = np.random.default_rng(1).integers(0, count, 3 * count)
    frame = pl.DataFrame({"k": pl.Series(numbers).cast(pl.String) + " is a key of a group", "v": np.arange(3 * count)})
    aggregate = HashAggregate(store, "k", {**SUM, "low": ("v", "min"), "last": ("v", "last")})
    for part in frame.iter_slices(100_000):
        aggregate.add(part)
    assert aggregate.spilled_pages > 0
    assert store.counters()["slab_used"] <= LIMIT
    # The groups have about 25 MB, which is more than the limit of the store; each batch is a copy.
    found = pl.DataFrame(aggregate.finish().read_all()).sort("k")
    expected = frame.group_by("k").agg(n=pl.col("v").sum(), low=pl.col("v").min(), last=pl.col("v").last()).sort("k")
    assert found.equals(expected)
    aggregate.drop()
    assert store.describe().empty


def test_two_threads(store: Store) -> None:
    tables = [
        pa.table({"k": np.random.default_rng(seed).integers(0, 20_000, 50_000), "v": range(50_000)}) for seed in (1, 2)
    ]
    sums = HashAggregate(store, "k", {**SUM, "rows": (None, "count")}, memory=1 << 19)
    threads = [
        threading.Thread(
            target=lambda table: [sums.add(part) for part in table.to_batches(max_chunksize=5000)], args=(table,)
        )
        for table in tables
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = pd.concat([table.to_pandas() for table in tables]).groupby("k")["v"].agg(["sum", "count"])
    assert groups(sums) == {(key,): (int(one), int(rows)) for key, one, rows in expected.itertuples()}


PROGRAM = """
import sys
from craton.store import HashAggregate, HashMap, Store
with Store.connect(sys.argv[1]) as store:
    sums = HashAggregate(store, "k", {"n": ("v", "sum")}, memory=1 << 17)
    for start in range(0, 60_000, 10_000):
        sums.add({"k": [f"key {n % 12_345}" for n in range(start, start + 10_000)], "v": list(range(start, start + 10_000))})
    assert sums.spilled_pages > 0
    found = sums.finish().read_all()
    counts = HashMap(store, "sum")
    counts.update(found["k"], found["n"])
    print(len(counts), sum(found["n"].to_pylist()), counts["key 7"])
"""


def test_another_process_over_a_socket(store: Store) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, store.serve()], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["12345", str(sum(range(60_000))), str(sum(range(7, 60_000, 12_345)))]
    assert store.describe().empty


def test_invalid_tables_add_nothing(store: Store) -> None:
    sums = HashAggregate(store, "k", SUM)
    with pytest.raises(ValueError, match="no table was added"):
        sums.finish()
    sums.add({"k": ["a"], "v": [1]})
    with pytest.raises(KeyError, match=r"no column is named .*v.*; there are .*k"):
        sums.add({"k": ["a"]})
    with pytest.raises(ValueError, match=r"expected columns of the same types.*k: Utf8"):
        sums.add({"k": [1], "v": [1]})
    with pytest.raises(ValueError, match="expected columns of the same types"):
        sums.add({"k": ["a"], "v": [1.5]})
    with pytest.raises(ValueError, match="is too long"):
        sums.add({"k": ["a", "x" * (1 << 20)], "v": [1, 2]})
    with pytest.raises(TypeError, match="expected a table"):
        sums.add([1, 2])
    with pytest.raises(TypeError, match="cannot be a key"):
        HashAggregate(store, "k", SUM).add({"k": [[1]], "v": [1]})
    with pytest.raises(TypeError, match="has no sum"):
        HashAggregate(store, "k", SUM).add({"k": [1], "v": ["text"]})
    assert groups(sums) == {("a",): (1,)}
    with pytest.raises(ValueError, match="finished"):
        sums.add({"k": ["a"], "v": [1]})
    with pytest.raises(ValueError, match="finished"):
        sums.finish()


def test_invalid_arguments(store: Store) -> None:
    bad: Any
    for bad, error in [
        ({"n": "sum"}, TypeError),
        ({"n": ("v", "mean")}, ValueError),
        ({"n": (None, "sum")}, ValueError),
        ({"k": ("v", "sum")}, ValueError),
    ]:
        with pytest.raises(error):
            HashAggregate(store, "k", bad)
    with pytest.raises(ValueError, match="at least one column"):
        HashAggregate(store, [], SUM)
    with pytest.raises(ValueError, match="pages of"):
        HashAggregate(store, "k", SUM, memory=1 << 16, page_bytes=1 << 16).add({"k": [1], "v": [1]})
    bad = "mean"
    with pytest.raises(ValueError, match="how must be"):
        HashMap(store, bad)


def test_sums_that_overflow_are_an_error(store: Store) -> None:
    sums = HashAggregate(store, "k", SUM)
    sums.add({"k": [1, 1], "v": [2**63 - 1, -1]})
    with pytest.raises(OverflowError, match="n: a sum of integers overflows"):
        sums.add({"k": [1], "v": [2]})
    with pytest.raises(ValueError, match="failed"):
        sums.add({"k": [1], "v": [2]})
    high = HashAggregate(store, "k", {"high": ("v", "max")})
    high.add(pa.table({"k": [1], "v": pa.array([2**63 - 1], pa.uint64())}))
    with pytest.raises(OverflowError, match="high"):
        high.add(pa.table({"k": [2, 3], "v": pa.array([1, 2**63], pa.uint64())}))
    assert groups(high) == {(1,): (2**63 - 1,)}


def test_no_rows_and_no_aggregates(store: Store) -> None:
    sums = HashAggregate(store, "k", SUM)
    sums.add(pa.table({"k": pa.array([], pa.string()), "v": pa.array([], pa.float32())}))
    found = sums.finish().read_all()
    assert (found.num_rows, found.schema.types) == (0, [pa.string(), pa.float64()])
    with HashAggregate(store, ["k"], {}) as distinct:
        distinct.add({"k": [1, 2, 2, None, 1]})
        assert sorted(distinct.finish().read_all()["k"].to_pylist(), key=str) == [1, 2, None]
    assert len(HashAggregate(store, "k", SUM)) == 0


def test_groups_outlive_a_closed_store(tmp_path: Path) -> None:
    with Store.open(LIMIT, directory=tmp_path) as store:
        sums = HashAggregate(store, "k", SUM)
        sums.add({"k": range(100_000), "v": range(100_000)})
        first = next(iter(sums.finish()))
        counts = HashMap(store, "sum")
        counts.update([1], [2])
    assert first["k"].equals(first["n"])
    with pytest.raises(ValueError, match="closed"):
        HashAggregate(store, "k", SUM).add({"k": [1], "v": [1]})
    with pytest.raises(ValueError, match="closed"):
        HashMap(store).update([1], [1])


@pytest.mark.parametrize("how", ["sum", "min", "max", "last"])
@pytest.mark.parametrize("memory", [None, 1 << 15])
def test_a_map_against_a_dict(store: Store, how: Any, memory: int | None) -> None:
    rng = random.Random(how)
    combine = {"sum": lambda a, b: a + b, "min": min, "max": max, "last": lambda _, b: b}[how]
    numbers = HashMap(store, how, memory=memory)
    expected: dict[str | None, int] = {}
    for step in range(30):
        keys = column(rng, "text", rng.choice([1, 300]) if step else 300, 2000)
        match rng.randrange(4) if step else 0:
            case 0 | 1:
                values = [rng.randrange(-100, 100) for _ in keys]
                numbers.update(keys if step % 2 or step == 0 else pl.Series(keys, dtype=pl.String), np.array(values))
                for key, value in zip(keys, values, strict=True):
                    expected[key] = combine(expected[key], value) if key in expected else value
            case 2:
                assert numbers.get(keys).to_pylist() == [expected.get(key) for key in keys]
                assert numbers.contains(keys).to_pylist() == [key in expected for key in keys]
                for key in keys[:3]:
                    assert (key in numbers) == (key in expected)
                    if key in expected:
                        assert numbers[key] == expected[key]
            case 3:
                known = {key for key in keys[:50] if key in expected}
                assert numbers.discard(keys[:50]) == len(known)
                for key in known:
                    del expected[key]
        if step % 10 == 9:
            assert len(numbers) == len(expected)
            pairs = [
                row
                for batch in numbers
                for row in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
            ]
            assert len(pairs) == len(expected)
            assert dict(pairs) == expected


def test_a_map_is_used_like_a_dict(store: Store) -> None:
    with HashMap(store, "sum") as counts:
        assert (len(counts), list(counts), 1 in counts, counts.get([1]).to_pylist()) == (0, [], False, [None])
        counts.update([], [])
        counts.update(pd.Series([3, 3, 4]), 0.5)
        assert (counts[3], counts[4], 5 in counts, "3" in counts, 3.5 in counts) == (1.0, 0.5, False, False, False)
        del counts[3]
        for missing in (3, "text"):
            with pytest.raises(KeyError):
                counts[missing]
            with pytest.raises(KeyError):
                del counts[missing]
        with pytest.raises(ValueError, match="expected as many values as keys, got 1 values for 2 keys"):
            counts.update([1, 2], [1.0])
        with pytest.raises(TypeError, match="expected keys of type int64"):
            counts.update(["text"], [1.0])
        with pytest.raises(TypeError, match="expected values of type double"):
            counts.update([1], ["text"])
        with pytest.raises(TypeError, match="expected keys"):
            counts.get(["text"])
        counts.update(np.array([4], np.int32), [None])
        assert [batch.to_pydict() for batch in counts] == [{"key": [4], "value": [0.5]}]
        counts.drop()
        counts.update(["text"], [1])
        assert counts["text"] == 1
