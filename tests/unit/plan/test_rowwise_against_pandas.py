"""Row-wise functions for which plain Python has no counterpart, compared with pandas over columns of every dtype that they accept.

``test_functions`` compares the others with Python. Here nulls must stay null where the record says so; rows without nulls must
have pandas' values, on a single node and in tiles.
"""

from __future__ import annotations

import math
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from function_oracles import VALUES as OF_PYTHON
from test_functions import POOLS, listed, results, scan

from craton.pandas.values.text.regexes import translate_groups
from craton.plan.expr import Call, Column, Expr, Literal, Options, Values, options
from craton.plan.operators import Project
from craton.plan.registry import FUNCTIONS, Kind, Nulls

ROWS = 40
INT, FLOAT, BOOL, TEXT = pl.Int64(), pl.Float64(), pl.Boolean(), pl.String()
INTEGERS = (pl.Int8(), INT, pl.UInt32(), pl.UInt64())
FLOATS = (pl.Float32(), FLOAT)
NUMBERS = (*INTEGERS, *FLOATS)
TIMES = (pl.Date(), pl.Datetime("us"), pl.Datetime("ns", "UTC"))
#: A function of pandas over Series with the values of rows without nulls.
Oracle = Callable[..., pandas.Series]


class Case:
    """Calls of one function over columns of some dtypes.

    Parameters
    ----------
    dtypes
        The dtypes of the columns.
    oracle
        The same function of pandas.
    constants
        The arguments after the columns.
    choice
        The options of the call.
    result
        The dtype of the call; that of the record's rule if None.
    pools
        The values of the columns, if they are not those of ``POOLS``.
    """

    def __init__(
        self,
        dtypes: tuple[pl.DataType, ...],
        oracle: Oracle,
        constants: tuple[Expr, ...] = (),
        choice: Options = (),
        result: pl.DataType | None = None,
        pools: dict[int, list[Any]] | None = None,
    ) -> None:
        self.dtypes, self.oracle, self.constants, self.choice, self.result = dtypes, oracle, constants, choice, result
        self.pools = pools or {}


def _arithmetic(name: str) -> Iterator[Case]:
    operation = {
        "truediv": lambda a, b: a / b,
        "floordiv": lambda a, b: a // b,
        "mod": lambda a, b: a % b,
        "pow": lambda a, b: a.astype("float64") ** b,
    }[name]
    for dtype in INTEGERS if name in ("floordiv", "mod") else NUMBERS:
        # The front end does not plan a division of integers by a column that may contain zeros.
        positive = {1: [value for value in POOLS[dtype] if value != 0]} if dtype in INTEGERS else {}
        yield Case((dtype, dtype), operation, pools=positive, result=FLOAT if name in ("truediv", "pow") else None)


def _rounded(decimals: int) -> Oracle:
    return lambda values: values.round(decimals)


def _rounding() -> Iterator[Case]:
    for decimals in (0, 1, 3):
        for dtype in FLOATS:
            halves = [0.5, 1.5, 2.5, -0.5, -2.5, 15.0, 25.0, 0.25, -0.0, math.inf, math.nan]
            yield Case((dtype,), _rounded(decimals), choice=options(decimals=decimals), pools={0: halves})
        yield Case((INT,), _rounded(decimals), choice=options(decimals=decimals))


def _clipped(least: Any, most: Any) -> Oracle:
    return lambda values: values.clip(least, most)


def _clipping() -> Iterator[Case]:
    for dtype in (pl.Int8(), INT, FLOAT):
        for least, most in ((0, 1), (-1, None), (None, 0)):
            constants = (Literal(least, dtype), Literal(most, dtype))
            yield Case((dtype,), _clipped(least, most), constants)


def _part(name: str) -> Oracle:
    return lambda values: getattr(values.dt, name)


def _parts() -> Iterator[Case]:
    moments = [
        *(
            pandas.Timestamp(text).to_pydatetime()
            for text in ("1970-01-01", "2000-02-29T12:30:59.000123", "1969-12-31")
        ),
        *(
            pandas.Timestamp(text).to_pydatetime()
            for text in ("2024-12-30T23:59:59.999999", "1900-03-01", "2096-02-29")
        ),
    ]
    parts = {"year": "year", "month": "month", "day": "day", "hour": "hour", "minute": "minute", "second": "second"}
    parts |= {"quarter": "quarter", "ordinal_day": "day_of_year", "is_leap_year": "is_leap_year"}
    for kernel, theirs in parts.items():
        for dtype in (pl.Datetime("us"), pl.Datetime("ms"), pl.Datetime("ns")):
            result = BOOL if theirs.startswith("is") else pl.Int32()
            yield Case((dtype,), _part(theirs), choice=options(part=kernel), result=result, pools={0: moments})
    weekday = options(part="weekday", shift=-1)
    yield Case((pl.Datetime("us"),), _part("day_of_week"), choice=weekday, result=pl.Int32(), pools={0: moments})


