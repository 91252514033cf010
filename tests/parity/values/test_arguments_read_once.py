"""Arguments that are iterables: iterators, which can be read only once, and tuples, which pandas may treat as one label."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

DATA = pandas.DataFrame({"a": [1.0, np.nan, 3.0], "b": [1, 2, 3], "c": ["x", None, "z"]})
MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    "generator": lambda items: (item for item in items),
    "iterator": iter,
    "chain": lambda items: itertools.chain(items, ()),
    "keys": lambda items: dict.fromkeys(items).keys(),
    "set": set,
    "array": np.array,
    "series": pandas.Series,
    "index": pandas.Index,
    "tuple": tuple,
    "dict": dict.fromkeys,
}
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "dropna": lambda pd, df, of: df.dropna(subset=of(["a", "c"])),
    "dropna_unknown": lambda pd, df, of: df.dropna(subset=of(["q"])),
    "drop_duplicates": lambda pd, df, of: df.drop_duplicates(subset=of(["a", "c"])),
    "duplicated": lambda pd, df, of: df.duplicated(subset=of(["a"])),
    "isin": lambda pd, df, of: df[df.b.isin(of([1, 9]))],
    "isin_text": lambda pd, df, of: df[df.c.isin(of(["x"]))],
    "isin_mixed": lambda pd, df, of: df[df.b.isin(of([1, "x"]))],
    "isin_missing": lambda pd, df, of: df[df.a.isin(of([1.0, np.nan]))],
    "isin_frame": lambda pd, df, of: df.isin({"b": of([1])}),
    "columns": lambda pd, df, of: df[of(["a", "b"])],
    "loc": lambda pd, df, of: df.loc[of([0, 2])],
    "iloc": lambda pd, df, of: df.iloc[of([0, 2])],
    "drop": lambda pd, df, of: df.drop(columns=of(["a"])),
    "set_index": lambda pd, df, of: df.set_index(of(["b"])),
    "groupby": lambda pd, df, of: df.groupby(of(["b"])).sum(numeric_only=True),
    "reindex": lambda pd, df, of: df.reindex(columns=of(["b", "q"])),
    "filter": lambda pd, df, of: df.filter(items=of(["b"])),
    "melt": lambda pd, df, of: df.melt(id_vars=of(["b"])),
    "value_counts": lambda pd, df, of: df.value_counts(subset=of(["b"])),
    "agg": lambda pd, df, of: df.b.agg(of(["sum", "count"])),
    "quantile": lambda pd, df, of: df.b.quantile(of([0.5])),
    "cat": lambda pd, df, of: df.c.str.cat(of(["1", "2", "3"])),
    "mask": lambda pd, df, of: df[of([True, False, True])],
    "keys": lambda pd, df, of: pd.concat([df, df], keys=of([1, 2])),
    "to_datetime": lambda pd, df, of: pd.to_datetime(of(["2020-01-01"])),
    "to_numeric": lambda pd, df, of: pd.to_numeric(of(["1", "2"])),
    "query": lambda pd, df, of: df.query("b in @items", local_dict={"items": of([1])}),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_reads_its_arguments_as_pandas_does(call, make):
    check(lambda pd, df: call(pd, df, make), DATA, native=None)


@pytest.mark.parametrize("make", [MAKERS["series"], MAKERS["index"], MAKERS["set"], MAKERS["array"], MAKERS["dict"]])
def test_a_key_of_a_sort_that_is_no_label_is_a_key_error(make):
    check(lambda pd, df: df.sort_values(make(["b"])), DATA, native=None)


def test_frames_from_an_iterator_are_planned():
    check(lambda pd, df: pd.concat(df.head(n) for n in (1, 2)), DATA)


def test_a_column_may_be_kept_as_it_is_in_a_dict_of_dtypes():
    check(lambda pd, df: df.astype({"b": None, "a": "float32"}), DATA, native=None)


def test_a_series_of_pandas_own_class_is_an_argument_like_another():
    check(lambda pd: pd.to_datetime(pandas.Series(["2020-01-01", None])).dt.year, native=None)
    check(lambda pd: pd.to_numeric(pandas.Series(["1", "2"])) + 1, native=None)
