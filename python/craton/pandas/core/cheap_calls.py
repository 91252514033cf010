"""Calls that pandas computes at once on data in memory, because a plan would take longer.

A plan is worth its cost where the kernel is faster than pandas, or where it computes several calls in one pass. For calls that pandas
computes in one pass over arrays in memory, as ``diff``, ``abs`` or ``s + 1``, a plan only adds the conversion of the columns. Such a
call runs in pandas if all of its operands are in memory. The result is in memory too, and later calls may extend a plan over it.

The table is measured: ``python -m bench pandas`` compares each call with pandas. ``craton.options.small_rows = 0`` sends all calls
through plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_list_like

from craton.config import options
from craton.pandas.core.axes import current_view
from craton.pandas.core.counterparts import plannable
from craton.pandas.core.dtypes import kind_of
from craton.pandas.core.routing import operands
from craton.pandas.core.scanning import share_columns
from craton.pandas.core.unchanged import unchanged

__all__ = ["CHEAP", "is_cheap", "is_in_memory", "runs_in_pandas", "with_shared_columns"]

_ARITHMETIC = "add sub mul div divide multiply subtract truediv floordiv mod pow eq ne lt le gt ge"
_OPERATORS = (
    "add sub mul truediv floordiv mod pow and or xor radd rsub rmul rtruediv rfloordiv rmod rpow rand ror rxor iadd isub imul itruediv "
    "ifloordiv imod ipow iand ior ixor eq ne lt le gt ge invert neg pos abs"
)
_BOTH = f"""
    {_ARITHMETIC} abs round clip where mask fillna ffill bfill isna isnull notna notnull shift diff pct_change cumsum cumprod cummax cummin
    sum mean min max count std var sem median prod all any head tail value_counts nunique quantile describe duplicated nsmallest nlargest
    astype __setitem__ take reindex reindex_like align combine_first update xs drop
    drop_duplicates sample filter at_time between_time
    idxmax idxmin mode skew kurt kurtosis corr cov interpolate dot transform asfreq
    """
_FRAME = """
    apply join sort_values assign dropna rank insert melt to_parquet to_feather unstack stack transpose pivot corrwith __matmul__
    rename select_dtypes
    """
_SERIES = "map sort_values rank argsort autocorr unique argmax argmin first_valid_index last_valid_index unstack"
_STRINGS = """
    capitalize casefold center count find fullmatch get isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper
    ljust lower lstrip normalize pad removeprefix removesuffix repeat rfind rjust rstrip slice slice_replace strip swapcase title translate
    upper wrap zfill partition rpartition cat replace
    """
_GROUPS = "cumsum cumprod cummax cummin shift diff pct_change ffill bfill ngroup transform idxmax idxmin value_counts"
_WINDOWS = "count mean sum std var min max median skew kurt quantile sem first last nunique rank corr cov agg aggregate"
_WEIGHTED = "mean sum std var corr cov agg aggregate"
_FUNCTIONS = (
    "concat get_dummies merge_asof merge_ordered to_datetime to_numeric to_timedelta cut qcut pivot wide_to_long"
)


#: The label of functions of NumPy, which get the function as their first argument.
UFUNC = "DataFrame.__array_ufunc__"


#: Sorts, which run in pandas with a function as the parameter ``key``; those of frames only then.
_SORTS = frozenset(["DataFrame.sort_values", "Series.sort_values"])


def _labels() -> set[str]:
    labels = {f"{kind}.{name}" for kind in ("DataFrame", "Series") for name in _BOTH.split()}
    labels |= {f"{kind}.__{name}__" for kind in ("DataFrame", "Series") for name in _OPERATORS.split()}
    labels |= {f"DataFrame.{name}" for name in _FRAME.split()} | {f"Series.{name}" for name in _SERIES.split()}
    labels |= {f"Series.str.{name}" for name in _STRINGS.split()}
    labels |= {f"{kind}GroupBy.{name}" for kind in ("DataFrame", "Series") for name in _GROUPS.split()}
    labels |= {f"{kind}.{name}" for kind in ("Rolling", "Expanding") for name in _WINDOWS.split()}
    labels |= {f"ExponentialMovingWindow.{name}" for name in _WEIGHTED.split()}
    labels |= {f"{kind}GroupBy.quantile" for kind in ("DataFrame", "Series")}
    labels |= set(_FUNCTIONS.split())
    return labels | {"loc of an indexer", "iloc of an indexer", UFUNC}


#: The calls that run in pandas if their operands are in memory, besides members of ``Series.dt`` and ``Series.cat``.
CHEAP = _labels()
#: The members of ``Series.dt`` that pandas computes slowly.
_SLOW = frozenset(["Series.dt.strftime", "Series.dt.components"])


def is_cheap(label: str) -> bool:
    """Whether a call, by its label, runs in pandas if its operands are in memory."""
    return label in CHEAP or (label.startswith(("Series.dt.", "Series.cat.")) and label not in _SLOW)


def runs_in_pandas(label: str, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call for which :func:`is_cheap` is true runs in pandas: its operands are in memory, and pandas is fast for them.

    Parameters
    ----------
    label
        The label of the call.
    obj
        The frame, series, group-by object, accessor or indexer; None for a function.
    args, kwargs
        The arguments.
    """
    if not options.small_rows or any(map(_is_function, args)):
        return False
    by_function = label in _SORTS and callable(kwargs.get("key"))
    if not by_function and (label == "DataFrame.sort_values" or any(map(_is_function, kwargs.values()))):
        return False
    if label in _BY_LABEL and not {"_origin", "_view"}.isdisjoint(obj.__dict__):
        return False
    if label == "DataFrame.rename" and (args or kwargs.keys() != {"columns"}):
        return False
    if label in _ALONG_COLUMNS and kwargs.get("axis", _first(args)) not in (1, "columns"):
        return False
    suits = _SUITS.get(label)
    if suits is not None and not suits(obj, args):
        return False
    if label == _REPLACE and not _replaces_literally(args, kwargs):
        return False
    subjects = _subjects(obj)
    return subjects is not None and all(map(is_in_memory, [*subjects, *operands(args, kwargs)]))


