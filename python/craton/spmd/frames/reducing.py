"""Reductions of distributed frames and columns to values that all ranks get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from craton.pandas.core.counterparts import as_pandas
from craton.spmd.frames.hashing import ranks_by_hash
from craton.spmd.frames.parts import agreed, exchange, joined

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = ["count", "max", "mean", "min", "nunique", "std", "sum", "var"]


def sum(frame: Any, *, skipna: bool = True, numeric_only: bool = False, min_count: int = 0, env: Environment) -> Any:
    """Return the sum of each column, or of one column, as pandas does. All ranks call it, and get the same.

    Only the last digits of sums of floats may differ from pandas'.

    Parameters
    ----------
    frame
        The rank's part of a frame or column.
    skipna
        Leave out missing values.
    numeric_only
        Leave out columns that are not numbers.
    min_count
        The fewest values without which the result is missing.
    env
        The environment of the rank.
    """
    part, single = _part(env, frame, numeric_only)
    sums = _gathered(env, _row(part, "sum", skipna=skipna))
    result = sums.sum(skipna=skipna)
    if min_count > 0:
        numbers = _gathered(env, _row(part, "count")).sum()
        result = result.where(numbers >= min_count)
    return _result(result, single)


def mean(frame: Any, *, skipna: bool = True, numeric_only: bool = False, env: Environment) -> Any:
    """Return the mean of each column, or of one column, as pandas does; see :func:`sum`."""
    part, single = _part(env, frame, numeric_only)
    if not _is_summed(env, part):
        return _result(joined(env.comm.allgather(part)).mean(skipna=skipna), single)
    expected = part.iloc[:0].mean(skipna=skipna)
    means, _ = _means(env, _floats(part), skipna)
    return _result(means.astype(expected.dtype), single)


def var(frame: Any, *, ddof: int = 1, skipna: bool = True, numeric_only: bool = False, env: Environment) -> Any:
    """Return the variance of each column, or of one column, as pandas does; see :func:`sum`.

    Parameters
    ----------
    frame
        The rank's part of a frame or column.
    ddof
        What is subtracted from the number of values to get the divisor.
    skipna
        Leave out missing values.
    numeric_only
        Leave out columns that are not numbers.
    env
        The environment of the rank.
    """
    return _spread(env, frame, "var", ddof, skipna, numeric_only)


def std(frame: Any, *, ddof: int = 1, skipna: bool = True, numeric_only: bool = False, env: Environment) -> Any:
    """Return the standard deviation of each column, or of one column, as pandas does; see :func:`var`."""
    return _spread(env, frame, "std", ddof, skipna, numeric_only)


def min(frame: Any, *, skipna: bool = True, numeric_only: bool = False, env: Environment) -> Any:
    """Return the least value of each column, or of one column, as pandas does; see :func:`sum`."""
    return _extreme(env, frame, "min", skipna, numeric_only)


def max(frame: Any, *, skipna: bool = True, numeric_only: bool = False, env: Environment) -> Any:
    """Return the greatest value of each column, or of one column, as pandas does; see :func:`sum`."""
    return _extreme(env, frame, "max", skipna, numeric_only)


def count(frame: Any, *, env: Environment) -> Any:
    """Return the number of values of each column, or of one column, that are not missing, as pandas does; see :func:`sum`."""
    part, single = _part(env, frame, False)
    result = _gathered(env, _row(part, "count")).sum()
    return _result(result.astype(np.int64), single)


def nunique(frame: Any, *, dropna: bool = True, env: Environment) -> Any:
    """Return the number of distinct values of each column, or of one column, as pandas does; see :func:`sum`.

    Parameters
    ----------
    frame
        The rank's part of a frame or column.
    dropna
        Do not count missing values.
    env
        The environment of the rank.
    """
    part, single = _part(env, frame, False)
    numbers = []
    for at in range(part.shape[1]):
        distinct = part.iloc[:, [at]].drop_duplicates()
        name = distinct.columns[0]
        own = exchange(env, distinct, ranks_by_hash(distinct, [name], env.world_size))
        numbers.append(int(own.iloc[:, 0].nunique(dropna=dropna)))
    totals = np.sum(env.comm.allgather(numbers), axis=0, dtype=np.int64)
    return _result(pd.Series(totals, index=part.columns), single)


def _spread(env: Environment, frame: Any, how: str, ddof: int, skipna: bool, numeric_only: bool) -> Any:
    part, single = _part(env, frame, numeric_only)
    if not _is_summed(env, part):
        return _result(getattr(joined(env.comm.allgather(part)), how)(ddof=ddof, skipna=skipna), single)
    expected = getattr(part.iloc[:0], how)(ddof=ddof, skipna=skipna)
    floats = _floats(part)
    means, numbers = _means(env, floats, skipna)
    squares = pd.concat([(floats.iloc[:, at] - means.iloc[at]) ** 2 for at in range(part.shape[1])], axis=1)
    sums = _gathered(env, _row(squares, "sum", skipna=skipna)).sum(skipna=skipna)
    results = [_quotient(sums.iloc[at], numbers.iloc[at] - ddof, dtype) for at, dtype in enumerate(part.dtypes)]
    result = pd.Series(results, index=part.columns)
    return _result((result**0.5 if how == "std" else result).astype(expected.dtype), single)


def _quotient(total: Any, divisor: int, dtype: Any) -> Any:
    """Divide squares by their number less the degrees of freedom; with too few of them, pandas' masked dtypes divide by zero."""
    if divisor > 0 or pd.isna(total):
        return total / divisor
    masked = hasattr(dtype, "numpy_dtype") and not hasattr(dtype, "pyarrow_dtype")
    return np.inf if masked and total else pd.NA if not isinstance(dtype, np.dtype) else np.nan


