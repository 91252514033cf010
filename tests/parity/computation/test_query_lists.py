"""Lists within expressions of ``query`` and ``eval``: of constants, of variables, of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check_sources

DATA = pandas.DataFrame(
    {
        "a": [1, 2, 3, 4],
        "f": [1.0, np.nan, 3, 4],
        "s": ["x", "y", None, "z"],
        "b": [4, 2, 3, 1],
        "t": pandas.to_datetime(["2020", "2021", None, "2022"]),
        "e": pandas.array([1, None, 3, 4], dtype="int64[pyarrow]"),
    }
)
VARIABLES = {
    "c": 1,
    "l": [1, 2],
    "n": np.nan,
    "nl": [np.nan, 1.0],
    "s": "x",
    "sl": ["x", None],
    "t": pandas.Timestamp("2020"),
    "g": np.int64(3),
}
TEXTS = """
a in [@c]
a not in [@c]
a in (@c,)
a in [b]
a in [@c, 2]
a not in [@c, 2]
a in [b, 2]
a not in [b, 2]
a in [@g, 2]
f in [@n, 1]
f not in [@n, 1]
f in @nl
f not in @nl
s in [@s]
s in [@s, 'y']
s not in [@s, 'y']
s in @sl
s in ['x']
s == ['x', 'y']
a in @l
a in [@l, 2]
a in [@c, 2] and f > 1
not a in [@c, 2]
1 < a in [@c, 2]
t in [@t, '2021']
a in [@c, 'x']
a in [-1, @c]
a in [@c.real, 2]
@c in [a, 2]
a == [@c, 2]
a != (@c, 2)
a in []
e in [@c, 3]
e not in [@c, 3]
a.isin([@c])
a in [1, 2] or b in [@c, 4]
""".strip().splitlines()


@pytest.mark.parametrize("text", TEXTS)
def test_a_list_in_an_expression(text, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        return df.query(text, local_dict=VARIABLES), df[df.b > 1].query(text, local_dict=VARIABLES).a.sum()

    check_sources(program, DATA, tmp_path)
    check_sources(lambda pd, df: df.eval(text, local_dict=VARIABLES), DATA, tmp_path)
