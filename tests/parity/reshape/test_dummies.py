"""``get_dummies`` of columns and of strings gives pandas' columns, in their order and with their labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner

COLUMNS: dict[str, Any] = {
    "text": pandas.Series(["b", "a", None, "b", "", "c"], dtype="str"),
    "no missing": pandas.Series(["b", "a", "c", "b", "é", "c"], dtype="str"),
    "python": pandas.Series(["b", "a", None, "b", "", "c"], dtype=pandas.StringDtype("python")),
    "string": pandas.Series(["b", "a", None, "b", "", "c"], dtype="string"),
    "arrow": pandas.Series(["b", "a", None, "b", "", "c"], dtype="string[pyarrow]").astype("string[pyarrow]"),
    "arrow dtype": pandas.Series(["b", "a", None, "b", "", "c"]).astype("large_string[pyarrow]"),
    "category": pandas.Series(pandas.Categorical(["b", "a", None, "b", "c", "c"], categories=["z", "c", "b", "a"])),
    "ordered": pandas.Series(pandas.Categorical([3, 1, 3, 1, 2, 2], ordered=True)),
    "no categories": pandas.Series(pandas.Categorical([None] * 6)),
    "int": pandas.Series([3, 1, 2, 1, -1, 3]),
    "uint8": pandas.Series([3, 1, 2, 1, 0, 3], dtype="uint8"),
    "nullable": pandas.Series([3, 1, None, 1, -1, 3], dtype="Int64"),
    "arrow int": pandas.Series([3, 1, None, 1, -1, 3], dtype="int64[pyarrow]"),
    "float": pandas.Series([3.5, 1, np.nan, 1, -1, 3]),
    "bool": pandas.Series([True, False, True, True, False, True]),
    "date": pandas.Series(pandas.date_range("2024", periods=6)),
    "missing": pandas.Series([None] * 6, dtype="str"),
    "object": pandas.Series(["a", 1, None, "a", 2, "b"], dtype=object),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"dummy_na": True},
    {"drop_first": True},
    {"drop_first": True, "dummy_na": True},
    {"dtype": int},
    {"dtype": "float32", "dummy_na": True},
    {"dtype": "boolean"},
    {"dtype": "Int64"},
    {"dtype": object},
    {"sparse": True},
]


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name: str) -> None:
    for options in OPTIONS:
        check(lambda pd, s, o=options: pd.get_dummies(s, **o), COLUMNS[name], native=None)
        check(lambda pd, s, o=options: pd.get_dummies(s, "p", **o), COLUMNS[name].rename("n"), native=None)
        frame = pandas.DataFrame({"x": COLUMNS[name], "y": range(6), "z": COLUMNS[name].iloc[::-1].to_numpy()})
        check(lambda pd, f, o=options: pd.get_dummies(f, **o), frame, native=None)
        check(lambda pd, f, o=options: pd.get_dummies(f, columns=["x"], **o), frame, native=None)
        check(lambda pd, f, o=options: pd.get_dummies(f[f["y"] > 7], columns=["x"], **o), frame, native=None)


FRAMES: list[dict[str, Any]] = [
    {},
    {"columns": ["t", "k"]},
    {"columns": ["k"], "prefix": "p"},
    {"prefix": ["p", "q"], "prefix_sep": "-"},
    {"prefix": {"t": "one", "c": "two"}, "prefix_sep": {"t": "/", "c": "."}},
    {"columns": []},
    {"columns": ["missing"]},
    {"columns": "t"},
    {"columns": ("t",)},
    {"prefix": ["p"]},
    {"prefix_sep": [1, 2]},
    {"prefix": [None, 3]},
    {"columns": ["t", "t"]},
    {"columns": ["t", "c", "k", "x"]},
]


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_frames(number: int) -> None:
    frame = pandas.DataFrame(
        {"t": COLUMNS["text"], "k": COLUMNS["int"], "c": COLUMNS["category"], "x": [0.5, 1, 2, 3, 4, 5]},
        index=pandas.Index([5, 5, 6, 7, 8, 8], name="i"),
    )
    options = FRAMES[number]
    check(lambda pd, f: pd.get_dummies(f, **options), frame, native=None)
    check(lambda pd, f: pd.get_dummies(f, **options), frame.rename_axis(columns="names"), native=None)
    check(lambda pd, f: pd.get_dummies(f.set_index(["k", "x"], drop=False), **options), frame, native=None)
    check(lambda pd, f: pd.get_dummies(f.rename(columns={"k": "t"}), **options), frame, native=None)
    check(lambda pd, f: pd.get_dummies(f.rename(columns={"k": 0}), **options), frame, native=None)


def test_labels_that_are_booleans_are_a_mask_of_rows() -> None:
    frame = pandas.DataFrame({True: ["a"], False: ["b"]})
    for columns in ([True], [False], [False, True]):
        check(lambda pd, f, c=columns: pd.get_dummies(f, columns=c), frame, native=None)


def test_a_program() -> None:
    def program(pd: Any, f: Any) -> Any:
        few = f[f["x"] > 0.5]
        wide = pd.get_dummies(few, columns=["t"], prefix="t")
        shares = wide.filter(like="t_").mean()
        wide["y"] = wide["t_b"] & (wide["x"] > 1)
        f["t"] = "new"
        return wide, shares, wide.groupby("c", observed=True)["t_b"].sum(), pd.get_dummies(f["t"]).sum()

    frame = pandas.DataFrame({"t": COLUMNS["text"], "c": COLUMNS["category"], "x": [0.5, 1, 2, 3, 4, 5]})
    check(program, frame)
    engine = TiledEngine(InlineRunner(), settings=Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0), least_bytes=0)
    with using(engine):
        check(program, pandas.concat([frame] * 5, ignore_index=True))


PARTS: dict[str, list[str | None]] = {
    "usual": ["a|b", "a", None, "c|a|c", "", "é|b"],
    "empty parts": ["a||b", "|", "b|", "B"],
    "one": ["a"],
    "missing": [None, None],
    "no rows": [],
    "other": ["a, b", "b,c", ",", " "],
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_strings(name: str) -> None:
    for dtype in ("str", "string", "category", pandas.StringDtype("python", na_value=np.nan)):
        data = pandas.Series(PARTS[name], dtype="str", name="n").astype(dtype)
        for sep in ("|", ",", ", ", "", "a", None):
            check(lambda pd, s, sep=sep: s.str.get_dummies(sep), data, native=None)
        for kind in (bool, "float32", "boolean", "Int64", "str", "int8"):
            check(lambda pd, s, kind=kind: s.str.get_dummies(dtype=kind), data, native=None)
    data = pandas.Series(PARTS["usual"], dtype="str", index=list("zyxwvu"))
    check(lambda pd, s: s.str.get_dummies().sum(), data)
    check(lambda pd, s: s[s.str.len() > 0].str.get_dummies()["a"], data)
