"""Dates, durations and numbers from text: every format, odd texts among the usual ones, and columns that repeat their values."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, same

import craton.pandas

DAYS = pandas.Series(pandas.date_range("1999-12-30", periods=40, freq="17D"))
TIMES = pandas.Series(pandas.date_range("1999-12-30 23:59:57.25", periods=40, freq="5h7min11s", unit="us"))
FORMATS = {
    "%Y-%m-%d": DAYS,
    "%Y/%m/%d": DAYS,
    "%d/%m/%Y": DAYS,
    "%m/%d/%Y": DAYS,
    "%Y%m%d": DAYS,
    "%d-%b-%Y": DAYS,
    "%Y-%m-%d %H:%M": TIMES,
    "%Y-%m-%d %H:%M:%S": TIMES,
    "%Y-%m-%dT%H:%M:%S": TIMES,
    "%Y-%m-%dT%H:%M:%S.%f": TIMES,
    "%Y-%m-%d %H:%M:%S.%f": TIMES,
    "%H:%M:%S": TIMES,
}
#: Texts of which pandas accepts some: missing values in words, missing digits, blanks, other separators, impossible dates.
ODD = [
    None,
    "",
    "NaT",
    "nan",
    "N/A",
    "2020-02-30",
    "2020-2-3",
    " 2020-02-03",
    "2020-02-03 ",
    "0999-01-01",
    "9999-12-31",
    "2020-02-03Z",
    "2020-02-03T04:05",
    "2020-02-03 04:05:06+01:00",
    "2020-02-03 04:05:60",
    "2020-02-03 24:00",
    "2020-02-03T04:05:06.123456789",
    "20200203",
    "03/02/2020",
    "today?",
    "1677-09-21",
    "2263-01-01",
    "２020-02-03",
]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _texts(format: str, repeats: int, odd: str | float | None = 0.0) -> pandas.Series:
    texts = FORMATS[format].dt.strftime(format).tolist()
    if odd != 0.0:
        texts[7] = odd
    return pandas.Series(texts * repeats, dtype="str", name="when")


@pytest.mark.parametrize("repeats", [1, 60])
@pytest.mark.parametrize("format", FORMATS)
def test_dates_of_every_format(format: str, repeats: int) -> None:
    def program(pd: Any, texts: Any) -> Any:
        given = pd.to_datetime(texts, format=format)
        guessed = pd.to_datetime(texts)
        days = pd.to_datetime(texts, dayfirst=True, errors="coerce", utc=True)
        return given, guessed, days, given.dt.year.sum(), given[given > given.min()], given.isna().sum()

    check(program, _texts(format, repeats), native=None)
    check(program, _texts(format, repeats, None), native=None)


@pytest.mark.parametrize("repeats", [1, 60])
@pytest.mark.parametrize("odd", ODD)
def test_odd_texts_among_dates(odd: str | None, repeats: int) -> None:
    for format, errors in itertools.product(["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y", None], ["raise", "coerce"]):

        def program(pd: Any, texts: Any, format: Any = format, errors: Any = errors) -> Any:
            return pd.to_datetime(texts, format=format, errors=errors)

        check(program, _texts(format or "%Y-%m-%d", repeats, odd), native=None)
    for dtype in ("datetime64[us]", "datetime64[ns]", "datetime64[ms, UTC]"):

        def cast(pd: Any, texts: Any, dtype: Any = dtype) -> Any:
            return texts.astype(dtype)

        check(cast, _texts("%Y-%m-%d", repeats, odd), native=None)


def test_a_file_of_dates(tmp_path: Any) -> None:
    path = tmp_path / "dates.parquet"
    frame = pandas.DataFrame({name: _texts(name, 100) for name in FORMATS})
    frame["n"] = range(len(frame))
    frame.to_parquet(path)
    for format in FORMATS:

        def program(pd: Any, format: str = format) -> Any:
            df = pd.read_parquet(path)
            df["when"] = pd.to_datetime(df[format], format=format)
            late = df[df["n"] > 100]
            return late[["when", "n"]], late.groupby(late["when"].dt.year)["n"].sum()

        check(program, native=None)


def test_the_argument_is_changed_after_the_call() -> None:
    def program(pd: Any, texts: Any) -> Any:
        dates = pd.to_datetime(texts)
        numbers = pd.to_numeric(texts.str.slice(0, 4))
        texts.iloc[3] = "2031-01-01"
        return dates, numbers, pd.to_datetime(texts), texts

    check(program, _texts("%Y-%m-%d", 100), native=None)


@pytest.mark.parametrize("errors", ["raise", "coerce"])
@pytest.mark.parametrize("repeats", [1, 100])
@pytest.mark.parametrize(
    "last",
    ["7", "7.5", "", "nan", "x", None, "18446744073709551615", "-9223372036854775809", "1e400", "True", " 8 ", "0x10"],
)
def test_numbers_from_text(last: str | None, repeats: int, errors: str) -> None:
    data = pandas.Series([*map(str, range(20)), last] * repeats, dtype="str", name="n")

    def program(pd: Any, texts: Any) -> Any:
        numbers = pd.to_numeric(texts, errors=errors)
        return numbers, numbers.sum(), numbers[numbers > 3], numbers.dtype.name

    check(program, data, native=None)


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "float32"])
def test_functions_of_numpy_on_data_in_memory(dtype: str) -> None:
    data = pandas.DataFrame({"x": np.arange(300_000) % 7, "y": np.arange(300_000) % 11}).astype(dtype)

    def program(pd: Any, df: Any) -> Any:
        high = np.maximum(df["x"], df["y"])
        logs = np.log(df["x"] + 1)
        df["z"] = np.where(high > 3, logs, np.sqrt(df["y"]))
        df.loc[0, "x"] = 5
        return high, logs, np.exp(df), df["z"].sum(), np.round(df["z"], 2)

    check(program, data, native=None)
    same(program(craton.pandas, craton.pandas.DataFrame(data)), program(pandas, data.copy()))


@pytest.mark.parametrize("errors", ["raise", "coerce"])
@pytest.mark.parametrize("day", [3, 31, 0, -1, 100, 10**12])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "float64", "Int64", "str"])
def test_dates_from_columns(dtype: str, day: int, errors: Any) -> None:
    days = [1, 2, day] if abs(day) < 2**15 or dtype in ("int64", "float64") else [1, 2, 3]
    data = pandas.DataFrame({"month": [1, 12, 2], "year": [2020, 1999, 2024], "day": days}).astype(dtype)

    def program(pd: Any, df: Any) -> Any:
        dates = pd.to_datetime(df[["year", "month", "day"]], errors=errors)
        zoned = pd.to_datetime(df, errors=errors, utc=True)
        df["date"] = dates
        df["day"] = 1
        return dates, zoned, df, dates.dt.year.sum(), df[df["date"] > "2020-01-01"]

    check(program, data, native=None)
    check(program, data.head(0), native=None)


def test_dates_from_columns_are_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        df["date"] = pd.to_datetime(df[["year", "month", "day"]])
        return df, df.groupby(df["date"].dt.month)["day"].sum()

    check(program, pandas.DataFrame({"year": [2020, 2021], "month": [2, 2], "day": [29, 1]}))
    check(lambda pd, df: pd.to_datetime(df), pandas.DataFrame({"year": [2020], "month": [2]}), native=None)
    more = pandas.DataFrame({"year": [2020], "month": [2], "day": [3], "hour": [4]})
    check(lambda pd, df: pd.to_datetime(df), more, native=None)


@pytest.mark.parametrize("repeats", [1, 1000])
def test_numbers_that_are_missing_are_filled(repeats: int) -> None:
    def program(pd: Any, texts: Any) -> Any:
        numbers = pd.to_numeric(texts, errors="coerce")
        return numbers.fillna(0), numbers.ffill(), numbers.dropna(), numbers.max(), numbers.sort_values(kind="stable")

    check(program, pandas.Series(["1.5", "x", "", "4"] * repeats, dtype="str"))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("format", ["%Y-%m", "%d.%m.%y %%H", "%A %j %b", "%H:%M", "%Y-%m-%d %S", "%-d", "%", "%q"])
def test_dates_as_text(format: str, unit: str) -> None:
    seconds = [1_600_000_000, 1_600_000_001, -1, -86_401, 0, 1_700_000_000, 260_000_000_000 if unit != "ns" else 1]
    factor = {"s": 1, "us": 10**6, "ns": 10**9}[unit]
    numbers = np.array([*(second * factor for second in seconds), np.iinfo("int64").min] * 400)
    column = pandas.Series(numbers.view(f"M8[{unit}]"), name="t")

    def program(pd: Any, t: Any) -> Any:
        texts = t.dt.strftime(format)
        return texts, t.dt.strftime(date_format=format).isna().sum(), texts[texts > "2"]

    check(program, column, native=None)
    check(program, column[column < "2200"].reset_index(drop=True), native=None)
