"""Fetches parts of outputs from other machines into this machine's store, batched, in bounded memory, and ahead of need.

Parts that a task waits for are requested first. Then parts are prefetched for waiting tasks, in the order of the tasks, up to a
limit of bytes that no task has requested yet. One message requests many parts.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TYPE_CHECKING, Any, NamedTuple

import craton.actor as xo
from craton.cluster.transfer import (
    MAX_REQUESTS,
    MAX_SLICES,
    MESSAGE_BYTES,
    ReadRequest,
    SentRows,
    decode_table,
    split_by_message,
    version_of,
)
from craton.schedule.pages import OutputLost, PageSink, PageSlice, StoredOutput
from craton.store import LocalitySet, Store

if TYPE_CHECKING:
    from craton.cluster.sessions import Compression

#: The most bytes in flight to one worker, from one machine and from all machines together; enough for two large pages of one
#: machine to overlap. The limit of prefetched bytes applies as well. A single slice may be larger.
MAX_IN_FLIGHT_PER_NODE, MAX_IN_FLIGHT = 16 * MESSAGE_BYTES, 32 * MESSAGE_BYTES
# Prefetch requests are held back until they have this many bytes, as long as another message of the machine is in flight.
_MIN_PREFETCH = 1 << 20
# Seconds between checks for the cancellation of a task that waits for rows.
_POLL = 0.05


class RemoteRows(NamedTuple):
    """Rows of an output on another machine: the task's key, the output's location, a name for the rows, and their page slices.

    The name is unique among the rows that are fetched of the output, so that equal requests are sent once.
    """

    key: int
    stored: StoredOutput
    name: Hashable
    slices: tuple[PageSlice, ...]


#: The location of fetched rows in this machine's store: parts of outputs, in order.
LocalParts = list[tuple[StoredOutput, int]]


class _Part:
    """Rows that are fetched once, whichever tasks read them."""

    __slots__ = (
        "asked",
        "chunks",
        "expected",
        "future",
        "gone",
        "held",
        "left",
        "places",
        "prefetched_bytes",
        "wanted",
    )

    def __init__(self, wanted: RemoteRows) -> None:
        self.wanted = wanted
        self.future: Future[LocalParts] = Future()
        self.chunks = [_Chunk(self, number, slices) for number, slices in enumerate(split_by_message(wanted.slices))]
        self.left = len(self.chunks)
        self.places: list[Any] = [None] * self.left
        self.held: list[LocalitySet | None] = []
        self.asked = 2  # the most urgent request so far: 0 a task waits, 1 prefetch, 2 none
        self.expected = 0  # bytes to be prefetched, until a task waits for them
        self.prefetched_bytes = 0  # bytes that were prefetched, until a task waits for them
        self.gone = False


class _Chunk:
    """The slices of a part that one message requests; the message may request chunks of other parts too."""

    __slots__ = ("asked", "nbytes", "number", "part", "slices")

    def __init__(self, part: _Part, number: int, slices: tuple[PageSlice, ...]) -> None:
        self.part, self.number, self.slices = part, number, slices
        self.nbytes = sum(slice_[3] for slice_ in slices)
        self.asked = False


class _Source:
    """A machine that parts are fetched from: its queue of chunks, the most urgent first, and what is in flight."""

    __slots__ = ("messages", "nbytes", "queue", "waiting")

    def __init__(self) -> None:
        self.queue: list[tuple[tuple[int, int], int, _Chunk]] = []
        self.messages = self.nbytes = 0
        self.waiting = 0  # bytes that have not been requested


class Fetcher:
    """Fetches parts from other machines into this machine's store, each once.

    Parameters
    ----------
    loop
        The event loop that sends the messages; :meth:`fetch` is called in other threads.
    store, node
        This machine's store and number.
    ref
        Returns a reference to the node actor of a machine.
    prefetch_limit
        The most bytes that are prefetched before a task waits for them.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, store: Store, node: int, ref: Callable[[int], Any], prefetch_limit: int
    ) -> None:
        self._loop, self._store, self._node, self._ref, self._prefetch_limit = loop, store, node, ref, prefetch_limit
        self._lock = threading.Lock()
        self._parts: dict[int, dict[Hashable, _Part]] = {}
        self._sources: dict[int, _Source] = {}
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight = self._ahead = self._expected = 0
        self._woken = False
        self.compression: Compression = "none"
        self.fetched = 0
        """Bytes that were fetched."""
        self.prefetched = 0
        """Fetched bytes that had been requested before a task waited for them."""
        self.most_in_flight = 0
        """The largest number of bytes that were in flight together."""

    def fetch(
        self, wanted: Sequence[RemoteRows], unwanted: Callable[[], bool] = lambda: False
    ) -> dict[tuple[int, Hashable], LocalParts] | None:
        """Fetch rows; return their locations in this machine's store, by key and name.

        Parameters
        ----------
        wanted
            The rows.
        unwanted
            Polled while waiting; if it returns True, the method stops waiting and returns None.

        Raises
        ------
        OutputLost
            If the rows are gone, or their machine is.
        """
        with self._lock:
            parts = {(one.key, one.name): self._enqueue(one, 0, 0) for one in wanted}
        self._wake()
        pending = {part.future for part in parts.values() if not part.future.done()}
        while pending:
            done, pending = wait(pending, _POLL, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if pending and unwanted():
                return None
        return {which: part.future.result() for which, part in parts.items()}

    def prefetch(self, order: int, wanted: Sequence[RemoteRows] = ()) -> bool:
        """Prefetch rows when there is room, those of lower `order` first.

        Returns
        -------
        bool
            Whether more rows may be prefetched.
        """
        with self._lock:
            for one in wanted:
                self._enqueue(one, 1, order)
            welcome = self._expected < self._prefetch_limit
        if wanted:
            self._wake()
        return welcome

    @property
    def held(self) -> int:
        """The number of outputs of which rows were fetched or are being fetched."""
        return len(self._parts)

    def _enqueue(self, wanted: RemoteRows, urgency: int, order: int) -> _Part:
        known = self._parts.setdefault(wanted.key, {})
        part = known.get(wanted.name)
        if part is not None and not part.future.done() and version_of(part.wanted.stored) != version_of(wanted.stored):
            self._fail(part, OutputLost(wanted.key))  # the output was recomputed, and is elsewhere now
            part = None
            known = self._parts.setdefault(wanted.key, {})
        if part is None:
            part = known[wanted.name] = _Part(wanted)
            self._source(part).waiting += sum(chunk.nbytes for chunk in part.chunks)
            if not part.chunks:
                part.future.set_result([])
        if urgency < part.asked:
            if urgency:
                part.expected = sum(chunk.nbytes for chunk in part.chunks)
                self._expected += part.expected
            else:
                self.prefetched += part.prefetched_bytes
                self._end_prefetch(part)
            part.asked = urgency
            for chunk in part.chunks:
                if not chunk.asked:
                    heapq.heappush(self._source(part).queue, ((urgency, order), next(self._numbers), chunk))
        return part

    def _source(self, part: _Part) -> _Source:
        node = part.wanted.stored.node
        found = self._sources.get(node)
        if found is None:
            found = self._sources[node] = _Source()
        return found

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._send)

    # ---- in the event loop ----

    def _send(self) -> None:
        """Send all requests that the limits allow now."""
        self._woken = False
        with self._lock:
            sending = []
            for node, source in self._sources.items():
                while chunks := self._next(source):
                    sending.append((node, source, chunks))
        for each in sending:
            task = self._loop.create_task(self._request(*each))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self, source: _Source) -> list[_Chunk]:
        """Take the chunks that the next message to a machine requests; none if no message may be sent now."""
        chunks: list[_Chunk] = []
        nbytes = number = 0
        while source.queue and source.messages < MAX_REQUESTS:
            (urgency, _), _, chunk = source.queue[0]
            if chunk.asked or chunk.part.gone:
                heapq.heappop(source.queue)
                continue
            if chunks and (nbytes + chunk.nbytes > MESSAGE_BYTES or number + len(chunk.slices) > MAX_SLICES):
                break
            if source.nbytes and source.nbytes + nbytes + chunk.nbytes > min(
                MAX_IN_FLIGHT_PER_NODE, self._prefetch_limit
            ):
                break
            if self._in_flight and self._in_flight + nbytes + chunk.nbytes > min(MAX_IN_FLIGHT, self._prefetch_limit):
                break
            if urgency:
                if chunk.nbytes > self._prefetch_limit:
                    heapq.heappop(source.queue)  # too large to prefetch: it is requested when a task waits for it
                    continue
                if self._ahead + chunk.nbytes > self._prefetch_limit:
                    break
                if not chunks and source.messages and source.waiting < _MIN_PREFETCH:
                    break
                self._ahead += chunk.nbytes
                chunk.part.prefetched_bytes += chunk.nbytes
            heapq.heappop(source.queue)
            chunk.asked = True
            chunks.append(chunk)
            nbytes += chunk.nbytes
            number += len(chunk.slices)
        if chunks:
            source.waiting -= nbytes
            source.nbytes += nbytes
            source.messages += 1
            self._in_flight += nbytes
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        return chunks

    async def _request(self, node: int, source: _Source, chunks: list[_Chunk]) -> None:
        """Send one message, write the answer to the store, and complete the parts that it completes."""
        requests = [
            ReadRequest(
                chunk.part.wanted.key, chunk.part.wanted.stored.number, chunk.part.wanted.stored.store, chunk.slices
            )
            for chunk in chunks
        ]
        error: BaseException | None = None
        places: list[Any] = [None] * len(chunks)
        held: LocalitySet | None = None
        try:
            lost, sent = await self._ref(node).read(requests, self.compression)
            if sent:
                places, held = await asyncio.to_thread(self._write_to_store, len(chunks), set(lost), sent)
        except (ConnectionError, xo.ActorNotExist):
            pass  # the machine is gone: all chunks are lost
        except BaseException as raised:
            error = raised
        with self._lock:
            nbytes = sum(chunk.nbytes for chunk in chunks)
            source.nbytes -= nbytes
            source.messages -= 1
            self._in_flight -= nbytes
            for chunk, place in zip(chunks, places, strict=True):
                part = chunk.part
                if place is None:
                    self._fail(part, error or OutputLost(part.wanted.key))
                    continue
                if part.gone:
                    continue
                part.places[chunk.number] = place
                part.held.append(held)
                part.left -= 1
                if not part.left:
                    part.future.set_result(part.places)
        self._send()

    def _write_to_store(
        self, requests: int, lost: set[int], sent: list[SentRows]
    ) -> tuple[list[Any], LocalitySet | None]:
        """Write received rows to the store; return the location for each request, None where the rows were lost."""
        sink = PageSink(self._store, requests, self._node)
        try:
            for pieces, data in sent:
                sink.write_joined(pieces, decode_table(data))
            stored = sink.finish()._replace(schema=None)  # the rows may be of outputs with different schemas
        except BaseException:
            sink.abandon()
            raise
        self.fetched += sum(part.nbytes for part in stored.sizes())
        return [None if number in lost else (stored, number) for number in range(requests)], sink.pages

    def _fail(self, part: _Part, error: BaseException) -> None:
        """Fail all tasks that wait for a part. A later request for the same rows creates a new part."""
        known = self._parts.get(part.wanted.key)
        if known is not None and known.get(part.wanted.name) is part:
            del known[part.wanted.name]
            if not known:
                del self._parts[part.wanted.key]
        self._discard(part)
        if not part.future.done():
            part.future.set_exception(error)

    def _discard(self, part: _Part) -> list[LocalitySet | None]:
        """Discard a part; return the locality sets that it kept alive."""
        part.gone = True
        self._end_prefetch(part)
        self._source(part).waiting -= sum(chunk.nbytes for chunk in part.chunks if not chunk.asked)
        held, part.held, part.chunks = part.held, [], []
        return held

    def _end_prefetch(self, part: _Part) -> None:
        self._expected -= part.expected
        self._ahead -= part.prefetched_bytes
        part.expected = part.prefetched_bytes = 0

    def forget(self, keys: Iterable[int]) -> None:
        """Discard the rows that were fetched of some outputs."""
        if not self._parts:
            return
        held: list[LocalitySet | None] = []
        with self._lock:
            for key in keys:
                for part in self._parts.pop(key, {}).values():
                    held += self._discard(part)
                    if not part.future.done():
                        part.future.set_exception(OutputLost(key))
        del held  # outside of the lock: this sends requests to the store
        self._wake()
