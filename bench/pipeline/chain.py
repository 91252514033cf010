"""A chain of five steps, each in a process of its own: Craton's pipeline, Arrow files in memory, and tasks of Ray.

    python -m bench.pipeline.chain --gigabytes 2 --contestants craton,files,ray

The first table is already where the contestant's steps find it: in the store, in a file in ``/dev/shm``, in Ray's object store. A run
ends when the last table can be read in the first process. All processes are started before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.harness import command
from bench.harness.measure import Benchmark, Case, Entry
from bench.harness.worker import Contestant
from bench.pipeline.steps import CHAIN, chained, lines

__all__ = ["main", "open_contestant"]


class CratonChain:
    """The chain as a pipeline whose input is a set of the store."""

    def __init__(self, gigabytes: float) -> None:
        import craton
        from craton.pipeline import NamedSet, RunSettings
        from craton.store import Store

        self._version = craton.__version__
        self._settings = RunSettings(cache=False)
        self._store = Store.open(int(gigabytes * 4e9))
        held = self._store.create_set("lines")
        for batch in lines(gigabytes).to_batches(max_chunksize=1 << 30):
            held.append(batch)
        self._pipeline = craton.Pipeline(list(CHAIN), sources={"lines": NamedSet("lines")})
        self._pipeline.run(store=self._store, settings=self._settings)
        self.bytes: dict[str, int] = {}

    def versions(self) -> dict[str, str]:
        """Return Craton's version."""
        return {"craton": self._version}

    def run(self, case: str) -> pa.Table:
        """Run the pipeline."""
        result = self._pipeline.run(store=self._store, settings=self._settings)
        self.bytes = {"new": result.bytes_new, "copied": result.bytes_copied, "shared": result.bytes_shared}
        return result["rare"]

    def answer(self, case: str, result: pa.Table) -> Any:
        """Return the comparable values of the last table; print the bytes."""
        print(", ".join(f"bytes {name} {size:,}" for name, size in self.bytes.items()), file=sys.stderr)
        if self.bytes["copied"] > 0.05 * self.bytes["new"]:
            raise AssertionError(f"more than a twentieth of the new bytes were copied: {self.bytes}")
        return chained(result)


def _step(number: int, source: str, target: str) -> None:
    """Run one step from a file to a file."""
    table = CHAIN[number](pa.ipc.open_file(pa.memory_map(source)).read_all())
    with pa.OSFile(target, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


class FileChain:
    """Steps in five warm processes, which write Arrow files that the next one maps."""

    def __init__(self, gigabytes: float) -> None:
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self._first = str(Path(self._folder.name) / "lines.arrow")
        table = lines(gigabytes)
        with pa.OSFile(self._first, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        del table
        self._pools = [multiprocessing.get_context("spawn").Pool(1) for _ in CHAIN]
        self.run("")

    def versions(self) -> dict[str, str]:
        """Return pyarrow's version."""
        return {"pyarrow": pa.__version__}

    def run(self, case: str) -> pa.Table:
        """Run the steps one after another."""
        source = self._first
        for number, pool in enumerate(self._pools):
            target = str(Path(self._folder.name) / f"{number}.arrow")
            pool.apply(_step, (number, source, target))
            if source != self._first:
                Path(source).unlink()
            source = target
        table = pa.ipc.open_file(pa.memory_map(source)).read_all()
        Path(source).unlink()
        return table

    def answer(self, case: str, result: pa.Table) -> Any:
        """Return the comparable values of the last table."""
        return chained(result)


class RayChain:
    """Tasks of Ray that pass object references."""

    def __init__(self, gigabytes: float) -> None:
        import ray

        self._ray = ray
        size = int(gigabytes * 4e9)
        ray.init(num_cpus=len(CHAIN), object_store_memory=size, include_dashboard=False, log_to_driver=False)
        self._steps = [ray.remote(step) for step in CHAIN]
        self._first = ray.put(lines(gigabytes))
        self.run("")

    def versions(self) -> dict[str, str]:
        """Return Ray's version."""
        return {"ray": self._ray.__version__, "pyarrow": pa.__version__}

    def run(self, case: str) -> pa.Table:
        """Run the tasks, and get the last table."""
        found = self._first
        for step in self._steps:
            found = step.remote(found)
        return self._ray.get(found)

    def answer(self, case: str, result: pa.Table) -> Any:
        """Return the comparable values of the last table."""
        return chained(result)


CONTESTANTS = {"craton": CratonChain, "files": FileChain, "ray": RayChain}


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant by its name; the option ``gigabytes`` is the size of the first table."""
    return CONTESTANTS[name](options["gigabytes"])


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if Craton's pipeline failed or had a wrong answer."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.chain", description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2, help="size of the first table (default: %(default)s)")
    command.add_options(parser, contestants=("craton", "files", "ray"), repeat=5)
    parser.set_defaults(baseline="craton")
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, tuple(CONTESTANTS), "contestant")
    benchmark = Benchmark(
        name="chain",
        title=f"A chain of five steps over {given.gigabytes:g} GB",
        module="bench.pipeline.chain",
        cases=[Case("chain")],
        entries=[_entry(name, {"gigabytes": given.gigabytes}) for name in names],
        reference="craton",
        settings={"gigabytes": given.gigabytes},
        **command.limits(given),
    )
    report = command.execute(given, benchmark, "chain")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


def _entry(name: str, options: dict[str, Any]) -> Entry:
    def interpreter() -> Path:
        return Path(sys.executable)

    return Entry(name, interpreter, options)


if __name__ == "__main__":
    sys.exit(main())
