"""Columns and row labels that a view has unchanged from data in memory, so that they are returned without a run.

``df.rename(columns=…)``, ``df.drop(columns=…)`` and ``df.set_axis(…)`` change labels only: the result has the arrays of ``df``, as in
pandas. Nothing writes to these arrays: pandas copies them before a write to either frame
(:func:`craton.pandas.core.scanning.copy_before_writes`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pandas as pd

from craton.engine import collect_rows, has_few_rows, may_keep
from craton.pandas.core.align import Memory, memory_of, original_column
from craton.pandas.core.array_conversion import Array, range_index
from craton.pandas.core.dtypes import same_dtype
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.plan import build
from craton.plan.expr import Column, dtype_of
from craton.plan.operators import Attach, Join, Operator, Project, Scan, schema
from craton.plan.origin import same_rows
from craton.plan.sources import Source
from craton.records import dataclass

__all__ = ["Unchanged", "scan_of_rows", "unchanged"]


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


def unchanged(view: View) -> Unchanged:
    """The columns and row labels that a view has unchanged from data in memory."""
    scanned = scan_of_rows(view.base)
    memory = None if scanned is None else memory_of(scanned.source)
    if scanned is None or memory is None:
        return Unchanged({}, None)
    arrays = {}
    for position, value in enumerate(view.values):
        array = _array(view.base, value)
        if array is not None and same_dtype(array.dtype, value.dtype):
            arrays[position] = array
    return Unchanged(arrays, _unchanged_index(view, scanned.source, memory))


def scan_of_rows(base: Operator) -> Scan | None:
    """The scan of the same rows in memory."""
    while (below := _same_rows(base)) is not None:
        base = below
    return base if isinstance(base, Scan) and base.predicate is None else None


def _same_rows(base: Operator) -> Operator | None:
    """The input that has the same rows in the same order, if there is one."""
    return base.left if isinstance(base, Join) and _is_lookup(base) else same_rows(base)


def _array(base: Operator, value: Value) -> Array | None:
    """The array in memory that a column is; None for a computed column."""
    if isinstance(value.expr, ObjectColumn):
        column = replace(value, expr=value.expr.column)
        return None if _source_column(base, column) is None else value.expr.objects
    found = _source_column(base, value)
    memory = None if found is None else memory_of(found[0])
    return None if memory is None or found is None else memory.arrays[found[1]]


def _source_column(base: Operator, value: Value) -> tuple[Source, str] | None:
    """The source, and its column, that a column is; None for a computed column."""
    expr = value.expr
    while isinstance(expr, Column) and value.definite:
        if isinstance(base, Scan):
            return base.source, expr.name
        if isinstance(base, Attach) and expr.name in base.columns:
            return original_column(base.source, expr.name)
        if isinstance(base, Project):
            expr = dict(base.columns)[expr.name]
        below = _same_rows(base)
        if below is None or (isinstance(expr, Column) and expr.name not in schema(below)):
            return None
        base = below
    return None


#: Whether each row of the left input has at most one match, by the join's digest.
_lookups: OrderedDict[bytes, bool] = OrderedDict()
_MOST_LOOKUPS = 1024
#: The most rows of a right input that is tested for repeated keys.
_FEW_ROWS = 200_000


def _is_lookup(join: Join) -> bool:
    """Whether a join keeps all left rows as they are, since each has at most one match among a few rows in memory."""
    known = _lookups.get(join.digest)
    if known is None:
        known = _has_unique_keys(join)
        _lookups[join.digest] = known
        while len(_lookups) > _MOST_LOOKUPS:
            _lookups.popitem(last=False)
    return known


def _has_unique_keys(join: Join) -> bool:
    if join.how == "left" and join.matches_row_numbers:
        return True
    if join.how != "left" or not has_few_rows(join.right, _FEW_ROWS) or not may_keep(join):
        return False
    # Floats that differ, as 0.0 and -0.0, may match one key.
    if any(dtype_of(expr).is_float() for expr in (*join.left_on, *join.right_on)):
        return False
    keys = tuple((str(number), expr) for number, expr in enumerate(join.right_on))
    (rows,) = collect_rows([build.project(join.right, keys)])
    return rows.n_unique() == rows.height


def _unchanged_index(view: View, source: Source, memory: Memory) -> pd.Index | None:
    spec, known = view.index, memory.spec
    if spec.kind == "default":
        return pd.RangeIndex(len(memory.index), name=spec.names[0])
    return _own_index(view) if spec.values != known.values else _kept_index(view, source, memory)


def _own_index(view: View) -> pd.Index | None:
    """Row labels that are a column of the source."""
    spec = view.index
    single = spec.kind in ("labels", "range") and spec.freq is None
    array = _array(view.base, spec.values[0]) if single else None
    if array is None or not same_dtype(array.dtype, spec.values[0].dtype):
        return None
    if spec.kind == "range":
        return range_index(np.array(array)).rename(spec.names[0])
    if not hasattr(array, "_pa_array"):
        array = array.copy()  # nobody may write to the memory of an Index
    if isinstance(array, (pd.arrays.DatetimeArray, pd.arrays.TimedeltaArray)):
        array._freq = None  # type: ignore[union-attr]
    return pd.Index(array, name=spec.names[0], dtype=array.dtype, copy=False)  # infers no other dtype for objects


def _kept_index(view: View, source: Source, memory: Memory) -> pd.Index | None:
    """The row labels in memory."""
    spec, known = view.index, memory.spec
    if (spec.kind, spec.freq, spec.sources) != (known.kind, known.freq, ()):
        return None
    if len(spec.levels) != len(known.levels) or any(
        one is not other for one, other in zip(spec.levels, known.levels, strict=True)
    ):
        return None
    names = [_source_column(view.base, replace(value, expr=value.read)) for value in spec.values]
    columns = [(source, value.read.name) for value in known.values if isinstance(value.read, Column)]
    if names != columns or len(spec.values) != len(known.values):
        return None
    if not all(same_dtype(ours.dtype, theirs.dtype) for ours, theirs in zip(spec.values, known.values, strict=True)):
        return None
    index = memory.index.view()  # which keeps the identity, by which pandas recognises equal labels
    index.names = list(spec.names)
    return index
