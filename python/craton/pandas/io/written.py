"""The rows of a view on their way into a file: streamed in order, as Polars batches, Arrow batches or pandas frames."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton.engine.sharing import run_into_sink
from craton.errors import Unsupported
from craton.pandas.core.convert import to_array
from craton.pandas.core.dtypes import is_float
from craton.pandas.core.execute import block_manager, make_index, planned, resolved
from craton.pandas.core.lazy import view as view_of_object
from craton.pandas.core.view import IndexSpec, Value, View, column_names, index_labels
from craton.plan.operators import Operator
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Rows:
    """What is written: the columns of a view, its index levels first if they are wanted.

    Parameters
    ----------
    view
        With definite dtypes, and missing values as null.
    names
        The names in the plan of the index levels and columns.
    plan
        The operator whose columns they are.
    """

    view: View
    names: tuple[str, ...]
    plan: Operator

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of the index levels and columns."""
        return (*self.view.index.values, *self.view.values)

    @property
    def template(self) -> pd.DataFrame:
        """An empty frame with the dtypes, the labels and the kind of index of what is written."""
        empty = [to_array(pl.Series([], dtype=value.physical), value.dtype) for value in self.values]
        count = len(self.view.index.values)
        index = make_index(self.view.index, empty[:count], 0)
        manager = block_manager(empty[count:], index, self.view.labels)
        frame = pd.DataFrame._from_mgr(manager, manager.axes)
        frame.attrs = {}
        return frame


def rows_of(obj: Any, *, index: bool = True) -> Rows:
    """What writing a DataFrame writes.

    Parameters
    ----------
    obj
        A DataFrame or Series.
    index
        Whether the row labels are written; without, they are not computed.

    Raises
    ------
    Unsupported
        If the dtypes are not known, or nothing but labels is written.
    """
    held = view_of_object(obj)
    if not held.values:
        raise Unsupported(Refusal.NO_COLUMNS)
    if not index and held.index.values:
        held = replace(held, index=IndexSpec())
    held = resolved(held)
    labels = replace(held.index, values=tuple(map(_clean, held.index.values)))
    return rows_over(replace(held, index=labels, values=tuple(map(_clean, held.values))))


def _clean(value: Value) -> Value:
    return value.clean if is_float(value.dtype) else value


def rows_over(held: View) -> Rows:
    """What writing a view of definite dtypes writes."""
    return Rows(held, tuple(column_names([*index_labels(held.index), *held.labels])), planned(held))


def write_batches(rows: Rows, write: Callable[[pl.DataFrame], None], size: int) -> None:
    """Hand over the rows in order, ``size`` at a time.

    Parameters
    ----------
    write
        Called in turn; what it raises ends the run.
    size
        The rows of every batch but the last.
    """
    failed: list[BaseException] = []

    def guarded(batch: pl.DataFrame) -> bool:
        try:
            write(batch)
        except BaseException as error:
            failed.append(error)
            return True
        return False

    run_into_sink(rows.plan, lambda frame: frame.sink_batches(guarded, chunk_size=size, lazy=True))
    if failed:
        raise failed[0]


def frame_of(rows: Rows, batch: pl.DataFrame, start: int) -> pd.DataFrame:
    """A batch as a pandas frame, whose first row is the ``start``-th of all."""
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


def arrow_batch(rows: Rows, batch: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """A batch as an Arrow table of the schema that pandas writes."""
    columns = []
    for name, value, field in zip(rows.names, rows.values, schema, strict=True):
        column = batch.get_column(name)
        if isinstance(value.dtype, pd.CategoricalDtype):
            codes = column.to_arrow().cast(field.type.index_type)
            categories = pa.array(value.dtype.categories, from_pandas=True).cast(field.type.value_type)
            columns.append(pa.DictionaryArray.from_arrays(codes, categories, ordered=field.type.ordered))
        else:
            array = column.to_arrow()
            columns.append(array if array.type == field.type else array.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def batches_of(rows: Rows, size: int) -> Iterator[pl.DataFrame]:
    """The rows in order, ``size`` at a time, for a consumer that asks for them.

    The run goes on in a thread of its own, at most a few batches ahead; it ends when the consumer stops asking.
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
