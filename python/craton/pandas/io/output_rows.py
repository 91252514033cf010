"""Streams the rows of a view, in order, to the writers of files: as Polars batches, Arrow tables or pandas frames."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton.engine import run_into_sink
from craton.errors import Unsupported
from craton.pandas.core.array_conversion import to_array
from craton.pandas.core.dtypes import distinguishes_nan
from craton.pandas.core.execute import block_manager, make_index, planned, resolved
from craton.pandas.core.lazy import view as view_of_object
from craton.pandas.core.view import IndexSpec, Value, View, index_labels
from craton.plan.names import column_names
from craton.plan.operators import Operator
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class OutputRows:
    """The rows to write: the index levels, if they are written, and the columns of a view.

    Parameters
    ----------
    view
        A view whose dtypes do not depend on its values, and whose missing values are null.
    names
        The plan's names of the index levels, then of the columns.
    plan
        The operator that produces these columns.
    """

    view: View
    names: tuple[str, ...]
    plan: Operator

    @property
    def values(self) -> tuple[Value, ...]:
        """The index levels, then the columns."""
        return (*self.view.index.values, *self.view.values)

    @property
    def template(self) -> pd.DataFrame:
        """An empty frame with the same dtypes, labels and kind of index."""
        empty = [to_array(pl.Series([], dtype=value.physical), value.dtype) for value in self.values]
        count = len(self.view.index.values)
        index = make_index(self.view.index, empty[:count], 0)
        manager = block_manager(empty[count:], index, self.view.labels)
        frame = pd.DataFrame._from_mgr(manager, manager.axes)
        frame.attrs = {}
        return frame


def output_rows(obj: Any, *, index: bool = True) -> OutputRows:
    """The rows that a writer writes for a DataFrame or Series.

    Parameters
    ----------
    obj
        A DataFrame or Series.
    index
        Whether the row labels are written. If not, they are not computed.

    Raises
    ------
    Unsupported
        If the dtypes are not known, or if there are no columns.
    """
    held = view_of_object(obj)
    if not held.values:
        raise Unsupported(Refusal.NO_COLUMNS)
    if not index and held.index.values:
        held = replace(held, index=IndexSpec())
    held = resolved(held)
    labels = replace(held.index, values=tuple(map(_clean, held.index.values)))
    return rows_of_view(replace(held, index=labels, values=tuple(map(_clean, held.values))))


def _clean(value: Value) -> Value:
    return value if distinguishes_nan(value.dtype) else value.clean


def rows_of_view(held: View) -> OutputRows:
    """The rows to write for a view whose dtypes do not depend on its values."""
    return OutputRows(held, tuple(column_names([*index_labels(held.index), *held.labels])), planned(held))


def write_batches(rows: OutputRows, write: Callable[[pl.DataFrame], None], size: int) -> None:
    """Compute the rows, and pass them in order to a writer, ``size`` rows at a time.

    Parameters
    ----------
    write
        Called with one batch after another. An exception that it raises ends the run and is raised here.
    size
        The number of rows of every batch but the last.
    """
    failed: list[BaseException] = []
    writing: Future[None] | None = None

    def guarded(batch: pl.DataFrame) -> bool:
        nonlocal writing
        try:
            if writing is not None:
                writing.result()
            writing = writer.submit(write, batch)  # while the kernel computes the next batch
        except BaseException as error:
            failed.append(error)
            return True
        return False

    with ThreadPoolExecutor(1) as writer:
        run_into_sink(rows.plan, lambda frame: frame.sink_batches(guarded, chunk_size=size, lazy=True))
        if not failed and writing is not None:
            writing.result()
    if failed:
        raise failed[0]


def batch_to_frame(rows: OutputRows, batch: pl.DataFrame, start: int) -> pd.DataFrame:
    """Convert a batch to a pandas frame; ``start`` is the number of rows before it."""
    arrays = [
        to_array(batch.get_column(name), value.dtype) for name, value in zip(rows.names, rows.values, strict=True)
    ]
    spec, count = rows.view.index, len(rows.view.index.values)
    if spec.kind == "default":
        index: pd.Index = pd.RangeIndex(start, start + batch.height, name=spec.names[0])
    else:
        index = make_index(replace(spec, freq=None), arrays[:count], batch.height)
    manager = block_manager(arrays[count:], index, rows.view.labels)
    return pd.DataFrame._from_mgr(manager, manager.axes)


def batch_to_arrow(rows: OutputRows, batch: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """Convert a batch to an Arrow table with the schema that pandas writes."""
    columns = []
    for name, value, field in zip(rows.names, rows.values, schema, strict=True):
        column = batch.get_column(name)
        if isinstance(value.dtype, pd.CategoricalDtype):
            codes = column.to_arrow().cast(field.type.index_type)
            categories = _categories(value.dtype, field.type.value_type)
            columns.append(pa.DictionaryArray.from_arrays(codes, categories, ordered=field.type.ordered))
        else:
            array = column.to_arrow()
            columns.append(array if array.type == field.type else array.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _categories(dtype: pd.CategoricalDtype, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_null(arrow):  # that of a column without categories
        return pa.nulls(len(dtype.categories))
    return pa.array(dtype.categories, from_pandas=True).cast(arrow)


def iterate_batches(rows: OutputRows, size: int) -> Iterator[pl.DataFrame]:
    """Compute the rows, and yield them in order, ``size`` rows at a time.

    The run has its own thread, which blocks when it is a few batches ahead (backpressure), and ends with the iterator.
    """
    waiting: queue.Queue[pl.DataFrame | BaseException | None] = queue.Queue(maxsize=2)
    stopped = threading.Event()

    def put(item: pl.DataFrame | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def hand_over(batch: pl.DataFrame) -> bool:
        put(batch)
        return stopped.is_set()

    def run() -> None:
        try:
            run_into_sink(rows.plan, lambda frame: frame.sink_batches(hand_over, chunk_size=size, lazy=True))
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=run, name="craton-rows", daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
