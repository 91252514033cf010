"""Stand-ins: small pandas objects with the labels and dtypes of planned ones, on which pandas' methods are called.

The result of a call on a stand-in shows the class, dtype, labels and names of the real result, or the error that pandas raises,
for the cost of a call on a few rows. So dtype promotion, naming and error messages are pandas' own everywhere. This is the only
module that calls pandas for this purpose.

Stand-ins and results are cached under everything that may change them: the exact type of an argument, the sign of a zero, the unit
and time zone of a timestamp, the order of categories. Calls with arguments for which there is no such key are repeated each time.
"""

from __future__ import annotations

import datetime as dt
import enum
import types
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas._config.config import _global_config

from craton import warning_filters
from craton.errors import Unsupported
from craton.pandas.core.array_conversion import Array
from craton.pandas.core.dtypes import OBJECT, DtypeObj, kind_of
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.refusals import Refusal

#: The number of rows of stand-ins of frames and series.
ROWS = 2
#: A dtype with more categories has no key, so its stand-ins are not cached.
_CATEGORIES = 100


# -- calls ------------------------------------------------------------------------------------------------------------


def probe(call: Callable[..., Any], *args: Any, about: str = "", warned: bool = False, **kwargs: Any) -> Any:
    """Call pandas on stand-ins and return the result; an error or a warning becomes a refusal.

    Parameters
    ----------
    call
        A function of pandas, or one that calls pandas.
    about
        A prefix of the refusal's text.
    warned
        Whether pandas' warnings are shown to the user by this call; otherwise a warning is a refusal.

    Raises
    ------
    Unsupported
        If the call raises or warns. pandas then runs on the data, and raises or warns for it.
    """
    try:
        if warned:  # if the call raises, it falls back and pandas warns then
            found, warns = warning_filters.detect_warnings(lambda: call(*args, **kwargs))
            return call(*args, **kwargs) if warns else found
        with warning_filters.raising():
            return call(*args, **kwargs)
    except Unsupported:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise Unsupported(Refusal.ERROR_OF_PANDAS, f"{about}: {message}" if about else message) from error


def result(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call pandas on a stand-in whose result is the result for the user: warnings are dropped, errors are raised to the user."""
    with warning_filters.ignoring():
        return call(*args, **kwargs)


def cached(key: tuple[Hashable, ...], call: Callable[[], Any]) -> Any:
    """The cached result of a call, which is made if the key is new. Callers must not change the result.

    Parameters
    ----------
    key
        The first part is a word that only this caller uses. Arguments of users are converted by :func:`cache_key`.
    """
    return _cached_result(_CachedCall(key, call))


def probe_cached(word: str, arguments: Sequence[Any], call: Callable[[], Any], about: str = "") -> Any:
    """As :func:`probe`, cached under a word that only this caller uses and the arguments, if these have a key."""
    try:
        key = (word, *map(cache_key, arguments))
    except TypeError:
        return probe(call, about=about)
    return cached(key, lambda: probe(call, about=about))


_CONFIGURED: Any = _global_config
#: The groups of pandas' options that affect results.
_RELEVANT_OPTIONS = ("future", "mode", "compute")


class _CachedCall:
    """A call that is identified by its key and pandas' options."""

    __slots__ = ("call", "hash", "key")

    def __init__(self, key: tuple[Hashable, ...], call: Callable[[], Any]) -> None:
        key = (*key, *[tuple(_CONFIGURED[group].values()) for group in _RELEVANT_OPTIONS])
        self.key = key
        self.call: Callable[[], Any] | None = call
        self.hash = hash(key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CachedCall) and self.key == other.key


@lru_cache(maxsize=4096)
def _cached_result(question: _CachedCall) -> Any:
    call = question.call
    question.call = None  # so that the cache does not keep alive what the call refers to
    assert call is not None
    return call()


_HASHABLE_TYPES = frozenset([str, bytes, int, bool, type(None), type(pd.NA), type(pd.NaT), type(...), dt.date, dt.time])
_HASHABLE_CLASSES = (
    enum.Enum,
    np.ufunc,
    pd.Interval,
    pd.Period,
    pd.offsets.BaseOffset,
    type,
    types.BuiltinFunctionType,
)


def cache_key(value: Any) -> Hashable:
    """A hashable key of an argument or dtype; pandas treats values with equal keys alike.

    Raises
    ------
    TypeError
        If there is none, because the value is mutable or of an unknown class.
    """
    kind = type(value)
    if kind in _HASHABLE_TYPES:
        return kind, value
    if kind is list or kind is tuple:
        return (kind, *map(cache_key, value))
    if kind is dict:
        return (kind, *((cache_key(key), cache_key(item)) for key, item in value.items()))
    if isinstance(value, (np.dtype, pd.api.extensions.ExtensionDtype)):
        return _dtype_key(value)
    if isinstance(value, (float, complex, np.inexact)):
        return kind, repr(value)  # distinguishes 0.0 and -0.0, and a NaN equals itself
    if isinstance(value, dt.datetime):
        return kind, str(value), getattr(value, "unit", None), type(value.tzinfo), str(value.tzinfo), value.fold
    if isinstance(value, dt.timedelta):
        return kind, value, getattr(value, "unit", None)
    if isinstance(value, np.generic):
        return kind, value.dtype, str(value)
    if isinstance(value, pd.NamedAgg):
        return kind, cache_key(value.column), cache_key(value.aggfunc), cache_key(value.args), cache_key(value.kwargs)
    if isinstance(value, _HASHABLE_CLASSES):
        return kind, value
    raise TypeError(f"a value of type {kind.__name__} has no key")


def _dtype_key(dtype: DtypeObj) -> Hashable:
    """The key of a dtype; some dtypes compare equal although they differ."""
    if isinstance(dtype, pd.CategoricalDtype):
        categories = dtype.categories
        if categories is None:
            return pd.CategoricalDtype, None, dtype.ordered
        if len(categories) > _CATEGORIES:
            raise TypeError(f"a dtype with more than {_CATEGORIES} categories has no key")
        return pd.CategoricalDtype, cache_key(categories.dtype), dtype.ordered, *map(cache_key, categories)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.DatetimeTZDtype, dtype.unit, type(dtype.tz), str(dtype.tz)
    return dtype


# -- columns ----------------------------------------------------------------------------------------------------------


def column(dtype: DtypeObj, filled: int = 0, missing: int = 0) -> pd.Series:
    """A column of a dtype: some ones (or ``"a"``, or the epoch, or the first category), then some missing values.

    If the dtype has no such value, all values are missing. Callers may change the column.

    Raises
    ------
    Unsupported
        If `missing` is not 0 and the dtype cannot hold missing values.
    """
    if missing and isinstance(dtype, np.dtype) and dtype.kind in "iub":
        raise Unsupported(Refusal.MISSING_NOT_HELD, dtype)
    try:
        key = ("column", cache_key(dtype), filled, missing)
    except TypeError:
        return _column(dtype, filled, missing)
    return cached(key, lambda: _column(dtype, filled, missing)).copy(deep=False)  # type: ignore[no-any-return]


def _column(dtype: DtypeObj, filled: int, missing: int) -> pd.Series:
    if isinstance(dtype, pd.CategoricalDtype) and dtype.categories is not None:
        first = 0 if len(dtype.categories) else -1
        return pd.Series(pd.Categorical.from_codes([first] * filled + [-1] * missing, dtype=dtype))
    kind = kind_of(dtype)
    if kind in "mM":
        return pd.Series([_epoch(dtype, kind)] * filled + [pd.NaT] * missing, dtype=dtype)
    one: Any = "a" if kind == "T" else True if kind == "b" else b"a" if _holds_bytes(dtype) else 1
    if filled and isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype, pd.CategoricalDtype)):
        one = None
    try:
        return pd.Series([one] * filled + [None] * missing, dtype=dtype)
    except (pa.ArrowException, ValueError, TypeError):
        return pd.Series([None] * (filled + missing), dtype=dtype)


