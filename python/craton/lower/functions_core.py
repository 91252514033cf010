"""Arithmetic, comparison, logic and missing values as Polars expressions."""

from __future__ import annotations

import operator

import polars as pl

from craton.lower.expressions import Spec, lowers
from craton.plan.expr import Literal, dtype_of

_ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}
_COMPARISON = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@lowers(*_ARITHMETIC)
def _arithmetic(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    left, right = args
    # Numbers are computed in the result's dtype, as NumPy does, where the operands' own dtype is another.
    if spec.dtype.is_numeric():
        left, right = (
            arg if dtype_of(node) == spec.dtype or not dtype_of(node).is_numeric() else arg.cast(spec.dtype)
            for arg, node in zip(args, spec.args, strict=True)
        )
    return _ARITHMETIC[spec.function](left, right)


@lowers("pow")
def _pow(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].cast(spec.dtype).pow(args[1])


@lowers(*_COMPARISON)
def _compare(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return _COMPARISON[spec.function](*args)


@lowers("and", "or", "xor")
def _logic(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[spec.function](*args)


@lowers("not", "neg", "abs", "is_null", "is_nan", "is_not_nan")
def _unary(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return {
        "not": pl.Expr.not_,
        "neg": pl.Expr.neg,
        "abs": pl.Expr.abs,
        "is_null": pl.Expr.is_null,
        "is_nan": pl.Expr.is_nan,
        "is_not_nan": pl.Expr.is_not_nan,
    }[spec.function](args[0])


@lowers("fill_null")
def _fill_null(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].fill_null(args[1])


@lowers("fill_nan")
def _fill_nan(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    filling = spec.args[1]
    if isinstance(filling, Literal) and filling.value is None:
        # Cheaper than fill_nan: one mask, null (so not kept) where the value is null already.
        return pl.when(args[0].is_not_nan()).then(args[0])
    return args[0].fill_nan(args[1])


@lowers("coalesce")
def _coalesce(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return pl.coalesce(args)


@lowers("cast")
def _cast(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    wrap = bool(spec.option("wrap", False))
    return args[0].cast(spec.dtype, wrap_numerical=wrap)


@lowers("when")
def _when(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    condition, then, otherwise = args
    return pl.when(condition).then(then).otherwise(otherwise)


@lowers("is_in")
def _is_in(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].is_in(args[1].implode())


@lowers("is_between")
def _is_between(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].is_between(args[1], args[2], closed=spec.option("closed", "both"))


@lowers("clip")
def _clip(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].clip(args[1], args[2])


@lowers("round")
def _round(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].round(spec.option("decimals", 0), mode="half_to_even")


@lowers("map_values")
def _map_values(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``map_values(x, keys, values)``: the value beside the equal key, null where there is none."""
    return args[0].replace_strict(args[1], args[2], default=None, return_dtype=spec.dtype)
