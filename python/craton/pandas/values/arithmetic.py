"""Arithmetic on numbers, times, durations and strings."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.engine import reads_memory
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import DtypeObj, family, kind_of, numeric_dtype, physical
from craton.pandas.core.view import Value, View
from craton.pandas.values.batches import batched, verified
from craton.pandas.values.comparison import compared, invert
from craton.pandas.values.operands import by_batch, is_na, literal, probe
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal


def arithmetic(name: str, left: Any, right: Any, dtype: DtypeObj, held: View | None) -> Value:
    """``left <name> right`` for two columns, or a column and a scalar. ``dtype`` is the dtype of pandas' result."""
    columns = [item for item in (left, right) if isinstance(item, Value)]
    kinds = {kind_of(column.dtype) for column in columns}
    if name in ("floordiv", "mod"):
        dtype = _division_dtype(name, left, right, dtype, held)
    try:
        if any(not isinstance(item, Value) and is_na(item) for item in (left, right)):
            raise Unsupported(Refusal.MISSING_OPERAND)
        if kinds <= set("biuf") and kind_of(dtype) in "biuf":
            return _numbers(name, left, right, dtype)
        if kinds == {"T"} and name == "add":
            return _concatenation(left, right, dtype)
        # Times and durations are refused here too, because pandas checks them for overflow.
        raise Unsupported(Refusal.OPERATION, f"{name} of {' and '.join(str(column.dtype) for column in columns)}")
    except Unsupported:
        if kind_of(dtype) == "O" or not _computable_in_batches(name, left, right):
            raise
    result = by_batch(name, left, right, dtype)
    if any(isinstance(item, pd.offsets.BaseOffset) for item in (left, right)):
        if held is None:
            raise Unsupported(Refusal.CALENDAR_STEP)
        return verified(held, result)
    overflows = kinds & set("mM") and held is not None and (held.rows or VERIFIED_ROWS) < VERIFIED_ROWS
    return verified(held, result) if overflows and reads_memory(held.base) else result  # type: ignore[arg-type, union-attr]


#: For data in memory with fewer rows than this, the call itself computes arithmetic on times and durations, so that it raises
#: an overflow as pandas does.
VERIFIED_ROWS = 100_000


def _computable_in_batches(name: str, left: Any, right: Any) -> bool:
    """Whether pandas computes each row independently, with a result dtype that does not depend on the data."""
    kinds = ""
    for item in (left, right):
        if isinstance(item, Value):
            kinds += kind_of(item.dtype)
        elif isinstance(item, pd.offsets.BaseOffset):
            kinds += "o"
        else:
            kinds += "s"
    if "o" in kinds:
        return kinds in ("Mo", "oM") and name in ("add", "sub")
    if name == "pow" and isinstance(right, Value) and kind_of(right.dtype) == "i" and "f" not in kinds:
        return False  # pandas raises if any exponent is negative
    return "O" not in kinds


def _division_dtype(name: str, left: Any, right: Any, dtype: DtypeObj, held: View | None) -> DtypeObj:
    """The dtype of ``//`` and ``%``; refuses data that contain a zero divisor, for which pandas returns floats."""
    if (isinstance(left, Value) and kind_of(left.dtype) == "m") or (
        isinstance(right, Value) and kind_of(right.dtype) == "m"
    ):
        if kind_of(dtype) == "m":
            return dtype
        if any(isinstance(item, Value) and item.nulls for item in (left, right)) or held is None:
            raise Unsupported(Refusal.OPERATION, f"{name} whose dtype depends on the data")
        zero: Any = pd.Timedelta(0)
    elif kind_of(dtype) in "biu" or dtype in (np.dtype("float32"), pd.Float32Dtype()):
        zero = 0
    else:
        return dtype
    if family(dtype) == "arrow":
        return dtype
    if isinstance(right, Value):
        if (
            held is None
            or not right.definite
            or any_row(held, compared("eq", right, zero, probe("eq", right, zero)).expr)
        ):
            raise Unsupported(
                Refusal.OPERATION, f"{name} by a column that may contain zeros, with which pandas returns floats"
            )
    elif is_na(right) or right == 0:
        raise Unsupported(Refusal.OPERATION, f"{name} by zero")
    return dtype


def _source(*values: Value) -> tuple[Any, str] | None:
    """The common ``source`` of some values: the column whose missing values decide the dtype of their result."""
    sources = {value.source for value in values if value.source is not None}
    if len(sources) > 1:
        raise Unsupported(Refusal.DTYPES_OF_DATA)
    return next(iter(sources), None)


