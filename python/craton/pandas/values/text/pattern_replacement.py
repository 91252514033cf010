"""``replace`` with ``regex=True``: parts of strings are replaced where Python's :mod:`re` finds a pattern."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.dtypes import family
from craton.pandas.core.view import Value
from craton.pandas.values.text.regexes import can_match_empty, is_literal, translate
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal


def replaced_by_kernel(value: Value, pairs: Sequence[tuple[str, str]]) -> Value | None:
    """A column in which the kernel replaces each pattern of a pair by the text of the pair.

    The patterns are replaced one after the other, but each only in the strings that had a match of it at first, as in pandas.

    Returns
    -------
    Value or None
        None if the column may have other objects than strings, or the kernel may find other matches than Python.
    """
    if not value.definite or family(value.dtype) != "str":
        return None
    try:
        written = [_kernel_pattern(pattern, text) for pattern, text in pairs]
    except Unsupported:
        return None
    found = value.expr
    for (literal, pattern), (_, text) in zip(written, pairs, strict=True):
        replacement = text if literal else text.replace("$", "$$")
        new: Expr = Call(
            "str_replace",
            (found, Literal(pattern, pl.String()), Literal(replacement, pl.String())),
            pl.String(),
            (("literal", literal), ("n", -1)),
        )
        if len(pairs) > 1:
            matches = (value.expr, Literal(pattern, pl.String()))
            matched = Call("str_contains", matches, pl.Boolean(), (("literal", literal),))
            new = Call("when", (matched, new, found), pl.String())
        found = new
    return Value(found, value.dtype, nulls=value.nulls)


def _kernel_pattern(pattern: str, text: str) -> tuple[bool, str]:
    """Whether a pattern is literal, and the pattern for the kernel."""
    if not pattern or "\\" in text:
        raise Unsupported(Refusal.REPLACEMENT_PATTERNS)
    if is_literal(pattern):
        return True, pattern
    translated = translate(pattern)
    if can_match_empty(pattern) or "$" in pattern:
        raise Unsupported(Refusal.REPLACEMENT_PATTERNS)
    return False, translated
