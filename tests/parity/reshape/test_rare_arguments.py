"""Arguments of rare classes: keys of concat, operands of query, huge counts, objects of both libraries."""

from __future__ import annotations

import datetime
import decimal
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from support import check, check_classes_of_errors

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")


def compare(program: Callable[[Any], Any]) -> None:
    """Compare a program with pandas, with and without the small-data path; of errors, only the classes."""
    check_classes_of_errors(program, small_rows=(0, 1_000))


def test_operators_of_an_object_of_pandas_and_one_of_craton() -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"a": [1, 0, 1]})
        flag = pd.Series([True, False], index=pd.Index([9, 1], name="K"))
        theirs = frame.index.to_series() > 0  # an object of pandas' own class
        results = [frame.apply(lambda column: (column > 0) | flag), theirs | flag, (theirs | flag).index.name]
        results.append(frame.apply(lambda column: column + flag).index.name)
        results.append(frame.apply(lambda column: divmod(column, flag + 1)[0]).index.name)
        return [*results, frame.apply(lambda column: column**flag), frame.apply(lambda column: column - flag)]

    compare(program)


KEYS: dict[str, Any] = {
    "categories": pandas.Categorical(["p", "q"], categories=["q", "p"]),
    "nullable": pandas.array([1, 2], dtype="Int64"),
    "bytes": pandas.Index([1, 2], dtype="int8"),
    "objects": pandas.Index(["p", "q"], dtype=object),
    "nullable texts": pandas.array(["p", "q"], dtype="string"),
    "named": pandas.Series([1, 2], name="K"),
    "a named index": pandas.Index(["p", "q"], name="n"),
    "texts": ["p", "q"],
    "a tuple": ("p", "q"),
    "numbers": [1, 2],
    "an array": np.array([1, 2]),
    "a table": np.array([[1, 2], [3, 4]]),
    "a range": range(2),
    "mixed": ["p", 1],
    "floats": [1.5, 2],
    "booleans": [True, False],
    "days": pandas.date_range("2020", periods=2),
    "pairs": [("a", "b"), ("c", "d")],
}


@pytest.mark.parametrize("keys", KEYS)
def test_keys_of_concat(keys: str) -> None:
    given = KEYS[keys]

    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
        rows = pd.concat([frame, frame], keys=given)
        columns = pd.concat([frame["a"], frame["b"]], axis=1, keys=given)
        return rows, rows.index.levels[0].dtype, rows.index.names, columns, columns.columns.dtype, rows["a"].sum()

    compare(program)
    compare(lambda pd: pd.concat([pd.Series([1]), None, pd.Series([2])], axis=1, keys=[1, 2.5, 3]).columns)
    compare(lambda pd: pd.concat([pd.DataFrame({"a": [1]}), None], keys=["p", 1]).index.levels[0].dtype)


def test_one_level_that_stays_a_multi_index() -> None:
    def program(pd: Any) -> Any:
        counts = pd.DataFrame({"k": list("xyxyz")}).value_counts(["k"])
        return counts.reorder_levels([0]), counts.swaplevel(0, 0), counts.reorder_levels([0]).sort_index().reset_index()

    compare(program)


def test_labels_that_are_dates_beside_a_named_column() -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({0: [1, 2], 1: [3, 4]}).set_axis(pandas.date_range("2024-01-01", periods=2), axis=1)
        return pd.concat([frame, frame[pandas.Timestamp("2024-01-02")]], axis=1)

    compare(program)


def test_a_selection_that_is_the_frame_itself() -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({("u", 1): [1, 2], ("v", 2): [3, 4]})
        chosen = frame.loc[:, :]
        chosen["new"] = 1
        return chosen is frame, frame.columns.tolist(), frame

    compare(program)


LOOKS: dict[str, Callable[[Any], Any]] = {
    "repr": repr,
    "length": len,
    "values": lambda frame: frame.to_dict(),
    "a sum": lambda frame: frame["a"].sum(),
    "shape": lambda frame: frame.shape,
}


@pytest.mark.parametrize("look", LOOKS)
def test_labels_are_the_same_objects_after_a_look(look: str) -> None:
    def program(pd: Any) -> Any:
        whole = pd.DataFrame({"k": list("xyxyz"), "a": [1, 2, 2, 1, 3]})
        frame = whole[whole["a"] > 1]
        columns, index = frame.columns, frame.index
        LOOKS[look](frame)
        columns.name, index.name = "C", "I"
        series = whole["a"][whole["a"] > 1]
        labels = series.index
        LOOKS[look](series.to_frame())
        repr(series)
        labels.name = "J"
        same_objects = (frame.columns is columns, frame.index is index, series.index is labels)
        return same_objects, frame, frame.reset_index(), series, frame.groupby("k").sum(), index, labels

    compare(program)


