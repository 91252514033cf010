"""The ``groupby`` methods of DataFrame and Series.

They import the group-by classes when they are first called, so that ``import craton.pandas`` does not load them.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.native import native
from craton.refusals import Refusal


def _in_pandas(self: Any, by: Any = None, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.groupby.keys import with_frame_columns

    return pd.DataFrame.groupby(self, with_frame_columns(self, by), *args, **kwargs)


class FrameGrouping:
    """``DataFrame.groupby``."""

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
        from craton.pandas.groupby.groupby import group
        from craton.pandas.groupby.keys import GroupByOptions

        return group(self, by, level, GroupByOptions(as_index, sort, group_keys, observed, dropna))


class SeriesGrouping:
    """``Series.groupby``."""

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
        from craton.pandas.groupby.groupby import group
        from craton.pandas.groupby.keys import GroupByOptions

        if not as_index:
            raise Unsupported(Refusal.GROUP_AS_INDEX)
        return group(self, by, level, GroupByOptions(as_index, sort, group_keys, observed, dropna))