#: Methods that only choose or rename columns. A frame that a plan has computed has one block for each column, unlike in pandas, which
#: some methods depend on; a plan over it has the same blocks.
_BY_LABEL = frozenset(["DataFrame.rename", "DataFrame.select_dtypes"])
#: Methods whose results share columns of the frame.
_SHARING = _BY_LABEL | {"DataFrame.drop"}


def with_shared_columns(label: str, made: Any, obj: Any) -> Any:
    """Record for a result of pandas that it may share columns of the object, and return it."""
    return share_columns(made, obj) if label in _SHARING and isinstance(made, pd.DataFrame) else made


#: Methods that are cheap along the columns only.
_ALONG_COLUMNS = frozenset(["DataFrame.dropna", "DataFrame.rank"])


def _is_function(arg: Any) -> bool:
    """Whether an argument is a function of the user: no type, which names a dtype, and none of NumPy, which gets whole columns."""
    return callable(arg) and not isinstance(arg, (type, np.ufunc))


def _subjects(obj: Any) -> list[Any] | None:
    """The frames and series that hold the data of an object; None for a group-by with keys that may be computed."""
    if obj is None:
        return []
    if isinstance(obj, (pd.DataFrame, pd.Series)):
        return [obj]
    state = obj.__dict__
    if "_series" in state:  # an accessor
        return [state["_series"]]
    if "_grouped_view" not in state:
        return [obj.obj] if isinstance(getattr(obj, "obj", None), (pd.DataFrame, pd.Series)) else None
    keys = state["_by"] if isinstance(state["_by"], list) else [state["_by"]]
    if not all(key is None or isinstance(key, (str, int, pd.Series)) for key in keys):
        return None
    return [state["_frame"], *(key for key in keys if isinstance(key, pd.Series))]


