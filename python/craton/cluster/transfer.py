"""Outputs where they lie, and how they go to other machines.

Each machine has a node actor in the process of its store. It holds the outputs that lie there, so that the death of a
worker takes none of them, and sends stretches of them to whoever asks: small ones of many outputs joined to one table, large
ones over the store's memory, not copied on the way. Who asks for what, and when, is :mod:`craton.cluster.fetching`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import craton.actor as xo
from craton.schedule.pages import (
    SMALL_BYTES,
    OutputLost,
    Stored,
    Stretch,
    identify,
    identity_of,
    read_stretches,
)
from craton.schedule.tasks import Traffic
from craton.schedule.telemetry import store_traffic
from craton.store import LocalitySet, Store, default_store
from craton.store.sets import one_batch

if TYPE_CHECKING:
    from craton.cluster.sessions import Compression

#: The name of a node's actor in its pool.
UID = "craton-node"

#: Bytes that one message asks for, about; a single stretch, which is a page at the most, may have more.
MESSAGE = 8 << 20
# Stretches that one message asks for at most.
MANY = 4096
# Messages on their way from one machine.
AT_ONCE = 4
# Bytes of pages that a node keeps in memory for what is copied out of them into one table.
_PINNED = 64 << 20
# Pages that are read together.
_PAGES = 8


class Ask(NamedTuple):
    """What is wanted of an output: the task's key, the numbers of set and store, and which stretches."""

    key: int
    number: int
    store: bytes
    stretches: tuple[Stretch, ...]


#: Some rows as they travel: how many belong to which of the asks, and all of them, as a table or compressed.
Sent = tuple[list[tuple[int, int]], Any]


class NodeActor(xo.StatelessActor):
    """Holds the outputs in this process's store.

    Parameters
    ----------
    node
        The number of the machine.
    address
        Where its store is to be served, by default where it likes.
    """

    def __init__(self, node: int, address: str | None = None) -> None:
        super().__init__()
        self.node, self._address = node, address
        self._held: dict[int, LocalitySet] = {}
        self.sent = 0
        """Bytes of parts that were sent."""

    async def __post_create__(self) -> None:
        store = default_store()
        if self.node:
            identify(store)
        if store.address is None:
            store.serve(self._address)

    async def watch(self) -> None:
        """Return never: who calls this learns when the process ends."""
        await asyncio.Event().wait()

    def traffic(self) -> Traffic:
        """What this machine's store has moved to and from disk, and what was sent from here."""
        return store_traffic(default_store(), self.sent)

    def hold(self, outputs: Sequence[tuple[int, int, bytes]]) -> list[int]:
        """Hold outputs, given as key, set and store; return the keys of those that are gone already."""
        store, gone = default_store(), []
        for key, number, identity in outputs:
            if identity != identity_of(store):  # an earlier one's
                gone.append(key)
                continue
            try:
                store._native.retain_set(number)
            except KeyError:
                gone.append(key)
            else:
                self._held[key] = LocalitySet(store, number, None)
        return gone

    def drop(self, keys: Iterable[int]) -> None:
        """Drop outputs, for everybody."""
        for key in keys:
            pages = self._held.pop(key, None)
            if pages is not None:
                with contextlib.suppress(KeyError, OSError, ValueError):
                    pages.drop()

    def drop_all(self) -> None:
        """Drop all outputs."""
        self.drop(list(self._held))

    async def read(self, asks: Sequence[Ask], compression: Compression = "none") -> tuple[list[int], list[Sent]]:
        """Which of the asks cannot be answered, because the output is gone; and the rows of the others.

        The rows of one ask come in their order.
        """
        lost, sent = await asyncio.to_thread(read, default_store(), asks, compression)
        gone = set(lost)
        self.sent += sum(s[3] for number, ask in enumerate(asks) if number not in gone for s in ask.stretches)
        return lost, sent


