"""The rewrite rules: shapes of the plans that they return, and equal results."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from plans import FRAME, OTHER, col, compare, scan, total

from craton.errors import PlanError
from craton.lower import lower
from craton.lower.tiled.planner import RULES
from craton.plan.explain import describe
from craton.plan.expr import Call, Column, Literal, WindowCall, conjunction
from craton.plan.memory import held_bytes
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Attach,
    Distinct,
    Explode,
    Filter,
    Join,
    Operator,
    Project,
    RowNumber,
    Scan,
    Slice,
    Sort,
    SortKey,
    Union,
    Unpivot,
    Window,
    schema,
)
from craton.plan.order import observed_order
from craton.plan.rules.fuse import fuse
from craton.plan.rules.prune import needed_columns, prune_columns
from craton.plan.rules.pushdown import push_predicates
from craton.plan.size import estimated_rows
from craton.plan.sources import MemorySource
from craton.plan.stages import STAGES, optimize
from craton.plan.visit import topological


def _digits(op: Operator) -> Call:
    text = Call("cast", (col(op, "p"),), pl.String())
    return Call("str_find_all", (text,), pl.List(pl.String()), (("pattern", "[0-9]"),))


def every_operator() -> dict[str, Operator]:
    """One plan for each operator class, with that operator as the root."""
    left, right = scan(), scan(OTHER)
    return {
        "Scan": left,
        "Project": Project(left, (("a", col(left, "x")), ("b", Literal(1, pl.Int64())))),
        "Filter": Filter(left, compare(left, "p", "gt", 5)),
        "RowNumber": RowNumber(left, "row"),
        "Attach": Attach(left, MemorySource.of(pl.DataFrame({"m": [1.5, 2.5, 3.5, 4.5]})), ("m",)),
        "Join": Join(left, right, "left", (col(left, "k"),), (col(right, "rk"),)),
        "Aggregate": Aggregate(left, (("k", col(left, "k")),), (("s", total(left, "x")),)),
        "Sort": Sort(left, (SortKey(col(left, "k")),)),
        "Slice": Slice(left, 1, 2),
        "Distinct": Distinct(left, ("k",), "first"),
        "Union": Union((left, left)),
        "Window": Window(left, (("c", WindowCall("cum_sum", (col(left, "p"),), pl.Int64())),)),
        "Explode": Explode(Project(left, (("k", col(left, "k")), ("l", _digits(left)))), "l"),
        "Unpivot": Unpivot(left, ("q",), ("k", "p"), "variable", "value"),
    }


def operator_classes() -> set[str]:
    """Every concrete operator that the plan module defines."""
    module = importlib.import_module("craton.plan.operators")
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Operator) and value is not Operator
    }


def test_the_samples_cover_every_operator():
    assert set(every_operator()) == operator_classes()


@pytest.mark.parametrize("name", sorted(every_operator()))
def test_every_pass_handles_every_operator(name):
    plan = every_operator()[name]
    assert plan in observed_order(plan)
    assert plan in needed_columns(plan)
    assert estimated_rows(plan) >= 0
    assert held_bytes(plan) >= 0
    assert type(plan) in RULES  # of tiles
    assert describe(plan) == (name, plan.detail)
    expected = lower(plan).collect()
    assert list(expected.schema.items()) == list(schema(plan).items())
    for stage, _ in STAGES:
        got = lower(optimize(plan, stage)).collect(engine="streaming")
        assert got.equals(expected), stage


class NewOperator(Operator):
    """An operator that no pass supports."""

    __slots__ = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", b"0" * 16)


@pytest.mark.parametrize("run", [schema, estimated_rows, lambda op: lower(op).collect()])
def test_passes_refuse_an_unsupported_operator(run):
    with pytest.raises((PlanError, NotImplementedError)):
        run(NewOperator())


def test_pruning_reaches_the_scan():
    base = scan()
    kept = Filter(base, compare(base, "p", "gt", 5))
    plan = Aggregate(kept, (("k", col(kept, "k")),), (("s", total(kept, "x")),))
    (leaf,) = [op for op in topological(prune_columns(plan)) if isinstance(op, Scan)]
    assert leaf.columns == ("k", "x", "p")


def test_an_unused_row_number_is_removed():
    base = RowNumber(scan(), "row")
    plan = Project(base, (("k", col(base, "k")),))
    assert not any(isinstance(op, RowNumber) for op in topological(prune_columns(plan)))


def test_a_shared_input_keeps_the_columns_of_all_readers():
    base = scan()
    shared = Distinct(base, ("k",), "first")
    one = Project(shared, (("k", col(shared, "k")), ("v", col(shared, "x"))))
    two = Project(shared, (("k2", col(shared, "k")), ("w", col(shared, "p"))))
    plan = prune_columns(Join(one, two, "inner", (col(one, "k"),), (col(two, "k2"),)))
    assert sum(isinstance(op, Distinct) for op in topological(plan)) == 1


def test_conjuncts_are_pushed_to_their_sides_of_a_join():
    left, right = scan(), scan(OTHER)
    join = Join(left, right, "inner", (col(left, "k"),), (col(right, "rk"),))
    plan = Filter(join, conjunction([compare(join, "p", "gt", 5), compare(join, "y", "lt", 30)]))
    pushed = push_predicates(plan)
    assert isinstance(pushed, Join)
    assert [op.predicate is not None for op in topological(pushed) if isinstance(op, Scan)] == [True, True]
    assert lower(pushed).collect().equals(lower(plan).collect())


@pytest.mark.parametrize(("how", "side"), [("left", "y"), ("right", "p"), ("outer", "p"), ("outer", "y")])
def test_a_predicate_stays_above_the_null_extended_side_of_a_join(how, side):
    left, right = scan(), scan(OTHER)
    join = Join(left, right, how, (col(left, "k"),), (col(right, "rk"),))
    plan = Filter(join, compare(join, side, "gt", 5))
    pushed = push_predicates(plan)
    assert isinstance(pushed, Filter)
    assert lower(pushed).collect().equals(lower(plan).collect())


def test_a_predicate_stays_above_a_slice_and_a_window():
    base = scan()
    head = Slice(base, 0, 2)
    assert isinstance(push_predicates(Filter(head, compare(head, "p", "gt", 5))), Filter)
    window = Window(base, (("c", WindowCall("cum_sum", (col(base, "p"),), pl.Int64())),))
    assert isinstance(push_predicates(Filter(window, compare(window, "p", "gt", 5))), Filter)


def test_a_predicate_on_keys_is_pushed_below_an_aggregate():
    base = scan()
    plan = Aggregate(base, (("key", col(base, "k")),), (("s", total(base, "x")),))
    pushed = push_predicates(Filter(plan, compare(plan, "key", "gt", 1)))
    assert isinstance(pushed, Aggregate)
    on_value = push_predicates(Filter(plan, compare(plan, "s", "gt", 1.0)))
    assert isinstance(on_value, Filter)


def test_a_shared_operator_is_not_run_twice_for_a_predicate():
    base = scan()
    shared = Aggregate(base, (("k", col(base, "k")),), (("s", total(base, "x")),))
    renamed = Project(shared, (("rk", col(shared, "k")), ("rs", col(shared, "s"))))
    filtered = Filter(shared, compare(shared, "k", "gt", 1))
    plan = push_predicates(Join(filtered, renamed, "inner", (col(filtered, "k"),), (col(renamed, "rk"),)))
    assert sum(isinstance(op, Aggregate) for op in topological(plan)) == 1


def test_adjacent_projections_are_fused():
    base = scan()
    inner = Project(base, (("a", Call("mul", (col(base, "x"), Literal(2.0, pl.Float64())), pl.Float64())),))
    outer = Project(inner, (("b", Call("add", (col(inner, "a"), Literal(1.0, pl.Float64())), pl.Float64())),))
    fused = fuse(outer)
    assert isinstance(fused, Project)
    assert fused.input is base
    assert lower(fused).collect().equals(lower(outer).collect())


def test_an_expression_is_not_computed_twice_by_fusing():
    base = scan()
    inner = Project(base, (("a", Call("mul", (col(base, "x"), Literal(2.0, pl.Float64())), pl.Float64())),))
    outer = Project(inner, (("b", col(inner, "a")), ("c", col(inner, "a"))))
    assert isinstance(fuse(outer).inputs[0], Project)


def test_a_scan_numbers_its_own_rows():
    plan = fuse(RowNumber(scan(), "row"))
    assert isinstance(plan, Scan)
    assert plan.row_number == "row"


def test_order_is_not_observed_below_a_sorted_aggregate():
    left, right = scan(), scan(OTHER)
    join = Join(left, right, "inner", (col(left, "k"),), (col(right, "rk"),))
    plan = Aggregate(join, (("k", col(join, "k")),), (("s", total(join, "x")),), sort=True)
    assert observed_order(plan)[join] is False
    assert observed_order(join)[left] is True


def test_order_is_observed_by_first_and_unsorted_groups():
    base = scan()
    unsorted = Aggregate(base, (("k", col(base, "k")),), (("s", total(base, "x")),), sort=False)
    assert observed_order(unsorted)[base] is True
    assert lower(unsorted).collect()["k"].to_list() == [2, 1, 3]


def test_unknown_stages_are_refused():
    with pytest.raises(ValueError, match="unknown stage 'nope'; it must be one of"):
        optimize(scan(), "nope")


def test_operators_validate_their_fields():
    base = scan()
    with pytest.raises(PlanError, match="unique"):
        Project(base, (("a", col(base, "x")), ("a", col(base, "p"))))
    with pytest.raises(PlanError, match="reads"):
        Filter(base, Call("is_null", (Column("nope", pl.Int64()),), pl.Boolean()))
    with pytest.raises(PlanError, match="boolean"):
        Filter(base, col(base, "x"))
    with pytest.raises(PlanError, match="must have one schema"):
        Union((scan(), scan(OTHER)))
    with pytest.raises(PlanError, match="unknown function"):
        Call("nope", (), pl.Int64())
    with pytest.raises(PlanError, match="not row-wise"):
        Call("sum", (col(base, "x"),), pl.Float64())


def test_rows_are_those_of_the_sources():
    assert FRAME.height == estimated_rows(scan())


@pytest.mark.parametrize("value", [4.0, float("nan")])
def test_nan_is_converted_only_where_there_is_one(value):
    base = scan(pl.DataFrame({"k": [1, 1, 2], "x": [1.0, None, value]}))
    number = Call("fill_nan", (col(base, "x"), Literal(None, pl.Float64())), pl.Float64())
    groups = Aggregate(base, (("k", col(base, "k")),), (("s", AggregateCall("sum", (number,), pl.Float64())),))
    for plan in (groups, Project(base, (("y", number),))):
        made = optimize(plan)
        kept = any(isinstance(expr, Column) and expr.name == "x" for part in made.expressions for expr in part)
        assert kept == (value == value)
        assert lower(made).collect().equals(lower(plan).collect())
