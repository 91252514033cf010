"""Conversion between Polars columns and pandas arrays, without copies where the layouts agree.

Numbers, dates and times share their buffers. Missing values are null in a plan, and NaN, NaT or NA in pandas.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pandas.api.types import is_list_like
from pandas.arrays import BooleanArray, FloatingArray, IntegerArray

from craton._native import copy_texts, offsets_of_texts
from craton.errors import Unsupported
from craton.pandas.core.dtypes import OBJECT, DtypeObj, family, is_carried, physical, with_missing
from craton.pandas.core.view import IndexSpec, ObjectColumn, Value, View
from craton.plan.expr import Call, Column, Literal
from craton.records import dataclass
from craton.refusals import Refusal

#: The fewest rows of texts that another thread copies.
_LONG = 50_000

Array: TypeAlias = np.ndarray[Any, Any] | pd.api.extensions.ExtensionArray


def to_array(series: pl.Series, dtype: DtypeObj) -> Array:
    """The pandas array of a result column.

    Parameters
    ----------
    series
        A column of the physical dtype of ``dtype``, with missing values as null.
    dtype
        The pandas dtype. An integer or boolean NumPy dtype becomes float64 or object if a value is missing.
    """
    if isinstance(dtype, np.dtype):
        if series.null_count() and with_missing(dtype) != dtype:
            dtype = with_missing(dtype)
        return _to_numpy(series, dtype)
    if isinstance(dtype, pd.StringDtype):
        return _to_string(series, dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        codes = series.fill_null(-1).to_numpy()
        return pd.Categorical.from_codes(codes, dtype=dtype)
    if isinstance(dtype, pd.DatetimeTZDtype):
        values = _to_numpy(series, np.dtype(f"M8[{dtype.unit}]"))  # in UTC, as pandas stores them
        return pd.arrays.DatetimeArray._simple_new(values, dtype=dtype)  # type: ignore[attr-defined,no-any-return]
    if isinstance(dtype, pd.ArrowDtype):
        target = dtype.pyarrow_dtype
        if pa.types.is_temporal(target) and series.null_count():
            # Arrow's checked arithmetic also checks the values under nulls, so these must be zero.
            mask = series.is_null().to_numpy()
            stored = series.to_physical().fill_null(0).to_numpy()
            complete = pl.Series(stored).cast(series.dtype).to_arrow().cast(target)
            stored = complete.view(pa.int32() if pa.types.is_date32(target) else pa.int64()).to_numpy(
                zero_copy_only=False
            )
            flat = pa.array(stored, mask=mask).view(target)
            return pd.arrays.ArrowExtensionArray(pa.chunked_array([flat]))  # type: ignore[attr-defined,no-any-return]
        chunked = pa.chunked_array(series.to_arrow(compat_level=pl.CompatLevel.newest())).cast(target)
        return pd.arrays.ArrowExtensionArray(_with_a_chunk(chunked))  # type: ignore[attr-defined,no-any-return]
    if series.dtype.is_float():
        series = series.fill_nan(None)  # pandas has one missing value in nullable floats
    mask = series.is_null().to_numpy() if series.null_count() else np.zeros(len(series), dtype=bool)
    numpy_dtype = dtype.numpy_dtype  # type: ignore[union-attr]
    placeholder = False if series.dtype == pl.Boolean() else np.nan if series.dtype.is_float() else 1  # as in pandas
    filled = series.fill_null(placeholder) if series.null_count() else series
    values = np.array(filled.to_numpy(), dtype=numpy_dtype)
    return dtype.construct_array_type()(values, np.array(mask))  # type: ignore[union-attr,no-any-return,call-arg]


def to_arrays(columns: Sequence[tuple[pl.Series, DtypeObj]]) -> list[Array]:
    """The pandas arrays of result columns of one length; several threads copy long columns of texts.

    Parameters
    ----------
    columns
        As the parameters of :func:`to_array`.
    """
    texts = {i: column for i, column in enumerate(columns) if _is_long_text(*column)}
    columns = _joined(columns, texts)
    if len(texts) < 2:
        return [to_array(*column) for column in columns]
    with ThreadPoolExecutor(min(len(texts), os.cpu_count() or 1)) as pool:
        copied = {i: pool.submit(to_array, *column) for i, column in texts.items()}
        return [copied[i].result() if i in copied else to_array(*column) for i, column in enumerate(columns)]


def _joined(columns: Sequence[tuple[pl.Series, DtypeObj]], but: Container[int]) -> Sequence[tuple[pl.Series, DtypeObj]]:
    """Join the chunks of long columns, several columns at once: NumPy's arrays have one."""
    several = [
        i for i, (series, _) in enumerate(columns) if i not in but and len(series) >= _LONG and series.n_chunks() > 1
    ]
    if len(several) < 2:
        return columns
    frame = pl.DataFrame([columns[i][0].alias(str(i)) for i in several]).rechunk()
    joined = dict(zip(several, frame.get_columns(), strict=True))
    return [(joined.get(i, series), dtype) for i, (series, dtype) in enumerate(columns)]


