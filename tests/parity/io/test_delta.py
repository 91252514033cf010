"""craton.read_delta against ``DeltaTable.to_pandas``: versions, partitions, dtypes, writes beside a lazy frame."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas
import pytest
from support import same

import craton
from craton import fallbacks

deltalake = pytest.importorskip("deltalake")

ROWS = pandas.DataFrame(
    {
        "i": [3, 1, 2] * 40,
        "f": [1.5, None, -2.0] * 40,
        "s": ["x", None, "yy"] * 40,
        "k": [1, 2, 10] * 40,
        "b": [True, False, True] * 40,
        "flag": pandas.array([True, None, False] * 40, dtype="boolean"),
        "n": pandas.array([1, None, 3] * 40, dtype="Int64"),
        "small": np.arange(120, dtype="int8"),
        "t": pandas.date_range("2020-01-01", periods=120, freq="D").as_unit("us"),
        "day": [datetime.date(2020, 1, 1), None, datetime.date(1999, 12, 31)] * 40,
        "money": [decimal.Decimal("1.50"), None, decimal.Decimal("-3.25")] * 40,
    }
)


@pytest.fixture(params=[[], ["k"], ["k", "s"]], ids=str)
def path(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """A table of three versions: all rows, then some twice, then other rows only."""
    parts: dict[str, Any] = {"partition_by": request.param} if request.param else {}
    deltalake.write_deltalake(str(tmp_path / "t"), ROWS, **parts)
    deltalake.write_deltalake(str(tmp_path / "t"), ROWS.iloc[:50], mode="append")
    deltalake.write_deltalake(str(tmp_path / "t"), ROWS.iloc[60:], mode="overwrite")
    return str(tmp_path / "t")


STEPS = {
    "all": lambda f: (f, f.dtypes, len(f), list(f.columns)),
    "sum": lambda f: f["i"].sum(),
    "filter": lambda f: (g := f[f["i"] > 1], len(g), g["f"].sum(), g.head(4)),
    "groups": lambda f: f.groupby("s")["f"].agg(["sum", "count"]),
    "keys": lambda f: f[f["k"] == 10].groupby("k")["i"].mean(),
    "missing": lambda f: (f.isna().sum(), f["n"].dtype, f["n"].sum()),
    "dates": lambda f: f[f["t"] > "2020-02-01"]["i"].count(),
    "changed": lambda f: f.assign(z=f["i"] * 2)["z"].max(),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_programs(path: str, step: Any) -> None:
    for version in (None, 0, 1, 2):
        expected = step(deltalake.DeltaTable(path, version=version).to_pandas())
        with craton.option_context(small_rows=0):
            same(step(craton.read_delta(path, version=version)), expected)


def test_it_is_planned(path: str) -> None:
    with craton.option_context(small_rows=0):
        fallbacks.reset()
        frame = craton.read_delta(path, version=0)
        assert "_view" in frame.__dict__
        assert frame[frame["i"] > 1]["small"].count() == 80
        assert fallbacks.explain_fallbacks().empty


def test_writes_do_not_change_a_lazy_frame(path: str) -> None:
    with craton.option_context(small_rows=0):
        frame = craton.read_delta(path)
        deltalake.write_deltalake(path, ROWS.iloc[:1], mode="overwrite")
        assert len(frame) == 60
        assert frame["i"].sum() == ROWS.iloc[60:]["i"].sum()
        assert craton.read_delta(path)["i"].sum() == 3


def test_errors(tmp_path: Any, path: str) -> None:
    for arguments in ((tmp_path / "nope", None), (path, 99)):
        with pytest.raises(Exception) as theirs:
            deltalake.DeltaTable(str(arguments[0]), version=arguments[1])
        with pytest.raises(type(theirs.value)) as ours:
            craton.read_delta(arguments[0], version=arguments[1])
        assert str(ours.value) == str(theirs.value)
