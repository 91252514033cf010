"""pandas, as plans: ``import craton.pandas as pd``.

Everything that pandas has is here; what Craton plans replaces pandas' own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as _pandas

from craton.pandas.frame import DataFrame
from craton.pandas.functions import function
from craton.pandas.inherit import CountedAccessor, inherit_deferred
from craton.pandas.series import Series
from craton.pandas.stack import teach_pandas

if TYPE_CHECKING:
    from craton.pandas.csv import read_csv, read_table
    from craton.pandas.feather import read_feather
    from craton.pandas.json_lines import read_json
    from craton.pandas.memory_data import from_arrow, from_polars
    from craton.pandas.parquet import read_parquet
    from craton.pandas.parsing import to_datetime, to_numeric
    from craton.pandas.tables import concat, melt, merge

#: Functions whose modules are imported when they are first asked for.
_LATER = {
    "concat": "tables",
    "from_arrow": "memory_data",
    "from_polars": "memory_data",
    "melt": "tables",
    "merge": "tables",
    "read_csv": "csv",
    "read_feather": "feather",
    "read_json": "json_lines",
    "read_parquet": "parquet",
    "read_table": "csv",
    "to_datetime": "parsing",
    "to_numeric": "parsing",
}

DataFrame._constructor_sliced = Series  # the class, as pandas has it: each module needs the other
teach_pandas()
inherit_deferred()
for _name in ("cat", "sparse", "list", "struct"):
    setattr(Series, _name, CountedAccessor(_name, _pandas.Series))
DataFrame.sparse = CountedAccessor("sparse", _pandas.DataFrame)

__version__ = _pandas.__version__


def __getattr__(name: str) -> Any:
    if name in _LATER:
        wrapped = getattr(import_module(f"craton.pandas.{_LATER[name]}"), name)
    else:
        wrapped = function(name)
    if wrapped is None:
        return getattr(_pandas, name)
    globals()[name] = wrapped
    return wrapped


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *dir(_pandas)})


__all__ = [
    "DataFrame",
    "Series",
    "concat",
    "from_arrow",
    "from_polars",
    "melt",
    "merge",
    "read_csv",
    "read_feather",
    "read_json",
    "read_parquet",
    "read_table",
    "to_datetime",
    "to_numeric",
]
__all__ += [
    name for name in _pandas.__all__ if name not in __all__
]  # for a star: what pandas has is found by __getattr__
