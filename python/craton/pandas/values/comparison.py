"""Comparison and logical operators.

Polars treats missing values and NaN differently from pandas, so the expressions correct for both. In pandas, comparing a
missing value of a NumPy-backed column gives false (``!=`` gives true). Polars orders NaN above all numbers, while in pandas
every ordering comparison with NaN is false.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.dtypes import BOOL, DtypeObj, family, kind_of, numeric_dtype, physical
from craton.pandas.core.view import ObjectColumn, Value
from craton.pandas.values.carried_values import carried_missing
from craton.pandas.values.operands import (
    COMPARISON,
    EQUALITY,
    LOGIC,
    by_batch,
    cast_number,
    holds_na,
    in_unit_of,
    is_na,
    literal,
    may_be_nan,
)
from craton.plan.expr import MIRRORED, Call, Expr, Literal
from craton.refusals import Refusal


def compared(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    """``left <name> right`` for a comparison or a logical operator; at least one operand is a :class:`Value`.

    Parameters
    ----------
    dtype
        The pandas dtype of the result.
    """
    try:
        if name in LOGIC:
            return _logic(name, left, right, dtype)
        if not isinstance(left, Value):
            return compare(MIRRORED[name], right, left, dtype)
        return compare(name, left, right, dtype)
    except Unsupported:
        if name in LOGIC and not _has_fixed_dtype(left, right):
            raise
        if name in COMPARISON and not _never_raises(name, left, right):
            raise
        return by_batch(name, left, right, dtype)


def _has_fixed_dtype(left: Any, right: Any) -> bool:
    """Whether the dtype of pandas' result for these operands of ``&`` does not depend on the data."""
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if all(kind_of(column.dtype) == "b" for column in columns):
        # pandas combines nullable and Arrow booleans as Python objects, and the call raises if a value is missing.
        return not {"masked", "arrow"} <= {family(column.dtype) for column in columns}
    scalars = [item for item in (left, right) if not isinstance(item, Value)]
    return len({column.dtype for column in columns}) == 1 and all(type(item) is int for item in scalars)


def _never_raises(name: str, left: Any, right: Any) -> bool:
    """Whether pandas can compare these operands without raising, whatever their values are.

    It compares columns of different kinds as Python objects. The call raises if a value is NA, or if two values have no
    order; a plan would raise only when the result is read.
    """
    columns = [item for item in (left, right) if isinstance(item, Value)]
    kinds = {"n" if (kind := kind_of(column.dtype)) in "biuf" else kind for column in columns}
    if len(columns) == 1 or (len(kinds) == 1 and "O" not in kinds):
        return True
    return name in EQUALITY and not any(holds_na(column) for column in columns)


def compare(name: str, left: Value, right: Any, dtype: DtypeObj) -> Value:
    """``left <name> right`` for a comparison of a column with a column or a scalar."""
    if isinstance(left.dtype, pd.CategoricalDtype) or (
        isinstance(right, Value) and isinstance(right.dtype, pd.CategoricalDtype)
    ):
        return _compare_categories(name, left, right, dtype)
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if not isinstance(right, Value):
        right = literal(right, left)
    _require_compatible_families(columns, dtype)
    for item in columns:
        if not item.definite and item.dtype == BOOL:
            raise Unsupported(Refusal.DTYPE_OF_DATA)
    left_nan, right_nan = may_be_nan(left), may_be_nan(right)
    left, right = _in_common_dtype(left, right)
    if family(dtype) == "masked":
        left_nan = right_nan = False
        left, right = left.clean, right.clean
    expr: Expr = Call(name, (left.expr, right.expr), pl.Boolean())
    nulls = left.nulls or right.nulls
    # To Polars, NaN is greater than all numbers and equal to NaN. Comparisons that are true only for that reason become false.
    if name in ("gt", "ge"):
        guarded, checked = left_nan, left
    elif name in ("lt", "le"):
        guarded, checked = right_nan, right
    else:
        guarded, checked = left_nan and right_nan, left
    if guarded and nulls and dtype != BOOL and len(columns) == 2:
        raise Unsupported(Refusal.NAN_AND_MISSING)
    if guarded and name == "ne":
        expr = Call("or", (expr, Call("is_nan", (checked.expr,), pl.Boolean())), pl.Boolean())
    elif guarded:
        expr = Call("and", (expr, Call("is_not_nan", (checked.expr,), pl.Boolean())), pl.Boolean())
    if dtype == BOOL and nulls:
        expr = Call("fill_null", (expr, Literal(name == "ne", pl.Boolean())), pl.Boolean())
        nulls = False
    return Value(expr, dtype, nulls=nulls)


def _require_compatible_families(columns: list[Value], dtype: DtypeObj) -> None:
    """Refuse columns of dtype families that pandas combines by rules that a plan does not implement."""
    families = {family(column.dtype) for column in columns}
    if len(families) == 1 or (families == {"numpy", "masked"} and family(dtype) == "masked"):
        return
    raise Unsupported(Refusal.OPERANDS_SIDE_BY_SIDE, " and ".join(str(column.dtype) for column in columns))