@pytest.mark.parametrize("look", LOOKS)
def test_labels_that_were_set_are_the_same_object(look: str) -> None:
    def program(pd: Any) -> Any:
        whole = pd.DataFrame({"k": list("xyxyz"), "a": [1, 2, 2, 1, 3]})
        frame = whole[whole["a"] > 1]
        index = pandas.Index([1, 2, 3])
        frame.index = index
        index.name = "I"
        named = frame.index.name
        LOOKS[look](frame)
        frame.index.name = "Z"
        return named, index.name, frame.index.name, frame, frame.sort_values("a"), frame.index is index

    compare(program)


@pytest.mark.parametrize("look", LOOKS)
def test_the_frequency_of_labels_that_were_looked_at(look: str) -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"a": [1, 2, 2]}, index=pandas.date_range("2020", periods=3)).assign(b=1)
        index = frame.index
        LOOKS[look](frame)
        index.freq = None
        return frame.index.freq, frame.index is index, frame.shift(1)["a"].sum()

    compare(program)


QUERIES: dict[str, tuple[Any, list[Any], list[str]]] = {
    "dates": (
        pandas.to_datetime(["2020-01-30", "2020-01-31", "2020-02-01"]),
        [datetime.date(2020, 1, 31), pandas.Timestamp("2020-01-31"), "2020-01-31"],
        ["c == @v", "c != @v", "@v == c", "c > @v"],
    ),
    "32-bit floats": (
        np.array([0.1, 1, 2], dtype="float32"),
        [np.float64(0.1), decimal.Decimal("0.1"), 0.1, 1, np.float32(0.1), np.int64(1), True],
        ["c == @v", "c > @v", "c**2 == @v", "@v <= c"],
    ),
    "lists": (
        [1, 2, 3],
        [[6, 4, 2], [2, 4], (6, 4, 2), "1", [1]],
        [
            *(
                "c*2 == @v",
                "-c == @v",
                "@v == c*2",
                "c*2 != @v",
                "c + d == @v",
                "c == @v",
                "c*2 == [6, 4, 2]",
                "c in @v",
            ),
            *("c == [1, 2]", "~(c > 1) == @v", "c*2 in @v", "(c > 1) & (c*2 == @v)", 'c*2 == "1"', 'c == "1"'),
        ],
    ),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_operands_of_query(kind: str) -> None:
    column, values, queries = QUERIES[kind]
    for value in values:
        for query in queries:
            compare(
                lambda pd, query=query, value=value: pd.DataFrame({"c": column, "d": [5, 2, -1]}).query(
                    query, local_dict={"v": value}
                )
            )


CALLS: dict[str, Callable[[Any], Any]] = {
    "largest": lambda pd: pd.Series([3, 1, 2]).nlargest(sys.maxsize),
    "smallest": lambda pd: pd.DataFrame({"a": [3, 1, 2]}).nsmallest(2**32, "a"),
    "largest of all": lambda pd: pd.Series([1.0, 2]).nlargest(2**70),
    "shift": lambda pd: pd.Series([1.0, 2]).shift(2**63),
    "round": lambda pd: pd.Series([1, None], dtype="Int8").round(2**40),
    "replace without a hash": lambda pd: pd.Series([1, 2, 3]).replace(np.timedelta64(1), 9),
    "replace bytes": lambda pd: pd.Series([1, 2]).replace(np.void(b"a"), 3),
    "replace a signaling NaN": lambda pd: pd.Series([1, 2, 3]).replace(decimal.Decimal("sNaN"), 1),
    "NaT among texts": lambda pd: pd.Series(["a", None]).isin([np.datetime64("NaT")]),
    "a variable that is missing": lambda pd: pd.DataFrame({"k": ["x"], "a": [1]}).melt(id_vars=["k"], var_name=pd.NA),
    "no replacements": lambda pd: pd.Series(["xa", None, "b\n"]).str.replace("a$", "Z", n=0, regex=True).head(1),
    "a frequency of nothing": lambda pd: repr(
        (
            pd.DataFrame({"v": [1.0, 2.0]}, index=pandas.timedelta_range("0s", periods=2, freq="7h"))
            .loc["30h":]
            .asfreq("ME")["v"]
            > 0
        ).index
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    compare(CALLS[name])


TIMES = pandas.date_range("2020-10-24 22:00", periods=16, freq="30min", tz="Europe/London")

INFERRED: dict[str, Callable[[Any], Any]] = {
    "floor": lambda pd: pd.Series(TIMES[5:11]).dt.floor("h", ambiguous="infer"),
    "floor, backwards": lambda pd: pd.Series(TIMES[::-1]).dt.floor("30min", ambiguous="infer"),
    "localise": lambda pd: pd.Series(TIMES.tz_localize(None)).dt.tz_localize("Europe/London", ambiguous="infer"),
    "localise, backwards": lambda pd: pd.Series(TIMES.tz_localize(None)[::-1]).dt.tz_localize(
        "Europe/London", ambiguous="infer"
    ),
    "localise, then select": lambda pd: pd.Series(TIMES.tz_localize(None)).dt.tz_localize(
        "Europe/London", ambiguous="infer"
    )[lambda s: np.arange(len(s)) % 3 == 0],
}


@pytest.mark.parametrize("name", INFERRED)
def test_times_inferred_from_the_order_of_rows(name: str) -> None:
    compare(INFERRED[name])
    check(lambda pd: INFERRED[name](pd), native=None)


DIRECTED: dict[str, Any] = {
    "int64": [2, 1, 3],
    "float64": [2.5, 1.0, np.nan],
    "bool": [True, False, True],
    "str": ["b", "a", "c"],
    "string": pandas.array(["b", "a", "c"], dtype="string"),
    "Int64": pandas.array([2, 1, 3], dtype="Int64"),
    "boolean": pandas.array([True, None, False], dtype="boolean"),
    "category": pandas.Categorical(["b", "a", "c"]),
    "times": pandas.to_datetime(["2020-01-02", "2020-01-01", "2020-01-03"]),
    "times with a zone": pandas.to_datetime(["2020-01-02", "2020-01-01", "2020-01-03"]).tz_localize("UTC"),
    "durations": pandas.to_timedelta([2, 1, 3], unit="h"),
    "int64[pyarrow]": pandas.array([2, 1, 3], dtype="int64[pyarrow]"),
    "objects": np.array(["b", "a", "c"], dtype=object),
}


@pytest.mark.parametrize("dtype", DIRECTED)
@pytest.mark.parametrize("ascending", [0, 1, 2, [0], [1], True, [False]], ids=str)
def test_directions_that_are_integers(ascending: Any, dtype: str) -> None:
    frame = pandas.DataFrame({"k": DIRECTED[dtype], "v": [1, 2, 3]})
    compare(lambda pd: pd.DataFrame(frame).sort_values("k", ascending=ascending))
    compare(lambda pd: pd.DataFrame(frame).sort_values(["k"], ascending=ascending))
    compare(lambda pd: pd.DataFrame(frame)["k"].sort_values(ascending=ascending))
    compare(lambda pd: pd.DataFrame(frame).set_index("k").sort_index(ascending=ascending))


LABELLED = {
    "default": lambda pd: pd.DataFrame({"k": [0, 0, 1]}).rename_axis("rows"),
    "range": lambda pd: pd.DataFrame({"k": [0, 0, 1]}, index=pd.RangeIndex(2, 8, 2, name="r")),
    "integers": lambda pd: pd.DataFrame({"k": [0, 0, 1]}, index=pd.Index([1, 2, 3], name="r")),
    "levels": lambda pd: pd.DataFrame(
        {"k": [0, 0, 1]}, index=pd.MultiIndex.from_tuples([(1, 2), (1, 3), (2, 1)], names=["a", "b"])
    ),
    "times": lambda pd: pd.DataFrame({"k": [0, 0, 1]}, index=pd.date_range("2020", periods=3, name="t")),
}
NUMBERED_ANEW = [
    lambda pd, df: df.sort_index(ignore_index=True),
    lambda pd, df: df.sort_index(ignore_index=True, ascending=False),
    lambda pd, df: df.sort_index(ignore_index=True, kind="stable", na_position="first"),
    lambda pd, df: df.sort_index(level=0, ignore_index=True),
    lambda pd, df: df.sort_values("k", ignore_index=True),
    lambda pd, df: df.drop_duplicates(ignore_index=True),
    lambda pd, df: df.explode("k", ignore_index=True),
    lambda pd, df: df.dropna(ignore_index=True),
    lambda pd, df: df.sample(frac=1, random_state=0, ignore_index=True),
    lambda pd, df: pd.concat([df, df], ignore_index=True),
    lambda pd, df: df.melt(ignore_index=True),
    lambda pd, df: df["k"].sort_index(ignore_index=True),
    lambda pd, df: df["k"].sort_values(ignore_index=True),
    lambda pd, df: df["k"].dropna(ignore_index=True),
    lambda pd, df: df["k"].drop_duplicates(ignore_index=True),
]


@pytest.mark.parametrize("call", NUMBERED_ANEW)
@pytest.mark.parametrize("labels", LABELLED.values(), ids=LABELLED)
def test_rows_that_are_numbered_anew_lose_the_names_of_their_labels(labels, call):
    def program(pd):
        df = labels(pd)
        found = call(pd, df)
        inplace = df.copy()
        inplace.sort_index(ignore_index=True, inplace=True)
        return [found, found.index.names, inplace, inplace.index.names, found.reset_index(), df.index.names]

    check(program, native=None)
