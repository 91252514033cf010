"""Row-wise functions of constants keep the rows: each argument is a constant, a column with one value for all rows, or a column.

The kernel keeps a column with one value as a scalar, and some of its functions then return fewer rows. The expected values are
those of the same function over ordinary columns with the same values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from craton.engine.tiled import TiledEngine
from craton.errors import PlanError
from craton.lower import lower
from craton.lower.tiled import Settings
from craton.plan.expr import Call, Column, Expr, Literal, WindowCall
from craton.plan.operators import Aggregate, AggregateCall, Filter, Operator, Project, Scan, Window
from craton.plan.registry import FUNCTIONS, Function, Kind
from craton.plan.sources import MemorySource
from craton.schedule.inline import InlineRunner

INT, BOOL = pl.Int64(), pl.Boolean()
#: Of each dtype: a constant, the value of all rows, and the values of a column.
VALUES: dict[pl.DataType, tuple[Any, Any, list[Any]]] = {
    INT: (0, 2, [1, 2, 3, 4, None]),
    pl.Float64(): (0.5, 3.0, [1.5, 2.0, 3.0, -4.0, None]),
    BOOL: (True, True, [True, False, True, False, None]),
    pl.String(): ("a", "ab", ["ab", "a", "b", "", None]),
}
FORMS = ("constant", "no value", "one value", "one value of a group", "column")
ROWS = 5
NAMES = sorted(name for name, record in FUNCTIONS.items() if record.kind is Kind.ROWWISE and len(record.signature) > 1)


def base(dtypes: tuple[pl.DataType, ...]) -> Operator:
    """Columns for each argument: values, one value, and one value that a window function computes."""
    columns = {"row": pl.Series(range(ROWS), dtype=INT)}
    for i, dtype in enumerate(dtypes):
        columns[f"column {i}"] = pl.Series(VALUES[dtype][2], dtype=dtype)
        columns[f"equal {i}"] = pl.Series([VALUES[dtype][1]] * ROWS, dtype=dtype)
        columns[f"null {i}"] = pl.Series([None] * ROWS, dtype=dtype)
        columns[f"constant {i}"] = pl.Series([VALUES[dtype][0]] * ROWS, dtype=dtype)
    frame = pl.DataFrame(columns)
    scan: Operator = Scan(MemorySource.of(frame), tuple(frame.columns))
    kept = tuple((name, scan.column(name)) for name in frame.columns)
    ones = [(f"one {i}", Literal(VALUES[dtype][1], dtype)) for i, dtype in enumerate(dtypes)]
    rows = Project(scan, (*kept, *ones, ("group", Literal(7, INT))))
    firsts = [
        (f"first {i}", WindowCall("first", (Column(f"equal {i}", dtype),), dtype, (Column("group", INT),)))
        for i, dtype in enumerate(dtypes)
    ]
    return Window(rows, tuple(firsts))


def argument(form: str, i: int, dtype: pl.DataType, plain: bool) -> Expr:
    """An argument in a form, or as an ordinary column with the same values."""
    names = {
        "column": f"column {i}",
        "one value": f"equal {i}" if plain else f"one {i}",
        "one value of a group": f"equal {i}" if plain else f"first {i}",
    }
    if form in names:
        return Column(names[form], dtype)
    if plain:
        return Column(f"constant {i}" if form == "constant" else f"null {i}", dtype)
    return Literal(VALUES[dtype][0] if form == "constant" else None, dtype)


def calls(name: str) -> Iterator[tuple[tuple[pl.DataType, ...], Call, Call]]:
    """Calls of a function, and the same calls of ordinary columns."""
    record: Function = FUNCTIONS[name]
    given = [arg for arg in record.signature if not arg.scalar]
    if len(given) < len(record.signature):
        return  # scalar arguments are constants in all plans
    for dtypes in itertools.product(VALUES, repeat=len(given)):
        if any(dtype not in arg.accepts for dtype, arg in zip(dtypes, given, strict=True)):
            continue
        if len(set(dtypes[-2:])) > 1 or (dtypes[0] != BOOL and len(set(dtypes)) > 1):
            continue
        for forms in itertools.product(FORMS, repeat=len(given)):
            if {*forms} <= {"constant", "no value"}:
                continue
            try:
                call, plain = (
                    Call(
                        name,
                        args := _arguments(forms, dtypes, plain),
                        record.result.usual(tuple(a.dtype for a in args)),
                    )
                    for plain in (False, True)
                )
            except (PlanError, pl.exceptions.PolarsError):
                break
            yield dtypes, call, plain


def _arguments(forms: tuple[str, ...], dtypes: tuple[pl.DataType, ...], plain: bool) -> tuple[Any, ...]:
    return tuple(argument(form, i, dtype, plain) for i, (form, dtype) in enumerate(zip(forms, dtypes, strict=True)))


def plans(rows: Operator, call: Call) -> Iterator[Operator]:
    """The value alone, beside a column, as a predicate, as the argument of aggregates and of windows, and as a key."""
    yield Project(rows, (("v", call),))
    yield Project(rows, (("row", rows.column("row")), ("v", call)))
    if call.dtype == BOOL:
        yield Project(Filter(rows, call), (("row", rows.column("row")),))
    counts = (("n", AggregateCall("count", (call,), INT)), ("k", AggregateCall("len", (), INT)))
    yield Aggregate(rows, (), counts)
    yield Aggregate(rows, (("group", rows.column("group")),), counts)
    yield Aggregate(rows, (("key", call),), (("k", AggregateCall("len", (), INT)),))
    alone = Window(rows, (("n", WindowCall("count", (call,), INT, ())),))
    yield Project(alone, (("n", alone.column("n")),))
    grouped = Window(rows, (("n", WindowCall("count", (call,), INT, (rows.column("group"),))),))
    yield Project(grouped, (("n", grouped.column("n")),))
    by_value = Window(rows, (("n", WindowCall("len", (), INT, (call,))),))
    yield Project(by_value, (("row", rows.column("row")), ("n", by_value.column("n"))))


def check(plan: Operator, same: Operator, tiled: bool) -> None:
    """Compare a plan with the same plan over ordinary columns, by each engine."""
    try:
        expected = lower(same).collect()
    except pl.exceptions.PolarsError:
        return  # dtypes that the front end never combines
    lowered = lower(plan)
    got = {"in memory": lowered.collect(), "streaming": lowered.collect(engine="streaming")}
    if tiled:
        settings = Settings(tiles=2, broadcast_bytes=1, collapse_bytes=0)
        got["in tiles"] = TiledEngine(InlineRunner(), settings=settings, least_bytes=0).collect([plan], True)[0]
    for result in got.values():
        # The last digits of statistics depend on the order of additions.
        assert_frame_equal(result, expected, check_row_order=False, check_exact=False)


@pytest.mark.parametrize("name", NAMES)
def test_constants_do_not_change_the_rows(name: str) -> None:
    widest = None
    for dtypes, call, plain in calls(name):
        widest = widest or dtypes
        rows = base(dtypes)
        # How a plan uses the value does not depend on its dtype.
        every = dtypes == widest and isinstance(call.args[0], Literal) and "one" in str(call.args[1])
        for plan, same in zip(plans(rows, call), plans(rows, plain), strict=True):
            check(plan, same, tiled=every)
            if not every:
                break
