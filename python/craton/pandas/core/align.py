"""Whether two objects have the same rows and labels, so that their columns go together as they are.

pandas aligns operands by their indexes. Where both indexes are provably the same (same rows, same labels) alignment is
the identity, and the values of one can be written over the base of the other; otherwise pandas must do it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.view import IndexSpec, Value, View
from craton.plan.expr import Expr, WindowCall, substitute
from craton.plan.operators import Attach, Operator, Project, RowNumber, Window
from craton.plan.sources import MemorySource, Source
from craton.refusals import Refusal

_tokens = itertools.count(1)


def aligned(left: View, right: View) -> tuple[View, View]:
    """Both views over one base.

    Raises
    ------
    Unsupported
        If their rows or row labels are not provably the same.
    """
    if left.base != right.base:
        left, beside_left = _over_source_rows(left)
        right, beside_right = _over_source_rows(right)
        if left.base != right.base:
            raise Unsupported(Refusal.ROWS_DIFFER)
        base = _with_attached(left.base, {**beside_left, **beside_right})
        left, right = replace(left, base=base), replace(right, base=base)
    if not same_labels(left.index, right.index):
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    return left, right


def same_labels(left: IndexSpec, right: IndexSpec) -> bool:
    """Whether two indexes over one base hold the same labels."""
    return left.kind == right.kind and [v.expr for v in left.values] == [v.expr for v in right.values]


def over_source_rows(view: View) -> View:
    """The same view over the operator below all row-preserving ones, with what was attached to its rows."""
    view, beside = _over_source_rows(view)
    return replace(view, base=_with_attached(view.base, beside))


_AttachedSources = dict[Source, tuple[str, ...]]


def _over_source_rows(view: View) -> tuple[View, _AttachedSources]:
    """The view over the operator below projections, row numbers and attached columns; and the latter."""
    base: Operator = view.base
    values = list(view.values)
    labels = list(view.index.values)
    beside: _AttachedSources = {}
    while isinstance(base, (Project, Window, RowNumber, Attach)):
        if isinstance(base, Attach):
            # The names of attached columns are unique in the process: they can be attached again further down.
            beside[base.source] = tuple(name for name, _ in base.source.columns)
            base = base.input
            continue
        mapping: dict[str, Expr] = (
            {base.name: WindowCall("row_number", (), pl.UInt32())}
            if isinstance(base, RowNumber)
            else dict[str, Expr](base.columns)
        )
        values = [_substituted(value, mapping) for value in values]
        labels = [_substituted(value, mapping) for value in labels]
        base = base.input
    return replace(view, base=base, values=tuple(values), index=replace(view.index, values=tuple(labels))), beside


def _with_attached(base: Operator, beside: _AttachedSources) -> Operator:
    for source, columns in sorted(beside.items(), key=lambda item: item[1]):
        base = Attach(base, source, columns)
    return base


def attached(view: View, columns: Sequence[pl.Series]) -> tuple[View, list[Expr]]:
    """A view with data in memory beside its rows.

    Parameters
    ----------
    view
        The view; its expressions stay valid.
    columns
        As long as the view has rows.

    Returns
    -------
    tuple of (View, list of Expr)
        The view over the wider base, and the columns.
    """
    token = next(_tokens)
    names = [f"__attached{token:08}_{i}__" for i in range(len(columns))]
    frame = pl.DataFrame([column.rename(name) for column, name in zip(columns, names, strict=True)])
    base = Attach(view.base, MemorySource.of(frame), tuple(names))
    return replace(view, base=base), [base.column(name) for name in names]


def _substituted(value: Value, mapping: Mapping[str, Expr]) -> Value:
    return replace(value, expr=substitute(value.expr, mapping))
