"""Groups by keys and intervals of time together: labels, levels and frequencies as in pandas, whatever the keys are."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from tests.parity.support import check, check_sources

ROWS = 400


def frame(missing: str = "") -> pandas.DataFrame:
    rng = np.random.default_rng(4)
    times = pandas.Timestamp("2024-02-27 22:10") + pandas.to_timedelta(rng.integers(0, 4000, ROWS) * 60, unit="s")
    df = pandas.DataFrame({
        "text": np.array(["b", "a", "", "Z", "ä"])[rng.integers(0, 5, ROWS)],
        "int": rng.integers(-3, 4, ROWS),
        "small": rng.integers(0, 3, ROWS).astype("uint8"),
        "bool": rng.random(ROWS) < 0.5,
        "float": rng.integers(0, 3, ROWS) / 2,
        "day": pandas.to_datetime("2024-01-01") + pandas.to_timedelta(rng.integers(0, 3, ROWS), unit="D"),
        "nullable": pandas.array(rng.integers(0, 3, ROWS), dtype="Int64"),
        "kind": pandas.Categorical(np.array(["x", "y"])[rng.integers(0, 2, ROWS)], categories=["y", "x", "never"]),
        "time": times,
        "v": rng.normal(size=ROWS),
        "n": rng.integers(0, 100, ROWS),
        "t": np.array(["p", "q"])[rng.integers(0, 2, ROWS)],
    })  # fmt: skip
    if missing:
        df.loc[rng.random(ROWS) < 0.1, missing] = None
    df.loc[rng.random(ROWS) < 0.1, "v"] = np.nan
    return df


KEYS = {
    "text": ["text"],
    "int": ["int"],
    "small": ["small"],
    "bool": ["bool"],
    "float": ["float"],
    "day": ["day"],
    "nullable": ["nullable"],
    "category": ["kind"],
    "two": ["text", "int"],
    "two with a category": ["int", "kind"],
}
FREQUENCIES = ["3h", "D", "ME", "7D"]


def shown(result: pandas.DataFrame | pandas.Series) -> list[object]:
    index = result.index
    return [result, list(index.levels), [str(getattr(level, "freq", None)) for level in index.levels], index.codes]  # type: ignore[attr-defined]


@pytest.mark.parametrize("missing", ["", "key", "time"])
@pytest.mark.parametrize("by", KEYS.values(), ids=KEYS)
def test_labels_of_keys_and_intervals(by: list[str], missing: str) -> None:
    df = frame(by[0] if missing == "key" and by[0] not in ("int", "small", "bool") else missing.replace("key", ""))
    for freq in FREQUENCIES:
        for place in (0, len(by)):
            for given in ({}, {"sort": False}, {"dropna": False}, {"observed": True}):

                def run(pd, df, freq=freq, place=place, given=given):
                    keys = list(by)
                    keys.insert(place, pd.Grouper(key="time", freq=freq))
                    groups = df.groupby(keys, **given)
                    return [
                        *shown(groups[["v", "n"]].mean()),
                        *shown(groups["n"].sum()),
                        *shown(groups.size()),
                        *shown(groups.agg(first=("t", "first"), high=("v", "max"), count=("v", "count"))),
                    ]

                check(run, df, native=None)


@pytest.mark.parametrize("by", KEYS.values(), ids=KEYS)
def test_programs_of_keys_and_intervals(by: list[str], tmp_path) -> None:
    def run(pd, df):
        keys = [*by, pd.Grouper(key="time", freq="6h", closed="right", label="right")]
        means = df.groupby(keys, observed=True)[["v", "n"]].mean()
        flat = means.reset_index()
        wide = df.groupby(keys, observed=True)["n"].sum().unstack(-1)
        return [
            flat,
            flat.shape,
            flat.groupby("time")["v"].sum().head(3),
            df.groupby(keys, as_index=False, observed=True)["n"].max(),
            wide,
            means.loc[means["n"] > 50].tail(4),
            means.xs(means.index[0][-1], level="time"),
            means.index.names,
            df[df["n"] < 0].groupby(keys, observed=True)["n"].sum(),
        ]

    check(run, frame(), native=None)
    if "kind" not in by:
        check_sources(run, frame(), tmp_path)


def test_intervals_of_row_labels_and_of_a_column() -> None:
    def run(pd, df):
        two = [pd.Grouper(freq="D"), "text", pd.Grouper(key="day", freq="2D")]
        one = df.groupby(["int", pd.Grouper(freq="D")])["v"].agg(["sum", "min"])
        return [*shown(df.groupby(two)["n"].sum()), *shown(one), one.unstack()]

    check(run, frame().set_index("time"), native=None)
