"""Small plans that the unit tests of planning share."""

from __future__ import annotations

from typing import Any

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal
from craton.plan.operators import AggregateCall, Operator, Scan, schema
from craton.plan.sources import MemorySource

FRAME = pl.DataFrame({"k": [2, 1, 2, 3], "x": [1.0, 2.0, None, 4.0], "p": [5, 6, 7, 8], "q": ["a", "b", "c", "d"]})
OTHER = pl.DataFrame({"rk": [1, 2, 2], "y": [10, 20, 30], "z": [0.5, 0.25, 0.125]})


def scan(frame: pl.DataFrame = FRAME) -> Scan:
    """A scan of a frame in memory."""
    return Scan(MemorySource.of(frame), tuple(frame.columns))


def col(op: Operator, name: str) -> Column:
    """A column of an operator's output."""
    return op.column(name)


def compare(op: Operator, name: str, function: str, value: Any) -> Expr:
    """A comparison of a column with a constant."""
    return Call(function, (op.column(name), Literal(value, schema(op)[name])), pl.Boolean())


def total(op: Operator, name: str) -> AggregateCall:
    """The sum of a column."""
    return AggregateCall("sum", (op.column(name),), schema(op)[name])
