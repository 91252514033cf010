"""The ``filters`` of ``read_parquet`` as predicates of a plan.

pyarrow applies them, so its rules hold: which types it compares, to which it casts them, what it makes of NaN, and when it
raises an error. What is planned is the common part, in which a column and its operands are of one kind and the kernel
certainly finds the same rows; all else is refused, so that pandas itself finds them, or raises, at the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.types as kinds

from craton.errors import Unsupported
from craton.plan.expr import Call, Column, Expr, Literal, Values, conjunction
from craton.plan.operators import Scan
from craton.records import dataclass
from craton.refusals import Refusal

_OPERATORS = {"=": "eq", "==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}
_LISTS = (list, tuple, set, frozenset, np.ndarray, pd.Series, pd.Index)
#: The least and the largest normal float of 32 bits.
_IN_FLOAT32 = float(np.finfo("float32").tiny), float(np.finfo("float32").max)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class Filtered:
    """What filters are applied to.

    Parameters
    ----------
    base
        The scan of the files.
    schema
        Their columns in Arrow's types.
    files
        Local files whose footers can be read again; empty if there are none.
    """

    base: Scan
    schema: pa.Schema
    files: tuple[str, ...]


def predicate(table: Filtered, filters: Any) -> Expr:
    """The rows that filters in disjunctive normal form leave: null never matches.

    Raises
    ------
    Unsupported
        For what pyarrow does not take, or may understand in another way.
    """
    if not isinstance(filters, list) or not filters:
        raise Unsupported(Refusal.PARAMETER, "filters")
    groups = [filters] if isinstance(filters[0], tuple) else filters
    anyof: Expr | None = None
    for group in groups:
        if not isinstance(group, list) or not group or not all(map(_is_entry, group)):
            raise Unsupported(Refusal.PARAMETER, "filters")
        every = conjunction([_condition(table, *entry) for entry in group])
        anyof = every if anyof is None else Call("or", (anyof, every), pl.Boolean())
    assert anyof is not None
    return anyof


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, tuple) and len(entry) == 3 and isinstance(entry[0], str) and isinstance(entry[1], str)


def _condition(table: Filtered, name: str, symbol: str, operand: Any) -> Expr:
    if table.schema.names.count(name) != 1:
        raise Unsupported(Refusal.FILTER_COLUMN, repr(name))
    kind = table.schema.field(name).type
    dtype = dict(table.base.source.columns).get(name)
    if dtype is None or dtype != _held_as(kind):
        raise Unsupported(Refusal.FILTER_KIND, kind)
    column = Column(name, dtype)
    if (
        dtype == pl.UInt64()
    ):  # pyarrow compares these as signed ones, or raises an error, by what a file's statistics say
        raise Unsupported(Refusal.FILTER_KIND, kind)
    if symbol == "not in":
        raise Unsupported(Refusal.FILTER_NOT_IN)
    if symbol == "in":
        return Call("is_in", (column, Values.of(_members(operand, dtype))), pl.Boolean())
    if symbol not in _OPERATORS:
        raise Unsupported(Refusal.FILTER_OPERATOR, repr(symbol))
    constant = _constant(operand, dtype)
    if dtype.is_float() and symbol == "!=":
        _keeps_nan(table.files, name, constant.value)
    compared: Expr = column if constant.dtype == dtype else Call("cast", (column,), constant.dtype)
    test: Expr = Call(_OPERATORS[symbol], (compared, constant), pl.Boolean())
    if dtype.is_float() and symbol in (">", ">="):
        test = conjunction([test, Call("is_not_nan", (column,), pl.Boolean())])
    return test


def _held_as(kind: pa.DataType) -> pl.DataType | None:
    """The kernel's dtype for a type whose filters are planned; None for the others."""
    if kinds.is_dictionary(kind):  # a partition
        kind = kind.value_type
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return pl.String()
    if kinds.is_timestamp(kind) and kind.unit != "s":
        return pl.Datetime(kind.unit, kind.tz)
    return _KINDS.get(kind)


_KINDS: dict[pa.DataType, pl.DataType] = {
    pa.bool_(): pl.Boolean(),
    pa.int8(): pl.Int8(),
    pa.int16(): pl.Int16(),
    pa.int32(): pl.Int32(),
    pa.int64(): pl.Int64(),
    pa.uint8(): pl.UInt8(),
    pa.uint16(): pl.UInt16(),
    pa.uint32(): pl.UInt32(),
    pa.uint64(): pl.UInt64(),
    pa.float32(): pl.Float32(),
    pa.float64(): pl.Float64(),
    pa.date32(): pl.Date(),
}


# ---- one operand ----


