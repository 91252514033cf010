"""``compare`` of two objects with the same labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton, as_pandas
from craton.pandas.core.routing import plain_pandas
from craton.refusals import Refusal


def compared(left: Any, right: Any, align_axis: Any, keep_shape: Any, keep_equal: Any, result_names: Any) -> Any:
    """The rows of two objects that differ, which pandas puts beside each other.

    A plan finds these rows. One row without a difference is added, if there is one: pandas replaces equal values by missing ones, which
    changes the dtypes of columns.

    Raises
    ------
    Unsupported
        If equal rows are kept too, or the objects are of different classes.
    ValueError
        As pandas raises it, if the labels differ.
    """
    if keep_shape is not False or not isinstance(keep_equal, bool) or type(left) is not type(right):
        raise Unsupported(Refusal.PARAMETERS, "other, keep_shape and keep_equal")
    base = pd.DataFrame if isinstance(left, pd.DataFrame) else pd.Series
    equal = ((left == right) | (left.isna() & right.isna())).fillna(False).astype(bool)
    if base is pd.DataFrame:
        equal = equal.all(axis=1)
    alike = equal.to_numpy(dtype=bool)
    rows = np.flatnonzero(~alike)
    if len(rows) < len(alike):
        rows = np.union1d(rows, [alike.argmax()])
    few = [obj if len(rows) == len(alike) else obj.take(rows) for obj in (left, right)]
    with plain_pandas():
        ours, theirs = map(as_pandas, few)
        return as_craton(base.compare(ours, theirs, align_axis, False, keep_equal, result_names))
