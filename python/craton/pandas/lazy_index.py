"""Row labels that are not computed until somebody looks: ``large[large > 300].index`` as an operand of ``isin``.

Only for plans that are expected to produce many rows; labels of fewer are computed at once, as plain pandas objects.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.dtypes import kind_of
from craton.pandas.execute import materialise
from craton.pandas.view import View, name_index
from craton.plan.size import estimated_rows

#: Labels of fewer rows than this are computed when they are asked for.
MANY_ROWS = 200_000


class _LazyData:
    """The class-level ``_data``: reached only while an index has none; runs the plan and makes the object a plain Index."""

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        if obj is None:
            return self
        view: View = obj.__dict__.pop("_craton_view")
        _, computed = materialise(View(view.base, (), view.labels[:0], view.index, view.rows))
        name = obj.__dict__["_name"]
        obj.__dict__.update(computed.__dict__)
        obj.__dict__["_name"] = name
        obj.__class__ = pd.Index
        return obj.__dict__["_data"]


class LazyIndex(pd.Index):
    """An Index over a plan; of class :class:`pandas.Index` once it is computed."""

    _data = _LazyData()

    @classmethod
    def _simple_new(cls, *args: Any, **kwargs: Any) -> pd.Index:
        return pd.Index._simple_new(*args, **kwargs)

    def __new__(cls, *args: Any, **kwargs: Any) -> pd.Index:  # type: ignore[misc]
        """What pandas makes of ``type(index)(…)``: a plain Index."""
        return pd.Index(*args, **kwargs)


def lazy_index(view: View) -> pd.Index | None:
    """The row labels of a view, not computed; ``None`` where they should be, or are of a class of their own."""
    if view.index.kind != "labels" or estimated_rows(view.base) < MANY_ROWS:
        return None
    (value,) = view.index.values
    if not value.definite or kind_of(value.dtype) not in "biufT":
        return None
    index = object.__new__(LazyIndex)
    index.__dict__.update(_craton_view=view, _name=view.index.names[0], _cache={})
    return index


def labels_view(index: Any) -> View | None:
    """The labels of an index that was not computed yet, as a one-column view."""
    view: View | None = index.__dict__.get("_craton_view") if isinstance(index, LazyIndex) else None
    return None if view is None else View(view.base, view.index.values, name_index(None), rows=view.rows)
