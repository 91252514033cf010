"""Rows by labels of several levels: ``loc``, ``xs`` and ``[]`` of a series, compared with pandas in values and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ROWS = 30
S = pandas.IndexSlice


def tables() -> dict[str, pandas.DataFrame]:
    """Tables with two or three levels, sorted or not, with unique or repeated labels."""
    rng = np.random.default_rng(0)
    columns = pandas.DataFrame(
        {
            "f": np.where(rng.random(ROWS) < 0.3, np.nan, rng.normal(size=ROWS)),
            "i": rng.integers(0, 5, ROWS),
            "s": rng.choice(["a", "b", None], ROWS),
        }
    )
    repeated = columns.assign(k=rng.choice(list("abc"), ROWS), j=rng.integers(0, 3, ROWS)).set_index(["k", "j"])
    unique = columns.assign(k=list("ab") * (ROWS // 2), j=range(ROWS)).set_index(["k", "j"])
    return {
        "unsorted": repeated,
        "sorted": repeated.sort_index(),
        "three levels": repeated.sort_index().assign(c=rng.choice(list("uv"), ROWS)).set_index("c", append=True),
        "unique": unique,
        "unique sorted": unique.sort_index(),
    }


TABLES = tables()
FRAME_KEYS = [
    "'a'",
    "('a', 1)",
    "('a', 1), 'x'",
    "'a', 'f'",
    "('a', 1), 'f'",
    "('a', 1), ['f', 'i']",
    "['a', 'b']",
    "[('a', 1), ('b', 2)]",
    "S[:, 1], :",
    "S['a', :], ['f']",
    "S['a':'b'], :",
    "slice('a', 'b')",
    "slice(('a', 1), ('b', 2))",
    "(slice(None), [1, 2]), 'f'",
    "('a', 99)",
    "'zz'",
    "('a', 'zz')",
    "('a', 4)",
    "('a', 4), 'f'",
    "('a', 4), ['i', 'f']",
    "('a', 1, 'u')",
    "(['a'], [1])",
    "(['a'], [1]), :",
    "f['f'] > 0",
    "f['f'] > 0, 'i'",
    "('a',)",
    "('a',), 'f'",
    "('a', slice(None))",
    "('a', 1), slice('f', 's')",
]
SERIES_KEYS = [
    "'a'",
    "('a', 1)",
    "['a', 'b']",
    "('a', slice(None))",
    "S[:, 1]",
    "('a', 4)",
    "'zz'",
    "f['f'] > 0",
    "[('a', 1), ('b', 2)]",
]
CROSS_SECTIONS = [
    "'a'",
    "'a', level='k'",
    "1, level='j'",
    "1, level=1, drop_level=False",
    "('a', 1)",
    "('a', 1), level=['k', 'j']",
    "'a', drop_level=False",
    "'zz'",
    "99, level='j'",
    "('a', 4)",
    "('a', 4), drop_level=False",
    "'u', level=2",
    "['a']",
    "1, level='none'",
]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("key", FRAME_KEYS)
def test_rows_of_frames(table: Any, key: str) -> None:
    check(lambda pd, df: eval(f"f.loc[{key}]", {"f": df, "S": S}), table)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("key", SERIES_KEYS)
def test_rows_of_series(table: Any, key: str) -> None:
    check(lambda pd, df: eval(f"f['f'].loc[{key}]", {"f": df, "S": S}), table)
    check(lambda pd, df: eval(f"f['f'][{key}]", {"f": df, "S": S}), table, native=None)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("arguments", CROSS_SECTIONS)
def test_cross_sections(table: Any, arguments: str) -> None:
    check(lambda pd, df: eval(f"f.xs({arguments})", {"f": df}), table)
    check(lambda pd, df: eval(f"f['i'].xs({arguments})", {"f": df}), table)


@pytest.mark.parametrize("name", ["sorted", "three levels"])
def test_plans_go_on_from_chosen_rows(name: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        chosen = df[df["f"] > 0].loc["a"]
        seen = chosen["i"].sum()
        section = df.xs(1, level="j")
        df["i"] = 0  # the results do not follow
        again = section.reset_index().groupby("s")["i"].sum()
        return chosen, seen, section, again, chosen.sort_index().index

    check(program, TABLES[name])


def test_repeated_selections_materialise_the_frame() -> None:
    def program(pd: Any, df: Any) -> Any:
        some = df[df["i"] > 0]
        return [some.loc[(name, 1), "i"].sum() for name in "abcabc"]

    check(program, TABLES["sorted"], native=False)
