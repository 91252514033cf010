"""Calls of pandas that compute a column are made once in a run, and at all once if the data is in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
from support import check

import craton
import craton.pandas
from craton.engine import repeated_runs
from craton.pandas.values import batches
from craton.pandas.values.batches import Batch


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """The functions of pandas that are called for batches of rows, and the batches' rows, without calls within these calls."""
    made: list[tuple[str, int]] = []
    original = Batch.run
    state = threading.local()  # the kernel calls the function from several threads at a time

    def run(self: Batch, columns: Any) -> Any:
        if getattr(state, "running", False):
            return original(self, columns)
        made.append((self.name, len(columns[0])))
        state.running = True
        try:
            return original(self, columns)
        finally:
            state.running = False

    monkeypatch.setattr(Batch, "run", run)
    with craton.option_context(small_rows=0):
        yield made


@pytest.fixture(scope="module")
def table() -> pandas.DataFrame:
    texts = ["1", "2.5", "x", None, " 3", "1e2", "nan", "-0", "7"]
    return pandas.DataFrame({"s": pandas.Series(texts, dtype="str"), "k": list("aabbccabc")})


def test_an_aggregate_calls_pandas_once(
    calls: list[tuple[str, int]], table: pandas.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (batches, repeated_runs):
        monkeypatch.setattr(module, "may_keep", lambda plan: False)  # as for a large file
    table.to_parquet(tmp_path / "t.parquet")
    numbers = craton.pandas.to_numeric(craton.pandas.read_parquet(tmp_path / "t.parquet")["s"], errors="coerce")
    for method in ("std", "median", "skew"):
        calls.clear()
        expected = getattr(pandas.to_numeric(table["s"], errors="coerce"), method)()
        assert getattr(numbers, method)() == pytest.approx(expected, rel=1e-12)
        # The kernel may divide the rows among its threads, but no row is passed twice.
        assert {name for name, _ in calls} == {"to_numeric"}
        assert sum(rows for _, rows in calls) == len(table)


def test_a_column_of_data_in_memory_is_computed_once(calls: list[tuple[str, int]], table: pandas.DataFrame) -> None:
    frame = craton.pandas.DataFrame(table)
    numbers = craton.pandas.to_numeric(frame["s"], errors="coerce")
    titles = frame["s"].str.title()
    calls.clear()
    assert numbers.max() == 100
    assert titles.nunique() == 8
    assert numbers.describe()["count"] == 6
    assert calls == []


def test_columns_of_python_calls_are_those_of_pandas(table: pandas.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet")

    def program(pd: Any, given: Any) -> Any:
        results = []
        for frame in (pd.read_parquet(tmp_path / "t.parquet"), given):
            numbers = pd.to_numeric(frame["s"], errors="coerce")
            frame["n"], frame["t"] = numbers, frame["s"].str.title()
            kept = frame[frame["t"].str.zfill(3) > "001"]
            results += [numbers.describe(), frame.groupby("k")["n"].agg(["std", "mean"]), frame["n"].rank(), kept]
            results += [kept["n"].sum(), frame[frame["k"] > "z"]["s"].str.title(), frame.sort_values("t")]
        return results

    check(program, table)
