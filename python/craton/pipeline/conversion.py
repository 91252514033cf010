"""Tables of all libraries as Arrow tables in a store, and back, without a copy where a library can do without one."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from craton.pipeline.pandas_tables import guarded, joined, pandas_of, table_of, unnamed_levels
from craton.pipeline.returned import RESTORE, NotATable, Returned
from craton.pipeline.tasks import Form
from craton.store.frames import frame_of

__all__ = ["form_of", "given", "outputs_of"]

_EXPECTED = (
    "expected a table of pyarrow, pandas, Polars or Craton, a NumPy array, a dict of several, or an iterator of batches"
)


def outputs_of(value: Any) -> dict[str | None, Returned]:
    """Return the tables that a function returned: by name if it returned a dict, else one with the name None.

    Raises
    ------
    NotATable
        If it is something else.
    """
    if not isinstance(value, Mapping):
        return {None: _output(value, "")}
    if not value:
        raise NotATable(f"the function returned an empty dict; {_EXPECTED}")
    for name in value:
        if not isinstance(name, str):
            raise NotATable(f"the function returned a dict with the key {name!r}; the names of outputs are strings")
    return {name: _output(one, f", for {name!r}") for name, one in value.items()}


def _output(value: Any, place: str) -> Returned:
    if isinstance(value, Iterator) and not isinstance(value, pa.RecordBatchReader):
        return _batches(value, place)
    form = form_of(value)
    if form is None:
        hint = "; it has no return statement" if value is None else ""
        raise NotATable(f"the function returned {_named(value)}{place}{hint}; {_EXPECTED}")
    tables = _tables(value, form, place)
    return Returned(form, tables, len(value) if form == "numpy" else sum(table.num_rows for table in tables))


def _batches(values: Iterator[Any], place: str) -> Returned:
    tables: list[Any] = []
    arrays: list[Any] = []
    form: Form | None = None
    for number, value in enumerate(values):
        found = form_of(value)
        if found is None:
            raise NotATable(f"batch {number} of the iterator{place} is {_named(value)}; expected a table or an array")
        if form is not None and found != form:
            raise NotATable(f"batch {number} of the iterator{place} is of {found}, the ones before are of {form}")
        form = found
        if form == "numpy":
            if arrays and (value.dtype != arrays[0].dtype or value.shape[1:] != arrays[0].shape[1:]):
                raise NotATable(
                    f"batch {number} of the iterator{place} is an array of {value.dtype} with rows of the shape {value.shape[1:]}, "
                    f"the first of {arrays[0].dtype} with {arrays[0].shape[1:]}"
                )
            arrays.append(value)
            continue
        made = _tables(value, form, place)
        if tables and not made[0].schema.equals(tables[0].schema):
            raise NotATable(
                f"batch {number} of the iterator{place} has other columns or types than the first:\n"
                f"{_shown(made[0].schema)}\ninstead of\n{_shown(tables[0].schema)}"
            )
        tables += made
    if form is None:
        raise NotATable(f"the iterator{place} has no batches, so the columns are unknown; yield an empty table")
    if form == "numpy":
        rows = sum(len(array) for array in arrays)
        return Returned(form, [_of_array(array, rows) for array in arrays], rows)
    if form == "pandas" or form == "craton":
        tables = joined(tables)
    return Returned(form, tables, sum(table.num_rows for table in tables))


def _shown(schema: pa.Schema) -> str:
    return schema.to_string(show_schema_metadata=False, show_field_metadata=False)


def form_of(value: Any) -> Form | None:
    """The library of a table, or None if it is none."""
    if isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return "arrow"
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return "numpy"
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame | pandas.Series):
        craton = sys.modules.get("craton.pandas")
        # By identity: Craton's classes are equal to pandas' own, and have pandas' objects as instances.
        own = craton is not None and any(
            kind is one for kind in type(value).__mro__ for one in (craton.DataFrame, craton.Series)
        )
        return "craton" if own else "pandas"
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(value, polars.DataFrame | polars.LazyFrame):
        return "polars"
    return None


def _named(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return (
        f"an array of no dimensions ({name})"
        if isinstance(value, np.ndarray) and not value.ndim
        else f"an object of type {name}"
    )


def _tables(value: Any, form: Form, place: str) -> list[Any]:
    """The table as Arrow tables or batches of one schema; at least one."""
    try:
        if form == "arrow":
            return [value.read_all()] if isinstance(value, pa.RecordBatchReader) else [value]
        if form == "polars":
            return [_of_polars(value)]
        if form == "numpy":
            return [_of_array(value)]

        return [table_of(value)]
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        if isinstance(value, pa.RecordBatchReader):
            raise
        raise NotATable(
            f"the function's result{place}, {_named(value)}, cannot be stored as Arrow data: {error}"
        ) from error


def given(table: pa.Table, made: Form, wanted: Form) -> Any:
    """Return a stored table in the form that a function takes.

    Parameters
    ----------
    table
        Its pages, over memory that must not be written to.
    made
        Its form when it was made. If it is the wanted one, the result equals what was made, dtypes, labels and attributes included.
    wanted
        The form.
    """
    restore = None if table.schema.metadata is None else table.schema.metadata.get(RESTORE)
    if restore is not None and made == "numpy":
        array = _array(table, json.loads(restore))
        if wanted == "numpy":
            return array
        table, restore = _columns(table, array), None
    elif restore is not None and wanted != "arrow":
        if wanted in ("pandas", "craton", "numpy"):
            frame = pandas_of(table, restore)
            return frame.to_numpy() if wanted == "numpy" else _craton(frame) if wanted == "craton" else frame
        table = _without_labels(table, restore)
    if restore is not None:
        table = _without_restore(table)
    if wanted == "arrow":
        return table
    if wanted == "polars":
        return frame_of(table)
    if wanted == "craton":
        from craton.pandas import from_arrow

        return from_arrow(table)

    if wanted == "numpy" and table.num_columns == 1:
        column = table.column(0)
        single = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return single.to_numpy(zero_copy_only=False)
    frame = guarded(table.to_pandas(split_blocks=True))
    return frame.to_numpy() if wanted == "numpy" else frame


def _craton(value: Any) -> Any:
    import craton.pandas as pd

    return pd.Series(value) if value.ndim == 1 else pd.DataFrame(value)


def _without_restore(table: pa.Table) -> pa.Table:
    metadata = dict(table.schema.metadata)
    del metadata[RESTORE]
    return table.replace_schema_metadata(metadata or None)


def _without_labels(table: pa.Table, restore: bytes) -> pa.Table:
    """Without row labels that have no name, as Polars' ``from_pandas``; with those that have one."""
    return table.drop_columns(unnamed_levels(restore))


