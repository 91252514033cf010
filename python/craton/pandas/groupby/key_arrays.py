"""Group keys with a value for each row: arrays, lists, functions and mappings of the row labels. They become columns of the plan."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core import common
from pandas.core.dtypes.missing import array_equivalent

from craton.errors import Unsupported
from craton.pandas.core.align import attached
from craton.pandas.core.array_conversion import from_array_uncopied, refuse_unsupported_values
from craton.pandas.core.dtypes import INT64, OBJECT
from craton.pandas.core.execute import count_rows, materialise
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View, frequency
from craton.pandas.groupby.key_origins import KeyOrigin, RowLabels
from craton.refusals import Refusal

#: The types of objects that are keys in plans, if all labels have one type. Any two of them can be compared.
_SORTABLE = frozenset([str, np.str_, bytes, int, float, bool, dt.date, dt.timedelta])


class KeyArray:
    """A key with a value for each row: the user's object, and a copy of its values.

    pandas refers to an array until it first needs the groups, and then keeps the groups.
    """

    __slots__ = ("_copy", "_given", "_used")

    def __init__(self, given: Any, copy: Any) -> None:
        self._given = given
        self._copy = copy
        self._used = given is copy

    def use(self) -> None:
        """Keep the values of now. Raises Unsupported if they are not those that were copied."""
        if not self._used:
            if not array_equivalent(self._given, self._copy, dtype_equal=True):
                raise Unsupported(Refusal.GROUP_CHANGED)
            self._used = True

    def for_pandas(self) -> Any:
        """The key for pandas' own group-by."""
        return self._copy if self._used else self._given


class KeyColumn:
    """A key that was attached to a view: its values, its name, the origin of values that are numbers, and the user's key."""

    __slots__ = ("given", "name", "origin", "value")

    def __init__(self, value: Value, name: Hashable, origin: KeyOrigin | None, given: KeyArray) -> None:
        self.value = value
        self.name = name
        self.origin = origin
        self.given = given


def is_row_values(key: Any) -> bool:
    """Whether a key has a value for each row, or maps the row labels to values."""
    if isinstance(key, (np.ndarray, pd.Index, pd.api.extensions.ExtensionArray, list, dict)):
        return not isinstance(key, pd.MultiIndex)
    return callable(key) and not isinstance(key, pd.Grouper)


def attach_key(obj: Any, held: View, key: Any) -> tuple[View, KeyColumn]:
    """Attach a key to the rows of a grouped object.

    Parameters
    ----------
    obj
        The grouped object.
    held
        Its view, or one with more columns. Expressions over its base stay valid.
    key
        A key for which :func:`is_row_values` is true, or a Series.
    """
    given: Any = key
    name: Hashable = None
    if isinstance(key, pd.Series):
        name = key.name
        given = key = _aligned_values(obj, key)
        kept = pd.Series(key, index=obj.index, name=name, dtype=key.dtype, copy=False)  # infers no other dtype
        held, value, origin = attach_values(held, key, False)
        return held, KeyColumn(value, name, origin, KeyArray(kept, kept))
    if callable(key) or isinstance(key, dict):
        with plain_pandas():
            given = key = obj.index.map(key.get if isinstance(key, dict) else key)
        if isinstance(key, pd.CategoricalIndex):  # its name is lost if only observed groups are in the result
            raise Unsupported(Refusal.GROUP_KEY_TYPE, type(key).__name__)
    elif isinstance(key, list):
        given = key = common.asarray_tuplesafe(key)
    if isinstance(key, pd.Index):
        name = key.name
        if isinstance(key, (pd.MultiIndex, pd.RangeIndex)) or frequency(key) is not None:
            raise Unsupported(Refusal.GROUP_KEY_TYPE, type(key).__name__)
        held, value, origin = attach_values(held, key._values, True)
        return held, KeyColumn(value, name, origin, KeyArray(given, given))
    if key.ndim != 1:
        raise Unsupported(Refusal.GROUP_KEY_TYPE, type(key).__name__)
    copy = key.copy()
    held, value, origin = attach_values(held, copy, False)
    return held, KeyColumn(value, name, origin, KeyArray(given, copy))


def _aligned_values(obj: Any, key: pd.Series) -> Any:
    """The values of a Series for the row labels of the grouped object."""
    with plain_pandas():
        index = obj.index
        _ = key._mgr
        if key.index.equals(index):
            return key._values.copy()
        if not key.index.is_unique:
            raise Unsupported(Refusal.ROW_LABELS_DIFFER)
        return key.reindex(index)._values


def attach_values(held: View, array: Any, of_index: bool) -> tuple[View, Value, KeyOrigin | None]:
    """Attach an array, to which nothing may write, to the rows of a view.

    Returns
    -------
    tuple of (View, Value, KeyOrigin or None)
        The view, the key, and the origin of a key that is numbers in the plan.
    """
    if len(array) != count_rows(held):
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    if isinstance(array.dtype, pd.PeriodDtype) or (isinstance(array.dtype, np.dtype) and array.dtype.kind in "OU"):
        numbers, origin = _numbered(array, of_index)
        held, (expr,) = attached(held, [numbers])
        return held, Value(expr, INT64, nulls=bool(numbers.null_count()), nans=False), origin
    refuse_unsupported_values(array)
    series, nulls, nans = from_array_uncopied("key", array)
    held, (expr,) = attached(held, [series])
    return held, Value(expr, array.dtype, nulls, nans), None


def _numbered(array: Any, of_index: bool) -> tuple[pl.Series, RowLabels]:
    """Objects or periods as the numbers of their labels, which are in order of first appearance; and the labels."""
    given = array if isinstance(array.dtype, pd.PeriodDtype) else np.asarray(array, dtype=object)
    try:
        with plain_pandas():
            codes, labels = pd.factorize(given, use_na_sentinel=True)
    except TypeError as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    kinds = set(map(type, labels)) if labels.dtype == OBJECT else set()
    if len(kinds) > 1 or not kinds <= _SORTABLE:  # pandas raises an error where it cannot sort them
        raise Unsupported(Refusal.GROUP_KEY_DTYPE, OBJECT)
    missing = codes < 0
    numbers = pl.Series("key", np.asarray(codes, dtype=np.int64))
    if missing.any():
        numbers = pl.select(pl.when(pl.Series(~missing)).then(numbers)).to_series()
    return numbers, RowLabels(labels, given[missing][:1], of_index)


def attach_objects(held: View, value: Value) -> tuple[View, Value, KeyOrigin | None]:
    """A column of Python objects as a key."""
    (array,) = materialise(View(held.base, (value,), pd.RangeIndex(1)))[0]
    if array.dtype != OBJECT:
        raise Unsupported(Refusal.GROUP_KEY_DTYPE, array.dtype)
    return attach_values(held, array, False)
