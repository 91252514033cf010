"""Names that pandas may misinterpret: integers, which equal level numbers, NaN, and the name of a RangeIndex."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import check

NAN = float("nan")
KEYS: list[list[Any]] = [["g", 0], [1, 0], [1, "g", 0], [0, 1], [0, "g"], [1, "g"], ["g"], [0], [1], ["g", "y", 1]]
OF_NUMBERED: dict[str, Callable[[Any, list[Any]], Any]] = {
    **{
        name: lambda df, keys, name=name: getattr(df.groupby(keys, as_index=False), name)()
        for name in ("min", "count", "size", "idxmin", "sum")
    },
    "named": lambda df, keys: df.groupby(keys, as_index=False).agg(a=("s", "max"), b=("s", "size")),
    "a share": lambda df, keys: df.groupby(keys, as_index=False)["s"].quantile(0.3),
    "a level back": lambda df, keys: df.groupby(keys)[["s"]].first().reset_index(0),
    "a level dropped": lambda df, keys: df.groupby(keys)[["s"]].first().reset_index(0, drop=True),
    "a level grouped": lambda df, keys: df.groupby(keys)[["s"]].first().groupby(level=0).sum(),
    "a level sorted": lambda df, keys: df.groupby(keys)[["s"]].first().sort_index(level=0),
    "all back, then added up": lambda df, keys: df.groupby(keys)["s"].sum().reset_index()[keys[0]].sum(),
}


@pytest.mark.parametrize("ending", OF_NUMBERED)
@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_names_that_are_numbers(keys: list[Any], ending: str) -> None:
    rng = np.random.default_rng(1)
    data = pandas.DataFrame({"s": rng.integers(0, 9, 20), "y": np.arange(20) % 7, "g": rng.integers(0, 3, 20)})
    data[0], data[1] = rng.integers(-5, 5, 20).astype("int8"), data["y"] + 1
    check(lambda pd, df: OF_NUMBERED[ending](df, keys), data, native=None)


OF_NAN: dict[str, Callable[[Any, Any], Any]] = {
    "largest": lambda pd, df: df[NAN].nlargest(1),
    "all the largest": lambda pd, df: df[NAN].nlargest(9),
    "smallest of groups": lambda pd, df: df.groupby("a")[NAN].sum().nsmallest(1),
    "added": lambda pd, df: df[NAN] + df[NAN],
    "beside each other": lambda pd, df: pd.concat([df[NAN], df[NAN]], axis=1),
    "one below the other": lambda pd, df: pd.concat([df.set_index(NAN), df.set_index(NAN)]),
    "levels one below the other": lambda pd, df: pd.concat([df.set_index(["a", NAN]), df.set_index(["a", NAN])]),
    "several aggregates": lambda pd, df: df.groupby(["a", NAN]).agg(["min", "max"]),
    "named aggregates": lambda pd, df: df.groupby(["a", NAN]).agg(q=("v", "min"), r=("v", "max")),
    "one aggregate": lambda pd, df: df.groupby(["a", NAN]).agg({"v": "min"}),
    "merged": lambda pd, df: df.merge(df, on=[NAN]).groupby(NAN)["v_x"].sum(),
    "counted": lambda pd, df: df[NAN].value_counts().reset_index(),
}


@pytest.mark.parametrize("ending", OF_NAN)
def test_names_that_are_nan(ending: str) -> None:
    data = pandas.DataFrame({"a": [1, 2, 2], NAN: [1, 1, 2], "v": [1.0, 2.0, 3.0]})
    check(lambda pd, df: OF_NAN[ending](pd, df), data, native=None)


@pytest.mark.parametrize("kept", ["a > 9", "a > 4", "a > 2", "a != 3"])
def test_a_range_keeps_its_name(kept: str) -> None:
    named = pandas.DataFrame({"a": [1, 2, 3, 4, 5]}, index=pandas.RangeIndex(0, 15, 3, name="i"))

    def program(pd: Any, df: Any, other: Any) -> Any:
        part = other.query(kept)
        lists = [[df.tail(3), part, df], [df, part], [part, df], [df, df], [part, df, part], [df, other]]
        return [pd.concat(one).index.names for one in lists], pd.concat([df, part]).reset_index()

    check(program, named, named.reset_index(drop=True), native=None)


def test_a_name_of_a_label_and_a_column() -> None:
    data = pandas.DataFrame({"k": [1, 1, 2]}, index=pandas.Index([1, 2, 3], name="k"))
    for given in ((), ("k",), (["k"],)):
        check(lambda pd, df, given=given: df.value_counts(*given), data, native=None)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_group_by_a_column_of_one_row(rows: int) -> None:
    data = pandas.DataFrame({"s": [4, 4, 5][:rows], "x": [1.0, 2.0, 3.0][:rows]})
    programs: list[Callable[[Any], Any]] = [
        lambda df: df.groupby(df["s"]).get_group(4),
        lambda df: df.groupby(df["s"]).get_group((4,)),
        lambda df: df.groupby("s").get_group(4),
        lambda df: df.groupby(["s"]).get_group((4,)),
        lambda df: df.groupby(["s"]).get_group(4),
        lambda df: df.set_index("s").groupby(level=0).get_group(4),
        lambda df: df.set_index("s").groupby(level=[0]).get_group(4),
        lambda df: df.set_index("s").groupby(level=["s"]).get_group((4,)).sum(),
    ]
    for program in programs:
        check(lambda pd, df, program=program: program(df), data, native=None)


def test_names_of_items_of_columns_without_a_label() -> None:
    data = pandas.DataFrame([[1.0, 2.0]], columns=[None, "k"])

    def program(pd: Any, df: Any) -> Any:
        frames = (df, df[np.nan].to_frame(), df[[np.nan]].abs())
        return [(type(series.name), type(label)) for frame in frames for label, series in frame.items()]

    check(program, data, native=None)


NAMES = [
    [1, 0],
    [0, "k"],
    ["k", 1],
    [1],
    [0],
    [("a", "b")],
    ["k", ("a", "b")],
    [True],
    [pandas.Timestamp("2020")],
    [None, 0],
    [1.0, "k"],
]
NAMED = pandas.DataFrame({0: [1.0, 2, 3, 1], 1: [5.0, 5, 6, 6], "k": list("abab"), "v": [1, 2, 3, 4]})
WANTED = [
    0,
    1,
    -1,
    True,
    "k",
    ("a", "b"),
    np.int64(1),
    1.0,
    pandas.Timestamp("2020"),
    [0],
    [1, 0],
    [0, "k"],
    ["k", 1],
    [("a", "b")],
]
BY_LEVEL = {
    "grouped by level": lambda pd, df, m, key: m.groupby(level=key).size(),
    "grouped by name": lambda pd, df, m, key: m.groupby(key)["v"].sum(),
    "a column grouped": lambda pd, df, m, key: m["v"].groupby(level=key).cumsum(),
    "sorted by values": lambda pd, df, m, key: m.sort_values(key),
    "sorted by labels": lambda pd, df, m, key: m.sort_index(level=key),
    "back": lambda pd, df, m, key: m.reset_index(key),
    "dropped": lambda pd, df, m, key: m.reset_index(level=key, drop=True),
    "merged on the left": lambda pd, df, m, key: m.merge(df, on=key),
    "merged on the right": lambda pd, df, m, key: df.merge(m, on=key),
    "merged on both": lambda pd, df, m, key: m.merge(m, left_on=key, right_on=key, how="outer"),
    "joined": lambda pd, df, m, key: m.join(df.set_index(1)[["v"]].add_suffix("_r"), on=key),
}


@pytest.mark.parametrize("program", BY_LEVEL.values(), ids=BY_LEVEL)
@pytest.mark.parametrize("names", NAMES, ids=str)
def test_a_level_whose_name_is_no_text(names, program):
    """pandas interprets such a name as a level number in some places and as a name in others."""
    labels = NAMED[[0, 1]].iloc[:, : len(names)]
    index = (
        pandas.MultiIndex.from_frame(labels, names=names) if len(names) > 1 else pandas.Index(labels[0], name=names[0])
    )
    for key in WANTED:
        columns = [label for label in NAMED if label not in names and label != key]
        check(lambda pd, df, m, key=key: program(pd, df, m, key), NAMED, NAMED[columns].set_axis(index), native=None)


def test_levels_named_by_texts_stay_planned():
    indexed = NAMED.set_index(["k", 0]).rename_axis(["k", "z"])
    check(lambda pd, m: m.groupby("k")["v"].sum(), indexed)
    check(lambda pd, m: m.groupby(level=["z", 0])["v"].sum(), indexed)
    check(lambda pd, m: m.merge(m, on=["k", "z"]), indexed)
    check(lambda pd, m: m.groupby(level=0)["v"].sum(), NAMED.set_index(1))
    check(lambda pd, m: m.groupby(level=0)["v"].sum(), NAMED.set_index(1).rename_axis(None))


#: Labels that are missing values: which of them are equal depends on the method, and on whether they are the same object.
MISSING: list[Any] = [None, np.nan, NAN, pandas.NA, pandas.NaT]
LABELS_WITH_MISSING: dict[str, Callable[[Any], pandas.Index]] = {
    "objects": lambda label: pandas.Index([label, "t", "z"], dtype=object),
    "text": lambda label: pandas.Index([None, "t", "z"], dtype="str"),
    "floats": lambda label: pandas.Index([np.nan, 1.0, 2.0]),
    "none": lambda label: pandas.Index(["s", "t", "z"]),
}
BY_MISSING: dict[str, Callable[[Any, Any], Any]] = {
    "grouped": lambda df, key: df.groupby(key).sum(),
    "grouped by a list": lambda df, key: df.groupby([key]).tail(1),
    "grouped, then again": lambda df, key: df.groupby(key)[[key]].median().groupby(key).tail(1),
    "grouped by level": lambda df, key: df.groupby(level=key).size(),
    "of groups": lambda df, key: df.groupby("z")[[key]].sum(),
    "as the index": lambda df, key: df.set_index(key).groupby(key).sum(),
    "as the index and a column": lambda df, key: df.set_index(key, drop=False).sort_values(key),
    "as the index, and back": lambda df, key: df.set_index(key).reset_index(),
    "the index named": lambda df, key: df.rename_axis(key).groupby(key).sum(),
    "a level": lambda df, key: df.set_index(["z", key]).sort_index(level=key).reset_index(key),
    "sorted": lambda df, key: df.sort_values([key, "z"]),
    "sorted by level": lambda df, key: df.sort_index(level=key),
    "merged": lambda df, key: df.merge(df, on=key),
    "merged with another": lambda df, key: df.merge(df, left_on=key, right_on="z"),
    "distinct": lambda df, key: df.drop_duplicates([key]),
    "distinct rows": lambda df, key: df.drop_duplicates(),
    "marked": lambda df, key: df.duplicated(key),
    "present": lambda df, key: df.dropna(subset=[key]),
    "chosen": lambda df, key: (df[key], df[[key]], df.get(key, 0)),
    "largest": lambda df, key: df.nlargest(1, key),
    "cast": lambda df, key: df.astype({key: "float32"}),
    "melted": lambda df, key: df.melt(id_vars=key),
    "set": lambda df, key: df.assign(q=1).pipe(lambda other: (other.__setitem__(key, 5), other)[1]),
}


@pytest.mark.parametrize("ending", BY_MISSING)
@pytest.mark.parametrize("labels", LABELS_WITH_MISSING)
def test_labels_that_are_missing_values(labels: str, ending: str) -> None:
    rows = [[1, 2, 1], [1, 3, 1], [4, 2, 2]]

    def program(pd: Any, df: Any, key: Any) -> Any:
        table = BY_MISSING[ending](df, key)
        return table, [type(name) for name in getattr(table, "index", df.index).names]

    for label in MISSING if labels == "objects" else MISSING[:1]:
        for name in (None, label, np.nan):
            index = pandas.Index([7, 8, 8], name=name)
            data = pandas.DataFrame(rows, index=index).set_axis(LABELS_WITH_MISSING[labels](label), axis=1)
            for key in MISSING:
                check(program, data, key, native=None)


#: Names that the kernel would take for patterns of names, and some that look like them.
PATTERNS = ["*", "^z$", "^.*$", "^(a$", "^$", "^", "$", "^x", "x$", "**", "a*", "^\n$", "^z$ "]

OF_PATTERNS: dict[str, Callable[[Any, Any, str], Any]] = {
    "groups": lambda pd, df, name: df.groupby(name)["z"].sum(),
    "filter": lambda pd, df, name: df[df["z"] > 2],
    "sums": lambda pd, df, name: df[[name, "z"]].sum(),
    "sorted": lambda pd, df, name: df.sort_values([name, "z"]),
    "merged": lambda pd, df, name: df.merge(df[[name, "k"]], on=name),
    "labels": lambda pd, df, name: df.set_index(name).sort_index()["z"].cumsum(),
    "melted": lambda pd, df, name: df.melt("k"),
    "text": lambda pd, df, name: df.to_csv(),
    "named aggregates": lambda pd, df, name: df.groupby("k").agg(**{name: (name, "max")}),
    "names exchanged": lambda pd, df, name: df.rename(columns={"z": name, name: "z"}).groupby("z")[name].mean(),
    "distinct": lambda pd, df, name: df.drop_duplicates(name)[name].sum(),
    "assigned": lambda pd, df, name: df.assign(**{name: df["z"] + 1})[lambda f: f[name] > 5][name].shift().sum(),
    "one below the other": lambda pd, df, name: pd.concat([df, df.rename(columns={"z": "y"})]),
    "pivoted": lambda pd, df, name: df.pivot_table(index="k", values=name),
    "an expression": lambda pd, df, name: df.assign(q=pd.col(name) + 1),
    "labels of columns": lambda pd, df, name: (
        df.replace({"k": {"a": name}}).groupby(["k", name])["z"].sum().unstack("k")
    ),
}


@pytest.mark.parametrize("source", ["memory", "arrow", "parquet", "csv", "feather", "json"])
@pytest.mark.parametrize("name", PATTERNS)
def test_names_that_are_patterns(name: str, source: str, tmp_path: Path) -> None:
    data = pandas.DataFrame({name: [1, 3, 2, 1], "z": [11, 3, 2, 5], "k": ["a", "b", "a", "c"]})
    options = {"csv": {"index": False}, "json": {"orient": "records", "lines": True}}.get(source, {})
    if source not in ("memory", "arrow"):
        getattr(data, f"to_{source}")(tmp_path / "data", **options)
    reading = {"lines": True} if source == "json" else {}
    for ending in OF_PATTERNS.values():

        def program(pd: Any, df: Any, ending: Any = ending) -> Any:
            if source == "memory":
                return ending(pd, df, name)
            if source == "arrow":
                return ending(pd, pd.DataFrame.from_arrow(pa.Table.from_pandas(data)), name)
            return ending(pd, getattr(pd, f"read_{source}")(tmp_path / "data", **reading), name)

        check(program, data, native=None)


@pytest.mark.parametrize("name", PATTERNS)
def test_names_that_are_patterns_in_written_files(name: str, tmp_path: Path) -> None:
    data = pandas.DataFrame({name: [1, 3, 2, 1], "z": [11, 3, 2, 5]})

    def program(pd: Any, df: Any) -> Any:
        df[df["z"] > 2].to_parquet(tmp_path / f"{pd.__name__}.parquet")
        return pandas.read_parquet(tmp_path / f"{pd.__name__}.parquet"), pd.read_parquet(
            tmp_path / f"{pd.__name__}.parquet"
        )[name].sum()

    check(program, data, native=None)


SURROGATES: dict[str, Callable[[Any], Any]] = {
    "a Series": lambda pd: pd.Series([1, 2], name="\ud800").cumsum().sum(),
    "a sum": lambda pd: _with_surrogate(pd)["a"].sum(),
    "a filter": lambda pd: len(_with_surrogate(pd)[_with_surrogate(pd)["a"] > 1]),
    "groups": lambda pd: _with_surrogate(pd).groupby("a").sum().shape,
    "labels": lambda pd: _with_surrogate(pd).rename_axis("\ud801").sort_index().shape,
    "set_index": lambda pd: _with_surrogate(pd).set_index("\ud800").sort_index()["a"].cumsum().sum(),
}


def _with_surrogate(pd: Any) -> Any:
    return pd.DataFrame([[1, 2.0], [3, 4.0]], columns=pandas.Index(["a", "\ud800"], dtype=object))


@pytest.mark.parametrize("program", SURROGATES)
def test_names_without_utf8(program: str) -> None:
    check(SURROGATES[program], native=None)


NAMES_OF_FILES: dict[str, dict[Any, Any]] = {
    "a null byte": {"a": [1, 2], "b\0c": [3, 4]},
    "equal as text": {0: [1, 2], "0": [3, 4]},
    "floats equal as text": {0.5: [1], "0.5": [2]},
    "None and its text": {None: [1], "None": [2]},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES_OF_FILES)
def test_names_that_parquet_cannot_distinguish(name: str, tmp_path: Path) -> None:
    def program(pd: Any) -> Any:
        pd.DataFrame(NAMES_OF_FILES[name]).to_parquet(tmp_path / "a.parquet")
        return pq.read_schema(tmp_path / "a.parquet").names

    check(program, native=None)


OF_EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "a number and its text": lambda pd: pd.DataFrame([[1, 2]], columns=["0", 0]).eval("`0` + 1").iloc[0],
    "a boolean and its text": lambda pd: pd.DataFrame([[1, 2]], columns=["True", True]).eval("`True` + 1").iloc[0],
    "rows": lambda pd: pd.DataFrame([[1, 2], [0, 5]], columns=["0", 0]).query("`0` > 1"),
    "the index beside numbers": lambda pd: pd.DataFrame([[1, 2], [0, 5]], columns=[1, 0]).query("index > 0"),
    "the index beside None": lambda pd: pd.DataFrame([[1, 2], [0, 5]], columns=[1.5, None]).query("index > 0"),
}


@pytest.mark.parametrize("program", OF_EXPRESSIONS)
def test_names_in_expressions(program: str) -> None:
    check(OF_EXPRESSIONS[program], native=None)


@pytest.mark.parametrize("name", [NAN, pandas.NaT, "n", None], ids=str)
def test_crosstab_of_rows_named_by_a_missing_value(name: Any) -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"a": [1, 2, 1], "d": ["p", "q", "p"]}, index=pandas.Index([0, 1, 0], name=name))
        counts = pd.crosstab(frame["a"], frame["d"])
        return counts, pd.crosstab(frame["a"], frame["d"], margins=True), counts.sum().sum()

    check(program, native=None)
