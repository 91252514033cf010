"""Files in which an Arrow column has NaN and null, read with nullable dtypes: pandas treats both as missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from support import check

USES = {
    "isna": lambda f: (f["y"].isna(), f["y"].notna().sum(), f["y"].count(), f.isna().sum()),
    "merge": lambda f: f.merge(f, on="y"),
    "group": lambda f: (
        f.groupby("y")["k"].sum(),
        f.groupby("y", dropna=False)["k"].sum(),
        f["y"].value_counts(dropna=False),
    ),
    "sums": lambda f: (f["y"].sum(), f["y"].sum(skipna=False), f["y"].mean(), f["y"].cumsum(), f["y"].max()),
    "fill": lambda f: (f["y"].fillna(5.0), f["y"].ffill(), f.dropna(), f["y"].shift().fillna(1)),
    "compare": lambda f: (f[f["y"] > 0], f["y"] == f["y"], f["y"].isin([1.0, None]), (f["y"] > 0).any()),
    "sort": lambda f: (f.sort_values("y"), f.drop_duplicates("y"), f["y"].nunique(dropna=False), f["y"].rank()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_nan_is_missing(tmp_path: Path, format: str, kind: Any, nulls: bool, use: str) -> None:
    values = pa.array([1.0, float("nan"), None if nulls else 2.0, float("nan"), 1.0, 3.0], kind, from_pandas=False)
    table = pa.table({"y": values, "k": pa.array(range(6))})
    write = {"parquet": pyarrow.parquet.write_table, "feather": pyarrow.feather.write_feather}[format]
    write(table, tmp_path / "a")

    def program(pd: Any) -> Any:
        return USES[use](getattr(pd, f"read_{format}")(tmp_path / "a", dtype_backend="numpy_nullable"))

    check(program, native=None)


@pytest.mark.parametrize("use", USES)
def test_nan_is_missing_where_the_file_says_that_the_dtype_is_nullable(tmp_path: Path, use: str) -> None:
    values = pa.array([1.0, float("nan"), None, float("nan"), 1.0, 3.0], from_pandas=False)
    schema = pa.Table.from_pandas(pandas.DataFrame({"y": pandas.array([1.0], dtype="Float64"), "k": [1]})).schema
    pyarrow.parquet.write_table(pa.table([values, pa.array(range(6))], schema=schema), tmp_path / "a")
    check(lambda pd: USES[use](pd.read_parquet(tmp_path / "a")), native=None)
