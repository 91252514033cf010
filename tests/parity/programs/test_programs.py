"""Programs of several steps that end in a number, over rows in memory and from Parquet, in sizes that take different code paths.

Single calls may be correct while their combination is wrong: the order of rows below an aggregate, a constant below a sum, a
window of a window. Each program here represents a class of programs; the fuzzer (``tests/fuzz``) generates many more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas

Program = Callable[[Any, Any, Any], Any]


def rows(count: int) -> pandas.DataFrame:
    rng = np.random.default_rng(count)
    frame = pandas.DataFrame(
        {
            "t": rng.permutation(count),
            "k": rng.integers(0, 7, count),
            "x": rng.random(count) * 1000,
            "v": rng.integers(-50, 50, count),
            "s": rng.choice(["1kg", "2kg", "3", "44"], count),
        }
    )
    frame.loc[rng.random(count) < 0.1, "x"] = np.nan
    return frame


# Steps that determine the row order for the column that is then aggregated.
ORDERS: dict[str, Program] = {
    "as they are": lambda pd, f, o: f,
    "sorted": lambda pd, f, o: f.sort_values("t"),
    "sorted by two": lambda pd, f, o: f.sort_values(["k", "t"], ascending=[False, True]),
    "merged": lambda pd, f, o: f.merge(o, on="t"),
    "merged left": lambda pd, f, o: o.merge(f, on="t", how="left"),
    "one after another": lambda pd, f, o: pd.concat([f, f.sort_values("t")]),
    "filtered, sorted": lambda pd, f, o: f[f["v"] > 0].sort_values("x"),
    "sorted, filtered": lambda pd, f, o: f.sort_values("x")[lambda d: d["v"] > 0],
    "distinct": lambda pd, f, o: f.sort_values("t").drop_duplicates(["k", "v"]),
    "reversed": lambda pd, f, o: f.iloc[::-1],
    "largest": lambda pd, f, o: f.nlargest(20, "t"),
    "reset": lambda pd, f, o: f.sort_values("t").reset_index(drop=True),
}

# Columns whose values depend on other rows, on their own row, or on no row.
COLUMNS: dict[str, Program] = {
    "diff": lambda pd, d, o: d["x"].diff(),
    "shift": lambda pd, d, o: d["x"].shift(),
    "cumsum": lambda pd, d, o: d["x"].cumsum(),
    "rank": lambda pd, d, o: d["v"].rank(method="first"),
    "ffill": lambda pd, d, o: d["x"].where(d["x"] > 500).ffill(),
    "grouped cumsum": lambda pd, d, o: d.groupby("k")["x"].cumsum(),
    "grouped shift": lambda pd, d, o: d.groupby("k")["x"].shift(),
    "grouped rank": lambda pd, d, o: d.groupby("k")["x"].rank(),
    "transform": lambda pd, d, o: d.groupby("k")["x"].transform("mean"),
    "a window of a window": lambda pd, d, o: d.assign(w=d["v"].cumsum()).groupby("k")["w"].transform("sum"),
    "a grouped window of a window": lambda pd, d, o: d.assign(w=d["v"].shift()).groupby("k")["w"].cumsum(),
    "a shift of ranks": lambda pd, d, o: d.assign(w=d["x"].rank()).groupby("k")["w"].shift(),
    "by a window": lambda pd, d, o: d.assign(w=d["v"].diff() > 0).groupby("w")["x"].cumsum(),
    "constant": lambda pd, d, o: d.assign(w=2)["w"],
    "shift of a constant": lambda pd, d, o: d.assign(w=2)["w"].shift(),
    "cumsum of a constant": lambda pd, d, o: d.assign(w=2)["w"].cumsum(),
    "rank of a constant": lambda pd, d, o: d.assign(w=2)["w"].rank(),
    "grouped by a constant": lambda pd, d, o: d.assign(w=2).groupby("w")["w"].transform("sum"),
    "all there": lambda pd, d, o: d["k"].notna(),
    "duplicated": lambda pd, d, o: d["v"].duplicated(),
    "set and shifted": lambda pd, d, o: _set(d).groupby("k")["v"].shift(),
}


def _set(frame: Any) -> Any:
    frame = frame.copy()
    frame.iloc[1, 3] = 7
    return frame


ENDINGS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda c: c.sum(),
    "mean": lambda c: c.mean(),
    "many": lambda c: (c > 3).sum(),
    "differences": lambda c: c.astype("float64").diff().abs().sum(),
    "first ten": lambda c: c.head(10).sum(),
    "last": lambda c: c.iloc[-1],
    "all": lambda c: bool(c.notna().all()),
    "rows": lambda c: len(c.dropna()),
    "of a running sum": lambda c: c.astype("float64").fillna(0).cumsum().max(),
}


def same(got: Any, expected: Any) -> None:
    if isinstance(expected, float):
        np.testing.assert_allclose(got, expected, rtol=1e-9)
    else:
        assert got == expected
    assert isinstance(got, type(expected)), (type(got), type(expected))


@pytest.fixture(params=[(40, "memory"), (40, "parquet"), (5000, "memory"), (5000, "parquet")], ids=str)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any, Any, Any]:
    count, where = request.param
    frame = rows(count)
    other = pandas.DataFrame({"t": np.random.default_rng(1).permutation(count), "y": np.arange(count) * 0.5})
    if where == "memory":
        return frame, other, craton.pandas.DataFrame(frame.copy()), craton.pandas.DataFrame(other.copy())
    frame.to_parquet(tmp_path / "f.parquet")
    other.to_parquet(tmp_path / "o.parquet")
    read = craton.pandas.read_parquet
    return frame, other, read(tmp_path / "f.parquet"), read(tmp_path / "o.parquet")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_number_of_a_column_of_rows_in_an_order(order: str, column: str, data: tuple[Any, Any, Any, Any]) -> None:
    frame, other, ours, our_other = data
    expected = COLUMNS[column](pandas, ORDERS[order](pandas, frame, other), other)
    with craton.option_context(small_rows=0):
        got = COLUMNS[column](craton.pandas, ORDERS[order](craton.pandas, ours, our_other), our_other)
        for ending in ENDINGS.values():
            same(ending(got), ending(expected))


PROGRAMS: dict[str, Program] = {
    "a window as what is looked for": lambda pd, f, o: len(f[f["v"].shift().isin(pd.Series([1.0, 3.0]))]),
    "only the index of a sort": lambda pd, f, o: f.sort_values("t").index.to_numpy().sum(),
    "only the key of a sort": lambda pd, f, o: f.sort_values("t")["t"].iloc[7],
    "the index of sorted counts": lambda pd, f, o: list(f["v"].value_counts().sort_index().index),
    "a sorted window beside": lambda pd, f, o: f.assign(c=f.sort_values("t")["x"].cumsum())["c"].sum(),
    "resampled after a sort": lambda pd, f, o: float(
        f.set_index(pd.to_datetime(f["t"], unit="h"))["x"].sort_index().resample("D").sum().iloc[0]
    ),
    "merged by labels after a sort": lambda pd, f, o: pd.merge(
        f.iloc[[3, 1, 2]].sort_values("t"), o, left_index=True, right_index=True
    )["y"].sum(),
    "a filter by its own window": lambda pd, f, o: f[f["v"] > f["v"].shift()]["x"].sum(),
    "rows of the greatest total": lambda pd, f, o: len(
        (r := f.groupby("k", as_index=False)["x"].sum())[lambda d: d["x"] == r["x"].max()]
    ),
    "no text is missing": lambda pd, f, o: bool(pd.Series([], dtype="str").isna().all()),
    "a mask of two windows": lambda pd, f, o: int(((f["v"].diff() > 0) & (f["v"].shift(-1) > 0)).sum()),
    "a column of a user's called as a hidden one": lambda pd, f, o: (
        f.rename(columns={"v": "\x01v", "x": "\x00x"})["\x01v"].cumsum().sum()
    ),
    "a sort by what is always true": lambda pd, f, o: len(f["k"].notnull().sort_values()),
    "a sort by a constant": lambda pd, f, o: f.assign(w=2)[["w"]].sort_values("w").index.to_numpy().sum(),
    "a constant beside a sort": lambda pd, f, o: int(f.sort_values("t").assign(w=2)["w"].sum()),
    "a look in the middle": lambda pd, f, o: (
        (s := f.sort_values("t").assign(w=1)),
        len(s),
        s["w"].cumsum().sum(),
        s.groupby("k")["w"].sum().max(),
    )[1:],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: str, data: tuple[Any, Any, Any, Any]) -> None:
    frame, other, ours, our_other = data
    expected = PROGRAMS[program](pandas, frame, other)
    with craton.option_context(small_rows=0):
        same(PROGRAMS[program](craton.pandas, ours, our_other), expected)


LARGE = pandas.DataFrame(
    {"k": [1, 1, 1, None, 2, 1], "v": [2**53 + 1, 1, 1, 5, 2**62, 3], "u": [2**40, 2**30, 7, 1, 1, 9]}
)


@pytest.mark.parametrize("keys", ["all", "some missing"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummin", "cummax"])
@pytest.mark.parametrize("column", ["v", "u"])
def test_large_integers_beside_missing_keys(name: str, column: str, keys: str) -> None:
    frame = LARGE if keys != "all" else LARGE.dropna()
    expected = getattr(frame.groupby("k")[column], name)()
    with craton.option_context(small_rows=0):
        got = getattr(craton.pandas.DataFrame(frame).groupby("k")[column], name)()
        pandas.testing.assert_series_equal(pandas.Series(got), expected)


EMPTY: dict[str, Program] = {
    "a shift of no rows": lambda pd, f, o: str(f[f["v"] > 99][["v", "k"]].shift().dtypes.to_dict()),
    "a shift of no rows, as a column": lambda pd, f, o: str(f[f["v"] > 99]["v"].shift().dtype),
    "the largest of none": lambda pd, f, o: str(f[f["v"] > 99].nlargest(3, "v")[["v", "t"]].shift().dtypes.to_dict()),
    "statistics of small integers, one after another": lambda pd, f, o: float(
        f.assign(v=f["v"].astype("int8")).groupby("k")["v"].describe().melt()["value"].sum()
    ),
}


@pytest.mark.parametrize("program", EMPTY)
def test_dtypes_of_programs(program: str, data: tuple[Any, Any, Any, Any]) -> None:
    frame, other, ours, our_other = data
    with craton.option_context(small_rows=0):
        same(EMPTY[program](craton.pandas, ours, our_other), EMPTY[program](pandas, frame, other))
