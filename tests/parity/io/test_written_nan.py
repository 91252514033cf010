"""NaN that a plan computes: files store it as missing for nullable dtypes and as NaN for Arrow dtypes, as pandas does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from support import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "divided": lambda pd, f: f.assign(x=f["F"] / f["F"], y=f["I"] / f["I"], z=f["A"] / f["A"]),
    "integers divided": lambda pd, f: f.assign(x=f["I"] // f["I"], y=f["I"] % f["I"]),
    "filtered": lambda pd, f: f.assign(x=f["F"] / f["F"])[f["n"] > 0],
    "sorted": lambda pd, f: f.assign(x=f["F"] / f["F"]).sort_values("n", ascending=False),
    "as labels": lambda pd, f: f.assign(x=f["F"] / f["F"]).set_index("x"),
    "concatenated": lambda pd, f: pd.concat([f.assign(x=f["F"] / f["F"]), f.assign(x=f["F"])]),
    "merged": lambda pd, f: f.assign(x=f["F"] / f["F"]).merge(f[["n"]], on="n"),
    "grouped": lambda pd, f: (f.assign(x=f["F"] / f["F"])).groupby("n", as_index=False)["x"].mean(),
    "roots": lambda pd, f: f.assign(x=np.sqrt(f["F"] - 1), y=np.log(f["G"] - 5)),
    "changes": lambda pd, f: f.assign(x=f["F"].pct_change(), y=f["G"] * 0),
    "clipped": lambda pd, f: f.assign(x=(f["F"] / f["F"]).clip(0, 1), y=(f["F"] / f["F"]).abs()),
}


def table() -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "F": pandas.array([0.0, 1.5, None], dtype="Float64"),
            "G": pandas.array([0.0, 4.0, None], dtype="Float32"),
            "I": pandas.array([0, 3, None], dtype="Int64"),
            "A": pandas.array([0.0, 1.5, None], dtype="double[pyarrow]"),
            "n": [0, 1, 2],
        }
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("computed", COMPUTED)
def test_computed_nan_in_files(computed: str, tmp_path: Path) -> None:
    def program(pd: Any, frame: Any) -> Any:
        made = COMPUTED[computed](pd, frame)
        folder = tmp_path / pd.__name__
        folder.mkdir()
        made.to_parquet(folder / "a.parquet")
        stored = pyarrow.parquet.read_table(folder / "a.parquet")
        results = [{name: repr(stored[name].to_pylist()) for name in stored.column_names}.items()]
        made.reset_index().to_feather(folder / "a.feather")
        stored = pyarrow.feather.read_table(folder / "a.feather")
        results.append({name: repr(stored[name].to_pylist()) for name in stored.column_names}.items())
        if "n" in made.columns:
            made.to_parquet(folder / "parts", partition_cols=["n"])
            results.append(pandas.read_parquet(folder / "parts").isna().sum())
        for backend in ("pyarrow", "numpy_nullable"):
            read = pd.read_parquet(folder / "a.parquet", dtype_backend=backend)
            results += [read, read.isna().sum(), read.count()]
        results += [made.to_csv(), made.to_json(orient="records", lines=True), made]
        return [list(item) if type(item) is type({}.items()) else item for item in results]

    check(program, table(), native=None)


def test_nan_of_a_file_written_again(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"x": [1.0, np.nan, None], "k": [1, 2, 3]}), tmp_path / "source.parquet")

    def program(pd: Any) -> Any:
        read = pd.read_parquet(tmp_path / "source.parquet", dtype_backend="numpy_nullable")
        read[read["k"] > 1].to_parquet(tmp_path / f"{pd.__name__}.parquet")
        stored = pyarrow.parquet.read_table(tmp_path / f"{pd.__name__}.parquet")
        return [
            repr(stored["x"].to_pylist()),
            len(pd.read_parquet(tmp_path / f"{pd.__name__}.parquet", filters=[("x", ">", 0)])),
        ]

    check(program, native=None)


def test_missing_fields_of_a_struct_beside_a_column_of_their_path(tmp_path: Path) -> None:
    struct = pa.array([{"b": 1, "d": True}, None, {"b": None, "d": None}])
    columns = {
        "a": struct,
        "a.b": pa.array([1, 2, 3]),
        "a.d": pa.array([True, False, True]),
        "a.t": pa.array(["x", "y", "z"]),
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")

    def program(pd: Any) -> Any:
        read = pd.read_parquet(tmp_path / "a.parquet", columns=["a.b", "a.d", "a.t"])
        return read, read.dtypes, read["a.b"].sum(), read[read["a.d"]]["a.b"].max()

    check(program, native=None)


@pytest.mark.parametrize("compression", ["lz4", "zstd", "uncompressed"])
def test_views_in_feather_files(compression: str, tmp_path: Path) -> None:
    """Regression test: the kernel panicked when it read compressed views of short strings."""
    columns = {
        "a": pa.array(["x", "y", None], pa.string_view()),
        "b": pa.array([b"x", None, b"z" * 20], pa.binary_view()),
    }
    pyarrow.feather.write_feather(pa.table(columns), tmp_path / "a.feather", compression=compression)

    def program(pd: Any) -> Any:
        read = pd.read_feather(tmp_path / "a.feather")
        return read, read["a"].str.upper(), read[read["a"] > "x"]["a"].count()

    check(program, native=None)


def test_filters_of_a_file_with_views(tmp_path: Path) -> None:
    columns = {"s": pa.array(["x", "y"], pa.string_view()), "i": [1, 2]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    check(lambda pd: pd.read_parquet(tmp_path / "a.parquet", filters=[("i", ">", 1)]), native=None)
    check(lambda pd: pd.read_parquet(tmp_path / "a.parquet")["s"].max(), native=None)
