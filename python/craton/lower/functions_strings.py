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


@lowers("str_replace")
def _replace(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    value, pattern, replacement = args
    if spec.option("n", -1) < 0:
        return value.str.replace_all(pattern, replacement, literal=spec.option("literal", True))
    return value.str.replace(pattern, replacement, literal=spec.option("literal", True), n=spec.option("n"))
