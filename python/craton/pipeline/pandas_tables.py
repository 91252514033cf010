"""pandas frames and series as Arrow tables, and back: equal to what they were, with labels, dtypes and attributes.

Columns that Arrow can represent are in the table as other libraries expect them. How they are restored is in the schema's metadata,
because Arrow has fewer types than pandas: it does not distinguish NaN from a missing value, nor an object column of text from one of dtype
``str``. A column that Arrow cannot represent exactly, such as one of objects of several types, is stored as one pickle a value.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from craton.pipeline.returned import RESTORE, NotATable

__all__ = ["guarded", "joined", "pandas_of", "table_of", "unnamed_levels"]

#: Types of Python objects that come back from Arrow as they were, and those that may; then it is tried.
_EXACT = {str, bytes, bool, int, float, datetime.date}
_VERIFIED = {list, dict, decimal.Decimal, datetime.datetime}


def table_of(value: Any) -> pa.Table:
    """A frame or series of pandas, or of a subclass, as an Arrow table.

    Raises
    ------
    TypeError
        If it has objects that cannot be pickled.
    """
    series = value.ndim == 1
    frame = _plain(value)
    index = frame.index
    names = _names(frame, index)
    arrays, ways = [], []
    levels = [] if _is_range(index) else [index.get_level_values(level) for level in range(index.nlevels)]
    columns = [frame] if series else [frame.iloc[:, place] for place in range(frame.shape[1])]
    for column in (*columns, *levels):
        array, way = _stored(column._values)
        arrays.append(array)
        ways.append((way, column.dtype, getattr(column, "freq", None)))
    restore = {
        "series": series,
        "columns": frame.name if series else frame.columns,
        "attrs": value.attrs,
        "duplicates": value.flags.allows_duplicate_labels,
        "index": (index.start, index.stop, index.step) if _is_range(index) else list(index.names),
        "multi": [level.dtype for level in index.levels] if isinstance(index, pd.MultiIndex) else [],
        "name": index.name if _is_range(index) else None,
        "ways": ways,
        "levels": names[len(columns) :],
    }
    metadata = {RESTORE: _dumped(restore), **_standard(frame, names)}
    if not arrays:  # rows without columns: Arrow counts the rows of columns
        names, arrays = ["__rows__"], [pa.nulls(len(frame))]
    return pa.Table.from_arrays(arrays, names=names).replace_schema_metadata(metadata)


def _dumped(restore: dict[str, Any]) -> bytes:
    try:
        return base64.b64encode(pickle.dumps(restore, 5))  # metadata is text
    except Exception as error:
        raise TypeError(f"its labels, dtypes or attrs cannot be pickled: {error}") from error


def _loaded(text: bytes) -> Any:
    return pickle.loads(base64.b64decode(text))


def _plain(value: Any) -> Any:
    """As an object of pandas' own class."""
    kind = pd.Series if value.ndim == 1 else pd.DataFrame
    return value if type(value) is kind else kind._from_mgr(value._mgr, axes=value._mgr.axes).__finalize__(value)


def _is_range(index: Any) -> bool:
    return isinstance(index, pd.RangeIndex)


def _names(frame: Any, index: Any) -> list[str]:
    """Unique names of the columns, and of the levels of the index unless it is a range."""
    labels = [frame.name] if frame.ndim == 1 else list(frame.columns)
    wanted = ["values" if label is None and frame.ndim == 1 else str(label) for label in labels]
    if not _is_range(index):
        taken = set(wanted)
        for level, name in enumerate(index.names):
            text = f"__index_level_{level}__" if name is None or str(name) in taken else str(name)
            taken.add(text)
            wanted.append(text)
    unique: list[str] = []
    seen: set[str] = set()
    for name in wanted:
        made, number = name, 0
        while made in seen:
            number += 1
            made = f"{name}.{number}"
        seen.add(made)
        unique.append(made)
    return unique


def _standard(frame: Any, names: list[str]) -> dict[bytes, bytes]:
    """Pyarrow's own metadata, by which ``Table.to_pandas`` restores most frames; none where it has none."""
    if frame.ndim == 1:
        return {}
    try:
        schema = pa.Schema.from_pandas(frame.iloc[:0])
    except Exception:  # labels or types that pyarrow does not know, duplicates among them
        return {}
    described = json.loads(schema.metadata[b"pandas"])
    if list(schema.names) != names:
        return {}
    for one in described["index_columns"]:
        if isinstance(one, dict):
            one.update(start=frame.index.start, stop=frame.index.stop, step=frame.index.step)
    return {b"pandas": json.dumps(described).encode()}


