"""``unstack``, ``pivot``, ``stack`` and ``transpose``: a plan computes the rows, and pandas' own code reshapes them.

The columns of these results are values of the data, or as many as there are rows. Such tables are small: results of a group-by, or a
few rows. So the plan of the object runs when the method is called, for the needed columns only, and pandas reshapes its rows. Large
tables are refused, so that their calls are counted.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.extensions import no_default
from pandas.api.types import is_hashable, is_list_like

from craton.errors import Unsupported
from craton.pandas.core.axes import current_view
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import native
from craton.pandas.core.routing import plain_pandas
from craton.refusals import Refusal

#: The most rows that are reshaped. In larger tables, pandas' own code would be the greater part of the work.
MOST_ROWS = 1_000_000


def refuse_many_rows(obj: Any) -> None:
    """Run the plan of an object whose rows pandas is to reshape.

    Raises
    ------
    Unsupported
        If there are more than :data:`MOST_ROWS`. The plan is not run if that is known before.
    """
    held = current_view(obj.__dict__)
    known = held is not None and held.rows is not None and held.rows > MOST_ROWS
    with plain_pandas():  # so that reading the rows is not counted
        if known or len(obj._mgr.axes[-1]) > MOST_ROWS:
            raise Unsupported(Refusal.ROWS_TO_RESHAPE)


def reshaped(obj: Any, base: type, method: str, *args: Any, **kwargs: Any) -> Any:
    """The result of pandas' own method of a class, called with an object whose plan has run."""
    refuse_many_rows(obj)
    with plain_pandas():
        return as_craton(getattr(base, method)(obj, *args, **kwargs))


def with_columns(frame: Any, given: list[Any]) -> Any:
    """A frame with only the columns that arguments name, so that the others are not computed.

    Parameters
    ----------
    frame
        The frame.
    given
        Arguments, each a label or a list of labels.

    Returns
    -------
    DataFrame
        The frame itself if it is in memory, or if an argument is not a column; pandas then raises the error.
    """
    held = current_view(frame.__dict__)
    if held is None or isinstance(held.labels, pd.MultiIndex) or not held.labels.is_unique or held.labels.hasnans:
        return frame
    labels = [label for one in given for label in (one if is_list_like(one) and not isinstance(one, tuple) else [one])]
    if not all(map(is_hashable, labels)) or any(len(held.positions(label)) != 1 for label in labels):
        return frame
    chosen = sorted({held.position(label) for label in labels})
    return lazy(type(frame), held.take(chosen), frame)


class FrameTables:
    """Methods of DataFrame."""

    @native(pd.DataFrame)
    def unstack(self: Any, level: Any = -1, fill_value: Any = None, sort: Any = True) -> Any:
        return reshaped(self, pd.DataFrame, "unstack", level, fill_value, sort)

    @native(pd.DataFrame)
    def stack(self: Any, *args: Any, **kwargs: Any) -> Any:
        return reshaped(self, pd.DataFrame, "stack", *args, **kwargs)

    @native(pd.DataFrame)
    def transpose(self: Any, *args: Any, copy: Any = no_default) -> Any:
        return reshaped(self, pd.DataFrame, "transpose", *args, copy=copy)

    @native(pd.DataFrame)
    def pivot(self: Any, *, columns: Any, index: Any = no_default, values: Any = no_default) -> Any:
        frame = self
        if values is not no_default:
            frame = with_columns(self, [one for one in (columns, index, values) if one is not no_default])
        return reshaped(frame, pd.DataFrame, "pivot", columns=columns, index=index, values=values)


class SeriesTables:
    """Methods of Series."""

    @native(pd.Series)
    def unstack(self: Any, level: Any = -1, fill_value: Any = None, sort: Any = True) -> Any:
        return reshaped(self, pd.Series, "unstack", level, fill_value, sort)
