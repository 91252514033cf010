"""The allocator of the steps' processes against glibc's: common calls of NumPy, pandas and pyarrow.

    python -m bench.pipeline.allocator

Both contestants run the same calls in processes of their own; they differ in the variables that load the allocator. pyarrow uses
malloc in both, as in a step's process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from bench.harness import command
from bench.harness.measure import Benchmark, Case, Entry
from bench.harness.worker import Contestant

__all__ = ["CALLS", "main", "open_contestant"]

ROWS = 2_000_000


def _concatenated(data: Data) -> Any:
    return data.pa.concat_tables([data.table] * 3).combine_chunks()


def _temporaries(data: Data) -> float:
    """Many blocks of a few hundred KiB, which live shortly."""
    total = 0.0
    for start in range(0, ROWS, 40_000):
        part = data.floats[start : start + 40_000]
        total += float(((part * 2 + 1) ** 2).sum())
    return total


def _small(data: Data) -> int:
    """Blocks below the allocator's threshold."""
    return len([str(i) * 8 for i in range(300_000)])


CALLS: dict[str, Callable[[Data], Any]] = {
    "numpy arithmetic": lambda data: data.floats * 2 + data.floats,
    "numpy sort": lambda data: data.np.sort(data.floats),
    "numpy take": lambda data: data.floats[data.order],
    "numpy matrix product": lambda data: data.matrix @ data.matrix,
    "numpy temporaries": _temporaries,
    "python strings": _small,
    "pandas sort_values": lambda data: data.frame.sort_values("x"),
    "pandas groupby sum": lambda data: data.frame.groupby("k")["x"].sum(),
    "pandas merge": lambda data: data.frame.merge(data.other, on="k"),
    "pandas strings": lambda data: data.frame["s"].str.upper(),
    "pandas filter": lambda data: data.frame[data.frame["x"] > 0.5],
    "pandas to arrow": lambda data: data.pa.Table.from_pandas(data.frame),
    "pyarrow arithmetic": lambda data: data.pc.add(data.table["x"], data.table["x"]),
    "pyarrow filter": lambda data: data.table.filter(data.pc.greater(data.table["x"], 0.5)),
    "pyarrow sort": lambda data: data.table.sort_by("x"),
    "pyarrow group": lambda data: data.table.group_by("k").aggregate([("x", "sum")]),
    "pyarrow concat": _concatenated,
    "pyarrow cast": lambda data: data.table["k"].cast("string"),
}
"""Name to a call on the data; what it returns is freed before the next call."""


class Data:
    """The tables, and the calls on them."""

    def __init__(self) -> None:
        import numpy as np
        import pandas as pd
        import pyarrow as pa
        import pyarrow.compute as pc

        pa.set_memory_pool(pa.system_memory_pool())
        self.np, self.pd, self.pa, self.pc = np, pd, pa, pc
        random = np.random.default_rng(5)
        self.floats, self.order = random.random(ROWS), random.permutation(ROWS)
        self.matrix = random.random((600, 600))
        keys = random.integers(0, 1_000, ROWS)
        texts = pd.Series(np.array([f"text {i}" for i in range(1_000)])[keys])
        self.frame = pd.DataFrame({"k": keys, "x": self.floats, "s": texts})
        self.other = pd.DataFrame({"k": np.arange(1_000), "y": random.random(1_000)})
        self.table = pa.Table.from_pandas(self.frame)

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries."""
        return {"numpy": self.np.__version__, "pandas": self.pd.__version__, "pyarrow": self.pa.__version__}

    def run(self, case: str) -> Any:
        """Make one call."""
        return CALLS[case](self)

    def answer(self, case: str, result: Any) -> Any:
        """Return the size of the result."""
        return str(getattr(result, "shape", None) or (len(result) if hasattr(result, "__len__") else result))


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant: ``"glibc"`` or ``"preload"``, which must have the allocator; there are no options."""
    from craton.pipeline import preload

    data = Data()
    has = preload.place(data.floats.ctypes.data, data.floats.nbytes) is not None
    if has is not (name == "preload"):
        raise RuntimeError(f"{name} {'has' if has else 'does not have'} the allocator")
    return data


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a call failed under the allocator."""
    from craton.pipeline import preload

    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.allocator", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", help="comma-separated names (default: all)")
    command.add_options(parser, contestants=("preload", "glibc"), repeat=9)
    parser.set_defaults(baseline="glibc")
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, ("preload", "glibc"), "contestant")
    calls = command.chosen(parser, given.calls or ",".join(CALLS), list(CALLS), "call")
    entries = [
        Entry(entry.name, entry.interpreter, {}, preload.environment({}) if entry.name == "preload" else {})
        for entry in command.entries(names, {})
    ]
    benchmark = Benchmark(
        name="allocator",
        title=f"The allocator of the steps' processes: calls on {ROWS / 1e6:g} million rows",
        module="bench.pipeline.allocator",
        cases=[Case(call) for call in calls],
        entries=entries,
        reference="glibc",
        settings={"rows": ROWS},
        **command.limits(given),
    )
    report = command.execute(given, benchmark, "allocator")
    ours = report["summary"].get("preload")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
