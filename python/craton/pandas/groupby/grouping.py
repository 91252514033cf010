"""The ``groupby`` and ``resample`` methods of DataFrame and Series.

They import the group-by classes when they are first called, so that ``import craton.pandas`` does not load them.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.native import native
from craton.refusals import Refusal


def _group(self: Any, by: Any, level: Any, options: tuple[Any, ...]) -> Any:
    from craton.pandas.groupby.groupby import group
    from craton.pandas.groupby.in_memory import group_in_memory
    from craton.pandas.groupby.keys import GroupByOptions

    chosen = GroupByOptions(*options)
    parameters = {name: getattr(chosen, name) for name in GroupByOptions.__dataclass_fields__}
    made = group_in_memory(self, by, level, parameters)
    return group(self, by, level, chosen) if made is None else made


def _resample(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any], theirs: Any) -> Any:
    from inspect import signature

    from craton.pandas.groupby.in_memory import resample_in_memory
    from craton.pandas.groupby.times.resampled_rows import resample

    try:
        given = dict(signature(theirs).bind(self, *args, **kwargs).arguments)
    except TypeError as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    del given["self"]
    made = resample_in_memory(self, given)
    return resample(self, given) if made is None else made


def _in_pandas(self: Any, by: Any = None, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.groupby.keys import with_frame_columns

    return pd.DataFrame.groupby(self, with_frame_columns(self, by), *args, **kwargs)


class FrameGrouping:
    """``groupby`` and ``resample`` of DataFrame."""

    @native(pd.DataFrame, fallback=_in_pandas)
    def groupby(
        self: Any,
        by: Any = None,
        level: Any = None,
        as_index: bool = True,
        sort: bool = True,
        group_keys: bool = True,
        observed: bool = True,
        dropna: bool = True,
    ) -> Any:
        return _group(self, by, level, (as_index, sort, group_keys, observed, dropna))

    @native(pd.DataFrame)
    def resample(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _resample(self, args, kwargs, pd.DataFrame.resample)


class SeriesGrouping:
    """``groupby`` and ``resample`` of Series."""

    @native(pd.Series)
    def groupby(
        self: Any,
        by: Any = None,
        level: Any = None,
        as_index: bool = True,
        sort: bool = True,
        group_keys: bool = True,
        observed: bool = True,
        dropna: bool = True,
    ) -> Any:
        if not as_index:
            raise Unsupported(Refusal.GROUP_AS_INDEX)
        return _group(self, by, level, (as_index, sort, group_keys, observed, dropna))

    @native(pd.Series)
    def resample(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _resample(self, args, kwargs, pd.Series.resample)
