"""``Series.str`` of a column of lists of strings: the length of each list, its items, and the items as one string."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from pandas.core.strings.accessor import StringMethods as PandasStringMethods

from craton.errors import Unsupported
from craton.pandas.core.lazy import view
from craton.pandas.values.accessors import LazyAccessor, member
from craton.pandas.values.lists.columns import has_a_list, holds_lists, item_at, joined, lengths, sliced
from craton.refusals import Refusal

__all__ = ["ListMethods", "methods_of"]


def methods_of(series: Any) -> Any:
    """The accessor of a lazy Series of objects; None if pandas' own must read them, or raise its error for missing values only."""
    with contextlib.suppress(Unsupported):
        held = view(series)
        if holds_lists(held.values[0]) and has_a_list(held, held.values[0]):
            return ListMethods(series)
    return None


def _len(self: Any) -> Any:
    held, value = self._held
    return self._series_of(held, lengths(held, value))


def _get(self: Any, i: Any) -> Any:
    if type(i) is not int:
        raise Unsupported(Refusal.PARAMETER, "i")
    held, value = self._held
    return self._series_of(*item_at(held, value, i))


def _join(self: Any, sep: Any) -> Any:
    if type(sep) is not str:
        raise Unsupported(Refusal.PARAMETER, "sep")
    held, value = self._held
    return self._series_of(held, joined(value, sep))


def _slice(self: Any, start: Any = None, stop: Any = None, step: Any = None) -> Any:
    if step not in (None, 1):
        raise Unsupported(Refusal.TEXT_SLICE_STEP)
    held, value = self._held
    return self._series_of(held, sliced(held, value, start, stop))


_NATIVE: dict[str, Callable[..., Any]] = {"len": _len, "get": _get, "join": _join, "slice": _slice}


class ListMethods(LazyAccessor, PandasStringMethods):
    """``Series.str`` of a lazy Series of lists; see :class:`pandas.Series.str`."""

    _pandas_accessor = PandasStringMethods

    def __getitem__(self: Any, key: Any) -> Any:
        return self.slice(key.start, key.stop, key.step) if isinstance(key, slice) else self.get(key)

    def __iter__(self) -> Any:
        raise TypeError(f"'{type(self).__name__}' object is not iterable")


for _name, _original in list(vars(PandasStringMethods).items()):
    if not _name.startswith("_") and callable(_original):
        setattr(ListMethods, _name, member("str", _name, _NATIVE.get(_name), _original))
