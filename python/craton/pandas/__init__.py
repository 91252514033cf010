"""pandas, as plans: ``import craton.pandas as pd``.

Everything that pandas has is here; what Craton plans replaces pandas' own.
"""

from __future__ import annotations

from typing import Any

import pandas as _pandas

from craton.pandas import native
from craton.pandas.csv import read_csv, read_table
from craton.pandas.feather import read_feather
from craton.pandas.frame import DataFrame
from craton.pandas.memory_data import from_arrow, from_polars
from craton.pandas.parquet import read_parquet
from craton.pandas.series import Series


def _crafted(result: Any) -> Any:
    """A pandas result as an object of Craton's classes that shares its data; anything else as it is."""
    if type(result) is _pandas.DataFrame:
        return DataFrame(result)
    if type(result) is _pandas.Series:
        return Series(result)
    return result


native.crafted_classes = _crafted

__version__ = _pandas.__version__


def __getattr__(name: str) -> Any:
    return getattr(_pandas, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_pandas)})


__all__ = ["DataFrame", "Series", "read_parquet"]
