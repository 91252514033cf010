"""Aggregates and window functions of constants, in groups of constants, equal those of ordinary columns with the same values.

See ``test_functions_of_constants``: the kernel keeps a column with one value as a scalar.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_functions import OPTIONS
from test_functions_of_constants import FORMS, VALUES, argument, base, check

from craton.errors import PlanError
from craton.plan.expr import Column, Expr, Literal, WindowCall
from craton.plan.operators import Aggregate, AggregateCall, Operator, Project, Window
from craton.plan.registry import FUNCTIONS, Kind

INT = pl.Int64()
NAMES = {
    kind: sorted(name for name, record in FUNCTIONS.items() if record.kind is kind)
    for kind in (Kind.AGGREGATE, Kind.WINDOW)
}


def calls(name: str) -> Iterator[tuple[pl.DataType, tuple[Expr, ...], tuple[Expr, ...], pl.DataType]]:
    """Arguments of a function in each form, the same as ordinary columns, and the dtype of the result."""
    record = FUNCTIONS[name]
    wanted = [one for one in record.signature if not one.optional]
    if any(one.scalar for one in wanted):
        return
    for dtype in VALUES:
        if any(dtype not in one.accepts for one in wanted if one.name != "label"):
            continue
        for form in FORMS:
            given, plain = (
                tuple(
                    Column("row", INT) if one.name == "label" else argument(form, 0, dtype, as_column) for one in wanted
                )
                for as_column in (False, True)
            )
            try:
                yield dtype, given, plain, record.result.usual(tuple(arg.dtype for arg in given))
            except (PlanError, pl.exceptions.PolarsError):
                continue
            if not wanted:
                return


def partitions(dtype: pl.DataType) -> Iterator[tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
    """Group keys, and the same as ordinary columns."""
    yield (), ()
    for form in FORMS:
        yield (argument(form, 0, dtype, False),), (argument(form, 0, dtype, True),)
    both = argument("one value", 0, dtype, False), argument("column", 0, dtype, False)
    yield both, (argument("one value", 0, dtype, True), argument("column", 0, dtype, True))


@pytest.mark.parametrize("name", NAMES[Kind.AGGREGATE])
def test_aggregates_of_constants(name: str) -> None:
    for dtype, given, plain, result in calls(name):
        rows = base((dtype,))
        for choice in OPTIONS.get(name, [()]):
            for keys, same_keys in partitions(dtype):
                plan, same = (
                    Aggregate(
                        rows,
                        tuple((f"key {i}", key) for i, key in enumerate(by)),
                        (("v", AggregateCall(name, args, result, choice)), ("n", AggregateCall("len", (), INT))),
                    )
                    for by, args in ((keys, given), (same_keys, plain))
                )
                check(plan, same, tiled=not choice and len(keys) == 1 and dtype == INT)


@pytest.mark.parametrize("name", NAMES[Kind.WINDOW] + NAMES[Kind.AGGREGATE])
def test_windows_of_constants(name: str) -> None:
    for dtype, given, plain, result in calls(name):
        rows = base((dtype,))
        choice = OPTIONS.get(name, [()])[0]
        for keys, same_keys in partitions(dtype):
            plan, same = (
                _window(rows, WindowCall(name, args, result, by, choice))
                for by, args in ((keys, given), (same_keys, plain))
            )
            check(plan, same, tiled=False)


def _window(rows: Operator, call: WindowCall) -> Operator:
    computed = Window(rows, (("v", call),))
    compared: Any = Literal(True, pl.Boolean())
    return Project(computed, (("v", computed.column("v")), ("one", compared)))
