"""``str.extract`` with several groups, which one search of each text finds, and with ``$`` at the end of the pattern."""

from __future__ import annotations

from typing import Any

import pandas
import pytest
from support import check

PATTERNS = [
    r"^(?P<host>\S+) \[(?P<time>[^\]]+)\] (?P<status>\d{3})$",
    r"(\w+)@(\w+)(\.com)?",
    r"([^x]*)(x?)$",
    r"([^x]*?)(\d*)$",
    r"(a$|b)(\d?)",
    r"(?:(\d)|(\w))$",
    r"(\d+)$",
    r"(\w+?)$",
    r"()(\w)",
]


def data() -> pandas.DataFrame:
    texts = [
        "h1 [now] 404",
        "h1 [now] 404\n",
        "x@y.com",
        "me@home",
        "ab12\n",
        "ab12\n\n",
        "",
        None,
        "a\n",
        "b7",
        "ä1",
        "xx",
    ]
    return pandas.DataFrame({"t": pandas.Series(texts * 3, dtype="str"), "n": range(36)})


@pytest.mark.parametrize("pattern", PATTERNS)
def test_groups(pattern):
    def program(pd: Any, df: Any) -> Any:
        late = df[df["n"] > 3].reset_index(drop=True)
        found = late["t"].str.extract(pattern)
        found["n"] = late["n"]
        several = df["t"].str.extract(pattern, expand=True)
        df["t"] = "x"
        return found, several, several.count(), found[found["n"] % 2 == 0], df["t"].str.extract(pattern)

    check(program, data(), native=None)
    check(program, data().head(0), native=None)
    check(program, data().head(1), native=None)


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 50])
@pytest.mark.parametrize("by", ["?", ".", "|", " ", "ä"])
def test_columns_of_parts(by, n):
    texts = ["a?b?c", "a", "?", "", None, "??x", "1.2.3.4", "a|b c", "äxä", "a b  c", "é?ü"]

    def program(pd: Any, df: Any) -> Any:
        late = df[df["n"] > 3].reset_index(drop=True)
        parts = late["t"].str.split(by, n=n, expand=True)
        late["first"] = parts[0]
        whole = df["t"].str.split(by, n=n, expand=True)
        df["t"] = "x"
        return parts, late, whole, whole[0].nunique(), df["t"].str.split(by, n=n, expand=True)

    df = pandas.DataFrame({"t": pandas.Series(texts * 3, dtype="str"), "n": range(33)})
    check(program, df, native=None)
    check(program, df.head(0), native=None)
    check(program, df[df["t"].isna()].reset_index(drop=True), native=None)
