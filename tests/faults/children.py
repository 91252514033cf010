"""The work of the child processes that the fault tests start and kill.

The statistics of every page are the checksum of its contents, so that a reader can check whether the page is intact. Each writing
child sends its parent a report when the store has acknowledged a page, and before it drops a page.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import struct
import zlib
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pandas  # noqa: F401 (imported before forking, so that children do not import it)
import pyarrow as pa

from craton import _native
from craton.store import LocalitySet, Store, get, put

#: Rows of the largest page: about 1.2 MB.
LARGEST = 1 << 16
DURABILITIES = ("write-back", "write-through", "discard")


def batch_of(seed: int, number: int, largest: int = LARGEST) -> pa.RecordBatch:
    """Return random rows; their number is log-uniform between 1 and `largest`."""
    rng = np.random.default_rng((seed, number))
    rows = int(largest ** rng.random())
    lengths = rng.integers(0, 20, rows, dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    letters = rng.integers(97, 123, int(offsets[-1]), dtype=np.uint8)
    text = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
    return pa.record_batch({"n": rng.integers(0, 1 << 60, rows), "text": text})


def checksum(batch: pa.RecordBatch) -> int:
    """Return a checksum of the values that does not depend on their layout in memory."""
    text = batch["text"]
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]
    letters = np.frombuffer(text.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    found = zlib.crc32(np.ascontiguousarray(batch["n"].to_numpy()))
    return zlib.crc32(letters, zlib.crc32(np.diff(offsets), found))


def packed(number: int) -> bytes:
    return struct.pack("<I", number)


def append(pages: LocalitySet, batch: pa.RecordBatch, key: bytes | None = None) -> _native.PageInfo:
    """Append one page, with its checksum as statistics."""
    (info,) = pages.append(batch, key=key, statistics=packed(checksum(batch)), rebuild=0.001)
    return info


def contents(page: _native.Page) -> pa.RecordBatch:
    (batch,) = pa.table(page.batch()).combine_chunks().to_batches()
    return batch


def intact(page: _native.Page) -> bool:
    """Return whether a page has the contents that were written."""
    return packed(checksum(contents(page))) == page.info.statistics


def name_of(seed: int, durability: str) -> str:
    return f"{durability} of {seed}"


# ---- writers ----


class Writer:
    """Uses all writing operations of a served store, and reports what was acknowledged."""

    def __init__(self, connection: Connection, address: str, seed: int) -> None:
        self.store = Store.connect(address)
        self.say, self.seed, self.random = connection.send, seed, random.Random(seed)
        names = [name_of(seed, durability) for durability in DURABILITIES]
        self.sets = [self.store.create_set(name, durability=how) for name, how in zip(names, DURABILITIES, strict=True)]
        self.nameless = [self.store.create_set()]
        self.written: list[tuple[LocalitySet, int]] = []
        self.pins: list[Any] = []
        self.held: list[Any] = []
        self.number = 0

    def acknowledge(self, pages: LocalitySet, info: _native.PageInfo) -> None:
        self.written.append((pages, info.number))
        self.say(("sealed", pages.number, info.number, info.statistics))

    def append(self) -> None:
        pages = self.random.choice([*self.sets, *self.sets[:2], *self.nameless])
        self.number += 1
        key = packed(self.number) if self.random.random() < 0.3 else None
        self.acknowledge(pages, append(pages, batch_of(self.seed, self.number), key))

    def append_what_is_there(self) -> None:
        """Append a slice of another page, which is stored as a reference to its bytes."""
        with contextlib.suppress(KeyError):
            pages, number = self.random.choice(self.written)
            found = contents(pages.pin(number))
            target = self.random.choice(self.sets)
            self.acknowledge(target, append(target, found.slice(len(found) // 3)))

    def pin(self) -> None:
        with contextlib.suppress(KeyError):
            pages, number = self.random.choice(self.written)
            self.pins = [*self.pins[-1:], pages.pin(number)]
            if not intact(self.pins[-1]):
                self.say(("wrong", pages.number, number))

    def drop(self) -> None:
        with contextlib.suppress(KeyError):
            pages, number = self.written.pop(self.random.randrange(len(self.written)))
            self.say(("dropping", pages.number, number))
            self.store._native.drop_page(pages.number, number)

    def reserve(self) -> None:
        self.held = [*self.held[-1:], self.store.reserve(1 << 20, at_least=0)]

    def create(self) -> None:
        self.nameless = [*self.nameless[-4:], self.store.create_set()]

    def put(self) -> None:
        values = [np.arange(self.random.randrange(100_000)) for _ in range(3)]
        found = get(put(values, store=self.store))
        if not all(np.array_equal(a, b) for a, b in zip(values, found, strict=True)):
            self.say(("wrong", "object", self.number))

    def step(self) -> None:
        if not self.written:
            return self.append()
        steps = [self.append_what_is_there, self.pin, self.drop, self.reserve, self.create, self.put, self.append]
        step = self.random.choices(steps, [8, 6, 5, 5, 3, 3, 70])[0]
        try:
            return step()
        except MemoryError:  # the pins of several clients fill the memory
            self.pins, self.held = [], []
            return None


def write(connection: Connection, address: str, seed: int, steps: int) -> None:
    """Run a writer for `steps` steps, then wait for the parent."""
    connection.send(("started",))
    writer = Writer(connection, address, seed)
    for _ in range(steps):
        writer.step()
        connection.send(("step",))
    connection.send(("done",))
    connection.recv()


# ---- readers ----


def read(connection: Connection, address: str, seed: int, steps: int) -> None:
    """Read the sets whose names begin with ``common``, and keep pins, reservations and references to sets."""
    connection.send(("started",))
    store, chance = Store.connect(address), random.Random(seed)
    names = [name for name in store.describe()["name"] if str(name).startswith("common")]
    sets, pins, held = [store.get_set(name) for name in names], [], []
    for _ in range(steps):
        pages = chance.choice(sets)
        try:
            match chance.choices(["pin", "scan", "find", "reserve", "retain"], [60, 15, 10, 10, 5])[0]:
                case "pin":
                    pins = [*pins[-2:], pages.pin(chance.randrange(COMMON_PAGES))]
                    _check(connection, pins[-1])
                case "scan":
                    with pages.reader() as reader:
                        for page, _ in zip(reader, range(chance.randrange(1, 12)), strict=False):
                            _check(connection, page)
                case "find":
                    keys = [packed(chance.randrange(COMMON_PAGES)) for _ in range(4)]
                    for info in filter(None, pages.find(keys)):
                        _check(connection, pages.pin(info))
                case "reserve":
                    held = [*held[-1:], store.reserve(1 << 20, at_least=0)]
                case "retain":
                    sets.append(store.get_set(chance.choice(names)))
                    sets = sets[-12:]
        except MemoryError:
            pins, held = [], []
        except KeyError:  # allowed for a set that may lose pages
            if pages.attributes()["durability"] != "discard":
                raise
        connection.send(("step",))
    connection.send(("done",))
    connection.recv()


#: The number of pages in each set that readers read.
COMMON_PAGES = 40


def make_common(store: Store, seed: int) -> list[LocalitySet]:
    """Create the sets that readers read."""
    made = []
    for place, durability in enumerate(DURABILITIES):
        made.append(store.create_set(f"common {durability}", durability=durability))
        for number in range(COMMON_PAGES):
            append(made[-1], batch_of(seed + place, number), packed(number))
    return made


def _check(connection: Connection, page: _native.Page) -> None:
    connection.send(("read", page.info.set, page.info.number) if intact(page) else ("wrong", repr(page.info)))


# ---- servers ----


def serve(connection: Connection, address: str, directory: str, limit: int) -> None:
    """Serve a store until the parent sends a message or closes the connection."""
    connection.send(("started",))
    with Store.open(limit, directory=directory) as store:
        connection.send(("serving", store.serve(address)))
        with contextlib.suppress(EOFError):
            connection.recv()


def open_and_close(connection: Connection, directory: str, seed: int, steps: int) -> None:
    """Open a store, write pages, and close it, repeatedly."""
    connection.send(("started",))
    for step in range(steps):
        with Store.open(4 << 20, directory=directory) as store:
            for durability in ("write-through", "write-back"):
                append(store.create_set(durability=durability), batch_of(seed, step, 1000))
        connection.send(("step",))
    connection.send(("done",))
    connection.recv()


# ---- many clients ----


def one_of_many(connection: Connection, address: str, seed: int, pages: int) -> None:
    """Write to a private set and to a shared one, and read pages of other clients."""
    connection.send(("started",))
    store, chance = Store.connect(address), random.Random(seed)
    own, shared = store.create_set(f"own {seed}"), store.get_set("shared")
    connection.send(("connected",))
    connection.recv()
    for number in range(pages):
        for target in (own, shared):
            info = append(target, batch_of(seed, number, 1 << 12))
            connection.send(("sealed", target.number, info.number, info.statistics))
        found = chance.choice(shared.pages())
        _check(connection, shared.pin(found))
        connection.send(("step",))
    connection.send(("done",))
    connection.recv()


# ---- disks ----


def as_nobody(connection: Connection, directory: str) -> None:
    """Run :func:`refused_folder` as a user without write permission for the folder."""
    os.setgid(65534)
    os.setuid(65534)
    refused_folder(connection, directory)


def refused_folder(connection: Connection, directory: str, most: int | None = None) -> None:
    """Write to a store until spilling to its folder fails; report whether all acknowledged pages are intact.

    If `most` is given, files of more bytes fail. The limit is set after the shared memory, also a file, has its full length.
    """
    with Store.open(4 << 20, directory=directory) as store:
        pages = store.create_set("kept")
        append(store.create_set(), batch_of(0, 0))
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        number, error = 0, None
        while error is None and number < 1000:
            try:
                append(pages, batch_of(1, number))
                number += 1
            except OSError as raised:
                error = raised
        connection.send(("refused", type(error).__name__, getattr(error, "errno", None), str(error)))
        connection.send(("kept", number == len(pages), all(intact(pages.pin(info)) for info in pages.pages())))
        try:
            append(store.create_set(durability="write-through"), batch_of(2, 0))
        except OSError as raised:
            connection.send(("refused", type(raised).__name__, raised.errno, str(raised)))


def refused_memory(connection: Connection, directory: str) -> None:
    """Use a store in a process that may not create shared memory of the necessary size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    with Store.open(4 << 20, directory=directory) as store:
        try:
            append(store.create_set(), batch_of(0, 0))
        except OSError as raised:
            connection.send(("refused", type(raised).__name__, raised.errno, str(raised)))


# Run once, so that lazy imports happen before the children are forked: a user without permissions cannot import.
pa.table(batch_of(0, 0)).combine_chunks().to_batches()
checksum(batch_of(0, 0))


# ---- files of frames ----


def writing_files(connection: Connection, folder: str, rows: int) -> None:
    """Write files with `rows` rows repeatedly, over the existing ones."""
    import craton
    import craton.pandas as pd

    craton.options.small_rows = 0
    frame = pd.DataFrame({"n": range(rows), "g": [0, 1] * (rows // 2)})
    frame.to_parquet(os.path.join(folder, "first.parquet"))
    connection.send(("started",))
    for number in range(1000):
        frame.assign(v=number).to_parquet(os.path.join(folder, "one.parquet"))
        connection.send(("step",))
        frame.assign(v=number).to_csv(os.path.join(folder, "two.csv.gz"), index=False)
        connection.send(("step",))
        frame.assign(v=number).to_parquet(os.path.join(folder, f"parts-{number}"), partition_cols=["g"])
        connection.send(("step",))
