"""Sorts of texts by pandas' default algorithm: those that pandas keeps as Python objects are sorted by NumPy, which is not stable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner

DTYPES = {
    "python": "string[python]",
    "python with NaN": pandas.StringDtype("python", na_value=np.nan),
    "pyarrow": "string[pyarrow]",
    "str": "str",
}
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"ascending": False},
    {"na_position": "first"},
    {"ascending": False, "na_position": "first", "ignore_index": True},
    {"kind": "heapsort"},
    {"kind": "stable"},
]


def table(dtype: Any, rows: int, texts: list[str | None]) -> pandas.DataFrame:
    rng = np.random.default_rng(rows)
    chosen = [texts[i] for i in rng.integers(0, len(texts), rows)]
    return pandas.DataFrame({"w": pandas.array(chosen, dtype=dtype), "n": range(rows)})


def programs(pd: Any, df: Any) -> list[Any]:
    found: list[Any] = []
    for given in ARGUMENTS:
        ordered = df.sort_values("w", **given)
        labelled = df.set_index("w")
        found += [
            ordered,
            ordered["n"].shift().fillna(0).iloc[::3].sum(),
            ordered.head(4).reset_index(drop=True),
            df["w"].sort_values(**given),
            labelled.sort_index(**given),
            labelled["n"].sort_index(**given).cumsum().head(20),
            ordered.drop_duplicates("w")["n"],
            df[df["n"] % 3 > 0].sort_values("w", **given)["n"].reset_index(drop=True),
        ]
    return found


@pytest.mark.parametrize("tiles", [None, 3])
@pytest.mark.parametrize("texts", [["a"], ["b", "a", None, "", "é"], [None]], ids=str)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_rows_of_equal_texts_come_in_the_order_of_pandas(
    dtype: Any, texts: list[str | None], tiles: int | None
) -> None:
    for rows in (0, 1, 16, 17, 130) if tiles is None else (17, 130):
        if tiles is None:
            check(programs, table(dtype, rows, texts), native=None)
        else:
            settings = Settings(tiles=tiles, broadcast_bytes=1, collapse_bytes=0)
            with using(TiledEngine(InlineRunner(), settings=settings, least_bytes=0)):
                check(programs, table(dtype, rows, texts), native=None)
