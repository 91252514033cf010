"""Every string method with both values of its options, over texts of every origin: results of each other, objects, and categories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import craton
import craton.pandas as cpd
from tests.fuzz.compare import difference

TEXTS = ["a b", "b,c d", None, "", "äb 1", "a b", "  x ", "A-b-c", "7"]

SOURCES: dict[str, Callable[[Any], Any]] = {
    "str": lambda s: s + "",
    "objects": lambda s: (s + "").astype(object),
    "objects of a literal": lambda s: s.astype(object),
    "parts": lambda s: (s + "-z").str.split("-").str[0],
    "nullable": lambda s: s.astype("string") + "",
    "categories": lambda s: (s + "").astype("category"),
    "categories of objects": lambda s: (s + "").astype(object).astype("category"),
    "mapped": lambda s: (s + "").map(lambda text: text, na_action="ignore"),
}
METHODS = [
    *[f"{name}({sep!r}, expand={expand})" for name in ("partition", "rpartition") for sep in (" ", "b") for expand in (True, False)],
    *[
        f"{name}({sep}, n={n}, expand={expand})"
        for name in ("split", "rsplit") for sep in ("None", "'-'") for n in (-1, 1) for expand in (True, False)
    ],
    *[f"extract('([a-z])(.)', expand={expand})" for expand in (True, False)],
    *[f"extract('(?P<first>[a-z])', expand={expand})" for expand in (True, False)],
    *["extractall('([a-z])')", "findall('[a-z]')", "get_dummies('-')", "get_dummies(' ')", "cat(sep='|', na_rep='-')"],
    *["contains('b', na=False)", "contains('b')", "contains('B', case=False)", "match('a')", "fullmatch('a b')", "count('b')"],
    *["startswith('a')", "endswith(('b', '1'), na=True)", "find('b')", "rfind('b')", "len()", "get(0)", "get(-9)"],
    *["slice(1, 3)", "slice_replace(0, 1, 'Q')", "replace('b', 'X')", "replace('[a-b]', 'X', regex=True)", "repeat(2)"],
    "pad(6, 'both', '*')",
    *["center(5)", "ljust(5)", "rjust(5)", "zfill(4)", "strip()", "lstrip(' a')", "rstrip()", "removeprefix('a')", "removesuffix('b')"],
    *["upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "isalpha()", "isnumeric()", "isupper()", "isspace()"],
    *["normalize('NFD')", "encode('utf-8')", "wrap(3)", "translate({97: 'Z'})", "join('_')", "ljust(3, '.')"],
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", METHODS)
def test_methods(source: str, method: str) -> None:
    def run(module: Any) -> Any:
        try:
            found = eval(f"texts.str.{method}", {"texts": SOURCES[source](module.Series(TEXTS, name="t"))})
        except Exception as error:
            return type(error)
        if isinstance(found, (pd.Series, pd.DataFrame)):
            return [
                found,
                found.iloc[::-1],
                found.iloc[1:5],
                list(found.iloc[:3].itertuples() if found.ndim == 2 else found.iloc[:3]),
            ]
        return found

    with craton.option_context(small_rows=0):
        assert (found := difference(run(pd), run(cpd))) is None, found
