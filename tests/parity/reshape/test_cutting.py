"""``cut`` and ``qcut``: edges, categories and codes, of every dtype that has an order, in programs that go on with the bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources, same

import craton
import craton.pandas

ROWS = 90


def data() -> pandas.DataFrame:
    rng = np.random.default_rng(8)
    frame = pandas.DataFrame(
        {
            "x": rng.normal(size=ROWS),
            "i": rng.integers(-5, 9, ROWS),
            "u": rng.integers(0, 9, ROWS).astype("uint8"),
            "f": rng.normal(size=ROWS).astype("float32"),
            "b": rng.random(ROWS) < 0.5,
            "n": pandas.array(rng.integers(0, 9, ROWS), dtype="Int64"),
            "a": pandas.array(rng.integers(0, 9, ROWS), dtype="int64[pyarrow]"),
            "t": pandas.date_range("2024-01-01", periods=ROWS, freq="7h"),
            "z": pandas.date_range("2024-03-30", periods=ROWS, freq="3h", tz="Europe/Berlin"),
            "d": pandas.to_timedelta(rng.integers(0, 900, ROWS), unit="m"),
        }
    )
    for label in "xfnatzd":
        frame.loc[rng.random(ROWS) < 0.1, label] = None
    return frame


CUTS = """
pd.cut(df.x, 4)
pd.cut(df.x, 4, right=False)
pd.cut(df.x, 3, labels=False)
pd.cut(df.x, [-1, 0, 0.5], include_lowest=True)
pd.cut(df.x, [-1, 0, 0, 1], duplicates="drop", labels=["low", "high"])
pd.cut(df.x, [-np.inf, 0, np.inf], labels=["low", "high"])
pd.cut(df.x, [0, 1, 2], labels=["a", "a"], ordered=False)
pd.cut(df.x, np.array([-0.5, 0.5]))
pd.cut(df.x, pandas.IntervalIndex.from_tuples([(-1, 0), (0.5, 2)]))
pd.cut(df.x, 5, precision=1)
pd.cut(df.x, 5, retbins=True)
pd.cut(df.i, [-5, 0, 5], include_lowest=True)
pd.cut(df.i, [-5, 0, 5], retbins=True)
pd.cut(df.i, 3, right=False, labels=[3, 1, 2])
pd.cut(df.u, 3)
pd.cut(df.f, 3)
pd.cut(df.b, 2)
pd.cut(df.b, [-1, 0, 1])
pd.cut(df.n, [0, 3, 6])
pd.cut(df.a, 3, labels=False)
pd.cut(df.t, 3)
pd.cut(df.t, pandas.to_datetime(["2024-01-01", "2024-01-03", "2024-01-09"]).as_unit("us"))
pd.cut(df.z, 4, labels=False)
pd.cut(df.d, 4)
pd.cut(df.d, pandas.to_timedelta([0, 3, 9], unit="h"))
pd.cut(df.x[df.i > 2], 4)
pd.cut(df.x, df.x.quantile([0, 0.5, 1]))
pd.cut(df.x.head(1), 2)
pd.cut(df.i * 0, 2)
pd.qcut(df.x, 4)
pd.qcut(df.x, 7, labels=False)
pd.qcut(df.x, [0, 0.1, 0.9, 1], labels=["low", "middle", "high"])
pd.qcut(df.x, [0.2, 0.8])
pd.qcut(df.i, 10, duplicates="drop")
pd.qcut(df.i, 3, retbins=True)
pd.qcut(df.f, 3)
pd.qcut(df.n, 4, duplicates="drop")
pd.qcut(df.a, 2, retbins=True)
pd.qcut(df.b, 2, duplicates="drop")
pd.qcut(df.t, 3)
pd.qcut(df.z, 3, labels=False)
pd.qcut(df.d, 4)
pd.qcut(df.x[df.i > 2], 3)
""".strip().splitlines()


@pytest.mark.parametrize("call", CUTS)
def test_native(call, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        return eval(call, {"pd": pd, "df": df, "np": np, "pandas": pandas})

    check_sources(program, data(), tmp_path, native=True)


@pytest.mark.parametrize(
    "call",
    [
        "pd.cut(df.x, 0)",
        "pd.cut(df.x, [3, 1])",
        "pd.cut(df.x, [1, 1, 2])",
        "pd.cut(df.x, 3, labels=['a'])",
        "pd.cut(df.x, 3, labels=['a', 'a', 'b'])",
        "pd.cut(df.x, 3, labels='abc')",
        "pd.cut(df.x.head(0), 3)",
        "pd.cut(df.x / 0, 3)",
        "pd.cut(df.x * np.nan, 3)",
        "pd.cut(df.x, ['a', 'b'])",
        "pd.cut(df.t, [1, 2])",
        "pd.cut(df.t, pandas.to_datetime(['2024', '2025']).tz_localize('UTC'))",
        "pd.cut(df.z, pandas.to_datetime(['2024', '2025']))",
        "pd.cut(df.x, pandas.IntervalIndex.from_tuples([(0, 2), (1, 3)]))",
        "pd.cut(df.i.astype(str), 3)",
        "pd.cut(df[['x', 'f']], 3)",
        "pd.qcut(df.i * 0, 4)",
        "pd.qcut(df.x, 0)",
        "pd.qcut(df.x, 1.5)",
        "pd.qcut(df.x, [0, 2])",
        "pd.qcut(df.x, 4, labels=['a'])",
        "pd.qcut(df.x.head(0), 4)",
        "pd.cut(df.x, [0, np.nan])",
        "pd.cut(df.x, [0.0])",
        "pd.cut(df.x, [])",
        "pd.cut(df.x.tolist(), 3)",
    ],
)
def test_refused_and_errors(call, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        return eval(call, {"pd": pd, "df": df, "np": np, "pandas": pandas})

    check_sources(program, data(), tmp_path)


def test_edges_between_units():
    """pandas raises an error for timestamps that the unit of the edges cannot hold."""
    fine = pandas.Series(pandas.to_datetime([1, 10**9 + 1, 5 * 10**9], unit="ns").as_unit("ns"))
    edges = pandas.to_datetime(["1970-01-01 00:00:00", "1970-01-01 00:00:02"]).as_unit("s")
    check(lambda pd, s: pd.cut(s, edges), fine, native=None)
    check(lambda pd, s: pd.cut(s.dt.floor("s"), edges), fine, native=None)


def test_zeros_of_both_signs():
    check(lambda pd, s: pd.cut(s, 2), pandas.Series([0.0, -0.0, -1.0]), native=None)


def test_programs():
    def program(pd: Any, df: Any) -> Any:
        edges = [-5, 0, 5, 9]
        names = ["low", "middle", "high"]
        df = df.assign(w=pd.cut(df.i, edges, labels=names, include_lowest=True))
        edges[1] = 7
        names.reverse()
        first = df.head(3)
        means = df[df.b].groupby("w", observed=True)["x"].mean()
        counts = df["w"].value_counts().sort_index()
        codes = pd.cut(df.x, 4, labels=False)
        numbers = codes[codes > 0].sum()
        odd = df[df["w"] == "low"]["i"].sum()
        return first, means, counts, numbers, odd, df["w"].isna().sum()

    frame = data()
    frame["i"] = frame["i"].clip(-5, 9)
    check(program, frame, native=None)  # counts of categories are counted as a fallback


def test_edges_that_are_returned_can_be_written_to():
    def program(pd: Any, df: Any) -> Any:
        given = np.array([-1.0, 0.0, 1.0])
        bins, edges = pd.cut(df.x, given, retbins=True)
        edges[:] = 5
        given[:] = 7
        other, more = pd.cut(df.x, 3, retbins=True)
        more[:] = 0
        return bins, other

    check(program, data(), native=True)


def test_in_memory_and_in_tiles():
    frame = data()
    expected = pandas.qcut(frame.x, 4), pandas.cut(frame.t, 3)
    with craton.option_context(small_rows=1):
        df = craton.pandas.DataFrame(frame)
        same((craton.pandas.qcut(df.x, 4), craton.pandas.cut(df.t, 3)), expected)
