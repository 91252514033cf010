"""persist, unpersist and the result cache, which keeps large results as pages of the store."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import same

import craton
import craton.pandas as pd
from craton.engine import result_cache
from craton.engine.result_cache import results
from craton.store import Store, close_store, default_store


@pytest.fixture(autouse=True)
def planned() -> Iterator[None]:
    close_store()
    gc.collect()
    craton.clear_memory()
    with craton.option_context(small_rows=0, memory_limit=256 << 20):
        yield
    craton.clear_memory()
    close_store()


@pytest.fixture
def remembered() -> Callable[[], int]:
    """Counts the results that this test has made, without those of objects that other tests hold, for example at module level."""
    before = results.digests()
    return lambda: len(results.digests() - before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "data.parquet"
    rows = 200_000
    frame = {"k": np.arange(rows) % 1000, "v": np.arange(rows) / 7, "s": [f"text {i % 50}" for i in range(rows)]}
    pandas.DataFrame(frame).to_parquet(target)
    return target


def joined(module: Any, path: Path) -> Any:
    data = module.read_parquet(path)
    return data.merge(data.groupby("k", as_index=False)["v"].mean(), on="k", suffixes=("", "_mean"))


def test_what_is_persisted_is_not_computed_again(path: Path, remembered: Callable[[], int]) -> None:
    expected = joined(pandas, path)
    frame = joined(pd, path)
    assert frame.persist() is frame
    assert default_store().counters()["page_memory"] > 1 << 20
    path.write_bytes(b"over")  # from now on, reading the file fails
    craton.clear_memory()
    same(frame.groupby("s")["v_mean"].sum(), expected.groupby("s")["v_mean"].sum(), rtol=1e-9)
    same(frame["k"].max(), expected["k"].max())
    craton.clear_memory()
    assert remembered() == 1
    frame.unpersist()
    assert remembered() == 0


def test_a_scan_is_persisted(path: Path) -> None:
    expected = pandas.read_parquet(path)
    frame = pd.read_parquet(path).persist()
    path.write_bytes(b"over")
    same(frame[frame["k"] == 3]["v"].sum(), expected[expected["k"] == 3]["v"].sum())
    same(frame, expected)
    frame.unpersist()


def test_a_column_is_persisted(path: Path) -> None:
    column = pd.read_parquet(path)["v"].persist()
    assert default_store().describe()["rows"].tolist() == [200_000]
    assert column.max() == 199_999 / 7
    column.unpersist()
    column.unpersist()
    assert default_store().counters()["sets"] == 0


def test_what_is_in_memory_stays_as_it_is() -> None:
    with craton.option_context(small_rows=100):
        frame = pd.DataFrame({"a": [1, 2]})
        assert frame.persist() is frame
        assert frame.unpersist()["a"].tolist() == [1, 2]


def test_large_results_are_pages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that take more than a part of the memory limit together are put into the store."""
    monkeypatch.setattr(result_cache, "HELD_PART", 1 << 60)
    expected = joined(pandas, path)
    same(joined(pd, path), expected)
    assert default_store().counters()["pages"] > 0
    before = default_store().counters()["copied"]
    same(joined(pd, path).head(10), expected.head(10))
    same(joined(pd, path), expected)
    assert default_store().counters()["copied"] == before
    craton.clear_memory()
    assert default_store().counters()["sets"] == 0


def selected(module: Any, path: Path) -> Any:
    data = module.read_parquet(path)
    return data[data["k"] > 3].assign(w=lambda frame: frame["v"] * 2)


def test_results_are_not_copied(path: Path) -> None:
    """The program's frame is a view of the rows that are kept, and writes to it do not change these."""
    expected = selected(pandas, path)
    found, again = selected(pd, path), selected(pd, path)
    same(found, expected)
    same(again, expected)
    assert default_store().counters()["pages"] == 0
    for name in ("k", "v", "w"):
        assert np.shares_memory(found[name].to_numpy(), again[name].to_numpy())
        found.loc[found.index[:5], name] = 1
        found[name] *= 2
    same(again, expected)
    same(selected(pd, path), expected)


