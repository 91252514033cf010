"""Series: a subclass of pandas' class that holds a plan. Each family of native methods has a module of its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.core.counterparts import Counterpart, reduce_by_counterpart, register
from craton.pandas.core.inherit import inherit
from craton.pandas.core.lazy import LazyManager
from craton.pandas.frame import DataFrame
from craton.pandas.groupby.grouping import SeriesGrouping
from craton.pandas.indexing.selection import SeriesSelection
from craton.pandas.io.persisting import Persisting
from craton.pandas.io.sinks import SeriesSinks
from craton.pandas.printing import SeriesPrinting
from craton.pandas.reductions.counting import SeriesCounting
from craton.pandas.reductions.reductions import SeriesReductions
from craton.pandas.reductions.whole_columns import SeriesColumnStatistics
from craton.pandas.reshape.alignment import SeriesAlignment
from craton.pandas.reshape.exploding import SeriesExploding
from craton.pandas.reshape.relational_series import SeriesRelational
from craton.pandas.reshape.small_tables import SeriesTables
from craton.pandas.series_metadata import SeriesMetadata
from craton.pandas.udf.methods import SeriesCalls
from craton.pandas.values.methods import SeriesValueMethods
from craton.pandas.values.operators import SeriesOperators
from craton.pandas.values.ufuncs import Ufuncs
from craton.pandas.window.window_objects import SeriesMoving
from craton.pandas.window.windows import SeriesWindows


class Series(  # noqa: D101 - the docstring is pandas'
    SeriesMetadata,
    SeriesPrinting,
    SeriesSelection,
    SeriesCalls,
    SeriesValueMethods,
    SeriesCounting,
    SeriesReductions,
    SeriesColumnStatistics,
    SeriesRelational,
    SeriesExploding,
    SeriesAlignment,
    SeriesTables,
    SeriesGrouping,
    SeriesWindows,
    SeriesMoving,
    SeriesSinks,
    Persisting,
    SeriesOperators,
    Ufuncs,
    pd.Series,
    metaclass=Counterpart,
):
    __doc__ = pd.Series.__doc__

    _stands_for = pd.Series

    _mgr = LazyManager()
    __reduce_ex__ = reduce_by_counterpart(pd.Series)

    @property
    def _constructor(self) -> type[Series]:
        return Series

    def _constructor_from_mgr(self, mgr: Any, axes: Any) -> Series:
        if type(self) is not Series:
            return super()._constructor_from_mgr(mgr, axes)  # type: ignore[misc,no-any-return]
        series = Series._from_mgr(mgr, axes)
        object.__setattr__(series, "_name", None)
        return series

    @property
    def _constructor_expanddim(self) -> Any:
        return DataFrame

    def _constructor_expanddim_from_mgr(self, mgr: Any, axes: Any) -> DataFrame:
        if type(self) is not Series:
            return super()._constructor_expanddim_from_mgr(mgr, axes)  # type: ignore[misc,no-any-return]
        return DataFrame._from_mgr(mgr, axes)


Series.__module__ = "pandas"
register(Series, pd.Series)
inherit(Series, pd.Series)
