"""Random columns of keys of every type, and the pairs of their rows that match."""

from __future__ import annotations

import datetime
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa

from craton.store import JoinMap


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
