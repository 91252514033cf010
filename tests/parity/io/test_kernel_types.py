"""Files with Arrow types that the kernel does not support: pandas reads them, whichever columns are requested."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import case_id, check

ZONES = [
    "+00:00",
    "-00:00",
    "+14:00",
    "-12:00",
    "-05:00",
    "+05:30",
    "-03:30",
    "+05:45",
    "-00:30",
    "+15:00",
    "-23:00",
    "UTC",
]
WIDE = pa.array([decimal.Decimal("1.25"), None], pa.decimal256(50, 2))
POINTS = pa.array([0, None], pa.int64()).cast(pa.timestamp("us", "+05:30"))
COLUMNS = {
    "decimal256": WIDE,
    "narrow decimal256": WIDE.cast(pa.decimal256(10, 2)),
    "list": pa.array([[decimal.Decimal(1)], None], pa.list_(WIDE.type)),
    "large list": pa.array([[decimal.Decimal(1)], None], pa.large_list(WIDE.type)),
    "fixed list": pa.array([[decimal.Decimal(1)], None], pa.list_(WIDE.type, 1)),
    "struct": pa.array([{"x": decimal.Decimal(1)}, None], pa.struct([("x", WIDE.type)])),
    "deep": pa.array([[{"x": decimal.Decimal(1)}], None], pa.list_(pa.struct([("x", WIDE.type)]))),
    "map": pa.array([[("k", decimal.Decimal(1))], None], pa.map_(pa.string(), WIDE.type)),
    "points in a list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), POINTS),
    "points in a struct": pa.StructArray.from_arrays([POINTS], ["x"]),
    "points in a dictionary": POINTS.dictionary_encode(),
    "lists in a dictionary": pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array([[1]])),
    "no lists in a dictionary": pa.DictionaryArray.from_arrays(
        pa.nulls(2, pa.int8()), pa.array([], pa.list_(pa.int64()))
    ),
    "intervals": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "list view": pa.array([[1], None], pa.list_view(pa.int64())),
    "list of list views": pa.array([[[1]], None], pa.list_(pa.list_view(pa.int64()))),
}


def read(read_it: Any) -> Any:
    """A program that reads one column, all columns, and the dtypes; values are compared by their text."""

    def program(pd: Any) -> Any:
        found = []
        for ask in (
            lambda: read_it(pd, columns=["id"])["id"].sum(),
            lambda: read_it(pd)["id"].tolist(),
            lambda: repr(read_it(pd)["x"].tolist()),
            lambda: read_it(pd).isna(),
            lambda: repr(read_it(pd, dtype_backend="pyarrow").dtypes.tolist()),
        ):
            try:
                found.append(ask())
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found

    return program


def check_files(folder: Path, table: pa.Table) -> None:
    for named in ({}, {"store_schema": False}):
        try:
            pq.write_table(table, folder / "a.parquet", **named)
        except pa.ArrowNotImplementedError:
            break
        check(read(lambda pd, **asked: pd.read_parquet(folder / "a.parquet", **asked)), native=None)
        check(
            read(lambda pd, **asked: pd.read_parquet(folder / "a.parquet", filters=[("id", ">", 1)], **asked)),
            native=None,
        )
    if any("view" in str(field.type) for field in table.schema):
        return  # pyarrow itself crashes the process
    with pa.ipc.new_file(str(folder / "a.feather"), table.schema) as writer:
        writer.write_table(table)
    check(read(lambda pd, **asked: pd.read_feather(folder / "a.feather", **asked)), native=None)


@pytest.mark.parametrize("rows", [2, 0])
@pytest.mark.parametrize("name", COLUMNS)
def test_types(tmp_path: Path, name: str, rows: int) -> None:
    check_files(tmp_path, pa.table({"x": COLUMNS[name], "id": [1, 2]}).slice(0, rows))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ZONES)
def test_zones(tmp_path: Path, zone: str, unit: str) -> None:
    points = pa.array([0, 1_718_000_000_000], pa.int64()).cast(pa.timestamp(unit, zone))
    check_files(tmp_path, pa.table({"x": points, "id": [1, 2]}))


@pytest.mark.parametrize("offset", ["+05:30", "-03:30", "+05:00"])
def test_zones_that_pandas_writes(tmp_path: Path, offset: str) -> None:
    frame = pandas.DataFrame({"t": pandas.to_datetime([f"2024-01-01T00:00:00{offset}"])})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_feather(tmp_path / "a.feather")
    check(lambda pd: pd.read_parquet(tmp_path / "a.parquet")["t"].dt.hour, native=None)
    check(lambda pd: pd.read_feather(tmp_path / "a.feather")["t"].dt.hour, native=None)


@pytest.mark.parametrize("backend", [None, {}, [], "arrow", "pyarrow", pandas.api.extensions.no_default], ids=case_id)
def test_backends_of_feather(tmp_path: Path, backend: Any) -> None:
    pandas.DataFrame({"i": [1, 2]}).to_feather(tmp_path / "a.feather")
    check(lambda pd: pd.read_feather(tmp_path / "a.feather", dtype_backend=backend), native=None)
