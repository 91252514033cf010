"""``to_datetime`` in formats of fixed width: parsed from bytes if all texts have the full width, and otherwise by pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.pandas.values.times.fixed_dates import microseconds

FORMATS = [
    "%m/%d/%Y %H:%M",
    "%d/%b/%Y:%H:%M:%S %z",
    "%d.%m.%Y",
    "%b %d, %Y",
    "%H:%M:%S on %Y/%m/%d",
    "%d-%b-%Y %H",
]


def texts(format: str, rows: int = 400) -> pandas.Series:
    rng = np.random.default_rng(7)
    times = pandas.Timestamp("1890-03-01") + pandas.to_timedelta(rng.integers(0, 200 * 365 * 86_400, rows), unit="s")
    found = pandas.Series(times.strftime(format.replace("%z", "+0000")), dtype="str")
    return found.where(rng.random(rows) > 0.05)


def program(pd: Any, s: Any, **options: Any) -> Any:
    """Parses texts, changes them, and parses them again."""
    dates = pd.to_datetime(s, **options)
    years = dates.dt.year.sum()
    s[:] = s.iloc[0]
    again = pd.to_datetime(s[s.notna()], **options)
    return dates, years, again.nunique(), len(again)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("options", [{}, {"utc": True}, {"errors": "coerce"}], ids=str)
def test_dates_of_full_width(format, options):
    rows = texts(format)
    check(lambda pd, s: program(pd, s, format=format, **options), rows, native=None)


@pytest.mark.parametrize(
    "odd",
    [
        "1/12/2023 10:30",
        "01/2/2023 010:3",
        "13/12/2023 10:30",
        "02/29/2023 10:30",
        "02/30/2024 10:30",
        "02/29/2024 24:30",
        "02/29/2024 23:60",
        "02-29-2024 23:50",
        "02/29/2024  3:50",
        "00/29/2024 23:50",
        "02/00/2024 23:50",
        "02/29/0999 23:50",
        "02/28/0001 23:50",
        "02/29/2024 23:5x",
        "٠٢/29/2024 3:50",
        "",
    ],
)
@pytest.mark.parametrize("errors", ["raise", "coerce"])
def test_other_texts_are_left_to_pandas(odd, errors):
    rows = texts("%m/%d/%Y %H:%M", 50).fillna("02/29/2024 23:59")
    rows[17] = odd
    check(lambda pd, s: program(pd, s, format="%m/%d/%Y %H:%M", errors=errors), rows, native=None)


@pytest.mark.parametrize(
    "odd", ["01/JAN/2020:10:00:00 +0000", "01/Jax/2020:10:00:00 +0000", "01/Jan/2020:10:00:00 +0130"]
)
@pytest.mark.parametrize("utc", [True, False])
def test_other_months_and_offsets_are_left_to_pandas(odd, utc):
    rows = texts("%d/%b/%Y:%H:%M:%S %z", 50)
    rows[17] = odd
    check(lambda pd, s: program(pd, s, format="%d/%b/%Y:%H:%M:%S %z", utc=utc), rows, native=None)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("%m/%d/%Y", "02/29/2024"),
        ("%Y%m%d", None),
        ("%y-%m-%d", None),
        ("%d/%m", None),
        ("%d %m %Y %m", None),
        ("%d/%m/%Y 00", None),
        ("%d/%m/%Y %p", None),
        ("%d/%m/%Y%", None),
        ("%d\u2009%m %Y", None),
    ],
)
def test_formats_with_one_reading(format, text):
    import pyarrow as pa

    shown = text or pandas.Timestamp("2024-02-01").strftime(format)
    array = pa.array([shown] * 3, pa.large_string()).slice(1)
    found = microseconds(array, format, len(shown.encode()))
    if text is None:
        assert found is None
    else:
        assert (found.view("datetime64[us]") == np.datetime64("2024-02-29", "us")).all()
