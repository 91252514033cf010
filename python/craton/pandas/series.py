"""Series: pandas' own class over a plan. The native methods live in one module a family."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.calling_methods import SeriesCalls
from craton.pandas.cells import SeriesCells
from craton.pandas.counterparts import Counterpart, reduce_by_counterpart, register
from craton.pandas.counting import SeriesCounting
from craton.pandas.frame import DataFrame
from craton.pandas.grouping import SeriesGrouping
from craton.pandas.inherit import inherit
from craton.pandas.lazy import LazyManager
from craton.pandas.operators import SeriesOperators
from craton.pandas.persisting import Persisting
from craton.pandas.printing import SeriesPrinting
from craton.pandas.reductions import SeriesReductions
from craton.pandas.relational_series import SeriesRelational
from craton.pandas.selection import SeriesSelection
from craton.pandas.series_facts import SeriesFacts
from craton.pandas.sinks import SeriesSinks
from craton.pandas.ufuncs import Ufuncs
from craton.pandas.windows import SeriesWindows


class Series(  # noqa: D101 - the docstring is pandas'
    SeriesFacts,
    SeriesPrinting,
    SeriesSelection,
    SeriesCalls,
    SeriesCells,
    SeriesCounting,
    SeriesReductions,
    SeriesRelational,
    SeriesGrouping,
    SeriesWindows,
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