# ---- columns ----


def _stored(values: Any) -> tuple[Any, str]:
    """The values of a column in Arrow, and how they are restored."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.dtype.isnative and (values.dtype.kind in "iub" or values.dtype.char in "efd"):
            return pa.array(values, from_pandas=True), "numpy"
        flat = np.ascontiguousarray(values)
        raw = pa.py_buffer(flat.view(np.uint8)) if flat.nbytes else pa.py_buffer(b"")
        return pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(max(flat.dtype.itemsize, 1)), len(flat), [None, raw]
        ), "raw"
    if isinstance(values, np.ndarray):
        return _objects(values)
    if isinstance(values, pd.Categorical):
        codes = np.asarray(values.codes)
        try:
            dictionary = pa.array(values.categories, from_pandas=True)
            return pa.DictionaryArray.from_arrays(
                pa.array(codes, mask=codes == -1), dictionary, ordered=bool(values.ordered)
            ), "categories"
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return pa.array(codes, mask=codes == -1), "codes"
    if isinstance(values, pd.arrays.DatetimeArray | pd.arrays.TimedeltaArray):
        return pa.array(pd.Series(values), from_pandas=True), "instants"
    if hasattr(values, "__arrow_array__") and hasattr(values.dtype, "__from_arrow__"):
        try:
            return pa.array(values, from_pandas=True), "extension"
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            pass
    return _pickled(np.asarray(values.astype(object))), "pickled extension"


def _objects(values: Any) -> tuple[Any, str]:
    kinds = set(map(type, values))
    rest = kinds - {type(None)}
    try:
        if len(rest) <= 1 and rest <= _EXACT:  # NaN, if there is one, is a float, and stays one
            return pa.array(values, from_pandas=False), "objects"
        if kinds == {str, float} and all(one != one for one in values if type(one) is float):
            return pa.array(values, from_pandas=True), "text with NaN"
        if rest <= _VERIFIED:
            array = pa.array(values, from_pandas=False)
            if all(map(_same, values, array.to_pylist())):
                return array, "objects"
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError):
        pass
    return _pickled(values), "pickled"


def _same(one: Any, other: Any) -> bool:
    """Whether two objects cannot be told from each other."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(_same, one.values(), other.values()))
    if isinstance(one, float | decimal.Decimal):
        return repr(one) == repr(other)
    return (
        bool(one == other)
        and type(one) in {*_EXACT, type(None), datetime.datetime}
        and getattr(one, "tzinfo", None) is None
    )


def _pickled(values: Any) -> Any:
    try:
        return pa.array([pickle.dumps(one, 5) for one in values], pa.large_binary())
    except Exception as error:
        raise TypeError(f"a column has objects that cannot be pickled: {error}") from error


