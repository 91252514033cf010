"""``map`` with a dict or a Series, and ``replace`` of scalars by scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.array_conversion import from_array
from craton.pandas.core.dtypes import (
    BOOL,
    FLOAT64,
    STR,
    DtypeObj,
    distinguishes_nan,
    family,
    kind_of,
    physical,
    with_missing,
)
from craton.pandas.core.execute import count_rows
from craton.pandas.core.view import Value, View
from craton.pandas.values.batches import COLUMN, batched
from craton.pandas.values.comparison import is_missing
from craton.pandas.values.elementwise import binary
from craton.pandas.values.filling import constant
from craton.pandas.values.lists.text_objects import as_objects, as_strings, holds_text
from craton.pandas.values.operands import is_na
from craton.pandas.values.text.pattern_replacement import replaced_by_kernel
from craton.plan import build
from craton.plan.expr import Call, Expr, Values
from craton.refusals import Refusal

MAX_MAPPING_VALUES = 100_000
"""The size up to which a mapping is planned; a larger one should be a join, and is left to pandas for now."""


def mapped(held: View, value: Value, mapper: Any, *, skip_missing: bool = False) -> Value:
    """``map``: the mapper's value for the key that is equal to the column's value; missing if there is no such key.

    Parameters
    ----------
    skip_missing
        Whether keys that are missing values match nothing (``na_action="ignore"``).

    Raises
    ------
    Unsupported
        If the mapper is a function, or its keys or values have mixed types.
    """
    table = _table(mapper)
    if not value.definite or family(value.dtype) not in ("numpy", "str") or len(table) > MAX_MAPPING_VALUES:
        raise Unsupported(Refusal.OPERATION, f"map of {value.dtype}")
    dtype: DtypeObj = table.dtype
    if kind_of(dtype) == "O" or isinstance(dtype, pd.CategoricalDtype) or not table.index.is_unique:
        raise Unsupported(Refusal.MAPPING_TO_OBJECTS)
    target = physical(dtype)
    complete = table  # pandas drops the missing keys itself, and treats an empty mapping specially
    if skip_missing:
        table = table[table.index.notna()]
    if kind_of(value.dtype) in "mM" and kind_of(table.index.dtype) in "mM" and table.index.dtype != value.dtype:
        raise Unsupported(
            Refusal.MAPPING_KEYS
        )  # pandas raises for values that are out of range in the finer of two units
    keys = _keys(table.index, value)
    if family(value.dtype) == "str" and count_rows(held) == 0:
        raise Unsupported(Refusal.MAPPING_OF_NO_STRINGS)
    if keys is None:
        if family(value.dtype) == "str" or dtype == BOOL:
            raise Unsupported(Refusal.MAPPING_KEYS)
        if kind_of(dtype) in "iu" and any(abs(int(number)) > 2**53 for number in table.dropna()):
            raise Unsupported(
                Refusal.MAPPING_LARGE
            )  # in a batch with missing results pandas would convert them to floats
        action = "ignore" if skip_missing else None
        expr: Expr = batched("method", "map", [value], dtype, (COLUMN, complete), na_action=action).expr
    else:
        results, _, _ = from_array("", table.array)
        expr = Call("map_values", (value.clean.expr, Values.of(keys), Values.of(results)), target)
    if with_missing(dtype) == dtype:
        return Value(expr, dtype, nulls=True, nans=target.is_float() and not distinguishes_nan(dtype))
    return Value(expr, dtype, nulls=True, source=(build.project(held.base, (("mapped", expr),)), "mapped"))


def _table(mapper: Any) -> pd.Series:
    if isinstance(mapper, pd.Series) and len(mapper):
        return pd.Series(mapper.array, index=mapper.index)
    if not isinstance(mapper, (pd.Series, dict)) or hasattr(mapper, "__missing__"):
        raise Unsupported(Refusal.MAPPING_BY_FUNCTION)
    return stand_ins.probe(_series_from_dict, mapper, warned=True)  # type: ignore[no-any-return]


def _series_from_dict(mapper: Any) -> pd.Series:
    if not len(mapper):
        return pd.Series(mapper, dtype=FLOAT64)
    return pd.Series(mapper.values(), index=pd.Index(mapper.keys(), tupleize_cols=False))


def _keys(index: pd.Index, value: Value) -> pl.Series | None:
    """The keys as a Polars series of the column's physical dtype; ``None`` if pandas must compare them with the column."""
    if index.dtype == value.dtype and not index.hasnans and kind_of(value.dtype) in "iuT" and len(index):
        return from_array("", index.array)[0]
    return None


