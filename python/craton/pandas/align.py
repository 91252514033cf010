"""Whether two objects have the same rows and labels, so that their columns go together as they are.

pandas aligns operands by their indexes. Where both indexes are provably the same (same rows, same labels) alignment is
the identity, and the values of one can be written over the base of the other; otherwise pandas must do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from craton.errors import Unsupported
from craton.pandas.view import IndexSpec, Value, View
from craton.plan.expr import Expr, Window, substitute
from craton.plan.operators import Operator, Project, RowNumber


def aligned(left: View, right: View) -> tuple[View, View]:
    """Both views over one base.

    Raises
    ------
    Unsupported
        If their rows or row labels are not provably the same.
    """
    if left.base != right.base:
        left, right = grounded(left), grounded(right)
        if left.base != right.base:
            raise Unsupported("operands whose rows are not provably the same")
    if not same_labels(left.index, right.index):
        raise Unsupported("operands whose row labels are not provably the same")
    return left, right


def same_labels(left: IndexSpec, right: IndexSpec) -> bool:
    """Whether two indexes over one base hold the same labels."""
    return left.kind == right.kind and [v.expr for v in left.values] == [v.expr for v in right.values]


def grounded(view: View) -> View:
    """The same view over the operator below all row-preserving ones: projections and row numbers."""
    base: Operator = view.base
    values = list(view.values)
    labels = list(view.index.values)
    while isinstance(base, (Project, RowNumber)):
        mapping: dict[str, Expr] = (
            dict(base.columns) if isinstance(base, Project) else {base.name: Window("row_number", (), pl.UInt32())}
        )
        values = [_substituted(value, mapping) for value in values]
        labels = [_substituted(value, mapping) for value in labels]
        base = base.input
    return replace(view, base=base, values=tuple(values), index=replace(view.index, values=tuple(labels)))


def _substituted(value: Value, mapping: Mapping[str, Expr]) -> Value:
    return replace(value, expr=substitute(value.expr, mapping))
