"""Whole categorical columns of Parquet files are read beside the plan of the other columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import craton.pandas as cpd
from craton.pandas.core.joined import categories

ROWS = 60_000

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda f: f,
    "labels": lambda f: f.rename(columns={"c": "category", "x": "number"}),
    "another column": lambda f: f.assign(z=f["x"] * 2),
    "the column twice": lambda f: f.assign(again=f["c"]),
    "renamed categories": lambda f: f.assign(c=f["c"].cat.rename_categories({"a": "b", "b": "a"})),
    "other categories": lambda f: f.assign(c=f["c"].cat.set_categories(["b", "q", "a"])),
    "in other order": lambda f: f.assign(c=f["c"].cat.reorder_categories(["c", "b", "a"])),
    "made ordered": lambda f: f.assign(c=f["c"].cat.as_ordered()),
    "codes": lambda f: f.assign(codes=f["c"].cat.codes),
    "from texts": lambda f: f.assign(s=f["s"].astype(pd.CategoricalDtype(["s1", "s0", "s2"]))),
    "rows": lambda f: f[f["x"] > 0.5],
    "after rows": lambda f: f[f["x"] > 0.5].reset_index(drop=True),
    "a column less": lambda f: f.drop(columns="s"),
    "row labels": lambda f: f.set_index("c"),
}


def table(missing: bool, ordered: bool) -> pd.DataFrame:
    values = np.random.default_rng(3)
    codes = np.sort(values.integers(-1 if missing else 0, 3, ROWS))  # the row groups have different dictionaries
    return pd.DataFrame(
        {
            "x": values.random(ROWS),
            "c": pd.Categorical.from_codes(codes, ["c", "a", "b"], ordered=ordered),
            "s": pd.Series([f"s{i}" for i in values.integers(0, 3, ROWS)], dtype="str"),
            "n": pd.Categorical(values.integers(0, 3, ROWS)),
        }
    )


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_equal_pandas(tmp_path: Path, program: str, missing: bool, groups: int, ordered: bool) -> None:
    path = tmp_path / "t.parquet"
    table(missing, ordered).to_parquet(path, row_group_size=-(-ROWS // groups))
    expected = PROGRAMS[program](pd.read_parquet(path))
    made = PROGRAMS[program](cpd.read_parquet(path))
    assert_frame_equal(pd.DataFrame(made), expected)
    if "c" in made.columns:
        assert made["c"].value_counts().to_dict() == expected["c"].value_counts().to_dict()


def test_the_file_is_read_beside_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    table(False, False).to_parquet(path)
    read: list[list[str]] = []
    whole = categories._read
    monkeypatch.setattr(categories, "_read", lambda view, names: (read.append(names), whole(view, names))[1])
    assert_frame_equal(pd.DataFrame(cpd.read_parquet(path)), pd.read_parquet(path))
    assert read == [["c"]]


def test_a_file_that_is_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    table(False, False).to_parquet(path)
    expected = pd.read_parquet(path)
    frame = cpd.read_parquet(path)
    whole = categories._read

    def replaced(view: Any, names: list[str]) -> Any:
        other = tmp_path / "other.parquet"
        table(True, False).to_parquet(other)
        other.replace(path)
        return whole(view, names)

    monkeypatch.setattr(categories, "_read", replaced)
    assert_frame_equal(pd.DataFrame(frame), expected)
