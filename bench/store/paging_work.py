"""The process of one turn of `bench.store.paging`: writes pages of numbers, reads them back, and times these phases.

Pages hold doubles that differ from page to page and hardly compress. The checksum of a page is the sum of the doubles' bits as
64-bit integers, modulo 2**64, which is exact in any order. Each scan computes the checksum of every page and compares it with
that of the written page, within the measured time. All contestants use the same functions to fill pages and to sum them.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Seconds = dict[str, float]


def checksum(numbers: Numbers) -> int:
    """Return the sum of the numbers' bits as 64-bit integers, modulo 2**64."""
    return int(numbers.view(np.uint64).sum())


class Source:
    """Generates pages: page ``k`` consists of random numbers in [0, 1), plus ``k``."""

    def __init__(self, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        self._base = np.random.default_rng(20).random(page_bytes // 8)

    def fill(self, page: int, out: Numbers) -> None:
        """Write the numbers of a page into an array of that length."""
        np.add(self._base, page, out=out)

    def expected(self, pages: Iterable[int]) -> list[int]:
        """Return the checksums of the given pages."""
        scratch = np.empty_like(self._base)
        sums = []
        for page in pages:
            self.fill(page, scratch)
            sums.append(checksum(scratch))
        return sums

    def scratch(self) -> Numbers:
        """Return a new array with room for one page."""
        return np.empty_like(self._base)


def agree(found: Iterable[int], expected: Iterable[int], what: str) -> None:
    """Raise ValueError if checksums differ from those of the written pages."""
    if list(found) != list(expected):
        raise ValueError(f"{what} read other numbers than those that were written")


class Clock:
    """Adds up the seconds of each phase, and the increase of a store's counters in it."""

    def __init__(self, counters: Callable[[], dict[str, int]] = dict) -> None:
        self.seconds: Seconds = {}
        self.parts: dict[str, list[float]] = {}
        self.counted: dict[str, dict[str, int]] = {}
        self._counters = counters

    def time(self, phase: str, work: Callable[[], Any]) -> Any:
        """Call `work`, and add its time to a phase."""
        before = self._counters()
        began = time.perf_counter()
        result = work()
        took = time.perf_counter() - began
        after = self._counters()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + took
        self.parts.setdefault(phase, []).append(took)
        counted = self.counted.setdefault(phase, {})
        for name in after:
            if name in _COUNTED:
                counted[name] = counted.get(name, 0) + after[name] - before[name]
        return result


_COUNTED = (
    "hits", "misses", "read", "written", "evicted_ended", "evicted_clean", "evicted_written", "evicted_discarded",
)  # fmt: skip


class Pages(Protocol):
    """A storage for pages."""

    def write(self, source: Source, pages: Iterable[int]) -> None:
        """Write pages, one after another."""

    def scan(self) -> list[int]:
        """Return the checksum of every page, in the order in which they were written."""


# ---- storage of the operating system ----


class AnonymousMemory:
    """Memory of the process, which the operating system swaps."""

    def __init__(self, source: Source, count: int, huge: bool) -> None:
        self._memory = mmap.mmap(-1, count * source.page_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
        self._pages = np.frombuffer(self._memory, np.float64).reshape(count, -1)

    def write(self, source: Source, pages: Iterable[int]) -> None:
        """Write pages, one after another."""
        for page in pages:
            source.fill(page, self._pages[page])

    def scan(self) -> list[int]:
        """Return the checksum of every page."""
        return [checksum(page) for page in self._pages]


class MappedFile:
    """A shared mapping of a file, which the operating system writes back and reads again."""

    def __init__(self, source: Source, count: int, folder: Path, durable: bool, advice: str) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (lives as long as the process)
        os.posix_fallocate(self._file.fileno(), 0, count * source.page_bytes)
        self._memory = mmap.mmap(self._file.fileno(), count * source.page_bytes)
        self._memory.madvise(getattr(mmap, f"MADV_{advice.upper()}"))
        self._pages = np.frombuffer(self._memory, np.float64).reshape(count, -1)
        self._durable = durable

    def write(self, source: Source, pages: Iterable[int]) -> None:
        """Write pages, one after another. If they must be durable, wait for the disk at the end."""
        for page in pages:
            source.fill(page, self._pages[page])
        if self._durable:
            os.fdatasync(self._file.fileno())

    def scan(self) -> list[int]:
        """Return the checksum of every page."""
        return [checksum(page) for page in self._pages]


class PlainFile:
    """A file that is written and read with system calls, through the page cache."""

    def __init__(self, source: Source, folder: Path, durable: bool) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (lives as long as the process)
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        self._durable = durable
        self._scratch = source.scratch()

    def write(self, source: Source, pages: Iterable[int]) -> None:
        """Write pages, one after another. If they must be durable, wait for the disk at the end."""
        for page in pages:
            source.fill(page, self._scratch)
            left = self._scratch.data.cast("B")
            while left:
                left = left[self._file.write(left) :]
        if self._durable:
            os.fdatasync(self._file.fileno())

    def scan(self) -> list[int]:
        """Return the checksum of every page."""
        self._file.seek(0)
        sums: list[int] = []
        while True:
            room = self._scratch.data.cast("B")
            while room:
                read = self._file.readinto(room)
                if not read:
                    break
                room = room[read:]
            if room:
                return sums
            sums.append(checksum(self._scratch))


# ---- the store ----


def open_store(options: dict[str, Any]) -> Any:
    """Open a store with the options of a turn."""
    from craton.store import Store

    return Store.open(
        options["store_limit"],
        directory=options["folder"],
        policy=options.get("policy", "data-aware"),
        compression=options.get("compression", "none"),
        direct_io=options.get("direct_io", False),
        io_threads=options.get("io_threads", 2),
    )


def values(page: Any) -> Numbers:
    """Return the numbers of a page of a locality set, as a view of the store's memory."""
    import pyarrow as pa

    (batch,) = pa.table(page.batch()).to_batches()
    numbers: Numbers = batch.column(0).to_numpy(zero_copy_only=True)
    return numbers


def append(pages: Any, numbers: Numbers) -> None:
    """Append numbers to a locality set as a page."""
    import pyarrow as pa

    pages.append(pa.record_batch([pa.array(numbers)], names=["v"]))


class StoredPages:
    """Pages in a locality set of the store."""

    def __init__(self, store: Any, durability: str) -> None:
        self._set = store.create_set(durability=durability)

    def write(self, source: Source, pages: Iterable[int]) -> None:
        """Write pages, one after another."""
        scratch = source.scratch()
        for page in pages:
            source.fill(page, scratch)
            append(self._set, scratch)

    def scan(self) -> list[int]:
        """Return the checksum of every page."""
        with self._set.reader() as reader:
            return [checksum(values(page)) for page in reader]


# ---- scenarios ----


def looping(options: dict[str, Any]) -> tuple[Clock, int]:
    """Write a working set once and scan it several times."""
    source = Source(options["page_bytes"])
    count = options["pages"]
    expected = source.expected(range(count))
    durable, folder = options["durable"], Path(options["folder"])
    clock = Clock()
    pages: Pages
    if options["kind"] == "store":
        store = open_store(options)
        clock = Clock(store._native.counters)
        pages = StoredPages(store, "write-through" if durable else "write-back")
    elif options["kind"] == "swap":
        pages = AnonymousMemory(source, count, options["huge"])
    elif options["kind"] == "mapped":
        pages = MappedFile(source, count, folder, durable, options["advice"])
    else:
        pages = PlainFile(source, folder, durable)
    clock.time("write", lambda: pages.write(source, range(count)))
    scans = options["scans"]
    for _ in range(scans):
        clock.time(f"scan ×{scans}", lambda: agree(pages.scan(), expected, "a scan"))
    return clock, (scans + 1) * count * options["page_bytes"]


def shuffle(options: dict[str, Any]) -> tuple[Clock, int]:
    """Let several threads append to all partitions. Then read each partition once, each in a thread of its own."""
    source = Source(options["page_bytes"])
    count, workers = options["pages"], options["workers"]
    store = open_store(options)
    clock = Clock(store._native.counters)
    partitions = [store.create_set(writing="concurrent") for _ in range(workers)]
    sums = source.expected(range(count))
    expected = [sum(sums[partition::workers]) % 2**64 for partition in range(workers)]

    def write(worker: int) -> None:
        scratch = source.scratch()
        # Each writer fills a range of pages, and distributes them over the partitions in turn.
        for page in range(count * worker // workers, count * (worker + 1) // workers):
            source.fill(page, scratch)
            append(partitions[page % workers], scratch)

    def read(partition: int) -> int:
        with partitions[partition].reader() as reader:
            return sum(checksum(values(page)) for page in reader) % 2**64

    with ThreadPoolExecutor(workers) as threads:
        clock.time("write", lambda: list(threads.map(write, range(workers))))
        clock.time("read", lambda: agree(threads.map(read, range(workers)), expected, "a reader of a partition"))
    return clock, 2 * count * options["page_bytes"]


def two_sets(options: dict[str, Any]) -> tuple[Clock, int]:
    """Scan a durable input several times. Each pass writes a part of a transient output, which is read at the end."""
    source = Source(options["page_bytes"])
    scans, count = options["scans"], options["pages"]
    outputs = count // 3
    inputs = count - outputs
    store = open_store(options)
    clock = Clock(store._native.counters)
    given, made = StoredPages(store, "write-through"), StoredPages(store, "write-back")
    expected = source.expected(range(count))

    def one_pass(number: int) -> None:
        scratch = source.scratch()
        mine = iter(range(inputs + outputs * number // scans, inputs + outputs * (number + 1) // scans))
        found = []
        with given._set.reader() as reader:
            for at, page in enumerate(reader):
                found.append(checksum(values(page)))
                if at % (inputs * scans // outputs) == 0 and (output := next(mine, None)) is not None:
                    source.fill(output, scratch)
                    append(made._set, scratch)
        for output in mine:
            source.fill(output, scratch)
            append(made._set, scratch)
        agree(found, expected[:inputs], "a pass")

    clock.time("load", lambda: given.write(source, range(inputs)))
    for number in range(scans):
        clock.time(f"pass ×{scans}", functools.partial(one_pass, number))
    clock.time("output", lambda: agree(made.scan(), expected[inputs:], "the reader of the output"))
    return clock, (2 * count + (scans - 1) * inputs) * options["page_bytes"]


SCENARIOS = {"looping": looping, "shuffle": shuffle, "two sets": two_sets}


def main(arguments: list[str]) -> int:
    """Run the scenario in the options, and print its seconds."""
    options: dict[str, Any] = json.loads(arguments[0])
    clock, touched = SCENARIOS[options["scenario"]](options)
    details = {"parts": clock.parts, "counted": clock.counted, "bytes_touched": touched}
    print(json.dumps({"seconds": clock.seconds, "details": details}, default=int))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
