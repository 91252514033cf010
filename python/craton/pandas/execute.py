"""Runs a view's plan and makes pandas' own data structures of the result."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.internals.managers import SingleBlockManager, create_block_manager_from_column_arrays

from craton import events
from craton.kernel.run import run_all
from craton.lower import lower
from craton.lower.results import results
from craton.pandas.convert import Array, from_array, to_array
from craton.pandas.dtypes import physical, with_missing
from craton.pandas.view import IndexSpec, Value, View, column_names, index_labels
from craton.plan.expr import Call, Column
from craton.plan.operators import Aggregate, AggregateCall, Operator, Project, Scan, schema
from craton.plan.order import topological
from craton.plan.size import estimated_rows
from craton.plan.sources import FileSource, MemorySource
from craton.plan.stages import optimize


def execute(plans: list[Operator], *, ordered: bool = True) -> list[pl.DataFrame]:
    """Run plans together; a plan that was run before gives the remembered result.

    Parameters
    ----------
    plans
        As the front end built them.
    ordered
        Whether the row order of the results is seen.
    """
    found = [results.get(plan) for plan in plans]
    missing = [i for i, frame in enumerate(found) if frame is None]
    if missing:
        started = time.perf_counter()
        optimized = [optimize(results.substitute(plans[i])) for i in missing]
        lowered = [lower(plan, ordered=ordered) for plan in optimized]
        scanned = sum(estimated_rows(op) for plan in optimized for op in topological(plan) if isinstance(op, Scan))

        def describe() -> str:
            operators = [op for plan in optimized for op in topological(plan)]
            return f"{len(operators)} operators over ~{scanned:,} rows"

        try:
            ran = run_all(lowered, expected_rows=scanned, describe=describe)
        except (pl.exceptions.PolarsError, OSError) as error:
            _let_pandas_explain(optimized, error)
            raise
        except Exception as error:
            _as_raised(error)
            raise
        for i, frame in zip(missing, ran, strict=True):
            found[i] = frame
            results.put(plans[i], frame)
        if events.active:
            operators = sum(len(topological(plans[i])) for i in missing)
            rows = sum(frame.height for frame in found if frame is not None)
            events.emit("run", seconds=time.perf_counter() - started, rows=rows, operators=operators)
    return [frame for frame in found if frame is not None]


def _as_raised(error: Exception) -> None:
    """An error of pandas' code in a batch: raise it without what the kernel adds to its text."""
    text, added, _ = str(error).partition("\n\nThis error occurred in the following expression")
    if added:
        raise type(error)(text) from None


def _let_pandas_explain(plans: list[Operator], error: Exception) -> None:
    """A run failed: if pandas can't read one of the files either, raise what pandas raises."""
    for plan in plans:
        for op in topological(plan):
            if isinstance(op, Scan) and isinstance(op.source, FileSource) and op.source.reopen is not None:
                try:
                    op.source.reopen()
                except Exception as worded:
                    raise worded from error


def materialise(view: View) -> tuple[list[Array], pd.Index]:
    """Run a view.

    Returns
    -------
    tuple of (list of arrays, Index)
        The columns and the row labels.
    """
    view, names = _with_result_names(view)
    every = (*view.index.values, *view.values)
    plan = view.base
    checks = {i: null_count(value.source) for i, value in enumerate(every) if value.source is not None}
    frames = execute([plan, *checks.values()])
    promoted = {i: bool(frame.item()) for i, frame in zip(checks, frames[1:], strict=True)}
    frame = frames[0]
    arrays = []
    for i, (value, name) in enumerate(zip(every, names, strict=True)):
        dtype = with_missing(value.dtype) if promoted.get(i) else value.dtype  # nulls of its own promote in to_array
        arrays.append(to_array(frame.get_column(name), dtype))
    count = len(view.index.values)
    return arrays[count:], make_index(view.index, arrays[:count], frame.height)


def null_count(source: tuple[Operator, str]) -> Operator:
    """The plan that counts the missing values of an operator's column."""
    operator, column = source
    call = AggregateCall("null_count", (operator.column(column),), pl.Int64())
    return Aggregate(operator, (), (("missing", call),))


def resolved(view: View) -> View:
    """The same view with every dtype definite: dtypes that depend on the data are decided by a query.

    Raises
    ------
    Unsupported
        If a boolean column has missing values: it is one of Python objects then.
    """
    every = (*view.index.values, *view.values)
    sources = list(dict.fromkeys(value.source for value in every if value.source is not None))
    if not sources:
        return view
    counts = execute([null_count(source) for source in sources], ordered=False)
    missing = {source: bool(frame.item()) for source, frame in zip(sources, counts, strict=True)}

    def settle(value: Value) -> Value:
        if value.source is None:
            return value
        if not missing[value.source]:
            return replace(value, source=None, nulls=False)
        dtype = with_missing(value.dtype)
        return Value(Call("cast", (value.expr,), physical(dtype)), dtype, nulls=True)

    return replace(
        view,
        values=tuple(map(settle, view.values)),
        index=replace(view.index, values=tuple(map(settle, view.index.values))),
    )


