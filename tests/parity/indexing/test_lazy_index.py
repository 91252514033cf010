"""The row labels of a large plan are computed only when they are read."""

from __future__ import annotations

import pickle

import numpy as np
import pandas
import pytest
from support import check

import craton
import craton.pandas
from craton.pandas.core.axes import planned_labels

FRAME = pandas.DataFrame({"k": [3, 1, 2, 3, 1], "s": list("badca"), "v": [1.0, 2.0, 3.0, np.nan, 5.0]})


def grouped(df, key="k"):
    totals = df.groupby(key)["v"].sum()
    return totals[totals > 2]


def test_isin_does_not_compute_the_labels():
    with craton.option_context(small_rows=0):
        df = craton.pandas.DataFrame(FRAME)
        labels = grouped(df).index
        chosen = df[df["k"].isin(labels)]
        assert type(labels) is pandas.Index
        assert planned_labels(labels) is not None
        assert chosen["k"].tolist() == [1, 2, 1]
        assert planned_labels(labels) is not None
        assert labels.tolist() == [1, 2]
        assert planned_labels(labels) is None


@pytest.mark.parametrize("key", ["k", "s"])
@pytest.mark.parametrize(
    "use",
    [
        lambda df, index: df[df[index.name].isin(index)],
        lambda df, index: df[~df[index.name].isin(index)],
        lambda df, index: index,
        lambda df, index: (len(index), index.dtype, index.name, repr(index)),
        lambda df, index: index[1:],
        lambda df, index: index.view(),
        lambda df, index: index.rename("other"),
        lambda df, index: index.to_series(),
        lambda df, index: index.append(index),
        lambda df, index: pickle.loads(pickle.dumps(index)),
        lambda df, index: index == index[0],
        lambda df, index: index.isin([1, "a"]),
        lambda df, index: pandas.Index(index).sort_values(ascending=False),
        lambda df, index: np.asarray(index),
    ],
)
def test_as_pandas(key, use):
    check(lambda pd, df: use(df, grouped(df, key).index), FRAME, native=None)
