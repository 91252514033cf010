"""The rule that groups by a table's row numbers before it groups by the table's strings."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from plans import col, scan

from craton.lower import lower
from craton.plan.expr import Call, Expr
from craton.plan.operators import Aggregate, AggregateCall, Join, Operator, Project, Scan, schema
from craton.plan.rules import late_materialisation
from craton.plan.rules.late_materialisation import group_by_rows
from craton.plan.stages import optimize
from craton.plan.visit import topological

SALES = pl.DataFrame({"ck": [1, 2, 1, 3, 4, 4, 9, 2], "x": [1, 2, 3, 4, 5, None, 7, 8]})
# Customers 1 and 4 differ only in their key, customer 2 has two equal rows, and customer 3 has no name.
PEOPLE = pl.DataFrame(
    {
        "k": [1, 2, 3, 4, 2],
        "name": ["ann", "bob", None, "ann", "bob"],
        "city": ["rome", "oslo", "rome", "rome", "oslo"],
        "age": [30, 40, 50, 30, 40],
    }
)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr(late_materialisation, "LARGE_TABLE", 2)


def grouped_alone() -> Aggregate:
    people = scan(PEOPLE)
    keys = tuple((name, col(people, name)) for name in ("name", "city"))
    return Aggregate(people, keys, (("n", AggregateCall("len", (), pl.Int64())),))


def grouped(
    function: str = "sum",
    keys: tuple[str, ...] = ("name", "city", "age"),
    value: str = "x",
    sales: pl.DataFrame = SALES,
) -> Aggregate:
    sales, people = scan(sales), scan(PEOPLE)
    joined = Join(sales, people, "inner", (col(sales, "ck"),), (col(people, "k"),))
    older: Expr = Call("add", (joined.column("age"), joined.column("age")), pl.Int64())
    columns = {name: joined.column(name) for name in schema(joined)} | {"age": older}
    below = Project(joined, tuple(columns.items()))
    dtype = pl.Float64() if function == "mean" else pl.Int64()
    call = AggregateCall(function, () if function == "len" else (below.column(value),), dtype)
    return Aggregate(below, tuple((f"{key}!", below.column(key)) for key in keys), (("result", call),))


def applied(plan: Operator) -> bool:
    return any(isinstance(op, Scan) and op.row_number for op in topological(plan))


@pytest.mark.parametrize("function", ["sum", "count", "len", "min", "max"])
@pytest.mark.parametrize(
    "keys",
    [
        ("name", "city", "age"),
        ("city", "ck", "name"),
        ("name", "city"),
        ("k", "name", "city"),
        ("age", "k", "city", "name"),
    ],
)
def test_results_are_equal(function, keys):
    plan = grouped(function, keys)
    changed = group_by_rows(plan)
    assert applied(changed)
    assert schema(changed) == schema(plan)
    assert lower(optimize(changed)).collect(engine="streaming").rows() == lower(plan).collect(engine="streaming").rows()


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(lambda: grouped("mean"), id="not in parts"),
        pytest.param(lambda: grouped(keys=("name", "age")), id="one text"),
        pytest.param(lambda: grouped(value="age"), id="of the table itself"),
        pytest.param(lambda: grouped_alone(), id="no other table"),
        pytest.param(lambda: grouped(sales=SALES.head(4)), id="the largest table"),
    ],
)
def test_other_groups_are_not_rewritten(plan):
    assert not applied(group_by_rows(plan()))


def test_a_self_join_is_not_rewritten():
    people, again = scan(PEOPLE), scan(PEOPLE)
    other = Project(people, (("other", col(people, "k")),))
    joined = Join(people, other, "inner", (col(people, "k"),), (col(other, "other"),))
    counted = AggregateCall("sum", (joined.column("other"),), pl.Int64())
    keys = tuple((name, joined.column(name)) for name in ("name", "city"))
    assert not applied(group_by_rows(Aggregate(joined, keys, (("n", counted),))))
    assert again != people
