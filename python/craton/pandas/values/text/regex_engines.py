r"""Decides which engine pandas uses to match a pattern: RE2, through Arrow, or Python's :mod:`re`.

pandas chooses the engine by the pattern, and for some patterns also by the texts of the column. It uses Python's for ``\w``, ``\d``
and ``\b`` if any text is not ASCII, and for ``$`` if any text contains a newline. So it may choose another engine for a batch than
for the whole column, and the kernel always matches as Python does. The results are right only if both engines parse the pattern
alike, and match it alike in every text for which pandas may choose either.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any

from pandas.core.strings.accessor import StringMethods

from craton.errors import Unsupported
from craton.pandas.core.dtypes import DtypeObj, family
from craton.pandas.values.text.regexes import parse
from craton.refusals import Refusal

#: The methods for which pandas chooses an engine. The others, such as ``extract``, always use Python's.
_CHOOSING = {"contains", "match", "fullmatch", "replace", "count"}
_PYTHON_ONLY = {sre.ASSERT, sre.ASSERT_NOT, sre.GROUPREF}
_SPACES = {sre.CATEGORY_SPACE, sre.CATEGORY_NOT_SPACE}
_ASCII_IN_RE2 = {sre.CATEGORY_WORD, sre.CATEGORY_NOT_WORD, sre.CATEGORY_DIGIT, sre.CATEGORY_NOT_DIGIT}
_BOUNDARIES = {sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY}
_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT}
_UNICODE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?:[uU]|N{)")
#: RE2 parses the first as the start of a POSIX class, and the second as literal characters. Python parses the first as characters,
#: and the second as the start of a repetition.
_READ_DIFFERENTLY = ("[:", "{,")


def refuse_engine_of_data(name: str, dtype: DtypeObj, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call of a method of ``Series.str`` if pandas chooses the engine by the data, and the engines may differ.

    Raises
    ------
    Unsupported
        If batches of the column may be matched by another engine than the column as a whole.
    """
    if name not in _CHOOSING or family(dtype) == "arrow" or getattr(dtype, "storage", "pyarrow") != "pyarrow":
        return
    bound = inspect.signature(getattr(StringMethods, name)).bind(None, *args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    if not given.get("regex", True):
        return
    pattern = given["pat"]
    plain = isinstance(pattern, str) and not given.get("flags") and given.get("case") in (None, True)
    text = pattern if isinstance(pattern, str) else getattr(pattern, "pattern", "")
    if not isinstance(text, str) or not engine_depends_on_data(text):
        return
    if name == "replace" and (callable(given["repl"]) or not plain):
        return  # pandas always uses Python's engine
    escapes = name == "replace" and (not isinstance(given["repl"], str) or "\\" in given["repl"])
    first = name == "count" or (name == "replace" and given["n"] != -1)
    none = name == "replace" and given["n"] == 0  # with n=0, Python's engine replaces all matches, Arrow's none
    if (
        not plain
        or escapes
        or none
        or not engines_agree(text, name in ("count", "replace"), first, name == "fullmatch")
    ):
        raise Unsupported(Refusal.PATTERN_ENGINE)


@lru_cache(maxsize=256)
def uses_python(pattern: str) -> bool:
    """Whether pandas uses Python's engine for a pattern whatever the texts are."""
    if _UNICODE_ESCAPE.search(pattern):
        return True
    nodes = list(_nodes(pattern))
    return any(code in _PYTHON_ONLY or (code is sre.CATEGORY and arg in _SPACES) for code, arg in nodes)


@lru_cache(maxsize=256)
def engine_depends_on_data(pattern: str) -> bool:
    """Whether pandas chooses the engine for a pattern by the texts of the column."""
    if uses_python(pattern):
        return False
    return any(
        (code is sre.CATEGORY and arg in _ASCII_IN_RE2)
        or (code is sre.AT and (arg in _BOUNDARIES or arg is sre.AT_END))
        for code, arg in _nodes(pattern)
    )


@lru_cache(maxsize=256)
def engines_agree(pattern: str, consumes: bool = False, restarts: bool = False, whole: bool = False) -> bool:
    """Whether both engines match a pattern alike in every text for which pandas may choose either.

    Parameters
    ----------
    consumes
        Whether all matches in a text count, not only the first. After an empty match, the engines continue at different positions.
    restarts
        Whether Arrow searches again from the end of the last match, and treats that position as the beginning of a text.
    whole
        Whether the whole text must match. pandas then rewrites ``^`` and ``$`` for RE2.
    """
    if any(text in pattern for text in _READ_DIFFERENTLY):
        return False
    try:
        parsed = parse(pattern)
    except Unsupported:
        return False
    if parsed.state.flags & ~re.UNICODE or (consumes and parsed.getwidth()[0] == 0):
        return False
    nodes = list(_walk(parsed))
    anchors = {arg for code, arg in nodes if code is sre.AT}
    ends = {sre.AT_END, sre.AT_END_STRING}
    if sre.AT_NON_BOUNDARY in anchors:  # RE2 finds one in an empty text
        return False
    if (restarts and anchors - ends) or (whole and anchors - _BOUNDARIES):
        return False
    return all(map(_read_alike, nodes))


def _read_alike(node: tuple[Any, Any]) -> bool:
    code, arg = node
    if code is sre.SUBPATTERN:
        return not (arg[1] or arg[2])
    if code in _REPEATS:
        return arg[2].getwidth()[0] > 0 and not any(inner is sre.AT for inner, _ in _walk(arg[2]))
    return code in {
        sre.LITERAL,
        sre.NOT_LITERAL,
        sre.ANY,
        sre.IN,
        sre.NEGATE,
        sre.RANGE,
        sre.CATEGORY,
        sre.BRANCH,
        sre.AT,
    }


def _nodes(pattern: str) -> Iterator[tuple[Any, Any]]:
    """The nodes of a pattern, including nested ones; none if Python cannot parse it, so that pandas passes it to RE2."""
    try:
        yield from _walk(parse(pattern))
    except Unsupported:
        return


def _walk(nodes: Any) -> Iterator[tuple[Any, Any]]:
    for code, arg in nodes:
        yield code, arg
        if code is sre.SUBPATTERN:
            yield from _walk(arg[3])
        elif code is sre.BRANCH:
            for branch in arg[1]:
                yield from _walk(branch)
        elif code in _REPEATS or code is sre.POSSESSIVE_REPEAT:
            yield from _walk(arg[2])
        elif code in (sre.ATOMIC_GROUP, sre.IN):
            yield from _walk(arg)
