"""Finds the pages of files that a predicate can be true in: from the bounds of columns, or from all values of a page if it has few.

A predicate is evaluated by the kernel on the bounds in place of the column, so that every comparison has the kernel's own meaning: if
``x < 5`` is true for any value of a page, it is true for the least one. Any predicate of one column is evaluated on the values of pages:
if it is true for none of them, and not for null if a value is missing, it is true for no row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from craton.lower.expressions import lower_expr
from craton.plan.expr import (
    Call,
    Column,
    Expr,
    Literal,
    Values,
    column_first,
    conjuncts,
    is_cheap,
    may_raise,
    roots,
    walk,
)
from craton.plan.lengths import is_long
from craton.plan.sources import FileLayout, FileSource

#: The conditions on bounds for comparisons with a column on the left: each a comparison with the least or the greatest value.
_CONDITIONS = {
    **{name: ((name, "least"),) for name in ("lt", "le")},
    **{name: ((name, "greatest"),) for name in ("gt", "ge")},
    "eq": (("ge", "greatest"), ("le", "least")),
}
#: Pages are skipped if at most this share of the rows is read.
_WORTHWHILE = 0.8


def needed_pages(source: FileSource, predicate: Expr | None) -> list[bool] | None:
    """For each page of all files, whether a row of it can fulfil a predicate; None if nothing is known, or it is not worth it."""
    layout = source.layout
    if layout is None or predicate is None:
        return None
    dtypes = dict(source.columns)
    rows = list(itertools.chain.from_iterable(layout.pages))
    needed = [True] * len(rows)
    for found in itertools.chain(
        (_pages_of(layout, dtypes, conjunct) for conjunct in conjuncts(predicate)),
        (_pages_by_values(layout, dtypes, *one) for one in _by_column(layout, dtypes, predicate).items()),
    ):
        if found is not None:
            needed = [one and other for one, other in zip(needed, found, strict=True)]
    read = sum(itertools.compress(rows, needed))
    return needed if read <= _WORTHWHILE * sum(rows) and not all(needed) else None


def needed_runs(source: FileSource, predicate: Expr | None) -> list[tuple[int, int, int]] | None:
    """The runs of needed pages, as :func:`page_runs` returns them; None if all rows are read."""
    needed = needed_pages(source, predicate)
    return None if needed is None or source.layout is None else list(page_runs(source.layout.pages, needed))


def page_runs(pages: Sequence[Sequence[int]], needed: Sequence[bool]) -> Iterator[tuple[int, int, int]]:
    """Runs of needed pages: the number of the file, the first row in it, and the number of rows."""
    flags = iter(needed)
    for number, file in enumerate(pages):
        start = 0
        first: int | None = None
        for rows in file:
            if next(flags):
                first = start if first is None else first
            elif first is not None:
                yield number, first, start - first
                first = None
            start += rows
        if first is not None:
            yield number, first, start - first


def _pages_of(layout: FileLayout, dtypes: dict[str, pl.DataType], expr: Expr) -> list[bool] | None:
    """The pages that a condition can be true in; None if it is not known."""
    if not isinstance(expr, Call) or len(expr.args) != 2:
        return None
    left, name, right = column_first(expr)
    if not isinstance(left, Column) or left.name not in layout.bounds or dtypes[left.name] != left.dtype:
        return None
    bounds = layout.bounds[left.name]
    least, greatest = (_values([None if pair is None else pair[i] for pair in bounds], left.dtype) for i in (0, 1))
    if isinstance(right, Values) and name == "is_in":
        if right.series.null_count() or (right.series.dtype.is_float() and right.series.is_nan().any()):
            return None  # missing values may be among them
        possible = _any_between(least, greatest, right.series)
    elif isinstance(right, Literal) and right.value is not None and name in _CONDITIONS:
        bounded = pl.DataFrame({"least": least, "greatest": greatest})
        calls = [replace(expr, function=how, args=(Column(side, left.dtype), right)) for how, side in _CONDITIONS[name]]
        possible = bounded.select(pl.all_horizontal(list(map(lower_expr, calls)))).to_series()
    else:
        return None
    # Without bounds, all values of a page may be missing; a comparison with them is not true.
    counts, rows = layout.nulls.get(left.name, ()), list(itertools.chain.from_iterable(layout.pages))
    empty = [pair is None and count == size for pair, count, size in zip(bounds, counts, rows, strict=False)]
    unknown = [pair is None and not none for pair, none in zip(bounds, empty or [False] * len(rows), strict=True)]
    return [bool(one) or other for one, other in zip(possible.fill_null(False).to_list(), unknown, strict=True)]


def _by_column(layout: FileLayout, dtypes: dict[str, pl.DataType], predicate: Expr) -> dict[str, list[Expr]]:
    """The conditions of a predicate that read one column, of whose pages values are known; those that can be tried on values."""
    found: dict[str, list[Expr]] = {}
    for conjunct in conjuncts(predicate):
        names = roots(conjunct)
        if len(names) == 1 and names <= layout.values.keys() and _can_be_tried(conjunct, dtypes):
            found.setdefault(next(iter(names)), []).append(conjunct)
    return found


def _can_be_tried(expr: Expr, dtypes: dict[str, pl.DataType]) -> bool:
    """Whether a condition depends on the values of its row alone, cannot raise an error, and takes little time for a few rows."""
    parts = list(walk(expr))
    if not all(isinstance(part, Call | Column | Literal | Values) for part in parts) or is_long([expr]):
        return False
    if not all(part.dtype == dtypes[part.name] for part in parts if isinstance(part, Column)):
        return False
    return is_cheap(expr) and not may_raise(expr)


def _pages_by_values(
    layout: FileLayout, dtypes: dict[str, pl.DataType], name: str, conditions: Sequence[Expr]
) -> list[bool] | None:
    """The pages in which conditions on a column can be true together, by its different values; None if it is not known."""
    missing = layout.nulls.get(name)
    if missing is None:
        return None
    pages = list(zip(layout.values[name], missing, strict=True))
    known = {values: None for values, _ in pages if values is not None}
    distinct = list(dict.fromkeys(itertools.chain.from_iterable(known)))
    true = _true_values(conditions, name, dtypes[name], distinct)
    if true is None:
        return None
    possible = {values: not true.isdisjoint(values) for values in known}
    return [values is None or possible[values] or (count > 0 and None in true) for values, count in pages]


def _true_values(conditions: Sequence[Expr], name: str, dtype: pl.DataType, values: Sequence[Any]) -> set[Any] | None:
    """Those of some values, and of null, for which all conditions on a column are true; None if the kernel cannot evaluate them."""
    tried = [*values, None]
    if dtype.is_float() and 0.0 in tried:
        tried += [0.0, -0.0]  # the values of a page may have either
    try:
        column = _values(tried, dtype).alias(name)
        found = (
            column.to_frame()
            .select(pl.all_horizontal(list(map(lower_expr, conditions))).alias("true"))
            .get_column("true")
        )
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return None
    if len(found) != len(tried):
        return None
    return {value for value, true in zip(tried, found, strict=True) if true}


def _values(numbers: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Bounds as values of a column's dtype."""
    if dtype.is_temporal():
        return pl.Series(numbers, dtype=pl.Int64).cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    if isinstance(dtype, pl.Categorical):
        return pl.Series(numbers, dtype=pl.String).cast(dtype)
    return pl.Series(numbers, dtype=dtype)


def _any_between(least: pl.Series, greatest: pl.Series, values: pl.Series) -> pl.Series:
    """For each page, whether one of some values is between its bounds."""
    if values.dtype != least.dtype:
        return pl.repeat(True, len(least), eager=True)
    ascending = values.drop_nulls().unique().sort()
    if not len(ascending):
        return pl.repeat(False, len(least), eager=True)
    places = ascending.search_sorted(least.fill_null(ascending[0]), side="left")
    following = ascending.gather(places.clip(0, len(ascending) - 1))
    return (places < len(ascending)) & (following <= greatest)
