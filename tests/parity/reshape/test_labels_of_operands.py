"""Operands whose row labels have several dtypes: the dtype, the name and the order of the labels of a result.

pandas leaves a Series its own labels if they are all labels of the join in order, and gives a frame the joined labels.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

LABELS: dict[str, pandas.Index] = {
    "bool": pandas.Index([False, True], name="k"),
    "one bool": pandas.Index([True]),
    "int": pandas.Index([0, 1], name="k"),
    "small": pandas.Index([1, 0, 2], dtype="int8"),
    "unsigned": pandas.Index([0, 1, 5], dtype="uint64"),
    "range": pandas.RangeIndex(3, name="r"),
    "part of a range": pandas.RangeIndex(1, 2),
    "float": pandas.Index([1.0], name="f"),
    "floats": pandas.Index([0.0, 1.0]),
    "more floats": pandas.Index([-0.5, 0.0, 1.0, 2.5]),
    "single": pandas.Index([0, 1], dtype="float32"),
    "nan": pandas.Index([0.0, np.nan]),
    "text": pandas.Index(["a", "b"], name="k"),
    "objects": pandas.Index([0, "a"], dtype=object),
    "numbers as objects": pandas.Index([0, 1], dtype=object),
    "times": pandas.Index(pandas.to_datetime(["2020-01-01", "2020-01-03"])),
    "seconds": pandas.Index(pandas.to_datetime(["2020-01-01", "2020-01-03"]).as_unit("s")),
    "zone": pandas.Index(pandas.to_datetime(["2020-01-01", "2020-01-03"], utc=True)),
    "zone of Paris": pandas.Index(
        pandas.to_datetime(["2020-01-01 01:00", "2020-01-03 01:00"]).tz_localize("Europe/Paris")
    ),
    "nullable": pandas.Index([0, 1], dtype="Int64"),
    "nullable bool": pandas.Index([False, True], dtype="boolean"),
    "categories": pandas.CategoricalIndex(["a", "b"]),
    "repeated": pandas.Index([1, 1, 0]),
    "no float": pandas.Index([], dtype="float64"),
    "no object": pandas.Index([], dtype=object),
    "no text": pandas.Index([], dtype="str"),
    "no range": pandas.RangeIndex(0),
    "no time": pandas.DatetimeIndex([]),
    "levels": pandas.MultiIndex.from_tuples([(0, "a"), (1, "b")], names=["k", "l"]),
}


def _joins(pd: Any, a: Any, b: Any) -> Any:
    return tuple(one for how in ("outer", "inner", "left", "right") for one in a["x"].align(b["x"], join=how))


def _joins_of_frames(pd: Any, a: Any, b: Any) -> Any:
    return tuple(one for how in ("outer", "inner", "left", "right") for one in a.align(b, join=how, axis=0))


PROGRAMS = {
    "operator": lambda pd, a, b: (a["x"] - b["x"], (a["x"] * 2 + b["x"]).sum()),
    "reversed": lambda pd, a, b: a["x"].rsub(b["x"]),
    "filled": lambda pd, a, b: a["x"].add(b["x"], fill_value=1),
    "logical": lambda pd, a, b: (a["x"] > 1) & (b["x"] > 1),
    "method": lambda pd, a, b: a["x"].eq(b["x"]),
    "comparison": lambda pd, a, b: a["x"] < b["x"],
    "frames": lambda pd, a, b: a + b,
    "filled frames": lambda pd, a, b: a.mul(b, fill_value=2),
    "columns": lambda pd, a, b: a.sub(b["x"], axis=0),
    "align": _joins,
    "align frames": _joins_of_frames,
    "align both": lambda pd, a, b: a.align(b, join="outer"),
    "combine_first": lambda pd, a, b: a["x"].combine_first(b["x"]),
    "combine_first of frames": lambda pd, a, b: a.combine_first(b),
    "fillna": lambda pd, a, b: a["x"].where(a["x"] > 1).fillna(b["x"]),
    "where": lambda pd, a, b: a["x"].where(a["x"] > 1, b["x"]),
    "condition": lambda pd, a, b: a["x"].where(b["x"] > 1),
    "clip": lambda pd, a, b: a["x"].clip(upper=b["x"]),
    "assign": lambda pd, a, b: a.assign(z=b["x"]),
    "then": lambda pd, a, b: (a["x"] - b["x"]).reset_index().head(2),
    "then sorted": lambda pd, a, b: (a["x"] - b["x"]).sort_index().cumsum(),
}

PAIRS = [pair for pair in product(LABELS, LABELS) if pair[0] != pair[1]]

#: Each other program runs with every eleventh pair, from another one on.
STEP = 11


def table(labels: pandas.Index) -> pandas.DataFrame:
    return pandas.DataFrame({"x": np.arange(len(labels)) + 0.5, "y": np.arange(len(labels))[::-1] * 1.0}, index=labels)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_labels_of_several_dtypes(program):
    pairs = PAIRS if program == "operator" else PAIRS[list(PROGRAMS).index(program) % STEP :: STEP]
    wrong = []
    for one, other in pairs:
        try:
            check(PROGRAMS[program], table(LABELS[one]), table(LABELS[other]), native=None)
        except AssertionError as error:
            wrong.append(f"{one}, {other}: {str(error)[:300]}")
    assert not wrong, f"{len(wrong)} of {len(pairs)}:\n" + "\n".join(wrong[:20])
