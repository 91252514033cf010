"""Decides whether two objects have the same rows and row labels, so that they can be operands without alignment.

pandas aligns operands by their indexes. If both indexes are provably the same (same rows, same labels), alignment changes
nothing, and the columns of one object become expressions over the base of the other. Otherwise pandas must align them.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.array_conversion import Array
from craton.pandas.core.view import IndexSpec, ObjectColumn, Value, View
from craton.plan import build
from craton.plan.expr import Column, Expr, substitute
from craton.plan.operators import Attach, Operator, Project, RowNumber, Scan, Window
from craton.plan.sources import MemorySource, Source
from craton.records import dataclass
from craton.refusals import Refusal

_tokens = itertools.count(1)


def aligned(left: View, right: View) -> tuple[View, View]:
    """Both views rewritten over the same base.

    Raises
    ------
    Unsupported
        If their rows or row labels are not provably the same.
    """
    if left.base != right.base:
        left, left_sources = _over_source_rows(left)
        right, right_sources = _over_source_rows(right)
        if left.base != right.base:
            moved = _moved_beside(left, right)
            if moved is None:
                raise Unsupported(Refusal.ROWS_DIFFER)
            right, source = moved
            right_sources = {**right_sources, source: tuple(name for name, _ in source.columns)}
        base = _with_attached(left.base, {**left_sources, **right_sources})
        left, right = replace(left, base=base), replace(right, base=base)
    if not same_labels(left.index, right.index):
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    return left, right


@dataclass(frozen=True, slots=True)
class Memory:
    """pandas data in memory that a source reads.

    Parameters
    ----------
    arrays
        The array of each column of the source.
    index, spec
        The row labels, as an Index that keeps their identity, and their description.
    """

    arrays: dict[str, Array]
    index: pd.Index
    spec: IndexSpec


_memory: WeakKeyDictionary[Source, Memory] = WeakKeyDictionary()
#: For each source of data in memory: a source of the same columns with names that are unique in the process.
_renamed: WeakKeyDictionary[Source, MemorySource] = WeakKeyDictionary()
#: For each such source: the original, and the names that its columns have there.
_originals: WeakKeyDictionary[Source, tuple[weakref.ref[MemorySource], dict[str, str]]] = WeakKeyDictionary()


def remember_memory(source: Source, arrays: dict[str, Array], index: pd.Index, spec: IndexSpec) -> None:
    """Remember what a source reads, until it is garbage-collected."""
    _memory[source] = Memory(arrays, index.view(), spec)


def memory_of(source: Source) -> Memory | None:
    """What a source reads; None if that is not pandas data."""
    return _memory.get(source)


def original_column(source: Source, name: str) -> tuple[Source, str] | None:
    """The source and the name of a column that a plan attaches; None if the source does not exist any more."""
    found = _originals.get(source)
    original = None if found is None else found[0]()
    return None if found is None or original is None else (original, found[1][name])


def _moved_beside(left: View, right: View) -> tuple[View, MemorySource] | None:
    """The right view over columns that are attached to the rows of the left one; None unless both have the same Index in memory.

    Returns
    -------
    tuple of (View, MemorySource)
        The view, over the base of the left one, and the source to attach.
    """
    own, other = _memory_source(left.base), _memory_source(right.base)
    if own is None or other is None:
        return None
    ours, theirs = memory_of(own), memory_of(other)
    if ours is None or theirs is None or not same_index(ours.index, theirs.index):
        return None
    for side, memory in ((left, ours), (right, theirs)):
        if [value.expr for value in side.index.values] != [value.expr for value in memory.spec.values]:
            return None  # other labels than those in memory
    if left.index.kind != right.index.kind:
        return None
    source = _renamed.get(other)
    if source is None:
        names = dict(zip(dict(other.columns), _unique_names(len(other.columns)), strict=True))
        source = _renamed[other] = other.renamed(names)
        _originals[source] = weakref.ref(other), {new: old for old, new in names.items()}
    moved = zip(other.columns, source.columns, strict=True)
    mapping = {old: Column(name, dtype) for (old, _), (name, dtype) in moved}
    values = tuple(_substituted(value, mapping) for value in right.values)
    index = replace(left.index, names=right.index.names)
    return replace(right, base=left.base, values=values, index=index), source


def _memory_source(base: Operator) -> MemorySource | None:
    """The source of a scan of all rows in memory."""
    whole = isinstance(base, Scan) and isinstance(base.source, MemorySource) and base.predicate is None
    return base.source if whole else None  # type: ignore[attr-defined]


def same_index(one: pd.Index, other: pd.Index) -> bool:
    """Whether two Indexes in memory have the same labels, without comparing values."""
    if isinstance(one, pd.RangeIndex) and isinstance(other, pd.RangeIndex):
        return one.equals(other)
    return bool(one.is_(other))


def same_labels(left: IndexSpec, right: IndexSpec) -> bool:
    """Whether two indexes over one base hold the same labels."""
    return left.kind == right.kind and [v.expr for v in left.values] == [v.expr for v in right.values]


def over_source_rows(view: View) -> View:
    """The same view over its source rows: the operator below all projections, windows, row numbers and attached columns.

    Columns that :func:`attached` attached further up are attached to that operator instead.
    """
    view, sources = _over_source_rows(view)
    return replace(view, base=_with_attached(view.base, sources))


def source_rows(view: View) -> tuple[Operator, tuple[Expr, ...]]:
    """The operator with the source rows of a view, and the row labels as expressions over it and over attached columns."""
    rows, _ = _over_source_rows(replace(view, values=()))
    return rows.base, tuple(value.expr for value in rows.index.values)


_AttachedSources = dict[Source, tuple[str, ...]]


def _over_source_rows(view: View) -> tuple[View, _AttachedSources]:
    """As :func:`over_source_rows`, but no columns are attached; returns their sources, with the columns' names, as well."""
    base: Operator = view.base
    values = list(view.values)
    labels = list(view.index.values)
    sources: _AttachedSources = {}
    while isinstance(base, (Project, Window, RowNumber, Attach)):
        if isinstance(base, Attach):
            # The names of attached columns are unique in the process, so a lower operator cannot have columns of these names.
            sources[base.source] = tuple(name for name, _ in base.source.columns)
            base = base.input
            continue
        mapping: dict[str, Expr] = (
            {base.name: build.row_number()} if isinstance(base, RowNumber) else dict[str, Expr](base.columns)
        )
        values = [_substituted(value, mapping) for value in values]
        labels = [_substituted(value, mapping) for value in labels]
        base = base.input
    return replace(view, base=base, values=tuple(values), index=replace(view.index, values=tuple(labels))), sources


