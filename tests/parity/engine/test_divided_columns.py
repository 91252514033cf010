"""Columns of files with few row groups are decoded beside one another; results are those of one scan."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pandas.testing import assert_frame_equal

import craton.pandas as cpd
from craton.lower.scans import scan_files
from craton.lower.single_node import lower
from craton.plan.expr import Call, Expr, Literal
from craton.plan.operators import Scan, Slice
from craton.plan.sources import FileSource

pytestmark = pytest.mark.skipif(pl.thread_pool_size() < 2, reason="columns are divided among threads")

STEPS: list[Callable[[Any], Any]] = [
    lambda f: f[f["a"] > 3],
    lambda f: f[(f["a"] > 3) & (f["b"] < 20)],
    lambda f: f[f["a"] > 48],
    lambda f: f[f["x"].isna()],
    lambda f: f[f["s"] == "x3"],
    lambda f: f[f["a"].shift(1) > 10],
    lambda f: f.dropna(),
    lambda f: f.drop_duplicates(["a"]),
    lambda f: f.iloc[5:9],
    lambda f: f.head(4),
    lambda f: f.tail(3),
    lambda f: f.sort_values(["a", "b"], kind="stable"),
    lambda f: f.assign(b=f["a"] + f["b"]),
    lambda f: f.reset_index(drop=True),
]


def table(rows: int, seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": values.integers(0, 50, rows),
            "b": values.integers(0, 50, rows).astype("int32"),
            "x": np.where(values.random(rows) < 0.3, np.nan, values.random(rows)),
            "s": pd.Series([f"x{i}" for i in values.integers(0, 9, rows)], dtype="str"),
            "c": pd.Categorical([f"k{i}" for i in values.integers(0, 5, rows)]),
            "t": pd.to_datetime(values.integers(0, 10**9, rows), unit="s"),
        }
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_equal_pandas(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.choice([0, 1, 3, 50, 300, 2000, 120_000])
    written = table(rows, seed)
    if rng.random() < 0.3:
        written.index = pd.Index(np.arange(rows) % 7, name="label")
    path = tmp_path / "t.parquet"
    written.to_parquet(path, row_group_size=rng.choice([None, max(1, rows // 2), 1 << 20]))
    expected, frame = pd.read_parquet(path), cpd.read_parquet(path)
    for step in rng.sample(STEPS, rng.randint(1, 4)):
        expected, frame = step(expected), step(frame)
        if rng.random() < 0.3:
            assert frame["b"].sum() == expected["b"].sum()
    assert_frame_equal(pd.DataFrame(frame), expected)


def source(tmp_path: Path, groups: int) -> FileSource:
    path = tmp_path / f"{groups}.parquet"
    written = table(1000, 1)
    written.to_parquet(path, row_group_size=1000 // groups)
    scan = cpd.read_parquet(path)._view.base
    assert isinstance(scan, Scan)
    assert isinstance(scan.source, FileSource)
    return scan.source


def divided(frame: pl.LazyFrame) -> bool:
    return "HCONCAT" in frame.explain()


def compared(source: FileSource, name: str) -> Expr:
    column = Scan(source, (name,)).column(name)
    return Call("gt", (column, Literal(3, column.dtype)), pl.Boolean())


def test_columns_are_divided_if_there_are_fewer_row_groups_than_threads(tmp_path: Path) -> None:
    few, many = source(tmp_path, 1), source(tmp_path, pl.thread_pool_size())
    assert divided(lower(Scan(few, ("a", "b", "x"))))
    assert not divided(lower(Scan(few, ("a",))))
    assert not divided(lower(Scan(many, ("a", "b", "x"))))


def test_the_kernel_skips_rows_of_scans_that_are_sliced(tmp_path: Path) -> None:
    scan = Scan(source(tmp_path, 1), ("a", "b", "x"))
    assert not divided(lower(Slice(scan, 990, 5)))


def test_columns_are_divided_where_a_predicate_costs_less_than_they_do(tmp_path: Path) -> None:
    few = source(tmp_path, 1)
    names = [name for name, _ in few.columns]
    assert divided(scan_files(few, "row", names, compared(few, "a"), divided=True))
    assert not divided(scan_files(few, "row", ["a", "b", "x"], compared(few, "x"), divided=True))
    rows = scan_files(few, "row", names, compared(few, "a"), divided=True).collect()
    assert rows.equals(scan_files(few, "row", names, compared(few, "a")).collect().select(rows.columns))
