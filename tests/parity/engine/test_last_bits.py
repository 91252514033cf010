"""Results that are equal bit by bit: quotients equal NumPy's, and sums of 32-bit floats are the same in every run.

With ``craton.options.reproducible``, all aggregates of floats are the same for any number of threads, tiles and workers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import same
from test_tiles import engine

import craton
import craton.pandas as pd
from craton.engine.tiled import using

ROWS = 30_000


def rows(count: int = ROWS) -> pandas.DataFrame:
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame(
        {
            "k": rng.integers(0, 40, count),
            "own": rng.permutation(count) // 2,
            "wide": rng.normal(size=count) * 10.0 ** rng.integers(-9, 9, count),
            "holes": np.where(rng.random(count) < 0.1, np.nan, rng.random(count)),
            "single": rng.random(count).astype("float32"),
            "t": pandas.to_datetime(rng.integers(0, 10**18, count)),
            "one": 0.1,
        }
    )
    frame["nullable"] = frame["holes"].astype("Float64")
    frame["arrow"] = frame["holes"].astype("float64[pyarrow]")
    return frame


FLOATS = ["wide", "holes", "single", "nullable", "arrow", "one"]
AGGREGATES = ["sum", "mean", "var", "std", "sem", "skew", "prod"]


def results(frame: Any, names: Sequence[str] = FLOATS) -> Iterator[Any]:
    """Numbers and columns computed from sums of floats, by programs of several steps."""
    for name in names:
        column = frame[name]
        for function in (*AGGREGATES, "kurt"):
            yield getattr(column, function)()
        groups = frame.groupby("k")[name]
        yield groups.agg(AGGREGATES)
        yield frame.groupby("own")[name].agg(["sum", "mean", "std"])
        yield groups.transform("mean")
        yield groups.cumsum()
        yield column.cumsum()
        yield (column - column.mean()) / column.std()
        yield frame[column > column.mean()].groupby("k")[name].sum().sort_values().cumsum().mean()
    yield frame["t"].mean()
    yield frame.groupby("k")["t"].mean()
    yield frame[["wide", "holes"]].mean(axis=0)
    yield frame[["k", "own", *names, "t"]].describe()
    yield frame.drop(columns=[name for name in FLOATS if name not in names]).describe()


def bits(values: Iterator[Any]) -> list[bytes]:
    return [pickle.dumps(value.to_numpy() if hasattr(value, "to_numpy") else value) for value in values]


@pytest.fixture
def reproducible() -> Iterator[None]:
    with craton.option_context(small_rows=0, reproducible=True, result_memory=0):
        yield


def test_no_number_of_tiles_changes_a_bit(reproducible: None, tmp_path: Path) -> None:
    frame = rows()
    expected = bits(results(pd.DataFrame(frame)))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=7000)
    assert bits(results(pd.read_parquet(tmp_path / "rows.parquet"))) == expected
    for tiles in (1, 2, 7, 17):
        with using(engine(tiles, 1)):
            assert bits(results(pd.DataFrame(frame))) == expected, tiles
    with using(engine(3, 1)):
        assert bits(results(pd.read_parquet(tmp_path / "rows.parquet"))) == expected


def test_results_are_those_of_pandas_but_for_the_last_digits(reproducible: None) -> None:
    frame = rows()
    names = FLOATS[:-1]  # the variance of equal numbers is zero here, and tiny in pandas
    for got, expected in zip(results(pd.DataFrame(frame), names), results(frame, names), strict=True):
        single = "float32" in (str(getattr(expected, "dtype", "")), type(expected).__name__)
        if isinstance(expected, pandas.DataFrame | pandas.Series):
            same(got, expected, rtol=1e-4 if single else 1e-7)
        else:
            assert type(got) is type(expected)
            assert got is expected or got == expected or np.isclose(float(got), float(expected), 1e-4, equal_nan=True)


SCRIPT = """
import contextlib
import hashlib, sys
sys.path[:0] = sys.argv[1:]
import craton, craton.pandas as pd
from test_last_bits import bits, results, rows
craton.options.small_rows = 0
print(hashlib.sha256(b"".join(bits(results(pd.DataFrame(rows()))))).hexdigest())
"""


def test_no_number_of_threads_changes_a_bit(reproducible: None) -> None:
    expected = hashlib.sha256(b"".join(bits(results(pd.DataFrame(rows()))))).hexdigest()
    here = str(Path(__file__).parent)
    for threads in ("1", "3"):
        told = subprocess.run(
            [sys.executable, "-c", SCRIPT, here, str(Path(__file__).parents[1]), str(Path(__file__).parent)],
            env={**os.environ, "POLARS_MAX_THREADS": threads, "CRATON_REPRODUCIBLE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.split()[-1] == expected, threads


def test_workers_change_no_bit(reproducible: None) -> None:
    frame = rows(5000)
    expected = bits(results(pd.DataFrame(frame)))
    with craton.init("local", workers=2, threads=1):
        assert bits(results(pd.DataFrame(frame))) == expected


def test_exact_sums_are_those_of_the_numbers(reproducible: None) -> None:
    frame = pd.DataFrame({"k": [1, 1, 1, 2, 2] * 1000, "x": [1e16, 1.0, -1e16, 0.1, 0.1] * 1000})
    assert frame["x"].sum() == 1200.0
    assert frame.groupby("k")["x"].sum().to_dict() == {1: 1000.0, 2: 200.0}
    assert frame[frame["k"] == 2]["x"].var() == 0.0
    assert frame[frame["k"] == 3]["x"].sum() == 0.0
    assert np.isnan(frame[frame["k"] == 3]["x"].mean())


def test_the_option_is_read_when_an_aggregate_is_written_down() -> None:
    frame = pd.DataFrame({"k": [1, 1, 1] * 1000, "x": [1e16, 1.0, -1e16] * 1000})
    with craton.option_context(small_rows=0):
        with craton.option_context(reproducible=True):
            sums = frame.groupby("k")["x"].sum()
        assert sums.loc[1] == 1000.0
        assert frame.groupby("k")["x"].sum().loc[1] != 1000.0


def test_sums_of_32_bit_floats_are_the_same_in_every_run() -> None:
    values = np.arange(2_000_000, dtype="float32")
    keys = np.arange(2_000_000) % 3
    with craton.option_context(small_rows=0, result_memory=0):
        frame = pd.DataFrame({"k": keys, "x": values})
        assert len({float(frame["x"].sum()) for _ in range(5)}) == 1
        assert len({tuple(frame.groupby("k")["x"].sum()) for _ in range(5)}) == 1
        assert frame["x"].sum() == np.float32(values.astype("float64").sum())


QUOTIENTS: dict[str, Callable[[Any], Any]] = {
    "by a number": lambda f: f["x"] / 1000,
    "of 32 bits": lambda f: f["x"].astype("float32") / 7,
    "of integers": lambda f: f["n"] / 7,
    "nullable": lambda f: f["n"].astype("Int64") / 7,
    "by a constant column": lambda f: f.assign(c=1000.0).eval("x / c"),
    "by an aggregate": lambda f: f["x"] / f["x"].count(),
    "ranks": lambda f: f["x"].rank(pct=True),
    "dense ranks": lambda f: f["x"].rank(pct=True, method="dense"),
    "ranks in groups": lambda f: f.groupby("k")["x"].rank(pct=True),
    "by a total of the group": lambda f: f["x"] / f.groupby("k")["x"].transform("max"),
    "after a filter": lambda f: (f[f["n"] > 50]["x"] / 3)[lambda s: s > 1],
    "of one row": lambda f: f.head(1)["x"] / f.head(1)["n"],
    "by zero": lambda f: f["x"] / 0,
}


@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("tiles", [0, 3])
def test_quotients_are_numpys(name: str, tiles: int) -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"k": rng.integers(0, 5, 3000), "x": rng.integers(1, 100, 3000) + 0.5, "n": rng.integers(1, 99, 3000)}
    )
    expected = QUOTIENTS[name](frame)
    with craton.option_context(small_rows=0):
        if tiles:
            with using(engine(tiles, 1)):
                got = QUOTIENTS[name](pd.DataFrame(frame)).to_numpy()
        else:
            got = QUOTIENTS[name](pd.DataFrame(frame)).to_numpy()
    np.testing.assert_array_equal(got, expected.to_numpy())


@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
def test_equal_values_of_a_group_have_no_variance(tiles: int) -> None:
    for value in (0.1, 1 / 3, 7.7, 1e10 / 3, -2.2e-5):
        for count in (3, 11, 37, 100):
            frame = pd.DataFrame({"k": np.arange(count) % 2, "x": value})
            with craton.option_context(small_rows=0), using(engine(tiles, 1)):
                assert (frame.groupby("k")["x"].var().fillna(0) == 0).all()
                assert (frame.groupby("k")["x"].std().fillna(0) == 0).all()


@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
def test_variances_of_groups_with_infinities_and_nans(tiles: int) -> None:
    values = np.where(np.arange(60) % 6 == 0, -np.inf, np.arange(60) / 7.0)
    frame = pandas.DataFrame({"k": np.arange(60) % 4, "x": values, "n": pandas.array(values, "Float64")})
    frame.loc[5, "x"] = np.nan
    with np.errstate(invalid="ignore"):
        expected = frame.groupby("k")[["x", "n"]].var()
    with craton.option_context(small_rows=0), using(engine(tiles, 1)):
        same(pd.DataFrame(frame).groupby("k")[["x", "n"]].var(), expected, rtol=1e-12)


@pytest.mark.parametrize("tiles", [0, 1, 3, 7])
def test_products_that_leave_the_range_of_floats_on_the_way(tiles: int) -> None:
    values = [1e200, 1e-200] * 8 + [1e-200] * 4 + [1e200] * 5 + [0.5, 0.0, 1e300, 1e300]
    frame = pandas.DataFrame({"k": np.arange(len(values)) % 2, "x": values, "t": np.arange(len(values))[::-1]})
    frame["single"] = np.where(frame["x"] == 0, 0, np.clip(frame["x"], 1e-30, 1e30)).astype("float32")

    def results(pd: Any, frame: Any) -> list[Any]:
        return [
            frame["x"].cumprod(),
            frame.sort_values("t")["x"].cumprod(),
            frame.groupby("k")["x"].cumprod(),
            frame.head(20)["x"].prod() > 0,
            frame.groupby("k")["x"].cumprod().max(),
            frame["single"].cumprod(),
            frame.groupby("k")["single"].cumprod(),
            frame["single"].prod(),
        ]

    with np.errstate(over="ignore", invalid="ignore"):
        expected = results(pandas, frame)
    with craton.option_context(small_rows=0), using(engine(tiles, 1)) if tiles else contextlib.nullcontext():
        got = results(pd, pd.DataFrame(frame))
    for one, other in zip(got, expected, strict=True):
        same(one, other) if isinstance(other, pandas.Series) else np.testing.assert_equal(one, other)
