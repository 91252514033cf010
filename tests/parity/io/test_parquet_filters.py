"""read_parquet(filters=…) against pandas: operands of every kind on columns of every kind, NaN, nulls, malformed filters."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import case_id, check

NAN = float("nan")
UTC = datetime.UTC
POINTS = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 6, 1, 5), None]
TABLE = pa.table(
    {
        "i": pa.array([1, None, 3]),
        "i8": pa.array([1, 2, 3], pa.int8()),
        "u32": pa.array([1, 2**32 - 1, 3], pa.uint32()),
        "u64": pa.array([1, 2**63 + 5, 3], pa.uint64()),
        "big": pa.array([2**53 + 1, 2**53, 3]),
        "f": pa.array([0.5, NAN, None]),
        "f32": pa.array([0.1, 0.5, NAN], pa.float32()),
        "zeros": pa.array([0.0, -0.0, 1.0]),
        "s": pa.array(["a", None, "b"]),
        "large": pa.array(["a", None, "b"], pa.large_string()),
        "b": pa.array([True, False, None]),
        "d": pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 6, 1), None]),
        "ms": pa.array(POINTS, pa.timestamp("ms")),
        "us": pa.array(POINTS, pa.timestamp("us")),
        "ns": pa.array(POINTS, pa.timestamp("ns")),
        "tz": pa.array(POINTS, pa.timestamp("us", "America/New_York")),
        "dec": pa.array([decimal.Decimal("1.25"), decimal.Decimal(2), None], pa.decimal128(10, 2)),
        "bytes": pa.array([b"a", None, b"b"]),
        "list": pa.array([[1], None, [2]]),
        "none": pa.nulls(3),
    }
)
OPERANDS = [
    *(None, NAN, pandas.NA, pandas.NaT, True, False, 0, 1, 3, -1, 1000, 2**31, 2**53 + 1, 2**63, 2**64),
    *(0.0, -0.0, 0.1, 0.5, 1.0, 1.5, float(2**53), float("inf"), 1e300),
    *(np.int8(1), np.uint64(3), np.float32(0.1), np.float64(0.5), np.bool_(True), np.str_("a")),
    *("a", "", "1", "2024-06-01", "x", b"a", decimal.Decimal("1.25"), decimal.Decimal("1.250"), decimal.Decimal(1)),
    *(datetime.date(2024, 6, 1), datetime.datetime(2024, 6, 1, 5), datetime.datetime(2024, 3, 1, tzinfo=UTC)),
    *(
        pandas.Timestamp("2024-03-01"),
        pandas.Timestamp("2024-06-01 05:00:00.000000001"),
        np.datetime64("2024-06-01T05", "ns"),
    ),
    *(pandas.Timestamp("2024-06-01", tz="UTC"), pandas.Timestamp("2024-05-01", tz="America/New_York")),
    *(
        pandas.Timestamp("2024-06-01 05:00:00.0005"),
        datetime.datetime(9000, 1, 1),
        pandas.Timedelta("1D"),
        datetime.time(1),
    ),
    *([1], (1,), {"a": 1}, object()),
]
LISTS: list[Any] = [
    *(
        [],
        [None],
        [NAN],
        [1],
        [1, None],
        [1.5, 3],
        [1, 3.0],
        [3, 1],
        [1000, 1],
        [-1],
        [2**63],
        [2**53 + 1],
        [0.0],
        [0],
        [0.1],
        [0.5],
    ),
    *(
        [0.5, NAN],
        [0.5, None],
        [1, "x"],
        ["a"],
        ["a", None],
        ["a", "a"],
        ["1"],
        ["2024-01-01"],
        [True],
        [True, False],
        [b"a"],
    ),
    *(
        [decimal.Decimal("1.25")],
        [datetime.date(2024, 6, 1)],
        [datetime.datetime(2024, 1, 1)],
        [pandas.Timestamp("2024-01-01")],
    ),
    *([pandas.Timestamp("2024-06-01 05:00:00.000000001")], [pandas.Timestamp("2024-01-01", tz="UTC")], [pandas.NaT]),
    *(
        [pandas.Timestamp("2024-01-01", tz="America/New_York")],
        [datetime.datetime(9000, 1, 1)],
        [[1]],
        "ab",
        "a",
        1,
        None,
    ),
    *(
        (1, 3),
        {1, 3},
        frozenset(["a"]),
        {"a": 1},
        range(3),
        np.array([1, 3]),
        np.array([1.0, NAN]),
        np.array(["a", "b"]),
    ),
    *(np.array([[1]]), np.array([], dtype=str), np.array(["2024-01-01"], dtype="M8[ns]"), pandas.Series([1, 3])),
    *(pandas.Index(["a"]), pandas.Series(["a", None]), pandas.array([1, None], dtype="Int64"), pa.array([1, 3])),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "a.parquet"
    pq.write_table(TABLE, path)
    return path


def read(path: Path, filters: Any, column: str) -> Any:
    """A program that reads with filters. It returns an error of the read as its result; later errors propagate."""

    def program(pd: Any) -> Any:
        try:
            frame = pd.read_parquet(path, columns=[column, "i"], filters=filters)
        except Exception as error:
            return type(error).__name__, str(error)
        return frame, frame[column].astype(object).tolist().__repr__(), frame.dtypes.astype(str).tolist()

    return program


@pytest.mark.parametrize("column", sorted({*TABLE.column_names} - {"large", "ns", "bytes", "none", "zeros"}))
def test_operands(stored: Path, column: str) -> None:
    for operand in OPERANDS:
        for symbol in ("==", ">="):
            check(read(stored, [(column, symbol, operand)], column), native=None)


@pytest.mark.parametrize("symbol", ["=", "<=", ">", "not in", "<>", "==="])
@pytest.mark.parametrize("column", ["i", "f", "s", "us", "b"])
def test_operators(stored: Path, column: str, symbol: str) -> None:
    operand = TABLE[column][0].as_py()
    for given in (operand, [operand]):
        check(read(stored, [(column, symbol, given)], column), native=None)


@pytest.mark.parametrize("column", TABLE.column_names)
def test_lists(stored: Path, column: str) -> None:
    for operand in LISTS:
        check(read(stored, [(column, "in", operand)], column), native=None)


@pytest.mark.parametrize(
    "entry",
    [
        *(("i", ">", 1), ("i", "in", [1, 3]), ("i8", "==", 2), ("u32", ">", 2), ("big", "==", 2**53 + 1)),
        *(("i", "!=", 3), ("i", "in", np.array([1, 3])), ("i", "in", {1, 3}), ("i8", "in", [1, 2])),
        *(
            ("f", ">", 0.1),
            ("f", "<=", 0.5),
            ("f", "==", 0.5),
            ("f", "!=", 0.25),
            ("f", "in", [0.5, 2]),
            ("f", ">=", 0),
        ),
        *(("f32", ">", 0.1), ("f32", "==", 0.5), ("f32", "in", [0.5]), ("f32", "<", 0.3), ("f32", "!=", 0.1)),
        *(("s", "==", "a"), ("s", ">", "a"), ("s", "in", ["a", "b"]), ("large", "==", "a"), ("large", "in", ["b"])),
        *(("b", "==", True), ("b", "!=", True), ("b", "in", [False]), ("d", "==", datetime.date(2024, 6, 1))),
        *(("us", ">=", pandas.Timestamp("2024-03-01")), ("ns", ">=", pandas.Timestamp("2024-03-01"))),
        *(("ms", "<", datetime.datetime(2024, 3, 1)), ("us", "in", [datetime.datetime(2024, 1, 1)])),
        *(("ns", "in", [pandas.Timestamp("2024-01-01")]), ("us", "==", np.datetime64("2024-01-01T00", "us"))),
        *(("tz", ">", pandas.Timestamp("2024-03-01", tz="America/New_York")), ("d", "in", [datetime.date(2024, 6, 1)])),
    ],
    ids=case_id,
)
def test_what_is_planned(stored: Path, entry: tuple[Any, ...]) -> None:
    check(lambda pd: pd.read_parquet(stored, columns=["u32", "us"], filters=[entry]), native=True)


@pytest.mark.parametrize(
    "filters",
    [
        *(
            [],
            [()],
            [[]],
            [("i",)],
            [("i", ">")],
            [("i", ">", 1, 2)],
            [("i", ">", 1), ("i", "<")],
            "i",
            {},
            1,
            True,
            ("i", ">", 1),
        ),
        *(
            (("i", ">", 1),),
            [["i", ">", 1]],
            [[["i", ">", 1]]],
            [[("i", ">", 1)], ("i", "<", 3)],
            [("i", ">", 1), [("i", "<", 3)]],
        ),
        *([("nope", "==", 1)], [(1, "==", 1)], [("i", 1, 1)], [("i", None, 1)], [(("i",), "==", 1)], [("", "==", 1)]),
        *([[("i", "==", 1)], [("s", "in", ["b", None])]], [("i", ">", iter([1]))], [("i", "in", iter([1, 3]))]),
    ],
    ids=case_id,
)
def test_malformed(stored: Path, filters: Any) -> None:
    check(read(stored, filters, "i"), native=None)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    "values", [[1.5, NAN, 1.5], [1.5, None, NAN], [NAN, NAN], [0.0, -0.0], [-0.0, NAN], [1.5, 2.5, NAN]], ids=str
)
@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()], ids=str)
def test_row_groups_of_one_float(tmp_path: Path, dtype: pa.DataType, values: list[Any], statistics: bool) -> None:
    """pyarrow skips row groups by their statistics, which do not include NaN."""
    table = pa.table({"f": pa.array([*values, 1.5, 1.5, NAN], dtype), "i": range(len(values) + 3)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=len(values), write_statistics=statistics)
    for symbol in ("==", "!=", "<", ">", "<=", ">="):
        for operand in (1.5, 0.0, 2, NAN):
            check(read(tmp_path / "a.parquet", [("f", symbol, operand)], "f"), native=None)


@pytest.mark.parametrize("filters", [[("id", "<", 9)], [("id", "<", 0)], [("id", "==", 0)]], ids=str)
@pytest.mark.parametrize("kind", ["bool", "int64", "uint8", "float64", "string", "date32", "decimal"])
@pytest.mark.parametrize(
    "named", [{}, {"write_statistics": False}, {"write_statistics": False, "store_schema": False}], ids=str
)
def test_nobody_tells_what_is_missing(tmp_path: Path, kind: str, filters: Any, named: dict[str, Any]) -> None:
    values = {"string": "x", "bool": True, "date32": datetime.date(2024, 1, 1), "decimal": decimal.Decimal(1)}
    stored = pa.array([values.get(kind, 1), None] * 10, None if kind in values else pa.type_for_alias(kind))
    pq.write_table(pa.table({"x": stored, "id": range(20)}), tmp_path / "n.parquet", version="1.0", **named)
    check(lambda pd: _read_x(pd, tmp_path, filters), native=None)


def _read_x(pd: Any, folder: Path, filters: Any) -> Any:
    frame = pd.read_parquet(folder / "n.parquet", filters=filters)
    return frame, repr(frame["x"].tolist()), frame["x"].isna().sum()
