"""Files of tables that are not computed yet: the kind and the name of their labels are those of pandas' file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

import craton
import craton.pandas

LABELS = {
    "named": pandas.Index(["a", "b"], name="k"),
    "integers": pandas.Index([1, 2]),
    "named integers": pandas.Index([1, 2], name="n"),
    "a range": pandas.RangeIndex(2),
    "times": pandas.DatetimeIndex(["2020-01-01", "2021-01-01"], name="t"),
    "truth values": pandas.Index([True, False]),
    "floats": pandas.Index([0.5, 1.5]),
    "mixed": pandas.Index(["a", 1]),
    "categories": pandas.CategoricalIndex(["x", "y"]),
    "named by a tuple": pandas.Index(["a", "b"], name=("x", 1)),
    "named by a number": pandas.Index(["a", "b"], name=3),
    "levels": pandas.MultiIndex.from_tuples([("a", "x"), ("b", "y")], names=["p", None]),
}
MADE: dict[str, Callable[[Any, Any], Any]] = {
    "merge": lambda pd, df: df.merge(df),
    "filter": lambda pd, df: df[df[df.columns[0]] > 0],
    "concat": lambda pd, df: pd.concat([df, df]),
    "concat without labels": lambda pd, df: pd.concat([df, df], ignore_index=True),
    "head": lambda pd, df: df.head(1),
    "sorted": lambda pd, df: df.sort_values(df.columns[1], ignore_index=True),
    "distinct": lambda pd, df: df.drop_duplicates(ignore_index=True),
    "groups": lambda pd, df: df.groupby(df.columns[0]).sum(),
    "groups and keys": lambda pd, df: df.groupby(df.columns[0], as_index=False).sum(),
    "numbered": lambda pd, df: df[df[df.columns[0]] > 0].reset_index(drop=True),
    "numbered by a name": lambda pd, df: df[df[df.columns[0]] > 0].reset_index(drop=True).rename_axis("q"),
}


def _read(pd: Any, made: Any, path: Path, kind: str, index: Any) -> Any:
    reader = f"read_{kind}"
    try:
        if kind == "feather":
            made.to_feather(path)
        else:
            made.to_parquet(path, index=index)
        files = [getattr(pandas, reader)(path), getattr(pd, reader)(path)]
        return [(repr(file.columns), repr(file.index), repr(file.dtypes), repr(file.values)) for file in files]
    except (ValueError, TypeError, KeyError) as error:
        return type(error).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labels", LABELS)
def test_labels_in_files(labels: str, tmp_path: Path) -> None:
    for name, make in MADE.items():
        for kind, index in (("parquet", None), ("parquet", True), ("parquet", False), ("feather", None)):
            results = []
            for pd in (pandas, craton.pandas):
                df = pd.DataFrame({"a": [1, 0, 2], "b": [2, 3, 1]})
                df.columns = LABELS[labels]
                with craton.option_context(small_rows=0):
                    results.append(_read(pd, make(pd, df), tmp_path / f"{name}.{kind}", kind, index))
            assert results[1] == results[0], (name, kind, index)
