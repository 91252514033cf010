"""Selection of rows by mask, by position and by label.

pandas itself resolves labels: :func:`by_label` materialises the row labels alone, and indexes a Series of row positions that
has these labels with the user's key. So each kind of key and index has pandas' meaning. The other columns stay in the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_bool_dtype, is_integer, is_integer_dtype, is_numeric_dtype
from pandas.core.common import is_bool_indexer
from pandas.core.indexes.api import ensure_index

from craton.errors import Unsupported
from craton.pandas.core.align import aligned, attached
from craton.pandas.core.array_conversion import range_index
from craton.pandas.core.axes import labels_of
from craton.pandas.core.dtypes import kind_of
from craton.pandas.core.execute import count_rows, index_columns, materialise
from craton.pandas.core.lazy import view
from craton.pandas.core.view import IndexSpec, View, condition
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, Values
from craton.plan.operators import Join, Operator, RowNumber, Scan, Slice, schema
from craton.plan.sources import MemorySource
from craton.refusals import Refusal


def row_labels(held: View) -> pd.Index:
    """The row labels, materialised without the columns."""
    return labels_of(held)


def is_full_slice(key: Any) -> bool:
    """Whether a key is ``:``."""
    return isinstance(key, slice) and key.start is None and key.stop is None and key.step is None


# -- masks -----------------------------------------------------------------------------------------------------------


def masked(held: View, mask: Any) -> tuple[View, Expr]:
    """A view and a predicate over its base that is true in the rows that a boolean mask selects.

    Parameters
    ----------
    held
        The rows.
    mask
        A boolean Series with the same labels, or as many booleans as there are rows.

    Raises
    ------
    Unsupported
        If the mask doesn't fit the rows, for example because it has two dimensions. pandas then raises an error, warns, or
        selects the rows itself.
    """
    if isinstance(mask, pd.Series):
        selector = view(mask)
        try:
            held, selector = aligned(held, selector)
        except Unsupported:
            arrays, labels = materialise(selector)
            if len(labels) != count_rows(held) or not labels.equals(row_labels(held)):
                raise
            return attach_mask(held, arrays[0])
        return held, condition(selector.values[0])
    if isinstance(mask, pd.Index) and not is_bool_dtype(mask.dtype):
        raise Unsupported(Refusal.MASK_INDEX)
    array = mask.array if isinstance(mask, pd.Index) else mask
    return attach_mask(held, array if hasattr(array, "dtype") else np.asarray(array, dtype=bool))


def attach_mask(held: View, array: Any) -> tuple[View, Expr]:
    """A view with a boolean array attached to its rows, and the array's column as a predicate; missing values are false."""
    if array.ndim != 1 or not is_bool_dtype(array.dtype) or len(array) != count_rows(held):
        raise Unsupported(Refusal.MASK_LENGTH)
    if isinstance(array, pd.api.extensions.ExtensionArray):
        array = array.to_numpy(dtype=bool, na_value=False)
    held, (column,) = attached(held, [pl.Series("mask", np.array(array, dtype=bool))])
    return held, column


def is_mask(key: Any) -> bool:
    """Whether a key is a list-like of booleans."""
    if isinstance(key, pd.Series):
        return bool(key.dtype == bool) or str(key.dtype) in ("boolean", "bool[pyarrow]")
    if isinstance(key, (pd.MultiIndex, pd.DataFrame)):
        return False
    return bool(is_bool_indexer(key))


# -- positions -------------------------------------------------------------------------------------------------------


def sliced(held: View, start: int | None, stop: int | None) -> View:
    """Rows by position, like a Python slice of step 1."""
    begin = 0 if start is None else start
    if begin == 0 and stop is None:
        return held
    rows = held.rows
    if rows is None and stop is not None and (begin < 0 or stop < 0):
        rows = count_rows(held)
    held = held.numbered()
    if rows is not None:
        begin, end, _ = slice(start, stop).indices(rows)
        length = max(end - begin, 0)
        return _slice(held, begin, length, length)
    if stop is not None:
        return _slice(held, begin, max(stop - begin, 0), None)
    return _slice(held, begin, None if begin >= 0 else -begin, None)


def bounds(key: slice) -> tuple[int | None, int | None]:
    """Start and stop of a slice of positions.

    Raises
    ------
    Unsupported
        If they are not integers; pandas then raises its own error.
    """
    for bound in (key.start, key.stop):
        if bound is not None and not is_integer(bound):
            raise Unsupported(Refusal.BOUNDS_NOT_INTEGERS)
    return (None if key.start is None else int(key.start), None if key.stop is None else int(key.stop))


def by_slice(held: View, key: slice) -> View:
    """``obj[start:stop:step]``: by position for integers, by label for others.

    Raises
    ------
    TypeError and others
        As pandas raises them.
    """
    plain = all(bound is None or type(bound) is int for bound in (key.start, key.stop, key.step))
    floating = held.index.kind == "labels" and kind_of(held.index.values[0].dtype) == "f"
    if not plain or floating:
        found = row_labels(held)._convert_slice_indexer(key, kind="getitem")  # type: ignore[attr-defined]
        return sliced_with_step(held, found)
    return sliced(held, key.start, key.stop) if key.step in (None, 1) else sliced_with_step(held, key)