def test_a_part_of_a_table_is_copied(path: Path) -> None:
    """Otherwise few rows would keep all of the memory that they refer to."""
    expected = selected(pandas, path).iloc[1000:]
    same(selected(pd, path).iloc[1000:], expected)
    assert default_store().counters()["pages"] > 0


def test_results_outlive_a_store_that_was_closed(path: Path) -> None:
    expected = joined(pandas, path)
    first = joined(pd, path)
    assert first._mgr is not None
    close_store()
    same(first, expected)
    same(joined(pd, path), expected)


def test_results_are_evicted_and_read_back(path: Path) -> None:
    close_store()
    with craton.option_context(memory_limit=24 << 20):
        expected = joined(pandas, path)
        same(joined(pd, path), expected)
        store = default_store()
        with store.reserve(20 << 20):
            assert store.counters()["page_disk"] > 0
        same(joined(pd, path), expected)


def test_two_objects_that_read_the_same_rows(path: Path, remembered: Callable[[], int]) -> None:
    expected = pandas.read_parquet(path)
    whole = pd.read_parquet(path)
    column, other = whole["v"].persist(), whole["s"].persist()
    path.write_bytes(b"over")  # from now on, reading the file fails
    same(column.max(), expected["v"].max())
    same(other.nunique(), expected["s"].nunique())
    assert other.persist().persist() is other
    other.unpersist()
    same(whole["v"].sum(), expected["v"].sum(), rtol=1e-9)
    craton.clear_memory()
    assert remembered() == 1
    column.unpersist()
    other.unpersist()
    assert remembered() == 0
    assert default_store().counters()["sets"] == 0


def test_the_narrower_object_goes_first(path: Path, remembered: Callable[[], int]) -> None:
    whole = pd.read_parquet(path).persist()
    whole["v"].persist().unpersist()
    path.write_bytes(b"over")
    craton.clear_memory()
    assert whole["k"].max() == 999
    whole.unpersist()
    craton.clear_memory()
    assert remembered() == 0


def test_what_does_not_fit_stays_in_the_process(path: Path) -> None:
    expected = pandas.read_parquet(path)
    close_store()
    with craton.option_context(memory_limit=1 << 20):
        frame = pd.read_parquet(path).persist()
        path.write_bytes(b"over")
        same(frame.groupby("k")["v"].sum(), expected.groupby("k")["v"].sum(), rtol=1e-9)
        frame.unpersist()


def test_results_that_cannot_be_read_are_computed(path: Path) -> None:
    close_store()
    with craton.option_context(memory_limit=24 << 20):
        expected = joined(pandas, path)
        same(joined(pd, path), expected)
        view = craton.get(craton.put(np.zeros(20 << 20, "u1")))  # leaves too little memory for the result
        assert default_store().counters()["page_disk"] > 0
        same(joined(pd, path), expected)
        same(joined(pd, path)["v_mean"].max(), expected["v_mean"].max(), rtol=1e-12)
        same(joined(pd, path)[["v"]].sort_values("v").tail(3), expected[["v"]].sort_values("v").tail(3))
        del view


def test_what_was_persisted_in_a_store_that_died(path: Path, remembered: Callable[[], int]) -> None:
    expected = joined(pandas, path)
    with Store.open(256 << 20) as store:
        craton.connect(store.serve())
        frame = joined(pd, path).persist()
        assert store.counters()["page_memory"] > 1 << 20
    same(frame.groupby("s")["v_mean"].sum(), expected.groupby("s")["v_mean"].sum(), rtol=1e-9)
    frame.unpersist()
    del frame  # its groups were recomputed, and are kept as long as the frame exists
    gc.collect()
    pd.read_parquet(path)["k"].count()
    craton.clear_memory()
    assert remembered() == 0
