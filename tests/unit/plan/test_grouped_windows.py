"""Windows of groups by row numbers: compared with the kernel's own."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import craton
import craton.pandas as pd
from craton.lower import grouped_windows as module
from craton.lower.expressions import lower_expr
from craton.lower.grouped_windows import lower_grouped_windows
from craton.plan.expr import Call, Column, Expr, Literal, WindowCall, options

KEYS = {
    pl.Int64(): st.one_of(st.integers(-2, 2), st.sampled_from([-(2**63), 2**63 - 1])),
    pl.UInt8(): st.integers(0, 3),
    pl.UInt64(): st.sampled_from([0, 1, 2**64 - 1]),
    pl.Boolean(): st.booleans(),
    pl.Float64(): st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
    pl.Date(): st.dates(datetime.date(2000, 1, 1), datetime.date(2000, 1, 3)),
    pl.String(): st.sampled_from(["", "a", "é", "a\0"]),
}
VALUES = {
    pl.Int64(): st.integers(-(2**63), 2**63 - 1),
    pl.Int8(): st.integers(-128, 127),
    pl.UInt16(): st.integers(0, 9),
    pl.Boolean(): st.booleans(),
    pl.Float64(): st.floats(),
    pl.Float32(): st.floats(width=32),
    pl.Datetime("us"): st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
    pl.Duration("ms"): st.timedeltas(datetime.timedelta(-9), datetime.timedelta(9)),
    pl.String(): st.text(max_size=2),
}
_DIFFERENCES = {
    **{kind: kind for kind in (pl.Int64(), pl.Int8(), pl.Float64(), pl.Float32(), pl.Duration("ms"))},
    pl.Datetime("us"): pl.Duration("us"),
}


@st.composite
def programs(draw: st.DrawFn) -> tuple[pl.DataFrame, list[tuple[str, WindowCall]]]:
    rows = draw(st.integers(0, 14))
    columns: list[pl.Series] = [pl.Series("row", range(rows), dtype=pl.UInt32)]

    def column(name: str, kinds: dict[pl.DataType, st.SearchStrategy[object]]) -> Column:
        kind = draw(st.sampled_from(list(kinds)))
        value = kinds[kind] | st.none() if draw(st.booleans()) else kinds[kind]
        columns.append(pl.Series(name, draw(st.lists(value, min_size=rows, max_size=rows)), dtype=kind))
        return Column(name, kind)

    partitions = [
        tuple(column(f"k{i}{j}", KEYS) for j in range(draw(st.integers(1, 3)))) for i in range(draw(st.integers(1, 2)))
    ]
    calls = []
    for number in range(draw(st.integers(1, 4))):
        partition = draw(st.sampled_from(partitions))
        function = draw(st.sampled_from(["shift", "diff", "forward_fill", "backward_fill", "row_number"]))
        kinds = {kind: VALUES[kind] for kind in (_DIFFERENCES if function == "diff" else VALUES)}
        args = () if function == "row_number" else (column(f"v{number}", kinds),)
        dtype = pl.Int64() if not args else _DIFFERENCES[args[0].dtype] if function == "diff" else args[0].dtype
        moves = function in ("shift", "diff")
        chosen = options(periods=draw(st.integers(-3, 3))) if moves else ()
        calls.append((f"w{number}", WindowCall(function, args, dtype, partition, chosen)))
    return pl.DataFrame(columns), calls


@given(programs())
@settings(max_examples=400, deadline=None)
def test_windows_as_the_kernel_computes_them(program: tuple[pl.DataFrame, list[tuple[str, WindowCall]]]) -> None:
    frame, calls = program
    got, left = lower_grouped_windows(frame.lazy(), calls, frame.columns)
    assert left == []
    expected = frame.with_columns(lower_expr(call).alias(name) for name, call in calls)
    assert_frame_equal(got.collect(engine="streaming").select(expected.columns), expected)


def test_windows_that_the_kernel_computes() -> None:
    key, value, text = Column("k", pl.Int64()), Column("v", pl.Int8()), Column("s", pl.String())
    calls = [
        WindowCall("shift", (value,), pl.Int8(), (), options(periods=1)),  # of all rows
        WindowCall("shift", (value, Literal(0, pl.Int8())), pl.Int8(), (key,), options(periods=1)),
        WindowCall("diff", (Column("u", pl.UInt16()),), pl.Int32(), (key,), options(periods=1)),
        WindowCall("forward_fill", (value,), pl.Int8(), (key,), options(limit=1)),
        WindowCall("cum_sum", (value,), pl.Int64(), (key,)),
        WindowCall("shift", (value,), pl.Int8(), (Column("f", pl.Float32()),), options(periods=1)),
    ]
    frame = pl.LazyFrame(schema={"k": pl.Int64, "v": pl.Int8, "s": pl.String, "u": pl.UInt16, "f": pl.Float32})
    named = [(f"w{i}", call) for i, call in enumerate(calls)]
    got, left = lower_grouped_windows(frame, named, ["k"])
    assert got is frame
    assert left == named
    mine = ("w9", WindowCall("shift", (text,), pl.String(), (key,), options(periods=1)))
    got, left = lower_grouped_windows(frame, [mine, *named], ["k"])
    assert left == named
    assert set(got.collect_schema()) == {"k", "v", "s", "u", "f", "w9"}


def test_computed_keys_and_values() -> None:
    frame = pl.DataFrame({"k": [1, 2, 3, 4, 5], "v": [1.0, 2.0, 3.0, 4.0, 5.0], "unused": [0] * 5})
    odd: Expr = Call("mod", (Column("k", pl.Int64()), Literal(2, pl.Int64())), pl.Int64())
    double: Expr = Call("mul", (Column("v", pl.Float64()), Literal(2.0, pl.Float64())), pl.Float64())
    calls = [("w", WindowCall("shift", (double,), pl.Float64(), (odd,), options(periods=1)))]
    got, left = lower_grouped_windows(frame.lazy(), calls, ["k"])
    assert left == []
    assert "unused" not in got.collect_schema()
    assert got.select("w").collect().to_series().to_list() == [None, None, 2.0, 4.0, 6.0]


def test_more_rows_than_row_numbers_have_bits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"k": [1, 1, 2], "v": [1, 2, 3]})
    call = WindowCall("shift", (Column("v", pl.Int64()),), pl.Int64(), (Column("k", pl.Int64()),), options(periods=1))
    monkeypatch.setattr(module, "NO_ROW", 3)
    monkeypatch.setattr(module, "_Groups", None)  # is not used
    got, _ = lower_grouped_windows(frame.lazy(), [("w", call)], ["k"])
    assert got.collect()["w"].to_list() == [None, 1, None]


def test_many_groups_against_pandas() -> None:
    import pandas

    rng = np.random.default_rng(0)
    data = pandas.DataFrame(
        {
            "a": rng.integers(0, 30_000, 60_000),
            "s": pandas.Series(rng.integers(0, 3, 60_000)).map({0: "x", 1: "y", 2: None}),
            "v": np.where(rng.random(60_000) < 0.2, np.nan, rng.normal(size=60_000)),
        }
    )
    with craton.option_context(small_rows=0):
        frame = pd.DataFrame(data)
        for ours, theirs in ((frame, data), (frame.sort_values("v"), data.sort_values("v"))):
            for keys in ("a", ["a", "s"], ["s"]):
                for window in (
                    lambda g: g["v"].shift(),
                    lambda g: g["v"].shift(-2),
                    lambda g: g["v"].diff(),
                    lambda g: g["v"].ffill(),
                    lambda g: g["v"].bfill(),
                    lambda g: g.cumcount(),
                ):
                    expected = window(theirs.groupby(keys))
                    pandas.testing.assert_series_equal(window(ours.groupby(keys)), expected)
                    assert window(ours.groupby(keys)).sum() == pytest.approx(expected.sum())