def _is_summed(env: Environment, part: pd.DataFrame) -> bool:
    """Whether sums of the parts' numbers give a result; else the parts are brought together."""
    kinds = [pd.api.types.is_numeric_dtype(dtype) and getattr(dtype, "kind", "") != "c" for dtype in part.dtypes]
    return env.world_size > 1 and bool(kinds) and all(kinds)


def _floats(part: pd.DataFrame) -> pd.DataFrame:
    kinds = [np.dtype(np.float64) if isinstance(dtype, np.dtype) else "Float64" for dtype in part.dtypes]
    columns = [part.iloc[:, at].astype(kind) for at, kind in enumerate(kinds)]
    return pd.concat(columns, axis=1)


def _means(env: Environment, floats: pd.DataFrame, skipna: bool) -> tuple[pd.Series, pd.Series]:
    """Return the mean of each column, and the number of values that are not missing."""
    sums = _gathered(env, _row(floats, "sum", skipna=skipna)).sum(skipna=skipna)
    numbers = _gathered(env, _row(floats, "count")).sum()
    return sums / numbers, numbers


def _part(env: Environment, frame: Any, numeric_only: bool) -> tuple[pd.DataFrame, bool]:
    single = isinstance(frame, pd.Series)
    if not single and not isinstance(frame, pd.DataFrame):
        raise TypeError(f"expected a DataFrame or a Series with the rank's rows, not {type(frame).__name__}")
    part = as_pandas(frame)
    (part,) = agreed(env, part.to_frame() if single else part)
    return (part.select_dtypes(["number", "bool"]) if numeric_only else part), single


def _row(part: pd.DataFrame, how: str, **options: Any) -> pd.DataFrame:
    """Reduce each column by itself, so that each result has the dtype of its column's reductions."""
    columns = []
    for at in range(part.shape[1]):
        column = part.iloc[:, at]
        value = getattr(column, how)(**options)
        dtype = column.dtype
        if how == "count":
            dtype = np.dtype(np.int64)
        elif how == "sum" and getattr(dtype, "kind", "") in ("b", "i", "u"):
            name = "uint64" if dtype.kind == "u" else "int64"
            dtype = np.dtype(name) if isinstance(dtype, np.dtype) else ("UInt64" if dtype.kind == "u" else "Int64")
        columns.append(pd.Series([value], dtype=dtype, name=column.name))
    return pd.concat(columns, axis=1) if columns else pd.DataFrame(index=[0])


def _gathered(env: Environment, row: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(env.comm.allgather(row), ignore_index=True)


def _extreme(env: Environment, frame: Any, how: str, skipna: bool, numeric_only: bool) -> Any:
    part, single = _part(env, frame, numeric_only)
    rows = env.comm.allgather(_row(part, how, skipna=skipna) if len(part) else part.iloc[:0])
    found = joined(rows)
    if not len(found):
        found = part.iloc[:0]
    return _result(getattr(found, how)(skipna=skipna), single)


def _result(result: pd.Series, single: bool) -> Any:
    return result.iloc[0] if single else result
