r"""Functions that make lists of texts, and that read lists; each null is a null list, and items are never null."""

from __future__ import annotations

from functools import partial

import polars as pl

from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.strategies import BOOL, INT, Spec
from craton.plan.registry import (
    LISTS,
    NUMBERS,
    TEXTS,
    Argument,
    Cost,
    Dtypes,
    NaNs,
    Nulls,
    always,
    cast_to,
    derived,
    same,
)

TEXT_LISTS = pl.List(pl.String())
#: A text without the characters at which ``str.split()`` splits in Python; ``\s`` of the kernel's patterns has fewer.
_WORD = r"[^\t-\r\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"

_TEXT, _LIST = Argument("value", TEXTS), Argument("value", LISTS)
_of_texts = partial(rowwise, nulls=Nulls.PROPAGATED, nans=NaNs.NOT_ACCEPTED, cost=Cost.TEXTS)
_of_lists = partial(rowwise, nulls=Nulls.PROPAGATED, nans=NaNs.NOT_ACCEPTED, cost=Cost.VALUES)


@_of_texts("str_split", signature=(_TEXT,), result=always(TEXT_LISTS))
def _split(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The parts between separators: ``by``, or white space if it is None.

    Options: ``pattern``, whether the separator is one; ``most``, the largest number of separators at which to split; ``last``, whether
    these are the last ones.
    """
    by, most = spec.option("by"), spec.option("most")
    if by is None:
        return args[0].str.extract_all(_WORD)
    parts = args[0].str.split(by, literal=not spec.option("pattern", False))
    if most is None:
        return parts
    one, rest = (parts.list.head, parts.list.tail) if spec.option("last", False) else (parts.list.tail, parts.list.head)
    joined = one((parts.list.len().cast(pl.Int64) - most).clip(1)).list.join(by)
    kept = rest(pl.min_horizontal(parts.list.len().cast(pl.Int64) - 1, pl.lit(most, pl.Int64)))
    ends = (joined, kept) if spec.option("last", False) else (kept, joined)
    return pl.when(parts.is_not_null()).then(pl.concat_list(*ends))


@_of_texts("str_find_all", signature=(_TEXT,), result=always(TEXT_LISTS))
def _find_all(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """All matches of a pattern."""
    return args[0].str.extract_all(spec.option("pattern", "."))


@_of_lists("list_len", signature=(_LIST,), result=cast_to(NUMBERS, INT))
def _len(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].list.len().cast(spec.dtype)


def _items(dtypes: Dtypes) -> pl.DataType:
    return dtypes[0].inner  # type: ignore[attr-defined, no-any-return]


@_of_lists("list_get", signature=(_LIST,), result=derived("that of the items", _items))
def _get(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The item at a position, which counts from the end if it is negative; null if the list is too short."""
    return args[0].list.get(spec.option("place", 0), null_on_oob=True)


@_of_lists("list_slice", signature=(_LIST,), result=same())
def _slice(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The items from ``start`` up to ``stop``, as of a slice in Python."""
    items, start, stop = args[0].list, spec.option("start") or 0, spec.option("stop")
    if start < 0:
        return items.tail(-start)
    if stop is None:
        return items.slice(start)
    if stop >= 0:
        return items.slice(start, max(stop - start, 0))
    return items.slice(start, (items.len().cast(pl.Int64) + (stop - start)).clip(0))


@_of_lists("list_contains", signature=(_LIST,), result=always(BOOL), cost=Cost.TEXTS)
def _contains(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """Whether a list has an item."""
    return args[0].list.contains(spec.option("item", 0.0))


@_of_lists("list_join", signature=(_LIST,), result=always(pl.String()))
def _join(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The texts of a list with a separator between them."""
    return args[0].list.join(spec.option("separator", ""))
