"""Short programs with rare kinds of keys, masks, slices and fill values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from support import check, check_classes_of_errors

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")


def days(pd: Any) -> Any:
    times = pandas.to_datetime(["2020-01-01", "2020-01-02", "2020-01-01"])
    return pd.DataFrame({"day": times, "x": [1, 2, 3], "c": pandas.Categorical(list("aba")), "k": [1, 2, 1]})


#: Keys made from a column. pandas leaves the column out of the results if the key shares its memory.
KEYS: dict[str, Callable[[Any], Any]] = {
    "times as text": lambda f: f["day"].astype(str),
    "times as nullable text": lambda f: f["day"].astype("string"),
    "times as objects": lambda f: f["day"].astype(object),
    "categories": lambda f: f["c"].astype("category"),
    "categories as objects": lambda f: f["c"].astype(object),
    "numbers as text": lambda f: f["x"].astype(str),
    "the same dtype": lambda f: f["k"].astype("int64"),
    "months": lambda f: f["day"].astype(str).str[:7],
    "text of text": lambda f: f["day"].astype(str).astype("string"),
    "a copy": lambda f: f["k"].copy(),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("look", [False, True])
def test_columns_beside_a_key_made_from_one(key: str, look: bool) -> None:
    def program(pd: Any) -> Any:
        frame = days(pd)
        made = KEYS[key](frame)
        if look:
            repr(made)
        first = frame.groupby(made, observed=True).count()
        frame["x"] = 1
        return first, first["x"].sum(), frame["x"].sum()

    check(program, native=None)


CASTS = ["str", "string", "object", "Int64", "float64", "category", "int64", ("string", "str")]


@pytest.mark.parametrize("small", [0, 1_000])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize(
    "written", ["nothing", "the column", "a cell", "the key", "another column", "the order", "the labels"]
)
def test_keys_cast_from_a_column_beside_mixed_objects(written: str, look: bool, filtered: bool, small: int) -> None:
    def program(pd: Any, cast: Any) -> Any:
        frame = pd.DataFrame({"x": np.array(["a", True, 2.5], dtype=object), "i": [0, 0, 1], "t": days(pd)["day"]})
        frame = frame[frame["i"] >= 0] if filtered else frame
        key = frame["i"]
        for dtype in [cast] if isinstance(cast, str) else cast:
            key = key.astype(dtype)
        if look:
            repr(key)
        if written == "the column":
            frame["i"] = 5
        elif written == "a cell":
            frame.loc[0, "i"] = 7
        elif written == "the key":
            key.iloc[0] = key.iloc[1]
        elif written == "another column":
            frame["t"] = 1
        elif written == "the order":
            frame = frame.sort_values("i", ascending=False)
        elif written == "the labels":
            frame.index = [5, 6, 7]
        groups = frame.groupby(key, observed=True)
        return groups.count(), groups.size().sum()

    for cast in CASTS:
        check_classes_of_errors(lambda pd, cast=cast: program(pd, cast), small_rows=(small,))


@pytest.mark.parametrize("small", [0, 1_000])
@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("change", ["labels", "column", "assigned", "labels twice", "labels and a column"])
def test_a_key_of_a_frame_that_has_changed(change: str, planned: bool, small: int) -> None:
    """pandas leaves out the column whose memory the key shares, whatever has happened to the labels and the other columns."""

    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"i": [0, 0, 1, 9], "t": [1.5, 2.0, 3.0, 0.0]})
        frame = frame[frame["i"] < 5] if planned else frame.head(3)
        key = frame["i"]
        if "labels" in change:
            frame.index = [5, 6, 7]
        if "twice" in change:
            frame["t"].sum()
            frame.index = [0, 1, 8]
        if "column" in change:
            frame["z"] = [1, 2, 3]
        if change == "assigned":
            frame = frame.assign(z=[1, 2, 3], y=frame["t"] + 1)
        groups = frame.groupby(key)
        return groups.count(), groups.size().sum(), list(groups.sum().columns)

    check_classes_of_errors(program, small_rows=(small,))


def test_a_key_that_was_written_to() -> None:
    def program(pd: Any) -> Any:
        frame = days(pd)
        key = frame["day"].astype(str)
        key.iloc[0] = "z"
        return frame.groupby(key).count()

    check(program, native=None)


MASKS: dict[str, Any] = {
    "objects": pandas.Series([True, False, True], dtype=object),
    "objects with a gap": pandas.Series([True, None, False], dtype=object),
    "categories": pandas.Series(pandas.Categorical([True, False, True])),
    "sparse": pandas.Series(pandas.arrays.SparseArray([True, False, True])),
    "an array of objects": np.array([True, False, True], dtype=object),
    "a list": [True, False, True],
    "nullable": pandas.Series([True, None, False], dtype="boolean"),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("value", [0, [9, 8], "x", np.nan], ids=str)
def test_masks_of_rows_to_set(mask: str, value: Any) -> None:
    def numbers(pd: Any) -> Any:
        frame = pd.DataFrame({"f": [1.0, -1, 3], "g": [1, 2, 3]})
        return frame[frame["g"] > 0]

    def rows(pd: Any) -> Any:
        frame = numbers(pd)
        frame[pd.Series(MASKS[mask]) if isinstance(MASKS[mask], pandas.Series) else MASKS[mask]] = value
        return frame, frame["g"].count()

    def cells(pd: Any) -> Any:
        frame = numbers(pd)
        frame.loc[MASKS[mask], "g"] = value
        return frame, frame["g"].count()

    check(rows, native=None)
    check(cells, native=None)


LABELS: dict[str, Any] = {
    "numbers": [0, 1, 2, 3, 4, 5],
    "falling": [5, 4, 3, 2, 1, 0],
    "letters": list("abcdef"),
    "repeated": list("aabbcc"),
    "days": pandas.date_range("2020", periods=6),
    "floats": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5],
    "levels": pandas.MultiIndex.from_product([[1, 2], [1, 2, 3]]),
    "booleans": [False, False, False, True, True, True],
    "mixed order": [3, 1, 2, 5, 4, 0],
}

SLICES = [
    slice(1, 3),
    slice("b", "d"),
    slice("2020-01-02", "2020-01-03"),
    slice(None, 2),
    slice(2.5, 4),
    slice((1, 2), (2, 1)),
    slice(None, None, 2),
    slice(4, 1),
    slice("b", None),
    slice(1, 3, 2),
    slice(False, True),
    slice(pandas.Timestamp("2020-01-02"), None),
]


@pytest.mark.parametrize("labels", LABELS)
def test_slices_of_labels_to_set(labels: str) -> None:
    for chosen in SLICES:

        def program(pd: Any, chosen: slice = chosen) -> Any:
            frame = pd.DataFrame({"n": range(6), "m": 1.5}, index=LABELS[labels])
            frame = frame[frame["n"] >= 0]
            frame.loc[chosen, "n"] = 9
            return frame, frame["n"].sum()

        check(program, native=None)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a level merged with a key of another dtype": lambda pd: (
        pd.DataFrame({"k": [1.0, 2.0], "y": [1, 2]})
        .set_index("k")
        .merge(pd.DataFrame({"k": [3, 4], "w": [1, 2]}), on="k")
    ),
    "a level merged with a level of another dtype": lambda pd: (
        pd.DataFrame({"k": [1.0, 2.0], "y": [1, 2]})
        .set_index("k")
        .merge(pd.DataFrame({"k": [3, 4], "w": [1, 2]}).set_index("k"), on="k")
    ),
    "an index of one row": lambda pd: type(pd.DataFrame({"k": [7], "w": [1]}).set_index("k").index).__name__,
    "an index of one row beside another": lambda pd: pd.concat(
        [
            pd.DataFrame({"k": [1, 1], "v": [1, 2]}).set_index("k")["v"],
            pd.DataFrame({"k": [1], "v": [1]}).set_index("k")["v"],
        ],
        axis=1,
    ),
    "a shift along columns": lambda pd: pd.DataFrame({"a": [1.5, 2.0], "b": [2.0, 3.0]})[lambda f: f["a"] > 0].shift(
        1, axis=1, fill_value=0
    ),
    "a shift along columns, back": lambda pd: pd.DataFrame({"a": [1.5, 2.0], "b": [2.0, 3.0]})[
        lambda f: f["a"] > 0
    ].shift(-1, fill_value=1, axis="columns"),
    "an array among values": lambda pd: pd.Series([1, 2]).isin([1, np.array([1, 0])]),
    "an extension array among texts": lambda pd: pd.Series(["a"]).isin([pandas.array([1, 0], dtype="Int64")]),
    "a list among values of a frame": lambda pd: pd.DataFrame({"a": [1]}).isin({"a": [1, [2]]}),
    "a frame of columns": lambda pd: pd.DataFrame({"a": [1, None]}).dropna(subset=pd.DataFrame({"q": ["a"]})),
    "a fill value beyond the dtype": lambda pd: pd.Series([1, None, 127], dtype="Int8").add(
        pd.Series([None, 1, 1], dtype="Int8"), fill_value=np.uint8(255)
    ),
    "hours among nanoseconds": lambda pd: pd.Series([3_600_000_000_001, 3_600_000_000_000], dtype="m8[ns]")[
        lambda s: s > pandas.Timedelta("1h")
    ].sum(),
    "days among microseconds": lambda pd: (
        pd.Series([86_400_000_001, 0], dtype="m8[us]") == np.timedelta64(1, "D")
    ).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    check(PROGRAMS[name], native=None)


@pytest.mark.parametrize("name", ["astype", "fillna"])
def test_flat_labels_that_are_tuples(name: str) -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({0: [1, None], 1: [1, 2]})
        frame.columns = pandas.Index([("a", "x"), ("b",)], tupleize_cols=False)
        if name == "astype":
            return frame.astype({("a", "x"): "float64"}).shape
        return frame.fillna({("b",): 0}), frame.fillna({("b",): 0}).shape

    check(program, native=None)
