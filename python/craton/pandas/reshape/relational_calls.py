"""What the methods of whole tables share: how they are called, checked and finished."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core import deprecations
from craton.pandas.core.lazy import lazy, replace_state, view
from craton.pandas.core.view import View
from craton.pandas.reshape.sorting import check_options, sorted_by_index
from craton.refusals import Refusal


def in_place(obj: Any, inplace: Any, method: str) -> bool:
    """Whether a call is in place, with pandas' warning that this way is going; ask when all else is done."""
    if inplace is not no_default and not obj.flags.allows_duplicate_labels:
        raise Unsupported(Refusal.IN_PLACE_LABELS)
    return deprecations.pop_inplace(obj, {"inplace": inplace}, method)


def outcome(obj: Any, held: View, inplace: bool) -> Any:
    """The new object, or ``None`` when the old one was changed."""
    if not inplace:
        return lazy(type(obj), held, obj)
    replace_state(obj, held)
    return None


def bools(**given: Any) -> None:
    """Refuse flags that are no booleans; pandas words the error."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise Unsupported(Refusal.PARAMETER, f"{name}={value!r}")


def plain(*objects: Any) -> None:
    """Refuse what is no frame or series, and objects whose attrs or flags pandas would combine."""
    for obj in objects:
        if not isinstance(obj, (pd.DataFrame, pd.Series)):
            raise Unsupported(Refusal.JOIN_WITH, type(obj).__name__)
        if obj._attrs or not obj._flags._allows_duplicate_labels:
            raise Unsupported(Refusal.ATTRS_OR_FLAGS)


def rows_only(axis: Any, argument: Any) -> Any:
    """The argument, if the axis is that of the rows."""
    if axis not in (0, "index"):
        raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
    return argument


def index_sorted(
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
    if axis not in (0, "index"):
        raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
    check_options(kind, na_position, key)
    bools(sort_remaining=sort_remaining, ignore_index=ignore_index)
    held = sorted_by_index(view(obj), level, ascending, na_position, sort_remaining, ignore_index)
    return outcome(obj, held, in_place(obj, inplace, "sort_index"))
