"""The columns that a routine of pandas needs, computed as objects of pandas' own classes, without row labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from craton.pandas.core.counterparts import as_craton, as_pandas, frame_class
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import IndexSpec, Value, View


def computed_columns(obj: Any, held: View) -> Any:
    """The columns of a view of an object, as an object of pandas' own class with a default index."""
    with plain_pandas():
        if held.values == view(obj).values and held.index.kind == "default":
            return as_pandas(obj)
        return as_pandas(lazy(type(obj), replace(held, index=IndexSpec()), obj))


def computed_frame(obj: Any, held: View, values: Sequence[Value]) -> pd.DataFrame:
    """Columns over the base of a view, as a frame of pandas' own class, labelled 0, 1, ..."""
    few = replace(held, values=tuple(values), labels=pd.RangeIndex(len(values)), index=IndexSpec())
    with plain_pandas():
        made: pd.DataFrame = as_pandas(lazy(frame_class(), few, obj))
        return made


def pandas_statistic(obj: Any, name: str, named: dict[str, Any]) -> Any:
    """The result of pandas' own method, which does not depend on the row labels, for all columns of an object."""
    data = computed_columns(obj, view(obj))
    base = pd.DataFrame if isinstance(obj, pd.DataFrame) else pd.Series
    with plain_pandas():
        return as_craton(getattr(base, name)(data, **named))
