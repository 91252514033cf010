"""Reads whole categorical columns of a Parquet file with pyarrow, while the kernel reads the others.

pyarrow keeps the codes that the file has. The kernel looks up each value as a text, which takes four times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import pandas as pd

from craton import forks
from craton.engine.choice import present_engine
from craton.errors import SourceChanged
from craton.pandas.core.array_conversion import Array
from craton.pandas.core.unchanged import Unchanged
from craton.pandas.core.view import Value, View
from craton.plan.expr import Call, Column, Values
from craton.plan.operators import Scan
from craton.plan.sources import FileSource

__all__ = ["CategoryReads"]

#: The fewest rows for which a thread is started.
_FEWEST = 50_000


class CategoryReads:
    """The categorical columns of some views that another thread reads, within a ``with`` block.

    Parameters
    ----------
    views
        The views. Only those of all rows of one local Parquet file have such columns.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        self._found: list[dict[int, str]] = [_columns(view) for view in views]
        self._reads: list[Future[list[pd.Categorical] | None] | None] = []
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> CategoryReads:
        if any(self._found):
            self._pool = ThreadPoolExecutor(1, "craton-categories")
        self._reads = [
            self._pool.submit(_read, view, list(found.values())) if found and self._pool is not None else None
            for view, found in zip(self._views, self._found, strict=True)
        ]
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def others(self) -> list[View]:
        """The views without those columns."""
        return [
            Unchanged(dict.fromkeys(found), None).remaining(view)
            for view, found in zip(self._views, self._found, strict=True)
        ]

    def completed(self, number: int, arrays: list[Array]) -> list[Array] | None:
        """All columns of a view, given those of :meth:`others`; None if the file has other categories than the view."""
        read, found, view = self._reads[number], self._found[number], self._views[number]
        if read is None:
            return arrays
        columns = read.result()
        if columns is None or any(
            not _same(column.dtype, view.values[i].dtype) for i, column in zip(found, columns, strict=True)
        ):
            return None
        return Unchanged(dict(zip(found, columns, strict=True)), None).completed(view, arrays)


def _columns(view: View) -> dict[int, str]:
    """The positions and names of the columns that are read so: with the codes of all values of a column of the file."""
    base = view.base
    if not isinstance(base, Scan) or base.predicate is not None or not isinstance(base.source, FileSource):
        return {}
    source = base.source
    if source.format != "parquet" or len(source.paths) != 1 or source.options or (source.rows or 0) < _FEWEST:
        return {}
    if source.filesystem is not None or source.storage_options is not None or source.layout is not None:
        return {}
    if forks.kernel_lost() or present_engine() is not None:
        return {}
    found = {i: name for i, value in enumerate(view.values) if (name := _column_of_codes(value)) is not None}
    return found if len(found) < len(view.values) else {}


def _column_of_codes(value: Value) -> str | None:
    """The column of texts whose positions among the categories are the codes of a value; None for other values."""
    expr, dtype = value.expr, value.dtype
    if not isinstance(dtype, pd.CategoricalDtype) or not isinstance(expr, Call) or expr.function != "map_values":
        return None
    column, keys, codes = expr.args
    if not isinstance(column, Column) or not isinstance(keys, Values) or not isinstance(codes, Values):
        return None
    if "." in column.name or keys.series.to_list() != dtype.categories.to_list():
        return None
    return column.name if codes.series.to_list() == list(range(len(keys.series))) else None


def _read(view: View, names: list[str]) -> list[pd.Categorical] | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert isinstance(view.base, Scan)
    source = view.base.source
    assert isinstance(source, FileSource)
    try:
        (path,) = source.paths if source.held is None else source.held.readable()
        with pq.ParquetFile(path) as file:
            table = file.read(columns=list(dict.fromkeys(names)), use_threads=False)
        if source.held is not None:
            source.held.check()  # the file must not have been overwritten meanwhile
    except (OSError, SourceChanged, pa.ArrowInvalid):
        return None  # the run of the plan raises the error
    if table.num_rows != source.rows or not all(pa.types.is_dictionary(field.type) for field in table.schema):
        return None
    return [pd.Categorical(table.column(name).to_pandas().array, copy=False) for name in names]


def _same(one: Any, other: Any) -> bool:
    """Whether two categorical dtypes have the same categories in the same order."""
    if one.ordered != other.ordered or one.categories.dtype != other.categories.dtype:
        return False
    return bool(one.categories.equals(other.categories))
