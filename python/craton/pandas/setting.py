"""Setting columns: what ``df[c] = value`` puts into the plan for each kind of value.

Plans never change, so a frame that is assigned to only holds another view afterwards, and nothing that was taken from it
before is touched: that is copy-on-write.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

import pandas as pd
import polars as pl
from pandas.api.types import is_scalar

from craton.errors import Unsupported
from craton.pandas.align import aligned
from craton.pandas.convert import from_array
from craton.pandas.lazy import view
from craton.pandas.view import Value, View
from craton.plan.expr import Literal


def constant(scalar: Any) -> Value:
    """A scalar as a column, with the dtype that pandas infers for it.

    Raises
    ------
    Unsupported
        If the dtype has no physical form.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            frame = pd.DataFrame(index=range(1))
            frame["x"] = scalar
        except Exception as error:
            raise Unsupported(f"{type(error).__name__}: {error}") from error
    array = frame["x"].array
    dtype = frame.dtypes.iloc[0]
    column, nulls, nans = from_array("x", array.to_numpy() if isinstance(array, pd.arrays.NumpyExtensionArray) else array)
    if nans:
        column, nulls = column.fill_nan(None), bool(column.is_nan().any())
    return Value(_literal(column), dtype, nulls=nulls)


def _literal(column: pl.Series) -> Literal:
    kind = column.dtype
    value = column.item()
    if isinstance(kind, (pl.Datetime, pl.Duration)) and value is not None:
        ticks = column.to_physical().item()
        zone = getattr(kind, "time_zone", None)
        if isinstance(kind, pl.Duration):
            value = pd.Timedelta(ticks, unit=kind.time_unit).as_unit(kind.time_unit)
        elif zone is None:
            value = pd.Timestamp(ticks, unit=kind.time_unit).as_unit(kind.time_unit)
        else:
            value = pd.Timestamp(ticks, unit=kind.time_unit, tz="UTC").as_unit(kind.time_unit).tz_convert(zone)
    return Literal(value, kind)


def column_for(held: View, value: Any) -> tuple[View, Value]:
    """A value that is assigned to a column of a view, over one base with it.

    Raises
    ------
    Unsupported
        If it can't be put beside the view's rows exactly.
    """
    if isinstance(value, pd.Series):
        held, other = aligned(held, view(value))
        return held, other.values[0]
    if is_scalar(value):
        return held, constant(value)
    raise Unsupported(f"a column from a {type(value).__name__}")


def with_column(held: View, label: Hashable, value: Value) -> View:
    """The view with a column set: in its place, or added at the end."""
    found = held.positions(label)
    if len(found) > 1:
        raise Unsupported(f"several columns are named {label!r}")
    if found:
        values = list(held.values)
        values[found[0]] = value
        return held.with_values(values)
    return held.with_values((*held.values, value), _extended(held.labels, label))


def _extended(labels: pd.Index, label: Hashable) -> pd.Index:
    """Labels with one more, of the dtype that pandas gives them."""
    frame = pd.DataFrame(columns=labels, index=range(0))
    frame[label] = 0
    return frame.columns


def assigned(held: View, label: Any, value: Any) -> View:
    """``df[label] = value`` for one column.

    Raises
    ------
    Unsupported
        If pandas must do it.
    """
    if isinstance(held.labels, pd.MultiIndex) or not (is_scalar(label) or isinstance(label, tuple)):
        raise Unsupported("assignment of this kind")
    held, column = column_for(held, value)
    return with_column(held, label, column)
