"""Scans through the decode cache: results are equal, columns are decoded once, and changes of the file are detected."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import same

import craton
import craton.pandas as pd
from craton.store import CorruptPage, Store, close_store, default_store
from craton.store.decoded import DecodeCache, DecodedPages


@pytest.fixture(autouse=True)
def cached() -> Iterator[None]:
    close_store()
    with craton.option_context(decode_cache="on", small_rows=0, memory_limit=256 << 20):
        yield
    craton.clear_memory()
    close_store()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = 50_000
    frame = pandas.DataFrame(
        {
            "n": np.arange(rows),
            "x": np.where(np.arange(rows) % 7 == 0, np.nan, np.arange(rows) / 3),
            "s": [None if i % 11 == 0 else f"text number {i % 100}" for i in range(rows)],
            "t": pandas.Timestamp("2024-01-01") + pandas.to_timedelta(np.arange(rows), unit="s"),
            "b": np.arange(rows) % 2 == 0,
        }
    )
    target = tmp_path / "data.parquet"
    frame.to_parquet(target, row_group_size=10_000)
    return target


def query(module: object, path: Path) -> object:
    frame = module.read_parquet(path)  # type: ignore[attr-defined]
    return frame[frame["n"] > 100].groupby("s")[["x", "n"]].sum().sort_values("n")


def test_results_are_equal_cold_and_warm(path: Path) -> None:
    expected = query(pandas, path)
    for _ in range(3):
        craton.clear_memory()
        same(query(pd, path), expected)
    same(pd.read_parquet(path), pandas.read_parquet(path))


def test_the_second_scan_decodes_nothing(path: Path) -> None:
    query(pd, path).sum()  # type: ignore[attr-defined]
    counted = default_store().counters()
    craton.clear_memory()
    # Another result of the same columns: an equal one would be that of the first, if something still holds it.
    frame = pd.read_parquet(path)
    frame[frame["n"] > 200].groupby("s")[["x", "n"]].max().sum()
    after = default_store().counters()
    assert after["copied"] == counted["copied"]
    assert after["hits"] > counted["hits"]


def test_only_columns_that_are_asked_for_are_decoded(path: Path) -> None:
    pd.read_parquet(path)["n"].sum()
    assert default_store().counters()["copied"] == pytest.approx(8 * 50_000, abs=4096)


def test_a_changed_file_is_seen(path: Path) -> None:
    assert pd.read_parquet(path)["n"].sum() == 50_000 * 49_999 // 2
    pandas.DataFrame({"n": [1, 2, 3]}).to_parquet(path)
    assert pd.read_parquet(path)["n"].sum() == 6
    names = [name for name in default_store().describe()["name"] if name.startswith("decoded:")]
    assert len(names) == 1


def test_head_does_not_decode_the_file(path: Path) -> None:
    assert pd.read_parquet(path).head(3)["n"].tolist() == [0, 1, 2]
    assert default_store().counters()["copied"] == 0


def test_what_does_not_fit_is_scanned(path: Path) -> None:
    close_store()
    with craton.option_context(memory_limit=64 << 10):
        same(query(pd, path), query(pandas, path))


@pytest.mark.parametrize("kind", ["csv", "feather"])
def test_other_formats(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{kind}"
    frame = pandas.DataFrame({"n": range(20_000), "x": np.arange(20_000) / 3, "s": ["a", "b", None, "c"] * 5_000})
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_feather(path)
    read = f"read_{kind}"

    def program(module: Any) -> Any:
        data = getattr(module, read)(path)
        return data[data["s"].isin(["a", "c"]) & (data["n"] > 7)][["n", "x"]].sum()

    same(program(pd), program(pandas))
    counted = default_store().counters()["copied"]
    assert counted > 0
    craton.clear_memory()
    same(program(pd), program(pandas))
    assert default_store().counters()["copied"] == counted


@pytest.mark.parametrize("condition", ["isin", "equal", "unequal", "missing", "not missing", "contains", "none"])
def test_conditions_on_text_of_few_values(path: Path, condition: str) -> None:
    def program(module: Any) -> Any:
        data = module.read_parquet(path)
        text = data["s"]
        kept = {
            "isin": lambda: text.isin(["text number 3", "text number 4", "nothing"]),
            "equal": lambda: text == "text number 5",
            "unequal": lambda: text != "text number 5",
            "missing": lambda: text.isna(),
            "not missing": lambda: text.notna(),
            "contains": lambda: text.str.contains("9"),
            "none": lambda: text == "nothing",
        }[condition]()
        return data[kept & (data["n"] > 10)]

    for _ in range(2):
        same(program(pd), program(pandas))
        craton.clear_memory()


def test_off(path: Path) -> None:
    with craton.option_context(decode_cache="off"):
        query(pd, path).sum()  # type: ignore[attr-defined]
    assert default_store().counters()["copied"] == 0


def test_another_process_finds_the_columns(path: Path) -> None:
    expected = int(pd.read_parquet(path)["n"].sum())
    address = default_store().serve()
    before = default_store().counters()["copied"]
    code = "import sys, craton.pandas as pd; print(pd.read_parquet(sys.argv[1])['n'].sum())"
    environment = dict(os.environ, CRATON_STORE=address, CRATON_SMALL_ROWS="0")
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == expected
    assert default_store().counters()["copied"] == before


def test_a_store_that_died_does_not_end_queries(path: Path) -> None:
    expected = query(pandas, path)
    with Store.open(256 << 20) as store:
        craton.connect(store.serve())
        same(query(pd, path), expected)
        assert store.counters()["copied"] > 0
    craton.clear_memory()
    same(query(pd, path), expected)


@pytest.mark.parametrize("error", [KeyError, ConnectionError, MemoryError, CorruptPage])
@pytest.mark.parametrize("method", ["find", "missing", "read", "fill", "dictionary_column"])
def test_whatever_the_cache_meets_the_file_is_read(
    method: str, error: type[Exception], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object) -> None:
        raise error("as it happens")

    def program(module: Any) -> Any:
        data = module.read_parquet(path)
        return data[data["s"] == "text number 5"]["n"].sum()

    monkeypatch.setattr(DecodeCache if hasattr(DecodeCache, method) else DecodedPages, method, fails)
    assert program(pd) == program(pandas)


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather"])
def test_damaged_files_raise_as_without_the_cache(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{kind}"
    frame = pandas.DataFrame({"n": range(20_000), "s": [f"text {i}" for i in range(20_000)]})
    frame.to_csv(path, index=False) if kind == "csv" else getattr(frame, f"to_{kind}")(path)
    content = bytearray(path.read_bytes())
    content[1000:3000] = b"\xff" * 2000
    path.write_bytes(content)

    def outcome() -> str:
        try:
            return f"{getattr(pd, f'read_{kind}')(path)[['n', 's']].count().tolist()}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    found = outcome()
    with craton.option_context(decode_cache="off"):
        craton.clear_memory()
        assert outcome() == found
