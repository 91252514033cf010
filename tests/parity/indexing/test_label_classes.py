"""Identity and classes of labels: results use the frame's own label objects, not equal ones from the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import case_id, check, check_sources

NUMBERS = pandas.DataFrame([[1.0, 2, 3], [1, 5, 6], [2, 2, 2]])
COLUMNS: dict[str, Any] = {
    "range": pandas.RangeIndex(3),
    "int64": pandas.Index([0, 1, 2], dtype="int64"),
    "int8": pandas.Index([0, 1, 2], dtype="int8"),
    "float64": pandas.Index([0.0, 1.0, 2.0]),
    "Int64": pandas.Index([0, 1, 2], dtype="Int64"),
    "object": pandas.Index([0, 1, "c"], dtype=object),
    "str": pandas.Index(["0", "1", "2"]),
    "dates": pandas.date_range("2020", periods=3),
    "category": pandas.CategoricalIndex([0, 1, 2]),
}
KEYS = [0, 0.0, np.int64(0), False, "0", pandas.Timestamp("2020"), "2020-01-01"]
CALLS = """
df[key]
df.groupby(key).sum()
df.groupby(key, as_index=False).sum()
df.groupby(df.columns[1])[key].sum()
df.groupby(df.columns[1]).agg(one=(key, 'last'))
df.groupby(key).size()
df.groupby(key).cummax()
df.set_index(key)
df.set_index(key).reset_index()
df.value_counts(key)
df.value_counts([key])
df.merge(df, on=key)
df.drop_duplicates(key)
df.duplicated(key)
df.sort_values(key)
df.dropna(subset=key)
df.astype({key: 'int64'})
df.fillna({key: 0})
df.replace({key: {1: 7}})
df.melt(id_vars=[key])
df.pivot_table(index=key, values=df.columns[1])
df.nlargest(1, key)
df.agg({key: ['sum', 'max']})
df.sum()[key]
df.quantile(0.5)[key]
pd.crosstab(df[key], df[df.columns[1]])
key in df
hasattr(df, str(key))
""".strip().splitlines()


def _classes(result: Any) -> Any:
    if isinstance(result, pandas.DataFrame):
        names = (*result.index.names, *result.columns.names, *result.columns)
    else:
        names = (*result.index.names, result.name) if isinstance(result, pandas.Series) else ()
    return result, [type(name) for name in names]


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("text", CALLS)
def test_a_label_is_the_columns_own(text, columns):
    call = eval(f"lambda pd, df, key: {text}")
    for key in KEYS:
        check(lambda pd, df, key=key: _classes(call(pd, df, key)), NUMBERS.set_axis(columns, axis=1), native=None)


ROWS = pandas.DataFrame({"w": [3.0, 1, 2, np.nan], "s": [1, 5, 2, 0], "t": list("abcd")})
FRAMES = {
    "all": ROWS,
    "slice": ROWS.iloc[1:],
    "steps": ROWS.iloc[::2],
    "backwards": ROWS.set_axis(pandas.RangeIndex(10, 2, -2)),
    "one": ROWS.iloc[:1],
    "two": ROWS.iloc[[2, 0]],
    "mixed": ROWS.iloc[[0, 2, 1]],
    "texts": ROWS.set_index("t"),
    "integers": ROWS.set_index("s"),
    "levels": ROWS.set_index(["s", "t"]),
    "dates": ROWS.set_axis(pandas.date_range("2020", periods=4)),
}
PLACES = """
df.w.idxmax()
df.sort_values('w').w.idxmax()
df.sort_values('w', ascending=False).w.idxmin()
df[df.w > 1].w.idxmax()
df[df.w >= 1].w.idxmin()
df.head(2).w.idxmax()
df.w.dropna().idxmin()
df.sort_values('w')[['w']].idxmin()
df.drop_duplicates('w').w.idxmax()
df.nlargest(2, 'w').w.idxmin()
pd.concat([df, df]).w.reset_index(drop=True).idxmax()
df.sort_values('w').w.last_valid_index()
df.sort_values('w').index.min()
list(df[df.w >= 1].w.items())
""".strip().splitlines()


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("text", PLACES)
def test_the_label_of_an_extreme(text, data, tmp_path):
    check_sources(eval(f"lambda pd, df: {text}"), data, tmp_path)


@pytest.mark.parametrize(
    "data", [ROWS, ROWS.tail(2), ROWS.rename_axis("name"), FRAMES["steps"], FRAMES["texts"]], ids=case_id
)
@pytest.mark.parametrize("bound", [0, 1, 9])
def test_row_labels_of_a_file_that_is_filtered_as_it_is_read(data, bound, tmp_path):
    data.to_parquet(tmp_path / "rows.parquet")

    def program(pd: Any) -> Any:
        read = pd.read_parquet(tmp_path / "rows.parquet", filters=[("w", ">", bound)])
        return read, read.index, read[read.w > 2].w.sum(), read.reset_index().w.idxmax() if len(read) else None

    check(program, native=None)
