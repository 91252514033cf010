"""Wraps the Index methods that return frames and Series, so that ``df.index.to_series()`` in the user's code returns Craton's class.

Index classes are pandas' own, and their methods return pandas' own frames. While Craton is installed, results for the user's
code are converted to Craton's classes; results for libraries are not.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import pandas as pd
from pandas.core.strings.accessor import StringMethods

from craton import callers
from craton.pandas.core.counterparts import as_craton

__all__ = ["LabelMethods"]

_METHODS: tuple[tuple[type, str], ...] = (
    (pd.Index, "to_series"),
    (pd.Index, "to_frame"),
    (pd.Index, "value_counts"),
    (pd.MultiIndex, "to_frame"),
    (StringMethods, "extract"),
    (StringMethods, "extractall"),
)


class LabelMethods:
    """Replaces the methods; :meth:`undo` restores pandas' own, unless other code has replaced them since."""

    def __init__(self) -> None:
        self._before: list[tuple[type, str, Any, Any]] = []
        for cls, name in _METHODS:
            own, made = vars(cls).get(name), _for_users(getattr(cls, name))
            setattr(cls, name, made)
            self._before.append((cls, name, own, made))

    def undo(self) -> None:
        """Restore pandas' methods."""
        for cls, name, own, made in self._before:
            if vars(cls).get(name) is not made:
                continue
            if own is None:  # the method was inherited
                delattr(cls, name)
            else:
                setattr(cls, name, own)


def _for_users(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if callers.is_user(sys._getframe(1).f_globals):
            return as_craton(theirs(self, *args, **kwargs))  # nothing else refers to the result, so it keeps its Index
        return theirs(self, *args, **kwargs)

    return method