# ---- Polars ----


def _of_polars(value: Any) -> pa.Table:
    frame = value.collect() if isinstance(value, pl.LazyFrame) else value
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    # Text as offsets and bytes, which all functions of pyarrow know, in memory of pyarrow's own pool, which can be handed over.
    plain = pa.schema([field.with_type(_plain(field.type)) for field in table.schema], table.schema.metadata)
    if plain.equals(table.schema):
        return table
    try:
        columns = [_plain_column(column, field.type) for column, field in zip(table.columns, plain, strict=True)]
    except pa.ArrowNotImplementedError:  # categories within structs or lists
        return table
    return pa.Table.from_arrays(columns, schema=plain)


def _plain_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(kind):
        return column if column.type == kind else column.cast(kind)
    parts = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind.value_type), ordered=kind.ordered)
        for chunk in column.chunks
    ]
    return pa.chunked_array(parts, kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


# ---- NumPy ----


def _of_array(array: np.ndarray[Any, Any], rows: int | None = None) -> pa.Table:
    """A column of rows: of the items, or of lists of them for more dimensions. Types that Arrow does not have become bytes.

    Parameters
    ----------
    array
        The array.
    rows
        If it is one of several batches: the rows of all.
    """
    if array.dtype.hasobject:
        raise TypeError(f"arrays of dtype {array.dtype} have no fixed layout; return a DataFrame")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("masked arrays are not tables; fill them, or return a DataFrame")
    array = np.asarray(array)
    fortran = rows is None and array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    stored = np.ascontiguousarray(array.T if fortran else array)
    shape = [len(array) if rows is None else rows, *array.shape[1:]]
    described = {"dtype": _dtype_text(array.dtype), "shape": shape, "fortran": fortran}
    flat = stored.reshape(-1)
    if flat.dtype.isnative and (flat.dtype.kind in "iu" or flat.dtype.char in "efd"):
        values = pa.array(flat)
    elif flat.dtype.kind == "b":
        values = pa.array(flat.view(np.uint8))
    else:
        raw = pa.py_buffer(flat.view(np.uint8)) if flat.nbytes else pa.py_buffer(b"")
        values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(flat.dtype.itemsize), flat.size, [None, raw])
    width = math.prod(stored.shape[1:])
    if stored.ndim > 1 and 0 < width < 1 << 31:
        values = pa.FixedSizeListArray.from_arrays(values, width)
    return pa.table({"values": values}).replace_schema_metadata({RESTORE: json.dumps(described).encode()})


