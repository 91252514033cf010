"""Hive partitions of read_parquet against pandas: names of folders, and the folders that filters select."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import pandas
import pytest
from support import case_id, check

KEYS = {
    "integers": [1, 2],
    "negative": [-1, 2],
    "texts": ["x", "y"],
    "bools": [True, False],
    "floats": [0.5, 1.5],
    "whole floats": [1.0, 2.0],
    "32 bits": [2**31 - 1, -(2**31)],
    "33 bits": [2**31, 5],
    "64 bits": [2**40, 5],
    "exponents": ["1e5", "2"],
    "infinite": ["inf", "1"],
    "nan": ["NaN", "1.5"],
    "null": ["null", "a"],
    "dates": ["2024-01-01", "2024-01-02"],
    "times": ["2024-01-01 10:00:00", "2024-01-02 11:30:00"],
    "hours": ["10:00", "11:00"],
    "months": ["2024-01", "2024-02"],
    "date and text": ["2024-01-01", "x"],
    "number and text": ["1", "x"],
    "zeros": ["01", "02"],
    "points": [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)],
    "days": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
    "odd": ["a b", "é%20+"],
    "equals": ["a=b", "c"],
    "one": ["a", "a"],
    "missing": ["x", None],
    "no number": [1.0, None],
}


def write(folder: Path, names: list[str], **columns: Any) -> Path:
    """Write a file into each folder."""
    for i, name in enumerate(names):
        (folder / name).mkdir(parents=True, exist_ok=True)
        pandas.DataFrame({"v": [i, i + 10], **columns}).to_parquet(folder / name / "a.parquet")
    return folder


def read(folder: Any, **named: Any) -> Any:
    """A program that reads a folder. It returns an error of the read as its result; later errors propagate."""

    def program(pd: Any) -> Any:
        try:
            frame = pd.read_parquet(folder, **named)
        except Exception as error:
            return type(error).__name__, str(error)
        return frame, repr([frame[name].dtype for name in frame]), len(frame)

    return program


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_keys(tmp_path: Path, keys: list[Any]) -> None:
    pandas.DataFrame({"v": range(4), "p": keys * 2}).to_parquet(tmp_path / "t", partition_cols=["p"])
    check(read(tmp_path / "t"), native=None)
    check(read(tmp_path / "t", columns=["v"]), native=None)
    check(lambda pd: pd.read_parquet(tmp_path / "t").groupby("p", observed=False)["v"].sum(), native=None)
    texts = [str(key) for key in keys]
    for operand in (keys[0], texts[0]):
        for symbol in ("==", "!=", ">=", "<"):
            check(read(tmp_path / "t", filters=[("p", symbol, operand)]), native=None)
    for operands in (keys, texts, keys[:1], texts[1:]):
        check(read(tmp_path / "t", filters=[("p", "in", operands)]), native=None)
    check(read(tmp_path / "t", filters=[("v", ">", 100)]), native=None)


@pytest.mark.parametrize(
    "name", ["integers", "negative", "32 bits", "texts", "bools", "floats", "dates", "times", "64 bits", "infinite"]
)
def test_what_is_planned(tmp_path: Path, name: str) -> None:
    keys = KEYS[name]
    pandas.DataFrame({"v": range(4), "p": keys * 2}).to_parquet(tmp_path / "t", partition_cols=["p"])
    stored = keys[0] if name in ("integers", "negative", "32 bits") else str(keys[0]).lower()
    check(lambda pd: pd.read_parquet(tmp_path / "t"))
    for entry in (("p", "==", stored), ("p", "in", [stored]), ("p", ">=", stored), ("v", "<", 2)):
        check(lambda pd, entry=entry: pd.read_parquet(tmp_path / "t", filters=[entry]))


FOLDERS = [
    *(["p=1", "p=2"], ["p=1", "."], ["p=1/q=x", "p=2/q=y"], ["p=1/q=x", "p=2"], ["q=1/p=2", "p=1/q=2"]),
    *(["p=__HIVE_DEFAULT_PARTITION__", "p=1"], ["p=1/q=__HIVE_DEFAULT_PARTITION__", "p=1/q=2"]),
    *(["a%20b=1", "a%20b=2"], ["a b=1", "a b=2"], ["é=1", "é=2"], ["p=a=b", "p=c"], ["x/p=1", "y/p=2"]),
    *(["p=1", "p=01"], ["p=1/p=2"], ["p=%7e", "p=~x"], ["p=%zz", "p=x"], ["p=0x10", "p=1"], ["p=+1", "p=2"]),
    *(["p=", "p=a"], ["p= 1", "p=2"], ["p=1_000", "p=1"], ["v=1", "v=2"], ["P=1", "p=2"], ["p=1", "q=1"]),
    *(["p=%E2%82%AC", "p=b"], ["p=%ff", "p=b"], ["p=a%2Fb", "p=b"], ["p=a%00b", "p=b"], ["=1", "=2"]),
]


@pytest.mark.parametrize("names", FOLDERS, ids=str)
def test_folders(tmp_path: Path, names: list[str]) -> None:
    write(tmp_path / "t", names)
    check(read(tmp_path / "t"), native=None)
    check(read(tmp_path / "t", columns=["v"]), native=None)
    check(read(tmp_path / "t", filters=[("v", ">", 5)]), native=None)
    check(read(tmp_path / "t", filters=[("p", "==", 1)]), native=None)
    check(read(tmp_path / "t", partitioning=None), native=None)


@pytest.mark.parametrize("above", ["year=2024", "v=7", "p=3", "day=2024-01-01", "a=b=c", "p=3/q=4"])
def test_folders_above(tmp_path: Path, above: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / above / "t", ["p=1", "p=2"])
    check(read(folder), native=None)
    check(read(tmp_path / above), native=None)
    check(read(tmp_path), native=None)
    check(read(folder, filters=[("p", "==", 2)]), native=None)
    monkeypatch.chdir(folder)
    check(read("."), native=None)
    check(read("p=1"), native=None)
    monkeypatch.chdir(folder.parent)
    check(read("t", filters=[("p", "in", [1, 2])]), native=None)


@pytest.mark.parametrize("keys", [[1, 2], ["a", "b"]], ids=str)
def test_folders_that_filters_leave(tmp_path: Path, keys: list[Any]) -> None:
    """The categories of a key are the values of all folders; there are none if no folder matches."""
    pandas.DataFrame({"v": range(4), "p": keys * 2}).to_parquet(tmp_path / "t", partition_cols=["p"])
    other = 3 if keys[0] == 1 else "c"
    for filters in (
        *([("p", "==", other)], [("p", "in", [other])], [("p", "!=", keys[0])], [("p", ">", other)], [("v", ">", 300)]),
        *(
            [("p", "==", keys[0]), ("p", "==", keys[1])],
            [("p", "==", keys[0]), ("v", "<", 0)],
            [("p", "==", other), ("v", "<", 1)],
        ),
        *([[("p", "==", other)], [("v", ">", 300)]], [[("p", "==", other)], [("p", "==", keys[0])]]),
    ):
        check(read(tmp_path / "t", filters=filters), native=None)
        check(read(tmp_path / "t", filters=filters, columns=["v"]), native=None)


@pytest.mark.parametrize(
    "named",
    [
        *({"dtype_backend": None}, {"dtype_backend": {}}, {"dtype_backend": "arrow"}, {"dtype_backend": []}),
        *({"use_nullable_dtypes": None}, {"use_nullable_dtypes": False}, {"nonsense": None}, {"engine": None}),
        *(
            {"engine": "fastparquet"},
            {"engine": ""},
            {"engine": ["pyarrow"]},
            {"partitioning": None},
            {"filters": None},
        ),
        *({"storage_options": None}, {"storage_options": {}}, {"filesystem": None}, {"to_pandas_kwargs": None}),
        *({"to_pandas_kwargs": {}}, {"columns": None}, {"memory_map": None}, {"schema": None}, {"use_threads": None}),
        *({"dtype_backend": pandas.api.extensions.no_default}, {"filters": pandas.api.extensions.no_default}),
    ],
    ids=case_id,
)
@pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")
def test_parameters(tmp_path: Path, named: dict[str, Any]) -> None:
    folder = write(tmp_path / "t", ["p=1", "p=2"])
    check(read(folder, **named), native=None)
    check(read(folder / "p=1" / "a.parquet", **named), native=None)


def test_integers_are_filtered_in_the_plan(tmp_path: Path) -> None:
    pandas.DataFrame({"v": range(4), "p": [1, 2] * 2}).to_parquet(tmp_path / "t", partition_cols=["p"])
    for entry in (("p", "==", 2), ("p", "in", [1, 3]), ("p", ">=", 2)):
        check(lambda pd, entry=entry: pd.read_parquet(tmp_path / "t", columns=["v"], filters=[entry]))


@pytest.mark.parametrize("moved", [1, 2])
@pytest.mark.parametrize("keys", [["2024-01-01", "é x"], [1, 2], ["a", "b"]], ids=str)
def test_files_that_are_moved_before_they_are_read(tmp_path: Path, keys: list[Any], moved: int) -> None:
    def program(pd: Any, filters: Any, columns: Any) -> Any:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        pandas.DataFrame({"v": range(4), "p": keys * 2}).to_parquet(tmp_path / "t", partition_cols=["p"])
        frame = pd.read_parquet(tmp_path / "t", filters=filters, columns=columns)
        for number, path in enumerate(sorted((tmp_path / "t").glob("*/*"))[:moved]):
            path.rename(tmp_path / f"moved{number}")
        return frame, frame["v"].sum(), frame[frame["v"] > 0].drop_duplicates("v")

    for filters in (None, [("p", "==", keys[0])], [("v", ">", 1)]):
        for columns in (None, ["v"]):
            check(lambda pd, f=filters, c=columns: program(pd, f, c), native=None)


def _months(folder: Path) -> Path:
    """A data set by year and month, whose folders are not in numeric order, with several files in a folder."""
    rows = pandas.DataFrame(
        {
            "v": range(240),
            "year": [2023, 2024] * 120,
            "month": [1, 2, 10, 12] * 60,
            "kind": ["a", "b", "c"] * 80,
            "day": pandas.date_range("2024-01-01", periods=240),
        }
    )
    for part in (rows.iloc[:100], rows.iloc[100:]):
        part.to_parquet(folder / "t", partition_cols=["year", "month"])
    return folder / "t"


STEPS = {
    "all": lambda pd, f: (f, f.dtypes, repr(f["year"].dtype), f["month"].cat.categories.dtype),
    "labels": lambda pd, f: (list(f.columns), f.index, f.attrs),
    "filter": lambda pd, f: f[f["year"] == 2024].groupby("kind")["v"].sum(),
    "two filters": lambda pd, f: (g := f[(f["year"] == 2023) & (f["month"].isin([1, 12]))], len(g), g["v"].sum()),
    "order": lambda pd, f: f[f["month"] != 1][["v", "month"]].head(7),
    "groups": lambda pd, f: f.groupby(["year", "month"], observed=True)["v"].agg(["sum", "count"]),
    "all groups": lambda pd, f: f[f["v"] < 3].groupby("month", observed=False)["v"].sum(),
    "numbers": lambda pd, f: (g := f.assign(y=f["year"].astype("int64")), g["y"].max(), g[g["y"] > 2023]["v"].mean()),
    "counts": lambda pd, f: f["month"].value_counts(),
    "text": lambda pd, f: f["month"].astype(str).str.len().sum(),
    "sorted": lambda pd, f: f.sort_values(["month", "v"]).tail(3),
    "merged": lambda pd, f: f.merge(pd.DataFrame({"year": [2024], "w": [1.5]}), on="year")["w"].sum(),
    "unique": lambda pd, f: f["year"].unique(),
    "dates": lambda pd, f: f[f["day"] >= "2024-05-01"].groupby("month", observed=True)["v"].max(),
    "written": lambda pd, f: pd.concat([f, f])["month"].dtype,
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(
    "named",
    [
        {},
        {"columns": ["month", "v", "year", "kind", "day"]},
        {"filters": [("year", "==", 2024), ("v", ">", 20)]},
        {"filters": [[("month", "in", [2, 10])], [("v", "<", 3)]]},
        {"dtype_backend": "numpy_nullable"},
        {"dtype_backend": "pyarrow"},
    ],
    ids=str,
)
def test_programs_over_years_and_months(tmp_path: Path, step: Any, named: dict[str, Any]) -> None:
    folder = _months(tmp_path)
    check(lambda pd: step(pd, pd.read_parquet(folder, **named)), native=None)


def test_years_and_months_are_planned(tmp_path: Path) -> None:
    folder = _months(tmp_path)
    got = check(lambda pd: pd.read_parquet(folder).query("v > 5")["v"].sum())
    assert got == sum(range(6, 240))
    check(lambda pd: pd.read_parquet(folder, filters=[("year", "==", 2024)])["v"].sum())
    check(lambda pd: pd.read_parquet(folder, columns=["year", "v"]).dtypes)


def test_lists_of_partitioned_files(tmp_path: Path) -> None:
    folder = _months(tmp_path)
    files = [str(path) for path in sorted(folder.rglob("*.parquet"))]
    for paths in (files, files[::-1], files[:1], files[2:5], [str(folder / "year=2023"), str(folder / "year=2024")]):
        check(read(paths), native=None)
        check(read(paths, filters=[("v", ">", 50)], columns=["v"]), native=None)
    check(read(folder / "year=2024"), native=None)
    check(read(folder / "year=2024" / "month=10"), native=None)
