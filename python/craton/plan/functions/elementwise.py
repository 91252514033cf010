"""Element-wise functions: missing values, casts, conditions, mappings, Python functions, joined strings."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl

from craton.plan.expr import Expr, Literal, Values, dtype_of
from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.strategies import Spec
from craton.plan.registry import (
    ANY,
    BOOLEANS,
    FLOATS,
    TEXTS,
    Argument,
    Cost,
    NaNs,
    Nulls,
    agreed,
    always,
    cast_to,
)


@rowwise(
    "fill_null",
    signature=(Argument("value", ANY), Argument("filling", ANY)),
    result=agreed(0, 1),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    cost=Cost.VALUES,
)
def _fill_null(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].fill_null(args[1])


@rowwise(
    "fill_nan",
    signature=(Argument("value", FLOATS), Argument("filling", FLOATS)),
    result=agreed(0, 1),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    cost=Cost.VALUES,
)
def _fill_nan(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    filling = spec.args[1]
    if isinstance(filling, Literal) and filling.value is None:
        # Cheaper than fill_nan: one mask. It is null where the value is null, which stays null.
        return pl.when(args[0].is_not_nan()).then(args[0])
    return args[0].fill_nan(args[1])


@rowwise(
    "coalesce",
    signature=(Argument("values", ANY, repeated=True),),
    result=agreed(),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    cost=Cost.VALUES,
)
def _coalesce(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return pl.coalesce(args)


def _may_not_fit(call: Any) -> bool:
    """Whether the target dtype of a cast lacks some values of the source."""
    source, target = call.args[0].dtype, call.dtype
    if source == target or target == pl.String() or source in (pl.Boolean(), pl.Null()):
        return False
    if source.is_float() or source.is_decimal():
        return not target.is_float()
    if source.is_integer() and target.is_integer():
        return not _limits(target)[0] <= _limits(source)[0] <= _limits(source)[1] <= _limits(target)[1]
    if source.is_integer():
        return not target.is_float()
    if source.is_temporal() and target.is_temporal():
        return target != pl.Date()
    return not (source.is_temporal() and target == pl.Int64())


def _limits(dtype: pl.DataType) -> tuple[int, int]:
    """The least and the greatest integer of a dtype."""
    bits = int("".join(filter(str.isdigit, str(dtype))))
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.is_signed_integer() else (0, 2**bits - 1)


@rowwise(
    "cast",
    signature=(Argument("value", ANY),),
    result=cast_to(ANY, lambda dtypes: dtypes[0]),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.VALUES,
    cost=Cost.VALUES,
    raises=lambda call: not dict(call.options).get("wrap", False) and _may_not_fit(call),
)
def _cast(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    wrap = bool(spec.option("wrap", False))
    return args[0].cast(spec.dtype, wrap_numerical=wrap)


@rowwise(
    "when",
    signature=(Argument("condition", BOOLEANS), Argument("then", ANY), Argument("otherwise", ANY)),
    result=agreed(1, 2),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    cost=Cost.VALUES,
)
def _when(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    condition, then, otherwise = args
    return pl.when(condition).then(then).otherwise(otherwise)


@rowwise(
    "map_values",
    signature=(Argument("value", ANY), Argument("keys", ANY, scalar=True), Argument("values", ANY, scalar=True)),
    result=cast_to(ANY, lambda dtypes: dtypes[2]),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    cost=Cost.TEXTS,
)
def _map_values(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``map_values(x, keys, values)``: the value at the position of the equal key, null if no key is equal."""
    keys, values = spec.args[1:]
    texts = _distinct_texts(keys)
    if texts is not None and isinstance(values, Values):
        # A lookup of the text's number takes half the time of the join that replace_strict makes.
        number = args[0].cast(pl.Enum(texts), strict=False).to_physical()
        made = values.series.cast(spec.dtype)
        if made.dtype.is_integer() and made.equals(pl.Series(range(len(made)), dtype=made.dtype)):
            return number.cast(spec.dtype)
        return number.map_batches(partial(_gathered, made), return_dtype=spec.dtype, is_elementwise=True)
    lookup = _lookup_table(spec) if isinstance(values, Values) else None
    if lookup is not None:
        return args[0].map_batches(partial(_looked_up, *lookup), return_dtype=spec.dtype, is_elementwise=True)
    if isinstance(dtype_of(spec.args[0]), (pl.Categorical, pl.Enum)):
        args = [args[0].cast(pl.String), *args[1:]]
    return args[0].replace_strict(args[1], args[2], default=None, return_dtype=spec.dtype)


#: The most entries of a table of few keys; and the magnitude from which integers, less a key, may overflow.
_SMALL_TABLE, _FAR = 1 << 16, 1 << 62


def _gathered(values: pl.Series, numbers: pl.Series) -> pl.Series:
    return values.gather(numbers)


def _lookup_table(spec: Spec) -> tuple[int, pl.Series] | None:
    """The least key, and the values of all integers from it on, if keys and the mapped values are integers, and keys lie close together."""
    _, keys, values = spec.args
    if not dtype_of(spec.args[0]).is_integer() or not isinstance(keys, Values) or not keys.dtype.is_integer():
        return None
    numbers = keys.series
    if not len(numbers) or numbers.null_count() or numbers.is_duplicated().any():
        return None
    low, high = int(numbers.min()), int(numbers.max())  # type: ignore[arg-type]
    if not -_FAR < low <= high < _FAR or high - low >= max(_SMALL_TABLE, 4 * len(numbers)):
        return None
    places = np.full(high - low + 1, len(numbers), dtype=np.uint32)
    places[numbers.to_numpy().astype(np.int64) - low] = np.arange(len(numbers), dtype=np.uint32)
    given = values.series.cast(spec.dtype)  # type: ignore[attr-defined]
    return low, given.extend_constant(None, 1).gather(np.append(places, np.uint32(len(numbers))))


def _looked_up(low: int, table: pl.Series, numbers: pl.Series) -> pl.Series:
    """The values of integers in a table that begins with that of `low`, and ends with a null for all others."""
    absent = len(table) - 1
    places = numbers.cast(pl.Int64, strict=False).fill_null(low - 1).to_numpy() - low  # before the table: negative
    return table.gather(np.minimum(places.view(np.uint64), np.uint64(absent)).astype(np.uint32)).alias(numbers.name)


def _distinct_texts(keys: Expr) -> pl.Series | None:
    """The texts that ``map_values`` maps; None if it maps other values, or a missing one."""
    if not isinstance(keys, Values) or keys.dtype != pl.String():
        return None
    texts = keys.series
    return texts if len(texts) and texts.null_count() == 0 and not texts.is_duplicated().any() else None


@rowwise(
    "batch",
    signature=(Argument("columns", ANY, optional=True, repeated=True),),
    result=cast_to(ANY, lambda dtypes: dtypes[0]),
    nulls=Nulls.VALUES,
    nans=NaNs.VALUES,
    cost=Cost.PYTHON,
    raises=lambda call: True,
)
def _batch(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``payload.run(columns)`` on each batch of rows."""
    run = spec.payload.run  # type: ignore[union-attr]
    return pl.map_batches(args, run, return_dtype=spec.dtype, is_elementwise=True)


@rowwise(
    "concat_str",
    signature=(Argument("texts", TEXTS, repeated=True),),
    result=always(pl.String()),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.NOT_ACCEPTED,
    cost=Cost.TEXTS,
)
def _concat_str(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The strings joined; null if one is null."""
    return pl.concat_str(args, separator=spec.option("separator", ""))
