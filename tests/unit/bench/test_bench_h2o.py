"""The questions of db-benchmark: pandas, Craton and Polars have the same answers."""

from __future__ import annotations

from pathlib import Path

import pandas
import pyarrow.parquet as pq
import pytest

import craton
from bench.h2o.contestants import QUESTIONS, open_contestant
from bench.h2o.data import TABLES, make
from bench.harness import answers

ROWS = 20_000


@pytest.mark.parametrize("task", QUESTIONS)
def test_answers_are_equal(task: str, tmp_path: Path) -> None:
    options = {"folder": str(make(task, ROWS, tmp_path)), "task": task}
    names = ("pandas", "craton", "polars")
    contestants = {name: open_contestant(name, options) for name in names}
    with craton.option_context(small_rows=0):
        for question in QUESTIONS[task]:
            found = {name: one.answer(question, one.run(question)) for name, one in contestants.items()}
            assert found["pandas"]["rows"] > 0, question
            for name in names[1:]:
                assert answers.difference(found["pandas"], found[name]) is None, (question, name)


def test_nine_tenths_of_the_keys_match(tmp_path: Path) -> None:
    tables = [pandas.read_parquet(make("join", ROWS, tmp_path) / f"{name}.parquet") for name in TABLES["join"]]
    left, right = tables[0], tables[-1]
    assert len(left) == len(right) == ROWS
    assert left["id3"].isin(right["id3"]).mean() == pytest.approx(0.9, abs=0.02)
    assert left["id3"].is_unique


def test_a_table_that_exists_is_not_written_again(tmp_path: Path) -> None:
    path = make("groupby", ROWS, tmp_path) / "x.parquet"
    written = path.stat().st_mtime_ns
    make("groupby", ROWS, tmp_path)
    assert path.stat().st_mtime_ns == written
    assert pq.ParquetFile(path).metadata.num_rows == ROWS


def test_rows_must_be_divisible() -> None:
    with pytest.raises(ValueError, match="multiple of 1,000"):
        make("join", 12_345)
