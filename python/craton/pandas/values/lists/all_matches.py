"""``Series.str.extractall``: a row for each match of a pattern."""

from __future__ import annotations

from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import INT64, STR
from craton.pandas.core.view import IndexSpec, Value, View
from craton.pandas.values.text.regexes import can_match_empty, group_count, parse, translate
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, WindowCall, options
from craton.plan.operators import Explode, RowNumber, schema
from craton.refusals import Refusal

__all__ = ["extract_all"]


def extract_all(held: View, pat: Any, flags: Any) -> View:
    """The view of the matches.

    Raises
    ------
    Unsupported
        If the pattern is not one group, which takes in the whole match; or if there is no match.
    """
    (value,) = held.values
    if type(pat) is not str or type(flags) is not int or flags:
        raise Unsupported(Refusal.PARAMETERS, "pat and flags")
    if not value.definite or value.dtype != STR:
        raise Unsupported(Refusal.OPERATION, f"str.extractall of {value.dtype}")
    nodes = list(parse(pat))
    if group_count(pat) != 1 or len(nodes) != 1 or nodes[0][0] is not sre.SUBPATTERN:
        raise Unsupported(Refusal.PATTERN, "groups of parts of a match")
    if can_match_empty(pat) or "$" in pat:
        raise Unsupported(Refusal.PATTERN, "matches that may be empty or end before a final newline")
    pattern = options(pattern=translate(pat))

    def matches(texts: Expr) -> Expr:
        return Call("str_find_all", (texts,), pl.List(pl.String()), pattern)

    count = Call("list_len", (matches(value.expr),), pl.Int64())
    some = Call("gt", (count, Literal(0, pl.Int64())), pl.Boolean())
    held = held.numbered()
    for label in held.index.values:
        if label.clean.nulls or not label.definite or label.dtype not in (INT64, STR):
            raise Unsupported(Refusal.LABELS_OF_DTYPE, label.dtype)
    if not any_row(held, some):
        raise Unsupported(Refusal.LISTS_WITHOUT_ITEMS)
    sample = stand_ins.probe(stand_ins.column(value.dtype, 1).str.extract, pat, expand=True)
    held = held.with_rows_from(lambda base, exprs: build.filter(base, exprs[0]), [some])
    (value,) = held.values
    held, (lists,) = held.with_values([], held.labels[:0]).projected_with([matches(value.expr)])
    name = "row"
    while name in schema(held.base):
        name += "_"
    numbered = RowNumber(held.base, name)
    base = Explode(numbered, lists.name)  # type: ignore[attr-defined]
    number: Expr = WindowCall("row_number", (), pl.Int64(), (base.column(name),))
    item = Value(base.column(lists.name), STR, nulls=False)  # type: ignore[attr-defined]
    labels = (*held.index.values, Value(number, INT64, nulls=False))
    index = IndexSpec("multi", labels, (*held.index.names, "match"))
    return View(base, (item,), sample.columns, index)
