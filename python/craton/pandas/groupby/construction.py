"""The construction of pandas' own group-by for methods that are not native: its attributes, keys and options."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.errors import Unsupported
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