def sliced_with_step(held: View, key: Any) -> View:
    """Rows by a slice of positions with any step. The frequency of the row labels, if any, is multiplied by the step.

    pandas finds positions, and no slice, by a text that stands for several times of labels that are not sorted.
    """
    rows = len(range(*key.indices(count_rows(held)))) if _ascends(key) else 0
    chosen = _each_nth(held, key, rows) if rows else taken(held, positions_of(held, key))
    freq = held.before_selection().index.freq if isinstance(key, slice) else None
    if freq is None or key.step is None:
        return chosen
    return replace(chosen, index=replace(chosen.index, freq=int(key.step) * freq, regular_rows=chosen.base))


def _ascends(key: Any) -> bool:
    return isinstance(key, slice) and _has_integer_bounds(key) and key.step is not None and 1 < key.step < 1 << 31


def _has_integer_bounds(key: slice) -> bool:
    return all(bound is None or is_integer(bound) for bound in (key.start, key.stop, key.step))


def _each_nth(held: View, key: slice, rows: int) -> View:
    """The rows of a slice whose step is greater than 1; their number is known."""
    held = sliced(held, *(None if bound is None else int(bound) for bound in (key.start, key.stop)))
    step = Literal(int(key.step), pl.UInt32())
    predicate = Call(
        "eq", (Call("mod", (build.row_number(), step), pl.UInt32()), Literal(0, pl.UInt32())), pl.Boolean()
    )
    return replace(held.filtered(predicate), rows=rows)


def _slice(held: View, offset: int, length: int | None, rows: int | None) -> View:
    return held.before_selection().with_rows_from(lambda base, _: Slice(base, offset, length), rows=rows)


def taken(held: View, positions: np.ndarray[Any, Any], index: pd.Index | None = None) -> View:
    """Rows by position, in the order of the positions; a repeated position repeats the row.

    Parameters
    ----------
    held
        The rows to select from.
    positions
        Row positions: integers that are not negative and less than the number of rows.
    index
        The row labels of the result, as long as ``positions``; by default each row keeps its label.
    """
    count = len(positions)
    if index is None and count and positions[0] + count - 1 == positions[-1] and (np.diff(positions) == 1).all():
        return sliced(held, int(positions[0]), int(positions[-1]) + 1)
    held = held.numbered().before_selection()
    if held.windowed:
        held = held.projected()
    names = [_fresh(held, "__position__"), _fresh(held, "__number__")]
    columns = {names[0]: pl.Series(np.array(positions, dtype="uint32"))}
    spec = held.index
    if index is not None:
        pattern = "__label{}__"
        while any(pattern.format(i) in schema(held.base) for i in range(index.nlevels)):
            pattern += "_"
        series, spec = index_columns(index, pattern)
        columns |= {column.name: column for column in series}
    left = Scan(MemorySource.of(pl.DataFrame(columns)), tuple(columns))

    def rule(base: Operator, _: Any) -> Operator:
        right = RowNumber(base, names[1])
        return Join(left, right, "inner", (left.column(names[0]),), (right.column(names[1]),))

    return replace(held, index=spec).with_rows_from(rule, rows=count)


def _fresh(held: View, name: str) -> str:
    while name in schema(held.base):
        name += "_"
    return name


def positions_of(held: View, key: Any) -> np.ndarray[Any, Any]:
    """The positions that a list of integers or a slice selects; none is negative.

    Raises
    ------
    Unsupported
        If they are out of bounds or not integers; pandas then raises its own error.
    """
    rows = count_rows(held)
    if isinstance(key, slice):
        if not _has_integer_bounds(key):
            raise Unsupported(Refusal.BOUNDS_NOT_INTEGERS)
        if key.step == 0:
            raise Unsupported(Refusal.STEP_ZERO)
        return np.arange(*key.indices(rows))
    array = np.asarray(key)
    valid = is_integer_dtype if array.size else is_numeric_dtype  # an empty list is an array of floats
    if array.ndim != 1 or not valid(array.dtype):
        raise Unsupported(Refusal.KEY_TYPE, type(key).__name__)
    array = array.astype("int64")
    if len(array) and (array.min() < -rows or array.max() >= rows):
        raise Unsupported(Refusal.POSITIONS_OUT_OF_BOUNDS)
    return np.where(array < 0, array + rows, array)


def at_positions(positions: np.ndarray[Any, Any]) -> Expr:
    """A predicate that is true in the rows at some positions."""
    return Call(
        "is_in", (build.row_number(), Values.of(pl.Series(np.asarray(positions, dtype="uint32")))), pl.Boolean()
    )


# -- labels ----------------------------------------------------------------------------------------------------------


