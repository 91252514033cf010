"""Dtypes that plans cannot represent, and times beyond the year 9999, for which Python has no datetime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from pandas.arrays import NumpyExtensionArray
from support import case_id, check, same

import craton
import craton.pandas

PROGRAMS: list[Callable[[Any], Any]] = [
    lambda s: s.isna().sum(),
    lambda s: s.dropna().count(),
    lambda s: s.to_frame("a").assign(b=1)["b"].sum(),
    lambda s: (t := s.copy(), t[t.notna()].tolist()),
]


@pytest.mark.parametrize("dtype", ["complex128", "float64", "int64", "bool"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_arrays_of_other_libraries(dtype: str, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension dtype that is based on one of NumPy is not one of pandas' own with a mask."""
    monkeypatch.setattr(NumpyExtensionArray, "_typ", "extension")  # otherwise pandas takes the array out of it
    values = NumpyExtensionArray(np.array([1, 0, 1], dtype=dtype))
    if dtype in ("complex128", "float64"):
        values[0] = np.nan
    with craton.option_context(small_rows=0):
        expected, got = (program(pd.Series(values.copy())) for pd in (pandas, craton.pandas))
    same(got, expected)


@pytest.mark.parametrize(
    "program",
    [
        lambda pd, d, t: d.set_index("t")["v"].resample("D").sum(),
        lambda pd, d, t: d.set_index("t")["v"].resample("3D").agg(["sum", "max"]),
        lambda pd, d, t: d.groupby(pd.Grouper(key="t", freq="2D"))["v"].sum(),
        lambda pd, d, t: d["t"].shift(1, fill_value=t[0]),
        lambda pd, d, t: d["t"].where(d["v"] > 3, t[3]),
        lambda pd, d, t: d["t"].fillna(t[0]),
        lambda pd, d, t: (d["t"].max(), d["t"].min(), (d["t"] > t[3]).sum(), d.loc[3, "t"], d["t"].isin([t[2]]).sum()),
        lambda pd, d, t: (d.__setitem__("c", t[1]), d["c"].nunique(), d)[1:],
        lambda pd, d, t: (d.loc.__setitem__((d["v"] > 7, "t"), t[0]), d["t"].value_counts())[1],
    ],
    ids=case_id,
)
def test_times_beyond_the_year_9999(program: Any) -> None:
    times = pandas.date_range("1970-01-01", periods=10, freq="D").as_unit("s") + np.timedelta64(10**13, "s")
    check(lambda pd: program(pd, pd.DataFrame({"t": times, "v": range(10)}), times), native=None)
