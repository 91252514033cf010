"""Sorting and joining by row numbers: compared with the kernel's own stable sorts and ordered joins."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from craton import _native
from craton.lower import ordering
from craton.lower.ordering import ordered_join, row_sort
from craton.plan.functions import ranks

KINDS = {
    pl.Int8: st.integers(-128, 127),
    pl.Int64: st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)),
    pl.UInt32: st.integers(0, 2**32 - 1),
    pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Boolean: st.booleans(),
    pl.Float64: st.one_of(st.sampled_from([0.0, -0.0, 1.5, -1.5]), st.floats()),
    pl.Float32: st.floats(width=32),
    pl.Date: st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    pl.Datetime("us"): st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
    pl.String: st.text("ab\0é\U0001f600", max_size=2),
}


@pytest.fixture(autouse=True)
def few_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "FEWEST_ROWS", 0)
    monkeypatch.setattr(ranks, "FEW_TEXTS", 100)


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pl.Series:
    kind = draw(st.sampled_from(list(KINDS)))
    values = KINDS[kind]
    items = draw(st.lists(st.none() | values if draw(st.booleans()) else values, min_size=rows, max_size=rows))
    return pl.Series(items, dtype=kind)


@st.composite
def sortings(draw: st.DrawFn) -> tuple[pl.DataFrame, int, list[bool], list[bool]]:
    rows, keys = draw(st.integers(0, 12)), draw(st.integers(1, 3))
    frame = pl.DataFrame({f"k{i}": draw(columns(rows)) for i in range(keys)})
    flags = st.lists(st.booleans(), min_size=keys, max_size=keys)
    return frame.with_row_index("row"), keys, draw(flags), draw(flags)


@given(sortings())
@settings(max_examples=300, deadline=None)
def test_sorts_as_the_kernel_does(sorting: tuple[pl.DataFrame, int, list[bool], list[bool]]) -> None:
    frame, keys, descending, nulls_last = sorting
    names = tuple(f"k{i}" for i in range(keys))
    got = row_sort(names, tuple(descending), tuple(nulls_last), tuple(frame.columns)).lowered(frame.lazy())
    expected = frame.sort(names, descending=descending, nulls_last=nulls_last, maintain_order=True)
    assert_frame_equal(got.collect(engine="streaming"), expected)


@pytest.mark.parametrize("distinct", [3, 900])
def test_texts_are_ranked_if_few_are_distinct(distinct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rows = ordering.FEWEST_ROWS
    numbers = np.random.default_rng(distinct).integers(0, distinct * rows // 1000 + 1, rows)
    frame = pl.DataFrame({"s": [None if n == 1 else f"t{n}" for n in numbers], "n": -numbers}).with_row_index("row")
    ranked: list[int] = []
    monkeypatch.setattr(ordering, "text_ranks", lambda texts: (ranked.append(1), ranks.text_ranks(texts))[1])
    got = row_sort(("s", "n"), (True, False), (False, True), tuple(frame.columns))(frame)
    expected = frame.sort("s", "n", descending=[True, False], nulls_last=[False, True], maintain_order=True)
    assert_frame_equal(got, expected)
    assert bool(ranked) == (distinct == 3)


@st.composite
def sides(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """The two sides of a join, and the names of their keys."""
    kinds = [kind for kind in KINDS if ordering.is_whole_number(pl.Series([], dtype=kind).dtype)]
    left, right = (
        pl.DataFrame({"a": range(draw(st.integers(0, 12)))}),
        pl.DataFrame({"b": range(draw(st.integers(0, 12)))}),
    )
    count = draw(st.integers(1, 3))
    for number in range(count):
        kind = draw(st.sampled_from(kinds))
        pool = draw(st.lists(KINDS[kind], min_size=1, max_size=4))
        key = st.sampled_from(pool) | st.none() if draw(st.integers(0, 3)) == 0 else st.sampled_from(pool)
        values = [draw(st.lists(key, min_size=side.height, max_size=side.height)) for side in (left, right)]
        left = left.with_columns(pl.Series(f"k{number}", values[0], dtype=kind))
        right = right.with_columns(pl.Series(f"j{number}", values[1], dtype=kind))
    left = left.with_columns(s=pl.col("k0").cast(pl.String))
    right = right.with_columns(f=pl.col("b").cast(pl.Float32))
    return left, right, tuple(f"k{number}" for number in range(count)), tuple(f"j{number}" for number in range(count))


@given(sides(), st.booleans(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_joins_as_the_kernel_does(
    both: tuple[pl.DataFrame, pl.DataFrame, tuple[str, ...], tuple[str, ...]], keep: bool, nulls_equal: bool
) -> None:
    left, right, left_on, right_on = both
    join = ordered_join(tuple(left.columns), tuple(right.columns), left_on, right_on, keep, nulls_equal)
    expected = left.join(
        right,
        left_on=left_on,
        right_on=right_on,
        how="left" if keep else "inner",
        nulls_equal=nulls_equal,
        coalesce=False,
        maintain_order="left_right",
    )
    assert_frame_equal(join.lowered(left.lazy(), right.lazy()).collect(engine="streaming"), expected)


def test_keys_of_large_ranges_are_not_packed() -> None:
    least, most = -(2**63), 2**63 - 1
    left = pl.DataFrame({"a": [least, most, 0, most], "b": [least, 0, most, most], "x": [1, 2, 3, 4]})
    right = pl.DataFrame({"c": [most, 0, least, most], "d": [most, most, least, most], "y": [1, 2, 3, 4]})
    join = ordered_join(("x",), ("y",), ("a", "b"), ("c", "d"), False, False)
    got = join.lowered(left.lazy(), right.lazy()).collect()
    assert got.rows() == [(1, 3), (3, 2), (4, 1), (4, 4)]
    near = pl.DataFrame({"a": [least, least + 1], "b": [0, 1], "x": [1, 2]})
    got = join.lowered(near.lazy(), near.rename({"a": "c", "b": "d", "x": "y"}).lazy()).collect()
    assert got.rows() == [(1, 1), (2, 2)]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_gathers_items_of_every_size(size: int) -> None:
    values = np.arange(1000).astype(f"u{size}")
    rows = np.random.default_rng(0).integers(0, 1000, 70_000).astype(np.uint32)
    out = np.empty(len(rows), dtype=values.dtype)
    _native.gather(values, rows, out)
    np.testing.assert_array_equal(out, values[rows])


def test_equal_sorts_and_joins_are_one_object() -> None:
    # The kernel runs a function that several plans of a run share once, if it is the same object in all of them.
    assert row_sort(("k",), (False,), (True,), ("k",)) is row_sort(("k",), (False,), (True,), ("k",))
    joins = [ordered_join(("k",), ("j",), ("k",), ("j",), True, False) for _ in range(2)]
    assert joins[0] is joins[1]


def test_bad_buffers_are_refused() -> None:
    keys, rows = np.arange(10), np.empty(9, dtype=np.uint32)
    with pytest.raises(ValueError, match="10 keys and room for 9 row numbers and 10 keys"):
        _native.argsort(keys, False, rows)
    with pytest.raises(ValueError, match="not contiguous"):
        _native.argsort(keys[::2], False, rows[:5])
    with pytest.raises(BufferError):
        _native.argsort(keys.astype(np.int32), False, rows)  # type: ignore[arg-type]
    frozen = np.empty(10, dtype=np.uint32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        _native.argsort(keys, False, frozen)
    matches = _native.JoinMap(keys).probe(keys, False)
    both = np.empty(10, dtype=np.uint32)
    with pytest.raises(ValueError, match="different buffers"):
        matches.write(both, both)
    with pytest.raises(ValueError, match="room for 9"):
        matches.write(rows, both)
