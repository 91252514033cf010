"""Selection of rows and columns: loc, iloc, head, tail, query, drop, rename, filter and their kin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
from pandas.api.types import is_hashable, is_scalar

from craton.errors import Unsupported
from craton.pandas.deprecations import in_place, without_copy
from craton.pandas.frame_columns import filter_rows
from craton.pandas.indexers import ILocIndexer, LocIndexer
from craton.pandas.lazy import lazy, replace_state, view
from craton.pandas.native import native, stays_in_pandas
from craton.pandas.reductions import arguments
from craton.pandas.rows import by_slice, is_mask, sliced
from craton.pandas.setting import assigned, set_by_label, set_by_position
from craton.pandas.templates import chosen_columns, template
from craton.pandas.view import View, name_index


def _head(self: Any, n: Any = 5) -> Any:
    if isinstance(n, bool) or not isinstance(n, int):
        raise Unsupported(f"n={n!r}")
    return lazy(type(self), sliced(view(self), None, n), self)


def _tail(self: Any, n: Any = 5) -> Any:
    if isinstance(n, bool) or not isinstance(n, int):
        raise Unsupported(f"n={n!r}")
    held = view(self)
    return lazy(type(self), sliced(held, -n, None) if n else sliced(held, 0, 0), self)


class FrameSelection:
    """Methods of DataFrame."""

    head = native(pd.DataFrame, "head")(_head)
    tail = native(pd.DataFrame, "tail")(_tail)

    @property
    def loc(self: Any) -> Any:
        """Access by label."""
        return pd.DataFrame.loc.fget(self) if stays_in_pandas(self) else LocIndexer("loc", self)  # type: ignore[attr-defined]

    @property
    def iloc(self: Any) -> Any:
        """Access by position."""
        return pd.DataFrame.iloc.fget(self) if stays_in_pandas(self) else ILocIndexer("iloc", self)  # type: ignore[attr-defined]

    @native(pd.DataFrame)
    def assign(self: Any, **kwargs: Any) -> Any:
        result = lazy(type(self), view(self), self)
        for name, value in kwargs.items():
            held = assigned(view(result), name, value(result) if callable(value) else value)
            result = lazy(type(self), held, self)
        return result

    @native(pd.DataFrame)
    def drop(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, "drop", args, kwargs)
        held = view(self)
        columns = named.pop("columns", None)
        if columns is None and named.pop("axis", 0) in (1, "columns"):
            columns = named.pop("labels", None)
        errors = named.pop("errors", "raise")
        if named.keys() - {"inplace"} or columns is None:
            raise Unsupported("dropping rows")
        inplace = in_place(self, named, "drop")
        kept = template(held.labels).drop(columns=columns, errors=errors)
        return finished(self, replace(held.take(kept.iloc[0].tolist()), labels=kept.columns), inplace)

    @native(pd.DataFrame)
    def rename(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, "rename", args, kwargs)
        held = view(self)
        columns = named.pop("columns", None)
        if columns is None and named.get("axis") in (1, "columns"):
            del named["axis"]
            columns = named.pop("mapper", None)
        errors = named.pop("errors", "ignore")
        if named.keys() - {"inplace", "copy"} or columns is None:
            raise Unsupported("renaming rows")
        inplace = in_place(self, named, "rename")
        without_copy(self, named)
        labels = template(held.labels).rename(columns=columns, errors=errors).columns
        return finished(self, held.with_values(held.values, labels), inplace)

    @native(pd.DataFrame)
    def filter(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, "filter", args, kwargs)
        if named.pop("axis", None) not in (None, 1, "columns"):
            raise Unsupported("rows by label")
        rest = {key: value for key, value in named.items() if key != "arg"}
        held = view(self)
        arg = named.get("arg")
        if "cond" in named or callable(arg) or not held.labels.is_unique:
            raise Unsupported("a mask")
        return chosen_columns(self, held, lambda frame: frame.filter(*[arg] if "arg" in named else [], **rest))


class SeriesSelection:
    """Methods of Series."""

    head = native(pd.Series, "head")(_head)
    tail = native(pd.Series, "tail")(_tail)

    @property
    def loc(self: Any) -> Any:
        """Access by label."""
        return pd.Series.loc.fget(self) if stays_in_pandas(self) else LocIndexer("loc", self)  # type: ignore[attr-defined]

    @property
    def iloc(self: Any) -> Any:
        """Access by position."""
        return pd.Series.iloc.fget(self) if stays_in_pandas(self) else ILocIndexer("iloc", self)  # type: ignore[attr-defined]

    @native(pd.Series)
    def __getitem__(self: Any, key: Any) -> Any:
        if callable(key):
            return self[key(self)]
        held = view(self)
        if isinstance(key, slice):
            return lazy(type(self), by_slice(held, key), self)
        if isinstance(key, tuple) or held.index.kind == "multi":
            raise Unsupported("a key of several levels")
        if not is_hashable(key) and is_mask(key):
            return filter_rows(self, key)
        return LocIndexer("loc", self)[key]

    @native(pd.Series)
    def __setitem__(self: Any, key: Any, value: Any) -> None:
        if isinstance(key, slice) and all(b is None or type(b) is int for b in (key.start, key.stop, key.step)):
            replace_state(self, set_by_position(self, key, slice(None), value))
        elif not is_hashable(key) and is_mask(key):
            replace_state(self, set_by_label(self, key, slice(None), value))
        else:
            raise Unsupported("one row")

    @native(pd.Series)
    def to_frame(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.frame import DataFrame

        named = arguments(pd.Series, "to_frame", args, kwargs)
        held = view(self)
        template = pd.Series([], name=self.name, dtype=object).to_frame(**named)
        return lazy(DataFrame, held.with_values(held.values, template.columns), self)

    @native(pd.Series)
    def rename(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.Series, "rename", args, kwargs)
        index = named.pop("index", None)
        if named.keys() - {"inplace", "copy"} or callable(index) or not is_hashable(index) or not (is_scalar(index) or isinstance(index, tuple)):
            raise Unsupported("renaming rows")
        inplace = in_place(self, named, "rename")
        without_copy(self, named)
        held = view(self)
        return finished(self, held.with_values(held.values, name_index(index)), inplace)


def finished(obj: Any, result: View, inplace: bool = False) -> Any:
    """The result of a method, or the object itself changed."""
    if inplace:
        replace_state(obj, result)
        return None
    return lazy(type(obj), result, obj)
