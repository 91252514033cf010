"""Comparisons, logic, and tests of single values."""

from __future__ import annotations

import operator

import polars as pl

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
    return _COMPARISON[spec.function](*args)


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
    return args[0].is_between(args[1], args[2], closed=spec.option("closed", "both"))