def replaced(value: Value, pairs: list[tuple[Any, Any]]) -> Value:
    """``replace`` of scalars by scalars. A scalar that the column can't hold matches no row.

    Raises
    ------
    Unsupported
        If the dtype would change, or depend on the data.
    """
    if holds_text(value) and all(type(item) is str for pair in pairs for item in pair):
        found = replaced(as_strings(value), pairs)
        return as_objects(found.expr, found.nulls)
    if not value.definite or family(value.dtype) not in ("numpy", "str", "masked"):
        raise Unsupported(Refusal.OPERATION, f"replace of {value.dtype}")
    expr = value.expr
    nulls, nans = value.nulls, value.nans
    try:
        different = len({_key(old) for old, _ in pairs}) == len(pairs)
    except (TypeError, ValueError, ArithmeticError) as error:  # a value without a hash
        raise Unsupported(Refusal.REPLACED_TYPE, type(error).__name__) from error
    if not different:
        raise Unsupported(Refusal.REPLACED_TWICE)
    if any(is_na(new) and not _keeps_dtype(value.dtype, old, new) for old, new in pairs):
        raise Unsupported(Refusal.MISSING_NOT_HELD, value.dtype)
    for old, new in reversed(pairs):
        if not _fits_dtype(old, value.dtype):
            if _never_equal(old, value.dtype):
                continue
            raise Unsupported(Refusal.REPLACED_TYPE, f"{type(old).__name__} in {value.dtype}")
        if not is_na(new) and not _fits_dtype(new, value.dtype):
            raise Unsupported(Refusal.REPLACING_TYPE, f"{type(new).__name__} in {value.dtype}")
        filler = constant(new, value)
        found = is_missing(value) if is_na(old) else binary("eq", value, old)
        expr = Call("when", (found.expr, filler.expr, expr), value.physical)
        nulls = nulls or filler.nulls
    return Value(expr, value.dtype, nulls, nans)


def replaced_by_patterns(value: Value, pairs: list[tuple[Any, Any]]) -> Value:
    """``replace`` with ``regex=True``: of patterns in a column of strings; a column of numbers matches none.

    Raises
    ------
    Unsupported
        If a pattern or its replacement is not a string.
    """
    if any(type(item) is not str for pair in pairs for item in pair):
        raise Unsupported(Refusal.REPLACEMENT_PATTERNS)
    if (found := replaced_by_kernel(value, pairs)) is not None:
        return found
    if not value.definite or not (
        value.dtype == STR or (family(value.dtype) == "numpy" and kind_of(value.dtype) in "iuf")
    ):
        raise Unsupported(Refusal.OPERATION, f"replace of {value.dtype}")
    if value.dtype != STR:
        return value
    old: Any = [old for old, _ in pairs]
    new: Any = [new for _, new in pairs]
    if len(pairs) == 1:
        ((old, new),) = pairs
    few = stand_ins.column(STR, 1)
    if stand_ins.probe(few.replace, old, new, regex=True).dtype != STR:
        raise Unsupported(Refusal.REPLACEMENT_PATTERNS)
    result = batched("method", "replace", [value], value.dtype, (COLUMN, old, new), regex=True)
    return Value(result.expr, value.dtype, nulls=value.nulls)


def _keeps_dtype(dtype: DtypeObj, old: Any, new: Any) -> bool:
    """Whether pandas keeps the dtype of a column in which it replaces one value by a missing one."""
    if not _fits_dtype(old, dtype):
        return True  # no value is replaced
    try:
        return bool(stand_ins.probe(lambda: pd.Series([old], dtype=dtype).replace(old, new).dtype) == dtype)
    except Unsupported:  # pandas raises its own error if the column contains the value
        return False


def _key(old: Any) -> Any:
    return "missing" if is_na(old) else (isinstance(old, str), old)


def _fits_dtype(scalar: Any, dtype: DtypeObj) -> bool:
    kind = kind_of(dtype)
    if isinstance(scalar, (bool, np.bool_)):
        return kind == "b"
    if isinstance(scalar, float) and scalar != scalar:
        return kind == "f" and family(dtype) == "numpy"
    if kind in "iu":
        return type(scalar) is int and -(2**63) <= scalar < 2**63
    if kind == "f":
        return type(scalar) in (int, float)
    if kind == "T":
        return type(scalar) is str
    return kind == "M" and isinstance(scalar, pd.Timestamp) and family(dtype) == "numpy" and scalar is not pd.NaT


def _never_equal(scalar: Any, dtype: DtypeObj) -> bool:
    """Whether the column can't hold anything equal to the scalar, so that nothing is replaced."""
    if family(dtype) != "numpy" or dtype == BOOL:
        return family(dtype) == "str" and type(scalar) in (int, float) and scalar == scalar
    return kind_of(dtype) in "iuf" and type(scalar) is str
