"""Random pandas frames for Hypothesis: every dtype family, missing values, several kinds of index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

_SMALL = st.integers(-4, 4)
_FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, np.inf, -np.inf, 0.1]), st.integers(-3, 3).map(float)
)
_TEXTS = st.sampled_from(["", "a", "b", "ab", "B", "é", "a b", "10", "zz"])
_STAMPS = st.sampled_from(
    [
        pd.Timestamp(text)
        for text in ("1970-01-01", "2000-02-29 12:30", "2020-12-31", "1999-01-01", "2020-01-01 00:00:01")
    ]
)


def _maybe(values: st.SearchStrategy[Any], missing: Any) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.just(missing))


KINDS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "int64": (_SMALL, "int64"),
    "int8": (_SMALL, "int8"),
    "uint32": (st.integers(0, 5), "uint32"),
    "float64": (_maybe(_FLOATS, np.nan), "float64"),
    "float32": (_maybe(st.sampled_from([0.5, 1.0, -2.0]), np.nan), "float32"),
    "bool": (st.booleans(), "bool"),
    "str": (_maybe(_TEXTS, np.nan), "str"),
    "datetime64[us]": (_maybe(_STAMPS, pd.NaT), "datetime64[us]"),
    "datetime64[ns]": (_maybe(_STAMPS, pd.NaT), "datetime64[ns]"),
    "timedelta64[us]": (
        _maybe(st.sampled_from([pd.Timedelta(0), pd.Timedelta("1D"), pd.Timedelta("-2h")]), pd.NaT),
        "timedelta64[us]",
    ),
    "Int64": (_maybe(_SMALL, pd.NA), "Int64"),
    "Float64": (_maybe(st.sampled_from([0.5, 1.0, -2.0]), pd.NA), "Float64"),
    "boolean": (_maybe(st.booleans(), pd.NA), "boolean"),
    "string": (_maybe(_TEXTS, pd.NA), "string"),
    "int64[pyarrow]": (_maybe(_SMALL, pd.NA), "int64[pyarrow]"),
    "string[pyarrow]": (_maybe(_TEXTS, pd.NA), "large_string[pyarrow]"),
    "category": (_maybe(st.sampled_from(["x", "y", "z"]), np.nan), pd.CategoricalDtype(["z", "x", "y", "unused"])),
}
COMMON = ("int64", "float64", "str", "bool", "datetime64[us]")


@st.composite
def columns(draw: Any, rows: int, kinds: tuple[str, ...] = tuple(KINDS)) -> Any:
    """One array of a random kind."""
    values, dtype = KINDS[draw(st.sampled_from(kinds))]
    return pd.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype=dtype)


@st.composite
def indexes(draw: Any, rows: int) -> pd.Index:
    """Usually a default index; otherwise labels, which may repeat, or two levels."""
    kind = draw(st.sampled_from(["default", "default", "default", "range", "int", "str", "multi"]))
    if kind == "default":
        return pd.RangeIndex(rows)
    if kind == "range":
        return pd.RangeIndex(3, 3 + 2 * rows, 2)
    ints = draw(st.lists(_SMALL, min_size=rows, max_size=rows))
    if kind == "int":
        return pd.Index(ints, dtype="int64", name=draw(st.sampled_from([None, "key"])))
    texts = draw(st.lists(_TEXTS, min_size=rows, max_size=rows))
    if kind == "str":
        return pd.Index(texts, dtype="str", name="label")
    return pd.MultiIndex.from_arrays(
        [pd.Index(ints, dtype="int64"), pd.Index(texts, dtype="str")], names=["one", "two"]
    )


@st.composite
def frames(draw: Any, kinds: tuple[str, ...] = tuple(KINDS), max_rows: int = 8) -> pd.DataFrame:
    """A frame of two to five columns named a, b, c, …"""
    rows = draw(st.integers(0, max_rows))
    count = draw(st.integers(2, 5))
    data = {"abcdefg"[i]: draw(columns(rows, kinds)) for i in range(count)}
    return pd.DataFrame(data, index=draw(indexes(rows)))
