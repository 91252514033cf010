r"""Translation of Python regular expressions into those of the kernel.

Python's own parser parses the pattern, and :func:`translate` writes it in the kernel's syntax. The kernel supports neither
look-around nor back-references, and defines ``\w``, ``\s`` and ``$`` differently; its greedy, leftmost matching is Python's.
A construct that is not certain to match the same text in both is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from craton import warning_filters
from craton.errors import Unsupported
from craton.refusals import Refusal

_WORD = r"\p{L}\p{N}_"
_SPACE = r"\s\x1c-\x1f"
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\p{Nd}",
    sre.CATEGORY_SPACE: _SPACE,
    sre.CATEGORY_WORD: _WORD,
}
_NEGATED = {
    sre.CATEGORY_NOT_DIGIT: r"\p{Nd}",
    sre.CATEGORY_NOT_SPACE: _SPACE,
    sre.CATEGORY_NOT_WORD: _WORD,
}
_MAX_REPEAT = 1000
_SPECIAL = set(".^$*+?{}[]\\|()")


def parse(pattern: str) -> Any:
    """A pattern as Python's parser reads it. Its warnings are left to pandas, which compiles the pattern too.

    Raises
    ------
    Unsupported
        If Python cannot compile it.
    """
    try:
        with warning_filters.ignoring():
            return parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Unsupported(Refusal.PATTERN_ERROR, f"{pattern!r}: {error}") from error


@lru_cache(maxsize=256)
def translate(pattern: str) -> str:
    """The kernel's pattern that matches what a Python pattern matches.

    Raises
    ------
    Unsupported
        If the pattern uses something that the kernel does not support or defines differently.
    """
    parsed = parse(pattern)
    if parsed.state.flags & ~re.UNICODE:
        raise Unsupported(Refusal.PATTERN_FLAGS, repr(pattern))
    return _sequence(list(parsed), last=True)


@lru_cache(maxsize=256)
def translate_groups(pattern: str) -> str:
    r"""As :func:`translate`, for patterns whose groups capture the same text in Python and in the kernel.

    Raises
    ------
    Unsupported
        If a group is repeated, so that the last repetition may leave it out; or if the pattern has ``$`` elsewhere than at its end,
        for which the kernel's pattern matches a final newline as well: a group could capture that.
    """
    translated = translate(pattern)
    parts = list(parse(pattern))
    for code, arg in _nodes(parts[:-1] if parts and parts[-1] == (sre.AT, sre.AT_END) else parts):
        if code is sre.AT and arg is sre.AT_END:
            raise Unsupported(Refusal.PATTERN, arg)
        inside = _nodes(arg[2]) if code in (sre.MAX_REPEAT, sre.MIN_REPEAT) else ()
        if any(inner is sre.SUBPATTERN and of[0] is not None for inner, of in inside):
            raise Unsupported(Refusal.PATTERN_GROUP)
    return translated


def _nodes(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """All nodes of a parsed pattern."""
    for code, arg in parsed:
        yield code, arg
        below = (
            arg[1]
            if code is sre.BRANCH
            else arg[-1:]
            if code in (sre.SUBPATTERN, sre.MAX_REPEAT, sre.MIN_REPEAT)
            else ()
        )
        for one in below:
            yield from _nodes(one)


def is_literal(pattern: str) -> bool:
    """Whether a pattern has no special characters, so that it matches only itself."""
    return bool(pattern) and not _SPECIAL & set(pattern)


def can_match_empty(pattern: str) -> bool:
    """Whether a pattern can match the empty string; after such a match, Python and the kernel continue at different positions."""
    low, _ = parse(pattern).getwidth()
    return bool(low == 0)


def group_count(pattern: str) -> int:
    """The number of capturing groups."""
    return int(parse(pattern).state.groups) - 1


def _sequence(nodes: list[tuple[Any, Any]], last: bool) -> str:
    return "".join(_node(code, arg, last and i == len(nodes) - 1) for i, (code, arg) in enumerate(nodes))


def _node(code: Any, arg: Any, last: bool) -> str:
    if code is sre.LITERAL:
        return _character(arg)
    if code is sre.NOT_LITERAL:
        return f"[^{_character(arg)}]"
    if code is sre.ANY:
        return "."
    if code is sre.IN:
        return _character_class(arg)
    if code is sre.BRANCH:
        return "(?:" + "|".join(_sequence(list(branch), last) for branch in arg[1]) + ")"
    if code is sre.SUBPATTERN:
        group, added, removed, inner = arg
        if added or removed:
            raise Unsupported(Refusal.PATTERN_FLAGS_INSIDE)
        body = _sequence(list(inner), last)
        return f"({body})" if group is not None else f"(?:{body})"
    if code in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return _repeat(arg, lazy=code is sre.MIN_REPEAT)
    if code is sre.AT:
        return _anchor(arg, last)
    raise Unsupported(Refusal.PATTERN, code)


def _repeat(arg: Any, lazy: bool) -> str:
    low, high, inner = arg
    nodes = list(inner)
    if any(code is sre.AT for code, _ in nodes):
        raise Unsupported(Refusal.PATTERN_ANCHOR)
    if inner.getwidth()[0] == 0:
        raise Unsupported(Refusal.PATTERN_EMPTY)
    if low > _MAX_REPEAT or (high is not sre.MAXREPEAT and high > _MAX_REPEAT):
        raise Unsupported(Refusal.PATTERN_REPETITIONS)
    body = f"(?:{_sequence(nodes, last=False)})"
    top = "" if high is sre.MAXREPEAT else str(high)
    return f"{body}{{{low},{top}}}" + ("?" if lazy else "")


def _anchor(arg: Any, last: bool) -> str:
    if arg in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
        return r"\A"
    if arg is sre.AT_END_STRING:
        return r"\z"
    if arg is sre.AT_END and last:
        return r"(?:\n?\z)"
    raise Unsupported(Refusal.PATTERN, arg)


def _character_class(items: Any) -> str:
    parts: list[str] = []
    negated = False
    for code, arg in items:
        if code is sre.NEGATE:
            negated = True
        elif code is sre.LITERAL:
            parts.append(_character(arg))
        elif code is sre.RANGE:
            parts.append(f"{_character(arg[0])}-{_character(arg[1])}")
        elif code is sre.CATEGORY and arg in _CATEGORIES:
            parts.append(_CATEGORIES[arg])
        elif code is sre.CATEGORY and arg in _NEGATED:
            parts.append(f"[^{_NEGATED[arg]}]")
        else:
            raise Unsupported(Refusal.PATTERN, f"{code} {arg}")
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _character(point: int) -> str:
    letter = chr(point)
    if letter.isalnum():
        return letter
    if 0xD800 <= point <= 0xDFFF:
        raise Unsupported(Refusal.PATTERN_SURROGATE)
    return f"\\x{{{point:x}}}"
