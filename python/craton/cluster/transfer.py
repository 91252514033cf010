"""The node actor of each machine: holds the machine's outputs, and sends rows of them to other machines.

The actor runs in the process of the machine's store, so outputs survive the death of the worker that made them. It sends page
slices on request: small slices of many outputs are joined to one table, large ones are sent from the store's memory without a
copy. :mod:`craton.cluster.fetching` decides what a worker requests and when.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import craton.actor as xo
from craton.cluster.folders import on_own_disks
from craton.cluster.lines import NodeLines
from craton.schedule.pages import (
    SMALL_BYTES,
    OutputLost,
    PageSlice,
    StoredOutput,
    identify,
    identity_of,
    read_slices,
)
from craton.schedule.tasks import Traffic
from craton.schedule.telemetry import store_traffic
from craton.store import LocalitySet, Store, default_store
from craton.store.sets import one_batch

if TYPE_CHECKING:
    from craton.cluster.sessions import Compression

#: The name of a node's actor in its pool.
UID = "craton-node"

#: The most bytes that one message requests, unless it requests a single slice that is larger. A slice is at most a page.
MESSAGE_BYTES = 8 << 20
# The most slices that one message requests.
MAX_SLICES = 4096
# The most concurrent requests to one machine.
MAX_REQUESTS = 4
# Small slices are copied into one table when the pages that they pin reach this many bytes, before more pages are read.
_PINNED = 64 << 20
# The number of pages that are read together.
_PAGES = 8


class Transport(NamedTuple):
    """How rows are sent between machines: the compression, and the communicator; by default by the actors' connections."""

    compression: Compression = "none"
    communicator: str | None = None


BY_ACTORS = Transport()
"""Uncompressed, by the actors' connections."""


class ReadRequest(NamedTuple):
    """A request for rows of an output: the task's key, the number of the set, the store's identity, and the page slices."""

    key: int
    number: int
    store: bytes
    slices: tuple[PageSlice, ...]


#: Rows as they are sent: pairs of the position of a request and the number of its rows; and all rows as a table, or compressed.
SentRows = tuple[list[tuple[int, int]], Any]


class NodeActor(xo.StatelessActor):
    """Holds the outputs in this process's store.

    Parameters
    ----------
    node
        The number of the machine.
    address
        The address at which the store is served; by default the store chooses one.
    """

    def __init__(self, node: int, address: str | None = None) -> None:
        super().__init__()
        self.node, self._address = node, address
        self._held: dict[int, LocalitySet] = {}
        self._lines: NodeLines | None = None
        self.sent = 0
        """Bytes of outputs that were sent to other machines."""

    async def __post_create__(self) -> None:
        store = default_store()
        if self.node:
            identify(store)
        if store.address is None:
            store.serve(self._address)

    async def watch(self) -> None:
        """Never return. The caller's connection breaks when this process ends."""
        await asyncio.Event().wait()

    def traffic(self) -> Traffic:
        """Return the bytes that this machine's store moved to and from disk, and those that were sent from here."""
        return store_traffic(default_store(), self.sent)

    async def own_folders(self, folders: Sequence[str]) -> list[bool]:
        """Return whether folders are on this machine's own disks."""
        return await asyncio.to_thread(on_own_disks, folders)

    def hold(self, outputs: Sequence[tuple[int, int, bytes]]) -> list[int]:
        """Keep outputs alive, given as key, set number and store identity; return the keys of those that are gone already."""
        store, gone = default_store(), []
        for key, number, identity in outputs:
            if identity != identity_of(store):  # written to the store that this one replaced
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
        """Drop outputs from the store, even if others still refer to them."""
        for key in keys:
            pages = self._held.pop(key, None)
            if pages is not None:
                with contextlib.suppress(KeyError, OSError, ValueError):
                    pages.drop()

    def drop_all(self) -> None:
        self.drop(list(self._held))

    async def read(
        self, requests: Sequence[ReadRequest], compression: Compression = "none"
    ) -> tuple[list[int], list[SentRows]]:
        """Read rows of outputs; return the positions of requests whose output is gone, and the rows of the others.

        The rows of one request keep their order.
        """
        lost, sent = await asyncio.to_thread(read, default_store(), requests, compression)
        gone = set(lost)
        self.sent += sum(s[3] for number, request in enumerate(requests) if number not in gone for s in request.slices)
        return lost, sent

    # ---- by lines ----

    async def bind_line(self, name: str) -> tuple[int, bytes]:
        """See :meth:`craton.cluster.lines.NodeLines.bind`."""
        if self._lines is None:
            self._lines = NodeLines(self.address.rpartition(":")[0])
        return await self._lines.bind(name)

    async def hold_line(self, number: int, address: bytes, key: bytes) -> None:
        """See :meth:`craton.cluster.lines.NodeLines.hold`."""
        assert self._lines is not None
        await self._lines.hold(number, address, key)

    async def read_by_line(self, line: int, requests: Sequence[ReadRequest], compression: Compression = "none") -> None:
        """Send by a line what :meth:`read` returns."""
        assert self._lines is not None
        await self._lines.send(line, *await self.read(requests, compression))


