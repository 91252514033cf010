"""The conditions under which all contestants of a benchmark run, independent of how the benchmark was started.

Every contestant is a process whose environment variables come from `process_environment`: variables of the shell that
configure allocators, threads and engines are removed, and the values of this module are set for all. Results record the
conditions (`describe`), and every contestant reports the variables with which its own process was started (`found`).

``import craton`` configures Polars' allocator to keep freed memory; importing only Polars does not. In a benchmark,
either all contestants have that setting or none has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["ALLOCATORS", "cores", "describe", "found", "names_conditions", "process_environment", "text", "variables"]

ROOT = Path(__file__).resolve().parents[2]

ALLOCATORS: dict[str, dict[str, str]] = {
    "kept": {
        "_RJEM_MALLOC_CONF": "dirty_decay_ms:10000,oversize_threshold:0",
        "MALLOC_TRIM_THRESHOLD_": "536870912",
        "MALLOC_MMAP_THRESHOLD_": "33554432",
    },
    "default": {"_RJEM_MALLOC_CONF": ""},
    "own": {},
}
"""Settings of the allocators of Polars and of glibc. ``kept``: all contestants have the setting that ``import craton`` chooses on
machines with much memory. ``default``: all contestants, including Craton, have the defaults. ``own``: each contestant keeps its own
setting; benchmarks with a memory limit use this."""

_DROPPED = (
    "MALLOC_", "_RJEM_", "MIMALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "PYTHON",
    "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "BLIS_", "VECLIB_", "NUMEXPR_", "RAYON_", "TOKIO_", "BENCH_CORES",
    "POLARS_", "ARROW_", "CRATON_", "DUCKDB_", "DASK_", "RAY_", "MODIN_", "BODO_", "FIREDUCKS_", "DAFT_", "SPARK_",
)  # fmt: skip
"""Prefixes of environment variables that influence the speed of a contestant."""

_THREADS = (
    "POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip
"""Variables that set the number of threads of libraries; pyarrow uses OpenMP's."""

_PROCESS_PER_CORE = ("modin", "bodo", "pyspark", "spark")
"""Engines that run one process per core, whose libraries get one thread each."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def names_conditions(name: str) -> bool:
    """Return whether an environment variable influences the speed of a contestant."""
    return name.startswith(_DROPPED)


def variables(contestant: str = "", *, allocator: str = "kept") -> dict[str, str]:
    """Return the environment variables that are set for a contestant.

    Parameters
    ----------
    contestant : str
        The name. Only engines that run one process per core get different values: one thread for their libraries.
    allocator : str
        One of `ALLOCATORS`.
    """
    threads = 1 if contestant in _PROCESS_PER_CORE else cores()
    return {
        **ALLOCATORS[allocator],
        **dict.fromkeys(_THREADS, str(threads)),
        "BENCH_CORES": str(cores()),
        "BODO_NUM_WORKERS": str(cores()),
        "MODIN_CPUS": str(cores()),
        "MODIN_ENGINE": "ray",
        "PYTHONHASHSEED": "0",
    }


def process_environment(
    contestant: str = "",
    *,
    allocator: str = "kept",
    extra: Mapping[str, str] | None = None,
    root: Path = ROOT,
) -> dict[str, str]:
    """Return all environment variables of a contestant's process.

    Parameters
    ----------
    contestant, allocator : str
        See `variables`.
    extra : mapping, optional
        Variables that only this contestant has; the report names them.
    root : path
        The folder that ``bench`` and ``python/craton`` are imported from.
    """
    kept = {name: value for name, value in os.environ.items() if not names_conditions(name)}
    path = [str(root), str(root / "python"), os.environ.get("PYTHONPATH", "")]
    return {
        **kept,
        **variables(contestant, allocator=allocator),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        **(extra or {}),
    }


def found() -> dict[str, str]:
    """Return the variables with which this process was started. Call it before a contestant is imported, which may set some."""
    return {
        name: value for name, value in sorted(os.environ.items()) if names_conditions(name) and name != "PYTHONPATH"
    }


def threads_found() -> dict[str, int]:
    """Return the number of threads that each loaded library reports."""
    asked = {"polars": "thread_pool_size", "pyarrow": "cpu_count"}
    return {name: int(getattr(sys.modules[name], call)()) for name, call in asked.items() if name in sys.modules}


def describe(*, allocator: str = "kept", warm_up: int | None = None, fresh_process: bool = False) -> dict[str, Any]:
    """Describe the conditions, for a report.

    Parameters
    ----------
    allocator : str
        One of `ALLOCATORS`.
    warm_up : int, optional
        Untimed runs of each contestant in each case.
    fresh_process : bool
        Whether each turn is a new process.
    """
    untimed = "no untimed run" if not warm_up else f"{warm_up} untimed run{'s' * (warm_up > 1)}"
    if fresh_process:
        remembered = "nothing: each turn is a new process"
    else:
        remembered = "Craton's results, file footers and caches are dropped before each run, untimed; DuckDB keeps its cache of files"
    return {
        "allocator": allocator,
        "variables": variables(allocator=allocator),
        "cleared_from_the_shell": list(_DROPPED),
        "warm_up": f"{untimed} of each contestant in each case",
        "garbage_collection": "on; collected before each run",
        "page_cache": "warm: the untimed runs read the files" if warm_up else "not prepared",
        "remembered": remembered,
    }


def text(conditions: Mapping[str, Any]) -> str:
    """Return the conditions as one line of text, which tables have below their title."""
    threads = conditions["variables"]["POLARS_MAX_THREADS"]
    return (
        f"All contestants: {threads} threads, allocator {conditions['allocator']!r}; {conditions['warm_up']};"
        f" page cache {conditions['page_cache']}. Remembered: {conditions['remembered']}."
    )
