"""Rules that group before joins and join filtered tables first: shapes of plans, and equal results."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from plans import col, scan

from craton.lower import lower
from craton.plan.expr import Call, Column, Expr, Literal
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, Operator, Project
from craton.plan.rules import eager
from craton.plan.rules.eager import group_before_joins, join_filtered_first
from craton.plan.visit import topological

FLOAT, INT = pl.Float64(), pl.Int64()
CALLS = [("sum", INT), ("count", INT), ("min", INT), ("max", INT)]


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch):
    monkeypatch.setattr(eager, "LARGE_ROWS", 0)
    monkeypatch.setattr(eager, "ROWS_A_PARTNER", 0)
    monkeypatch.setattr(eager, "FILTERED_SHARE", 1.0)


def table(seed: int, rows: int, keys: int, prefix: str) -> pl.DataFrame:
    """Keys of which some are null, repeated, or on one side only; values of which some are null."""
    random = np.random.default_rng(seed)
    key = [None if random.random() < 0.15 else int(random.integers(0, keys)) for _ in range(rows)]
    value = [None if random.random() < 0.2 else int(random.integers(-9, 9)) for _ in range(rows)]
    text = [None if random.random() < 0.2 else "abc"[int(random.integers(0, 3))] for _ in range(rows)]
    columns = {"k": key, "v": value, "t": text}
    schema = {"k": pl.Int64, "v": pl.Int64, "t": pl.String}
    return pl.DataFrame(columns, schema=schema).rename(lambda name: prefix + name)


def rows(plan: Operator) -> list[tuple]:
    return lower(plan).collect(engine="streaming").rows()


def grouped(how: str, seed: int, nulls_equal: bool = True, sizes: tuple[int, int] = (7, 40)) -> Aggregate:
    left, right = scan(table(seed, sizes[0], 6, "l")), scan(table(seed + 100, sizes[1], 8, "r"))
    joined = Join(left, right, how, (col(left, "lk"),), (col(right, "rk"),), nulls_equal)
    calls = tuple((name, AggregateCall(name, (col(joined, "rv"),), dtype)) for name, dtype in CALLS)
    texts = (("text", AggregateCall("max", (col(joined, "rt"),), pl.String())),)
    return Aggregate(joined, (("k", col(joined, "lk")),), (*calls, *texts))


@pytest.mark.parametrize("nulls_equal", [True, False])
@pytest.mark.parametrize("sizes", [(7, 40), (40, 7), (0, 9), (9, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_groups_before_a_join(how, sizes, nulls_equal):
    for seed in range(12):
        plan = grouped(how, seed, nulls_equal, sizes)
        changed = group_before_joins(plan)
        assert len([op for op in topological(changed) if isinstance(op, Aggregate)]) == 2
        assert rows(changed) == rows(plan)


def _with(**changes) -> Aggregate:
    plan = grouped("left", 1)
    joined = plan.input
    call = changes.pop("call", AggregateCall("sum", (col(joined, "rv"),), INT))
    keys = changes.pop("keys", ("lk",))
    how = changes.pop("how", "left")
    joined = Join(joined.left, joined.right, how, joined.left_on, joined.right_on, joined.nulls_equal)
    return Aggregate(joined, tuple((name, col(joined, name)) for name in keys), (("x", call),), **changes)


RV = Column("rv", INT)
REFUSED = {
    "a mean": {"call": AggregateCall("mean", (RV,), FLOAT)},
    "the number of rows": {"call": AggregateCall("len", (), INT)},
    "a value of the left": {"call": AggregateCall("sum", (Column("lv", INT),), INT)},
    "a value of both": {"call": AggregateCall("sum", (Call("add", (RV, Column("lv", INT)), INT),), INT)},
    "what is there where nothing is": {
        "call": AggregateCall("sum", (Call("fill_null", (RV, Literal(1, INT)), INT),), INT)
    },
    "at least so many": {"call": AggregateCall("sum", (RV,), INT, (("min_count", 2),))},
    "small floats": {"call": AggregateCall("sum", (Call("cast", (RV,), pl.Float32()),), pl.Float32())},
    "another key": {"keys": ("lk", "lt")},
    "a key of the right": {"keys": ("rk",)},
    "rows of both sides": {"how": "outer"},
    "an order of first rows": {"sort": False},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_rows_that_are_not_grouped_before_the_join(reason):
    plan = _with(**REFUSED[reason])
    assert group_before_joins(plan) == plan


def test_joins_on_floats_are_not_rewritten():
    left = scan(pl.DataFrame({"lk": [0.0, -0.0, 1.0]}))
    right = scan(pl.DataFrame({"rk": [0.0, -0.0, -0.0], "rv": [1, 2, 4]}))
    joined = Join(left, right, "inner", (col(left, "lk"),), (col(right, "rk"),))
    plan = Aggregate(joined, (("k", col(joined, "lk")),), (("x", AggregateCall("sum", (col(joined, "rv"),), INT)),))
    assert group_before_joins(plan) == plan


def chosen(seed: int, how: str, filtered: bool = True, predicate: bool = True) -> Operator:
    """Rows that are filtered by a total of their group, and then joined with the rows of the group again."""
    left, right = scan(table(seed, 9, 6, "l")), scan(table(seed + 50, 30, 8, "r"))
    total = AggregateCall("sum", (col(right, "rv"),), INT)
    groups = Aggregate(right, (("g", col(right, "rk")),), (("total", total),))
    large: Operator = groups
    if predicate:
        large = Filter(groups, Call("gt", (col(groups, "total"), Literal(0, INT)), pl.Boolean()))
    asked = Project(large, (("value", col(large, "g")),))
    kept: Operator = left
    if filtered:
        kept = Join(left, asked, "semi", (col(left, "lk"),), (col(asked, "value"),))
    joined = Join(kept, right, how, (col(left, "lk"),), (col(right, "rk"),))
    keys: tuple[tuple[str, Expr], ...] = (("k", col(joined, "lk")), ("v", col(joined, "lv")))
    calls = (("x", AggregateCall("sum", (col(joined, "rv"),), INT)),)
    again = Aggregate(joined, keys, calls)
    return again if filtered else Join(again, asked, "left", (col(again, "k"),), (col(asked, "value"),))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("predicate", [True, False])
def test_existing_groups_are_reused(how, filtered, predicate):
    for seed in range(12):
        plan = chosen(seed, how, filtered, predicate)
        changed = group_before_joins(plan)
        groups = [op for op in topological(changed) if isinstance(op, Aggregate)]
        assert len(groups) == 2, "none is made for it"
        outer = next(op for op in topological(changed) if isinstance(op, Aggregate) and isinstance(op.input, Join))
        side = outer.input.right.input
        assert isinstance(side, Filter) == (filtered and predicate), "only those that are left in the other side"
        assert rows(changed) == rows(plan)


def three(seed: int, nulls_equal: bool = True, sizes: tuple[int, int, int] = (12, 30, 5)) -> Join:
    a, b, c = (scan(table(seed + i, size, 5, name)) for i, (name, size) in enumerate(zip("abc", sizes, strict=True)))
    first = Join(a, b, "inner", (col(a, "ak"),), (col(b, "bk"),), nulls_equal)
    return Join(first, c, "inner", (col(first, "bv"),), (col(c, "cv"),), not nulls_equal)


@pytest.mark.parametrize("nulls_equal", [True, False])
@pytest.mark.parametrize("sizes", [(12, 30, 5), (30, 5, 12), (9, 0, 2), (9, 9, 0), (3, 1, 1)])
def test_a_filtered_table_is_joined_first(sizes, nulls_equal):
    for seed in range(12):
        plan = three(seed, nulls_equal, sizes)
        changed = join_filtered_first(plan)
        assert rows(changed) == rows(plan), "rows and their order"
        if sizes == (12, 30, 5):
            assert isinstance(changed, Join)
            assert isinstance(changed.right, Join)


def test_a_join_on_a_key_of_the_first_table_is_unchanged():
    plan = three(1)
    plan = Join(plan.left, plan.right, "inner", (col(plan.left, "av"),), plan.right_on)
    assert join_filtered_first(plan) == plan


def test_a_shared_join_is_unchanged():
    plan = three(1)
    both = Join(plan, plan.left, "semi", (col(plan, "ak"),), (col(plan.left, "bk"),))
    assert join_filtered_first(both) == both
