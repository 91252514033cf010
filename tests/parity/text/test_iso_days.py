"""Days such as ``2020-02-29``, parsed from the bytes of the kernel's views of texts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas
import polars as pl
import pytest
from support import check

from craton.pandas.values.times.iso_days import days_of

ALPHABET = "0123456789-/:. aZ\0é\x7f\x80Ā"


def day(text: str) -> int | None:
    """The day of a text with all digits; None if the calendar does not have it."""
    digits = text[:4] + text[5:7] + text[8:]
    if len(text.encode()) != 10 or text[4:8:3] != "--" or not (digits.isascii() and digits.isdigit()):
        return None
    try:
        return int((np.datetime64(text) - np.datetime64("1970-01-01")).astype(int))
    except ValueError:
        return None


def test_every_day() -> None:
    days = np.arange("0000-01-01", "10000-01-01", dtype="M8[D]")
    found = days_of(pl.Series(days.astype(str)))
    assert found is not None
    assert (found == days.astype(int)).all()


def test_texts_that_are_almost_days() -> None:
    chosen = random.Random(17)
    accepted = 0
    for _ in range(20_000):
        text = f"{chosen.randrange(10_000):04}-{chosen.randrange(15):02}-{chosen.randrange(34):02}"
        for _ in range(chosen.choice([0, 0, 1, 2])):
            place = chosen.randrange(10)
            text = text[:place] + chosen.choice(ALPHABET) + text[place + 1 :]
        text = text[: chosen.choice([10, 10, 10, 9, 0])]
        expected = day(text)
        for texts in ([text], ["2020-02-29", text], [text, "x" * 30]):
            found = days_of(pl.Series(texts))
            wanted = [day(one) for one in texts]
            assert (None if found is None else found.tolist()) == (None if None in wanted else wanted), texts
        accepted += expected is not None
    assert accepted > 5_000


def test_parts_of_columns() -> None:
    texts = pl.Series(["2020-01-01", "2021-02-03"] * 100)
    chunks = pl.concat([texts, texts], rechunk=False)
    assert days_of(texts.slice(3, 3)).tolist() == [18661, 18262, 18661]  # type: ignore[union-attr]
    assert days_of(chunks.slice(150, 100)).tolist() == [18262, 18661] * 50  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "last", ["2020-02-29", "2021-02-29", "0999-12-31", "1000-01-01", "9999-12-31", None, "2020-1-01", ""]
)
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_of_text(last: str | None, unit: str) -> None:
    data = pandas.DataFrame(
        {"t": pandas.Series(["2020-01-31", "1999-12-31", None, "2020-01-31", last], dtype="str"), "n": range(5)}
    )

    def program(pd: Any, a: Any) -> Any:
        a["d"] = pd.to_datetime(a["t"])
        look = a["d"].max()
        late = a[a["d"] >= "2000-01-01"]
        a.loc[0, "t"] = "2022-03-04"
        a["e"] = pd.to_datetime(a["t"], format="%Y-%m-%d", utc=True)
        return look, late, a, a["d"].dt.year.sum()

    check(program, data, native=None)
    check(lambda pd, a: a["t"].astype(f"datetime64[{unit}]"), data, native=None)
    check(lambda pd, a: pd.to_datetime(a["t"], errors="coerce"), data, native=None)
