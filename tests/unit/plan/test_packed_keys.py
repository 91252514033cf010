"""Group keys that are packed into one integer give the same groups, in the same order, as the kernel's own keys."""

from __future__ import annotations

import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from craton.lower import packed_keys as module
from craton.lower.packed_keys import packed_keys
from craton.lower.single_node import lower
from craton.plan import build
from craton.plan.expr import Call, Literal
from craton.plan.operators import Aggregate, AggregateCall, Operator, Scan, Slice
from craton.plan.sources import MemorySource

KINDS: dict[pl.DataType | type[pl.DataType], st.SearchStrategy[Any]] = {
    pl.Int8: st.integers(-(2**7), 2**7 - 1),
    pl.Int64: st.integers(-3, 3) | st.integers(-(2**40), 2**40) | st.integers(-(2**63), 2**63 - 1),
    pl.UInt32: st.integers(0, 2**32 - 1),
    pl.Boolean: st.booleans(),
    pl.Date: st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    pl.Datetime("us"): st.datetimes(datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)),
    pl.Duration("ms"): st.timedeltas(datetime.timedelta(-3), datetime.timedelta(3)).map(
        lambda value: value - datetime.timedelta(microseconds=value.microseconds)
    ),
    pl.String: st.text("ab\0é\U0001f600", max_size=2),
}


@pytest.fixture(autouse=True)
def few_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEWEST_ROWS", 0)
    monkeypatch.setattr(module, "FEW_TEXTS", 100)
    monkeypatch.setattr(module, "MOST_GROUPS", 0)


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    rows, keys = draw(st.integers(0, 12)), draw(st.integers(2, 4))
    columns = {}
    for i in range(keys):
        kind = draw(st.sampled_from(list(KINDS)))
        pool = draw(st.lists(st.none() | KINDS[kind], min_size=1, max_size=4))
        columns[f"k{i}"] = pl.Series(draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows)), dtype=kind)
    return pl.DataFrame({**columns, "v": pl.Series(range(rows), dtype=pl.Int64)})


def grouped(frame: pl.DataFrame, *, filtered: bool = False, sort: bool = True) -> Operator:
    scan: Operator = Scan(MemorySource.of(frame), tuple(frame.columns))
    if filtered:
        scan = build.filter(scan, Call("ne", (scan.column("v"), Literal(1, pl.Int64())), pl.Boolean()))
    keys = tuple((name, scan.column(name)) for name in frame.columns if name != "v")
    total = AggregateCall("sum", (scan.column("v"),), pl.Int64())
    return build.aggregate(scan, keys, (("total", total), ("rows", build.row_count())), sort=sort)


@given(frames(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_groups_as_the_kernel_does(frame: pl.DataFrame, filtered: bool) -> None:
    keys = frame.columns[:-1]
    rows = frame.filter(pl.col("v") != 1) if filtered else frame
    expected = rows.group_by(keys).agg(pl.col("v").sum().alias("total"), pl.len().alias("rows"))
    expected = expected.sort(keys, nulls_last=True)
    found = lower(grouped(frame, filtered=filtered)).collect(engine="streaming")
    assert_frame_equal(found, expected, check_dtypes=False)
    assert [found.schema[key] for key in keys] == [frame.schema[key] for key in keys]


@given(frames(), st.booleans(), st.none() | st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_groups_in_order_of_first_appearance(frame: pl.DataFrame, filtered: bool, length: int | None) -> None:
    keys = frame.columns[:-1]
    rows = frame.filter(pl.col("v") != 1) if filtered else frame
    expected = rows.group_by(keys, maintain_order=True).agg(pl.col("v").sum().alias("total"), pl.len().alias("rows"))
    plan = grouped(frame, filtered=filtered, sort=False)
    found = lower(plan if length is None else Slice(plan, 0, length)).collect(engine="streaming")
    assert_frame_equal(found, expected if length is None else expected.head(length), check_dtypes=False)


def packs(columns: dict[str, Any]) -> bool:
    rows = len(next(iter(columns.values())))
    plan = grouped(pl.DataFrame({**columns, "v": range(rows)}))
    assert isinstance(plan, Aggregate)
    return packed_keys(plan) is not None


def test_which_keys_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert packs({"a": [1, 2], "b": ["x", None]})
    assert packs({"a": pl.Series([None, None], dtype=pl.Int64), "b": [True, None], "c": [2**61, 2**61 + 9]})
    assert not packs({"a": [1, 2]})
    assert not packs({"a": [1.0, 2.0], "b": [1, 2]})
    assert not packs({"a": [-(2**63), 2**63 - 1], "b": [1, 2]})
    assert not packs({"a": [0, 2**40], "b": [0, 2**40]})
    assert not packs({"a": [0, 1], "b": [2**64 - 1, 0]})  # UInt64
    with monkeypatch.context() as patched:
        patched.setattr(module, "MOST_GROUPS", 6)
        assert not packs({"a": [1, 2], "b": ["x", None]})
        assert not packs({"a": [1, None], "b": [3, 4]})
        assert packs({"a": [1, 2, 3], "b": ["x", "y", None]})
    monkeypatch.setattr(module, "MOST_TEXTS", 1)
    assert not packs({"a": [1, 2], "b": ["x", "y"]})
    monkeypatch.undo()
    assert not packs({"a": [1, 2], "b": [1, 2]})  # few rows
