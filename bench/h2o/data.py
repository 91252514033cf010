"""The tables of H2O's db-benchmark, generated once from a fixed seed and kept as Parquet files under ``build/``.

The distributions are those of the benchmark's generators, with 100 groups, no missing values and unsorted rows. Texts are
dictionary-encoded, so that pandas and Polars read them as categoricals, as their solutions of the benchmark do.

From 50 million rows on, the tables of the joins lack ``id6``, the text of ``id3``, which no question asks for: pandas keeps each of
its 100 million categories as a Python string, which takes more than 12 GB for two tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["TABLES", "make"]

ROOT = Path(__file__).resolve().parents[2]
GROUPS = 100
MOST_TEXTS = 50_000_000
"""The tables of the joins have no column with this many different texts or more."""

Array = np.ndarray[Any, Any]

TABLES = {"groupby": ("x",), "join": ("x", "small", "medium", "big")}
"""The tables of each task."""


def make(task: str, rows: int, folder: Path | None = None) -> Path:
    """Return the folder of a task's tables, and write those files that do not exist.

    Parameters
    ----------
    task
        ``"groupby"`` or ``"join"``.
    rows
        Rows of the largest table.
    """
    if rows < 10_000 or rows % 1000:
        raise ValueError(f"rows is {rows}; it must be a multiple of 1,000, and at least 10,000")
    folder = folder or ROOT / "build" / "h2o" / f"{task}-{rows}"
    folder.mkdir(parents=True, exist_ok=True)
    if all((folder / f"{name}.parquet").is_file() for name in TABLES[task]):
        return folder
    for name, table in (_groupby(rows) if task == "groupby" else _join(rows)).items():
        scratch = folder / f"{name}.parquet.tmp"
        pq.write_table(table(), scratch, row_group_size=1_000_000, compression="zstd")
        os.replace(scratch, folder / f"{name}.parquet")
    return folder


def _texts(numbers: Array, digits: int) -> pa.Array:
    """The texts ``id007`` of numbers from 1, dictionary-encoded."""
    present = np.zeros(int(numbers.max()) + 1, dtype="int32")
    present[numbers] = 1
    distinct = np.flatnonzero(present)
    codes = np.cumsum(present, dtype="int32")[numbers] - 1
    padded = pc.utf8_lpad(pa.array(distinct).cast(pa.string()), digits, "0")
    return pa.DictionaryArray.from_arrays(pa.array(codes), pc.binary_join_element_wise("id", padded, ""))


def _groupby(rows: int) -> dict[str, Callable[[], pa.Table]]:
    random = np.random.default_rng(108)

    def ids(count: int) -> Array:
        return random.integers(1, count + 1, rows, dtype="int32")

    def table() -> pa.Table:
        return pa.table(
            {
                "id1": _texts(ids(GROUPS), 3),
                "id2": _texts(ids(GROUPS), 3),
                "id3": _texts(ids(rows // GROUPS), 10),
                "id4": ids(GROUPS),
                "id5": ids(GROUPS),
                "id6": ids(rows // GROUPS),
                "v1": ids(5),
                "v2": ids(15),
                "v3": np.round(random.random(rows) * 100, 6),
            }
        )

    return {"x": table}


def _join(rows: int) -> dict[str, Callable[[], pa.Table]]:
    random = np.random.default_rng(108)
    sizes = {"small": max(rows // 1_000_000, 10), "medium": rows // 1000, "big": rows}
    shared, left, right = {}, {}, {}
    for name, size in sizes.items():  # nine tenths of each table's keys are in both tables
        keys = random.permutation(int(size * 1.1)).astype("int32") + 1
        shared[name], left[name], right[name] = np.split(keys, [int(size * 0.9), size])

    def keys_of(name: str, other: dict[str, Array], count: int) -> Array:
        keys = np.concatenate([shared[name], other[name][: sizes[name] - len(shared[name])]])[:count]
        return random.permutation(np.concatenate([keys, random.choice(keys, count - len(keys))]))

    def table(names: list[str], other: dict[str, Array], count: int, value: str) -> pa.Table:
        ids = {f"id{number + 1}": keys_of(name, other, count) for number, name in enumerate(names)}
        texts = {
            f"id{number + 4}": _texts(column, 1)
            for number, column in enumerate(ids.values())
            if sizes[names[number]] < MOST_TEXTS
        }
        return pa.table({**ids, **texts, value: np.round(random.random(count) * 100, 6)})

    every = list(sizes)
    return {
        "x": lambda: table(every, left, rows, "v1"),
        "small": lambda: table(every[:1], right, sizes["small"], "v2"),
        "medium": lambda: table(every[:2], right, sizes["medium"], "v2"),
        "big": lambda: table(every, right, sizes["big"], "v2"),
    }
