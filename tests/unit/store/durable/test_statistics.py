"""Statistics in manifests: pages are skipped only if no row of them fulfils a condition, and sketches are near the distinct values."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas
import pyarrow as pa
import pytest

import craton
from craton import _native
from craton.lower import skipping
from craton.plan import sketches
from craton.store import durable_files, statistics
from craton.store.cli import main
from craton.store.durable import DurableSet
from craton.store.recovery import missing_files, rebuild
from craton.store.statistics import about_pages, distinct_values
from tests.unit.store.keyed_tables import keyed_table, table_of_dtypes

#: Four standard errors of a sketch.
SIGMAS = 4 * 1.04 / math.sqrt(sketches.REGISTERS)


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Iterator[Path]:
    with (
        mock.patch.object(durable_files, "PAGE_ROWS", 64),
        mock.patch.object(skipping, "_WORTHWHILE", 1.0),
        craton.option_context(data=tmp_path / "data", small_rows=0, result_memory=0),
    ):
        yield tmp_path / "data"


# ---- sketches ----


def sketch(values: Any) -> Any:
    return sketches.merged(_native.distinct_sketches(pa.table({"column": values})))


@pytest.mark.parametrize("count", [1, 2, 8, 9, 100, 1000, 2500, 4000, 10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("kind", ["numbers", "random", "floats", "texts"])
def test_errors_of_sketches(count: int, kind: str) -> None:
    if kind == "texts" and count > 100_000:
        return
    values = {
        "numbers": lambda: np.arange(count),
        "random": lambda: np.random.default_rng(count).permutation(count * 8)[:count] - count,
        "floats": lambda: np.arange(count) / 7,
        "texts": lambda: [f"text {number}" for number in range(count)],
    }[kind]()
    twice = pa.chunked_array([pa.array(values), pa.array(values[::-1])])
    found = sketches.estimated_count(sketch(twice))
    assert abs(found / count - 1) <= SIGMAS
    if count <= 9:
        assert round(found) == count


def test_sketches_are_merged_by_the_greatest_registers() -> None:
    left, right = np.arange(0, 30_000), np.arange(20_000, 50_000)
    both = sketches.merged([sketch(left), sketch(right)])
    assert (both == sketch(np.arange(50_000))).all()
    assert (sketches.merged([both.tobytes(), sketch(left)]) == both).all()
    assert not sketches.merged([]).any()
    assert sketches.estimated_count(sketches.merged([])) == 0
    assert (sketch(left.astype(np.float32)) == sketch(left.astype(np.uint16))).all()
    texts = pa.array(["a", None, "b", "a"])
    assert (sketch(texts) == sketch(texts.dictionary_encode())).all()
    assert (sketch(texts) == sketch(pa.array(["b", "a"], pa.string_view()))).all()


def test_texts_of_sketches() -> None:
    registers = sketch(np.arange(5000))
    text = sketches.as_text(registers)
    assert len(text) < 700
    assert (sketches.registers_of(text) == registers).all()
    longer = sketches.as_text(np.zeros(2048, np.uint8))
    for odd in (None, 5, "", "é", "YWJj", text[:-8], longer, sketches.as_text(np.full(1024, 56, np.uint8))):
        assert sketches.registers_of(odd) is None
    assert sketches.estimated_distinct([text, "YWJj"]) is None
    assert sketches.estimated_distinct([text, text]) == sketches.estimated_count(registers)


def test_what_is_not_a_table() -> None:
    with pytest.raises(TypeError):
        _native.distinct_sketches(5)  # type: ignore[arg-type]
    assert _native.distinct_sketches(pa.table({})) == []


def test_native_statistics_of_texts() -> None:
    batch = pa.record_batch(
        {
            "few": pa.array(["b", None, "a", "b", "é"]),
            "many": pa.array(["1", "2", "3", "4", "0"], pa.large_string()),
            "none": pa.nulls(5, pa.string()),
        }
    )
    assert _native.text_statistics(batch, 3) == [("a", "é", ["b", "a", "é"]), ("0", "4", None), None]
    assert _native.text_statistics(batch.slice(1, 2), 3)[0] == ("a", "a", ["a"])
    assert _native.text_statistics(batch.slice(2, 0), 3) == [None] * 3
    with pytest.raises(TypeError, match="describing texts"):
        _native.text_statistics(pa.record_batch({"n": [1]}), 3)
    with pytest.raises(ValueError, match="one batch, got 2"):
        _native.text_statistics(pa.Table.from_batches([batch, batch]), 3)


# ---- skipped pages ----


def constants(column: pandas.Series, rng: np.random.Generator) -> list[Any]:
    """Values of a column, and one that is not in it but between others."""
    known = column.dropna().unique()
    found = list(rng.choice(np.asarray(known, dtype=object), 2)) if len(known) else [1, 2]
    match column.name:
        case "text" | "long" | "category":
            return [*found, "t12x", "c1"] if column.name != "category" else [*found, "c49"]
        case "bool" | "flags":
            return [True, False]
        case "time" | "zone":
            return [*found, found[0] + pandas.Timedelta("1min")]
        case "duration":
            return [*found, found[0] + pandas.Timedelta("1s")]
        case "float64" | "float32" | "zeros":
            return [*found, 0.0, -0.0, 0.1]
        case _:
            return [*found, int(found[0]) + 1]


def conditions(name: str, values: list[Any]) -> dict[str, Callable[[Any], Any]]:
    first, *others = values
    return {
        "eq": lambda f: f[name] == values[-1],
        "eq first": lambda f: f[name] == first,
        "ne": lambda f: f[name] != first,
        "not eq": lambda f: ~(f[name] == first),
        "isin": lambda f: f[name].isin(others),
        "not isin": lambda f: ~f[name].isin(values[:2]),
        "isin none": lambda f: f[name].isin([first, None]),
        "isna": lambda f: f[name].isna(),
        "notna": lambda f: f[name].notna(),
        "or": lambda f: (f[name] == values[-1]) | f[name].isna(),
        "or other": lambda f: (f[name] == values[-1]) | (f["int8"] == 3),
        "and other": lambda f: (f[name] != first) & (f["int8"] != 3),
    }


ORDERED = ("int8", "int64", "uint64", "float64", "zeros", "float32", "text", "time", "zone", "duration", "category")


def check_conditions(name: str, frame: pandas.DataFrame, rng: np.random.Generator) -> None:
    for column in frame.columns:
        values = constants(frame[column], rng)
        given = conditions(column, values)
        if column in ORDERED:
            given["lt"] = lambda f, column=column, values=values: f[column] < values[0]
            given["ge"] = lambda f, column=column, values=values: f[column] >= values[-1]
            given["not le"] = lambda f, column=column, values=values: ~(f[column] <= values[1])
        if column == "text":
            given["startswith"] = lambda f: f["text"].str.startswith("t1", na=False)
            given["length"] = lambda f: f["text"].str.len() == 2
        if column in ("zeros", "float64"):
            given["inverse"] = lambda f, column=column: 1 / f[column] == -np.inf
        if column == "time":
            given["part"] = lambda f: f["time"].dt.day == 1
        for how in rng.permutation(sorted(given))[:6]:
            condition = given[how]
            with np.errstate(all="ignore"):
                wanted = condition(frame)
            if wanted.dtype != bool:
                wanted = wanted.fillna(False).astype(bool)
            read = craton.read_set(name)
            made = condition(read)
            if str(made.dtype) != "bool":
                made = made.fillna(False).astype(bool)
            try:
                pandas.testing.assert_frame_equal(pandas.DataFrame(read[made]), frame[wanted])
            except AssertionError as error:
                raise AssertionError(f"{column}: {how}: {values}") from error


LAYOUTS: dict[str, dict[str, Any]] = {
    "in order": {},
    "hash": {"partition_by": "int64", "partitions": 3},
    "range and replica": {"partition_by": "int8", "replicate_by": ["text"], "kind": "range", "partitions": 2},
}


@pytest.mark.parametrize("page", [3, 40])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_conditions_on_all_dtypes(layout: str, page: int) -> None:
    rng = np.random.default_rng(page)
    frame = table_of_dtypes(300 if page > 3 else 90, page)
    parts = frame.iloc[:200], frame.iloc[200:200], frame.iloc[200:].reset_index(drop=True)
    with mock.patch.object(durable_files, "PAGE_ROWS", page):
        for part in parts:
            mode: Any = "append" if part is not parts[0] else "error"
            craton.save("rows", part.reset_index(drop=True), mode=mode, **(LAYOUTS[layout] if mode == "error" else {}))
        check_conditions("rows", frame, rng)


def test_conditions_on_parquet_files() -> None:
    frame = table_of_dtypes(300, 7).drop(columns=["category", "numbers"])
    craton.save("rows", frame, format="parquet", partition_by="int8", partitions=2)
    check_conditions("rows", frame, np.random.default_rng(7))


def test_floats_that_json_has_not() -> None:
    values = [math.nan, math.inf, 1.0, -0.0, None, -math.inf, 0.0]
    table = pa.table(
        {"x": pa.array([value for value in values for _ in range(64)] + [0.0, -0.0] * 32 + [-0.0, 0.0] * 32)}
    )
    craton.save("odd", table)
    frame = pandas.DataFrame({"x": table["x"].to_numpy()})
    found = DurableSet("odd").version().files[0]["about"]["values"]["x"]
    assert found[:7] == [None, None, [1.0], [0.0], [], None, [0.0]]
    for condition in (
        lambda f: f["x"] == math.inf,
        lambda f: f["x"] != 1.0,
        lambda f: f["x"].isna(),
        lambda f: f["x"] == 0,
        lambda f: 1 / f["x"] < -5,
        lambda f: 1 / f["x"] == math.inf,
        lambda f: f["x"].isin([math.nan, 0.0]),
    ):
        with np.errstate(all="ignore"):
            expected = frame[condition(frame)]
        read = craton.read_set("odd")
        pandas.testing.assert_frame_equal(pandas.DataFrame(read[condition(read)]), expected)


def test_values_of_other_types() -> None:
    day = datetime.date(2024, 2, 29)
    table = pa.table(
        {
            "date": pa.array([day, None, day + datetime.timedelta(1)]),
            "bytes": pa.array([b"a", b"b", None]),
            "half": pa.array(np.array([1, 2, 3], np.float16)),
            "list": pa.array([[1], [2], None]),
            "null": pa.nulls(3),
            "number": pa.array([1, 2, None]).dictionary_encode(),
            "null in the categories": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None])),
        }
    )
    (page,) = [statistics.describe_page(table, frozenset(["date"]), "all")]
    about = about_pages([page])
    assert about["values"] == {"date": [[19782, 19783]], "number": [[1, 2]]}
    assert set(about["sketches"]) == {"bytes", "null", "number", "null in the categories"}
    assert about_pages([statistics.describe_page(table, frozenset(), "pages")])["sketches"] == {}


def scanned(frame: Any, condition: Callable[[Any], Any]) -> int:
    """The rows of the pages that a filter reads; those of all if it reads the files as a whole."""
    plain = skipping.needed_runs
    read: list[int] = []

    def counted(source: Any, predicate: Any) -> Any:
        runs = plain(source, predicate)
        read.append(source.rows if runs is None else sum(rows for _, _, rows in runs))
        return runs

    with mock.patch("craton.lower.single_node.needed_runs", counted):
        len(frame[condition(frame)])
    return min(read)


def test_pages_are_skipped_that_bounds_would_let_in() -> None:
    frame = pandas.DataFrame(
        {"k": [1, 9] * 64 + [5, 9] * 64, "s": ["a", "z"] * 64 + ["m", None] * 64, "b": [True] * 256}
    )
    frame.loc[128:, "b"] = False
    craton.save("rows", frame)
    read = craton.read_set("rows")
    assert scanned(read, lambda f: f["k"] == 5) == 128
    assert scanned(read, lambda f: f["k"] == 6) == 0
    assert scanned(read, lambda f: f["k"].isin([5, 7])) == 128
    assert scanned(read, lambda f: (f["k"] != 1) & (f["k"] != 9)) == 128
    assert scanned(read, lambda f: f["s"].isna()) == 128
    assert scanned(read, lambda f: f["s"].str.startswith("a", na=False)) == 128
    assert scanned(read, lambda f: ~f["b"]) == 128
    assert scanned(read, lambda f: f["k"] > 0) == 256


def test_many_values_of_a_page_are_no_set() -> None:
    craton.save("rows", pandas.DataFrame({"k": np.arange(128) % 9, "s": [f"{i % 8:065}" for i in range(128)]}))
    assert DurableSet("rows").version().files[0]["about"]["values"] == {}
    hidden = np.zeros(640, np.int64)
    hidden[7::64] = range(10)
    with mock.patch.object(durable_files, "PAGE_ROWS", 640):
        craton.save("hidden", pandas.DataFrame({"k": hidden}))
    assert DurableSet("hidden").version().files[0]["about"]["values"] == {}
    read = craton.read_set("hidden")
    assert len(read[read["k"] == 9]) == 1


# ---- manifests ----


def without_new_keys(pages: Any) -> dict[str, Any]:
    return {name: about for name, about in about_pages(pages).items() if name not in ("values", "sketches")}


def test_manifests_of_earlier_versions(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = keyed_table(300, 1, 20, 7), keyed_table(200, 2, 20, 7)
    with mock.patch.object(durable_files, "about_pages", without_new_keys):
        craton.save("rows", old, partition_by="k", partitions=2)
    assert "sketches" not in DurableSet("rows").version().files[0]["about"]
    assert main(["describe", "rows"]) == 0
    assert next(line for line in capsys.readouterr().out.splitlines() if line.startswith("k ")).split()[-1] == "-"
    craton.save("rows", new, mode="append")
    frame = pandas.concat([old, new], ignore_index=True)
    for condition in (
        lambda f: f["p"] == 3,
        lambda f: f["s"] == "bb",
        lambda f: f["s"].isna(),
        lambda f: f["x"] == old["x"].max(),
        lambda f: f["x"] <= new["x"].min(),
    ):
        read = craton.read_set("rows")
        pandas.testing.assert_frame_equal(pandas.DataFrame(read[condition(read)]), frame[condition(frame)])
    assert distinct_values([file["about"] for file in DurableSet("rows").version().files], "k") is None
    craton.save("rows", frame, mode="overwrite")
    assert main(["describe", "rows"]) == 0
    assert next(line for line in capsys.readouterr().out.splitlines() if line.startswith("k ")).split()[-1] == "~20"


def test_floats_of_manifests_are_what_was_written() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.random(3000), rng.standard_normal(3000) * 10.0 ** rng.integers(-300, 300, 3000)])
    frame = pandas.DataFrame(
        {"x": values, "y": rng.random(6000).astype(np.float32), "z": np.repeat(values[:94], 64)[:6000]}
    )
    craton.save("rows", frame)
    about = DurableSet("rows").version().files[0]["about"]
    pages = [frame["x"].iloc[start : start + 64] for start in range(0, 6000, 64)]
    assert about["bounds"]["x"] == [[page.min(), page.max()] for page in pages]
    assert about["values"]["z"] == [[value] for value in values[:94]]
    read = craton.read_set("rows")
    for page in pages[::6]:
        for value in (page.min(), page.max()):
            assert list(read[read["x"] == value]["x"]) == [value]
    for value in frame["y"].iloc[::500]:
        assert list(read[read["y"] == value]["y"]) == list(frame["y"][frame["y"] == value])


def test_numbers_of_a_set() -> None:
    first, second = keyed_table(400, 1, 200, 60), keyed_table(400, 2, 300, 60)
    craton.save("rows", first, partition_by="k", replicate_by=["p"], partitions=3)
    craton.save("rows", second, mode="append")
    durable = DurableSet("rows")
    version = durable.version()
    frame = pandas.concat([first, second])
    for name in frame.columns:
        found = distinct_values([file["about"] for file in version.files_of(0)], name)
        if frame[name].dtype.kind == "f":
            assert found is None
            continue
        assert found is not None
        assert abs(found / frame[name].nunique() - 1) <= SIGMAS
    assert all(file["about"]["sketches"] == {} for file in version.files_of(1))
    for file in version.files_of(0)[::2]:
        Path(durable.path(file)).unlink()
    rebuild(durable, version, missing_files(durable, version))
    assert durable.verify(2) == {}
    assert durable.version() == version


def test_columns_that_change() -> None:
    craton.save("rows", pandas.DataFrame({"k": np.arange(300), "gone": ["a"] * 300}))
    craton.save("rows", pandas.DataFrame({"k": np.arange(400) / 2, "new": range(400)}), mode="append", evolve=True)
    abouts = [file["about"] for file in DurableSet("rows").version().files]
    found = [distinct_values(abouts, name) for name in ("k", "gone", "new", "other")]
    assert [
        None if one is None else abs(one / right - 1) <= SIGMAS
        for one, right in zip(found, (500, 1, 400, 1), strict=True)
    ] == [
        None,  # floats in the second file
        True,
        True,
        None,
    ]
    read = craton.read_set("rows")
    assert len(read[read["k"] == 1.5]) == 1
    assert len(read[read["k"] == 199.0]) == 2


# ---- estimates ----


def estimates(frame: Any) -> list[int]:
    """The estimated rows of the operators of a plan, from top to bottom."""
    text = str(craton.explain(frame, stage="optimized"))
    units = {"": 1, "k": 1_000, "M": 1_000_000}
    return [round(float(number) * units[unit]) for number, unit in re.findall(r"\(~([\d.]+)\s*([kM]?)", text)]


def near(found: int, expected: float) -> bool:
    return abs(found / expected - 1) < 0.2


def test_groups_and_joins_are_estimated() -> None:
    rows = pandas.DataFrame({"k": np.arange(20_000) % 30, "m": np.arange(20_000) % 500, "u": np.arange(20_000)})
    few = pandas.DataFrame({"m": np.arange(500), "v": np.arange(500) % 5})
    with mock.patch.object(durable_files, "PAGE_ROWS", 1 << 12):
        craton.save("rows", rows)
        craton.save("few", few)
    read, other = craton.read_set("rows"), craton.read_set("few")
    assert near(estimates(read.groupby("k")["u"].sum())[0], 30)
    assert near(estimates(read.groupby("u")["k"].sum())[0], 20_000)
    assert near(estimates(read[read["k"] == 3].groupby("m")["u"].sum())[0], 500 * (1 - (29 / 30) ** 40))
    assert near(estimates(read.drop_duplicates(["k"])[["k"]])[0], 30)
    assert near(estimates(read[read["m"] == 7])[0], 40)
    assert any(near(one, 20_000) for one in estimates(read.merge(other, on="m")))
    assert any(near(one, 20_000 * 500 / 30) for one in estimates(read.merge(other.rename(columns={"v": "k"}), on="k")))
    found = read.groupby("u")["k"].sum()
    pandas.testing.assert_series_equal(pandas.Series(found), rows.groupby("u")["k"].sum())
