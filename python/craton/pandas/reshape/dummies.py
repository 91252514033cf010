"""``get_dummies``: a column of indicators for each distinct value. A small query finds the values, since the columns depend on them.

pandas' own function runs on the distinct values. Its result shows the labels, the order and the dtypes of the columns, and which value
each column indicates.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_hashable

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.array_conversion import to_array
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.dtypes import OBJECT, family, kind_of, physical, with_missing
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, refuse_unique_labels_flag, view
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas, plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.reshape.tables import refuse_subclasses
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, Values
from craton.plan.operators import Distinct
from craton.records import dataclass
from craton.refusals import Refusal

__all__ = ["get_dummies"]

#: A frame of more indicator columns than this is made by pandas.
MOST_COLUMNS = 1000


@dataclass(frozen=True, slots=True)
class Indicators:
    """The indicator columns of one column.

    Parameters
    ----------
    code
        The position of the indicator column that is true in a row; -1 if none is.
    frame
        What pandas returns for the distinct values: it has the labels and dtypes of the columns.
    """

    code: Expr
    frame: pd.DataFrame


@native_function(pd.get_dummies, stays=in_plain_pandas("data"), convert=False)
def get_dummies(
    data: Any,
    prefix: Any = None,
    prefix_sep: Any = "_",
    dummy_na: Any = False,
    columns: Any = None,
    sparse: Any = False,
    drop_first: Any = False,
    dtype: Any = None,
) -> Any:
    """Make indicator columns of the values of columns; see :func:`pandas.get_dummies`."""
    if not isinstance(dummy_na, bool) or not isinstance(drop_first, bool) or sparse is not False:
        raise Unsupported(Refusal.PARAMETERS, "dummy_na, drop_first and sparse")
    if not isinstance(data, (pd.DataFrame, pd.Series)):
        raise Unsupported(Refusal.ARGUMENT_TYPE, type(data).__name__)
    refuse_subclasses(data)
    refuse_unique_labels_flag(data)
    held = resolved(view(data))
    given = {"dummy_na": dummy_na, "drop_first": drop_first, "dtype": dtype}
    if isinstance(data, pd.Series):
        if not isinstance(prefix, (str, type(None))) or not isinstance(prefix_sep, str):
            raise Unsupported(Refusal.PARAMETERS, "prefix and prefix_sep")
        encoded = [_indicators(held, held.values[0], {"prefix": prefix, "prefix_sep": prefix_sep, **given})]
        return lazy(frame_class(), _with_indicators(held, [], encoded))
    if isinstance(held.labels, pd.MultiIndex) or not held.labels.is_unique:
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    chosen = _chosen(held, columns)
    labels = [held.labels[position] for position in chosen]
    prefixes, separators = _for_each(prefix, labels, labels), _for_each(prefix_sep, labels, None)
    encoded = [
        _indicators(held, held.values[position], {"prefix": one, "prefix_sep": separator, **given})
        for position, one, separator in zip(chosen, prefixes, separators, strict=True)
    ]
    rest = [position for position in range(len(held.values)) if position not in chosen]
    return lazy(frame_class(), _with_indicators(held, rest, encoded))


def _chosen(held: View, columns: Any) -> list[int]:
    """The positions of the columns that are encoded: those of ``columns``, or all of strings and categories."""
    if columns is not None:
        if not isinstance(columns, (list, pd.Index)) or not all(map(is_hashable, columns)):
            raise Unsupported(Refusal.PARAMETER, "columns")
        if any(isinstance(label, (bool, np.bool_)) for label in columns):
            raise Unsupported(Refusal.PARAMETER, "columns")  # pandas takes them for a mask of rows
        chosen = [held.position(label) if label in held.labels else -1 for label in columns]
        if -1 in chosen or len(set(chosen)) != len(chosen):
            raise Unsupported(Refusal.PARAMETER, "columns")
    else:
        for value in held.values:
            if value.dtype == OBJECT or (family(value.dtype) == "arrow" and kind_of(value.dtype) not in "Tbiuf"):
                raise Unsupported(Refusal.OPERATION, f"indicators of {value.dtype}")
        chosen = [
            position
            for position, value in enumerate(held.values)
            if kind_of(value.dtype) == "T" or isinstance(value.dtype, pd.CategoricalDtype)
        ]
    if not chosen:
        raise Unsupported(Refusal.NO_INDICATORS)
    return chosen


def _for_each(given: Any, labels: list[Hashable], usual: list[Hashable] | None) -> list[Any]:
    """A prefix or a separator for each encoded column."""
    if given is None and usual is not None:
        return usual
    if isinstance(given, str):
        return [given] * len(labels)
    if isinstance(given, dict) and all(label in given for label in labels) and len(given) == len(labels):
        return [given[label] for label in labels]
    if isinstance(given, list) and len(given) == len(labels):
        return given
    raise Unsupported(Refusal.PARAMETERS, "prefix and prefix_sep")


def _indicators(held: View, value: Value, given: dict[str, Any]) -> Indicators:
    """The indicators of a column; ``given`` are the parameters of :func:`pandas.get_dummies` for one column.

    Raises
    ------
    Unsupported
        If the values of the column are of a dtype that plans do not encode, or there are none, or too many.
    """
    value = value.clean
    kind = kind_of(value.dtype)
    categorical = isinstance(value.dtype, pd.CategoricalDtype)
    if (kind not in "biuT" and not categorical) or family(value.dtype) == "object":
        raise Unsupported(Refusal.OPERATION, f"indicators of {value.dtype}")
    base = Distinct(build.project(held.base, (("value", value.expr),)), ("value",), "any")
    (rows,) = collect_rows([base])
    keys = rows.get_column("value").drop_nulls()
    if len(keys) > MOST_COLUMNS or (not len(keys) and not categorical):
        raise Unsupported(Refusal.NO_INDICATORS)
    missing = with_missing(value.dtype) == value.dtype
    texts = to_array(pl.concat([keys, pl.Series([None], dtype=keys.dtype)]) if missing else keys, value.dtype)
    with plain_pandas():
        frame = stand_ins.probe(pd.get_dummies, pd.Series(texts, copy=False), **given)
    if not 0 < frame.shape[1] <= MOST_COLUMNS:
        raise Unsupported(Refusal.NO_INDICATORS)
    marks = frame.to_numpy(dtype=bool)
    codes = np.where(marks.any(axis=1), marks.argmax(axis=1), -1)
    other = int(codes[-1]) if missing else -1
    places = Values.of(pl.Series(codes[: len(keys)], dtype=pl.Int32))
    found = Call("map_values", (value.expr, Values.of(keys), places), pl.Int32())
    return Indicators(Call("fill_null", (found, Literal(other, pl.Int32())), pl.Int32()), frame)


def _with_indicators(held: View, rest: Sequence[int], encoded: Sequence[Indicators]) -> View:
    """The view of the other columns, followed by the indicators."""
    frames = [one.frame.iloc[:0] for one in encoded]
    labels = held.labels.take(list(rest))
    if rest:
        frames.insert(0, stand_ins.without_rows(labels))
    with plain_pandas():
        joined = frames[0].columns if len(frames) == 1 else stand_ins.probe(pd.concat, frames, axis=1).columns
    held, codes = held.take(list(rest)).projected_with([one.code for one in encoded])
    values = list(held.values)
    for code, one in zip(codes, encoded, strict=True):
        for position, dtype in enumerate(one.frame.dtypes):
            values.append(_as_dtype(Call("eq", (code, Literal(position, pl.Int32())), pl.Boolean()), dtype))
    return held.with_values(values, joined)


def _as_dtype(mark: Expr, dtype: Any) -> Value:
    kind = physical(dtype)
    return Value(mark if kind == pl.Boolean() else Call("cast", (mark,), kind), dtype, nulls=False)
