"""Properties of a Parquet file that its footer gives: missing values per column, and the dtypes that pandas reads."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import check

from craton.pandas.io import parquet
from craton.pandas.io.footers import local_footer

N = 40
TYPES = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.null(), pa.duration("ns")),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4)),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.decimal128(12, 2), pa.decimal256(50, 2)),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo", "+05:30")),
    *(pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64())),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64(), ordered=True)),
]


# ---- missing values ----


def columns(missing_in: int | None) -> dict[str, pa.Array]:
    """Ten rows. If `missing_in` is given, each column except ``full`` has a missing value."""
    hole = missing_in is not None
    return {
        "i": pa.array([1, None if hole else 2, *range(8)], pa.int64()),
        "b": pa.array([True, None if hole else False, *[True] * 8]),
        "s": pa.array(["x", None if hole else "y", *"abcdefgh"]),
        "f": pa.array([0.5, None if hole else 1.5, *[2.5] * 8]),
        "full": pa.array(range(10), pa.int64()),
    }


def write_groups(path: Path, hole: int | None, statistics: bool | list[str]) -> None:
    """Write four row groups, and a row group without rows after each, if pyarrow writes such groups."""
    schema = pa.table(columns(None)).schema
    with pq.ParquetWriter(path, schema, write_statistics=statistics) as writer:
        for group in range(4):
            writer.write_table(pa.table(columns(group if group == hole else None)))
            writer.write_table(schema.empty_table())


def told(path: Path) -> tuple[dict[str, int | None], dict[str, int]]:
    """The missing values and bytes of each column, added up from the metadata of each column chunk."""
    metadata = pq.read_metadata(path)
    missing: dict[str, int | None] = {}
    sizes: dict[str, int] = {}
    for group in metadata.to_dict()["row_groups"]:
        for chunk in group["columns"]:
            name, found = chunk["path_in_schema"], chunk["statistics"]
            sizes[name] = sizes.get(name, 0) + chunk["total_uncompressed_size"]
            before = missing.setdefault(name, 0)
            if group["num_rows"]:
                known = found is not None and found["null_count"] is not None and before is not None
                missing[name] = before + found["null_count"] if known else None
    return missing, sizes


@pytest.mark.parametrize("statistics", [True, False, ["i", "s", "full"], ["b"]], ids=["all", "none", "some", "one"])
@pytest.mark.parametrize("hole", [None, 0, 3], ids=["full", "first", "last"])
def test_missing_values_by_column(tmp_path: Path, hole: int | None, statistics: bool | list[str]) -> None:
    path = tmp_path / "groups.parquet"
    write_groups(path, hole, statistics)
    footer = local_footer(str(path))
    assert (footer.missing, footer.sizes) == told(path)
    assert footer.missing["full"] == (0 if statistics is True or (statistics and "full" in statistics) else None)
    native = None if hole is not None or statistics is not True else True
    check(lambda pd: pd.read_parquet(path), native=native)
    check(
        lambda pd: pd.read_parquet(path)[["i", "full"]].assign(j=lambda d: d.i + d.full).groupby("full").sum(),
        native=native,
    )
    check(lambda pd: pd.read_parquet(path).sort_values(["s", "full"])[["b", "f", "i"]].head(7), native=native)


@pytest.mark.parametrize("without", [0, 1])
@pytest.mark.parametrize("hole", [0, 1])
def test_one_file_of_a_folder_has_no_statistics(tmp_path: Path, without: int, hole: int) -> None:
    for i in range(2):
        write_groups(tmp_path / f"{i}.parquet", 2 if i == hole else None, statistics=i != without)
    check(lambda pd: pd.read_parquet(tmp_path), native=None)
    check(lambda pd: pd.read_parquet(tmp_path)[["i", "full"]].sum(), native=None)
    check(
        lambda pd: pd.read_parquet(tmp_path).drop(columns="b").query("full > 3")["i"].reset_index(drop=True),
        native=None,
    )


def test_leaves_of_nested_columns_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "nested.parquet"
    pairs = [{"x": 1, "y": None}, None, {"x": None, "y": "b"}] * 10
    pq.write_table(pa.table({"p": pairs, "l": [[1, None], [], None] * 10, "n": range(30)}), path, row_group_size=7)
    footer = local_footer(str(path))
    assert (footer.missing, footer.sizes) == told(path)
    assert {"p.x", "p.y", "n"} < footer.missing.keys()
    check(lambda pd: pd.read_parquet(path, columns=["n"]).sum(), native=None)


# ---- the dtypes that pandas reads ----


def described(dtype: Any) -> tuple[Any, ...]:
    """A dtype with the properties in which equal dtypes may differ."""
    return type(dtype), dtype, repr(dtype), getattr(dtype, "storage", None), str(getattr(dtype, "na_value", None))


def same_frames(schema: pa.Schema, backend: str | None) -> None:
    """Compare with the frame that pandas reads from a file without rows, or with its error."""
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink)
    sink.seek(0)
    stored = pq.read_metadata(sink).schema.to_arrow_schema()
    named: dict[str, Any] = {} if backend is None else {"dtype_backend": backend}
    try:
        expected = pandas.read_parquet(sink, **named)
    except Exception as error:
        with pytest.raises(type(error)):
            parquet.read_without_rows(stored.empty_table(), None, backend)
        return
    got = parquet.read_without_rows(stored.empty_table(), None, backend)
    assert list(map(described, got.dtypes)) == list(map(described, expected.dtypes))
    for mine, theirs in ((got.index, expected.index), (got.columns, expected.columns)):
        assert type(mine) is type(theirs)
        assert mine.identical(theirs)
        levels = zip(mine.levels, theirs.levels, strict=True) if mine.nlevels > 1 else [(mine, theirs)]
        assert all(described(one.dtype) == described(other.dtype) for one, other in levels)
    assert got.attrs == expected.attrs


@pytest.fixture(
    params=[("mode.string_storage", "auto"), ("mode.string_storage", "python"), ("future.infer_string", False)], ids=str
)
def settings(request: pytest.FixtureRequest) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pandas.errors.Pandas4Warning)  # the option is deprecated
        with pandas.option_context(*request.param):
            yield


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types(kind: pa.DataType, backend: str | None) -> None:
    same_frames(pa.schema([("a", kind), pa.field("b", kind, metadata={"PARQUET:field_id": "7"})]), backend)
    same_frames(pa.schema([("a", kind)], metadata={"k": "v"}), backend)


FRAMES = {
    "range": pandas.DataFrame({"a": [1, 2]}, index=pandas.RangeIndex(3, 7, 2, name="r")),
    "labels": pandas.DataFrame({"a": ["x"], "b": [1.5]}, index=pandas.Index(["k"], name="key")),
    "unnamed": pandas.DataFrame({"a": ["x"], "b": [1.5]}, index=[7]),
    "times": pandas.DataFrame({"a": [1]}, index=pandas.DatetimeIndex(["2020"], tz="Asia/Tokyo")),
    "multi": pandas.DataFrame({"a": [1]}, index=pandas.MultiIndex.from_tuples([(1, "x")], names=["p", None])),
    "nullable": pandas.DataFrame({"a": [1], "b": ["x"], "c": [True]}).convert_dtypes(),
    "arrow": pandas.DataFrame({"a": [1], "b": ["x"]}).convert_dtypes(dtype_backend="pyarrow"),
    "numbers": pandas.DataFrame([[1, 2.5]], columns=[10, 20]),
    "named": pandas.DataFrame([[1, "x"]], columns=pandas.Index(["a", "b"], name="field")),
    "levels": pandas.DataFrame([[1, 2]], columns=pandas.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
    "seconds": pandas.DataFrame({"t": pandas.to_datetime(["2020"]).as_unit("s")}),
    "periods": pandas.DataFrame({"t": pandas.period_range("2020", periods=2, freq="M")}),
    "intervals": pandas.DataFrame({"t": pandas.interval_range(0, 2)}),
    "categories": pandas.DataFrame({"c": pandas.Categorical(["x", "y"], ordered=True), "a": 1}),
    "spans": pandas.DataFrame({"d": pandas.to_timedelta(["1D"])}),
    "objects": pandas.DataFrame({"o": [b"x"], "p": [[1]]}),
    "nothing": pandas.DataFrame(index=[1, 2]),
}
FRAMES["attrs"] = FRAMES["labels"].copy()
FRAMES["attrs"].attrs = {"unit": "m"}


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
@pytest.mark.parametrize("name", FRAMES)
def test_metadata_of_pandas(tmp_path: Path, name: str, backend: str | None) -> None:
    path = tmp_path / "frame.parquet"
    FRAMES[name].to_parquet(path)
    same_frames(pq.read_schema(path), backend)
    named: dict[str, Any] = {} if backend is None else {"dtype_backend": backend}
    check(lambda pd: pd.read_parquet(path, **named), native=None)
    check(lambda pd: pd.read_parquet(path, **named).reset_index().head(1), native=None)


@pytest.mark.parametrize(
    "names", [["a", "a"], ["__filename", "a"], ["__batch_index"], ["", "a.b"], ["__index_level_0__"]], ids=str
)
def test_names(names: list[str]) -> None:
    same_frames(pa.schema([(name, pa.int64()) for name in names]), None)


def test_an_engine_that_is_not_there() -> None:
    chosen, warned = (
        pandas.option_context("io.parquet.engine", "fastparquet"),
        pytest.warns(pandas.errors.Pandas4Warning),
    )
    with chosen, warned, pytest.raises(ImportError):
        parquet.read_without_rows(pa.schema([("a", pa.int64())]).empty_table(), None, None)
