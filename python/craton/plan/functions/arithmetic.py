"""Arithmetic, with NumPy's dtypes and IEEE 754's signed zeros where the kernel's differ."""

from __future__ import annotations

import math
import operator
from functools import lru_cache

import polars as pl

from craton.plan.expr import Expr, Literal, dtype_of
from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.strategies import Spec
from craton.plan.registry import (
    DURATIONS,
    INTEGERS,
    NUMBERS,
    TEMPORALS,
    Argument,
    Cost,
    Dtypes,
    NaNs,
    Nulls,
    Result,
    cast_to,
    same,
)

_ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}
_OPERAND = NUMBERS | TEMPORALS


def _arithmetic_result(name: str) -> Result:
    """The kernel's dtype by default; a call can declare any numeric dtype."""

    @lru_cache(maxsize=256)
    def usual(dtypes: Dtypes) -> pl.DataType:
        left, right = pl.col("left"), pl.col("right")
        frame = pl.LazyFrame(schema=dict(zip(("left", "right"), dtypes, strict=True)))
        return frame.select(value=_ARITHMETIC[name](left, right)).collect_schema()["value"]

    return cast_to(NUMBERS, usual)


def _arithmetic(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    left, right = args
    # As in NumPy, operands of another numeric dtype are first cast to the result's.
    if spec.dtype.is_numeric():
        left, right = (
            arg if dtype_of(node) == spec.dtype or not dtype_of(node).is_numeric() else arg.cast(spec.dtype)
            for arg, node in zip(args, spec.args, strict=True)
        )
    if spec.dtype.is_float() and spec.function in ("add", "sub"):
        if _is_zero(spec.args[1], negative=spec.function == "sub"):
            return _unsigned(left, left, spec.dtype)
        if _is_zero(spec.args[0], negative=False):
            return _unsigned(right, right if spec.function == "add" else right.neg(), spec.dtype)
    if spec.function == "truediv" and spec.dtype.is_float():
        right = _of_each_row(left, right)
    return _not_for_statistics(_ARITHMETIC[spec.function](left, right), spec)


def _not_for_statistics(value: pl.Expr, spec: Spec) -> pl.Expr:
    """The same values, as an expression for which a scan does not use a file's minimum and maximum statistics.

    The kernel would compute an integer expression of these statistics and skip rows by the result, which is wrong if the
    integers wrap around: with unsigned ``x`` and a minimum of 0, it would find no rows for ``x - 2 == 3``.
    """
    return value.to_physical() if spec.dtype.is_integer() else value


def _is_zero(operand: Expr, negative: bool) -> bool:
    """Whether an operand is the constant 0.0, or -0.0."""
    if not isinstance(operand, Literal) or operand.value is None or operand.value != 0:
        return False
    return (math.copysign(1.0, float(operand.value)) < 0) == negative


def _unsigned(arg: pl.Expr, otherwise: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The sum of 0.0 and a number. IEEE 754 makes -0.0 + 0.0 = 0.0, but the kernel returns the number unchanged."""
    return pl.when(arg == 0).then(pl.lit(0.0, dtype)).otherwise(otherwise)


def _of_each_row(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """The divisor as a column, also if it is a scalar.

    For a scalar divisor the kernel multiplies by the reciprocal, which changes the last bit of about one quotient in ten.
    """
    return pl.struct(left.alias("dividend"), right.alias("divisor")).struct.field("divisor")


#: For an infinite dividend, and in the sign of a remainder of zero, the kernel's floats differ from NumPy's.
_WHOLE = INTEGERS | DURATIONS

for _name in _ARITHMETIC:
    _floats = _name not in ("floordiv", "mod")
    _accepted = _OPERAND if _floats else _WHOLE
    rowwise(
        _name,
        signature=(Argument("left", _accepted), Argument("right", _accepted)),
        result=_arithmetic_result(_name),
        nulls=Nulls.PROPAGATED,
        nans=NaNs.PROPAGATED if _floats else NaNs.NOT_ACCEPTED,
        cost=Cost.VALUES,
    )(_arithmetic)


@rowwise(
    "pow",
    signature=(Argument("base", NUMBERS), Argument("exponent", NUMBERS)),
    result=cast_to(NUMBERS, pl.Float64()),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.PROPAGATED,
    cost=Cost.VALUES,
)
def _pow(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].cast(spec.dtype).pow(args[1])


@rowwise(
    "neg",
    "abs",
    signature=(Argument("value", NUMBERS | DURATIONS),),
    result=same(),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.PROPAGATED,
    cost=Cost.VALUES,
)
def _unary(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return _not_for_statistics(args[0].neg() if spec.function == "neg" else args[0].abs(), spec)


@rowwise(
    "round",
    signature=(Argument("value", NUMBERS),),
    result=same(),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.PROPAGATED,
    cost=Cost.VALUES,
)
def _round(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].round(spec.option("decimals", 0), mode="half_to_even")


@rowwise(
    "clip",
    signature=(
        Argument("value", _OPERAND),
        Argument("least", _OPERAND, scalar=True),
        Argument("most", _OPERAND, scalar=True),
    ),
    result=same(),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.PROPAGATED,
    cost=Cost.VALUES,
)
def _clip(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].clip(args[1], args[2])
