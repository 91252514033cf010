"""Methods of ``Series.str`` that return lists of strings: ``split``, ``rsplit`` and ``findall``."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl

from craton.engine import collect_rows, may_keep
from craton.errors import Unsupported
from craton.pandas.core.align import attached
from craton.pandas.core.data_checks import any_missing
from craton.pandas.core.dtypes import family
from craton.pandas.core.execute import scalar
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.values.lists.columns import TEXT_LISTS, Step, column_of_lists
from craton.pandas.values.text.regexes import can_match_empty, group_count, is_literal, translate
from craton.plan import build
from craton.plan.expr import Call, Expr, Options, options
from craton.plan.operators import AggregateCall
from craton.refusals import Refusal

__all__ = ["all_matches", "split_columns", "split_lists"]


def _strings(held: View) -> Value:
    """The column, if it has strings whose missing values are NaN."""
    value = held.values[0]
    if isinstance(value.expr, ObjectColumn) and value.expr.nan:
        return value
    if not value.definite or family(value.dtype) != "str":
        raise Unsupported(Refusal.OPERATION, f"str.split of {value.dtype}")
    return value


def split_lists(held: View, name: str, pat: Any, n: Any, kwargs: dict[str, Any]) -> Value:
    """The lists of ``split`` or ``rsplit``.

    Raises
    ------
    Unsupported
        If the kernel may split otherwise than Python.
    """
    _strings(held)
    found = _arguments(name, pat, n, kwargs)
    return column_of_lists(held, Step("str_split", found, name, (), {"pat": pat, "n": n, **kwargs}))


def split_columns(held: View, name: str, pat: Any, n: Any, kwargs: dict[str, Any]) -> View:
    """The frame of ``split`` or ``rsplit`` with ``expand=True``. A query finds the number of its columns.

    Raises
    ------
    Unsupported
        If the kernel may split otherwise than Python, or if all strings are missing.
    """
    (value,) = held.values
    if not value.definite or family(value.dtype) != "str" or isinstance(value.expr, ObjectColumn):
        raise Unsupported(Refusal.OPERATION, f"str.split of {value.dtype}")
    lists: Expr = Call("str_split", (value.expr,), TEXT_LISTS, _arguments(name, pat, n, kwargs))
    kept = may_keep(held.base)
    if kept:
        (rows,) = collect_rows([build.project(held.base, (("lists", lists),))], ordered=True)
        found = rows.get_column("lists")
        width: Any = found.list.len().max()
    else:
        width = scalar(held, AggregateCall("max", (Call("list_len", (lists,), pl.Int64()),), pl.Int64()))
    if width is None:
        raise Unsupported(Refusal.TEXT_SPLIT_EMPTY)
    if not width and any_missing(held, value):
        width = 1  # pandas returns one column, in which a missing string is missing
    if kept:
        parts = [pl.col("lists").list.get(i, null_on_oob=True).alias(str(i)) for i in range(width)]
        held, exprs = attached(held, rows.select(parts).get_columns())
    else:
        exprs = [Call("list_get", (lists,), pl.String(), options(place=i)) for i in range(width)]
    return held.with_values([Value(expr, value.dtype) for expr in exprs], pd.RangeIndex(width))


def _arguments(name: str, pat: Any, n: Any, kwargs: dict[str, Any]) -> Options:
    """The options of the plan's function for the arguments of ``split`` or ``rsplit``."""
    regex = kwargs.get("regex")
    if kwargs.keys() - ({"regex"} if name == "split" else set()):
        raise Unsupported(Refusal.TEXT_SPLIT)
    if (
        (pat is not None and type(pat) is not str)
        or not (n is None or type(n) is int)
        or regex not in (None, True, False)
    ):
        raise Unsupported(Refusal.TEXT_SPLIT)
    most = None if n is None or n <= 0 else n
    return _split_right(pat, most) if name == "rsplit" else _split_left(pat, n, most, regex)


def _split_right(pat: str | None, most: int | None) -> Options:
    # From the right, separators that overlap themselves are found at other places.
    if (pat is not None and len(pat) != 1) or (pat is None and most is not None):
        raise Unsupported(Refusal.TEXT_SPLIT)
    return options(by=pat, most=most, last=True)


def _split_left(pat: str | None, n: int | None, most: int | None, regex: bool | None) -> Options:
    if pat is None:
        if most is not None or regex:
            raise Unsupported(Refusal.TEXT_SPLIT)
        return options(by=None)
    if not pat:
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    if regex is False or (regex is None and len(pat) == 1):
        return options(by=pat, most=most)
    if n is not None and n < -1:
        raise Unsupported(Refusal.TEXT_SPLIT)  # Python's patterns then split nowhere
    if is_literal(pat):
        return options(by=pat, most=most)
    _refuse_unclear_ends(pat)
    if most is not None:
        raise Unsupported(Refusal.TEXT_SPLIT)
    return options(by=translate(pat), pattern=True)


def _refuse_unclear_ends(pat: str) -> None:
    """Refuse patterns that may match an empty string, have groups, or end before a final newline: their matches may differ."""
    if can_match_empty(pat) or group_count(pat) or "$" in pat:
        raise Unsupported(Refusal.PATTERN, "groups, or with matches that may be empty or end before a final newline")


def all_matches(held: View, pat: Any, flags: Any) -> Value:
    """The lists of ``findall``.

    Raises
    ------
    Unsupported
        If the kernel may find other matches than Python.
    """
    _strings(held)
    if type(pat) is not str or type(flags) is not int or flags:
        raise Unsupported(Refusal.PARAMETERS, "pat and flags")
    pattern = translate(pat)
    _refuse_unclear_ends(pat)
    return column_of_lists(held, Step("str_find_all", options(pattern=pattern), "findall", (pat,), {}))
