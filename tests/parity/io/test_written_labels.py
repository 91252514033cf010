"""Files of tables that are not computed yet: the class and name of the row labels are the same as in pandas' files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

import craton
import craton.pandas

LABELS = {
    "named": pandas.Index(["a", "b"], name="k"),
    "integers": pandas.Index([1, 2]),
    "named integers": pandas.Index([1, 2], name="n"),
    "a range": pandas.RangeIndex(2),
    "times": pandas.DatetimeIndex(["2020-01-01", "2021-01-01"], name="t"),
    "truth values": pandas.Index([True, False]),
    "floats": pandas.Index([0.5, 1.5]),
    "mixed": pandas.Index(["a", 1]),
    "categories": pandas.CategoricalIndex(["x", "y"]),
    "named by a tuple": pandas.Index(["a", "b"], name=("x", 1)),
    "named by a number": pandas.Index(["a", "b"], name=3),
    "levels": pandas.MultiIndex.from_tuples([("a", "x"), ("b", "y")], names=["p", None]),
}
MADE: dict[str, Callable[[Any, Any], Any]] = {
    "merge": lambda pd, df: df.merge(df),
    "filter": lambda pd, df: df[df[df.columns[0]] > 0],
    "concat": lambda pd, df: pd.concat([df, df]),
    "concat without labels": lambda pd, df: pd.concat([df, df], ignore_index=True),
    "head": lambda pd, df: df.head(1),
    "sorted": lambda pd, df: df.sort_values(df.columns[1], ignore_index=True),
    "distinct": lambda pd, df: df.drop_duplicates(ignore_index=True),
    "groups": lambda pd, df: df.groupby(df.columns[0]).sum(),
    "groups and keys": lambda pd, df: df.groupby(df.columns[0], as_index=False).sum(),
    "numbered": lambda pd, df: df[df[df.columns[0]] > 0].reset_index(drop=True),
    "numbered by a name": lambda pd, df: df[df[df.columns[0]] > 0].reset_index(drop=True).rename_axis("q"),
}


def _read(pd: Any, made: Any, path: Path, kind: str, index: Any) -> Any:
    reader = f"read_{kind}"
    try:
        if kind == "feather":
            made.to_feather(path)
        else:
            made.to_parquet(path, index=index)
        files = [getattr(pandas, reader)(path), getattr(pd, reader)(path)]
        return [(repr(file.columns), repr(file.index), repr(file.dtypes), repr(file.values)) for file in files]
    except (ValueError, TypeError, KeyError) as error:
        return type(error).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labels", LABELS)
def test_labels_in_files(labels: str, tmp_path: Path) -> None:
    for name, make in MADE.items():
        for kind, index in (("parquet", None), ("parquet", True), ("parquet", False), ("feather", None)):
            results = []
            for pd in (pandas, craton.pandas):
                df = pd.DataFrame({"a": [1, 0, 2], "b": [2, 3, 1]})
                df.columns = LABELS[labels]
                with craton.option_context(small_rows=0):
                    results.append(_read(pd, make(pd, df), tmp_path / f"{name}.{kind}", kind, index))
            assert results[1] == results[0], (name, kind, index)


_TIMES = pandas.to_datetime(["2020-01-01", "2020-01-02 12:00", None, "2021-03-04"], format="ISO8601")

LABELS_WITH_DATES = {
    "dates": pandas.DatetimeIndex(_TIMES, name="i"),
    "dates with a zone": _TIMES.tz_localize("UTC"),
    "dates as a level": pandas.MultiIndex.from_arrays([_TIMES, [1, 2, 3, 4]]),
    "dates as the last level": pandas.MultiIndex.from_arrays([[1, 2, 3, 4], _TIMES], names=["a", "b"]),
    "categories as a level": pandas.MultiIndex.from_arrays([pandas.Categorical(_TIMES), [1, 2, 3, 4]]),
    "durations as a level": pandas.MultiIndex.from_arrays([_TIMES - pandas.Timestamp("2020"), [1, 2, 3, 4]]),
    "Arrow dates as a level": pandas.MultiIndex.from_arrays([_TIMES.astype("timestamp[us][pyarrow]"), [1, 2, 3, 4]]),
    "categories": pandas.CategoricalIndex(_TIMES),
    "floats as a level": pandas.MultiIndex.from_arrays([[1.0, 2.5, None, 4e20], [1, 2, 3, 4]]),
}

CSV_OPTIONS: list[dict[str, Any]] = [
    {},
    {"chunksize": 1},
    {"chunksize": 2},
    {"date_format": "%Y"},
    {"date_format": "%d.%m %H", "na_rep": "NA"},
    {"date_format": "%d,%m", "na_rep": "x,y"},
    {"date_format": "%Y", "na_rep": "q", "quoting": 2},
    {"date_format": "%Y", "index": False},
]


@pytest.mark.parametrize("labels", LABELS_WITH_DATES)
def test_csv_of_labels_with_dates(labels: str) -> None:
    table = pandas.DataFrame({"v": [1, 2, 3, 4], "d": _TIMES}, index=LABELS_WITH_DATES[labels])

    def program(pd: Any, frame: Any) -> Any:
        parts = [frame, frame.iloc[:1], frame.iloc[2:], frame[frame["v"] > 5]]
        return [part.to_csv(**options) for part in parts for options in CSV_OPTIONS]

    check(program, table, native=None)


def test_csv_of_many_labels_with_dates() -> None:
    days = pandas.date_range("1970-01-01", periods=120_000, freq="D", unit="s").to_series().reset_index(drop=True)
    days.iloc[-1] += pandas.Timedelta("1h")  # pandas then writes the time of day of all labels
    table = pandas.DataFrame({"v": range(len(days))}, index=pandas.MultiIndex.from_arrays([days, range(len(days))]))
    check(lambda pd, frame: frame[frame["v"] != 3].to_csv().splitlines(), table, native=None)


@pytest.mark.parametrize(
    "level", [pandas.Index([1, 2]), pandas.Index([True, False]), pandas.Index([1, 2], dtype="uint8")], ids=str
)
def test_levels_that_cannot_hold_their_missing_labels(level: pandas.Index) -> None:
    index = pandas.MultiIndex(levels=[level, [1, 2, 3]], codes=[[-1, 0, 1], [0, 1, 2]], names=["a", "b"])
    table = pandas.DataFrame({"v": [1, 2, 3]}, index=index)

    def program(pd: Any, frame: Any) -> Any:
        results = []
        for part in (frame, frame.iloc[1:], frame[frame["v"] > 1], frame.sort_values("v", ascending=False).head(2)):
            reset = part.reset_index()
            results += [part.to_csv(), part.to_csv(chunksize=1), reset, part.index, part.groupby(level="a")["v"].sum()]
            results.append(reset["a"].sum() if level.dtype != bool else reset["a"].count())
        return results

    check(program, table, native=None)


def test_partitions_of_labels_whose_name_is_no_text(tmp_path: Path) -> None:
    table = pandas.DataFrame({"a": [1, 2], "b": [3, 4]}, index=pandas.Index([5, 6], name=np.nan))
    check(lambda pd, frame: frame.to_parquet(tmp_path / "x", partition_cols=["a"]), table, native=None)
    check(lambda pd, frame: frame.to_parquet(tmp_path / "x"), table, native=None)
    assert not (tmp_path / "x").exists()
