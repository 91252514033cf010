"""``np.timedelta64``, a subclass of NumPy's integers, as an operand or parameter where a number is allowed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

SPAN = np.timedelta64(1, "D")
OPERATORS = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.and_,
)
COLUMNS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda s: s,
    "where": lambda s: s.where(s > 2),
    "shifted": lambda s: s.shift(),
    "truth": lambda s: s > 2,
}
CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        f"{function.__name__} of {column}": lambda s, f=function, of=of: f(of(s), SPAN)  # type: ignore[misc]
        for function in OPERATORS
        for column, of in COLUMNS.items()
    },
    "shift": lambda s: s.shift(SPAN),
    "diff": lambda s: s.diff(SPAN),
    "pct_change": lambda s: s.pct_change(SPAN),
    "iloc": lambda s: s.iloc[SPAN:],
    "slice": lambda s: s[SPAN:],
    "head": lambda s: s.head(SPAN),
    "take": lambda s: s.take([SPAN]),
    "groups shift": lambda s: s.groupby(s).shift(SPAN),
    "groups head": lambda s: s.groupby(s).head(SPAN),
    "groups diff": lambda s: s.groupby(s).diff(SPAN),
    "groups std": lambda s: s.groupby(s).std(ddof=SPAN),
    "groups sum": lambda s: s.groupby(s).sum(min_count=SPAN),
    "groups quantile": lambda s: s.groupby(s).quantile(SPAN),
    "sum": lambda s: s.sum(min_count=SPAN),
    "std": lambda s: s.std(ddof=SPAN),
    "quantile": lambda s: s.quantile(SPAN),
    "quantiles": lambda s: s.quantile([0.5, SPAN]),
    "isin": lambda s: s.isin([SPAN]),
    "fillna": lambda s: s.shift().fillna(SPAN),
    "where": lambda s: s.where(s > 2, SPAN),
    "clip": lambda s: s.clip(SPAN),
    "replace": lambda s: s.replace(1, SPAN),
    "between": lambda s: s.between(SPAN, SPAN),
    "map": lambda s: s.map({1: SPAN}),
    "add": lambda s: s.shift().add(1, fill_value=SPAN),
    "fill of a shift": lambda s: s.shift(fill_value=SPAN),
    "ffill": lambda s: s.shift().ffill(limit=SPAN),
    "nlargest": lambda s: s.nlargest(SPAN),
    "round": lambda s: s.astype(float).round(SPAN),
    "query": lambda s: s.to_frame("a").query("a > @x", local_dict={"x": SPAN}),
    "maximum": lambda s: np.maximum(s, SPAN),
    "reindex": lambda s: s.reindex([SPAN]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64", "Int64", "int64[pyarrow]"])
def test_timedelta_as_number(dtype: str, call: str) -> None:
    check(lambda pd, s: CALLS[call](s), pandas.Series([1, 2, 3, 4], dtype=dtype), native=None)