def _dtype_text(dtype: np.dtype[Any]) -> Any:
    from numpy.lib.format import dtype_to_descr

    return dtype_to_descr(dtype)


def _array(table: pa.Table, described: Any) -> np.ndarray[Any, Any]:
    """The array that :func:`_of_array` stored, over the table's memory; read-only."""
    from numpy.lib.format import descr_to_dtype

    dtype, shape = descr_to_dtype(_tuples(described["dtype"])), described["shape"]
    parts = []
    for chunk in table.column(0).chunks:
        values = chunk.flatten() if isinstance(chunk, pa.FixedSizeListArray) else chunk
        if len(values) and dtype.itemsize:
            parts.append(np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * dtype.itemsize))
    if not parts:
        return np.zeros(shape, dtype)
    flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
    array = flat.reshape(shape[::-1]).T if described["fortran"] else flat.reshape(shape)
    array.flags.writeable = False
    return array


def _tuples(described: Any) -> Any:
    """The description of a dtype, after JSON made lists of the tuples of a structured one: names, descriptions and shapes of its fields."""
    if not isinstance(described, list):
        return described
    return [
        (tuple(name) if isinstance(name, list) else name, _tuples(kind), *map(tuple, shape))
        for name, kind, *shape in described
    ]


def _columns(table: pa.Table, array: np.ndarray[Any, Any]) -> pa.Table:
    """An array as a table for other libraries: a column named ``values``, or columns named by their numbers or the dtype's fields."""
    if array.dtype.names is not None and array.ndim == 1:
        return pa.table({name: _column(array[name]) for name in array.dtype.names})
    if array.ndim == 1:
        return pa.table({"values": _column(array)})
    if array.ndim == 2:
        return pa.table({str(number): _column(array[:, number]) for number in range(array.shape[1])})
    if table.column(0).type.num_fields and array.dtype.kind in "iuf":
        return _without_restore(table)
    raise TypeError(
        f"an array of {array.dtype} with the shape {array.shape} cannot be a table; take it as a NumPy array"
    )


def _column(values: np.ndarray[Any, Any]) -> pa.Array:
    try:
        if values.dtype.kind in "US":
            return pa.array(values.tolist(), pa.large_string() if values.dtype.kind == "U" else pa.large_binary())
        return pa.array(np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"an array of {values.dtype} cannot be a column: {error}; take it as a NumPy array") from error
