"""pandas' errors and warnings in calls that Craton first tries on small stand-ins for the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pandas
import pytest
from support import check, outcome, to_craton

import craton
import craton.pandas

TIMES = pandas.Series(pandas.date_range("2024-03-29 01:00", periods=6, freq="5h"))
FRAME = pandas.DataFrame(
    {
        "t": TIMES,
        "utc": TIMES.dt.tz_localize("UTC"),
        "zone": TIMES.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"),
        "arrow": TIMES.astype("timestamp[us][pyarrow]"),
        "arrow_zone": TIMES.astype("timestamp[us, Europe/Berlin][pyarrow]"),
        "f": [1.0, 2.0, None, 4.0, 5.0, 6.0],
    }
)

DAY = "2024-03-30"  # ``@DAY``


@pytest.mark.parametrize("column", ["t", "utc", "zone", "arrow", "arrow_zone"])
@pytest.mark.parametrize("text", ["'2024-03-30'", "'2024-03-30 00:00+02:00'", "@DAY", "'no date'"])
@pytest.mark.parametrize("op", ["<", ">=", "==", "!="])
def test_times_and_texts_in_expressions(column: str, op: str, text: str) -> None:
    """pandas parses a text as a datetime without a time zone, which cannot be compared with datetimes that have one."""

    def one(_: Any, df: Any) -> Any:
        return df.query(f"{column} {op} {text}")["f"].sum()

    def other(_: Any, df: Any) -> Any:
        return df.eval(f"{text} {op} {column}").sum()

    def of_labels(_: Any, df: Any) -> Any:
        return df.set_index(column).query(f"index {op} {text}")["f"].sum()

    for program in (one, other, of_labels):
        check(program, FRAME, native=None)


@pytest.mark.parametrize("column", ["t", "zone", "arrow", "arrow_zone"])
@pytest.mark.parametrize("method", ["tz_localize", "tz_convert"])
@pytest.mark.parametrize("zone", ["No/Such", "utc", "EST", "+02:00", ""])
def test_zones_that_there_are_not(column: str, method: str, zone: str) -> None:
    def program(_: Any, df: Any) -> Any:
        result = getattr(df[column].dt, method)(zone)
        return str(result.dtype) if zone == "No/Such" else result  # pandas cannot print Arrow times with such a zone

    check(program, FRAME, native=None)


def test_a_dtype_of_no_zone() -> None:
    check(lambda _, df: str(df["arrow"].astype("timestamp[us, No/Such][pyarrow]").dtype), FRAME, native=None)


TWICE: dict[str, Callable[[Any, Any], Any]] = {
    "a pattern that Arrow refuses": lambda pd, df: df["s"].str.contains(r"(a)\1"),
    "a pattern with a group": lambda pd, df: df["s"].str.contains("(a)"),
    "a part that spans have not": lambda pd, df: df["d"].dt.weekday,
    "a part under its old name": lambda pd, df: df["t"].dt.weekday,
}


@pytest.mark.parametrize("program", TWICE)
def test_warned_once(program: str) -> None:
    """If a call on a stand-in warns and then raises, the call falls back to pandas, which gives the warning."""
    data = pandas.DataFrame(
        {
            "s": pandas.Series(["aa", "b", None], dtype="string[pyarrow]").astype("large_string[pyarrow]"),
            "d": pandas.Series(pandas.to_timedelta([1, 2, None], unit="h")).astype("duration[us][pyarrow]"),
            "t": TIMES[:3].astype("timestamp[us][pyarrow]"),
        }
    )
    heard = []
    for module, frame in ((pandas, data), (craton.pandas, to_craton(data))):
        with craton.option_context(small_rows=0), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            outcome(TWICE[program], module, [frame])
        heard.append([(one.category, str(one.message)) for one in told])
    assert heard[0] == heard[1]
    check(TWICE[program], data, native=None)


GAP = pandas.Series(pandas.to_datetime(["2024-03-31 02:30", "2024-10-27 02:30", None, "2262-04-11 20:30"]))
ZONED = GAP.dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")
ARROW_ZONED = ZONED.astype("timestamp[ns, Europe/Paris][pyarrow]")
TIMES_THAT_FAIL = {
    "nanoseconds": GAP.astype("datetime64[ns]"),
    "microseconds": GAP,
    "zone": pandas.Series(pandas.to_datetime(["2024-03-31 00:30", "2024-10-27 00:30"]))
    .dt.tz_localize("UTC")
    .dt.tz_convert("Europe/Paris"),
    "arrow": GAP.astype("timestamp[us][pyarrow]"),
    "arrow nanoseconds": GAP.astype("timestamp[ns][pyarrow]"),
    "arrow zone": ARROW_ZONED,
    "arrow zone, microseconds": ARROW_ZONED.astype("timestamp[us, Europe/Paris][pyarrow]"),
}
"""Times of which some do not exist in a time zone, are ambiguous in it, or leave the range of their unit when rounded."""

METHODS: dict[str, Callable[[Any], Any]] = {
    "localize": lambda dates: dates.tz_localize("Europe/Paris"),
    "localize, shifted": lambda dates: dates.tz_localize("Europe/Paris", nonexistent="shift_forward"),
    "localize, NaT": lambda dates: dates.tz_localize("Europe/Paris", ambiguous="NaT", nonexistent="NaT"),
    "localize to UTC": lambda dates: dates.tz_localize("UTC"),
    "local": lambda dates: dates.tz_localize(None),
    "convert": lambda dates: dates.tz_convert("Europe/Paris"),
    "floor": lambda dates: dates.floor("2h"),
    "ceil": lambda dates: dates.ceil("400D"),
    "round": lambda dates: dates.round("1h"),
    "normalize": lambda dates: dates.normalize(),
    "unit": lambda dates: dates.as_unit("ns"),
    "text": lambda dates: dates.strftime("%Y %H"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("times", TIMES_THAT_FAIL)
def test_rows_fail_at_the_call(times: str, method: str) -> None:
    """The call raises the error, even if the program never reads the result."""

    check(lambda _, series: METHODS[method](series.dt) is None, TIMES_THAT_FAIL[times], native=None)
    check(lambda _, series: METHODS[method](series.dt), TIMES_THAT_FAIL[times], native=None)


WARNED: dict[str, Callable[[Any, Any], Any]] = {
    "JSON lines of dates": lambda pd, df: df[["t"]].to_json(orient="records", lines=True),
    "JSON lines of spans": lambda pd, df: df[["d"]].to_json(orient="records", lines=True),
    "JSON lines below dates": lambda pd, df: df[["t", "i"]].set_index("t").to_json(orient="records", lines=True),
    "JSON lines of no rows": lambda pd, df: df[df["i"] > 9].to_json(orient="records", lines=True),
    "JSON lines with a format": lambda pd, df: df.to_json(orient="records", lines=True, date_format="iso"),
    "eval in place": lambda pd, df: (df.eval("z = i + 1", inplace=True), df["z"].sum())[1],
    "eval in place of a wrong length": lambda pd, df: df.eval("z = [1, 2]", inplace=True),
    "query in place": lambda pd, df: (df.query("i > 1", inplace=True), len(df))[1],
}


@pytest.mark.parametrize("program", WARNED)
def test_warnings_are_given_once(program: str) -> None:
    data = pandas.DataFrame({"t": TIMES[:3], "d": pandas.to_timedelta([1, 2, 3]), "i": [1, 2, 3]})
    heard = []
    for module, frame in ((pandas, data.copy()), (craton.pandas, to_craton(data))):
        with craton.option_context(small_rows=0), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result, error = outcome(WARNED[program], module, [frame])
        heard.append(
            [result, type(error), str(error), [(one.category, str(one.message), one.filename) for one in told]]
        )
    assert heard[0] == heard[1]


@pytest.mark.parametrize(
    "text",
    [
        "i > 1 and\n i < 3",
        "i > 1\ni < 3",
        "\n i > 1 \n",
        "(i > 1\n)",
        "i > 1 and \\\n i < 3",
        "\n",
        "i > 1\n\n",
        "i\r>1",
        "i\v>1",
    ],
)
def test_expressions_in_several_lines(text: str) -> None:
    data = pandas.DataFrame({"i": [1, 2, 3]})
    check(lambda _, df: df.query(text), data, native=None)
    check(lambda _, df: df.eval(text), data, native=None)
