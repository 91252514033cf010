"""Every dtype through plans and files: written, read again, selected, and counted, with rows and without."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import check, check_sources


def _arrow(items: list[Any], kind: pa.DataType) -> Any:
    return pandas.array(items, dtype=pandas.ArrowDtype(kind))


NOON = dt.datetime(2020, 2, 29, 12)
COLUMNS: dict[str, Any] = {
    "string[python]": pandas.array(["a", None], dtype="string[python]"),
    "string[pyarrow]": pandas.array(["a", None], dtype="string[pyarrow]"),
    "str": pandas.array(["a", None], dtype="str"),
    "object": np.array(["a", None], dtype=object),
    "objects": np.array([1, None], dtype=object),
    "bytes": np.array([b"a", b"b"], dtype=object),
    "Int8": pandas.array([1, None], dtype="Int8"),
    "boolean": pandas.array([True, None], dtype="boolean"),
    "float32": np.array([1, np.nan], dtype="float32"),
    "float16": np.array([1, 2], dtype="float16"),
    "category": pandas.Categorical(["a", None]),
    "category of numbers": pandas.Categorical([1, None]),
    "category of dates": pandas.Categorical(pandas.to_datetime(["2020", None])),
    "period": pandas.period_range("2020", periods=2, freq="M"),
    "interval": pandas.interval_range(0, 2),
    "time": np.array([dt.time(1), None], dtype=object),
    **{
        f"datetime64[{unit}]": pandas.array(["2020", None], dtype=f"datetime64[{unit}]")
        for unit in ("s", "ms", "us", "ns")
    },
    **{
        f"datetime64[{unit}, UTC]": pandas.array(["2020", None], dtype=f"datetime64[{unit}, UTC]")
        for unit in ("s", "ns")
    },
    **{
        f"timedelta64[{unit}]": pandas.array([1, None], dtype=f"timedelta64[{unit}]")
        for unit in ("s", "ms", "us", "ns")
    },
    "arrow string": _arrow(["a", None], pa.string()),
    "arrow large string": _arrow(["a", None], pa.large_string()),
    "arrow binary": _arrow([b"a", None], pa.binary()),
    "arrow int8": _arrow([1, None], pa.int8()),
    "arrow timestamp[s]": _arrow([NOON, None], pa.timestamp("s")),
    "arrow timestamp[ns, tz]": _arrow([NOON, None], pa.timestamp("ns", "Europe/Berlin")),
    "arrow duration[s]": _arrow([dt.timedelta(1), None], pa.duration("s")),
    "arrow date32": _arrow([dt.date(2020, 1, 1), None], pa.date32()),
    "arrow date64": _arrow([dt.date(2020, 1, 1), None], pa.date64()),
    "arrow time64": _arrow([dt.time(1), None], pa.time64("us")),
    "arrow decimal": _arrow([Decimal("1.5"), None], pa.decimal128(5, 2)),
    "arrow half float": _arrow([1, None], pa.float16()),
    "arrow null": _arrow([None, None], pa.null()),
    "arrow list": _arrow([[1], None], pa.list_(pa.int64())),
}
ROWS = {"two": slice(None), "one": slice(1), "missing": slice(1, 2), "none": slice(0)}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("name", COLUMNS)
def test_written_and_read_again(name, rows, tmp_path):
    data = pandas.DataFrame({"x": COLUMNS[name], "v": [1, 2]}).iloc[rows]
    path = tmp_path / "again.parquet"

    def program(pd: Any, df: Any) -> Any:
        found = []
        for part in (df, df[df.v > 1], df.sort_values("v", ascending=False), df.set_index("v")):
            part.to_parquet(path)
            found.append(pd.read_parquet(path))
        return found

    check_sources(program, data, tmp_path)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("arrow list", "arrow null", "period")])
def test_written_as_labels(name, tmp_path):
    data = pandas.DataFrame({"x": COLUMNS[name], "v": [1, 2]})
    if name != "float16":
        path = tmp_path / "again.parquet"

        def program(pd: Any, df: Any) -> Any:
            df.set_index("x").to_parquet(path)
            return pd.read_parquet(path), pd.read_parquet(path).v.sum()

        check(program, data, native=None)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("name", COLUMNS)
def test_counted_and_chosen(name, rows, tmp_path):
    data = pandas.DataFrame({"x": COLUMNS[name], "v": [1, 2]}).iloc[rows]

    def program(pd: Any, df: Any) -> Any:
        x = df[df.v > 0].x
        return df.count(), x.count(), x.isna(), x[x.notna()], df[df.x.isna()], pd.concat([df, df]).x.count()

    check_sources(program, data, tmp_path)


@pytest.mark.parametrize("name", COLUMNS)
def test_compression_is_that_of_the_other_writer(name, tmp_path):
    data = pandas.DataFrame({"x": COLUMNS[name]})

    def program(pd: Any, df: Any) -> Any:
        df.to_parquet(tmp_path / "z.parquet", compression="zstd", row_group_size=1)
        return pd.read_parquet(tmp_path / "z.parquet")

    check(program, data, native=None)


SECONDS = [2**62, 9223372036854775, 9223372036854776, -9223372036854776, 5]


@pytest.mark.parametrize("dtype", ["timedelta64[s]", "datetime64[s]", "datetime64[s, UTC]"])
@pytest.mark.parametrize("given", ["integers", "floats", "times"])
@pytest.mark.parametrize("seconds", SECONDS)
def test_seconds_that_milliseconds_cannot_count(seconds: int, given: str, dtype: str) -> None:
    """A plan counts milliseconds."""
    numbers = pandas.Series([seconds, 1, seconds], dtype="float64" if given == "floats" else "int64")
    plain = dtype.replace(", UTC", "")
    data = pandas.DataFrame(
        {
            "x": numbers.to_numpy().astype("int64").view(plain.replace("timedelta64", "m8").replace("datetime64", "M8"))
            if given == "times"
            else numbers
        }
    )

    def program(pd: Any, df: Any) -> Any:
        times = df["x"].astype(plain)
        if "UTC" in dtype:
            times = times.dt.tz_localize("UTC")
        both = df.assign(t=times)
        return times, both.sort_values("t"), times.max(), (times == times.max()).sum(), times.astype("int64").tolist()

    check(program, data, native=None)
