"""Rebuilding TPC-H's ``lineitem`` after the loss of some of ten places, against writing that share anew from the source.

    python -m bench recovery --scale 1
    python -m bench recovery --scale 10 --losses 2

``lineitem`` is saved in order, by ``l_orderkey`` and by ``l_partkey``, each in ten partitions, over ten folders that stand for disks or
machines. Writing that share anew is measured in two ways: as the time of the whole save, times the share of the bytes that was lost; and by
doing it, in one pass over the source that keeps the rows of the lost files, sorts and writes them. The rebuilt files must have the bytes
that were lost.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
PLACES = 10
#: The least that rebuilding is faster than writing anew; the most of the rows that collide, and of the bytes of all organisations.
FASTER, COLLIDE, MORE = 5, 0.11, 1.15


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if the rebuilt files differ, or a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench recovery", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="losses in turn (default: %(default)s)")
    parser.add_argument("--losses", type=int, default=1, help="places that are lost together (default: %(default)s)")
    given = parser.parse_args(argv)

    import craton
    import craton.pandas as pd
    from craton.demo import data
    from craton.store.durable import DurableSet
    from craton.store.places import COLLIDING
    from craton.store.recovery import rebuild

    source = data.ensure(given.scale) / "lineitem.parquet"
    folder = ROOT / "build" / "recovery"
    shutil.rmtree(folder, ignore_errors=True)
    craton.options.data = str(folder / "data")
    craton.options.data_places = tuple(str(folder / f"place{number}") for number in range(PLACES))
    began = time.perf_counter()
    craton.save(
        "lineitem",
        pd.read_parquet(source),
        replicate_by=["l_orderkey", "l_partkey"],
        partitions=PLACES,
        losses=given.losses,
    )
    written = time.perf_counter() - began
    durable = DurableSet("lineitem")
    version = durable.version()
    colliding = version.files_of(COLLIDING)
    more = version.nbytes / (version.nbytes - sum(file["bytes"] for file in colliding))
    share = sum(file["rows"] for file in colliding) / version.rows
    print(f"saved {version.nbytes / 1e9:.2f} GB in three replicas from Parquet: {written:.1f} s", flush=True)
    print(f"{share:.1%} of the rows are stored once more, {more:.3f} of the replicas' own bytes", flush=True)
    bad, ratios = 0, []
    for first in range(given.repeat):
        for number in range(first, first + given.losses):
            shutil.rmtree(craton.options.data_places[number])
        lost = [file for file in version.files if not durable.has(file)]
        share_of_save = written * sum(file["bytes"] for file in lost) / version.nbytes
        rows, anew = _written_anew(str(source), version, lost, folder)
        bad += rows != sum(file["rows"] for file in lost if file not in colliding)
        began = time.perf_counter()
        rebuild(durable, version, {file["name"]: "missing" for file in lost})
        seconds = time.perf_counter() - began
        bad += len(durable.verify(version.number))
        ratios.append(min(anew, share_of_save) / seconds)
        print(
            f"{given.losses} of {PLACES} places, {len(lost)} files: rebuilt in {seconds:.2f} s; anew from the source {anew:.2f} s "
            f"({anew / seconds:.1f} times); their share of the save {share_of_save:.2f} s ({share_of_save / seconds:.1f} times)",
            flush=True,
        )
    began = time.perf_counter()
    shutil.rmtree(craton.options.data_places[0])
    rows = len(craton.read_set("lineitem"))
    print(f"the first reader after a loss waits {time.perf_counter() - began:.2f} s", flush=True)
    bad += rows != version.rows
    craton.drop_set("lineitem")
    shutil.rmtree(folder, ignore_errors=True)
    print("equal" if not bad else f"{bad} files differ")
    met = given.losses > 1 or (share <= COLLIDE and more <= MORE)
    return 0 if not bad and met and min(ratios) >= FASTER else 1


def _written_anew(source: str, version: Any, lost: list[Any], folder: Path) -> tuple[int, float]:
    """Write the lost files of the organisations from the source, without replicas; return the number of rows, and the seconds.

    A row group is read once for all files; threads read several at the same time, and then write several files.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from craton.store.durable_files import POSITION, sorted_rows, write_file
    from craton.store.places import part_numbers

    wanted = {
        number: [file for file in version.files_of(number) if file in lost]
        for number in range(len(version.organisations))
    }
    metadata = pq.read_metadata(source)
    starts = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))])

    def rows_of(group: int) -> list[tuple[str, Any]]:
        page = pq.ParquetFile(source).read_row_group(group)
        positions = np.arange(starts[group], starts[group + 1])
        page = page.append_column(POSITION, pa.array(positions))
        found = []
        for number, files in wanted.items():
            parts = part_numbers(page, version.organisations[number]) if files else None
            for file in files:
                if parts is None:
                    bounds = file["about"]["bounds"][POSITION]
                    chosen = (positions >= bounds[0][0]) & (positions <= bounds[-1][1])
                else:
                    chosen = parts == file["about"]["part"]
                if chosen.any():
                    found.append((file["name"], page.take(pa.array(np.flatnonzero(chosen)))))
        return found

    def write(number: int, file: Any, pieces: list[Any]) -> int:
        rows = pa.concat_tables(pieces)
        how = version.organisations[number]
        rows = sorted_rows(rows, how) if how.sorted_by else rows.combine_chunks()
        path = folder / f"anew-{file['name']}"
        write_file(str(path), rows, rows.schema, version.about["format"])
        os.unlink(path)
        return len(rows)

    began = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        pieces: dict[str, list[Any]] = {}
        for found in pool.map(rows_of, range(metadata.num_row_groups)):
            for name, table in found:
                pieces.setdefault(name, []).append(table)
        writes = [
            pool.submit(write, number, file, pieces.pop(file["name"]))
            for number, files in wanted.items()
            for file in files
        ]
        rows = sum(one.result() for one in writes)
    return rows, time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