def is_in_memory(obj: Any) -> bool:
    """Whether an object is in memory. One that has all columns unchanged from data in memory is given their arrays."""
    state = obj.__dict__
    if "_view" not in state:
        return "_mgr" in state or not plannable(type(obj))
    if not plannable(type(obj)):
        return True
    held = current_view(state)
    if held is None:
        return "_mgr" in state
    if not unchanged(held).is_all(held):
        return False
    return obj._mgr is not None


# -- calls that are cheap for some dtypes or arguments ----------------------------------------------------------------


def _first(args: tuple[Any, ...]) -> Any:
    return args[0] if args else None


_TEXT = ("str", "string", str)


def _casts_quickly(obj: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``astype`` parses no text and makes no text of categories: these are slower in pandas."""
    if isinstance(obj, pd.Series):
        if isinstance(obj.dtype, pd.CategoricalDtype):
            return _first(args) not in _TEXT
        return kind_of(obj.dtype) != "T" or _first(args) in ("category", *_TEXT)
    return not any(kind_of(dtype) == "T" for dtype in obj.dtypes)


def _maps_by_series(_: Any, args: tuple[Any, ...]) -> bool:
    return isinstance(_first(args), pd.Series)


def _ranks_numbers(obj: Any, _: tuple[Any, ...]) -> bool:
    """Whether numbers or times are ranked: pandas sorts texts as Python objects."""
    return kind_of(obj.dtype) in "biufmM"


def _selects_positions(indexer: Any, args: tuple[Any, ...]) -> bool:
    """Whether rows are selected by something else than a mask, which later calls may combine with others."""
    key = _first(args)
    rows = key[0] if isinstance(key, tuple) and key else key
    if isinstance(rows, slice):
        return rows != slice(None)
    if not is_list_like(rows):
        return True
    dtype = getattr(rows, "dtype", None)
    if dtype is not None:
        return kind_of(dtype) != "b"
    return not any(isinstance(one, bool) for one in rows)


def _joins_several(_: Any, args: tuple[Any, ...]) -> bool:
    return isinstance(_first(args), (list, tuple))


def _is_parsed_quickly(_: Any, args: tuple[Any, ...]) -> bool:
    """Whether a column is parsed that is no text, or a frame of the parts of dates."""
    column = _first(args)
    return isinstance(column, pd.DataFrame) or (isinstance(column, pd.Series) and kind_of(column.dtype) in "iufmM")


def _is_column(obj: Any, args: tuple[Any, ...]) -> bool:
    return isinstance(_first(args), str)


def _has_several(_: Any, args: tuple[Any, ...]) -> bool:
    """Whether several quantiles are computed, which pandas selects from one sorted group."""
    return is_list_like(_first(args))


#: A pattern is replaced faster by the kernel, and a text by Arrow, which pandas calls.
_REPLACE = "Series.str.replace"


def _replaces_literally(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether ``str.replace`` replaces a text by a text."""
    named = {**dict(zip(("pat", "repl"), args, strict=False)), **kwargs}
    plain = len(args) <= 2 and named.keys() <= {"pat", "repl", "n", "regex"} and not named.get("regex", False)
    return plain and isinstance(named.get("pat"), str) and isinstance(named.get("repl"), str)


_SUITS: dict[str, Callable[[Any, tuple[Any, ...]], bool]] = {
    "DataFrame.astype": _casts_quickly,
    "Series.astype": _casts_quickly,
    "Series.map": _maps_by_series,
    "Series.rank": _ranks_numbers,
    "loc of an indexer": _selects_positions,
    "iloc of an indexer": _selects_positions,
    "DataFrame.__setitem__": _is_column,
    "DataFrameGroupBy.quantile": _has_several,
    "SeriesGroupBy.quantile": _has_several,
    "DataFrame.join": _joins_several,
    "to_datetime": _is_parsed_quickly,
    "to_numeric": _is_parsed_quickly,
    "to_timedelta": _is_parsed_quickly,
}