def planned(view: View) -> Operator:
    """The plan that :func:`materialise` runs for a view."""
    return _with_result_names(view)[0].base


def _with_result_names(view: View) -> tuple[View, list[str]]:
    names = column_names([*index_labels(view.index), *view.labels])
    every = (*view.index.values, *view.values)
    if not names:
        # Only the number of rows is asked for: carry any column.
        name = next(iter(schema(view.base)))
        return View(
            Project(view.base, ((name, view.base.column(name)),)), (), view.labels, view.index, view.rows
        ), names
    base = Project(view.base, tuple((name, value.expr) for name, value in zip(names, every, strict=True)))
    return View(base, view.values, view.labels, view.index, view.rows), names


def make_index(spec: IndexSpec, arrays: list[Array], rows: int) -> pd.Index:
    """The pandas Index of a result."""
    if spec.kind == "default":
        return pd.RangeIndex(rows, name=spec.names[0])
    if spec.kind == "multi":
        return pd.MultiIndex.from_arrays(arrays, names=list(spec.names))
    if spec.kind == "range":
        labels = pd.RangeIndex(0)._shallow_copy(np.asarray(arrays[0]))  # type: ignore[attr-defined]
        return labels.rename(spec.names[0])  # type: ignore[no-any-return]
    return pd.Index(arrays[0], name=spec.names[0], copy=False)


def block_manager(arrays: list[Array], index: pd.Index, labels: pd.Index) -> Any:
    """A pandas block manager over the arrays, one block a column, nothing copied."""
    return create_block_manager_from_column_arrays(
        [_ensure(array) for array in arrays], [labels, index], consolidate=False, refs=[None] * len(arrays)
    )


def series_manager(array: Array, index: pd.Index) -> Any:
    """A pandas manager of one column."""
    return SingleBlockManager.from_array(_ensure(array), index)


def _ensure(array: Any) -> Any:
    """Datetimes as pandas holds them in blocks."""
    if isinstance(array, np.ndarray) and array.dtype.kind in "mM":
        return pd.array(array, copy=False)
    return array


def scalar(view: View, call: AggregateCall) -> Any:
    """Run one aggregate over a view's base and return the Python value."""
    plan = Aggregate(view.base, (), (("value", call),))
    return execute([plan], ordered=False)[0].item()


def count_rows(view: View) -> int:
    """The number of rows, without computing a column."""
    if view.rows is not None:
        return view.rows
    return int(scalar(view, AggregateCall("len", (), pl.Int64())))


def view_of(columns: list[Any], index: pd.Index, labels: pd.Index) -> View:
    """A view that scans pandas data in memory.

    Parameters
    ----------
    columns
        Arrays.
    index, labels
        Row and column labels.

    Raises
    ------
    Unsupported
        If a dtype has no physical form.
    """
    levels, spec = _index_spec(index)
    names = column_names([*index_labels(spec), *labels])
    series: list[pl.Series] = []
    values: list[Value] = []
    for name, array in zip(names, [*levels, *columns], strict=True):
        column, nulls, nans = from_array(name, array)
        series.append(column)
        values.append(Value(Column(name, column.dtype), array.dtype, nulls, nans))
    frame = pl.DataFrame(series) if series else pl.DataFrame({"": np.zeros(len(index), dtype=bool)})
    source = MemorySource.of(frame)
    base = Scan(source, tuple(frame.columns))
    spec = IndexSpec(spec.kind, tuple(values[: len(levels)]), spec.names)
    return View(base, tuple(values[len(levels) :]), labels, spec, len(index))


def _index_spec(index: pd.Index) -> tuple[list[Any], IndexSpec]:
    names = tuple(index.names)
    if isinstance(index, pd.MultiIndex):
        levels = [index.get_level_values(i)._values for i in range(index.nlevels)]
        return levels, IndexSpec("multi", (None,) * len(levels), names)  # type: ignore[arg-type]
    if isinstance(index, pd.RangeIndex):
        if index.start == 0 and index.step == 1:
            return [], IndexSpec("default", (), names)
        return [index.to_numpy()], IndexSpec("range", (None,), names)  # type: ignore[arg-type]
    return [index._values], IndexSpec("labels", (None,), names)  # type: ignore[arg-type]
