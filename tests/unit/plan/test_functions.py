"""Every function of the plan has a complete record and correct results: for generated columns, on a single node and in tiles.

The expected results are from ``function_oracles``, plain Python over lists.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from function_oracles import AGGREGATES, VALUES, WINDOWS, is_nan

from craton.engine.tiled import TiledEngine
from craton.errors import PlanError
from craton.lower import lower
from craton.lower.tiled import Settings
from craton.plan.expr import Call, Column, Expr, Options, WindowCall, is_cheap, options
from craton.plan.functions.strategies import phases_of
from craton.plan.memory import held_bytes
from craton.plan.operators import Aggregate, AggregateCall, Operator, Project, Scan, Window
from craton.plan.order import observed_order
from craton.plan.registry import (
    FUNCTIONS,
    LISTS,
    Cost,
    Function,
    Kind,
    NaNs,
    Nulls,
    Order,
    Result,
    register,
)
from craton.plan.sources import MemorySource
from craton.schedule.inline import InlineRunner

#: Generated frames for each function; set CRATON_FUNCTIONS=100 for a long search.
EXAMPLES = int(os.environ.get("CRATON_FUNCTIONS", "1"))

INT, FLOAT, BOOL, TEXT = pl.Int64(), pl.Float64(), pl.Boolean(), pl.String()

NAMES = {kind: sorted(name for name, record in FUNCTIONS.items() if record.kind is kind) for kind in Kind}


def _moments(*texts: str) -> list[dt.datetime]:
    return [dt.datetime.fromisoformat(text) for text in texts]


_NUMBERS = [0, 1, 2, 3, 2]
_FLOATS = [0.0, -0.0, 1.5, -2.25, 3.0, math.inf, -math.inf, math.nan]
#: Values of each dtype; sums and products of a few of them are exact.
POOLS: dict[pl.DataType, list[Any]] = {
    pl.Int8(): [0, 1, -1, 2, -2],
    pl.Int64(): [0, 1, -1, 2, -3],
    pl.UInt32(): _NUMBERS,
    pl.UInt64(): _NUMBERS,
    pl.Float32(): _FLOATS,
    pl.Float64(): _FLOATS,
    pl.Decimal(10, 2): [Decimal("1.25"), Decimal("-0.50"), Decimal("3.00")],
    BOOL: [True, False],
    TEXT: ["", "a", "b", "ab", "é"],
    pl.Binary(): [b"", b"a", b"b\x00"],
    pl.Date(): [dt.date(1970, 1, 1), dt.date(2000, 2, 29), dt.date(1960, 5, 5)],
    pl.Datetime("us"): _moments("1970-01-01", "2000-02-29T12:30", "1999-12-31T23:59:59"),
    pl.Datetime("ns", "UTC"): _moments("1970-01-01T00:00+00:00", "2000-02-29T12:30+00:00"),
    pl.List(FLOAT): [[1.5], [], [0.0, -2.25, 1e16]],
    pl.Duration("us"): [dt.timedelta(0), dt.timedelta(days=1), dt.timedelta(hours=-2)],
}

#: Options with which a function is called, besides a call without options.
OPTIONS: dict[str, list[Options]] = {
    "sum": [(), options(min_count=2)],
    "product": [(), options(min_count=2)],
    "float_product": [(), options(min_count=2)],
    "exact_sum": [(), options(min_count=2)],
    "exact_float_product": [(), options(min_count=2)],
    "exact_var": [(), options(ddof=0)],
    "exact_std": [(), options(ddof=2)],
    "exact_sem": [(), options(ddof=0), options(of_groups=True)],
    "var": [(), options(ddof=0)],
    "std": [(), options(ddof=2)],
    "sem": [(), options(ddof=0), options(of_groups=True)],
    "n_unique": [(), options(nulls=False)],
    "first": [(), options(skip_nulls=False)],
    "last": [(), options(skip_nulls=False)],
    "nth": [options(n=1), options(n=-2), options(n=0)],
    "str_join": [options(separator=", "), options(separator="")],
    "quantile": [
        *(options(q=q, interpolation=how) for q in (0.3, 0.5) for how in ("linear", "lower", "higher", "midpoint")),
        options(q=1.0),
    ],
    "order_statistics": [options(q=(0.5,)), options(q=(0.0, 0.3, 1.0))],
    "cum_sum": [(), options(compensated=True)],
    "exact_cum_sum": [(), options(compensated=True)],
    "shift": [(), options(periods=-2), options(periods=3)],
    "diff": [(), options(periods=-2), options(periods=3)],
    "forward_fill": [(), options(limit=None), options(limit=2)],
    "backward_fill": [(), options(limit=None), options(limit=1)],
    "rolling": [
        options(statistic="mean", window=options(window=3, min_periods=2)),
        options(statistic="max", window=options(window=2, min_periods=1)),
        options(statistic="sum", window=options(window=4, min_periods=1, center=True)),
    ],
    "expanding": [options(statistic=name, window=options(min_periods=2)) for name in ("sum", "min")],
    "ewm": [options(statistic="mean", window=options(alpha=0.5))],
    "interpolate": [
        (),
        *(options(limit=limit, direction=to) for limit in (None, 1) for to in ("forward", "backward", "both")),
        options(area="inside", direction="both"),
        options(area="outside", limit=1),
    ],
    **{name: [(), options(descending=True)] for name in NAMES[Kind.WINDOW] if name.startswith("rank")},
}


def dtypes_of(record: Function) -> list[pl.DataType]:
    """The dtypes that all column arguments of a function accept."""
    columns = [argument for argument in record.signature if not argument.scalar]
    # Lists are used only between the functions of exact sums.
    pools = [dtype for dtype in POOLS if dtype != pl.List or all(arg.accepts.kinds is not None for arg in columns)]
    return [dtype for dtype in pools if all(dtype in argument.accepts for argument in columns)]


# ---- records ----


def test_no_field_of_a_record_has_a_default() -> None:
    fields = dataclasses.fields(Function)
    assert {"signature", "result", "nulls", "nans", "order", "lower", "phases", "tiling", "cost"} <= {
        field.name for field in fields
    }
    for field in fields:
        assert field.default is dataclasses.MISSING, field.name
        assert field.default_factory is dataclasses.MISSING, field.name


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_record_is_complete(name: str) -> None:
    record = FUNCTIONS[name]
    assert record.name == name
    kinds = {"kind": Kind, "nulls": Nulls, "nans": NaNs, "order": Order, "cost": Cost, "result": Result}
    for field, kind in kinds.items():
        assert isinstance(getattr(record, field), kind), field
    assert callable(record.lower)
    assert callable(record.tiling)
    for argument in record.signature[:-1]:
        assert not argument.optional, "only the last argument may be left out"
        assert not argument.repeated, "only the last argument may be repeated"
    takes_floats = any(pl.Float64() in argument.accepts for argument in record.signature)
    assert takes_floats is (record.nans is not NaNs.NOT_ACCEPTED)
    if record.kind is not Kind.AGGREGATE:
        assert record.phases is None
        assert record.one_row is None
    if record.kind is Kind.ROWWISE:
        assert not record.ordered
    assert record.cost is not Cost.PYTHON or record.kind is Kind.ROWWISE


def test_every_aggregate_and_window_has_an_oracle() -> None:
    assert set(AGGREGATES) | {"len"} == set(NAMES[Kind.AGGREGATE])
    assert set(WINDOWS) | {"row_number"} == set(NAMES[Kind.WINDOW])


def test_a_name_is_registered_once() -> None:
    fields = {field.name: None for field in dataclasses.fields(Function) if field.name not in ("name", "lower")}
    with pytest.raises(PlanError, match="registered twice"):
        register("sum", **fields)(FUNCTIONS["sum"].lower)  # type: ignore[arg-type]


def test_partial_results_are_defined_for_single_rows() -> None:
    for name in NAMES[Kind.AGGREGATE]:
        for dtype in dtypes_of(FUNCTIONS[name]):
            phases = phases_of(aggregate(name, dtype))
            for _, part in phases.partial if phases is not None else ():
                assert FUNCTIONS[part.function].one_row is not None, (name, part)


# ---- calls are checked when they are built ----

NUMBER, WORD, FLAG = Column("n", INT), Column("t", TEXT), Column("f", BOOL)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Call("no_such_function", (NUMBER,), INT), "unknown function 'no_such_function'"),
        (lambda: Call("sum", (NUMBER,), INT), "'sum' is an aggregate, not row-wise"),
        (lambda: AggregateCall("cum_sum", (NUMBER,), INT), "'cum_sum' is a window function, not an aggregate"),
        (lambda: WindowCall("add", (NUMBER, NUMBER), INT), "'add' is row-wise, not a window function or an aggregate"),
        (lambda: Call("add", (NUMBER,), INT), "add(left, right) cannot be called with 1 arguments"),
        (lambda: AggregateCall("len", (NUMBER,), INT), "len() cannot be called with 1 arguments"),
        (lambda: WindowCall("shift", (NUMBER,) * 3, INT), "shift(value, filling?) cannot be called with 3 arguments"),
        (lambda: Call("coalesce", (), INT), "coalesce(values…) cannot be called with 0 arguments"),
        (lambda: Call("not", (NUMBER,), BOOL), "not: argument 'value' has dtype Int64; it must be booleans"),
        (lambda: AggregateCall("sum", (WORD,), INT), "sum: argument 'value' has dtype String; it must be"),
        (
            lambda: Call("gt", (NUMBER, NUMBER), INT),
            "gt of (Int64, Int64) cannot have dtype Int64; its dtype is Boolean",
        ),
        (lambda: Call("when", (FLAG, NUMBER, WORD), INT), "its dtype is that of its values, which must agree"),
        (lambda: WindowCall("shift", (NUMBER,), FLOAT), "its dtype is that of argument 1"),
        (lambda: AggregateCall("mean", (NUMBER,), INT), "cannot have dtype Int64; its dtype is any of floats"),
        (lambda: Call("sub", (Column("d", pl.Datetime("us")),) * 2, pl.Datetime("us")), "cannot have dtype Datetime"),
    ],
)
def test_invalid_calls_are_refused(build: Callable[[], Expr], message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        build()


def test_passes_use_the_records() -> None:
    base = Scan(MemorySource.of(pl.DataFrame({"k": [1], ROW: [0], name_of(FLOAT): [1.0]})), ("k", ROW, name_of(FLOAT)))
    for name in NAMES[Kind.AGGREGATE] + NAMES[Kind.WINDOW]:
        record, of_groups = FUNCTIONS[name], name in NAMES[Kind.AGGREGATE]
        if FLOAT not in dtypes_of(record):
            continue
        plans: list[Operator] = [Window(base, (("v", window(name, FLOAT)),))]
        if of_groups:
            plans.append(Aggregate(base, (("k", base.column("k")),), (("v", aggregate(name, FLOAT)),)))
        for plan in plans:
            assert observed_order(plan, observed=False)[base] is record.ordered, name
        if of_groups:
            assert (held_bytes(plans[1], ordered=False) > held_bytes(total_of(base), ordered=False)) is (
                record.holds_values
            ), name
    assert [name for name, record in FUNCTIONS.items() if record.cost is Cost.PYTHON] == ["batch"]
    assert is_cheap(Call("abs", (NUMBER,), INT))


def total_of(base: Operator) -> Aggregate:
    return Aggregate(base, (("k", base.column("k")),), (("v", aggregate("sum", FLOAT)),))


# ---- generated columns ----

ROW, KEY = "row", "key"


def name_of(dtype: pl.DataType) -> str:
    return f"x {dtype}"


def arguments(record: Function, dtype: pl.DataType) -> tuple[Expr, ...]:
    """A column of a dtype for each required argument; labels and the second of two columns are row numbers."""
    column = Column(name_of(dtype), dtype)
    wanted = [argument for argument in record.signature if not argument.optional]
    return tuple(Column(ROW, INT) if argument.name in ("label", "other") else column for argument in wanted)


def usual(record: Function, args: Sequence[Any]) -> pl.DataType:
    return record.result.usual(tuple(arg.dtype for arg in args))


def aggregate(name: str, dtype: pl.DataType, choice: Options = ()) -> AggregateCall:
    args = arguments(FUNCTIONS[name], dtype)
    return AggregateCall(name, args, usual(FUNCTIONS[name], args), choice or OPTIONS.get(name, [()])[0])


def window(name: str, dtype: pl.DataType, choice: Options = (), keyed: bool = False) -> WindowCall:
    args = arguments(FUNCTIONS[name], dtype)
    by = (Column(KEY, INT),) if keyed else ()
    return WindowCall(name, args, usual(FUNCTIONS[name], args), by, choice or OPTIONS.get(name, [()])[0])


def generated(seed: str) -> list[Any]:
    """Rows of a key and, for each dtype, the index of a value, or None."""
    draw = random.Random(seed)
    return [
        (draw.choice([1, 1, 2, 2, 3, None]), [draw.choice([*range(8), None, None]) for _ in POOLS])
        for _ in range(draw.randint(8, 14))
    ]


#: No rows, one row, one value many times, only None: rarely generated, and where errors are likely.
CORNERS: list[list[Any]] = [
    [],
    [(1, [0] * len(POOLS))],
    [(1 + i // 3, [1] * len(POOLS)) for i in range(7)],
    [(1, [None] * len(POOLS)), (1, [None] * len(POOLS)), (2, [2] * len(POOLS))],
]


def frame_of(drawn: list[Any], dtypes: Sequence[pl.DataType], record: Function) -> pl.DataFrame:
    columns = {ROW: pl.Series(range(len(drawn)), dtype=INT), KEY: pl.Series([key for key, _ in drawn], dtype=INT)}
    for i, (dtype, pool) in enumerate(POOLS.items()):
        if record.nans is NaNs.MISSING:
            pool = [value for value in pool if not is_nan(value)]
        values = [None if cells[i] is None else pool[cells[i] % len(pool)] for _, cells in drawn]
        if dtype in dtypes:
            columns[name_of(dtype)] = pl.Series(values, dtype=dtype)
    return pl.DataFrame(columns)


def scan(frame: pl.DataFrame) -> Scan:
    return Scan(MemorySource.of(frame), tuple(frame.columns))


def results(plan: Operator, numbers: Sequence[int]) -> list[tuple[str, pl.DataFrame]]:
    """The results of a plan, on a single node and in several numbers of tiles."""
    found = [("whole", lower(plan).collect())]
    for tiles in numbers:
        chosen = Settings(tiles=tiles, broadcast_bytes=1, collapse_bytes=0)
        engine = TiledEngine(InlineRunner(), settings=chosen, least_bytes=0)
        found.append((f"{tiles} tiles", engine.collect([plan], True)[0]))
    return found


def listed(series: pl.Series) -> list[Any]:
    """Values as the oracles represent them."""
    if isinstance(series.dtype, pl.List):
        return [None if values is None else listed(values) for values in series]
    return (series.to_physical() if series.dtype.is_temporal() else series).to_list()


def agree(got: Any, expected: Any, dtype: pl.DataType) -> bool:
    """Whether two values are equal, up to the last digits of floats or the last tick of a mean of datetimes."""
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(lambda a, b: agree(a, b, dtype), got, expected))
    if got is None or expected is None or is_nan(got) or is_nan(expected):
        return (got is expected) or (is_nan(got) and is_nan(expected))
    if dtype.is_temporal():
        return abs(got - expected) <= 1
    if isinstance(got, float):
        return got == expected or math.isclose(
            got, expected, rel_tol=1e-5 if dtype == pl.Float32 else 1e-9, abs_tol=1e-9
        )
    return bool(got == expected)


def scaled(value: Any, of: pl.DataType, to: pl.DataType) -> Any:
    """A day in microseconds, if the result of dates has datetimes."""
    return (
        value * 86_400_000_000 if of == pl.Date() and to in (pl.Datetime, pl.Duration) and value is not None else value
    )


def _check_aggregate(
    name: str, drawn: list[Any], number: int, tiles: Sequence[int], dtypes: Sequence[pl.DataType]
) -> None:
    frame = frame_of(drawn, dtypes, FUNCTIONS[name])
    choices = OPTIONS.get(name, [()])
    choice = choices[number % len(choices)]
    calls = tuple((name_of(dtype), aggregate(name, dtype, choice)) for dtype in dtypes)
    for keyed in (True, False):
        keys = ((KEY, Column(KEY, INT)),) if keyed else ()
        groups = _groups(frame) if keyed else [list(range(frame.height))]
        found = results(Aggregate(scan(frame), keys, calls), tiles)
        for dtype, (column, call) in zip(dtypes, calls, strict=True):
            expected = [_expected(AGGREGATES, call, frame, group) for group in groups]
            for way, result in found:
                assert result.schema[column] == call.dtype, way
                got = listed(result[column])
                wanted = [scaled(value, dtype, call.dtype) for value in expected]
                assert agree(got, wanted, call.dtype), (way, call, keyed, frame[column].to_list(), got, wanted)


def _groups(frame: pl.DataFrame) -> list[list[int]]:
    """The rows of each group, in ascending order of keys, None last."""
    keys = frame[KEY].to_list()
    wanted = sorted(set(keys), key=lambda key: (key is None, key))
    return [[i for i, key in enumerate(keys) if key == one] for one in wanted]


def _expected(oracles: dict[str, Callable[..., Any]], call: Any, frame: pl.DataFrame, group: list[int]) -> Any:
    columns = [listed(frame[arg.name][group]) for arg in call.args]
    if call.function == "len":
        return len(group)
    if call.function == "row_number":
        return list(range(len(group)))
    return oracles[call.function](*columns, options=dict(call.options))


def _check_window(
    name: str, drawn: list[Any], number: int, tiles: Sequence[int], dtypes: Sequence[pl.DataType]
) -> None:
    record = FUNCTIONS[name]
    frame = frame_of(drawn, dtypes, record)
    choices = OPTIONS.get(name, [()])
    choice = choices[number % len(choices)]
    keyed = bool(number // len(choices) % 2)
    dtypes = dtypes or [INT]
    calls = tuple((f"w {dtype}", window(name, dtype, choice, keyed)) for dtype in dtypes)
    groups = _groups(frame) if keyed else [list(range(frame.height))]
    oracles = AGGREGATES if record.kind is Kind.AGGREGATE else WINDOWS
    found = results(Window(scan(frame), calls), tiles)
    for dtype, (column, call) in zip(dtypes, calls, strict=True):
        expected: list[Any] = [None] * frame.height
        for group in groups:
            values = _expected(oracles, call, frame, group)
            spread = values if record.kind is Kind.WINDOW else [values] * len(group)
            for i, value in zip(group, spread, strict=True):
                expected[i] = scaled(value, dtype, call.dtype)
        for way, result in found:
            assert result.schema[column] == call.dtype, way
            assert result[ROW].to_list() == frame[ROW].to_list()
            got = listed(result[column])
            assert agree(got, expected, call.dtype), (way, call, frame[KEY].to_list(), got, expected)


def _check(name: str, drawn: list[Any], number: int, tiles: Sequence[int], dtypes: Sequence[pl.DataType]) -> None:
    if FUNCTIONS[name].kind is Kind.AGGREGATE:
        _check_aggregate(name, drawn, number, tiles, dtypes)
    else:
        _check_window(name, drawn, number, tiles, dtypes)


@pytest.mark.parametrize("name", NAMES[Kind.AGGREGATE] + NAMES[Kind.WINDOW])
def test_functions_of_columns_of_every_dtype(name: str) -> None:
    dtypes = dtypes_of(FUNCTIONS[name])
    for number in range(EXAMPLES):
        drawn = generated(f"{name} {number}")
        if (
            FUNCTIONS[name].kind is Kind.WINDOW and FUNCTIONS[name].cost is Cost.TABLE
        ):  # rows are exchanged for each column
            _check(name, drawn, number, (1, 3), dtypes[::2])
            _check(name, drawn, number + 1, (2, 7), dtypes[1::2])
        else:
            _check(name, drawn, number, (1, 2, 3, 7), dtypes)


@pytest.mark.parametrize("name", NAMES[Kind.AGGREGATE] + NAMES[Kind.WINDOW])
def test_functions_of_edge_cases(name: str) -> None:
    dtypes = [dtype for dtype in dtypes_of(FUNCTIONS[name]) if dtype in (INT, FLOAT, BOOL, TEXT, pl.List)][:3]
    for number, drawn in enumerate(CORNERS):
        _check(name, drawn, number, (3,), dtypes)


# ---- row-wise functions, where plain Python has them ----

ROW_OPTIONS = {
    "str_slice": options(offset=1),
    "str_contains": options(literal=True),
    "list_slice": options(start=1, stop=-1),
}
SIGNED = (pl.Int8(), INT, pl.Float32(), FLOAT)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_rowwise_functions_of_columns_of_every_dtype(name: str) -> None:
    record = FUNCTIONS[name]
    count = len(record.signature) + record.signature[-1].repeated
    calculates = name in ("add", "sub", "mul", "neg", "abs")
    of_lists = record.signature[0].accepts is LISTS
    for dtype in SIGNED if calculates else [dtype for dtype in POOLS if (dtype == pl.List) is of_lists]:
        kinds = [dtype if dtype in record.argument(i).accepts else BOOL for i in range(count)]
        if any(kind not in record.argument(i).accepts for i, kind in enumerate(kinds)) or kinds[-1] != dtype:
            continue
        draw = random.Random(f"{name} {dtype}")
        columns = [
            pl.Series([draw.choice([*POOLS[kind], None]) for _ in range(25)], dtype=kind).alias(f"a{i}")
            for i, kind in enumerate(kinds)
        ]
        args = tuple(Column(f"a{i}", kind) for i, kind in enumerate(kinds))
        call = Call(name, args, usual(record, args), ROW_OPTIONS.get(name, ()))
        plan = Project(scan(pl.DataFrame(columns)), (("v", call),))
        given = list(zip(*map(listed, columns), strict=True))
        for way, result in results(plan, (3,)):
            assert result.schema["v"] == call.dtype, way
            for values, got in zip(given, listed(result["v"]), strict=True):
                if None not in values:
                    expected = VALUES[name](*values)
                    assert expected is None or agree(got, expected, call.dtype), (way, call, values, got, expected)
                elif record.nulls is Nulls.PROPAGATED:
                    assert got is None, (way, call, values)
