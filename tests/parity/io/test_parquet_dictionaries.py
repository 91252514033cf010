"""Categories that a Parquet file stores as dictionaries: they are read without the values if these only refer to the dictionary."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import check

from craton.pandas.io import dictionary_pages, parquet

WRITERS: dict[str, dict[str, Any]] = {
    "default": {},
    "old version": {"version": "1.0"},
    "pages of version 2": {"data_page_version": "2.0"},
    "small pages": {"data_page_size": 64, "write_batch_size": 8},
    "checksums": {"write_page_checksum": True},
    "no compression": {"compression": "none"},
    "zstd": {"compression": "zstd", "data_page_version": "2.0", "data_page_size": 64, "write_batch_size": 8},
    "no statistics": {"write_statistics": False},
    "page index": {"write_page_index": True},
}
PLAIN: dict[str, dict[str, Any]] = {
    "another dictionary": {},
    "another dictionary, pages of version 2": {"data_page_version": "2.0", "compression": "zstd"},
    "no dictionaries": {"use_dictionary": False},
}


def column(seed: int, rows: int, ordered: bool = False) -> pa.ChunkedArray:
    """Categories of which some are unused, in chunks with dictionaries of their own."""
    rng = random.Random(seed)
    names = [f"{'n' * rng.randrange(9)}{i}ü" for i in range(rng.choice([1, 3, 60]))]
    chunks = []
    for _ in range(rng.randrange(1, 4)):
        known = rng.sample(names, rng.randrange(1, len(names) + 1))
        codes = [rng.choice([None, *range(len(known))]) if seed % 3 else rng.randrange(len(known)) for _ in range(rows)]
        kind = pa.dictionary(pa.int32(), pa.string(), ordered)
        made = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(known), ordered=ordered)
        chunks.append(made.cast(kind))
    return pa.chunked_array(chunks) if not ordered else pa.chunked_array(chunks[:1])


def dtype_of_values(path: Path, name: str) -> Any:
    """The dtype that all values together have."""
    return pandas.read_parquet(path, columns=[name])[name].dtype


@pytest.mark.parametrize("writer", [*WRITERS, *PLAIN])
@pytest.mark.parametrize("seed", range(6))
def test_categories_are_those_that_pandas_reads(tmp_path: Path, writer: str, seed: int) -> None:
    path = tmp_path / "a.parquet"
    rows = (0, 1, 30, 200)[seed % 4]
    stored = column(seed, rows, ordered=seed == 5)
    table = pa.table({"number": range(len(stored)), "c": stored})
    pq.write_table(table, path, row_group_size=random.Random(seed).choice([7, 50, 10_000]), **(WRITERS | PLAIN)[writer])
    if rows:
        parts, missing = parquet._dictionaries(str(path), "c")
        assert pa.chunked_array(parts).to_pandas().dtype == dtype_of_values(path, "c")
        assert missing == bool(pq.read_table(path)["c"].null_count)

    def program(pd: Any) -> Any:
        frame = pd.read_parquet(path)
        counts = frame["c"].value_counts(sort=False)
        frame["again"] = frame["c"]
        return frame, counts, frame["again"].cat.codes.sum(), frame.groupby("c", observed=False)["number"].sum()

    check(program, native=None)


@pytest.mark.parametrize("writer", WRITERS)
def test_values_are_not_read_if_they_refer_to_the_dictionary(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "a.parquet"
    names = ["b", "unused", "a", "ü" * 300]
    made = pa.DictionaryArray.from_arrays(pa.array([0, 2, 3, None] * 100, pa.int8()), pa.array(names))
    pq.write_table(pa.table({"c": made}), path, row_group_size=150, **WRITERS[writer])
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        one = dictionary_pages.dictionary_of(file, str(path), group, "c", 0)
        assert one is not None
        assert len(one) == 1
        assert set(one.dictionary.to_pylist()) >= {"a", "b", names[3]}


@pytest.mark.parametrize("writer", PLAIN)
def test_values_are_read_if_some_are_not_in_the_dictionary(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "a.parquet"
    values = [pa.array([f"value {i}" for i in range(start, start + 200)]).dictionary_encode() for start in (0, 200)]
    pq.write_table(pa.table({"c": pa.chunked_array(values)}), path, **PLAIN[writer])
    assert dictionary_pages.dictionary_of(pq.ParquetFile(path), str(path), 0, "c", 0) is None
    parts, missing = parquet._dictionaries(str(path), "c")
    assert pa.chunked_array(parts).to_pandas().dtype == dtype_of_values(path, "c")
    assert not missing


@pytest.mark.parametrize("damage", ["cut", "zeros", "ones", "structures", *(f"random {i}" for i in range(20))])
def test_damaged_pages_are_no_dictionary(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"c": pa.array(["a", "b"] * 50).dictionary_encode()}), path)
    file = pq.ParquetFile(pa.BufferReader(path.read_bytes()))
    chunk = file.metadata.row_group(0).column(0)
    content, start = bytearray(path.read_bytes()), chunk.dictionary_page_offset
    size = chunk.total_compressed_size
    other = {"zeros": bytes(size), "ones": b"\xff" * size, "structures": b"\x1c" * size, "cut": b""}
    content[start : start + size] = other.get(damage, random.Random(damage).randbytes(size))
    path.write_bytes(content[:start] if damage == "cut" else content)
    assert dictionary_pages.dictionary_of(file, str(path), 0, "c", 0) is None


def test_the_dictionary_of_a_file_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def program(pd: Any) -> Any:
        found = []
        for names in (["a", "b"], ["c", "d", "e"], ["a", "b"]):
            pandas.DataFrame({"c": pandas.Categorical(names)}).to_parquet(path)
            found.append(pd.read_parquet(path)["c"].cat.categories.tolist())
            found.append(pd.read_parquet(path)["c"].dtype.categories.size)
        return found

    check(program, native=None)
