"""Programs with Python objects that are strings: duplicates of them, their parts, and CSV files of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check


def data(rows: int = 40) -> pandas.DataFrame:
    texts = ["The cat ", " a  dog", None, "", "the cat", 'say "a", b', "ä\nb", "x"]
    return pandas.DataFrame(
        {"t": pandas.Series([texts[i * i % 8] for i in range(rows)], dtype="str"), "n": np.arange(rows) % 5}
    )


def cleaned(df: Any) -> Any:
    df["clean"] = df["t"].str.lower().str.split().str.join(" ")
    return df


@pytest.mark.parametrize("keep", ["first", "last", False])
@pytest.mark.parametrize("subset", [["clean"], ["n", "clean"], None], ids=str)
def test_duplicates(keep, subset):
    def program(pd: Any, df: Any) -> Any:
        df = cleaned(df)
        repeated = df.duplicated(subset, keep=keep)
        left = df[df["n"] > 0].drop_duplicates(subset, keep=keep)
        left["n"] = left["n"] * 2
        return repeated, repeated.sum(), left.reset_index(drop=True), len(left), left["clean"].tolist()

    check(program, data())
    check(program, data(1), native=None)


@pytest.mark.parametrize("name", ["partition", "rpartition"])
def test_parts(name):
    def program(pd: Any, df: Any) -> Any:
        df = cleaned(df)
        parts = getattr(df["clean"].str, name)(" ")
        df["first"] = parts[0]
        late = df[df["n"] > 1]
        return parts, late["first"].value_counts(), late.drop_duplicates("first"), df["first"].isna().sum()

    check(program, data())


REPLACEMENTS: dict[str, tuple[Any, ...]] = {
    "one": ("cat", "dog"),
    "an empty one": ("", "home"),
    "no one": ("absent", "x"),
    "exchanged": ({"cat": "dog", "dog": "cat"},),
    "several by one": (["cat", "dog"], "pet"),
    "by others of them": (["cat", "dog"], ["dog", "x"]),
    "by a missing one": ("cat", None),
    "by a number": ("cat", 1),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_replaced(rows: int, name: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        last = df["t"].str.lower().str.split().str[1]
        found = last.replace(*REPLACEMENTS[name])
        df["last"] = found
        late = df[df["n"] > 1].replace({"last": {"dog": "wolf"}})
        return found, found.isna().sum(), df, late["last"].tolist(), late["n"].sum()

    check(program, data(rows), native=True if rows == 40 and not name.startswith("by a ") else None)


@pytest.mark.parametrize("options", [{}, {"index": False}, {"na_rep": "none", "sep": ";"}, {"quoting": 2}], ids=str)
@pytest.mark.parametrize("computed", [True, False])
def test_csv_files(options, computed, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        df = cleaned(df)
        if computed:
            df["other"] = df["clean"].map({"x": "y"}.get)
            df._mgr  # noqa: B018
        path = tmp_path / "out.csv"
        df.to_csv(path, **options)
        written = path.read_text()
        df.loc[df["n"] > 2, "clean"] = "z"
        return written, df.to_csv(**options), df["clean"].tolist()

    check(program, data(), native=None)
    check(program, data(0), native=None)


@pytest.mark.parametrize(
    "objects",
    [
        ["a", 1, None],
        ["a", None, np.nan],
        [b"a", "b", "c"],
        ["a", "\ud800", "b"],
        [None, None, np.nan],
        ["a", pandas.NA, "c"],
    ],
    ids=ascii,
)
def test_csv_files_of_other_objects(objects):
    def program(pd: Any, df: Any) -> Any:
        return df.to_csv(), df["o"].tolist(), df.to_csv(index=False, na_rep="-")

    check(program, pandas.DataFrame({"o": pandas.Series(objects, dtype=object), "n": range(3)}), native=None)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("step", ["1D", "37min", "1500ms"])
@pytest.mark.parametrize("options", [{}, {"na_rep": "-"}, {"date_format": "%d.%m.%Y"}], ids=str)
def test_csv_files_of_times_in_utc(unit, step, options):
    times = pandas.Series(pandas.date_range("1999-12-30", periods=30, freq=step, tz="UTC")).dt.as_unit(unit)
    df = pandas.DataFrame({"t": times.where(times.index % 7 != 3), "u": times, "n": range(30)})

    def program(pd: Any, df: Any) -> Any:
        late = df[df["n"] > 1]
        written = late.to_csv(**options)
        late["t"] = late["t"].dt.tz_convert("Europe/Vienna")
        return written, late.to_csv(index=False, **options), late.set_index("u")[["t"]].to_csv(), len(late)

    check(program, df, native=None)


def test_csv_files_of_strings_in_memory_are_planned(tmp_path):
    df = pandas.DataFrame({"o": pandas.Series(["a,b", None, "c", 'd"'] * 9, dtype=object), "n": range(36)})

    def program(pd: Any, df: Any) -> Any:
        df.to_csv(tmp_path / "out.csv")
        return (tmp_path / "out.csv").read_text(), df["o"].tolist()

    check(program, df)
