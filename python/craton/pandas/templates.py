"""Templates: tiny frames that stand for a lazy one while pandas resolves a choice of its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from craton.pandas.lazy import lazy
from craton.pandas.view import View


def template(labels: pd.Index) -> pd.DataFrame:
    """A frame of one row with the given columns; each holds its own position."""
    frame = pd.DataFrame(np.arange(len(labels)).reshape(1, -1))
    frame.columns = labels
    return frame


def chosen_columns(obj: Any, held: View, choose: Callable[[pd.DataFrame], Any]) -> Any:
    """What a choice of columns on the template means for a view: a lazy DataFrame, or a Series for one column.

    Parameters
    ----------
    obj
        The frame that the columns are of.
    held
        Its view, or one with other rows.
    choose
        Applied to the template; may raise as pandas does.
    """
    found = choose(template(held.labels))
    if isinstance(found, pd.DataFrame):
        return lazy(type(obj), replace(held.take(found.iloc[0].tolist()), labels=found.columns), obj)
    from craton.pandas.series import Series

    return lazy(Series, held.series(held.values[int(found.iloc[0])], found.name), obj)
