"""``resample(...).agg`` with functions: only the columns that are named are computed, and the functions get what pandas gives them."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

TIMES = pandas.to_datetime(
    ["2020-01-01 03:00", "2020-01-01 09:00", "2020-01-03 01:00", "2020-01-03 02:00", "2020-01-07 00:00"]
)
FRAME = pandas.DataFrame(
    {
        "x": [1.0, np.nan, 3, 4, 5],
        "y": [5, 4, 3, 2, 1],
        "s": list("abcab"),
        "t": TIMES,
        "o": [{1}, {2}, {3}, None, {5}],
        "z": [1, 2, 3, 4, 5],
    },
    index=TIMES,
)


def spread(values):
    """The distance of the largest from the smallest value; pandas also calls it for intervals without rows."""
    return values.max() - values.min() if len(values) else -1


def fails(values):
    raise LookupError("no result")


AGGREGATIONS = {
    "a function": {"x": spread},
    "a function of texts": {"s": lambda s: "".join(s)},
    "functions and names": {"y": [spread, "sum"], "x": "mean"},
    "NumPy": {"x": np.max, "y": np.ptp},
    "the number": {"y": len, "z": "size"},
    "a missing column": {"x": spread, "no": "sum"},
    "an error": {"y": fails},
    "objects": {"o": lambda o: len(o.dropna())},
    "lists": {"y": lambda y: list(y)},
    "times": {"t": lambda t: t.max()},
    "all": dict.fromkeys("xysoz", len),
    "an unknown name": {"x": "no such", "y": spread},
    "no column": {},
    "a column twice": {"x": [spread, spread]},
}


@pytest.mark.parametrize("aggregation", AGGREGATIONS.values(), ids=AGGREGATIONS)
@pytest.mark.parametrize("on", [None, "t"])
@pytest.mark.parametrize("rule", ["D", "2D", "ME"])
@pytest.mark.filterwarnings("ignore")
def test_functions(rule, on, aggregation):
    def program(pd, df):
        chosen = df[df["z"] > 1].assign(w=df["y"] * 2)
        first = chosen.resample(rule, on=on).agg(aggregation)
        return first, chosen.resample(rule, on=on, closed="right", label="right").agg(aggregation).head(2), chosen

    check(program, FRAME, native=None)


def test_a_frame_that_is_changed_before_resample():
    def program(pd, df):
        changed = df[["x", "y", "z"]]
        made = changed.resample("D").agg({"x": spread})
        changed["x"] = 0.0
        return made, changed.resample("D").agg({"x": [spread], "y": "sum"})

    check(program, FRAME, native=None)


def test_columns_of_one_name():
    def program(pd, df):
        twice = df[["x", "y", "y"]]
        return twice.resample("D").agg({"x": spread})

    check(program, FRAME, native=None)
