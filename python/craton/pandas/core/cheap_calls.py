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

import pandas as pd
from pandas.api.types import is_list_like

from craton.config import options
from craton.pandas.core.axes import current_view
from craton.pandas.core.counterparts import plannable
from craton.pandas.core.dtypes import kind_of
from craton.pandas.core.routing import operands
from craton.pandas.core.unchanged import unchanged

__all__ = ["CHEAP", "is_cheap", "runs_in_pandas"]

_ARITHMETIC = "add sub mul div divide multiply subtract truediv floordiv mod pow eq ne lt le gt ge"
_OPERATORS = (
    "add sub mul truediv floordiv mod pow and or xor radd rsub rmul rtruediv rfloordiv rmod rpow rand ror rxor iadd isub imul itruediv "
    "ifloordiv imod ipow iand ior ixor eq ne lt le gt ge invert neg pos abs"
)
_BOTH = f"""
    {_ARITHMETIC} abs round clip where mask fillna ffill bfill isna isnull notna notnull shift diff pct_change cumsum cumprod cummax cummin
    sum mean min max count std var sem median prod all any head tail value_counts nunique quantile describe duplicated nsmallest nlargest
    astype __setitem__ take
    """
_FRAME = "assign insert melt to_parquet to_feather"
_SERIES = "map sort_values idxmax idxmin mode unique argmax argmin first_valid_index last_valid_index combine_first"
_STRINGS = """
    capitalize casefold center count find fullmatch get isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper
    ljust lower lstrip normalize pad removeprefix removesuffix repeat rfind rjust rstrip slice_replace strip swapcase title translate upper
    wrap zfill split rsplit partition rpartition cat
    """
_GROUPS = "cumsum cumprod cummax cummin shift diff pct_change ffill bfill ngroup transform idxmax idxmin value_counts"


def _labels() -> set[str]:
    labels = {f"{kind}.{name}" for kind in ("DataFrame", "Series") for name in _BOTH.split()}
    labels |= {f"{kind}.__{name}__" for kind in ("DataFrame", "Series") for name in _OPERATORS.split()}
    labels |= {f"DataFrame.{name}" for name in _FRAME.split()} | {f"Series.{name}" for name in _SERIES.split()}
    labels |= {f"Series.str.{name}" for name in _STRINGS.split()}
    labels |= {f"{kind}GroupBy.{name}" for kind in ("DataFrame", "Series") for name in _GROUPS.split()}
    return labels | {"loc of an indexer", "iloc of an indexer", "concat"}


#: The calls that run in pandas if their operands are in memory, besides the members of ``Series.dt``.
CHEAP = _labels()


def is_cheap(label: str) -> bool:
    """Whether a call, by its label, runs in pandas if its operands are in memory."""
    return label in CHEAP or label.startswith("Series.dt.")


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
    if not options.small_rows or any(map(callable, args)) or any(map(callable, kwargs.values())):
        return False
    suits = _SUITS.get(label)
    if suits is not None and not suits(obj, args):
        return False
    subjects = _subjects(obj)
    return subjects is not None and all(map(_is_in_memory, [*subjects, *operands(args, kwargs)]))


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


def _is_in_memory(obj: Any) -> bool:
    """Whether an object is in memory. One that has all columns unchanged from data in memory is given their arrays."""
    if not plannable(type(obj)):
        return True
    state = obj.__dict__
    held = current_view(state)
    if held is None:
        return "_mgr" in state
    if not unchanged(held).is_all(held):
        return False
    return obj._mgr is not None


# -- calls that are cheap for some dtypes or arguments ----------------------------------------------------------------


def _first(args: tuple[Any, ...]) -> Any:
    return args[0] if args else None


def _casts_quickly(obj: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``astype`` parses no text: that is slower in pandas."""
    if isinstance(obj, pd.Series):
        return kind_of(obj.dtype) != "T" or _first(args) in ("category", "str", "string")
    return not any(kind_of(dtype) == "T" for dtype in obj.dtypes)


def _maps_by_series(_: Any, args: tuple[Any, ...]) -> bool:
    return isinstance(_first(args), pd.Series)


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


def _is_column(obj: Any, args: tuple[Any, ...]) -> bool:
    return isinstance(_first(args), str)


_SUITS: dict[str, Callable[[Any, tuple[Any, ...]], bool]] = {
    "DataFrame.astype": _casts_quickly,
    "Series.astype": _casts_quickly,
    "Series.map": _maps_by_series,
    "loc of an indexer": _selects_positions,
    "iloc of an indexer": _selects_positions,
    "DataFrame.__setitem__": _is_column,
}
