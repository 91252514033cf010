"""Merges by categorical keys whose categories differ: pandas compares their texts, and the result has texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ROWS = 40
DTYPES: dict[str, Any] = {
    "some": pandas.CategoricalDtype(["b", "a", "d"]),
    "others": pandas.CategoricalDtype(["a", "c", "", "é", "b"]),
    "none in common": pandas.CategoricalDtype(["x", "y"]),
    "ordered": pandas.CategoricalDtype(["c", "b", "a"], ordered=True),
    "ordered another way": pandas.CategoricalDtype(["a", "b", "c"], ordered=True),
    "the same, not ordered": pandas.CategoricalDtype(["a", "b", "c"]),
    "objects": pandas.CategoricalDtype(pandas.Index(["a", "b"], dtype=object)),
    "numbers": pandas.CategoricalDtype([1, 2, 3]),
    "no categories": pandas.CategoricalDtype(pandas.Index([], dtype="str")),
    "text": pandas.StringDtype("pyarrow", na_value=np.nan),
}


def side(dtype: Any, rows: int, seed: int, missing: bool) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    known = list(dtype.categories) if isinstance(dtype, pandas.CategoricalDtype) else ["a", "b", "d"]
    known = [*known, None] if missing or not known else known
    texts = pandas.Series([known[i] for i in rng.integers(0, len(known), rows)], dtype=object)
    return pandas.DataFrame({"k": texts.astype(dtype), "g": rng.integers(0, 3, rows), "v": rng.normal(size=rows)})


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{how: lambda pd, a, b, how=how: a.merge(b, on="k", how=how) for how in ("inner", "left", "right", "outer")},
    **{
        f"{how}, sorted": lambda pd, a, b, how=how: a.merge(b, on="k", how=how, sort=True)
        for how in ("inner", "left", "right", "outer")
    },
    "by two keys": lambda pd, a, b: a.merge(b, on=["g", "k"], how="left", indicator=True),
    "with common names": lambda pd, a, b: a.merge(b[["k", "g"]].drop_duplicates()),
    "two labels": lambda pd, a, b: a.merge(b.rename(columns={"k": "l"}), left_on="k", right_on="l"),
    "a level": lambda pd, a, b: a.merge(b.set_index("k")[["g"]], left_on="k", right_index=True),
    "a named level": lambda pd, a, b: a.set_index("k").merge(b, on="k"),
    "anti": lambda pd, a, b: a.merge(b, on="k", how="left_anti"),
    "validated": lambda pd, a, b: a.merge(b.drop_duplicates("k"), on="k", validate="m:1")["v_x"].sum(),
    "groups": lambda pd, a, b: a.merge(b, on="k").groupby("k")["v_x"].sum(),
    "shifted": lambda pd, a, b: a.merge(b, on="k")["k"].str.upper().shift().value_counts(),
    "of distinct keys": lambda pd, a, b: a.merge(b.drop_duplicates("k"), on="k", how="left").sort_values(["v_x", "k"]),
    "again": lambda pd, a, b: a.merge(b, on="k").merge(a[["k", "v"]], on="k", how="outer").tail(5),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("right", DTYPES)
@pytest.mark.parametrize("left", ["some", "others", "ordered", "text"])
def test_categories_that_differ(left: str, right: str, program: str) -> None:
    for rows, missing in (((ROWS, ROWS // 2), True), ((ROWS, 9), False)):
        one, other = (
            side(DTYPES[name], n, i, missing) for i, (name, n) in enumerate(zip((left, right), rows, strict=True))
        )
        check(PROGRAMS[program], one, other, native=None)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("rows", [(0, 5), (5, 0), (0, 0)])
def test_sides_without_rows(rows: tuple[int, int], program: str) -> None:
    one, other = (side(DTYPES[name], n, 3, True) for name, n in zip(("some", "others"), rows, strict=True))
    check(PROGRAMS[program], one, other, native=None)
    filtered = [side(DTYPES[name], 8, 3, True) for name in ("some", "others")]

    def after_filters(pd: Any, a: Any, b: Any) -> Any:
        a, b = (df if n else df[df["g"] > 9] for df, n in zip((a, b), rows, strict=True))
        return PROGRAMS[program](pd, a, b)

    check(after_filters, *filtered, native=None)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_planned_from_files(how: str, tmp_path: Path) -> None:
    side(DTYPES["some"], ROWS, 1, True).to_parquet(tmp_path / "one.parquet")
    side(DTYPES["others"], ROWS, 2, True).to_parquet(tmp_path / "other.parquet")

    def program(pd: Any) -> Any:
        one, other = pd.read_parquet(tmp_path / "one.parquet"), pd.read_parquet(tmp_path / "other.parquet")
        merged = one[one["v"] > -1].merge(other, on="k", how=how)
        return merged, merged["v_x"].sum(), merged.groupby("k", dropna=False)["v_y"].mean()

    check(program, native=how != "right")  # the dtype of a right join's key depends on whether any row matches
