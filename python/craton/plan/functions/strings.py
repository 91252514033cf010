"""String functions; positions and lengths are counted in code points."""

from __future__ import annotations

from functools import partial

import polars as pl

from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.strategies import BOOL, INT, Spec, all_rows
from craton.plan.registry import NUMBERS, TEXTS, Argument, Cost, Kind, NaNs, Nulls, Order, always, cast_to, register

_VALUE = Argument("value", TEXTS)
_text = partial(rowwise, nulls=Nulls.PROPAGATED, nans=NaNs.NOT_ACCEPTED, cost=Cost.VALUES)
_searched = partial(rowwise, nulls=Nulls.PROPAGATED, nans=NaNs.NOT_ACCEPTED, cost=Cost.TEXTS)


@_searched("str_contains", signature=(_VALUE, Argument("pattern", TEXTS)), result=always(BOOL))
def _contains(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.contains(args[1], literal=spec.option("literal", False))


@_text("str_starts_with", signature=(_VALUE, Argument("prefix", TEXTS)), result=always(BOOL))
def _starts_with(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.starts_with(args[1])


@_text("str_ends_with", signature=(_VALUE, Argument("suffix", TEXTS)), result=always(BOOL))
def _ends_with(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.ends_with(args[1])


@_text("str_slice", signature=(_VALUE,), result=always(pl.String()))
def _slice(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.slice(spec.option("offset", 0), spec.option("length"))


@_text("str_len", signature=(_VALUE,), result=cast_to(NUMBERS, INT))
def _len(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.len_chars().cast(spec.dtype)


@_searched("str_extract", signature=(_VALUE, Argument("pattern", TEXTS, scalar=True)), result=always(pl.String()))
def _extract(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The text of a group of the first match; null without a match, or if the match leaves the group out."""
    return args[0].str.extract(args[1], spec.option("group"))


@_searched("str_partition", signature=(_VALUE, Argument("separator", TEXTS, scalar=True)), result=always(pl.String()))
def _partition(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """What is before the first separator (part 0), the separator (1), what is after it (2); without one: the text, and empty texts."""
    value, separator = args
    pieces = value.str.splitn(separator, 2).struct
    part = spec.option("part")
    if not part:
        return pieces.field("field_0")
    after = pieces.field("field_1")
    if part == 1:
        found = pl.when(after.is_null()).then(pl.lit("")).otherwise(separator)
    else:
        found = after.fill_null("")
    return pl.when(value.is_null()).then(pl.lit(None, pl.String())).otherwise(found)


@_searched(
    "str_replace",
    signature=(_VALUE, Argument("pattern", TEXTS, scalar=True), Argument("replacement", TEXTS, scalar=True)),
    result=always(pl.String()),
)
def _replace(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    value, pattern, replacement = args
    if spec.option("n", -1) < 0:
        return value.str.replace_all(pattern, replacement, literal=spec.option("literal", True))
    return value.str.replace(pattern, replacement, literal=spec.option("literal", True), n=spec.option("n"))


@register(
    "str_join",
    kind=Kind.AGGREGATE,
    signature=(_VALUE,),
    result=always(pl.String()),
    nulls=Nulls.SKIPPED,
    nans=NaNs.NOT_ACCEPTED,
    order=Order.ROWS,
    phases=None,
    one_row=None,
    tiling=all_rows,
    holds_values=True,
    cost=Cost.VALUES,
)
def _join(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """The texts of a group with a separator between them; an empty text if all are null."""
    return args[0].str.join(spec.option("separator"), ignore_nulls=True)
