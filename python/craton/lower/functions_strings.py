"""String functions as Polars expressions; positions and lengths count code points."""

from __future__ import annotations

import polars as pl

from craton.lower.expressions import Spec, lowers


@lowers("str_contains")
def _contains(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.contains(args[1], literal=spec.option("literal", False))


@lowers("str_starts_with")
def _starts_with(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.starts_with(args[1])


@lowers("str_ends_with")
def _ends_with(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.ends_with(args[1])


@lowers("str_slice")
def _slice(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.slice(spec.option("offset", 0), spec.option("length"))


@lowers("str_len")
def _len(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.len_chars().cast(spec.dtype)


@lowers("str_extract")
def _extract(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.extract(args[1], spec.option("group", 1))


@lowers("str_lower", "str_upper")
def _case(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.to_lowercase() if spec.function == "str_lower" else args[0].str.to_uppercase()


@lowers("str_strip")
def _strip(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    side = {"both": "strip_chars", "left": "strip_chars_start", "right": "strip_chars_end"}[spec.option("side", "both")]
    return getattr(args[0].str, side)(*args[1:])


@lowers("str_replace")
def _replace(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    value, pattern, replacement = args
    if spec.option("n", -1) < 0:
        return value.str.replace_all(pattern, replacement, literal=spec.option("literal", True))
    return value.str.replace(pattern, replacement, literal=spec.option("literal", True), n=spec.option("n"))


@lowers("str_count")
def _count(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.count_matches(args[1], literal=spec.option("literal", False)).cast(spec.dtype)


@lowers("str_find")
def _find(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """Where the needle starts, in code points, or -1."""
    value, needle = args
    before = value.str.find(needle, literal=True)
    return (
        pl.when(value.is_null())
        .then(None)
        .when(before.is_null())
        .then(-1)
        .otherwise(value.str.split_exact(needle, 1).struct.field("field_0").str.len_chars().cast(pl.Int64))
        .cast(spec.dtype)
    )


@lowers("str_pad")
def _pad(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    fill = spec.option("fill", " ")
    width = spec.option("width")
    return args[0].str.pad_start(width, fill) if spec.option("side") == "left" else args[0].str.pad_end(width, fill)