def by_label(
    held: View, key: Any, labels: pd.Index | None = None, select: Callable[..., Any] | None = None
) -> View | int:
    """Rows by label: a view, or the position of a single row if the key selects a row and not a frame.

    Parameters
    ----------
    held
        The rows.
    key
        The labels, as pandas accepts them.
    labels
        The row labels, if they are known.
    select
        Selects from a Series of row positions with these labels, by default by ``loc``.

    Raises
    ------
    KeyError and others
        As pandas raises them.
    """
    if held.index.kind == "default" and select is None:
        found = _by_default_label(held, key)
        if found is not None:
            return found
    labels = row_labels(held) if labels is None else labels
    rows = pd.Series(np.arange(len(labels)), index=labels)
    numbers = rows.loc[key] if select is None else select(rows)
    if not isinstance(numbers, pd.Series):
        return int(numbers)
    if held.index.kind == "multi" or not isinstance(labels, type(numbers.index)):
        return relabelled_rows(held, numbers)
    return numbered_rows(held, numbers, len(labels))


def rows_of(held: View, numbers: pd.Series, rows: int) -> View:
    """Rows at the positions in a Series, with its row labels, in their order in ``held``.

    Parameters
    ----------
    held
        The rows to choose from, `rows` in number.
    numbers
        Some of their positions, with the row labels that pandas gives to the result.
    """
    labels = numbers.index
    ranged = held.index.kind in ("default", "range")
    if held.index.kind == "multi" or (
        ranged and isinstance(range_index(labels.to_numpy()), pd.RangeIndex) != isinstance(labels, pd.RangeIndex)
    ):
        return relabelled_rows(held, numbers)
    return numbered_rows(held, numbers, rows)


def relabelled_rows(held: View, numbers: pd.Series) -> View:
    """Rows at the positions in a Series, with its row labels."""
    positions = numbers.to_numpy()
    if len(positions) and positions[0] + len(positions) - 1 == positions[-1] and (np.diff(positions) == 1).all():
        return labelled(sliced(held, int(positions[0]), int(positions[-1]) + 1), numbers.index)
    return taken(held, positions, numbers.index)


def numbered_rows(held: View, numbers: pd.Series, rows: int) -> View:
    """Rows at the positions in a Series, which pandas selected; its row labels have the names and the frequency of the result."""
    positions = numbers.to_numpy()
    freq = held.index.freq and getattr(numbers.index, "freq", None)
    if len(positions) == rows and (positions == np.arange(rows)).all():
        return replace(held, index=replace(held.index, freq=freq))
    chosen = taken(held, positions)
    return replace(chosen, index=replace(chosen.index.renamed(numbers.index.names), freq=freq))


def _by_default_label(held: View, key: Any) -> View | int | None:
    """As :func:`by_label` for default row labels, which are positions; ``None`` if pandas must resolve the key."""
    if isinstance(key, slice):
        start, stop = key.start, key.stop
        plain = all(bound is None or (type(bound) is int and bound >= 0) for bound in (start, stop))
        if plain and key.step in (None, 1):
            return sliced(held, start, None if stop is None else stop + 1)
        return None
    if type(key) is int and 0 <= key < count_rows(held):
        return key
    return None


def label_predicate(held: View, key: Any) -> Expr:
    """A predicate that is true in the rows that several labels select, for an assignment to these rows.

    Raises
    ------
    Unsupported
        If a label is unknown, in which case pandas adds a row, or if the key selects a single row, whose values pandas
        changes in place.
    """
    try:
        labels = row_labels(held)
        if isinstance(key, slice):  # an assignment refuses some slices that a selection accepts
            key = labels._convert_slice_indexer(key, kind="loc")  # type: ignore[attr-defined]
            numbers = pd.Series(np.arange(count_rows(held)), index=labels).iloc[key]
        else:
            numbers = pd.Series(np.arange(count_rows(held)), index=labels).loc[key]
    except (KeyError, TypeError, ValueError) as error:
        raise Unsupported(Refusal.KEY_LABELS) from error
    if not isinstance(numbers, pd.Series):
        raise Unsupported(Refusal.ONE_ROW)
    return at_positions(numbers.to_numpy())


def labelled(held: View, index: pd.Index) -> View:
    """The same rows with the row labels ``index``, whose length is the number of rows."""
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return replace(held, index=IndexSpec("default", (), tuple(index.names)), rows=len(index))
    series, spec = index_columns(index, "{}")
    held, columns = attached(held, series)
    values = tuple(value.over(expr) for value, expr in zip(spec.values, columns, strict=True))
    return replace(held, index=replace(spec, values=values), rows=len(index))


def relabelled(held: View, labels: Any) -> View:
    """The same rows with row labels that the user gave; a wrong number of labels raises pandas' ValueError."""
    if not held.values:
        raise Unsupported(Refusal.NO_COLUMNS)
    index = ensure_index(labels)
    rows = count_rows(held)
    if len(index) != rows:
        raise ValueError(f"Length mismatch: Expected axis has {rows} elements, new values have {len(index)} elements")
    return labelled(held, index)
