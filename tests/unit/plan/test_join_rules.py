"""Rules for joins with group-bys: shapes of plans, and equal results."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from plans import col, compare, scan

from craton.lower import lower
from craton.plan.expr import Call, Expr, Literal
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, Operator, Project, Scan
from craton.plan.rules import semi_join_reduction
from craton.plan.rules.distinct_counts import compare_distinct_counts
from craton.plan.rules.semi_join_merging import merge_semi_joins
from craton.plan.rules.semi_join_reduction import delay_semi_joins, restrict_groups
from craton.plan.visit import topological

ITEMS = pl.DataFrame(
    {"k": [1, 1, 2, 2, 3, 4, 5, None], "s": [1, 2, 3, 3, None, 4, 5, 6], "v": [1.0, 2, 3, 4, 5, 6, 7, 8]}
)
PARTS = pl.DataFrame({"pk": [1, 3, 2, 5, 1], "size": [1, 2, 9, 3, 4]})


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr(semi_join_reduction, "LARGE_ROWS", 2)
    monkeypatch.setattr(semi_join_reduction, "SMALL_SHARE", 1.0)


def rows(plan: Operator) -> list[tuple]:
    return lower(plan).collect(engine="streaming").rows()


def counts(function: str = "gt", value: int = 1, read: str = "k") -> Operator:
    items = scan(ITEMS)
    call = AggregateCall("n_unique", (col(items, "s"),), pl.Int64())
    groups = Aggregate(items, (("k", col(items, "k")),), (("n", call),))
    chosen = Filter(groups, Call(function, (col(groups, "n"), Literal(value, pl.Int64())), pl.Boolean()))
    return Project(chosen, ((read, col(chosen, read)),))


@pytest.mark.parametrize(("function", "value"), [("gt", 1), ("ge", 2), ("eq", 1)])
def test_distinct_counts_compared_with_one_are_replaced(function, value):
    plan = counts(function, value)
    changed = compare_distinct_counts(plan)
    (groups,) = [op for op in topological(changed) if isinstance(op, Aggregate)]
    assert [call.function for _, call in groups.aggregates] == ["min", "max"]
    assert rows(changed) == rows(plan)


@pytest.mark.parametrize(
    ("function", "value", "read"), [("gt", 2, "k"), ("ne", 1, "k"), ("lt", 1, "k"), ("gt", 1, "n")]
)
def test_a_count_that_is_read_is_unchanged(function, value, read):
    plan = counts(function, value, read)
    assert compare_distinct_counts(plan) == plan


def membership(how: str) -> Join:
    """Items whose key is among the keys of groups, joined with some parts."""
    items, other = scan(ITEMS), scan(ITEMS)
    groups = Aggregate(other, (("g", col(other, "k")),), ())
    group_keys = Join(items, groups, how, (col(items, "k"),), (col(groups, "g"),))
    parts = scan(PARTS)
    chosen = Filter(parts, compare(parts, "size", "lt", 5))
    return Join(group_keys, chosen, "inner", (col(group_keys, "k"),), (col(chosen, "pk"),))


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_selective_joins_run_before_semi_joins(how):
    plan = membership(how)
    changed = delay_semi_joins(plan)
    assert isinstance(changed, Join)
    assert changed.how == how
    assert rows(changed) == rows(plan)


def test_a_semi_join_below_an_unfiltered_join_is_unchanged():
    items, other = scan(ITEMS), scan(ITEMS)
    groups = Aggregate(other, (("g", col(other, "k")),), ())
    group_keys = Join(items, groups, "semi", (col(items, "k"),), (col(groups, "g"),))
    parts = scan(PARTS)
    plan = Join(group_keys, parts, "inner", (col(group_keys, "k"),), (col(parts, "pk"),))
    assert delay_semi_joins(plan) == plan


def grouped_side(how: str, keys: tuple[str, ...] = ("k",)) -> Join:
    parts, items = scan(PARTS), scan(ITEMS)
    chosen = Filter(parts, compare(parts, "size", "lt", 5))  # an estimated share of 0.4
    total = AggregateCall("sum", (col(items, "v"),), pl.Float64())
    groups = Aggregate(items, tuple((f"g{name}", col(items, name)) for name in keys), (("total", total),))
    large = Filter(groups, compare(groups, "total", "gt", 1.0))
    return Join(chosen, large, how, (col(chosen, "pk"),), (col(large, "gk"),))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("keys", [("k",), ("k", "s")])
def test_groups_are_restricted_to_the_keys_of_the_other_side(how, keys):
    plan = grouped_side(how, keys)
    changed = restrict_groups(plan)
    (groups,) = [op for op in topological(changed) if isinstance(op, Aggregate)]
    assert isinstance(groups.input, Join)
    assert groups.input.how == "semi"
    assert rows(changed) == rows(plan)


@pytest.mark.parametrize("how", ["right", "outer"])
def test_groups_kept_by_an_outer_join_are_not_restricted(how):
    plan = grouped_side(how)
    assert restrict_groups(plan) == plan


def test_a_large_side_does_not_restrict_groups(monkeypatch):
    monkeypatch.setattr(semi_join_reduction, "SMALL_SHARE", 0.01)
    plan = grouped_side("inner")
    assert restrict_groups(plan) == plan


def test_a_group_by_with_another_reader_is_not_restricted():
    plan = grouped_side("inner")
    groups = plan.right
    both = Join(
        Project(plan, (("a", col(plan, "pk")),)),
        Project(groups, (("b", col(groups, "gk")),)),
        "inner",
        (col(Project(plan, (("a", col(plan, "pk")),)), "a"),),
        (col(Project(groups, (("b", col(groups, "gk")),)), "b"),),
    )
    changed = restrict_groups(both)
    assert sum(isinstance(op, Aggregate) for op in topological(changed)) == 1
    assert not any(isinstance(op, Join) and op.how == "semi" for op in topological(changed))
    assert isinstance(topological(both)[-1], Scan)


def test_an_unfiltered_side_does_not_restrict_groups():
    parts, items = scan(PARTS), scan(ITEMS)
    groups = Aggregate(items, (("g", col(items, "k")),), ())
    plan = Join(parts, groups, "inner", (col(parts, "pk"),), (col(groups, "g"),))
    assert restrict_groups(plan) == plan


def group_keys(source: pl.DataFrame | Scan, condition: Expr | None, function: str, test: str, value: int) -> Project:
    """The keys of groups of items that pass a test."""
    items = replace(source, predicate=condition) if isinstance(source, Scan) else scan(source)
    dtype = pl.Float64() if function == "mean" else pl.Int64()
    call = AggregateCall(function, () if function == "len" else (col(items, "s"),), dtype)
    groups = Aggregate(items, (("k", col(items, "k")),), (("x", call),))
    chosen = Filter(groups, Call(test, (col(groups, "x"), Literal(value, dtype)), pl.Boolean()))
    return Project(chosen, (("value", col(chosen, "k")),))


@pytest.mark.parametrize("function", ["min", "max", "sum", "count", "mean"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("test", ["ge", "lt", "ne"])
def test_semi_joins_with_groups_of_the_same_rows_are_merged(function, swapped, test):
    items = scan(ITEMS)
    late = compare(items, "v", "gt", 2.5)
    rights = [group_keys(items, None, "count", "ge", 1), group_keys(items, late, function, test, 3)]
    plan: Operator = scan(PARTS)
    for right in rights[::-1] if swapped else rights:
        plan = Join(plan, right, "semi", (col(plan, "pk"),), (col(right, "value"),), nulls_equal=True)
    changed = merge_semi_joins(plan)
    assert len([op for op in topological(changed) if isinstance(op, Aggregate)]) == 1
    assert sorted(rows(changed)) == sorted(rows(plan))


def test_semi_joins_with_counts_of_rows_are_not_merged():
    items = scan(ITEMS)
    rights = [
        group_keys(items, None, "count", "ge", 1),
        group_keys(items, compare(items, "v", "gt", 2.5), "len", "ge", 1),
    ]
    plan: Operator = scan(PARTS)
    for right in rights:
        plan = Join(plan, right, "semi", (col(plan, "pk"),), (col(right, "value"),), nulls_equal=True)
    assert merge_semi_joins(plan) == plan