def _restored(column: pa.ChunkedArray, way: str, dtype: Any) -> Any:
    """The values of a column as they were."""
    chunks = column.chunks if column.num_chunks == 1 else [column.combine_chunks()]
    array = chunks[0] if isinstance(chunks[0], pa.Array) else pa.concat_arrays(chunks[0].chunks)
    if way == "numpy" and dtype.kind == "b":
        return array.to_numpy(zero_copy_only=False)
    if way in ("numpy", "instants"):
        return _items(array, dtype)
    if way == "raw":
        return np.frombuffer(array.buffers()[1] or b"", dtype, len(array), array.offset * dtype.itemsize)
    if way in ("categories", "codes"):
        codes = array.indices if way == "categories" else array
        return pd.Categorical.from_codes(codes.fill_null(-1).to_numpy(zero_copy_only=False), dtype=dtype)
    if way == "extension":
        return dtype.__from_arrow__(array)
    values = np.empty(len(array), object)
    if way.startswith("pickled"):
        values[:] = [pickle.loads(one) for one in array.to_pylist()]
        return values if way == "pickled" else pd.array(values, dtype=dtype)
    values[:] = array.to_pylist()
    if way == "text with NaN":
        values[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


def _items(array: pa.Array, dtype: Any) -> Any:
    """Numbers or instants over Arrow's memory. What was NaN or NaT is a null, below which the bytes are still there."""
    item = dtype if isinstance(dtype, np.dtype) else np.dtype(f"M8[{dtype.unit}]")
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        values = np.empty(0, item)
    else:
        values = np.frombuffer(buffer, item, len(array), array.offset * item.itemsize)
    return values if isinstance(dtype, np.dtype) else pd.arrays.DatetimeArray._simple_new(values, dtype=dtype)


# ---- frames ----


def pandas_of(table: pa.Table, restore: bytes) -> Any:
    """The frame or series that :func:`table_of` made a table of, over the table's memory where that is possible."""
    said = _loaded(restore)
    count = len(said["ways"]) - len(said["levels"])
    values = [_restored(table.column(place), way, dtype) for place, (way, dtype, _) in enumerate(said["ways"])]
    index = _index(said, values[count:], table.num_rows)
    # pandas would make text of objects.
    kept = [
        pd.Series(one, index=index, dtype=object, copy=False) if way[1] == np.dtype(object) else one
        for one, way in zip(values[:count], said["ways"], strict=False)
    ]
    if said["series"]:
        made: Any = pd.Series(kept[0], index=index, dtype=said["ways"][0][1], copy=False).rename(said["columns"])
    else:
        made = pd.DataFrame(dict(enumerate(kept)), index=index, copy=False)
        made.columns = said["columns"]
    made = guarded(made)
    made.attrs = said["attrs"]
    if not said["duplicates"]:
        made = made.set_flags(allows_duplicate_labels=False)
    return made


def _index(said: Any, levels: list[Any], rows: int) -> Any:
    if isinstance(said["index"], tuple):
        start, stop, step = said["index"]
        return pd.RangeIndex(start, stop, step, name=said["name"])
    ways = said["ways"][-len(levels) :]
    made = [
        pd.Index(one, dtype=dtype, name=name, copy=False)
        for one, (_, dtype, _), name in zip(levels, ways, said["index"], strict=True)
    ]
    if said["multi"]:
        index = pd.MultiIndex.from_arrays(made, names=said["index"])
        for place, dtype in enumerate(said["multi"]):
            if index.levels[place].dtype != dtype:  # a missing label makes floats of integers
                index = index.set_levels(index.levels[place].astype(dtype), level=place)
        return index
    if ways[0][2] is not None and isinstance(made[0], pd.DatetimeIndex | pd.TimedeltaIndex):
        made[0].freq = ways[0][2]
    return made[0]


def joined(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables that :func:`table_of` made of the batches of an iterator, as parts of one frame.

    If each has a range of labels, so has the frame.

    Raises
    ------
    NotATable
        If a batch differs from the first in more than its rows.
    """
    if len(tables) == 1:
        return tables
    said = [_loaded(table.schema.metadata[RESTORE]) for table in tables]
    first = said[0]
    for number, other in enumerate(said):
        if difference := _difference(first, other):
            raise NotATable(f"batch {number} of the iterator differs from the first in {difference}")
    if isinstance(first["index"], tuple):
        first["index"] = (0, sum(table.num_rows for table in tables), 1)
    first["ways"] = [(way, dtype, None) for way, dtype, _ in first["ways"]]
    metadata = {RESTORE: _dumped(first)}
    return [table.replace_schema_metadata(metadata) for table in tables]


def _difference(first: Any, other: Any) -> str:
    if first["series"] != other["series"] or not _equal_labels(first["columns"], other["columns"]):
        return "its columns"
    ranges = isinstance(first["index"], tuple), isinstance(other["index"], tuple)
    if (
        ranges[0] != ranges[1]
        or (not ranges[0] and first["index"] != other["index"])
        or first["multi"] != other["multi"]
    ):
        return "its index"
    for one, two in zip(first["ways"], other["ways"], strict=True):
        if one[0] != two[0] or one[1] != two[1]:
            return f"a dtype: {two[1]} instead of {one[1]}" if one[1] != two[1] else "the kinds of objects in a column"
        if isinstance(one[1], pd.CategoricalDtype) and list(one[1].categories) != list(two[1].categories):
            return "the order of its categories"
    return ""


def _equal_labels(one: Any, other: Any) -> bool:
    if isinstance(one, pd.Index) and isinstance(other, pd.Index):
        return one.equals(other) and one.names == other.names
    return type(one) is type(other) and one == other


def unnamed_levels(restore: bytes) -> list[str]:
    """The columns of a table that are row labels without a name."""
    said = _loaded(restore)
    if isinstance(said["index"], tuple):
        return []
    return [column for column, name in zip(said["levels"], said["index"], strict=True) if name is None]


def guarded(value: Any) -> Any:
    """Return a pandas object over read-only memory such that pandas copies a block before it is first written to."""
    try:
        from craton.serialize.pandas_frames import guard
    except (ImportError, AttributeError):  # another version of pandas, in an environment of its own
        return value
    for block in value._mgr.blocks:
        guard(block)
    return value
