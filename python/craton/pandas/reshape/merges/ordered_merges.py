"""``merge_asof`` and ``merge_ordered``."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas
from craton.pandas.reshape.merges.merge_keys import common_labels
from craton.pandas.reshape.merges.merge_positions import key_labels, merged_by_position, views_of
from craton.refusals import Refusal


@native_function(pd.merge_asof, stays=in_plain_pandas("left"), convert=False)
def merge_asof(
    left: Any,
    right: Any,
    on: Any = None,
    left_on: Any = None,
    right_on: Any = None,
    left_index: Any = False,
    right_index: Any = False,
    by: Any = None,
    left_by: Any = None,
    right_by: Any = None,
    suffixes: Any = ("_x", "_y"),
    tolerance: Any = None,
    allow_exact_matches: Any = True,
    direction: Any = "backward",
) -> Any:
    """Join each row with the row of the nearest key; see :func:`pandas.merge_asof`."""
    if not isinstance(left_index, bool) or not isinstance(right_index, bool):
        raise Unsupported(Refusal.PARAMETERS, "left_index and right_index")
    ours, theirs = views_of(left, right)
    keys = key_labels(by, left_by, on, left_on), key_labels(by, right_by, on, right_on)
    # If the row labels of the left table are compared with a column of the right one, that column gets the labels.
    replaced = key_labels(right_on) if left_index else []
    if any(ours.positions(label) for label in replaced):
        raise Unsupported(Refusal.MERGE_KEY_LABELS)

    def call(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
        return pd.merge_asof(
            one,
            other,
            on=on,
            left_on=left_on,
            right_on=right_on,
            left_index=left_index,
            right_index=right_index,
            by=by,
            left_by=left_by,
            right_by=right_by,
            suffixes=suffixes,
            tolerance=tolerance,
            allow_exact_matches=allow_exact_matches,
            direction=direction,
        )

    return lazy(frame_class(), merged_by_position(ours, theirs, keys, left_index or right_index, call, replaced))


@native_function(pd.merge_ordered, stays=in_plain_pandas("left"), convert=False)
def merge_ordered(
    left: Any,
    right: Any,
    on: Any = None,
    left_on: Any = None,
    right_on: Any = None,
    left_by: Any = None,
    right_by: Any = None,
    fill_method: Any = None,
    suffixes: Any = ("_x", "_y"),
    how: Any = "outer",
) -> Any:
    """Join two sorted tables; see :func:`pandas.merge_ordered`."""
    if left_by is not None or right_by is not None or how not in ("outer", "left", "right", "inner"):
        raise Unsupported(Refusal.PARAMETERS, "left_by, right_by and how")
    ours, theirs = views_of(left, right)
    if on is None and left_on is None and right_on is None:
        on = common_labels(ours, theirs)
    keys = key_labels(on, left_on), key_labels(on, right_on)

    def call(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
        return pd.merge_ordered(
            one, other, on=on, left_on=left_on, right_on=right_on, fill_method=fill_method, suffixes=suffixes, how=how
        )

    shared = [one for one, other in zip(*keys, strict=False) if one == other]
    return lazy(frame_class(), merged_by_position(ours, theirs, keys, False, call, shared))


__all__ = ["merge_asof", "merge_ordered"]
