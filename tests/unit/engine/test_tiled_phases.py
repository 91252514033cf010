"""Aggregates in phases give the same results for any division into tiles, and also from partial results of single rows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from craton.lower import lower
from craton.lower.tiled.totals import combined
from craton.plan.expr import Column, options
from craton.plan.functions.strategies import phases_of, single_row_result
from craton.plan.operators import Aggregate, AggregateCall, Operator, Project, Scan, Union
from craton.plan.registry import FUNCTIONS
from craton.plan.sources import MemorySource

INT, FLOAT, BOOL, TEXT = pl.Int64(), pl.Float64(), pl.Boolean(), pl.String()

FRAME = pl.DataFrame(
    {
        "key": [1, 2, 1, None, 1, 2, 2, 3, 3, None, 4, 4],
        "x": [1.5, None, -2.0, 4.0, 0.25, math.inf, 3.0, None, None, 1.0, 2.0, -math.inf],
        "n": [3, 1, None, 4, 1, 5, 9, 2, 6, None, 5, 3],
        "flag": [True, None, False, True, None, False, False, None, None, True, True, False],
        "text": ["b", "a", None, "", "c", "a", "b", None, "z", "y", "x", "w"],
    },
    schema={"key": INT, "x": FLOAT, "n": INT, "flag": BOOL, "text": TEXT},
)


def call(function: str, *names: str, dtype: pl.DataType, **named: Any) -> AggregateCall:
    args = tuple(Column(name, FRAME.schema[name]) for name in names)
    return AggregateCall(function, args, dtype, options(**named))


CALLS = [
    call("sum", "x", dtype=FLOAT),
    call("sum", "n", dtype=INT),
    call("sum", "n", dtype=INT, min_count=2),
    call("product", "n", dtype=INT),
    call("count", "x", dtype=INT),
    call("len", dtype=INT),
    call("null_count", "text", dtype=INT),
    call("min", "x", dtype=FLOAT),
    call("max", "text", dtype=TEXT),
    call("any", "flag", dtype=BOOL),
    call("all", "flag", dtype=BOOL),
    call("mean", "n", dtype=FLOAT),
    call("exact_sum", "x", dtype=FLOAT, min_count=1),
    call("exact_mean", "x", dtype=FLOAT),
    call("exact_mean", "n", dtype=FLOAT),
    call("var", "n", dtype=FLOAT, ddof=1),
    call("std", "n", dtype=FLOAT, ddof=0),
    call("sem", "n", dtype=FLOAT, ddof=1),
    call("var", "x", dtype=FLOAT, ddof=1),
    call("first", "x", dtype=FLOAT, skip_nulls=True),
    call("first", "text", dtype=TEXT, skip_nulls=False),
    call("last", "x", dtype=FLOAT, skip_nulls=True),
    call("last", "n", dtype=INT, skip_nulls=False),
    call("label_of_min", "text", "n", dtype=TEXT),
    call("label_of_max", "text", "n", dtype=TEXT),
    call("arg_min", "n", dtype=INT),
    call("arg_max", "n", dtype=INT),
    call("arg_first", "x", dtype=INT),
    call("arg_last", "text", dtype=INT),
    call("n_unique", "text", dtype=INT),
    call("n_unique", "n", dtype=INT),
]


def scan(frame: pl.DataFrame) -> Scan:
    return Scan(MemorySource.of(frame), tuple(frame.columns))


def test_every_aggregate_with_phases_is_tested() -> None:
    assert {one.function for one in CALLS} == {name for name, record in FUNCTIONS.items() if record.phases is not None}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("lengths", [[12], [5, 7], [1, 0, 4, 6, 1], [0, 12]])
@pytest.mark.parametrize("one", CALLS, ids=repr)
def test_phases_give_the_result_of_all_rows(one: AggregateCall, lengths: list[int], keyed: bool) -> None:
    phase = phases_of(one)
    assert phase is not None
    if phase.keys and not keyed:
        pytest.skip("distinct values of all rows are counted without partial results")
    key = (("key", Column("key", INT)),) if keyed else ()
    total = Aggregate(scan(FRAME), key, (("v", one),))
    expected = lower(total).collect()

    def combine(parts: list[Operator]) -> pl.DataFrame:
        return lower(combined(total, Union(tuple(parts)), [phase], key)).collect()

    ends = list(itertools.accumulate(lengths))
    tiles = [scan(FRAME[end - length : end]) for end, length in zip(ends, lengths, strict=True) if length]
    few: list[Operator] = [Aggregate(tile, (*key, *phase.keys), phase.partial) for tile in tiles]
    assert_frame_equal(combine(few), expected)
    results = [(name, single_row_result(part)) for name, part in phase.partial]
    rows: list[Operator] = [Project(tile, (*key, *phase.keys, *results)) for tile in tiles]
    assert_frame_equal(combine(rows), expected)
    assert_frame_equal(combine([*few[:1], *rows[1:]]), expected)