def read(store: Store, asks: Sequence[Ask], compression: Compression = "none") -> tuple[list[int], list[Sent]]:
    """See :meth:`NodeActor.read`."""
    lost: list[int] = []
    found: list[tuple[list[tuple[int, int]], pa.Table]] = []
    small: list[tuple[int, pa.Table]] = []
    pinned = 0

    def join() -> None:
        nonlocal pinned
        found.extend(_joined(small))
        small.clear()
        pinned = 0

    by_set = sorted(range(len(asks)), key=lambda number: asks[number].number)
    for _, group in itertools.groupby(by_set, lambda number: (asks[number].number, asks[number].store)):
        together = list(group)
        stretches = [(number, stretch) for number in together for stretch in asks[number].stretches]
        key, where, identity, _ = asks[together[0]]
        try:
            for run in _few_pages(stretches):
                tables = read_stretches(store, key, where, identity, [stretch for _, stretch in run])
                for table, (number, (_, _, rows, nbytes)) in zip(tables, run, strict=True):
                    if nbytes < SMALL_BYTES:
                        small.append((number, table))
                        continue
                    if small and small[-1][0] == number:
                        join()  # what comes before in the same part, comes before
                    found.append(([(number, rows)], table))
                if small:
                    pages = {stretch[0]: table for (_, stretch), table in zip(run, tables, strict=True)}
                    pinned += sum(table.get_total_buffer_size() for table in pages.values())
                    if pinned >= _PINNED:
                        join()
        except OutputLost:
            lost += together
    join()
    return lost, [(pieces, table if compression == "none" else _compressed(table)) for pieces, table in found]


def _few_pages(stretches: Sequence[tuple[int, Stretch]]) -> Iterable[list[tuple[int, Stretch]]]:
    """Stretches in runs that lie in few pages."""
    run: list[tuple[int, Stretch]] = []
    pages: set[int] = set()
    for each in stretches:
        page = each[1][0]
        if page not in pages and len(pages) == _PAGES:
            yield run
            run, pages = [], set()
        pages.add(page)
        run.append(each)
    if run:
        yield run


def _joined(small: Sequence[tuple[int, pa.Table]]) -> Iterable[tuple[list[tuple[int, int]], pa.Table]]:
    """Small tables, those of one schema that follow each other as one that has memory of its own."""
    for _, group in itertools.groupby(small, lambda one: one[1].schema):
        together = list(group)
        pieces = [(number, table.num_rows) for number, table in together]
        try:
            batch = one_batch(pa.concat_tables([table for _, table in together]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # types that cannot be joined
            yield from (([piece], table) for piece, (_, table) in zip(pieces, together, strict=True))
            continue
        yield pieces, pa.Table.from_batches([batch])


def _compressed(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_of(data: Any) -> pa.Table:
    """What was sent, as a table."""
    return data if isinstance(data, pa.Table) else pa.ipc.open_stream(data).read_all()


def messages(stretches: Sequence[Stretch]) -> list[tuple[Stretch, ...]]:
    """Stretches in runs that one message asks for."""
    found: list[tuple[Stretch, ...]] = []
    begin = nbytes = 0
    for end, stretch in enumerate(stretches):
        if end > begin and (nbytes + stretch[3] > MESSAGE or end - begin >= MANY):
            found.append(tuple(stretches[begin:end]))
            begin, nbytes = end, 0
        nbytes += stretch[3]
    if begin < len(stretches):
        found.append(tuple(stretches[begin:]))
    return found


async def fetch(node: Any, key: int, stored: Stored, part: int, compression: Compression) -> pa.Table:
    """A part of an output that is elsewhere, in this process's own memory.

    Parameters
    ----------
    node
        A reference to the node's actor there.
    key, stored, part
        Which part of which output.
    compression
        Of what travels.

    Raises
    ------
    OutputLost
        If it is gone.
    ConnectionError
        If the machine is.
    """
    turns = asyncio.Semaphore(AT_ONCE)

    async def some(stretches: tuple[Stretch, ...]) -> list[pa.Table]:
        async with turns:
            lost, found = await node.read([Ask(key, stored.number, stored.store, stretches)], compression)
        if lost:
            raise OutputLost(key)
        return [table_of(data) for _, data in found]

    runs = await asyncio.gather(*[some(stretches) for stretches in messages(stored.parts[part])])
    tables = [table for run in runs for table in run]
    if tables:
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if stored.schema is not None:
        return pa.ipc.read_schema(pa.py_buffer(stored.schema)).empty_table()
    return pa.table({})


#: What tells an output from the same one made again: the numbers of machine and set, and which store it is.
Place = tuple[int, int, bytes]


def place_of(stored: Stored) -> Place:
    """See :data:`Place`."""
    return stored.node, stored.number, stored.store
