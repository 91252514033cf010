"""The processes of one turn of `bench.store.passing` for Ray. The sender is the driver, and the receiver is a running actor."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray

from bench.store.passing_work import SMALL, private_memory, shared_part, sums_of, table_of, use

ROOT = Path(__file__).resolve().parents[2]


class Receiver:
    """Receives tables, and reads and measures each as the receiver of `bench.store.passing_work` does."""

    def __init__(self) -> None:
        self._held: Any = None

    def take(self, boxed: list[Any]) -> dict[str, Any]:
        """Get a table by its reference. The reference is in a list, because Ray resolves references that are arguments."""
        before = private_memory()
        self._held = ray.get(boxed[0])
        values = use(self._held)
        used = time.monotonic_ns()
        grown = private_memory() - before
        shared, size = shared_part(self._held)
        return {"used": used, "values": values, "private_growth": grown, "shared": shared, "size": size}

    def sums(self) -> list[int]:
        """Return the checksums of the received table, and release the table."""
        sums = sums_of(self._held)
        self._held = None
        return sums


def main(arguments: list[str]) -> int:
    """Run as the sender, with options as JSON."""
    options = json.loads(arguments[0])
    small, large = table_of(SMALL), table_of(options["rows"])
    wanted = {id(small): sums_of(small), id(large): sums_of(large)}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ray.init(
        num_cpus=2,
        object_store_memory=3 * large.nbytes + (1 << 30),
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    seconds: dict[str, float] = {}
    details: dict[str, Any] = {"bytes": large.nbytes, "passes": {}, "versions": {"ray": ray.__version__}}
    try:
        receiver = ray.remote(Receiver).remote()

        def one_pass(what: str, table: Any, kept: Any = None) -> None:
            began = time.monotonic_ns()
            found = ray.get(receiver.take.remote([ray.put(table) if kept is None else kept]))
            if ray.get(receiver.sums.remote()) != wanted[id(table)]:
                raise ValueError(f"{what}: the receiver got another table")
            seconds[what] = (found["used"] - began) / 1e9
            sizes = {key: found[key] for key in ("private_growth", "shared", "size")}
            details["passes"][what] = {**sizes, "copied_into_store": None}

        one_pass("warming up", small)
        del seconds["warming up"]
        kept = ray.put(large)
        one_pass("shared table", large, kept)
        one_pass("shared table, again", large, kept)
        del kept
        one_pass("new table", large)
    finally:
        ray.shutdown()
    print(json.dumps({"seconds": seconds, "details": details}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
