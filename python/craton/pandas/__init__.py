"""The pandas API of Craton: ``import craton.pandas as pd``.

It has every name that pandas has. Classes and functions with a native implementation replace pandas' own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as _pandas

from craton.pandas.core.inherit import CountedAccessor
from craton.pandas.core.stack import patch_pandas
from craton.pandas.deferred import inherit_deferred
from craton.pandas.frame import DataFrame
from craton.pandas.functions import counted_function, is_counted
from craton.pandas.libraries import register_module
from craton.pandas.series import Series

if TYPE_CHECKING:
    from craton.pandas.io.feather import read_feather
    from craton.pandas.io.iceberg import read_iceberg
    from craton.pandas.io.memory_data import from_arrow, from_polars
    from craton.pandas.io.orc import read_orc
    from craton.pandas.io.parquet import read_parquet
    from craton.pandas.io.sets.tables import read_set
    from craton.pandas.io.text.csv import read_csv, read_table
    from craton.pandas.io.text.json_lines import read_json
    from craton.pandas.reshape.crosstab import crosstab
    from craton.pandas.reshape.cutting import cut, qcut
    from craton.pandas.reshape.dummies import get_dummies
    from craton.pandas.reshape.merges.ordered_merges import merge_asof, merge_ordered
    from craton.pandas.reshape.table_functions import pivot, pivot_table, wide_to_long
    from craton.pandas.reshape.tables import concat, melt, merge
    from craton.pandas.values.times.parsing import to_datetime, to_numeric, to_timedelta

#: Functions whose modules are imported when the functions are first used.
_IMPORTED_ON_USE = {
    "concat": "reshape.tables",
    "crosstab": "reshape.crosstab",
    "cut": "reshape.cutting",
    "from_arrow": "io.memory_data",
    "from_polars": "io.memory_data",
    "get_dummies": "reshape.dummies",
    "melt": "reshape.tables",
    "merge": "reshape.tables",
    "merge_asof": "reshape.merges.ordered_merges",
    "merge_ordered": "reshape.merges.ordered_merges",
    "pivot": "reshape.table_functions",
    "pivot_table": "reshape.table_functions",
    "qcut": "reshape.cutting",
    "read_csv": "io.text.csv",
    "read_feather": "io.feather",
    "read_iceberg": "io.iceberg",
    "read_json": "io.text.json_lines",
    "read_orc": "io.orc",
    "read_parquet": "io.parquet",
    "read_set": "io.sets.tables",
    "read_table": "io.text.csv",
    "to_datetime": "values.times.parsing",
    "to_numeric": "values.times.parsing",
    "to_timedelta": "values.times.parsing",
    "wide_to_long": "reshape.table_functions",
}

DataFrame._constructor_sliced = Series  # set here, because the modules of the two classes need each other
patch_pandas()
register_module()
inherit_deferred()
for _name in ("sparse", "list", "struct"):
    setattr(Series, _name, CountedAccessor(_name, _pandas.Series))
DataFrame.sparse = CountedAccessor("sparse", _pandas.DataFrame)
# Craton has packages of these names, but a program that uses `pd.core` or `pd.io` means those of pandas.
core, io = _pandas.core, _pandas.io  # type: ignore[attr-defined]
# What Craton does not replace is in `vars(pd)`, too, as for `eval(repr(index), vars(pd))`.
globals().update(
    {
        name: value
        for name, value in vars(_pandas).items()
        if name[:1] != "_" and name not in globals() and name not in _IMPORTED_ON_USE and not is_counted(name)
    }
)

__version__ = _pandas.__version__


def __getattr__(name: str) -> Any:
    if name in _IMPORTED_ON_USE:
        wrapped = getattr(import_module(f"craton.pandas.{_IMPORTED_ON_USE[name]}"), name)
    else:
        wrapped = counted_function(name)
    if wrapped is None:
        return getattr(_pandas, name)
    globals()[name] = wrapped
    return wrapped


__all__ = [
    "DataFrame",
    "Series",
    "concat",
    "crosstab",
    "cut",
    "from_arrow",
    "from_polars",
    "get_dummies",
    "melt",
    "merge",
    "merge_asof",
    "merge_ordered",
    "pivot",
    "pivot_table",
    "qcut",
    "read_csv",
    "read_feather",
    "read_iceberg",
    "read_json",
    "read_orc",
    "read_parquet",
    "read_set",
    "read_table",
    "to_datetime",
    "to_numeric",
    "to_timedelta",
    "wide_to_long",
]
__all__ += [
    name for name in _pandas.__all__ if name not in __all__
]  # for `from craton.pandas import *`; __getattr__ finds the names


#: The names of pandas, and Craton's own functions: the other names of this module are no part of the API.
_names = sorted({*dir(_pandas), *__all__})


def __dir__() -> list[str]:
    return list(_names)
