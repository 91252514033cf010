"""Arithmetic on numbers, points in time, spans of time and strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.batches import COLUMN, batched
from craton.pandas.dtypes import BOOL, DtypeObj, family, kind_of, number, physical
from craton.pandas.elementwise import cast_number, is_na, literal
from craton.pandas.view import Value
from craton.plan.expr import Call, Expr, Literal


def arithmetic(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    """``left <name> right`` of values, or a value and a scalar, with the result dtype that pandas gives."""
    columns = [item for item in (left, right) if isinstance(item, Value)]
    kinds = {kind_of(column.dtype) for column in columns}
    for item in (left, right):
        if not isinstance(item, Value) and (is_na(item) or isinstance(item, (np.ndarray, list))):
            raise Unsupported("a missing value as operand")
    if kinds <= set("biuf") and kind_of(dtype) in "biuf":
        return _numbers(name, left, right, dtype)
    if kinds & set("mM"):
        return _times(name, left, right, dtype)
    if kinds == {"T"} and name == "add":
        return _concatenation(left, right, dtype)
    raise Unsupported(f"{name} of {' and '.join(str(column.dtype) for column in columns)}")


def _source(*values: Value) -> tuple[Any, str] | None:
    """The data that decide the dtype of a result of such values."""
    sources = {value.source for value in values if value.source is not None}
    if len(sources) > 1:
        raise Unsupported("operands whose dtypes depend on different data")
    return next(iter(sources), None)


def _numbers(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if family(dtype) == "arrow" or any(column.dtype == BOOL and not column.definite for column in columns):
        raise Unsupported(f"{name} to {dtype}")
    if kind_of(dtype) == "b" or any(kind_of(column.dtype) == "b" for column in columns):
        # Booleans have rules of their own (+ is "or"): NumPy knows them.
        return _by_batch(name, left, right, dtype)
    like = columns[0]
    one = left if isinstance(left, Value) else literal(left, like)
    other = right if isinstance(right, Value) else literal(right, like)
    target = number(dtype)
    if name == "pow":
        if isinstance(other.expr, Literal) and not isinstance(right, (float, np.generic)) and other.expr.value == 2:
            name, other = "mul", one
        else:
            return _by_batch(name, left, right, dtype)
    if name in ("floordiv", "mod"):
        if target.kind == "f":
            return _by_batch(name, left, right, dtype)
        if not isinstance(other.expr, Literal) or other.expr.value == 0:
            raise Unsupported(f"{name} by a column that may hold zeros: the dtype depends on the data")
    if target.kind == "f":
        one, other = (cast_number(item, target) if number(item.dtype).kind == "b" else item for item in (one, other))
    source = _source(one, other) if target.kind != "f" else None
    expr = Call(name, (one.expr, other.expr), physical(dtype))
    return Value(expr, dtype, nulls=one.nulls or other.nulls, nans=target.kind == "f", source=source)


def _by_batch(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if any(not column.definite for column in columns):
        raise Unsupported("a column whose dtype depends on the data")
    if number(dtype).kind in "iu" and (name in ("floordiv", "mod") or (name == "pow" and not _positive(right))):
        raise Unsupported(f"{name} whose dtype or error depends on the data")
    args = tuple(COLUMN if isinstance(item, Value) else item for item in (left, right))
    return batched("operator", name, columns, dtype, args)


def _positive(item: Any) -> bool:
    if isinstance(item, Value):
        return number(item.dtype).kind in "bu"
    return bool(item >= 0)


def _times(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    like = left if isinstance(left, Value) else right
    if family(like.dtype) == "arrow" or family(dtype) == "arrow":
        raise Unsupported(f"{name} of {like.dtype}")
    if not isinstance(right, Value) and isinstance(right, (pd.DateOffset, pd.offsets.BaseOffset)):
        return _offset(name, left, right, dtype)
    if not isinstance(left, Value) and isinstance(left, (pd.DateOffset, pd.offsets.BaseOffset)):
        return _offset(name, right, left, dtype)
    one = left if isinstance(left, Value) else literal(left, like)
    other = right if isinstance(right, Value) else literal(right, like)
    kinds = kind_of(one.dtype) + kind_of(other.dtype)
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if any(not column.definite for column in columns):
        raise Unsupported("a column whose dtype depends on the data")
    nulls = one.nulls or other.nulls
    if name in ("add", "sub") and kinds in ("MM", "Mm", "mM", "mm"):
        target = physical(dtype)
        unit = target.time_unit  # type: ignore[attr-defined]
        sides = [_in_unit(item, unit) for item in (one, other)]
        return Value(Call(name, (sides[0], sides[1]), target), dtype, nulls=nulls)
    if kinds in ("mi", "im", "mu", "um", "mf", "fm", "mm") and name in ("mul", "truediv", "floordiv", "mod"):
        args = tuple(COLUMN if isinstance(item, Value) else item for item in (left, right))
        if name in ("floordiv", "mod") and len(columns) == 2:
            raise Unsupported(f"{name} whose dtype depends on the data")
        return batched("operator", name, columns, dtype, args)
    raise Unsupported(f"{name} of {one.dtype} and {other.dtype}")


def _in_unit(value: Value, unit: str) -> Expr:
    kind = value.physical
    if kind.time_unit == unit:  # type: ignore[attr-defined]
        return value.expr
    if isinstance(value.expr, Literal):
        target = pl.Duration(unit) if isinstance(kind, pl.Duration) else pl.Datetime(unit, kind.time_zone)  # type: ignore[attr-defined,arg-type]
        return Literal(value.expr.value, target)
    if unit == "ns":
        raise Unsupported("a cast to nanoseconds that may overflow")
    if isinstance(kind, pl.Duration):
        return Call("cast", (value.expr,), pl.Duration(unit))  # type: ignore[arg-type]
    return Call("cast", (value.expr,), pl.Datetime(unit, kind.time_zone))  # type: ignore[attr-defined,arg-type]


_STEPS = (
    ("years", "y"),
    ("months", "mo"),
    ("weeks", "w"),
    ("days", "d"),
    ("hours", "h"),
    ("minutes", "m"),
    ("seconds", "s"),
    ("microseconds", "us"),
)


def _offset(name: str, column: Value, offset: Any, dtype: DtypeObj) -> Value:
    """A calendar step such as ``DateOffset(months=3)``: the day is clipped to the month's length, as pandas does it."""
    if type(offset) is not pd.DateOffset or column.dtype != dtype or name not in ("add", "sub"):
        raise Unsupported(f"a step by {type(offset).__name__}")
    if getattr(column.physical, "time_zone", None) is not None or offset.normalize:
        raise Unsupported("a calendar step of wall times, or one that normalizes")
    steps = dict(offset.kwds)
    if not steps or set(steps) - {key for key, _ in _STEPS} or any(type(value) is not int for value in steps.values()):
        raise Unsupported(f"a step by {offset!r}")
    signs = {value > 0 for value in steps.values() if value}
    if len(signs) > 1:
        raise Unsupported("a step both forwards and backwards")
    if "microseconds" in steps and column.physical.time_unit == "ms":  # type: ignore[attr-defined]
        raise Unsupported("a step finer than the column")
    count = offset.n if name == "add" else -offset.n
    text = "".join(f"{abs(value * count)}{suffix}" for key, suffix in _STEPS if (value := steps.get(key)))
    if not text:
        return column
    if (signs == {True}) != (count > 0):
        text = "-" + text
    expr = Call("dt_offset", (column.expr,), column.physical, options=(("by", text),))
    return Value(expr, dtype, nulls=column.nulls)


def _concatenation(left: Any, right: Any, dtype: DtypeObj) -> Value:
    like = left if isinstance(left, Value) else right
    one = left if isinstance(left, Value) else literal(left, like)
    other = right if isinstance(right, Value) else literal(right, like)
    if kind_of(dtype) != "T" or not kind_of(one.dtype) == kind_of(other.dtype) == "T":
        raise Unsupported(f"add of {one.dtype} and {other.dtype}")
    return Value(Call("concat_str", (one.expr, other.expr), pl.String()), dtype, nulls=one.nulls or other.nulls)


def negative(value: Value) -> Value:
    """``-value``."""
    if not value.definite or kind_of(value.dtype) not in "ifm" or family(value.dtype) == "arrow":
        raise Unsupported(f"negation of {value.dtype}")
    return Value(Call("neg", (value.expr,), value.physical), value.dtype, value.nulls, value.nans)


def absolute(value: Value) -> Value:
    """``abs(value)``."""
    if not value.definite or kind_of(value.dtype) not in "ifu" or family(value.dtype) == "arrow":
        raise Unsupported(f"the absolute value of {value.dtype}")
    return Value(Call("abs", (value.expr,), value.physical), value.dtype, value.nulls, value.nans)
