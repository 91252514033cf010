r"""Regular expressions, which pandas matches with RE2 or with Python, depending on the pattern and on all texts of the column.

The results equal pandas', for whole columns and in tiles. A tile may lack the texts that determine which engine pandas uses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pandas
import pyarrow as pa
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner

# Python caches compiled patterns, so it warns about a pattern only the first time.
pytestmark = pytest.mark.filterwarnings("ignore:Possible nested set", "ignore:This pattern is interpreted")

#: A pattern for each difference in parsing or matching between the two engines, and for each of pandas' rules for choosing one.
PATTERNS = [
    *[
        "a",
        "b+",
        "[ab]",
        ".",
        "^a",
        "^b|a",
        "a$",
        "^a$",
        "$",
        "^",
        "(a)(b)",
        "a|",
        "a*",
        "a??",
        "(?:ab)+",
        "(a|ab)(c|bc)",
    ],
    *[
        r"\d",
        r"\D",
        r"\d+",
        r"\w",
        r"\w+",
        r"\W",
        r"\b",
        r"\B",
        r"\ba",
        r"a\b",
        r"\bfoo",
        r"\s",
        r"\S+",
        r"a\s",
        r"\d*",
        r"[\d-x]",
    ],
    *[
        "[[:alpha:]]",
        "[[:digit:]a]+",
        "[^[:space:]]",
        r"[[:alpha:]]\d",
        "[[a]",
        "[a[:]",
        "a{,2}",
        "a{,2}b",
        "a{1,}",
        "{,2}",
        "a{0,2}",
    ],
    *[
        "(?i)A",
        "(?m)^a",
        "(?m)a$",
        "(?s)a.b",
        r"(?i)\w",
        "(?m)$",
        "a.b",
        r"a\Z",
        r"\Aa",
        r"\.",
        r"\x61",
        r"\u0061",
        r"a(?=b)",
        r"(a)\1",
    ],
    *[
        "[^a]",
        "[^a]+$",
        "(a*)*",
        "(a|b*)*",
        "é",
        "[é-ü]",
        r"\wé",
        "a*?$",
        r"\d$",
        "foo|foobar",
        r"(?:\d|x)+$",
        "x{2,3}?",
        r"^\w",
        r"\w$",
    ],
]
TEXTS = {
    "ascii": ["foo123bar", "bar", "aab", "", "a b\tc", "foofoo", "aXa:l", "ab{,2}", None, "aaa", "x-1", "abc"],
    "newline": ["foo123bar", "bar", "a", "aab\n", "a\nb", "\n", "", None, "foo", "1", "x1\n", "a"],
    "other": ["foo123bar", "bar", "é", "aé", "ñandú", "", "٣", "foofoo", None, "a b", "x1", "aab"],
    "last": ["bar", "foo foo", "aab", "abab", "1a", "", "a", "aab", "b1", "foobar", "x\n", "é\u2028a"],
}
DTYPES = {
    "str": "str",
    "string": "string",
    "python": "string[python]",
    "arrow": pandas.ArrowDtype(pa.string()),
    "category": "category",
}
REPLACEMENTS = ["z", "", "$1", r"\\", r"\g<0>", r"\0", r"<\1>", "a$b"]


def calls() -> Iterator[tuple[str, Callable[[Any, str], Any]]]:
    yield "contains", lambda s, p: s.str.contains(p)
    yield "contains-case", lambda s, p: s.str.contains(p, case=False)
    yield "contains-plain", lambda s, p: s.str.contains(p, regex=False)
    yield "contains-flags", lambda s, p: s.str.contains(p, flags=re.IGNORECASE)
    yield "match", lambda s, p: s.str.match(p)
    yield "fullmatch", lambda s, p: s.str.fullmatch(p)
    yield "count", lambda s, p: s.str.count(p)
    yield "extract", lambda s, p: s.str.extract(f"({p})")
    yield "split", lambda s, p: s.str.split(p, regex=True, expand=True)
    yield "compiled", lambda s, p: s.str.contains(re.compile(p))
    for n, text in itertools.product((-1, 1, 2), REPLACEMENTS):
        yield f"replace{n}-{text}", lambda s, p, n=n, text=text: s.str.replace(p, text, n=n, regex=True)  # type: ignore[misc]
        yield f"replace{n}-{text}-plain", lambda s, p, n=n, text=text: s.str.replace(p, text, n=n)  # type: ignore[misc]
    yield "replace-call", lambda s, p: s.str.replace(p, lambda m: m[0].upper(), regex=True)


CALLS = dict(calls())


def columns(texts: list[str | None], dtype: Any) -> pandas.Series:
    return pandas.Series(texts, name="t").astype(dtype)


def compare(pattern: str, texts: list[str | None], dtype: Any, call: Callable[[Any, str], Any]) -> None:
    """Compare a call on a column with pandas, for the whole column and in tiles of a few rows."""
    data = columns(texts, dtype)
    check(lambda pd, s: call(s, pattern), data, native=None)
    engine = TiledEngine(InlineRunner(), settings=Settings(tiles=5, broadcast_bytes=1, collapse_bytes=0), least_bytes=0)
    with using(engine):
        check(lambda pd, s: call(s, pattern), data, native=None)


#: Calls that cover all of pandas' matching functions. Other calls are tested with some of the patterns only.
FEW = ["contains", "match", "fullmatch", "count", "replace-1-z", r"replace-1-\g<0>", r"replace-1-\\"]
FEW += [r"replace-1-\g<0>-plain", r"replace-1-\\-plain"]


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("call", CALLS)
def test_columns_of_strings(call: str, texts: str) -> None:
    step = 3 if call in FEW else 20
    for pattern in PATTERNS[(list(CALLS).index(call) + list(TEXTS).index(texts)) % step :: step]:
        compare(pattern, TEXTS[texts], "str", CALLS[call])


@pytest.mark.parametrize("dtype", ["string", "python", "arrow", "category"])
@pytest.mark.parametrize("call", FEW)
def test_columns_of_other_dtypes(call: str, dtype: str) -> None:
    start = list(CALLS).index(call) % 4
    for pattern, texts in zip(PATTERNS[start::4], itertools.cycle(["other", "last", "newline"]), strict=False):
        compare(pattern, TEXTS[texts], DTYPES[dtype], CALLS[call])


def test_a_column_reports_the_engine() -> None:
    """If the engines match a pattern differently, pandas matches the whole column, and a fallback is counted."""
    data = columns(TEXTS["other"], "str")
    check(lambda pd, s: s.str.count(r"\b"), data, native=False)
    check(lambda pd, s: s.str.contains(r"\w+\d"), data, native=True)


def test_a_look_in_the_middle() -> None:
    """Counts in a filtered column depend on the remaining texts."""

    def program(pd: Any, s: Any) -> Any:
        few = s[s.str.len() < 4]
        before = few.str.count(r"\b").sum()
        s = s.str.replace("a", r"<\g<0>\\>", regex=True)
        return before, s.str.count("[<>]").sum(), few.str.replace("b", r"\0\0", regex=True).str.cat(sep="|"), s

    for texts in TEXTS.values():
        check(program, columns(texts, "str"), native=None)
