"""Tiny pandas objects that look like a view: same labels, dtypes, index names; two equal rows of arbitrary values.

What a method returns for them tells the class, labels, names and dtypes of the real result, and which error a bad call
raises, in pandas' own words, for the cost of a call on two rows.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from craton.errors import Unsupported
from craton.pandas.convert import Array
from craton.pandas.dtypes import DtypeObj, cached_by_dtype
from craton.pandas.view import View

ROWS = 2


@cached_by_dtype
def sample(dtype: DtypeObj) -> Array:
    """Two equal values of a dtype; none is missing.

    Raises
    ------
    Unsupported
        If there is no such value.
    """
    if isinstance(dtype, np.dtype):
        if dtype.kind in "biuf":
            return np.ones(ROWS, dtype=dtype)
        if dtype.kind in "mM":
            return pd.array(np.ones(ROWS, dtype="i8").view(dtype))
    elif isinstance(dtype, pd.CategoricalDtype):
        if dtype.categories is not None and len(dtype.categories):
            return pd.Categorical.from_codes([0] * ROWS, dtype=dtype)
    elif isinstance(dtype, pd.StringDtype):
        return pd.array(["a"] * ROWS, dtype=dtype)
    elif isinstance(dtype, pd.DatetimeTZDtype):
        return pd.array([pd.Timestamp(0, tz=dtype.tz)] * ROWS, dtype=dtype)
    elif isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        values = pa.array(["a" if text else 1] * ROWS)
        if pa.types.is_date32(kind):
            values = values.cast(pa.int32())
        return pd.arrays.ArrowExtensionArray(pa.chunked_array([values]).cast(kind))
    elif hasattr(dtype, "numpy_dtype"):
        return pd.array([1] * ROWS, dtype=dtype)
    raise Unsupported(f"no sample of dtype {dtype}")


def index_like(held: View) -> pd.Index:
    """An index with the names and dtypes of a view's."""
    spec = held.index
    arrays = [sample(value.dtype) for value in spec.values]
    if spec.kind == "multi":
        return pd.MultiIndex.from_arrays(arrays, names=list(spec.names))
    if spec.kind == "labels":
        return pd.Index(arrays[0], name=spec.names[0])
    return pd.RangeIndex(ROWS, name=spec.names[0])


def frame_like(held: View) -> pd.DataFrame:
    """A DataFrame with the labels and dtypes of a view's columns."""
    columns = dict(enumerate(sample(value.dtype) for value in held.values))
    frame = pd.DataFrame(columns, index=index_like(held), copy=False)
    frame.columns = held.labels
    return frame


def series_like(held: View) -> pd.Series:
    """A Series with the name and dtype of a one-column view."""
    (value,) = held.values
    return pd.Series(sample(value.dtype), index=index_like(held), name=held.labels[0], copy=False)


def ask(call: Callable[[], Any]) -> Any:
    """What pandas returns for a template.

    Raises
    ------
    Unsupported
        If it raises or warns: then it does so too for the data.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return call()
        except Exception as error:
            raise Unsupported(f"{type(error).__name__}: {error}") from error


def named_arguments(cls: type, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name.

    Raises
    ------
    Unsupported
        If they don't fit: pandas words the error.
    """
    try:
        bound = signature(getattr(cls, method)).bind(None, *args, **kwargs).arguments
    except TypeError as error:
        raise Unsupported(str(error)) from error
    _, *given = bound.items()
    return {name: value for name, value in given if name != "kwargs"} | bound.get("kwargs", {})


_answers: OrderedDict[Hashable, Any] = OrderedDict()
_KEPT = 512


def remembered(key: Hashable, call: Callable[[], Any]) -> Any:
    """What pandas returned for a template of the same kind; asked if it was not yet. Do not change it."""
    try:
        known = _answers.get(key)
    except TypeError:  # something in the call is not hashable
        return ask(call)
    if known is None:
        known = _answers[key] = ask(call)
        if len(_answers) > _KEPT:
            _answers.popitem(last=False)
    return known


def frozen(value: Any) -> Hashable:
    """A hashable form of an argument; equal forms mean the same to pandas."""
    if isinstance(value, list | tuple):
        return (type(value), *(frozen(item) for item in value))
    if isinstance(value, dict):
        return (dict, *((frozen(key), frozen(item)) for key, item in value.items()))
    if isinstance(value, pd.NamedAgg):
        return (pd.NamedAgg, frozen(value.column), frozen(value.aggfunc))
    return (type(value), value)
