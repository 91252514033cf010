"""Frames in a store are read over its memory; many small chunks are merged."""

from __future__ import annotations

import itertools

import polars as pl
import pyarrow as pa
import pytest

from craton.store import Store
from craton.store.frames import StoredFrame, frame_of


@pytest.mark.parametrize(("rows", "chunks", "left"), [(200_000, 3, 3), (200_000, 4, 1), (10, 1, 1), (0, 1, 1)])
def test_large_chunks_stay_apart_and_small_ones_do_not(rows: int, chunks: int, left: int) -> None:
    whole = pa.table(
        {"a": pa.array(range(rows), pa.int64()), "b": pa.array([str(n % 7) for n in range(rows)], "large_string")}
    )
    cuts = [rows * i // chunks for i in range(chunks + 1)]
    frame = frame_of(pa.concat_tables([whole.slice(a, b - a) for a, b in itertools.pairwise(cuts)]))
    assert frame.n_chunks() == left
    assert frame["a"].to_list() == list(range(rows))
    assert frame.schema == {"a": pl.Int64, "b": pl.String}


def test_a_stored_frame_keeps_its_pages_as_chunks() -> None:
    with Store.open(256 << 20) as store:
        parts = [pl.DataFrame({"a": range(start, start + 20_000)}) for start in range(0, 200_000, 20_000)]
        kept = StoredFrame.keep(store, pl.concat(parts, rechunk=False))
        assert kept is not None
        assert kept.read().n_chunks() == 10
        assert kept.read()["a"].to_list() == list(range(200_000))


def test_a_table_without_columns_is_a_frame_without_columns() -> None:
    assert frame_of(pa.table({})).shape == (0, 0)


def test_a_frame_of_pages_is_kept_without_a_copy() -> None:
    with Store.open(256 << 20) as store:
        pages = store.create_set()
        for start in range(0, 600_000, 200_000):
            pages.append(pa.table({"a": range(start, start + 200_000)}))
        before = int(store.counters()["copied"])
        frame = frame_of(pages.to_arrow())
        assert frame.n_chunks() == 3
        kept = StoredFrame.keep(store, frame)
        assert kept is not None
        assert kept.read().equals(frame)
        assert int(store.counters()["copied"]) == before > 0
