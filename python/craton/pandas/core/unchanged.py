"""Columns and row labels that a view has unchanged from data in memory, so that they are returned without a run.

``df.rename(columns=…)``, ``df.drop(columns=…)`` and ``df.set_axis(…)`` change labels only: the result has the arrays of ``df``, as in
pandas. Nothing writes to these arrays: pandas copies them before a write to either frame
(:func:`craton.pandas.core.scanning.copy_before_writes`).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pandas as pd

from craton.pandas.core.array_conversion import Array
from craton.pandas.core.view import IndexSpec, Value, View
from craton.plan.expr import Column
from craton.plan.operators import Attach, Operator, Project, RowNumber, Scan, Window
from craton.plan.sources import MemorySource, Source
from craton.records import dataclass

__all__ = ["Unchanged", "remember_arrays", "unchanged"]


@dataclass(frozen=True, slots=True)
class _Memory:
    """The data in memory that a source reads: the array of each of its columns, the row labels, and their description."""

    arrays: dict[str, Array]
    index: pd.Index
    spec: IndexSpec


_known: WeakKeyDictionary[Source, _Memory] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What a view has unchanged.

    Parameters
    ----------
    arrays
        The arrays of unchanged columns, by position.
    index
        The row labels; None if they have changed.
    """

    arrays: dict[int, Array]
    index: pd.Index | None

    def is_all(self, view: View) -> bool:
        """Whether nothing of the view has changed."""
        return self.index is not None and len(self.arrays) == len(view.values)

    def remaining(self, view: View) -> View:
        """The view of the other columns."""
        kept = [i for i in range(len(view.values)) if i not in self.arrays]
        return view if len(kept) == len(view.values) else view.take(kept)

    def completed(self, view: View, computed: list[Array]) -> list[Array]:
        """All arrays of a view, given those of :meth:`remaining`."""
        others = iter(computed)
        return [self.arrays[i] if i in self.arrays else next(others) for i in range(len(view.values))]


def remember_arrays(source: MemorySource, arrays: dict[str, Array], index: pd.Index, spec: IndexSpec) -> None:
    """Remember the arrays that a source reads, until it is garbage-collected."""
    _known[source] = _Memory(arrays, index.view(), spec)


def unchanged(view: View) -> Unchanged:
    """The columns and row labels that a view has unchanged from data in memory."""
    scanned = _scanned(view.base)
    memory = None if scanned is None else _known.get(scanned.source)
    if memory is None:
        return Unchanged({}, None)
    arrays = {}
    for position, value in enumerate(view.values):
        name = _source_column(view.base, value)
        if name is not None and memory.arrays[name].dtype == value.dtype:
            arrays[position] = memory.arrays[name]
    return Unchanged(arrays, _unchanged_index(view, memory))


def _scanned(base: Operator) -> Scan | None:
    """The scan of the same rows in memory."""
    while isinstance(base, (Project, RowNumber, Window, Attach)):
        base = base.input
    return base if isinstance(base, Scan) and base.predicate is None else None


def _source_column(base: Operator, value: Value) -> str | None:
    """The name of the source's column that a column is; None for a computed column."""
    expr = value.expr
    while isinstance(expr, Column) and value.definite:
        if isinstance(base, Scan):
            return expr.name
        if isinstance(base, Project):
            expr = dict(base.columns)[expr.name]
        elif (
            (isinstance(base, RowNumber) and expr.name == base.name)
            or (isinstance(base, Window) and expr.name in dict(base.columns))
            or (isinstance(base, Attach) and expr.name in base.columns)
        ):
            return None
        base = base.input  # type: ignore[attr-defined]
    return None


def _unchanged_index(view: View, memory: _Memory) -> pd.Index | None:
    spec, known = view.index, memory.spec
    if (spec.kind, spec.freq, spec.sources) != (known.kind, known.freq, ()):
        return None
    if spec.kind == "default":
        return pd.RangeIndex(len(memory.index), name=spec.names[0])
    if len(spec.levels) != len(known.levels) or any(
        one is not other for one, other in zip(spec.levels, known.levels, strict=True)
    ):
        return None
    names = [_source_column(view.base, value) for value in spec.values]
    columns = [value.expr.name for value in known.values if isinstance(value.expr, Column)]
    if names != columns or [value.dtype for value in spec.values] != [value.dtype for value in known.values]:
        return None
    return memory.index.set_names(list(spec.names))