def _constant(operand: Any, dtype: pl.DataType) -> Literal:
    """An operand as a constant of the column's dtype; of 64 bits, if it lies between two floats of the column's.

    Raises
    ------
    Unsupported
        If pyarrow takes it for something of another kind, for null or for NaN.
    """
    try:
        scalar = pa.scalar(operand)
        value = scalar.value if kinds.is_timestamp(scalar.type) else scalar.as_py()
    except Exception as error:
        raise Unsupported(Refusal.FILTER_OPERAND, repr(operand)) from error
    if value is not None and _is_kind(scalar.type, dtype):
        if isinstance(dtype, pl.Datetime):
            ticks = _in_unit(np.array([value], dtype=object), scalar.type.unit, dtype.time_unit)
            if ticks is not None:
                return Literal(pd.Timestamp(ticks[0], unit=dtype.time_unit, tz=dtype.time_zone), dtype)
        elif dtype.is_float():
            if _float_holds(value, dtype):
                wide = dtype == pl.Float32() and float(np.float32(value)) != value
                return Literal(float(value), pl.Float64() if wide else dtype)
        elif not dtype.is_integer() or _integer_holds(value, value, dtype):
            return Literal(value, dtype)
    raise Unsupported(Refusal.FILTER_OPERAND, repr(operand))


def _is_kind(kind: pa.DataType, dtype: pl.DataType) -> bool:
    """Whether pyarrow compares values of a type with a column without a cast that changes either."""
    if dtype.is_integer():
        return kinds.is_integer(kind)
    if dtype.is_float():
        return kinds.is_integer(kind) or kinds.is_float32(kind) or kinds.is_float64(kind)
    if isinstance(dtype, pl.Datetime):
        return kinds.is_timestamp(kind) and kind.tz == dtype.time_zone
    return _held_as(kind) == dtype and not kinds.is_dictionary(kind)


def _integer_holds(least: int, most: int, dtype: pl.DataType) -> bool:
    bounds = np.iinfo(str(dtype).lower())
    return bool(bounds.min <= least and most <= bounds.max)


def _float_holds(value: Any, dtype: pl.DataType) -> bool:
    """Whether a number is no NaN, and one that pyarrow casts to the column's floats."""
    if isinstance(value, int):
        return abs(value) <= _most(dtype)
    return value == value and (
        dtype == pl.Float64() or abs(value) in (0, np.inf) or _IN_FLOAT32[0] <= abs(value) <= _IN_FLOAT32[1]
    )


def _most(dtype: pl.DataType) -> int:
    """The integer up to which floats hold every one."""
    return 1 << 24 if dtype == pl.Float32() else 1 << 53


def _in_unit(ticks: Any, given: str, unit: str) -> Any:
    """Points in time in another unit; None if they have no place there."""
    there, here = _UNITS[unit], _UNITS[given]
    moved = ticks * (there // here) if there >= here else ticks // (here // there)
    back = moved if there >= here else moved * (here // there)
    bounds = np.iinfo("int64")
    if (there < here and any(back != ticks)) or any(moved > bounds.max) or any(moved <= bounds.min):
        return None
    return [int(value) for value in moved]


def _keeps_nan(files: Sequence[str], name: str, value: float) -> None:
    """Refuse ``!=`` where pyarrow leaves out NaN.

    It skips a row group of which the statistics say that all values are the operand; they say nothing of NaN.
    """
    import pyarrow.parquet as pq

    if not files:
        raise Unsupported(Refusal.FILTER_NAN)
    for path in files:
        metadata = pq.read_metadata(path)
        places = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for found in (group.column(place).statistics for place in places):
                if found is not None and found.has_min_max and found.min == value == found.max:
                    raise Unsupported(Refusal.FILTER_NAN)


# ---- lists of operands ----


def _members(operand: Any, dtype: pl.DataType) -> pl.Series:
    """The operands of ``in`` in the column's dtype.

    Raises
    ------
    Unsupported
        If pyarrow takes them for values of another kind, or nulls, NaN or zeros (whose signs it tells apart) are among them.
    """
    if not isinstance(operand, _LISTS):
        raise Unsupported(Refusal.FILTER_OPERAND, repr(operand))
    try:
        found = pa.array(operand)
    except Exception as error:
        raise Unsupported(Refusal.FILTER_OPERAND, repr(operand)) from error
    if len(found) and not found.null_count and _is_kind(found.type, dtype):
        members = _cast_members(found, dtype)
        if members is not None:
            return members
    raise Unsupported(Refusal.FILTER_OPERAND, repr(operand))


def _cast_members(found: Any, dtype: pl.DataType) -> pl.Series | None:
    if isinstance(dtype, pl.Datetime):
        given = np.array(found.cast(pa.int64()).to_pylist(), dtype=object)
        ticks = _in_unit(given, found.type.unit, dtype.time_unit)
        return None if ticks is None else pl.Series(ticks, dtype=pl.Int64()).cast(dtype)
    series = pl.Series(found.to_pylist() if kinds.is_string(found.type) else pl.from_arrow(found))
    if dtype.is_integer():
        return series.cast(dtype) if _integer_holds(series.min(), series.max(), dtype) else None  # type: ignore[arg-type]
    if dtype.is_float():
        if series.dtype.is_integer() and not _integer_floats(series, dtype):
            return None
        if series.dtype.is_float() and series.is_nan().any():
            return None
        cast = series.cast(dtype)
        return None if (cast.cast(pl.Float64()) != series.cast(pl.Float64())).any() or (cast == 0).any() else cast
    return series.cast(dtype)


def _integer_floats(series: pl.Series, dtype: pl.DataType) -> bool:
    least, most = int(series.min()), int(series.max())  # type: ignore[arg-type]
    return -_most(dtype) <= least and most <= _most(dtype)