def _in_common_dtype(left: Value, right: Value) -> tuple[Value, Value]:
    """Both operands in the dtype in which pandas compares them."""
    kinds = {kind_of(left.dtype), kind_of(right.dtype)}
    if kinds <= set("biuf"):
        one, other = numeric_dtype(left.dtype), numeric_dtype(right.dtype)
        if (one.kind == "b") != (other.kind == "b") and "numpy" not in (family(left.dtype), family(right.dtype)):
            raise Unsupported(Refusal.BOOLEANS_COMPARED_WITH_NUMBERS)
        if one == other:
            return left, right
        if {one.kind, other.kind} == {"i", "u"} and "uint64" in (one.name, other.name):
            raise Unsupported(Refusal.UNSIGNED_COMPARED_WITH_SIGNED)
        if isinstance(right.expr, Literal) and one.kind in "iu" and other.kind in "iu":
            return left, right
        common = np.result_type(one, other)
        return cast_number(left, common), cast_number(right, common)
    if kinds == {"T"}:
        return left, right
    if kinds in ({"M"}, {"m"}):
        first, second = left.physical, right.physical
        if first == second:
            return left, right
        # A scalar, or a column of one value. The kernel would compare both in the coarser unit.
        if isinstance(right.expr, Literal):
            return left, in_unit_of(left, right)
        if isinstance(left.expr, Literal):
            return in_unit_of(right, left), right
        raise Unsupported(Refusal.COMPARISON, f"{left.dtype} and {right.dtype}")
    raise Unsupported(Refusal.COMPARISON, f"{left.dtype} and {right.dtype}")


def _compare_categories(name: str, left: Value, right: Any, dtype: DtypeObj) -> Value:
    kind = left.dtype
    if not isinstance(kind, pd.CategoricalDtype) or isinstance(right, Value) or dtype != BOOL:
        raise Unsupported(Refusal.CATEGORICAL_COMPARISON)
    assert kind.categories is not None
    if is_na(right):
        raise Unsupported(Refusal.MISSING_OPERAND)
    try:
        code = kind.categories.get_loc(right)
    except (KeyError, TypeError):
        code = -1
    if not isinstance(code, int) or (code < 0 and name not in ("eq", "ne")):
        raise Unsupported(Refusal.NO_CATEGORY)
    expr: Expr = Call(name, (left.expr, Literal(code, pl.Int32())), pl.Boolean())
    if left.nulls:
        expr = Call("fill_null", (expr, Literal(name == "ne", pl.Boolean())), pl.Boolean())
    return Value(expr, BOOL, nulls=False)


def _logic(name: str, left: Any, right: Any, dtype: DtypeObj) -> Value:
    columns = [item for item in (left, right) if isinstance(item, Value)]
    if family(dtype) != "arrow" or any(kind_of(column.dtype) != "b" for column in columns):
        _require_compatible_families(columns, dtype)
    if all(
        isinstance(c.dtype, np.dtype) and c.dtype == dtype and c.dtype.kind in "iu" and not c.nulls for c in columns
    ):
        sides = [item if isinstance(item, Value) else literal(item, columns[0]) for item in (left, right)]
        if sides[0].physical == sides[1].physical:
            return Value(Call(name, (sides[0].expr, sides[1].expr), physical(dtype)), dtype, nulls=False)
    for item in (left, right):
        if isinstance(item, Value):
            if not item.definite or kind_of(item.dtype) != "b" or (family(item.dtype) == "numpy" and item.nulls):
                raise Unsupported(Refusal.OPERATION, f"{name} of {item.dtype}")
        elif not isinstance(item, (bool, np.bool_)) and (item is not pd.NA or dtype == BOOL):
            raise Unsupported(Refusal.OPERATION, f"{name} with a {type(item).__name__}")
    if kind_of(dtype) != "b":
        raise Unsupported(Refusal.OPERATION, f"{name} with a result of dtype {dtype}")
    sides = [
        item if isinstance(item, Value) else Value(Literal(None if item is pd.NA else bool(item), pl.Boolean()), BOOL)
        for item in (left, right)
    ]
    # Nullable and Arrow-backed booleans follow Kleene's three-valued logic, as Polars does.
    nulls = family(dtype) != "numpy" and any(side.nulls for side in sides)
    return Value(Call(name, (sides[0].expr, sides[1].expr), pl.Boolean()), dtype, nulls=nulls)


def invert(value: Value) -> Value:
    """``~value`` for a boolean column."""
    if not value.definite or kind_of(value.dtype) != "b" or (value.dtype == BOOL and value.nulls):
        raise Unsupported(Refusal.OPERATION, f"inversion of {value.dtype}")
    return Value(Call("not", (value.expr,), pl.Boolean()), value.dtype, nulls=value.nulls)


def is_missing(value: Value) -> Value:
    """``isna``: true where a value is missing."""
    if isinstance(value.expr, ObjectColumn) and (value.expr.nan or value.expr.text is not None):
        # Lists are missing where the text is.
        return Value(Call("is_null", (value.expr.text or value.expr.column,), pl.Boolean()), BOOL, nulls=False)
    if isinstance(value.expr, ObjectColumn):
        return carried_missing(value.expr)
    if not value.nulls and not value.nans:
        return Value(Literal(False, pl.Boolean()), BOOL, nulls=False)
    return Value(Call("is_null", (value.clean.expr,), pl.Boolean()), BOOL, nulls=False)


def not_missing(value: Value) -> Value:
    """``notna``: true where a value is not missing."""
    if not isinstance(value.expr, ObjectColumn) and not value.nulls and not value.nans:
        return Value(Literal(True, pl.Boolean()), BOOL, nulls=False)
    return Value(Call("not", (is_missing(value).expr,), pl.Boolean()), BOOL, nulls=False)
