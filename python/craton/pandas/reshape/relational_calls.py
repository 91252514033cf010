"""Shared by the methods on whole tables: checks of their arguments, and the handling of ``inplace``."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core import deprecations
from craton.pandas.core.lazy import lazy, replace_state, view
from craton.pandas.core.view import View
from craton.refusals import Refusal


def in_place(obj: Any, inplace: Any, method: str) -> bool:
    """Whether a call is in place. It gives pandas' deprecation warning, so call it only when the call can no longer be refused."""
    return deprecations.pop_inplace(obj, {"inplace": inplace}, method)


def return_or_replace(obj: Any, held: View, inplace: bool) -> Any:
    """Return a new object; or, for a call in place, replace the object's view and return ``None``."""
    if not inplace:
        return lazy(type(obj), held, obj)
    replace_state(obj, held)
    return None


def check_bools(**given: Any) -> None:
    """Refuse flags that are not booleans; pandas raises the error."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise Unsupported(Refusal.PARAMETER, f"{name}={value!r}")


def check_operands(*objects: Any) -> None:
    """Refuse objects other than frames and series, and objects whose attrs or flags pandas would combine."""
    for obj in objects:
        if not isinstance(obj, (pd.DataFrame, pd.Series)):
            raise Unsupported(Refusal.JOIN_WITH, type(obj).__name__)
        if obj._attrs or not obj._flags._allows_duplicate_labels:
            raise Unsupported(Refusal.ATTRS_OR_FLAGS)


def check_row_axis(axis: Any, argument: Any) -> Any:
    """Return the argument if the axis is the row axis; else refuse the call."""
    if axis not in (0, "index"):
        raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
    return argument


def sort_by_index(
    obj: Any,
    axis: Any,
    level: Any,
    ascending: Any,
    inplace: Any,
    kind: Any,
    na_position: Any,
    sort_remaining: Any,
    ignore_index: Any,
    key: Any,
) -> Any:
    """``sort_index`` of a frame or series."""
    from craton.pandas.reshape.sorting import check_options, sorted_by_index

    if axis not in (0, "index"):
        raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
    if key is not None:
        raise Unsupported(Refusal.SORT_KEY)
    check_options(kind, na_position)
    check_bools(sort_remaining=sort_remaining, ignore_index=ignore_index)
    held = sorted_by_index(view(obj), level, ascending, na_position, sort_remaining, ignore_index, kind)
    return return_or_replace(obj, held, in_place(obj, inplace, "sort_index"))
