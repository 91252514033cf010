"""``duplicated`` and ``drop_duplicates``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.data_checks import has_odd_floats
from craton.pandas.core.dtypes import BOOL
from craton.pandas.core.execute import has_rows
from craton.pandas.core.view import IndexSpec, Value, View
from craton.pandas.values.lists.text_objects import as_strings, holds_text
from craton.plan.expr import Call, Column, WindowCall
from craton.plan.operators import Distinct
from craton.refusals import Refusal

_WINDOWS = {"first": "is_first_distinct", "last": "is_last_distinct"}


def subset_of(held: View, subset: Any) -> list[Value]:
    """The columns that ``subset`` selects, as in pandas."""
    if subset is None and held.labels.dtype.kind == "f" and held.labels.hasnans:
        raise Unsupported(Refusal.LABEL_MISSING)  # pandas looks up each label, and does not find NaN
    if subset is None:
        return list(held.values)
    if isinstance(held.labels, pd.MultiIndex) or isinstance(subset, pd.Series):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    if not np.iterable(subset) or isinstance(subset, str) or (isinstance(subset, tuple) and subset in held.labels):
        subset = (subset,)
    found = [held.positions(label) for label in subset]
    if not found or not all(found):
        raise Unsupported(Refusal.COLUMN_UNKNOWN)
    return [held.values[i] for i in sorted({i for positions in found for i in positions})]


def _checked_keys(held: View, keys: Sequence[Value]) -> list[Value]:
    """The keys, with strings in place of objects that are strings: pandas compares both alike."""
    if not keys:
        raise Unsupported(Refusal.NO_COLUMNS)
    if len(keys) > 1:  # in a single column pandas does not distinguish them
        for key in keys:
            if has_odd_floats(held, key):
                raise Unsupported(Refusal.ARROW_FLOATS_DISTINCT)
    return [as_strings(key) if holds_text(key) else key for key in keys]


def _check_keep(keep: Any) -> None:
    if keep not in ("first", "last", False) or keep is True or (isinstance(keep, int) and keep is not False):
        raise Unsupported(Refusal.PARAMETER, f"keep={keep!r}")


def distinct_rows(held: View, keys: Sequence[Value], keep: Any = "first", ignore_index: bool = False) -> View:
    """The rows of a view without duplicates of the keys."""
    _check_keep(keep)
    keys = _checked_keys(held, keys)
    if ignore_index and held.index != IndexSpec() and not has_rows(held):
        raise Unsupported(Refusal.NO_ROWS_LABELS_KEPT)
    held = replace(held, index=IndexSpec()) if ignore_index else held.numbered().before_selection()
    held = replace(held, index=replace(held.index, freq=None))
    held, columns = held.projected_with([key.clean.expr for key in keys])
    names = tuple(column.name for column in columns if isinstance(column, Column))
    return held.with_rows_from(lambda base, _: Distinct(base, names, "none" if keep is False else keep))


def duplicated_rows(held: View, keys: Sequence[Value], keep: Any = "first") -> Value:
    """A boolean column: whether an earlier, a later, or any other row (by ``keep``) has the same keys."""
    _check_keep(keep)
    args = tuple(key.clean.expr for key in _checked_keys(held, keys))
    if keep is False:
        return Value(WindowCall("is_duplicated", args, pl.Boolean()), BOOL, nulls=False)
    first = WindowCall(_WINDOWS[keep], args, pl.Boolean())
    return Value(Call("not", (first,), pl.Boolean()), BOOL, nulls=False)
