"""The Python binding of `crates/shuffle`: partitions of pyarrow, Polars and pandas tables, compared with NumPy."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craton import _native

ROWS = 5_000


def table(rows: int = ROWS) -> pa.Table:
    """Return columns of common types, with nulls, in three chunks of uneven length."""
    generator = np.random.default_rng(7)
    missing = generator.random(rows) < 0.1
    words = np.array(["", "a", "twelve bytes", "thirteen byte", "a text that no view holds itself " * 3])
    whole = pa.table(
        {
            "row": np.arange(rows),
            "key": generator.integers(0, 500, rows),
            "float": pa.array(generator.random(rows), mask=missing),
            "flag": pa.array(generator.random(rows) < 0.5, mask=missing),
            "text": pa.array(words[generator.integers(0, 5, rows)], mask=missing),
            "day": pa.array(np.datetime64("2020-01-01", "us") + generator.integers(0, 10**6, rows), mask=missing),
            "list": pa.array([[1, 2, 3][: row % 4] if row % 7 else None for row in range(rows)]),
            "category": pa.array(words[generator.integers(0, 4, rows)], mask=missing).dictionary_encode(),
        }
    )
    return pa.concat_tables([whole.slice(0, rows // 3), whole.slice(rows // 3, 1), whole.slice(rows // 3 + 1)])


def hashes(data: Any, keys: list[int | str] | None = None, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return pa.array(_native.hash_rows(data, keys, seed=seed)).to_numpy()


def places(values: np.ndarray[Any, np.dtype[np.uint64]], n: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.array([int(value) * n >> 64 for value in values], dtype=np.uint32)


def check(data: pa.Table, parts: list[_native.Partition], numbers: np.ndarray[Any, Any]) -> None:
    assert sum(len(part) for part in parts) == data.num_rows
    for number, part in enumerate(parts):
        found = pa.table(part)
        found.validate(full=True)
        expected = data.take(np.flatnonzero(numbers == number))
        assert len(part) == expected.num_rows
        assert found.schema.equals(expected.schema)
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("n", [1, 3, 64])
@pytest.mark.parametrize("keys", [["key"], ["text", "float"], [-1, 1], ["list"]])
def test_rows_go_to_the_partition_of_their_hash(n: int, keys: list[int | str]) -> None:
    data = table()
    check(data, _native.partition(data, keys, n, seed=3), places(hashes(data, keys, 3), n))


def test_thousands_of_partitions() -> None:
    data = table()
    parts = [pa.table(part) for part in _native.partition(data, ["row"], 4096)]
    numbers = places(hashes(data, ["row"]), 4096)
    assert [part.num_rows for part in parts] == np.bincount(numbers, minlength=4096).tolist()
    assert pa.concat_tables(parts).to_pylist() == data.take(np.argsort(numbers, kind="stable")).to_pylist()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_numbers(threads: int) -> None:
    data = table()
    numbers = np.random.default_rng(1).integers(0, 17, ROWS).astype(np.uint32)
    check(data, _native.partition_by_numbers(data, numbers, 20, threads=threads), numbers)


def test_slices_and_record_batches() -> None:
    data = table().slice(777, 3000)
    check(data, _native.partition(data, ["row"], 5), places(hashes(data, ["row"]), 5))
    batch = data.combine_chunks().to_batches()[0].slice(11, 500)
    given = pa.Table.from_batches([batch])
    check(given, _native.partition(batch, ["row"], 5), places(hashes(batch, ["row"]), 5))


def test_no_rows() -> None:
    for data in (table().slice(0, 0), table().schema.empty_table()):
        parts = _native.partition(data, ["key"], 3)
        assert [len(part) for part in parts] == [0, 0, 0]
        assert pa.table(parts[2]).schema.equals(data.schema)
        assert len(_native.hash_rows(data)) == 0


def test_polars_round_trip() -> None:
    df = pl.from_arrow(table().drop_columns(["list"]))
    assert isinstance(df, pl.DataFrame)
    parts = _native.partition(df, ["key", "text"], 8)
    back = pl.concat([pl.DataFrame(part) for part in parts])
    assert back.sort("row").equals(df)
    numbers = places(hashes(df, ["key", "text"]), 8)
    assert [pl.DataFrame(part)["row"].to_list() for part in parts] == [
        np.flatnonzero(numbers == number).tolist() for number in range(8)
    ]


def test_pandas_round_trip() -> None:
    df = table().drop_columns(["list"]).to_pandas()
    parts = _native.partition(df, ["key"], 8)
    back = pd.concat([pa.table(part).to_pandas() for part in parts]).sort_values("row", ignore_index=True)
    pd.testing.assert_frame_equal(back, df)


def test_the_hash_depends_on_values_not_on_their_representation() -> None:
    numbers: list[Any] = [1, 2, None, 2**53]
    text: list[Any] = ["a", None, "a text that no view holds itself", ""]
    forms = [
        pa.table({"n": pa.array(numbers, pa.int64()), "t": pa.array(text)}),
        pa.table({"n": pa.array(numbers, pa.uint64()), "t": pa.array(text, pa.string_view())}),
        pa.table({"n": pa.array(numbers, pa.float64()), "t": pa.array(text).dictionary_encode()}),
        pl.DataFrame({"n": numbers, "t": pl.Series(text, dtype=pl.Categorical)}),
    ]
    assert len({tuple(hashes(form)) for form in forms}) == 1
    assert hashes(forms[0], ["n"])[0] == 0x2FBC593564DB792E
    moment = datetime.datetime(2024, 5, 1, 12)
    units = [pa.table({"t": pa.array([moment], pa.timestamp(unit))}) for unit in ("s", "ms", "us", "ns")]
    assert len({int(hashes(unit)[0]) for unit in units}) == 1


ORDERS = [(descending, first) for descending in (False, True) for first in (False, True)]


@pytest.mark.parametrize(("descending", "first"), ORDERS)
def test_ranges_in_order_are_a_sort(descending: bool, first: bool) -> None:
    data = table().select(["float", "text", "row"])
    position = "first" if first else "last"
    pandas = data.to_pandas()
    expected = pandas.sort_values("float", ascending=not descending, na_position=position, kind="stable")
    bounds = expected["float"].dropna().iloc[[500, 1000, 1000, 4000]]
    boundaries = pa.table({"float": pa.array(bounds, from_pandas=True)})
    parts = _native.partition_by_ranges(
        data, ["float"], boundaries, descending=[descending], nulls_first=[first], threads=2
    )
    assert len(parts) == 5
    found = [pa.table(part).to_pandas() for part in parts]
    assert all(part["row"].is_monotonic_increasing for part in found)
    each = [part.sort_values("float", ascending=not descending, na_position=position, kind="stable") for part in found]
    assert pd.concat(each)["row"].tolist() == expected["row"].tolist()


def test_partitions_outlive_their_input() -> None:
    data = table()
    expected = data.take(np.flatnonzero(places(hashes(data, ["key"]), 2) == 1))
    part = _native.partition(table(), ["key"], 2)[1]
    assert part.nbytes > 0
    column = pa.table(part)["text"]
    del part
    assert column.to_pylist() == expected["text"].to_pylist()


def test_threads_partition_concurrently() -> None:
    data = table()
    expected = [pa.table(part) for part in _native.partition(data, ["key"], 16)]
    seen: list[bool] = []

    def work() -> None:
        parts = _native.partition(data, ["key"], 16)
        seen.append(all(pa.table(part).equals(wanted) for part, wanted in zip(parts, expected, strict=True)))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [True] * 4


REFUSALS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: _native.partition(table(9), ["nope"], 2), KeyError, "no column is named"),
    (lambda: _native.partition(table(9), [99], 2), IndexError, "column 99 of 8"),
    (lambda: _native.partition(table(9), [], 2), ValueError, "no key columns"),
    (lambda: _native.partition(table(9), ["key"], 0), ValueError, "1 to 65536"),
    (lambda: _native.partition([1], ["key"], 2), TypeError, "expected Arrow data .*, got list"),  # type: ignore[arg-type]
    (lambda: _native.partition_by_numbers(table(9), np.zeros(8, np.uint32), 2), ValueError, "8 partition numbers"),
    (lambda: _native.partition_by_numbers(table(9), np.full(9, 2, np.uint32), 2), ValueError, "row 0 .* 2"),
    (lambda: _native.partition_by_ranges(table(9), ["list"], table(1).select(["list"])), TypeError, "ordering"),
    (
        lambda: _native.partition_by_ranges(table(9), ["row"], pa.table({"row": [3, 1]})),
        ValueError,
        "boundary 1 comes before boundary 0",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS)
def test_refusals(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
