"""The methods of ``Series.str`` that return a value for each row: which ones the kernel computes, and which ones pandas, batch by batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.dtypes import family
from craton.pandas.core.view import Value
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal

#: The methods that pandas computes row by row.
BATCHED = [
    "capitalize",
    "casefold",
    "center",
    "contains",
    "count",
    "endswith",
    "find",
    "fullmatch",
    "get",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "len",
    "ljust",
    "lower",
    "lstrip",
    "match",
    "normalize",
    "pad",
    "removeprefix",
    "removesuffix",
    "repeat",
    "replace",
    "rfind",
    "rjust",
    "rstrip",
    "slice",
    "slice_replace",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "wrap",
    "zfill",
]
#: The classes of arguments with which methods are planned.
ARGUMENTS = (str, int, bool, float, tuple, dict, re.Pattern, type(None))

ExpressionBuilder = Callable[..., Expr]
#: The methods that the kernel computes.
EXPRESSIONS: dict[str, ExpressionBuilder] = {}


def _expression(function: ExpressionBuilder) -> ExpressionBuilder:
    EXPRESSIONS[function.__name__.strip("_")] = function
    return function


def string_literal(value: Any) -> Literal:
    """A string as a constant; anything else is refused."""
    if type(value) is not str:
        raise Unsupported(Refusal.TEXT_EXPECTED, type(value).__name__)
    return Literal(value, pl.String())


def _boolean(function: str, value: Value, pattern: Expr, **options: Any) -> Expr:
    return Call(function, (value.expr, pattern), pl.Boolean(), tuple(sorted(options.items())))


@_expression
def _contains(value: Value, pat: Any, case: bool = True, flags: int = 0, na: Any = None, regex: bool = True) -> Expr:
    from craton.pandas.values.text.regexes import is_literal, translate

    literal = string_literal(pat)
    if case is not True or flags:
        raise Unsupported(Refusal.PARAMETER, "case")
    if not regex or is_literal(pat):
        return _boolean("str_contains", value, literal, literal=True)
    _refuse_other_reading(value, pat)
    return _boolean("str_contains", value, string_literal(translate(pat)), literal=False)


def _refuse_other_reading(value: Value, pattern: str, **uses: bool) -> None:
    """Refuse a pattern that pandas may match with RE2, if RE2 may match it differently from Python; see :func:`engines_agree`."""
    from craton.pandas.values.text.regex_engines import engines_agree, uses_python

    arrow = family(value.dtype) == "arrow"
    if arrow and ("\\" in pattern or "$" in pattern):
        raise Unsupported(Refusal.PATTERN_ARROW)
    if (arrow or not uses_python(pattern)) and not engines_agree(pattern, **uses):
        raise Unsupported(Refusal.PATTERN_ENGINE)


@_expression
def _match(value: Value, pat: Any, case: Any = None, flags: Any = None, na: Any = None) -> Expr:
    from craton.pandas.values.text.regexes import translate

    if case not in (None, True) or flags:
        raise Unsupported(Refusal.PARAMETER, "case")
    string_literal(pat)
    _refuse_other_reading(value, pat)
    return _boolean("str_contains", value, string_literal(rf"\A(?:{translate(pat)})"), literal=False)


@_expression
def _startswith(value: Value, pat: Any, na: Any = None) -> Expr:
    return _boolean("str_starts_with", value, string_literal(pat))


@_expression
def _endswith(value: Value, pat: Any, na: Any = None) -> Expr:
    return _boolean("str_ends_with", value, string_literal(pat))


@_expression
def _slice(value: Value, start: Any = None, stop: Any = None, step: Any = None) -> Expr:
    if step not in (None, 1) or any(item is not None and type(item) is not int for item in (start, stop)):
        raise Unsupported(Refusal.TEXT_SLICE_STEP)
    start = 0 if start is None else start
    if stop is None:
        return _substring(value, start, None)
    if (start < 0) != (stop < 0):
        raise Unsupported(Refusal.TEXT_SLICE_ENDS)
    return _substring(value, start, max(stop - start, 0))


def _substring(value: Value, offset: int, length: int | None) -> Expr:
    return Call("str_slice", (value.expr,), pl.String(), (("length", length), ("offset", offset)))


@_expression
def _len(value: Value) -> Expr:
    return Call("str_len", (value.expr,), pl.Int64())


@_expression
def _replace(
    value: Value, pat: Any, repl: Any = None, n: int = -1, case: Any = None, flags: int = 0, regex: bool = False
) -> Expr:
    from craton.pandas.values.text.regexes import can_match_empty, is_literal, translate

    if case not in (None, True) or flags or type(n) is not int or n == 0 or pat == "":
        raise Unsupported(Refusal.PARAMETERS, "case, flags, n and pat")
    literal = not regex or is_literal(string_literal(pat).value)
    text = string_literal(repl).value
    # In Arrow strings, pandas expands a reference to a group even if the pattern is literal.
    if (regex and "\\" in text) or "\\g<" in text:
        raise Unsupported(Refusal.TEXT_REPLACEMENT)
    if not literal:
        _refuse_other_reading(value, pat, consumes=True, restarts=n > 0)
        if can_match_empty(pat) or _has_dollar(pat):
            raise Unsupported(Refusal.TEXT_REPLACEMENT)
        if n > 1:
            raise Unsupported(Refusal.TEXT_REPLACEMENTS)
    pattern = string_literal(pat) if literal else string_literal(translate(pat))
    replacement = string_literal(repl) if literal else string_literal(repl.replace("$", "$$"))
    return Call(
        "str_replace",
        (value.expr, pattern, replacement),
        pl.String(),
        (("literal", literal), ("n", -1 if n < 0 else n)),
    )


def _has_dollar(pattern: str) -> bool:
    # "$" may match before a final newline; the kernel's pattern would include that newline in the match.
    return "$" in pattern
