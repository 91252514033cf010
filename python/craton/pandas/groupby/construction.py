"""The construction of pandas' own group-by for methods that are not native: its attributes, keys and options."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.counterparts import counterpart_of
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import count_fallback
from craton.pandas.core.routing import inside_pandas, plain_pandas
from craton.pandas.groupby.key_origins import RowLabels, TimeBins
from craton.pandas.groupby.keys import GroupByOptions, Grouped
from craton.refusals import Reason, Refusal


class ConstructorAttribute:
    """An attribute that pandas' constructor sets; the first access runs the constructor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, gb: Any, owner: type | None = None) -> Any:
        if gb is None:
            raise AttributeError(self.name)
        own = gb.__dict__
        if not inside_pandas():
            count_fallback(f"{type(gb).__name__}.{self.name}", Reason(Refusal.METHOD))
        with plain_pandas():
            made = gb._pandas_groupby()
        # Parameters are not updated, because pandas changes some of them temporarily.
        own.update(_grouper=made._grouper, exclusions=made.exclusions)
        return own[self.name]


def restored(cls: type, state: dict[str, Any]) -> Any:
    """Unpickle a group-by; its state is that of pandas' group-by."""
    groups: Any = object.__new__(counterpart_of(cls))
    groups.__dict__.update(state)
    return groups


def frame_columns(by: Any, plan: Grouped, source: Any) -> Any:
    """The keys for pandas. The frame's own columns are taken from it again, because pandas recognises them by shared memory."""

    def own(one: Any, key: Any) -> Any:
        if key.given is not None:
            return key.given.for_pandas()
        if isinstance(key.origin, TimeBins):
            return key.origin.rule()
        if not isinstance(one, pd.Series) or key.column is None:
            return one
        # In the plan, a key that is Python objects is the numbers of its labels.
        return source[key.name].astype(OBJECT if isinstance(key.origin, RowLabels) else key.value.dtype)

    if isinstance(by, list) and len(by) == len(plan.keys):
        return [own(one, key) for one, key in zip(by, plan.keys, strict=True)]
    return own(by, plan.keys[0])


def parameters_of(options: GroupByOptions) -> dict[str, Any]:
    """The parameters of ``groupby`` by name."""
    return {name: getattr(options, name) for name in GroupByOptions.__dataclass_fields__}


def snapshot(key: Any) -> Any:
    """A snapshot of a key; later changes of a Series in place do not affect it."""
    if not isinstance(key, pd.Series):
        return key
    try:
        return lazy(type(key), view(key), key)
    except Unsupported:
        return key.copy(deep=False)


def refuse_changed_keys(own: dict[str, Any]) -> None:
    """Refuse a group-by of columns by name, given its ``__dict__``, unless its frame still has the same rows and the same keys.

    Other columns may have been added or changed in place since. As in pandas, a column that is selected later is that of now.

    Raises
    ------
    Unsupported
        If it is another group-by, or if the rows or keys are not provably the same.
    """
    before, frame, by = own["_grouped_view"], own["_frame"], own["_by"]
    names = by if isinstance(by, list) else [by]
    keys = own["_plan"].keys
    plain = all(isinstance(name, str) for name in names) and all(key.column is not None for key in keys)
    if not plain or own["_parent"] is not None or not isinstance(frame, pd.DataFrame):
        raise Unsupported(Refusal.GROUP_CHANGED)
    try:
        old, new = aligned(before, view(frame))
    except Unsupported as error:
        raise Unsupported(Refusal.GROUP_CHANGED) from error
    for key in keys:
        places, value = new.positions(key.name), old.values[key.column]
        if len(places) != 1 or (new.values[places[0]].expr, new.values[places[0]].dtype) != (value.expr, value.dtype):
            raise Unsupported(Refusal.GROUP_CHANGED)
