"""The part ``limit``: TPC-H, sorts, group-bys and merges under one hard memory limit for all of Craton's processes together.

Each query runs in its own process with workers, in a control group that limits all of them, page cache included. The
sorts, group-bys and merges read tables that are several times as large as the limit. Distinct texts are sorted and grouped;
numbers are grouped by few keys and by many, and merged with many matches and with few. The reference answers are those of
the embedded run for TPC-H, and DuckDB's for the others.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.clusters.turns import QUERIES
from bench.store import turns as store_turns
from bench.store.machine import MIB, why_not
from bench.store.turns import Turn, bar, say

__all__ = ["make", "measure"]

WORK = "bench.clusters.turns"
ROW_BYTES = 32
TEXT_LENGTH = 48
BATCH = 1_000_000
FEW = 100
MATCHES = {"high": 0.99, "low": 0.01}
"""For each smaller table, the share of its rows whose key occurs in ``wide``."""

SQL = {
    "sort, text": """
        select 0::bigint as one, count(*) as rows, sum(running % 1000003) as running, min(text) as least, max(text) as greatest
        from (select text, sum(a) over (order by text rows unbounded preceding) as running from text)
    """,
    "groupby, distinct text": """
        select 0::bigint as one, count(*) as rows, sum(a) as a, min(text) as least, max(text) as greatest from text
    """,
    "groupby, few keys": """
        select few, count(*) as rows, sum(a) as a, max(b) as b from wide group by few order by few
    """,
    "groupby, many keys": """
        select 0::bigint as one, count(*) as rows, sum(few)::bigint as few, sum(a) as a, sum(b) as b
        from (select min(few) as few, sum(a) as a, max(b) as b from wide group by many)
    """,
    "merge, most match": """
        select 0::bigint as one, count(*) as rows, sum(few)::bigint as few, sum(a) as a, sum(b) as b, sum(c) as c
        from wide join high on wide.many = high.many
    """,
    "merge, few match": """
        select 0::bigint as one, count(*) as rows, sum(few)::bigint as few, sum(a) as a, sum(b) as b, sum(c) as c
        from wide join low on wide.many = low.many
    """,
}


def make(folder: Path, nbytes: int) -> None:
    """Write ``wide``, ``high``, ``low`` and ``text`` as Parquet files, unless these exist.

    ``wide`` and ``text`` each have about `nbytes` bytes in memory. The columns of ``wide`` are ``few`` (100 distinct keys), ``many``
    (the number of distinct keys is 0.9 times that of the rows), and ``a`` and ``b``, whole numbers as doubles, so that sums are
    exact. ``high`` and ``low`` have a quarter as many rows, with distinct keys ``many``. The columns of ``text`` are ``text``,
    distinct strings of 48 hexadecimal digits, and ``a``.
    """
    rows = nbytes // ROW_BYTES
    distinct = rows * 9 // 10

    def wide(numbers: Any, random: Any) -> dict[str, Any]:
        of_key = _scattered(numbers % distinct, distinct)
        few = random.integers(0, FEW, len(numbers))
        a, b = (random.integers(0, 1000, len(numbers)).astype("float64") for _ in range(2))
        return {"few": few, "many": of_key, "a": a, "b": b}

    def smaller(share: float) -> Callable[[Any, Any], dict[str, Any]]:
        def columns(numbers: Any, random: Any) -> dict[str, Any]:
            keys = _scattered(numbers, distinct)
            keys = np.where(numbers % 100 < round(100 * share), keys, keys + distinct)
            return {"many": keys, "c": random.integers(0, 1000, len(numbers)).astype("float64")}

        return columns

    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "wide.parquet", rows, wide, 1)
    for seed, (name, share) in enumerate(MATCHES.items(), 2):
        _write(folder / f"{name}.parquet", rows // 4, smaller(share), seed)
    _write(folder / "text.parquet", nbytes // (TEXT_LENGTH + 8), _text, 4)


def _text(numbers: Any, random: Any) -> dict[str, Any]:
    import pyarrow as pa

    count = len(numbers)
    ends = pa.py_buffer(np.arange(0, (count + 1) * TEXT_LENGTH, TEXT_LENGTH, dtype="int32"))
    digits = pa.py_buffer(random.bytes(count * TEXT_LENGTH // 2).hex().encode())
    a = random.integers(0, 1000, count).astype("float64")
    return {"text": pa.StringArray.from_buffers(count, ends, digits), "a": a}


def _scattered(numbers: Any, modulus: int) -> Any:
    """Map the numbers below the modulus to a pseudo-random permutation of them."""
    factor = max(int(modulus * 0.618), 1)
    while math.gcd(factor, modulus) != 1:
        factor += 1
    return (numbers * factor) % modulus


def _write(target: Path, rows: int, columns: Callable[[Any, Any], dict[str, Any]], seed: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if target.is_file() and pq.ParquetFile(target).metadata.num_rows == rows:
        return
    random = np.random.default_rng((2025, seed))
    scratch = target.with_suffix(".tmp")
    writer: pq.ParquetWriter | None = None
    for first in range(0, rows, BATCH):
        batch = pa.table(columns(np.arange(first, min(first + BATCH, rows)), random))
        writer = writer or pq.ParquetWriter(scratch, batch.schema, compression="zstd")
        writer.write_table(batch)
    if writer is not None:
        writer.close()
    os.replace(scratch, target)


def _by_sql(folder: Path, limit: int) -> dict[str, Any]:
    """Compute the answers with DuckDB, and return them as `exact_table` has them."""
    import duckdb

    from bench.clusters.contestants import exact_table

    connection = duckdb.connect(config={"memory_limit": f"{max(4 * limit // MIB, 1024)}MB"})
    connection.execute(f"set temp_directory = '{folder}/duckdb'")
    for name in ("wide", "text", *MATCHES):
        connection.execute(f"create view {name} as select * from read_parquet('{folder}/{name}.parquet')")
    found = {}
    for name, text in SQL.items():
        frame = connection.sql(text).df()
        found[name] = exact_table(frame.astype({key: "int64" for key in ("rows", "few", "one") if key in frame}))
    connection.close()
    return found


def measure(
    result: dict[str, Any],
    folder: Path,
    scratch: Path,
    *,
    queries: Sequence[str],
    limit: int,
    room: int,
    times: float,
    workers: int,
    timeout: float,
    repeat: int,
) -> None:
    """Add the outcome of each query to a report.

    Parameters
    ----------
    result : dict
        A report of `bench.store.turns.new_report`.
    folder, scratch : path
        The folder of TPC-H's files, and a folder for files that the benchmark writes.
    queries : sequence of str
        The queries of TPC-H to run. Sorts, group-bys and merges also run unless ``times`` is 0.
    limit, room : int
        The memory limit of the control group in bytes, and the part of it that is left to interpreters and libraries.
    times : float
        The size of the tables of sorts, group-bys and merges, as a multiple of the limit.
    workers, repeat : int
        The number of workers, 0 for no session; the number of timed turns.
    timeout : float
        Seconds for one query.
    """
    if (reason := why_not()) is not None:
        raise RuntimeError(f"memory cannot be limited on this machine: {reason}")
    scratch.mkdir(parents=True, exist_ok=True)
    jobs: list[tuple[Path, Path, str]] = []
    if queries:
        expected = scratch / f"answers-{folder.name}.json"
        options = {"part": "answers", "folder": str(folder), "queries": list(queries), "answers": str(expected)}
        before = store_turns.new_report("answers", "", {}, "embedded")
        turn = Turn("embedded", WORK, options)
        store_turns.measure(before, "answers", [turn], repeat=1, warm_up=0, timeout=timeout * len(queries))
        if before["contestants"]["embedded"]["status"] != "ok":
            raise RuntimeError(f"the embedded run, which computes the reference answers, failed: {before['cases']}")
        jobs += [(folder, expected, query) for query in queries]
    if times:
        tables = scratch / f"tables-{limit * times / MIB:g}"
        say(f"writing tables of {limit * times / MIB:,.0f} MiB to {tables}, unless they exist")
        make(tables, int(limit * times))
        expected = tables / "answers.json"
        if not expected.is_file():
            expected.write_text(json.dumps(_by_sql(tables, limit)), encoding="utf-8")
        jobs += [(tables, expected, query) for query in QUERIES]
    name = f"local-{workers}" if workers else "embedded"
    right = {True: 0, False: 0}
    for place, answers, query in jobs:
        turned: dict[str, Any] = {
            "part": "limit", "folder": str(place), "answers": str(answers), "query": query, "workers": workers,
            "threads": 1, "memory": limit - room,
        }  # fmt: skip
        turn = Turn(name, WORK, turned, limit)
        store_turns.measure(result, query, [turn], repeat=repeat, warm_up=0, timeout=timeout)
        right[query in QUERIES] += f"{query} run" in result["cases"]
    for ours, what, of in (
        (False, "queries of TPC-H", len(queries)),
        (True, "sorts, group-bys and merges", len(QUERIES)),
    ):
        if of and (times or not ours):
            bar(result, f"{what} right within {limit / MIB:,.0f} MiB", right[ours], of.__eq__, f"{of}")
    result["remarks"] = ["", *_deaths(result, name)]


def _deaths(result: dict[str, Any], name: str) -> list[str]:
    details = result["contestants"].get(name, {}).get("details", {})
    killed = {query: max(turn["killed_for_memory"] for turn in turns) for query, turns in details.items() if turns}
    return [
        f"{query}: {n} processes were killed because memory ran out, and restarted" for query, n in killed.items() if n
    ]
