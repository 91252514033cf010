"""Decides whether two objects have the same rows and row labels, so that they can be operands without alignment.

pandas aligns operands by their indexes. If both indexes are provably the same (same rows, same labels), alignment changes
nothing, and the columns of one object become expressions over the base of the other. Otherwise pandas must align them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.view import IndexSpec, Value, View
from craton.plan import build
from craton.plan.expr import Expr, substitute
from craton.plan.operators import Attach, Operator, Project, RowNumber, Window
from craton.plan.sources import MemorySource, Source
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
            raise Unsupported(Refusal.ROWS_DIFFER)
        base = _with_attached(left.base, {**left_sources, **right_sources})
        left, right = replace(left, base=base), replace(right, base=base)
    if not same_labels(left.index, right.index):
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    return left, right


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
    token = next(_tokens)
    names = [f"__attached{token:08}_{i}__" for i in range(len(columns))]
    frame = pl.DataFrame([column.rename(name) for column, name in zip(columns, names, strict=True)])
    base = Attach(view.base, MemorySource.of(frame), tuple(names))
    return replace(view, base=base), [base.column(name) for name in names]


def _substituted(value: Value, mapping: Mapping[str, Expr]) -> Value:
    return replace(value, expr=substitute(value.expr, mapping))
