"""Rebuilding a lost tenth of TPC-H's ``lineitem`` from replicas, against writing it anew from the source.

    python -m bench recovery --scale 1

``lineitem`` is saved in order, by ``l_orderkey`` and by ``l_partkey``, each in ten partitions. One partition of both hashed replicas
is lost. Writing anew is the time of the whole save, times the share of the bytes that was lost. The rebuilt
files must have the bytes that were lost.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if the rebuilt files differ."""
    parser = argparse.ArgumentParser(prog="python -m bench recovery", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default: %(default)g)")
    parser.add_argument("--repeat", type=int, default=3, help="partitions that are lost in turn (default: %(default)s)")
    given = parser.parse_args(argv)

    import craton
    import craton.pandas as pd
    from craton.demo import data
    from craton.store.durable import DurableSet
    from craton.store.recovery import rebuild

    source = data.ensure(given.scale) / "lineitem.parquet"
    craton.options.data = ROOT / "build" / "recovery"
    began = time.perf_counter()
    craton.save(
        "lineitem",
        pd.read_parquet(source),
        mode="overwrite",
        replicate_by=["l_orderkey", "l_partkey"],
        partitions=10,
    )
    written = time.perf_counter() - began
    durable = DurableSet("lineitem")
    version = durable.version()
    print(f"saved {version.nbytes / 1e9:.2f} GB in three replicas from Parquet: {written:.1f} s", flush=True)
    bad = 0
    for part in range(given.repeat):
        lost = [file for file in version.files if file["about"]["part"] == part and file["about"]["of"] > 0]
        share = sum(file["bytes"] for file in lost) / version.nbytes
        for file in lost:
            os.unlink(durable.path(file))
        began = time.perf_counter()
        rebuild(durable, version, {file["name"]: "missing" for file in lost})
        seconds = time.perf_counter() - began
        bad += len(durable.verify(version.number))
        anew = written * share
        print(
            f"partition {part}: {share:.1%} rebuilt in {seconds:.2f} s; anew {anew:.2f} s; {anew / seconds:.1f} times",
            flush=True,
        )
    craton.drop_set("lineitem")
    print("equal" if not bad else f"{bad} files differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