def _numbers(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    columns = [item for item in (left, right) if isinstance(item, Value)]
    families = {family(column.dtype) for column in columns}
    if families == {"arrow"}:
        return _arrow_floats(name, left, right, dtype)
    if family(dtype) not in ("numpy", "masked") or not families <= {"numpy", "masked"}:
        raise Unsupported(Refusal.OPERATION, f"{name} with a result of dtype {dtype}")
    if kind_of(dtype) == "b" or any(kind_of(column.dtype) == "b" for column in columns):
        raise Unsupported(Refusal.BOOLEAN_ARITHMETIC)
    like = columns[0]
    one = left if isinstance(left, Value) else literal(left, like)
    other = right if isinstance(right, Value) else literal(right, like)
    if kind_of(one.dtype) == "b" or kind_of(other.dtype) == "b":
        raise Unsupported(Refusal.BOOLEAN_ARITHMETIC)
    target = numeric_dtype(dtype)
    if name == "pow":
        if not isinstance(right, (Value, float, np.generic)) and right == 2:
            name, other = "mul", one
        else:
            raise Unsupported(Refusal.POWERS)
    if name in ("floordiv", "mod") and target.kind == "f":
        raise Unsupported(Refusal.FLOAT_REMAINDER)
    source = _source(one, other) if target.kind != "f" else None
    expr = Call(name, (one.expr, other.expr), physical(dtype))
    return Value(expr, dtype, nulls=one.nulls or other.nulls, nans=target.kind == "f", source=source)


#: Arrow casts an integer to a 64-bit float only if its magnitude is at most this; otherwise it raises.
_EXACT_INTEGERS = 2**53


def _arrow_floats(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    """Arithmetic on 64-bit Arrow floats. NaN in a result is missing in pandas, so the kernel computes it as on NumPy's floats.

    Arithmetic on Arrow's integers raises an overflow, which the kernel does not; pandas computes it.
    """
    for item in (left, right):
        one = item.physical if isinstance(item, Value) else None
        exact = type(item) in (float, np.float64) or (type(item) is int and abs(item) <= _EXACT_INTEGERS)
        if not (exact if one is None else one == pl.Float64()):
            raise Unsupported(Refusal.OPERATION, f"{name} with a result of dtype {dtype}")
    if name not in ("add", "sub", "mul", "truediv") or physical(dtype) != pl.Float64():
        raise Unsupported(Refusal.OPERATION, f"{name} with a result of dtype {dtype}")
    operands = [
        _with_nan(item.expr) if isinstance(item, Value) else Literal(float(item), pl.Float64())
        for item in (left, right)
    ]
    return Value(Call(name, tuple(operands), pl.Float64()), dtype, nulls=True, nans=True)


def _with_nan(expr: Expr) -> Expr:
    """A column of floats with NaN not converted to null: the arithmetic that it is in returns NaN for both, or null for both."""
    if isinstance(expr, Call) and expr.function == "fill_nan" and expr.args[1] == Literal(None, pl.Float64()):
        return expr.args[0]
    return expr


def _concatenation(left: Any, right: Any, dtype: DtypeObj) -> Value:
    like = left if isinstance(left, Value) else right
    one = left if isinstance(left, Value) else literal(left, like)
    other = right if isinstance(right, Value) else literal(right, like)
    if kind_of(dtype) != "T" or not kind_of(one.dtype) == kind_of(other.dtype) == "T":
        raise Unsupported(Refusal.OPERATION, f"add of {one.dtype} and {other.dtype}")
    return Value(Call("concat_str", (one.expr, other.expr), pl.String()), dtype, nulls=one.nulls or other.nulls)


def negative(value: Value) -> Value:
    """``-value``."""
    if value.definite and kind_of(value.dtype) in "ifm" and family(value.dtype) in ("numpy", "masked"):
        return Value(Call("neg", (value.expr,), value.physical), value.dtype, value.nulls, value.nans)
    return _unary("neg", value)


def positive(value: Value) -> Value:
    """``+value``."""
    if kind_of(value.dtype) not in "biufm":
        raise Unsupported(Refusal.OPERATION, f"+ of {value.dtype}")
    return value


def absolute(value: Value) -> Value:
    """``abs(value)``."""
    if value.definite and kind_of(value.dtype) in "ifu" and family(value.dtype) in ("numpy", "masked"):
        return Value(Call("abs", (value.expr,), value.physical), value.dtype, value.nulls, value.nans)
    return _unary("abs", value)


def inverted(value: Value) -> Value:
    """``~value``."""
    if kind_of(value.dtype) == "b":
        return invert(value)
    return _unary("invert", value)


def _unary(name: str, value: Value) -> Value:
    dtype = stand_ins.probe_cached(
        "unary", (name, value.dtype), lambda: getattr(operator, name)(stand_ins.column(value.dtype, 1)).dtype, name
    )
    physical(dtype)
    result = batched("operator", name, [value], dtype)
    return Value(result.expr, dtype, nulls=value.nulls, nans=value.nans)
