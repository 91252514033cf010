"""The functions ``pivot``, ``pivot_table`` and ``wide_to_long``."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas, plain_pandas
from craton.pandas.reshape.pivoting import pivot_table as pivot_table_of_plan
from craton.pandas.reshape.small_tables import refuse_many_rows
from craton.refusals import Refusal


def _refuse_other_objects(data: Any) -> None:
    if not isinstance(data, pd.DataFrame):
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)


@native_function(pd.pivot, stays=in_plain_pandas("data"))
def pivot(data: Any, *, columns: Any, index: Any = no_default, values: Any = no_default) -> Any:
    """Turn the values of columns into column labels; see :func:`pandas.pivot`."""
    _refuse_other_objects(data)
    return as_craton(data).pivot(columns=columns, index=index, values=values)


@native_function(pd.pivot_table, stays=in_plain_pandas("data"))
def pivot_table(data: Any, *args: Any, **kwargs: Any) -> Any:
    """Aggregate the rows of each combination of columns; see :func:`pandas.pivot_table`."""
    _refuse_other_objects(data)
    return pivot_table_of_plan(as_craton(data), *args, **kwargs)


@native_function(pd.wide_to_long, stays=in_plain_pandas("df"))
def wide_to_long(df: Any, *args: Any, **kwargs: Any) -> Any:
    """Turn columns with numbered names into rows; see :func:`pandas.wide_to_long`."""
    _refuse_other_objects(df)
    refuse_many_rows(df)
    with plain_pandas():
        return as_craton(pd.wide_to_long(df, *args, **kwargs))


__all__ = ["pivot", "pivot_table", "wide_to_long"]
