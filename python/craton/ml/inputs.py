"""Opens what estimators are given: arrays and tables in memory as columns, everything else as batches of columns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from craton.imported import imported_pandas
from craton.store.sets import LocalitySet, table_of
from craton.store.store import Store

__all__ = ["Features", "open_features"]

Columns = list[NDArray[Any]]

#: Rows of a batch of a plan that is computed while it is read.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Features:
    """The features of samples: columns of floats in memory, or batches of such columns that can be read once.

    Parameters
    ----------
    names
        The names of the columns, if they all have one.
    dimensions
        The number of columns.
    columns
        The columns, if they are in memory.
    batches
        Reads the batches, if the columns are not in memory.
    store
        The store that the data is in, if it is a locality set.
    """

    names: list[str] | None
    dimensions: int
    columns: Columns | None = None
    batches: Callable[[], Iterator[Columns]] | None = None
    store: Store | None = None

    def parts(self) -> Generator[Columns]:
        """All rows, in one or more parts."""
        if self.columns is not None:
            yield self.columns
        elif self.batches is not None:
            yield from (batch for batch in self.batches() if len(batch[0]))


def open_features(data: Any) -> Features:
    """Open the samples that an estimator is given.

    Parameters
    ----------
    data
        An array with a row for each sample, a frame or table, the name of a durable set, or a locality set.

    Raises
    ------
    ValueError
        If a column has no numbers, or the data does not have two dimensions.
    TypeError
        If the data is sparse.
    """
    if isinstance(data, str):
        return _durable(data)
    if isinstance(data, LocalitySet):
        return _locality_set(data)
    pandas = imported_pandas()
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _frame(data, pandas)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _table(data)
    if hasattr(data, "collect_batches"):  # a LazyFrame of Polars
        names = data.collect_schema().names()
        return _stream(
            names,
            lambda: (columns_of(frame) for frame in data.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True)),
        )
    if hasattr(data, "get_columns"):  # a frame of Polars
        return _table(table_of(data))
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__array__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return _stream(reader.schema.names, lambda: (columns_of(batch) for batch in reader))
    return _array(data)


def _array(data: Any) -> Features:
    if hasattr(data, "tocsr"):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert to a dense numpy array."
        )
    array = np.asarray(data)
    if np.iscomplexobj(array):
        raise ValueError(f"Complex data not supported\n{array}\n")
    if array.dtype.kind in "OUSV":
        try:
            array = array.astype(np.float64)
        except TypeError as error:
            raise TypeError(f"argument must be a string or a number: {error}") from error
    elif array.dtype.kind not in "fiub":
        raise ValueError(f"X has dtype {array.dtype}; the features of samples are numbers")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {('scalar', '1D', '2D', '3D')[min(array.ndim, 3)]} array instead. Reshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single sample."
        )
    if array.dtype not in (np.float64, np.float32) or not array.dtype.isnative:
        array = array.astype(np.float64)
    _check_shape(*array.shape)
    return Features(None, array.shape[1], [array[:, column] for column in range(array.shape[1])])


def _frame(frame: Any, pandas: Any) -> Features:
    labels = list(frame.columns)
    names = labels if all(isinstance(label, str) for label in labels) else None
    if "_view" in frame.__dict__:  # a plan of Craton that has not run
        from craton.ml.plans import plan_batches

        batches = plan_batches(frame, _BATCH_ROWS)
        if batches is not None:
            return Features(names, len(labels), batches=lambda: (columns_of(batch, len(labels)) for batch in batches()))
    plain = frame if type(frame) is pandas.DataFrame else pandas.DataFrame(frame)
    _check_shape(len(plain), len(labels))
    return Features(names, len(labels), [_series(plain.iloc[:, place], label) for place, label in enumerate(labels)])


def _series(column: Any, label: Any) -> NDArray[Any]:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiubO":
        values = column.to_numpy()
        if dtype in (np.float64, np.float32):
            return values  # type: ignore[no-any-return]
        return values.astype(np.float64)  # type: ignore[no-any-return]
    if getattr(dtype, "_is_numeric", False) or getattr(dtype, "_is_boolean", False):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)  # type: ignore[no-any-return]
    raise ValueError(f"the features of samples are numbers, but column {label!r} has dtype {dtype}")


def _table(table: pa.Table) -> Features:
    _check_shape(table.num_rows, table.num_columns)
    return Features(list(table.column_names), table.num_columns, columns_of(table))


def _durable(name: str) -> Features:
    import pandas

    from craton.ml.plans import set_frame

    return _frame(set_frame(name), pandas)


def _locality_set(points: LocalitySet) -> Features:
    pages = points.pages()
    if not pages:
        raise ValueError(f"{points!r} has no pages, so it has no samples")
    names = table_of(points.pin(pages[0]).batch()).column_names
    batches = lambda: (columns_of(batch) for batch in points)  # noqa: E731
    _check_shape(1, len(names))
    return Features(names, len(names), batches=batches, store=points._store)


def _stream(names: Sequence[str], batches: Callable[[], Iterator[Columns]]) -> Features:
    _check_shape(1, len(names))
    return Features(list(names), len(names), batches=batches)


def _check_shape(rows: int, columns: int) -> None:
    if rows == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape=({rows}, {columns})) while a minimum of 1 is required.")
    if columns == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is required.")


def columns_of(table: Any, last: int | None = None) -> Columns:
    """The columns of a table or batch of Arrow, or of a frame of Polars, as floats; `last` of them, all by default."""
    table = table if isinstance(table, pa.Table | pa.RecordBatch) else table_of(table)
    places = range(table.num_columns)[-last if last else None :]
    return [_arrow_column(table.column(place), table.schema.field(place)) for place in places]


def _arrow_column(column: Any, field: pa.Field) -> NDArray[Any]:
    kind = field.type
    number = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if not (number or pa.types.is_boolean(kind)):
        raise ValueError(f"the features of samples are numbers, but column {field.name!r} has type {kind}")
    if column.null_count:
        raise ValueError(f"Input X contains NaN.\nColumn {field.name!r} has missing values.")
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    values = column.to_numpy(zero_copy_only=False)
    return values if values.dtype in (np.float64, np.float32) else values.astype(np.float64)  # type: ignore[no-any-return]
