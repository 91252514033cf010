"""``crosstab`` of the columns of one frame, with row labels of several kinds."""

from __future__ import annotations

from typing import Any

import pandas
import pytest
from support import check_sources

DATA = pandas.DataFrame({"a": ["x", "y", "x", None], "b": [1, 2, 1, 2], "v": [1.0, 2, 3, 4]})
LABELS: dict[str, Any] = {
    "range": pandas.RangeIndex(4),
    "repeated": [0, 0, 1, 1],
    "dates": pandas.to_datetime(["2020", "2020", "2021", "2022"]),
    "levels": pandas.MultiIndex.from_tuples([(1, 1), (1, 1), (2, 1), (2, 2)]),
}
CALLS = {
    name: eval(f"lambda pd, df: {name}")
    for name in """
pd.crosstab(df.a, df.b)
pd.crosstab([df.a, df.v], df.b)
pd.crosstab(df.a, [df.b, df.v])
pd.crosstab(df.a, df.b, values=df.v, aggfunc="sum")
pd.crosstab(df.a, df.b, margins=True)
pd.crosstab(df.a, df.b, normalize="index")
pd.crosstab(df.a, df.b * 2)
pd.crosstab(df.a.str.upper(), df.b > 1)
pd.crosstab(df.a.map(str), df.b)
pd.crosstab(pd.cut(df.v, 2), df.b)
pd.crosstab(index=df.a, columns=df.v.cumsum())
pd.crosstab(df.a, df.b.to_numpy())
""".strip().splitlines()
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_columns_of_one_frame(call, labels, tmp_path):
    data = DATA.set_axis(labels)
    check_sources(call, data, tmp_path)
    check_sources(lambda pd, df: call(pd, df[df.v > 0]), data, tmp_path)
    check_sources(lambda pd, df: call(pd, df.sort_values("v", ascending=False)), data, tmp_path)