def _with_attached(base: Operator, sources: _AttachedSources) -> Operator:
    for source, columns in sorted(sources.items(), key=lambda item: item[1]):
        base = Attach(base, source, columns)
    return base


def attached(view: View, columns: Sequence[pl.Series]) -> tuple[View, list[Expr]]:
    """A view with columns from memory attached to its rows.

    Parameters
    ----------
    view
        The view. Expressions over its base stay valid over the new one.
    columns
        Columns with one value for each row of the view.

    Returns
    -------
    tuple of (View, list of Expr)
        The view over the new base, and the attached columns as expressions over it.
    """
    names = _unique_names(len(columns))
    frame = pl.DataFrame([column.rename(name) for column, name in zip(columns, names, strict=True)])
    base = Attach(view.base, MemorySource.of(frame), tuple(names))
    return replace(view, base=base), [base.column(name) for name in names]


def _unique_names(count: int) -> list[str]:
    """Names of attached columns, which are unique in the process."""
    token = next(_tokens)
    return [f"__attached{token:08}_{i}__" for i in range(count)]


def _substituted(value: Value, mapping: Mapping[str, Expr]) -> Value:
    if not isinstance(value.expr, ObjectColumn):
        return replace(value, expr=substitute(value.expr, mapping))
    column = substitute(value.expr.column, mapping)
    text = None if value.expr.text is None else substitute(value.expr.text, mapping)
    return replace(value, expr=value.expr.over(column, text))
