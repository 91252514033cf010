"""DataFrame: a subclass of pandas' class that holds a plan. Each family of native methods has a module of its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.core.counterparts import Counterpart, reduce_by_counterpart, register
from craton.pandas.core.inherit import inherit
from craton.pandas.core.lazy import LazyManager
from craton.pandas.frame_metadata import FrameMetadata
from craton.pandas.groupby.grouping import FrameGrouping
from craton.pandas.indexing.frame_columns import FrameColumns
from craton.pandas.indexing.selection import FrameSelection
from craton.pandas.io.persisting import Persisting
from craton.pandas.io.sinks import FrameSinks
from craton.pandas.printing import FramePrinting
from craton.pandas.reductions.counting import FrameCounting
from craton.pandas.reductions.reductions import FrameReductions
from craton.pandas.reductions.whole_columns import FrameColumnStatistics
from craton.pandas.reshape.alignment import FrameAlignment
from craton.pandas.reshape.construction import FrameConstruction
from craton.pandas.reshape.exploding import FrameExploding
from craton.pandas.reshape.relational import FrameRelational
from craton.pandas.reshape.small_tables import FrameTables
from craton.pandas.udf.methods import FrameCalls
from craton.pandas.values.methods import FrameValueMethods
from craton.pandas.values.operators import FrameOperators
from craton.pandas.values.ufuncs import Ufuncs
from craton.pandas.window.window_objects import FrameMoving
from craton.pandas.window.windows import FrameWindows


class DataFrame(  # noqa: D101 - the docstring is pandas'
    FrameConstruction,
    FrameMetadata,
    FramePrinting,
    FrameColumns,
    FrameSelection,
    FrameCalls,
    FrameValueMethods,
    FrameCounting,
    FrameReductions,
    FrameColumnStatistics,
    FrameRelational,
    FrameExploding,
    FrameAlignment,
    FrameTables,
    FrameGrouping,
    FrameWindows,
    FrameMoving,
    FrameSinks,
    Persisting,
    FrameOperators,
    Ufuncs,
    pd.DataFrame,
    metaclass=Counterpart,
):
    __doc__ = pd.DataFrame.__doc__

    _stands_for = pd.DataFrame

    _mgr = LazyManager()
    __reduce_ex__ = reduce_by_counterpart(pd.DataFrame)

    @property
    def _constructor(self) -> type[DataFrame]:
        return DataFrame

    def _constructor_from_mgr(self, mgr: Any, axes: Any) -> DataFrame:
        if type(self) is not DataFrame:
            return super()._constructor_from_mgr(mgr, axes)  # type: ignore[misc,no-any-return]
        return DataFrame._from_mgr(mgr, axes)

    def _constructor_sliced_from_mgr(self, mgr: Any, axes: Any) -> pd.Series:
        if type(self) is not DataFrame:
            return super()._constructor_sliced_from_mgr(mgr, axes)  # type: ignore[misc,no-any-return]
        series = DataFrame._constructor_sliced._from_mgr(mgr, axes)  # type: ignore[attr-defined]
        object.__setattr__(series, "_name", None)
        return series


DataFrame.__module__ = "pandas"
register(DataFrame, pd.DataFrame)
inherit(DataFrame, pd.DataFrame)
