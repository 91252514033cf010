"""Every operator implements the protocol, and a plan with a window outside a Window operator cannot be built."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

sys.path.insert(0, str(Path(__file__).parent))
from plans import FRAME, OTHER, col, scan, total
from test_rules import every_operator

from craton.errors import PlanError
from craton.lower import lower
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, WindowCall
from craton.plan.names import derived_name, hidden_name, is_hidden, visible
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Operator,
    Project,
    Scan,
    Sort,
    SortKey,
    Window,
    schema,
)
from craton.plan.stages import optimize
from craton.plan.visit import topological

ROOT = Path(__file__).parents[3]
PROTOCOL = ("derive_schema", "required", "row_order", "detail")


@pytest.mark.parametrize("name", sorted(every_operator()))
class TestProtocol:
    def test_every_method_is_overridden(self, name: str) -> None:
        kind = type(every_operator()[name])
        assert not [method for method in PROTOCOL if method not in vars(kind)]

    def test_the_same_expressions_make_the_same_operator(self, name: str) -> None:
        plan = every_operator()[name]
        assert plan.with_expressions(plan.expressions, plan.inputs) == plan
        assert plan.with_inputs(plan.inputs) is plan

    def test_required_columns_exist_and_suffice(self, name: str) -> None:
        plan = every_operator()[name]
        for column in schema(plan):
            required = plan.required({column})
            assert len(required) == len(plan.inputs)
            assert all(names <= schema(child).keys() for names, child in zip(required, plan.inputs, strict=True))
            narrow = plan.narrowed({column}, plan.inputs)
            assert column in schema(narrow)
            got, expected = lower(narrow).collect(), lower(plan).collect()
            assert_frame_equal(got.select(column), expected.select(column))

    def test_order_requirements_cover_each_input(self, name: str) -> None:
        plan = every_operator()[name]
        for observed in (False, True):
            assert len(plan.needs_order(observed)) == len(plan.inputs)
        if plan.reads_order:
            assert all(plan.needs_order(False))


def running(base: Operator, *partition: Expr) -> WindowCall:
    return WindowCall("cum_sum", (col(base, "p"),), pl.Int64(), partition)


def misplaced() -> dict[str, object]:
    base, other = scan(), scan(OTHER)
    call = running(base)
    over = Call("gt", (call, Literal(1, pl.Int64())), pl.Boolean())
    return {
        "Project": lambda: Project(base, (("c", call),)),
        "Project, deep": lambda: Project(base, (("c", Call("neg", (call,), pl.Int64())),)),
        "Filter": lambda: Filter(base, over),
        "Scan": lambda: Scan(base.source, ("p",), over),
        "Aggregate": lambda: Aggregate(base, (), (("s", AggregateCall("sum", (call,), pl.Int64())),)),
        "key of an aggregate": lambda: Aggregate(base, (("k", call),), (("s", total(base, "x")),)),
        "Sort": lambda: Sort(base, (SortKey(call),)),
        "Join": lambda: Join(base, other, "inner", (call,), (col(other, "y"),)),
        "a window of a window": lambda: Window(base, (("c", WindowCall("shift", (call,), pl.Int64())),)),
        "a window over a window": lambda: Window(base, (("c", running(base, call)),)),
        "no window": lambda: Window(base, (("c", col(base, "p")),)),
        "a name twice": lambda: Window(base, (("p", call),)),
    }


@pytest.mark.parametrize("where", sorted(misplaced()))
def test_misplaced_windows_are_refused(where: str) -> None:
    with pytest.raises(PlanError):
        misplaced()[where]()  # type: ignore[operator]


def test_nested_windows_are_extracted_innermost_first() -> None:
    base = scan()
    inner = running(base)
    outer = WindowCall("mean", (inner,), pl.Float64(), (col(base, "k"),))
    plan = build.project(base, (("a", outer), ("b", inner)))
    kinds = [type(op).__name__ for op in topological(plan)]
    assert kinds == ["Project", "Window", "Window", "Scan"]
    got = lower(optimize(plan)).collect()
    sums = FRAME.with_columns(pl.col("p").cum_sum().alias("b"))
    assert_frame_equal(got, sums.select(pl.col("b").mean().over("k").alias("a"), "b"))


@pytest.mark.parametrize("what", ["filter", "sort", "aggregate", "join"])
def test_windows_are_computed_over_the_operator_input(what: str) -> None:
    base, other = scan(), scan(OTHER)
    call = running(base)
    sums = FRAME.with_columns(pl.col("p").cum_sum().alias("c"))
    if what == "filter":
        plan = build.filter(base, Call("gt", (call, Literal(11, pl.Int64())), pl.Boolean()))
        expected = sums.filter(pl.col("c") > 11).drop("c")
    elif what == "sort":
        plan = build.sort(base, (SortKey(call, descending=True),))
        expected = sums.sort("c", descending=True).drop("c")
    elif what == "aggregate":
        plan = build.aggregate(base, (), (("s", AggregateCall("sum", (call,), pl.Int64())),))
        expected = sums.select(pl.col("c").sum().alias("s"))
    else:
        plan = build.join(base, other, "semi", (call,), (Call("cast", (col(other, "y"),), pl.Int64()),))
        expected = sums.filter(pl.col("c").is_in(OTHER["y"].cast(pl.Int64).to_list())).drop("c")
    assert_frame_equal(lower(optimize(plan)).collect(), expected)


def test_the_front_end_uses_build_for_operators() -> None:
    """Operators with expressions are built by ``build``, or over other rows by ``View.moved``, which seals windows."""
    for path in sorted((ROOT / "python" / "craton" / "pandas").rglob("*.py")):
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"Project", "Aggregate", "Window"}, path


def test_hidden_names_do_not_collide_with_users() -> None:
    assert is_hidden(hidden_name("x"))
    assert hidden_name("x") != hidden_name("x")
    name = derived_name("x", b"0" * 16)
    assert derived_name("x", b"0" * 16) == name != derived_name("x", b"0" * 16, {name})
    assert visible("a") == "a"
    assert not is_hidden(visible(name))
