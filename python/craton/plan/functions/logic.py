"""Comparisons, logic, and tests of single values."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import polars as pl

from craton.plan.expr import MIRRORED, Expr, roots
from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.strategies import BOOL, Spec
from craton.plan.registry import ANY, BOOLEANS, FLOATS, INTEGERS, ORDERED, Argument, Cost, NaNs, Nulls, always, cast_to

#: Operands of logic: booleans, or the bits of integers.
_BITS = BOOLEANS | INTEGERS

_COMPARISON = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@rowwise(
    *_COMPARISON,
    signature=(Argument("left", ANY), Argument("right", ANY)),
    result=always(BOOL),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.GREATEST,
    cost=Cost.VALUES,
)
def _compare(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return _compared(spec.function, args, spec.args)


def _compared(name: str, args: Sequence[pl.Expr], nodes: Sequence[Expr]) -> pl.Expr:
    """A comparison that has a value for each row.

    With a constant on the left and, on the right, a column that holds one value for all rows, the kernel returns one row.
    """
    left, right = args
    if not roots(nodes[0]) and roots(nodes[1]):
        return _COMPARISON[MIRRORED.get(name, name)](right, left)
    return _COMPARISON[name](left, right)


@rowwise(
    "and",
    "or",
    signature=(Argument("left", _BITS), Argument("right", _BITS)),
    result=cast_to(_BITS, lambda dtypes: dtypes[0]),
    nulls=Nulls.LOGIC,
    nans=NaNs.NOT_ACCEPTED,
    cost=Cost.VALUES,
)
def _logic(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0] & args[1] if spec.function == "and" else args[0] | args[1]


@rowwise(
    "xor",
    signature=(Argument("left", _BITS), Argument("right", _BITS)),
    result=cast_to(_BITS, lambda dtypes: dtypes[0]),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.NOT_ACCEPTED,
    cost=Cost.VALUES,
)
def _xor(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0] ^ args[1]


@rowwise(
    "not",
    signature=(Argument("value", BOOLEANS),),
    result=always(BOOL),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.NOT_ACCEPTED,
    cost=Cost.VALUES,
)
def _not(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].not_()


@rowwise(
    "is_null",
    signature=(Argument("value", ANY),),
    result=always(BOOL),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    cost=Cost.VALUES,
)
def _is_null(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].is_null()


@rowwise(
    "is_nan",
    "is_not_nan",
    signature=(Argument("value", FLOATS | INTEGERS),),
    result=always(BOOL),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.VALUES,
    cost=Cost.VALUES,
)
def _is_nan(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].is_nan() if spec.function == "is_nan" else args[0].is_not_nan()


@rowwise(
    "is_in",
    signature=(Argument("value", ANY), Argument("values", ANY, scalar=True)),
    result=always(BOOL),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.GREATEST,
    cost=Cost.VALUES,
)
def _is_in(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].is_in(args[1].implode())


@rowwise(
    "is_between",
    signature=(Argument("value", ORDERED), Argument("least", ORDERED), Argument("most", ORDERED)),
    result=always(BOOL),
    nulls=Nulls.LOGIC,
    nans=NaNs.GREATEST,
    cost=Cost.VALUES,
)
def _is_between(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    value, least, most = args
    closed = spec.option("closed", "both")
    # The kernel's function of this name takes a null bound as one for all rows, and loses rows if the value is a constant.
    above = _compared("ge" if closed in ("both", "left") else "gt", (value, least), spec.args[:2])
    below = _compared("le" if closed in ("both", "right") else "lt", (value, most), (spec.args[0], spec.args[2]))
    return above & below
