"""``Series.cat`` over a plan. Its members change the dtype and the codes; the values of the rows are not needed.

pandas' own methods run on a categorical array that has each category once, which gives the new dtype and the new code of each category.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.arrays.categorical import CategoricalAccessor

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.dtypes import physical
from craton.pandas.core.inherit import CountedAccessor
from craton.pandas.core.lazy import lazy
from craton.pandas.core.routing import stays_in_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.accessors import LazyAccessor, member, member_property
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, Values
from craton.refusals import Refusal

_MOST_CATEGORIES = 100_000
_METHODS = (
    "add_categories",
    "as_ordered",
    "as_unordered",
    "remove_categories",
    "remove_unused_categories",
    "rename_categories",
    "reorder_categories",
    "set_categories",
)


def _column(self: Any) -> tuple[View, Value, pd.CategoricalDtype]:
    """The view, its column and the dtype of the accessor's Series."""
    held, value = self._held
    dtype = value.dtype
    if not isinstance(dtype, pd.CategoricalDtype) or len(dtype.categories) > _MOST_CATEGORIES:
        raise Unsupported(Refusal.MANY_CATEGORIES)
    return held, value, dtype


def _of_dtype(name: str) -> Callable[[Any], Any]:
    return lambda self: getattr(_column(self)[2], name)


def _dtype_of_codes(dtype: pd.CategoricalDtype) -> np.dtype[Any]:
    """The dtype of the codes of an array that pandas makes for a dtype."""
    return pd.Categorical.from_codes([], dtype=dtype).codes.dtype


def _codes(self: Any) -> Any:
    held, value, dtype = _column(self)
    kind = _dtype_of_codes(dtype)
    filled = Call("fill_null", (value.expr, Literal(-1, pl.Int32())), pl.Int32())
    codes = Value(Call("cast", (filled,), physical(kind)), kind, nulls=False)
    return lazy(type(self._series), held.series(codes, None))


def _method(name: str) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        held, value, dtype = _column(self)
        codes = _codes_in_use(held, value) if name == "remove_unused_categories" else range(len(dtype.categories))
        each = pd.Categorical.from_codes(list(codes), dtype=dtype)
        changed = stand_ins.probe(getattr(each, name), *args, warned=True, **kwargs)
        if changed.codes.dtype != _dtype_of_codes(changed.dtype):  # with rename=True, pandas keeps wide codes
            raise Unsupported(Refusal.PARAMETER, "rename")
        new = changed.codes.astype(np.int32)
        expr: Expr = value.expr
        if not np.array_equal(new, codes):
            results = pl.Series([None if code < 0 else int(code) for code in new], dtype=pl.Int32())
            keys = pl.Series(list(codes), dtype=pl.Int32())
            expr = Call("map_values", (expr, Values.of(keys), Values.of(results)), pl.Int32())
        nulls = value.nulls or bool((new < 0).any())
        # As in pandas, the result has no attrs.
        return lazy(type(self._series), held.series(Value(expr, changed.dtype, nulls=nulls), self._series.name))

    return run


def _codes_in_use(held: View, value: Value) -> list[int]:
    """The codes that a column contains; runs a query."""
    plan = build.aggregate(held.base, (("code", value.expr),), (), sort=True)
    return sorted(collect_rows([plan])[0].get_column("code").drop_nulls().to_list())


class CategoryMembers(LazyAccessor, CategoricalAccessor):  # type: ignore[misc]
    """``Series.cat`` of a planned column."""

    _pandas_accessor = CategoricalAccessor
    categories = member_property("cat", "categories", _of_dtype("categories"), CategoricalAccessor)
    ordered = member_property("cat", "ordered", _of_dtype("ordered"), CategoricalAccessor)
    codes = member_property("cat", "codes", _codes, CategoricalAccessor)


for _name in _METHODS:
    setattr(CategoryMembers, _name, member("cat", _name, _method(_name), getattr(CategoricalAccessor, _name)))


class CategoryAccessor(CountedAccessor):
    """``Series.cat``: the class above for a planned column of categories, pandas' own accessor for others."""

    def __init__(self) -> None:
        super().__init__("cat", pd.Series)

    def __get__(self, obj: Any, cls: Any) -> Any:
        if obj is None or stays_in_pandas(obj) or not isinstance(obj.dtype, pd.CategoricalDtype):
            return super().__get__(obj, cls)
        return CategoryMembers(obj)