def _epoch(dtype: DtypeObj, kind: str) -> Any:
    if kind == "m":
        return pd.Timedelta(0)
    return pd.Timestamp(0, tz=getattr(dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else dtype, "tz", None))


def _holds_bytes(dtype: DtypeObj) -> bool:
    kind = dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else None
    return kind is not None and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def values(dtype: DtypeObj) -> Array:
    """Two equal values of a dtype; none is missing.

    Raises
    ------
    Unsupported
        If no such value can be made.
    """
    found = probe(column, dtype, ROWS)._values
    if dtype == OBJECT or found.dtype != dtype or pd.isna(found).any():
        raise Unsupported(Refusal.SAMPLE_OF_DTYPE, dtype)
    return found  # type: ignore[no-any-return]


# -- frames and series ------------------------------------------------------------------------------------------------


def columns(dtypes: Sequence[DtypeObj]) -> pd.DataFrame:
    """A frame without rows, whose columns have these dtypes and are labelled 0, 1, ..."""
    return pd.DataFrame({i: column(dtype) for i, dtype in enumerate(dtypes)})


def without_rows(labels: pd.Index) -> pd.DataFrame:
    """A frame with these column labels and no rows."""
    return pd.DataFrame(columns=labels)


def positions(labels: pd.Index) -> pd.DataFrame:
    """A frame of one row, in which each column holds its own position: a selection of columns from it shows which were selected."""
    frame = pd.DataFrame(np.arange(len(labels)).reshape(1, -1))
    frame.columns = labels
    return frame


def index_like(held: View) -> pd.Index:
    """An Index with the names and dtypes of a view's row labels."""
    spec = held.index
    arrays = [_labels_like(value) for value in spec.values]
    if spec.kind == "multi":
        return pd.MultiIndex.from_arrays(arrays, names=list(spec.names))
    if spec.kind == "labels":
        return pd.Index(arrays[0], name=spec.names[0], dtype=spec.values[0].dtype)
    return pd.RangeIndex(ROWS, name=spec.names[0])


def _labels_like(value: Value) -> Array:
    """Two equal labels of a dtype; of labels that a plan carries, those of a row."""
    if isinstance(value.expr, ObjectColumn) and len(value.expr.objects):
        return value.expr.objects.take([0] * ROWS)  # type: ignore[no-any-return]
    return values(value.dtype)


def frame_like(held: View) -> pd.DataFrame:
    """A DataFrame with the labels and dtypes of a view's columns: two equal rows."""
    found = dict(enumerate(values(value.dtype) for value in held.values))
    frame = pd.DataFrame(found, index=index_like(held), copy=False)
    frame.columns = held.labels
    return frame


def series_like(held: View) -> pd.Series:
    """A Series with the name and dtype of a one-column view: two equal rows."""
    (value,) = held.values
    return pd.Series(values(value.dtype), index=index_like(held), name=held.labels[0], copy=False)
