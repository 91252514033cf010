"""``shift`` with a frequency, which shifts the row labels, and with several periods, which makes a column for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_integer

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.execute import has_rows
from craton.pandas.core.lazy import lazy
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.indexing.rows import labelled, row_labels
from craton.refusals import Refusal


def shifted_labels(held: View, periods: int, freq: Any) -> View:
    """The same rows with row labels that pandas shifts by a number of periods of a frequency."""
    labels = row_labels(held)
    if isinstance(labels, pd.MultiIndex):
        raise Unsupported(Refusal.SHIFT_PERIODS)
    with plain_pandas():
        found = pd.Series(np.arange(len(labels)), index=labels).shift(periods, freq=freq).index
    return labelled(held, found)


def several_shifts(
    obj: Any, held: View, periods: list[Any], suffix: Any, shifted: Callable[[Value, int], Value]
) -> Any:
    """The frame of all columns shifted by each of several periods.

    Parameters
    ----------
    obj, held
        The object and its view.
    periods, suffix
        As in :meth:`pandas.DataFrame.shift`.
    shifted
        Shifts a column.
    """
    if not periods or not all(is_integer(period) and not isinstance(period, bool) for period in periods):
        raise Unsupported(Refusal.PARAMETER, f"periods={periods!r}")
    if isinstance(held.labels, pd.MultiIndex):
        raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
    if any(abs(int(period)) >= 2**31 for period in periods) or not (suffix is None or isinstance(suffix, str)):
        raise Unsupported(Refusal.PARAMETERS, "periods and suffix")
    if not held.values or not has_rows(held):  # pandas returns the frame itself
        raise Unsupported(Refusal.NO_ROWS_LABELS_KEPT)
    few = stand_ins.positions(held.labels)
    one = few if isinstance(obj, pd.DataFrame) else few.iloc[:, 0]
    labels = stand_ins.probe(one.shift, periods, suffix=suffix, about="shift").columns
    values = [shifted(value, int(period)) for period in periods for value in held.values]
    return lazy(frame_class(), held.with_values(values, labels), obj)
