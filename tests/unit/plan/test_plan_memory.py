"""Estimates of the memory of joins, groups and sorts, and of the bytes that are read from files."""

from __future__ import annotations

import polars as pl
import pytest

from craton.plan.expr import Call, Column, Literal
from craton.plan.memory import DISTINCT_ROW, OVERHEAD, TABLE_ROW, file_bytes, held_bytes
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Operator,
    Project,
    Scan,
    Slice,
    Sort,
    SortKey,
)
from craton.plan.sources import FileSource

INT, TEXT = pl.Int64(), pl.String()
K = Column("k", INT)


def scan(rows: int, *names: str) -> Scan:
    source = FileSource(tuple((name, INT) for name in names), "parquet", (f"{rows}.parquet",), rows=rows)
    return Scan(source, names)


LARGE, SMALL = scan(1000, "k", "x"), scan(10, "j", "y")
TOTAL = Aggregate(LARGE, (("k", K),), (("x", AggregateCall("sum", (Column("x", INT),), INT)),), sort=True)


POSITIVE = Call("gt", (K, Literal(0, INT)), pl.Boolean())


def join(how: str) -> Join:
    return Join(LARGE, SMALL, how, (K,), (Column("j", INT),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "held"),
    [
        (LARGE, 0),
        (Filter(LARGE, POSITIVE), 0),
        (Slice(LARGE, 3, 5), 0),
        (Sort(LARGE, (SortKey(K),)), 1000 * 16),
        (Slice(Sort(LARGE, (SortKey(K),)), 0, 5), 0),
        (Project(Sort(LARGE, (SortKey(K),)), (("k", K),)), 1000 * 8),
    ],
)
def test_held_bytes(plan: Operator, held: int) -> None:
    assert held_bytes(plan) == OVERHEAD * held


def table(rows: int, row_bytes: int, more: int = TABLE_ROW) -> int:
    return rows * (OVERHEAD * row_bytes + more)


def test_groups_take_a_hash_table_with_their_keys() -> None:
    assert held_bytes(TOTAL) == table(250, 16)
    assert held_bytes(Project(TOTAL, (("x", Column("x", INT)),)), ordered=False) == table(250, 16)


def test_distinct_rows_take_a_hash_table_of_all_key_columns() -> None:
    distinct = Project(Distinct(LARGE, ("k", "x"), "any"), (("k", K),))
    assert held_bytes(distinct, ordered=False) == table(250, 16, DISTINCT_ROW)


@pytest.mark.parametrize("how", ["semi", "anti", "inner", "left"])
def test_joins_build_a_hash_table_of_the_smaller_side(how: str) -> None:
    assert held_bytes(Project(join(how), (("k", K),)), ordered=False) == table(10, 8) + 1000 * 8  # the keys only


def test_a_join_in_observed_order_is_sorted() -> None:
    assert held_bytes(join("inner")) == table(10, 16) + 1000 * 16 + OVERHEAD * 1000 * 32


def test_the_sampled_rows_of_a_join_side_are_limited() -> None:
    large = scan(100_000_000, "k", "x")
    plan = Project(Join(large, SMALL, "inner", (K,), (Column("j", INT),)), (("k", K),))
    assert held_bytes(plan, ordered=False) == table(10, 8) + 10_000_000 * 8


def test_a_sort_in_unobserved_order_holds_nothing() -> None:
    assert held_bytes(Sort(LARGE, (SortKey(K),)), ordered=False) == 0


def test_only_sliced_rows_are_counted() -> None:
    assert file_bytes(LARGE) == 1000 * 16
    assert file_bytes(Slice(LARGE, 900, 50)) == 50 * 16
    assert file_bytes(Filter(Slice(LARGE, 2, 10), POSITIVE)) == 10 * 16