def _parsing() -> Iterator[Case]:
    yield Case(
        (TEXT,),
        lambda values: pandas.to_datetime(values, format="%Y-%m-%d", errors="coerce"),
        choice=options(format="%Y-%m-%d", strict=False),
        result=pl.Datetime("us"),
        pools={0: ["2000-02-29", "2001-02-29", "", "1999-12-31", "x"]},
    )
    for given, texts in {
        "%Y-%m-%d": ["1970-01-01", "2000-02-29", "1677-10-01"],
        "%d/%m/%Y %H:%M": ["29/02/2000 12:30", "01/01/1970 00:00"],
    }.items():
        for unit in ("us", "ns"):
            yield Case(
                (TEXT,),
                lambda values, given=given, unit=unit: pandas.to_datetime(values, format=given).dt.as_unit(unit),
                choice=options(format=given),
                result=pl.Datetime(unit),
                pools={0: texts},
            )


def _mapping() -> Iterator[Case]:
    for dtype, keys in ((INT, [0, 2, 9]), (TEXT, ["a", "é", ""]), (FLOAT, [1.5, 3.0]), (BOOL, [True])):
        table = {key: number * 1.5 for number, key in enumerate(keys)}
        constants = (Values.of(pl.Series(keys, dtype=dtype)), Values.of(pl.Series([*table.values()], dtype=FLOAT)))
        yield Case((dtype,), lambda values, table=table: values.map(table), constants, result=FLOAT)
    # Texts that are mapped to 0, 1, 2, … are looked up otherwise.
    for texts, first in (
        (["a", "é", ""], 0),
        (["é"], 0),
        (["a", "é", ""], 1),
        ([f"{i}" for i in range(300)] + ["a"], 0),
    ):
        numbers = {text: number for number, text in enumerate(texts, first)}
        constants = (Values.of(pl.Series(texts)), Values.of(pl.Series([*numbers.values()], dtype=pl.Int32())))
        yield Case(
            (TEXT,), lambda values, numbers=numbers: values.map(numbers).astype("float64"), constants, result=pl.Int32()
        )


def _membership() -> Iterator[Case]:
    for dtype, members in (
        (INT, [0, 2, 9]),
        (TEXT, ["a", "é"]),
        (FLOAT, [1.5, 0.0, math.nan]),
        (BOOL, [True]),
        (INT, []),
    ):
        listed = Values.of(pl.Series(members, dtype=dtype))
        yield Case((dtype,), lambda values, members=members: values.isin(members), (listed,))


def _intervals() -> Iterator[Case]:
    for edges, right in (([-5, 0, 1, 50], False), ([-5, 0, 1, 50], True), ([0, 1], True), ([0, 0, 1, 1, 2], False)):
        values = [one for one in (-4, 0, 1, 2, 49, 50) if edges[0] <= one <= edges[-1]]
        inner = edges[1:-1]

        def numbered(values: pandas.Series, inner: Any = inner, right: bool = right) -> Any:
            return pandas.Series(np.searchsorted(np.array(inner, dtype="int64"), values, "left" if right else "right"))

        given = Values.of(pl.Series(edges, dtype=INT))
        yield Case((INT,), numbered, (given,), options(right=right), pools={0: values})


def _replacing() -> Iterator[Case]:
    texts = {0: ["a.b", "aab", "", "é a.", "b", "a.a.a"]}
    for pattern, new, literal, n in (
        ("a", "x", True, -1),
        (".", "", True, -1),
        ("a.", "<é>", True, 1),
        ("[ab]+", "x", False, -1),
    ):
        constants = (Literal(pattern, TEXT), Literal(new, TEXT))

        def replaced(values: pandas.Series, args: Any = (pattern, new), literal: bool = literal, n: int = n) -> Any:
            return values.str.replace(*args, regex=not literal, n=n)

        yield Case((TEXT,), replaced, constants, options(literal=literal, n=n), pools=texts)