def read(
    store: Store, requests: Sequence[ReadRequest], compression: Compression = "none"
) -> tuple[list[int], list[SentRows]]:
    """See :meth:`NodeActor.read`."""
    lost: list[int] = []
    found: list[tuple[list[tuple[int, int]], pa.Table]] = []
    small: list[tuple[int, pa.Table]] = []
    pinned = 0

    def join() -> None:
        nonlocal pinned
        found.extend(_join_small(small))
        small.clear()
        pinned = 0

    by_set = sorted(range(len(requests)), key=lambda number: requests[number].number)
    for _, group in itertools.groupby(by_set, lambda number: (requests[number].number, requests[number].store)):
        together = list(group)
        slices = [(number, slice_) for number in together for slice_ in requests[number].slices]
        key, where, identity, _ = requests[together[0]]
        try:
            for run in _split_by_pages(slices):
                tables = read_slices(store, key, where, identity, [slice_ for _, slice_ in run])
                for table, (number, (_, _, rows, nbytes)) in zip(tables, run, strict=True):
                    if nbytes < SMALL_BYTES:
                        small.append((number, table))
                        continue
                    if small and small[-1][0] == number:
                        join()  # rows of one request keep their order
                    found.append(([(number, rows)], table))
                if small:
                    pages = {slice_[0]: table for (_, slice_), table in zip(run, tables, strict=True)}
                    pinned += sum(table.get_total_buffer_size() for table in pages.values())
                    if pinned >= _PINNED:
                        join()
        except OutputLost:
            lost += together
    join()
    return lost, [(pieces, table if compression == "none" else _compressed(table)) for pieces, table in found]


def _split_by_pages(slices: Sequence[tuple[int, PageSlice]]) -> Iterable[list[tuple[int, PageSlice]]]:
    """Split slices into consecutive groups that read at most `_PAGES` pages."""
    run: list[tuple[int, PageSlice]] = []
    pages: set[int] = set()
    for each in slices:
        page = each[1][0]
        if page not in pages and len(pages) == _PAGES:
            yield run
            run, pages = [], set()
        pages.add(page)
        run.append(each)
    if run:
        yield run


def _join_small(small: Sequence[tuple[int, pa.Table]]) -> Iterable[tuple[list[tuple[int, int]], pa.Table]]:
    """Join consecutive small tables with equal schemas, each group in newly allocated memory."""
    for _, group in itertools.groupby(small, lambda one: one[1].schema):
        together = list(group)
        pieces = [(number, table.num_rows) for number, table in together]
        try:
            batch = one_batch(pa.concat_tables([table for _, table in together]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # Arrow cannot concatenate these types
            yield from (([piece], table) for piece, (_, table) in zip(pieces, together, strict=True))
            continue
        yield pieces, pa.Table.from_batches([batch])


def _compressed(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def decode_table(data: Any) -> pa.Table:
    """Decode received rows to a table."""
    return data if isinstance(data, pa.Table) else pa.ipc.open_stream(data).read_all()


def split_by_message(slices: Sequence[PageSlice]) -> list[tuple[PageSlice, ...]]:
    """Split slices into consecutive groups, one for each message."""
    found: list[tuple[PageSlice, ...]] = []
    begin = nbytes = 0
    for end, slice_ in enumerate(slices):
        if end > begin and (nbytes + slice_[3] > MESSAGE_BYTES or end - begin >= MAX_SLICES):
            found.append(tuple(slices[begin:end]))
            begin, nbytes = end, 0
        nbytes += slice_[3]
    if begin < len(slices):
        found.append(tuple(slices[begin:]))
    return found


async def fetch(node: Any, key: int, stored: StoredOutput, part: int, compression: Compression) -> pa.Table:
    """Fetch a part of an output on another machine into this process's private memory.

    Parameters
    ----------
    node
        A reference to the machine's node actor.
    key, stored, part
        The task's key, the output's location, and the number of the part.
    compression
        The compression of the transfer.

    Raises
    ------
    OutputLost
        If the output is gone.
    ConnectionError
        If the machine is gone.
    """
    turns = asyncio.Semaphore(MAX_REQUESTS)

    async def some(slices: tuple[PageSlice, ...]) -> list[pa.Table]:
        async with turns:
            lost, found = await node.read([ReadRequest(key, stored.number, stored.store, slices)], compression)
        if lost:
            raise OutputLost(key)
        return [decode_table(data) for _, data in found]

    runs = await asyncio.gather(*[some(slices) for slices in split_by_message(stored.parts[part])])
    tables = [table for run in runs for table in run]
    if tables:
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if stored.schema is not None:
        return pa.ipc.read_schema(pa.py_buffer(stored.schema)).empty_table()
    return pa.table({})


#: The values by which an output and a recomputed one differ: the numbers of machine and set, and the store's identity.
OutputVersion = tuple[int, int, bytes]


def version_of(stored: StoredOutput) -> OutputVersion:
    """See :data:`OutputVersion`."""
    return stored.node, stored.number, stored.store