def _is_long_text(series: pl.Series, dtype: DtypeObj) -> bool:
    return len(series) >= _LONG and isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"


def _to_numpy(series: pl.Series, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if not len(series):
        # The kernel's empty arrays point to no valid memory, but NumPy's masked casts read from it.
        return np.empty(0, dtype=dtype)
    if dtype.kind in "mM":
        unit = np.datetime_data(dtype)[0]
        stored = series.to_physical()
        if stored.null_count():
            stored = stored.fill_null(np.iinfo(np.int64).min)
        values = stored.to_numpy()
        if unit == "s":
            missing = values == np.iinfo(np.int64).min
            seconds = np.floor_divide(values, 1000)
            seconds[missing] = np.iinfo(np.int64).min
            values = seconds
        return values.view(dtype)
    if dtype.kind == "f":
        return series.cast(physical(dtype)).fill_null(np.nan).to_numpy()
    if dtype == OBJECT:
        result = np.empty(len(series), dtype=object)
        result[:] = series.to_list()
        if series.null_count() and series.dtype == pl.Boolean():
            result[series.is_null().to_numpy()] = np.nan
        return result
    return series.cast(physical(dtype)).to_numpy()


def range_index(array: Array) -> pd.Index:
    """An Index of integers: a RangeIndex if they are evenly spaced."""
    numbers = np.asarray(array)
    if len(numbers) == 1 and numbers[0] == _LAST:
        return pd.Index(numbers)  # the end of its range would not fit into 64 bits
    return pd.RangeIndex(0)._shallow_copy(numbers)  # type: ignore[attr-defined, no-any-return]


#: Integers lie close together if their range has at most this many times as many values.
_SPARSE = 4


def distinct_integers(array: Array) -> np.ndarray[Any, Any] | None:
    """The distinct integers of an array in ascending order, if they lie so close together that no sort is needed; else None."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or not len(array):
        return None
    low, high = array.min(), array.max()
    if int(high) - int(low) > _SPARSE * len(array):
        return None
    present = np.zeros(int(high) - int(low) + 1, bool)
    present[_above(array, low)] = True
    found = np.flatnonzero(present)
    return found.astype(array.dtype) + low if array.itemsize == 8 else (found + int(low)).astype(array.dtype)


def positions_of_integers(labels: pd.Index, array: Array) -> np.ndarray[Any, Any] | None:
    """The position of each integer in an Index of ascending integers; -1 for others. None if the integers lie far apart."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or labels.dtype != array.dtype:
        return None
    if not len(labels) or not len(array) or isinstance(labels, pd.RangeIndex) or not labels.is_monotonic_increasing:
        return None
    known = labels.to_numpy()
    low, high = known[0], known[-1]
    if int(high) - int(low) > _SPARSE * len(array) or array.min() < low or array.max() > high:
        return None
    if int(high) - int(low) + 1 == len(known):
        return _above(array, low).astype(np.intp)
    places = np.full(int(high) - int(low) + 1, -1, np.intp)
    places[_above(known, low)] = np.arange(len(known))
    return places[_above(array, low)]


def _above(array: np.ndarray[Any, Any], low: Any) -> np.ndarray[Any, Any]:
    """The differences of integers from the least of them; those of small integers in 64 bits, so that none overflows."""
    return array - low if array.itemsize == 8 else array.astype(np.int64) - int(low)


def to_objects(series: pl.Series, nan: bool = False) -> np.ndarray[Any, Any]:
    """A column as Python objects, as pyarrow converts them; None where a value is missing, or NaN."""
    result = np.empty(len(series), dtype=object)
    result[:] = series.to_list()
    if nan and series.null_count():
        result[series.is_null().to_numpy()] = np.nan
    return result


def _with_a_chunk(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """An array that has a chunk even if it is empty: pandas' joins concatenate the chunks of keys, and fail if there are none."""
    return array if array.num_chunks else pa.chunked_array([pa.array([], array.type)])


def _to_string(series: pl.Series, dtype: pd.StringDtype) -> Array:
    if dtype.storage == "pyarrow":
        views = (
            series.to_arrow(compat_level=pl.CompatLevel.newest()) if series.dtype == pl.String() else series.to_arrow()
        )
        chunked = large_texts(pa.chunked_array(views))
        return pd.arrays.ArrowStringArray(_with_a_chunk(chunked), dtype=dtype)  # type: ignore[call-arg]
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    values[series.is_null().to_numpy()] = dtype.na_value
    return dtype.construct_array_type()._from_sequence(values, dtype=dtype)  # type: ignore[attr-defined,no-any-return]


def large_texts(chunked: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts of any layout in the one that pandas has, large_string."""
    if pa.types.is_string_view(chunked.type) and len(chunked) >= _FEWEST_KEPT:
        return pa.chunked_array([_copied_texts(chunk) for chunk in chunked.chunks], pa.large_string())
    return chunked if chunked.type == pa.large_string() else chunked.cast(pa.large_string())


def _copied_texts(array: pa.StringViewArray) -> pa.Array:
    present, views, *buffers = array.buffers()
    count = len(array)
    if array.offset % 8 or not count:
        return array.cast(pa.large_string())
    begin = array.offset
    bits = None if present is None or not array.null_count else present[begin // 8 : -(-(begin + count) // 8)]
    seen = np.frombuffer(views[16 * begin : 16 * (begin + count)], np.uint8)
    offsets = pa.allocate_buffer(8 * (count + 1))
    starts = np.frombuffer(offsets, np.int64)
    total = offsets_of_texts(seen, None if bits is None else np.frombuffer(bits, np.uint8), starts)
    texts = pa.allocate_buffer(total)
    if total:
        long = [np.frombuffer(buffer, np.uint8) if buffer.size else np.empty(0, np.uint8) for buffer in buffers]
        copy_texts(seen, long, starts, np.frombuffer(texts, np.uint8))
    return pa.Array.from_buffers(pa.large_string(), count, [bits, offsets, texts], null_count=array.null_count)


def selected_texts(array: Any, mask: pa.Array) -> Array:
    """The texts of an Arrow array for which a mask is true."""
    return pd.arrays.ArrowStringArray(_with_a_chunk(array._pa_array.filter(mask)), dtype=array.dtype)  # type: ignore[call-arg]


#: The largest int64. No RangeIndex can contain it, because its end would be one more.
_LAST = np.iinfo(np.int64).max
#: The fewest rows of an Arrow array whose column is kept.
_FEWEST_KEPT = 10_000
#: The largest number of seconds whose milliseconds fit into 64 bits.
_SECONDS = (2**63 - 1) // 1000


def from_array(name: str, array: Any) -> tuple[pl.Series, bool, bool]:
    """A plan column with a copy of a pandas array, so that later writes to the array do not change it.

    Arrow arrays are immutable and are not copied.

    Returns
    -------
    tuple of (polars.Series, bool, bool)
        The column; whether it may hold nulls; whether it is a float column in which NaN may stand for a missing value.

    Raises
    ------
    Unsupported
        If the array's dtype has no physical dtype, or :func:`refuse_unsupported_values` refuses it.
    """
    refuse_unsupported_values(array)
    return from_array_uncopied(name, array if _immutable(array) else array.copy())


#: The packages whose classes of arrays are made anew from plan columns. Subclasses of other packages may hold more than values.
_ARRAY_PACKAGES = ("numpy", "pandas", "craton")


def refuse_unsupported_values(array: Any) -> None:
    """Raise Unsupported for arrays that a plan cannot hold: of a subclass, with NaN that is not missing, or values of another dtype."""
    if type(array).__module__.partition(".")[0] not in _ARRAY_PACKAGES:
        raise Unsupported(Refusal.DTYPE_WITHOUT_PHYSICAL_FORM, type(array).__name__)
    if isinstance(array, FloatingArray) and bool((np.isnan(array._data) & ~array._mask).any()):  # type: ignore[attr-defined]
        raise Unsupported(Refusal.NAN_NOT_MISSING)
    if isinstance(array, (BooleanArray, IntegerArray)) and array._data.dtype != array.dtype.numpy_dtype:  # type: ignore[attr-defined]
        raise Unsupported(Refusal.VALUES_OF_ANOTHER_DTYPE)  # pandas' groupby.shift can insert values of any dtype


#: Columns that were made of Arrow arrays, as long as these exist: by the id of the array, with a weak reference to it.
_from_arrays: dict[int, tuple[weakref.ref[pa.ChunkedArray], pl.Series]] = {}


def _from_arrow_once(array: pa.ChunkedArray) -> pl.Series:
    """The column of an Arrow array, which is immutable. Texts have another layout in the kernel, so they are converted only once."""
    if not pa.types.is_large_string(array.type) or len(array) < _FEWEST_KEPT:
        return _from_arrow(array)
    key = id(array)
    known = _from_arrays.get(key)
    if known is not None and known[0]() is array:
        return known[1]
    series = _from_arrow(array).rechunk()  # the kernel gathers texts of several chunks ten times as slowly
    _from_arrays[key] = weakref.ref(array, lambda _: _from_arrays.pop(key, None)), series
    return series


@dataclass(frozen=True, slots=True)
class LateTexts:
    """The texts of an Arrow array, which is immutable, as a column that is converted when a plan reads it."""

    name: str
    array: pa.ChunkedArray

    @property
    def dtype(self) -> pl.DataType:
        """The dtype of the column."""
        return pl.String()

    @property
    def has_nulls(self) -> bool:
        """Whether a text is missing."""
        return bool(self.array.null_count)

    def read(self) -> pl.Series:
        """The column."""
        return _from_arrow_once(self.array).rename(self.name)

    def renamed(self, name: str) -> LateTexts:
        """The column under another name."""
        return LateTexts(name, self.array)


def late_texts(name: str, array: Any) -> LateTexts | None:
    """The column of an array of texts that is converted when a plan reads it; None for other arrays, and for short ones."""
    if not isinstance(array.dtype, pd.StringDtype) or len(array) < _FEWEST_KEPT:
        return None
    arrow = getattr(array, "_pa_array", None)
    return None if arrow is None or not pa.types.is_large_string(arrow.type) else LateTexts(name, arrow)


def _from_arrow(array: Any) -> pl.Series:
    return pl.from_arrow(array)  # type: ignore[return-value]


def _immutable(array: Any) -> bool:
    return hasattr(array, "_pa_array") or array.dtype == OBJECT


def from_array_uncopied(name: str, array: Any) -> tuple[pl.Series, bool, bool]:
    """As :func:`from_array`, but the column shares the memory of the array where the layouts agree.

    Only for arrays that are never written to again: new ones that nothing else refers to, and those of
    :func:`craton.pandas.core.lazy.view`, which guarantees it.

    Raises
    ------
    Unsupported
        If the array's dtype has no physical dtype, or times in seconds do not fit into 64-bit milliseconds.
    """
    dtype = array.dtype
    try:
        kind = physical(dtype)
    except (TypeError, ValueError) as error:  # categories that are arrays are not hashable
        raise Unsupported(Refusal.DTYPE_WITHOUT_PHYSICAL_FORM, dtype) from error
    if isinstance(dtype, np.dtype):
        values = np.asarray(array)
        if dtype.kind in "mM":
            raw = values.view("i8")
            missing = raw == np.iinfo(np.int64).min
            if np.datetime_data(dtype)[0] == "s":
                raw = np.where(missing, 0, raw)
                if len(raw) and (raw.max() > _SECONDS or raw.min() < -_SECONDS):
                    raise Unsupported(Refusal.TIMES_OUT_OF_UNIT)
                raw = raw * 1000
            series = pl.Series(name, np.ascontiguousarray(raw)).cast(kind)
            if missing.any():
                series = pl.select(pl.when(pl.Series(~missing)).then(series)).to_series().rename(name)
            return series, bool(series.null_count()), False
        series = pl.Series(name, np.ascontiguousarray(values), dtype=kind)
        return series, False, dtype.kind == "f"
    if isinstance(dtype, pd.DatetimeTZDtype):
        series, nulls, _ = from_array_uncopied(name, np.asarray(array.tz_convert("UTC").tz_localize(None)))
        zone = kind.time_zone  # type: ignore[attr-defined]
        return series.dt.replace_time_zone("UTC").dt.convert_time_zone(zone), nulls, False
    if isinstance(dtype, pd.CategoricalDtype):
        codes = pl.Series(name, np.asarray(array.codes, dtype="int32"))
        codes = codes.set(codes < 0, None) if (codes < 0).any() else codes
        return codes, bool(codes.null_count()), False
    arrow = getattr(array, "_pa_array", None)
    if arrow is None:
        try:
            series = _from_arrow(pa.array(array, from_pandas=True))
        except pa.ArrowException as error:  # an array of another library, which Arrow does not accept
            raise Unsupported(Refusal.DTYPE_WITHOUT_PHYSICAL_FORM, dtype) from error
    else:
        series = _from_arrow_once(arrow)
    series = series.rename(name)
    if family(dtype) == "masked" and series.dtype.is_float():
        series = series.fill_nan(None)
    if series.dtype != kind:
        series = series.cast(kind)
    return series, bool(series.null_count()), False


# -- columns that a plan carries by the positions of their values ---------------------------------------------------------

#: The position of a value that a join did not find.
_NOWHERE = 2**32 - 1


def can_carry(array: Any) -> bool:
    """Whether a plan carries an array."""
    return is_carried(array.dtype) and len(array) < _NOWHERE


def can_carry_labels(array: Any) -> bool:
    """Whether a plan carries an array as row labels: labels that are tuples or sets have another meaning in keys."""
    if not can_carry(array):
        return False
    objects = array.tolist() if array.dtype == OBJECT else []
    return not any(map(is_list_like, dict(zip(map(type, objects), objects, strict=True)).values()))


def positions_in(array: Any) -> pl.Series:
    """The positions of all values of an array."""
    return pl.Series(np.arange(len(array), dtype=np.uint32))


def carried_value(column: Column, array: Any) -> Value:
    """The values of an array, to which nothing may write, at the positions in a column."""
    return Value(ObjectColumn(column, array), array.dtype)


def with_plain_columns(view: View) -> View:
    """The same view with plain columns in place of object columns; only for materialising this view."""
    if not any(isinstance(value.expr, ObjectColumn) for value in view.values):
        return view
    return view.with_values([replace(value, expr=value.read) for value in view.values])


def objects_of(expr: ObjectColumn, column: pl.Series) -> np.ndarray[Any, Any]:
    """The Python objects that a column of the kernel stands for."""
    if expr.source is None:
        return to_objects(column, expr.nan)
    return np.asarray(pd.Series(to_array(column, expr.source), copy=False).astype(OBJECT))


def with_positions(view: View) -> View:
    """The view with positions in place of the values in memory."""
    if not any(_objects(value) is not None for value in (*view.index.values, *view.values)):
        return view

    def plain(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(value if _objects(value) is None else _position(value) for value in values)

    return replace(view, values=plain(view.values), index=replace(view.index, values=plain(view.index.values)))


def with_values_of_positions(view: View, found: tuple[list[Array], pd.Index]) -> tuple[list[Array], pd.Index]:
    """The arrays and the row labels of a view, given those of :func:`with_positions`."""
    arrays = [
        array if (objects := _objects(value)) is None else _taken(objects, array)
        for value, array in zip(view.values, found[0], strict=True)
    ]
    index, spec = found[1], view.index
    if spec.values and (objects := _objects(spec.values[0])) is not None:
        index = index_of(_taken(objects, index.to_numpy()), spec)
    return arrays, index


def index_of(array: Array, spec: IndexSpec) -> pd.Index:
    """The Index of an array. pandas infers a dtype for Python objects, unless they have been labels before."""
    carried = array.dtype == OBJECT and isinstance(spec.values[0].expr, ObjectColumn)
    return pd.Index(array, name=spec.names[0], dtype=OBJECT if carried else None, copy=False)


def _position(value: Value) -> Value:
    """The positions of a column's values; :data:`_NOWHERE` if missing."""
    expr = Call("fill_null", (value.read, Literal(_NOWHERE, pl.UInt32())), pl.UInt32())
    return Value(expr, np.dtype("uint32"), nulls=False)


def _taken(objects: Any, positions: Any) -> Any:
    """The values at some positions; NaN at :data:`_NOWHERE`, where only Python objects are missing."""
    if isinstance(objects, pd.api.extensions.ExtensionArray):
        return objects.take(positions.astype(np.intp))
    missing = positions == _NOWHERE
    if not missing.any():
        return objects[positions]
    found = np.full(len(positions), np.nan, dtype=object)
    found[~missing] = objects[positions[~missing]]
    return found


def _objects(value: Value) -> Any:
    """The array in memory whose values a column has; None for other columns."""
    return value.expr.objects if isinstance(value.expr, ObjectColumn) else None
