"""``f.loc[mask, c] = values`` where the values are computed from the selected rows, or from all rows, of a plan that has not run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

DATA = pandas.DataFrame(
    {
        "a": np.array([592531861526, -56787130779, 611288268337, -12508092473, 253177322590, -245604897672]),
        "c": pandas.array([0.0, None, 0.0, 8.0, 8.0, 0.0], dtype="Float64"),
        "x": [1.5, np.nan, -2.0, 4.0, 0.0, 1.5],
        "k": ["a", "b", "a", None, "b", "a"],
        "p": pandas.array([1, 2, None, 2**62, 5, -(2**62)], dtype="int64[pyarrow]"),
    }
)
#: Steps before the assignment.
BEFORE = {
    "as it is": lambda pd, f: f,
    "shift": lambda pd, f: f.shift(-1),
    "shift of a slice": lambda pd, f: f.iloc[[3, 4, 5]].shift(-1),
    "diff": lambda pd, f: f.assign(x=f["x"].diff(), a=f["a"].cumsum()),
    "filter": lambda pd, f: f[f["a"] > 0],
    "filter of shifts": lambda pd, f: f.assign(x=f["x"].shift())[f["a"].shift() > 0],
    "sort": lambda pd, f: f.sort_values("a"),
    "sort and number": lambda pd, f: f.sort_values("a", ignore_index=True),
    "sums of groups": lambda pd, f: f.assign(a=f.groupby("k")["a"].transform("sum"), x=f["x"].rank()),
    "assignments": lambda pd, f: f.assign(x=f["a"] * 2, a=f["x"]).assign(a=lambda d: d["x"] - 1),
    "join": lambda pd, f: f.merge(f[["k"]].drop_duplicates().assign(w=1), on="k", how="left"),
    "union": lambda pd, f: pd.concat([f, f.shift()], ignore_index=True),
}
MASKS = {
    "its maximum": lambda f: f["c"] == f["c"].max(),
    "a constant": lambda f: f["x"] > 1,
    "missing": lambda f: f["x"].isna(),
    "a window": lambda f: f["x"].shift() > 0,
    "of groups": lambda f: f.groupby("k")["x"].transform("count") > 1,
    "no row": lambda f: f["x"] > 1e9,
    "every row": lambda f: f["x"].isna() | f["x"].notna(),
}
VALUES = {
    "of the rows": lambda f, m: f.loc[m, "c"] * 2,
    "of the rows and a number": lambda f, m: f.loc[m, "c"] * 2 + f["a"].mean(),
    "of the filtered frame": lambda f, m: f[m]["c"] + 1,
    "of all rows": lambda f, m: f["c"] * 3,
    "a window": lambda f, m: f["c"].shift(),
    "a window of the rows": lambda f, m: f.loc[m, "c"].shift(),
    "another column": lambda f, m: f.loc[m, "c"].fillna(7),
    "assigned before": lambda f, m: f.assign(z=f["c"] + 1)["z"],
    "assigned and filtered": lambda f, m: f.assign(z=f["c"] + 1).loc[m, "z"],
    "other rows": lambda f, m: f.loc[~m, "c"],
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.filterwarnings("ignore")
def test_set(before: str, values: str) -> None:
    for mask in MASKS:
        for look in (False, True):

            def program(pd: Any, data: Any, mask: str = mask, look: bool = look) -> Any:
                f = BEFORE[before](pd, data)
                was = f["x"] + 1
                chosen = MASKS[mask](f)
                new = VALUES[values](f, chosen)
                f = f.copy() if look else f
                f.loc[chosen, "c"] = new
                if look:
                    len(f)
                again = f["x"] > 0
                f.loc[again, "x"] = f.loc[again, "x"] * 2
                return f, f["c"].sum(), f["a"].sum(), was, len(f[chosen])

            check(program, DATA, native=None)


@pytest.mark.filterwarnings("ignore")
def test_values_of_other_rows_are_not_computed() -> None:
    """Sums of Arrow integers raise if they overflow: here, only in rows that are not set."""

    def program(pd: Any, f: Any) -> Any:
        f = f.assign(q=f["x"].shift())
        small = f["p"] < 10
        small &= f["p"] > -10
        f.loc[small, "p"] = f.loc[small, "p"] * 4
        return f, f["p"].max()

    check(program, DATA, native=None)


def test_planned() -> None:
    def program(pd: Any, f: Any) -> Any:
        f = f.assign(x=f["x"].shift())
        positive = f["x"] > 0
        f.loc[positive, "x"] = f.loc[positive, "x"] * 2
        return f["x"].sum(), f["a"]

    check(program, DATA[["a", "x"]])
