"""Columns of dtype object whose values are strings or NaN, as ``s.str.split().str[0]`` returns them.

Plans compute with them as with strings. Results that are strings have dtype object again, as in pandas.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
from pandas.core.strings.accessor import StringMethods as PandasStringMethods

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import BOOL, INT64, OBJECT, STR
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.values.accessors import LazyAccessor, member
from craton.pandas.values.batches import COLUMN, batched, computed_if_in_memory
from craton.pandas.values.lists.splitting import all_matches, split_lists
from craton.pandas.values.text.string_functions import ARGUMENTS, BATCHED, EXPRESSIONS
from craton.plan import build
from craton.plan.expr import Call, Expr
from craton.refusals import Refusal

__all__ = ["TextObjectMethods", "any_string", "as_objects", "as_strings", "holds_text", "strings_of"]


def holds_text(value: Value) -> bool:
    """Whether a column has strings as objects, which a plan can compute with."""
    return isinstance(value.expr, ObjectColumn) and value.expr.nan


def as_strings(value: Value) -> Value:
    """The same values as a column of strings.

    Raises
    ------
    Unsupported
        If the column has other objects.
    """
    if not isinstance(value.expr, ObjectColumn) or not value.expr.nan:
        raise Unsupported(Refusal.OBJECTS)
    return Value(value.expr.column, STR, nulls=value.nulls)


def as_objects(text: Expr, nulls: bool = True) -> Value:
    """A column of strings as one of objects."""
    return Value(ObjectColumn(text, nan=True), OBJECT, nulls=nulls)


def strings_of(series: Any) -> Any:
    """A lazy Series with the same values as strings; see :func:`as_strings`."""
    held = view(series)
    return lazy(type(series), held.with_values([as_strings(held.values[0])]), series)


def any_string(held: View, value: Value) -> bool:
    """Whether a row has a string; runs a query."""
    return any_row(held, Call("not", (Call("is_null", (value.read,), pl.Boolean()),), pl.Boolean()))


def methods_of(series: Any) -> Any:
    """The accessor of a lazy Series of strings as objects; None if pandas raises its error, because no row has a string."""
    with contextlib.suppress(Unsupported):
        held = view(series)
        if holds_text(held.values[0]) and any_string(held, held.values[0]):
            return TextObjectMethods(series)
    return None


def _computed(name: str, held: View, value: Value, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
    """The column that a method returns."""
    for item in (*args, *kwargs.values()):
        if not isinstance(item, ARGUMENTS):
            raise Unsupported(Refusal.ARGUMENT_TYPE, type(item).__name__)
    sample = stand_ins.probe(getattr(pd.Series(["a"], dtype=OBJECT).str, name), *args, warned=True, **kwargs)
    dtype = STR if sample.dtype == OBJECT and isinstance(sample.iloc[0], str) else sample.dtype
    if dtype not in (STR, BOOL, INT64):
        raise Unsupported(Refusal.OBJECT_RESULT)
    if dtype == BOOL and value.nulls and any_row(held, Call("is_null", (value.read,), pl.Boolean())):
        raise Unsupported(Refusal.OBJECT_RESULT)  # of booleans and NaN
    builder = EXPRESSIONS.get(name)
    if builder is not None:
        with contextlib.suppress(Unsupported, TypeError):
            return Value(builder(as_strings(value), *args, **kwargs), dtype, nulls=value.nulls and dtype != BOOL)
    objects = Value(value.read, OBJECT, nulls=value.nulls)
    found = batched("method", f"str.{name}", [objects], dtype, (COLUMN, *args), **kwargs)
    return replace(found, nulls=value.nulls and dtype != BOOL)


def _method(name: str) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        held, value = self._held
        result = _computed(name, held, value, args, kwargs)
        if result.dtype == INT64 and value.nulls:
            source = (build.project(held.base, (("text", value.read),)), "text")
            return self._series_of(*computed_if_in_memory(held, replace(result, nulls=True, source=source)))
        held, result = computed_if_in_memory(held, result)
        return self._series_of(held, as_objects(result.expr, result.nulls) if result.dtype == STR else result)

    return run


def _split(name: str) -> Callable[..., Any]:
    def run(self: Any, pat: Any = None, *, n: Any = -1, expand: Any = False, **kwargs: Any) -> Any:
        if expand is not False:
            raise Unsupported(Refusal.PARAMETER, "expand")
        held = self._held[0]
        return self._series_of(held, split_lists(held, name, pat, n, kwargs))

    return run


def _partition(name: str) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        frame = getattr(strings_of(self._series).str, name)(*args, **kwargs)
        held = view(frame)
        # With expand=False, the values are tuples, which are objects already.
        values = [value if value.dtype == OBJECT else as_objects(value.read, value.nulls) for value in held.values]
        return lazy(type(frame), held.with_values(values), self._series)

    return run


def _findall(self: Any, pat: Any, flags: Any = 0) -> Any:
    held = self._held[0]
    return self._series_of(held, all_matches(held, pat, flags))


_SPECIAL: dict[str, Callable[..., Any]] = {"split": _split("split"), "rsplit": _split("rsplit"), "findall": _findall}
_SPECIAL |= {name: _partition(name) for name in ("partition", "rpartition")}


class TextObjectMethods(LazyAccessor, PandasStringMethods):
    """``Series.str`` of a lazy Series of strings as objects; see :class:`pandas.Series.str`."""

    _pandas_accessor = PandasStringMethods

    def __getitem__(self: Any, key: Any) -> Any:
        return self.slice(key.start, key.stop, key.step) if isinstance(key, slice) else self.get(key)

    def __iter__(self) -> Any:
        raise TypeError(f"'{type(self).__name__}' object is not iterable")


for _name, _original in list(vars(PandasStringMethods).items()):
    if not _name.startswith("_") and callable(_original):
        _function = _SPECIAL.get(_name) or (_method(_name) if _name in BATCHED and _name != "get" else None)
        setattr(TextObjectMethods, _name, member("str", _name, _function, _original))