def _extracting() -> Iterator[Case]:
    texts = {0: ["user 12 kg", "12", "", "é 7", "a1b22", "kg", "x\n3"]}
    for pattern, group in ((r"(\d+)", 1), (r"([a-z]+) (\d)", 2), (r"(a)|(\d)", 2), (r"^(\w)(.*)", 2), (r"(x?)\d", 1)):
        literal = Literal(translate_groups(pattern), TEXT)

        def extracted(values: pandas.Series, pattern: str = pattern, group: int = group) -> Any:
            found = values.str.extract(pattern)[group - 1].astype(object)
            return found.where(found.notna(), None)

        yield Case((TEXT,), extracted, (literal,), options(group=group), pools=texts)


def _partitioning() -> Iterator[Case]:
    texts = {0: ["a b c", "", " ", "ab", "a  b", "é b", " b", "b ", "b\nb", "."]}
    for separator, part in product((" ", "b", "  ", "."), range(3)):

        def parted(values: pandas.Series, separator: str = separator, part: int = part) -> Any:
            found = values.astype("str").str.partition(separator)
            return found[part].astype(object).where(values.notna(), None)

        yield Case((TEXT,), parted, (Literal(separator, TEXT),), options(part=part), pools=texts)


class _Doubled:
    """A payload: values are added to themselves."""

    key = b"doubled"

    def run(self, columns: list[pl.Series]) -> pl.Series:
        return columns[0] + columns[0]


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    **{name: lambda name=name: _arithmetic(name) for name in ("truediv", "floordiv", "mod", "pow")},
    "round": _rounding,
    "clip": _clipping,
    "dt_part": _parts,
    "dt_parse": _parsing,
    "map_values": _mapping,
    "is_in": _membership,
    "interval_number": _intervals,
    "str_replace": _replacing,
    "str_extract": _extracting,
    "str_partition": _partitioning,
}
#: Functions that are tested elsewhere, and where.
ELSEWHERE = {
    "batch": "tests/parity/values: each method that calls pandas on batches",
    "list_join": "tests/parity/text/test_lists_of_strings.py: lists of text only",
    "as_terms": "tests/unit/engine/test_tiled_phases.py: exact sums in phases",
    "sum_of_terms": "tests/unit/engine/test_tiled_phases.py: exact sums in phases",
    "mean_of_terms": "tests/unit/engine/test_tiled_phases.py: exact sums in phases",
}


def test_every_row_wise_function_is_compared() -> None:
    rowwise = {name for name, record in FUNCTIONS.items() if record.kind is Kind.ROWWISE}
    assert rowwise == {*CASES, *OF_PYTHON, *ELSEWHERE} & rowwise
    assert not {*CASES} & {*OF_PYTHON, *ELSEWHERE}


def _series(series: pl.Series) -> pandas.Series:
    """A Series of NumPy's dtype, or of text; the values are not missing."""
    if series.dtype == TEXT:
        return pandas.Series(series.to_list(), dtype="str")
    return pandas.Series(series.to_numpy())


def _agree(got: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return got is None or (isinstance(got, float) and math.isnan(got))
    return bool(got == expected) and (
        not isinstance(expected, float) or math.copysign(1, got) == math.copysign(1, expected)
    )


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_pandas_values(name: str) -> None:
    record = FUNCTIONS[name]
    for number, case in enumerate(CASES[name]()):
        draw = random.Random(zlib.crc32(f"{name} {number}".encode()))
        columns = [
            pl.Series(
                f"a{i}",
                [draw.choice([*case.pools.get(i, POOLS.get(dtype, [])), None]) for _ in range(ROWS)],
                dtype=dtype,
            )
            for i, dtype in enumerate(case.dtypes)
        ]
        args = (*(Column(f"a{i}", dtype) for i, dtype in enumerate(case.dtypes)), *case.constants)
        dtype = case.result or record.result.usual(tuple(arg.dtype for arg in args))
        call = Call(name, args, dtype, case.choice)
        present = [i for i in range(ROWS) if all(column[i] is not None for column in columns)]
        with np.errstate(all="ignore"):
            expected = case.oracle(*(_series(column.gather(present)) for column in columns))
        wanted = pl.Series(expected.to_numpy()).to_physical() if dtype.is_temporal() else pl.Series(expected.tolist())
        for way, result in results(Project(scan(pl.DataFrame(columns)), (("v", call),)), (1, 2, 3, 7)):
            values = listed(result["v"])
            assert result.schema["v"] == dtype, (way, call)
            for i, want in zip(present, wanted.to_list(), strict=True):
                assert _agree(values[i], want), (way, call, [column[i] for column in columns], values[i], want)
            if record.nulls is Nulls.PROPAGATED:
                assert all(values[i] is None for i in range(ROWS) if i not in present), (way, call)
