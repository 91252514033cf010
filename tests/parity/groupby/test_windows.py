"""Cumulations, shifts, differences, ranks and fills, against pandas."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check
from test_counting import MORE
from test_reductions import FRAMES

CALLS = {
    **{name: (lambda o, name=name: getattr(o, name)()) for name in ("cumsum", "cumprod", "cummin", "cummax")},
    **{f"{name} all": (lambda o, name=name: getattr(o, name)(skipna=False)) for name in ("cumsum", "cummin", "cummax")},
    "shift": lambda o: o.shift(),
    "shift -2": lambda o: o.shift(-2),
    "shift 0": lambda o: o.shift(0),
    "shift 99": lambda o: o.shift(99),
    "shift fill": lambda o: o.shift(1, fill_value=0),
    "shift text": lambda o: o.shift(1, fill_value="x"),
    "shift several": lambda o: o.shift([1, 2]),
    "diff": lambda o: o.diff(),
    "diff -1": lambda o: o.diff(-1),
    "diff 2": lambda o: o.diff(2),
    "pct_change": lambda o: o.pct_change(),
    "pct_change 2": lambda o: o.pct_change(2),
    **{f"rank {how}": (lambda o, how=how: o.rank(method=how)) for how in ("average", "min", "max", "first", "dense")},
    **{
        f"rank down {how}": (lambda o, how=how: o.rank(method=how, ascending=False))
        for how in ("average", "first", "dense")
    },
    **{f"rank share {how}": (lambda o, how=how: o.rank(method=how, pct=True)) for how in ("average", "dense", "max")},
    "rank top": lambda o: o.rank(na_option="top"),
    "rank bad": lambda o: o.rank(method="nonsense"),
    "ffill": lambda o: o.ffill(),
    "bfill": lambda o: o.bfill(),
    "ffill 1": lambda o: o.ffill(limit=1),
    "ffill area": lambda o: o.ffill(limit_area="inside"),
    "shift sum": lambda o: o.shift().count(),
}
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

GAPS = {
    "gaps": pandas.Series([np.nan, 1.0, np.nan, np.nan, 2.0, np.nan]),
    "string gaps": pandas.Series([None, "a", None, None, "b", None], name="s"),
    "int32": pandas.Series([5, -7, 9], dtype="int32"),
    "uint16": pandas.Series([5, 7, 1], dtype="uint16"),
    "many ties": pandas.Series([2.0, 1.0, 2.0, 1.0, 2.0, -0.0, 0.0]),
    "big": pandas.Series([2**60, 2**60 + 1, -(2**60)]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", {**MORE, **GAPS})
def test_series(kind, call):
    check(lambda pd, s: CALLS[call](s), {**MORE, **GAPS}[kind], native=None, rtol=1e-6 if kind == "float32" else 1e-12)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", FRAMES)
def test_frame(kind, call):
    check(lambda pd, df: CALLS[call](df), FRAMES[kind], native=None, rtol=1e-6 if kind == "floats" else 1e-12)


REFUSED = {"shift several", "shift text", "rank top", "rank bad", "ffill area"}


@pytest.mark.parametrize("call", [name for name in CALLS if name not in REFUSED])
@pytest.mark.parametrize("kind", ["int64", "float64", "labels", "ties"])
def test_series_is_planned(kind, call):
    check(lambda pd, s: CALLS[call](s), MORE[kind])


def test_windows_of_selected_rows():
    frame = pandas.DataFrame(
        {"a": [3, 1, 2, 5, 4], "b": [True, False, True, True, False], "f": [1.5, np.nan, 2.5, np.nan, 0]}
    )

    def program(pd, df):
        df["sum"] = df.a.cumsum()
        df["before"] = df.f.shift(1)
        chosen = df[df.b]
        chosen["sum"] = chosen.a.cumsum()
        chosen["rank"] = chosen.f.rank()
        return df, chosen, chosen[chosen["sum"] > 3], df[df.a.diff() > 0], df.sort_values("a").f.ffill()

    check(program, frame)


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "double[pyarrow]", "float64"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("values", [[np.inf, -np.inf, 1], [np.inf, 0, None], [0, -np.inf, 2], [1, None, 2]])
def test_infinities_that_come_to_nothing(values: list[float | None], name: str, dtype: str) -> None:
    """pandas' sums of nullable floats may be NaN without being missing, which a plan can't represent."""
    data = pandas.DataFrame({"k": [1, 1, 2], "s": pandas.array(values, dtype=dtype)})  # type: ignore[call-overload]

    def program(pd: object, df: pandas.DataFrame) -> object:
        total = getattr(df["s"], name)()
        wide = df.assign(w=total)
        df["v"] = total
        grouped = getattr(df.groupby("k")["s"], name)()
        return wide, df, total.isna().sum(), wide.groupby("k")["w"].sum(), (df["v"] + 1).isna(), grouped, grouped.sum()

    check(program, data, native=None)
