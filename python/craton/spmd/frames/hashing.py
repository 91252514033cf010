"""Hashes of rows by which equal rows meet on one rank.

Values that pandas treats as equal keys have equal hashes, whatever their dtypes: 1, 1.0 and True; all missing values; a category and
its value; a time in any unit. The hashes are the same in all processes and on all machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.util import hash_array

__all__ = ["hash_rows", "ranks_and_rounds", "ranks_by_hash"]

Hashes = npt.NDArray[np.uint64]

_MISSING = np.uint64(0x9E3779B97F4A7C15)
_FACTOR, _SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(31)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def ranks_by_hash(frame: pd.DataFrame, keys: Sequence[Hashable], size: int) -> npt.NDArray[np.int64]:
    """Return the rank that each row belongs to by the hash of its keys."""
    hashes = hash_rows([frame[key] for key in keys], len(frame))
    hashes >>= _HALF
    return _share(hashes, size).astype(np.int64)


def ranks_and_rounds(
    frame: pd.DataFrame, keys: Sequence[Hashable], size: int, rounds: int
) -> npt.NDArray[np.integer[Any]]:
    """Return a number for each row: its round times `size`, plus its rank, which is that of :func:`ranks_by_hash`."""
    hashes = hash_rows([frame[key] for key in keys], len(frame))
    small: Any = np.uint16 if size * rounds <= 1 << 16 else np.int64  # NumPy sorts 16 bits in linear time
    numbers = _share(hashes >> _HALF, size).astype(small)
    if rounds > 1:
        hashes &= _LOW
        numbers += _share(hashes, rounds).astype(small) * small(size)
    return numbers


def _share(halves: Hashes, count: int) -> Hashes:
    """Map numbers of 32 bits to 0, …, count - 1, in place."""
    halves *= np.uint64(count)
    halves >>= _HALF
    return halves


def hash_rows(columns: Sequence[pd.Series], rows: int) -> Hashes:
    """Return the hash of each row of some columns, in an array of its own."""
    if len(columns) == 1:
        return _hash_column(columns[0])
    found = np.full(rows, 0x51ED270B35E1A2C7, np.uint64)
    for column in columns:
        found *= np.uint64(31)
        found += _hash_column(column)
        _mix(found)
    return found


def _mixed(values: Hashes) -> Hashes:
    return _mix(values.copy())


def _mix(values: Hashes) -> Hashes:
    """Mix the bits of each number, in place."""
    values ^= values >> np.uint64(30)
    values *= _FACTOR
    values ^= values >> _SHIFT
    return values


def _hash_column(column: pd.Series) -> Hashes:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy()
        of_categories = _hash_column(column.cat.categories.to_series())
        return np.append(of_categories, _MISSING)[codes]  # the code of a missing value is -1
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return _hash_numbers(column.to_numpy(np.float64))
    missing = column.isna().to_numpy()
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        if pd.api.types.is_complex_dtype(dtype):
            return _filled(_hash_each(column.to_numpy(), missing), missing)
        return _filled(_hash_numbers(column.to_numpy(np.float64, na_value=np.nan)), missing)
    if isinstance(dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        dtype = column.dtype
    if getattr(dtype, "kind", "") in "mM" and isinstance(dtype, np.dtype):
        seconds = column.astype(f"{dtype.kind}8[s]").to_numpy().view(np.int64)  # outside its range, ns would overflow
        return _filled(_mixed(seconds.view(np.uint64)), missing)
    values = column.to_numpy(object)
    if isinstance(dtype, pd.StringDtype) or pd.api.types.infer_dtype(column, skipna=True) == "string":
        return _filled(hash_array(np.where(missing, "", values), categorize=False), missing)
    return _filled(_hash_each(values, missing), missing)


def _filled(hashes: Hashes, missing: npt.NDArray[np.bool_]) -> Hashes:
    if missing.any():
        hashes[missing] = _MISSING
    return hashes


def _hash_numbers(values: npt.NDArray[np.float64]) -> Hashes:
    return _mix((values + 0.0).view(np.uint64))  # 0.0 and -0.0 are equal


def _hash_each(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> Hashes:
    found = np.zeros(len(values), np.uint64)
    for at, value in enumerate(values):
        if not missing[at]:
            found[at] = _hash_object(value)
    return found


def _hash_object(value: Any) -> int:
    if isinstance(value, str):
        return int(hash_array(np.array([value], object), categorize=False)[0])
    if isinstance(value, tuple):
        return _digest(b"(" + b",".join(_hash_object(one).to_bytes(8, "little") for one in value))
    if isinstance(value, bytes):
        return _digest(b"b" + value)
    if isinstance(value, (pd.Timestamp, pd.Timedelta)):
        exact = value.to_datetime64() if isinstance(value, pd.Timestamp) else value.to_timedelta64()
        seconds = exact.astype(f"{exact.dtype.kind}8[s]").view(np.int64)
        return int(_mixed(np.array([seconds]).view(np.uint64))[0])
    try:  # Python's numbers that are equal have equal hashes, and those do not depend on the process
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return _digest(repr(value).encode())
    return int(_hash_numbers(np.array([number]))[0])


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
