"""pandas functions that raise for some values, which occur only in rows that a filter or a condition has excluded.

The engine merges filters, and computes both branches of a condition for all rows. A value in a row that pandas does not compute
must not make the program fail, nor change the result of another row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import case_id, check_sources

DATA = pandas.DataFrame(
    {
        "text": ["1", "x", "3", "44", None, "7kg"] * 3,
        "ok": [True, False, True, True, False, False] * 3,
        "key": [1, 2, 1, 1, 2, 2] * 3,
        "big": [2**60 + 1, 3, 2**61 + 1, 5, 6, 2**53 + 1] * 3,
        "zoned": pandas.to_datetime(["2016-03-26 02:30"] * 5 + ["2016-03-27 01:30"]).tolist() * 3,
    }
)


def _filtered_twice(pd: Any, df: Any) -> Any:
    numbers = df[df.ok]
    return numbers[numbers.text.astype(int) > 1]


def _filtered_twice_then_summed(pd: Any, df: Any) -> Any:
    numbers = df[df.ok]
    return numbers[numbers.text.astype(int) > 1].key.sum()


def _column_of_filtered(pd: Any, df: Any) -> Any:
    numbers = df[df.ok]
    numbers["n"] = numbers.text.astype(int)
    return numbers[numbers.n > 1].groupby("key").n.sum()


def _joined_then_filtered(pd: Any, df: Any) -> Any:
    numbers = df[df.ok]
    numbers = numbers.assign(n=pd.to_numeric(numbers.text))
    both = numbers.merge(numbers, on="key")
    return both[both.n_x > 1].n_y.sum()


def _condition(pd: Any, df: Any) -> Any:
    present = df[df.text.notna()]
    numbers = present.text.str.replace("kg", "").str.replace("x", "0").astype(int)
    return numbers.where(present.text.str.endswith("kg"), numbers * 2)


def _condition_on_filtered(pd: Any, df: Any) -> Any:
    present = df[df.ok]
    numbers = present.text.astype(int)
    return numbers.where(present.key > 1, numbers * 2), numbers.mask(numbers > 3, 0).sum(), (numbers + 1)[numbers > 2]


def _nested_conditions(pd: Any, df: Any) -> Any:
    numbers = df.text.fillna("5").str.replace("x", "7").str.replace("kg", "").astype(int)
    chosen = numbers.where(df.ok, -1)
    return chosen.where(df.text.str.len() > 1, numbers * 3).where(df.key > 1, chosen + 1)


def _filled_then_cast(pd: Any, df: Any) -> Any:
    numbers = df.text.where(df.ok).fillna("5").astype(int)
    return numbers.where(df.key > 1, numbers * 2), numbers.mask(df.key > 1)


def _integers_that_floats_do_not_hold(pd: Any, df: Any) -> Any:
    powers = df.big**1
    return powers.where(df.ok, 0), powers.where(df.ok, powers + 1)


def _dates(pd: Any, df: Any) -> Any:
    days = df[df.ok].assign(day=lambda part: "2020-01-0" + part.text.str[0])
    stamps = pd.to_datetime(days.day)
    return stamps[stamps > "2020-01-01"], stamps.where(days.key > 1, stamps + pd.Timedelta("1D"))


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    _filtered_twice,
    _filtered_twice_then_summed,
    _column_of_filtered,
    _joined_then_filtered,
    _condition,
    _condition_on_filtered,
    _nested_conditions,
    _filled_then_cast,
    _integers_that_floats_do_not_hold,
    _dates,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=case_id)
def test_rows_that_were_taken_out_neither_raise_nor_count(program, tmp_path):
    check_sources(program, DATA, tmp_path)


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "datetime64[ns]"])
def test_what_a_kept_row_is_wrong_with_is_raised_in_the_call(dtype, tmp_path):
    check_sources(lambda pd, df: df[df.key > 1].text.astype(dtype) is None, DATA, tmp_path)


@pytest.mark.parametrize("step", [pandas.DateOffset(days=1), pandas.offsets.MonthEnd(), pandas.DateOffset(years=400)])
def test_a_calendar_step_to_no_point_in_time_is_raised_in_the_call(step, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        zoned = df.zoned.dt.tz_localize("Europe/Berlin", nonexistent="shift_forward")
        return (zoned + step) is None

    check_sources(program, DATA, tmp_path)


def test_the_first_batch_may_have_nothing_but_missing_values(tmp_path):
    """pandas converts a column of missing strings to datetimes without a time zone."""
    data = pandas.DataFrame({"iso": ["2020-01-01T00:00:00Z", "2019-01-01T00:00:00Z", None] * 5})

    def program(pd: Any, df: Any) -> Any:
        return df.assign(t=pd.to_datetime(df.iso)).sort_values("t"), pd.to_datetime(df[df.iso.isna()].iso, utc=True)

    check_sources(program, data, tmp_path)
    data.to_csv(tmp_path / "data.csv", index=False)
    check_sources(lambda pd, _: program(pd, pd.read_csv(tmp_path / "data.csv")), data, tmp_path)


def test_a_constant_beside_a_column(tmp_path):
    """A condition that is known to be true for all rows is a single value in the engine, not one value per row."""
    data = pandas.DataFrame({"e": pandas.array([1, 5, 9], dtype="int64[pyarrow]"), "s": ["a", "b", "c"]})

    def program(pd: Any, df: Any) -> Any:
        df = df.assign(one=1, text="z")
        present = df.e.notna()
        facts = [(df.e <= 3) | present, present & (df.e > 3), df.e.isna() ^ (df.e == 5), df.e == df.one]
        return facts, df[facts[0]], df.query("e <= 3 or e.notna()"), df.s.str.cat(df.text), df.one**df.e

    check_sources(program, data, tmp_path)
    check_sources(program, data.iloc[:0], tmp_path)
    check_sources(program, data.iloc[:1], tmp_path)


def test_many_values_that_raise():
    data = pandas.DataFrame({"s": [str(i) if i % 3 else f"bad{i}" for i in range(3000)]})

    def program(pd: Any, df: Any) -> Any:
        good = df[~df.s.str.startswith("bad")]
        return good[good.s.astype(int) > 1500].s.astype(np.int32).sum()

    from support import check

    check(program, data, native=None)
