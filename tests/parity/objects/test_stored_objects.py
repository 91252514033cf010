"""Columns of files that pandas reads as Python objects: booleans with missing values, dates, decimals."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import check

TABLE = pa.table(
    {
        "k": [3, 1, 2, 1],
        "f": [1.5, None, 2.5, 0.5],
        "s": ["b", "a", None, "c"],
        "bool": pa.array([True, None, False, True]),
        "day": pa.array([dt.date(2020, 1, 1), None, dt.date(1999, 12, 31), dt.date(1, 1, 1)]),
        "dec": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal("0.00")], pa.decimal128(10, 2)),
        "cat": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "whole": pa.array([dt.date(2020, 1, 1)] * 4),
    }
)


@pytest.fixture(params=["parquet", "feather"])
def read(request, tmp_path):
    if request.param == "parquet":
        pq.write_table(TABLE, tmp_path / "x")
    else:
        with pa.OSFile(str(tmp_path / "x"), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    return lambda pd: getattr(pd, f"read_{request.param}")(tmp_path / "x")


PASSED_THROUGH = {
    "all": lambda f: f,
    "others": lambda f: f[["k", "f"]],
    "dates": lambda f: f["day"],
    "decimals": lambda f: f["dec"],
    "booleans": lambda f: f["bool"],
    "categories": lambda f: f["cat"],
    "sum of another": lambda f: f["k"].sum(),
    "filter": lambda f: f[f["k"] > 1],
    "filter and head": lambda f: f[f["k"] > 1][["day", "k"]].head(2),
    "slice": lambda f: f.iloc[1:3],
    "query": lambda f: f.query("k > 1"),
    "loc": lambda f: f.loc[f["k"] > 1, ["day", "bool"]],
    "sort": lambda f: f.sort_values("k"),
    "drop": lambda f: f.drop(columns=["day", "dec", "bool", "whole"]).sort_values("s"),
    "assign": lambda f: f.assign(z=f["k"] + 1, day=1),
    "rename": lambda f: f.rename(columns={"day": "tag"}),
    "set_index": lambda f: f.set_index("k"),
    "group of others": lambda f: f.groupby("k")["f"].sum(),
    "groups of others": lambda f: f.groupby("k")[["f", "s"]].max(),
    "dtypes": lambda f: f.dtypes,
    "list": lambda f: f["dec"].tolist(),
    "text": repr,
}
COMPUTED = {
    "missing": lambda f: f.isna(),
    "one missing": lambda f: f["day"].isna(),
    "equal": lambda f: f[f["day"] == dt.date(2020, 1, 1)],
    "mask": lambda f: f[f["bool"]],
    "mask of true": lambda f: f[f["bool"] == True],  # noqa: E712
    "sort": lambda f: f.sort_values("whole"),
    "sort with missing": lambda f: f.sort_values("day"),
    "group": lambda f: f.groupby("day")["k"].sum(),
    "first": lambda f: f.groupby("k").first(),
    "last date": lambda f: f.groupby("k")["whole"].max(),
    "set_index": lambda f: f.set_index("day"),
    "set_index of two": lambda f: f.set_index(["k", "day"]),
    "shift": lambda f: f["bool"].shift(1),
    "fillna": lambda f: f["bool"].fillna(False),
    "where": lambda f: f["dec"].where(f["k"] > 1),
    "dropna": lambda f: f.dropna(),
    "count": lambda f: f.count(),
    "merge": lambda f: f.merge(f[["k", "day"]], on="k", how="left"),
    "merge on dates": lambda f: f.merge(f, on="day"),
    "outer merge": lambda f: f[f["k"] > 1].merge(f, on="k", how="outer"),
    "reindex": lambda f: f.reindex([0, 5]),
    "melt": lambda f: f.melt(id_vars="k"),
    "drop_duplicates": lambda f: f.drop_duplicates(),
    "value_counts": lambda f: f["day"].value_counts(),
    "unique": lambda f: f["dec"].unique(),
    "isin": lambda f: f["day"].isin([dt.date(2020, 1, 1)]),
    "between": lambda f: f["dec"].between(0, 5),
    "sum": lambda f: f["dec"].sum(),
    "negative": lambda f: -f["dec"],
    "invert": lambda f: ~f["bool"],
    "any": lambda f: f["bool"].any(),
    "least": lambda f: f["whole"].min(),
    "year": lambda f: f["day"].dt.year,
    "astype": lambda f: f["day"].astype("datetime64[us]"),
    "csv": lambda f: f.to_csv(),
    "describe": lambda f: f.describe(include="all"),
    "rank": lambda f: f["whole"].rank(),
    "diff": lambda f: f["dec"].diff(),
    "transpose": lambda f: f.T,
}


@pytest.mark.parametrize("name", PASSED_THROUGH)
def test_passed_through(read, name):
    check(lambda pd: PASSED_THROUGH[name](read(pd)))


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.filterwarnings("ignore")
def test_computed(read, name):
    check(lambda pd: COMPUTED[name](read(pd)), native=None)


@pytest.mark.parametrize(
    "program",
    [
        lambda pd, f: pd.concat([f, f]),
        lambda pd, f: pd.concat([f, f[["k"]]]),
        lambda pd, f: pd.concat([f["day"], f["dec"]]),
        lambda pd, f: pd.concat([f[["day"]], f[["dec"]].rename(columns={"dec": "day"})]),
        lambda pd, f: pd.concat([f, f[["k"]]], axis=1),
        lambda pd, f: pd.merge(f, f, left_index=True, right_index=True),
        lambda pd, f: pd.to_datetime(f["day"]),
        lambda pd, f: pd.to_numeric(f["dec"]),
        lambda pd, f: pd.isna(f["bool"]),
    ],
)
def test_functions(read, program):
    check(lambda pd: program(pd, read(pd)), native=None)


@pytest.mark.parametrize(
    "rows",
    [
        lambda f: f.iloc[[3, 0, 0, 2]],
        lambda f: f.loc[[3, 0, 0]],
        lambda f: f.iloc[[3, 0, 0, 2]].nlargest(3, "k"),
        lambda f: f.iloc[[0, 2]].sort_values("k").head(3),
        lambda f: f.iloc[[3, 0, 2]].query("k > 1"),
        lambda f: f.loc[[1, 3]].assign(z=1),
        lambda f: f[f["k"].isin(f["k"].drop_duplicates())],
        lambda f: f.drop_duplicates("k"),
        lambda f: f.drop_duplicates("k").nsmallest(2, "f"),
        lambda f: f.iloc[[3, 0, 2]].set_index("k"),
    ],
)
@pytest.mark.parametrize(
    "number",
    [
        len,
        lambda f: f.shape,
        lambda f: f.size,
        lambda f: f.empty,
        lambda f: f["f"].sum(),
        lambda f: f[["f"]].max(),
        lambda f: f["s"].nunique(),
        lambda f: f["f"].iloc[0],
    ],
)
def test_numbers_of_chosen_rows(read, rows, number):
    """Counting rows that a join selected also works if live frames over the same rows have columns of Python objects."""

    def program(pd):
        frame = rows(read(pd))
        behind = frame.head(2)
        return number(frame), number(behind), frame, behind

    check(program, native=None)


def test_written_again(read, tmp_path):
    for form in ("parquet", "feather"):

        def program(pd, form=form):
            getattr(read(pd), f"to_{form}")(tmp_path / "out")
            return getattr(pandas, f"read_{form}")(tmp_path / "out")

        check(program, native=None)
