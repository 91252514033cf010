"""Brings parts of outputs from other machines into this one's store: in few messages, in bounded memory, and early.

Those parts go first that a task needs now; then those that waiting tasks will read, in the order of the tasks, as long as
what nobody has asked for is not too much. Many parts are asked for in one message.
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
from craton.cluster.transfer import AT_ONCE, MANY, MESSAGE, Ask, Sent, messages, place_of, table_of
from craton.schedule.pages import OutputLost, PageSink, Stored, Stretch
from craton.store import LocalitySet, Store

if TYPE_CHECKING:
    from craton.cluster.sessions import Compression

#: Bytes on their way to one worker: from one machine, where two large pages shall overlap, and from all; no more than what
#: may be brought ahead, either. A single stretch may have more.
FROM_ONE, FROM_ALL = 16 * MESSAGE, 32 * MESSAGE
# What is asked for ahead waits until it has so many bytes, as long as another message is on its way.
_LITTLE = 1 << 20
# Seconds between looks whether what is waited for is wanted still.
_LOOK = 0.05


class Wanted(NamedTuple):
    """Rows of an output that is elsewhere: the task's key, where it is, which stretches, and a name for these among the task's."""

    key: int
    stored: Stored
    name: Hashable
    stretches: tuple[Stretch, ...]


#: Where rows are in this machine's store: parts of outputs, in order.
Near = list[tuple[Stored, int]]


class _Part:
    """Rows that are brought once."""

    __slots__ = ("ahead", "asked", "chunks", "expected", "future", "gone", "held", "left", "places", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.future: Future[Near] = Future()
        self.chunks = [_Chunk(self, number, stretches) for number, stretches in enumerate(messages(wanted.stretches))]
        self.left = len(self.chunks)
        self.places: list[Any] = [None] * self.left
        self.held: list[LocalitySet | None] = []
        self.asked = 2  # how urgently: 0 is at once, 1 ahead
        self.expected = 0  # bytes that shall be brought ahead, as long as nobody has asked for them at once
        self.ahead = 0  # bytes that were asked for ahead, and that nobody has read yet
        self.gone = False


class _Chunk:
    """What one message asks for of a part, together with others."""

    __slots__ = ("asked", "nbytes", "number", "part", "stretches")

    def __init__(self, part: _Part, number: int, stretches: tuple[Stretch, ...]) -> None:
        self.part, self.number, self.stretches = part, number, stretches
        self.nbytes = sum(stretch[3] for stretch in stretches)
        self.asked = False


class _Source:
    """A machine that parts are brought from: what waits, the most urgent first, and what is on its way."""

    __slots__ = ("messages", "nbytes", "queue", "waiting")

    def __init__(self) -> None:
        self.queue: list[tuple[tuple[int, int], int, _Chunk]] = []
        self.messages = self.nbytes = 0
        self.waiting = 0  # bytes of the queue


class Fetcher:
    """Brings parts that lie on other machines into this one's store, each once.

    Parameters
    ----------
    loop
        In which messages are sent; :meth:`bring` is called in other threads.
    store, node
        Of this machine.
    ref
        Returns a reference to a machine's node actor.
    most_ahead
        Bytes that are brought at most before somebody asks for them.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, store: Store, node: int, ref: Callable[[int], Any], most_ahead: int
    ) -> None:
        self._loop, self._store, self._node, self._ref, self._most_ahead = loop, store, node, ref, most_ahead
        self._lock = threading.Lock()
        self._parts: dict[int, dict[Hashable, _Part]] = {}
        self._sources: dict[int, _Source] = {}
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flying = self._ahead = self._expected = 0
        self._woken = False
        self.compression: Compression = "none"
        self.moved = 0
        """Bytes that were brought."""
        self.early = 0
        """Bytes of them that were on their way, or here, before somebody asked for them."""
        self.most_flying = 0
        """Bytes that were on their way together at the most."""

    def bring(
        self, wanted: Sequence[Wanted], unwanted: Callable[[], bool] = lambda: False
    ) -> dict[tuple[int, Hashable], Near] | None:
        """Where rows are in this machine's store, by key and name.

        Parameters
        ----------
        wanted
            Which rows.
        unwanted
            Says, now and then, whether nobody wants them any more; then the result is None.

        Raises
        ------
        OutputLost
            If they are gone, or their machine is.
        """
        with self._lock:
            parts = {(one.key, one.name): self._want(one, 0, 0) for one in wanted}
        self._wake()
        pending = {part.future for part in parts.values() if not part.future.done()}
        while pending:
            done, pending = wait(pending, _LOOK, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if pending and unwanted():
                return None
        return {which: part.future.result() for which, part in parts.items()}

    def expect(self, order: int, wanted: Sequence[Wanted] = ()) -> bool:
        """Bring rows before somebody asks for them, when there is room: those of less `order` first.

        Returns
        -------
        bool
            Whether there is room for more than what is expected now.
        """
        with self._lock:
            for one in wanted:
                self._want(one, 1, order)
            welcome = self._expected < self._most_ahead
        if wanted:
            self._wake()
        return welcome

    @property
    def held(self) -> int:
        """How many outputs something was brought of, or is being brought."""
        return len(self._parts)

    def _want(self, wanted: Wanted, urgency: int, order: int) -> _Part:
        known = self._parts.setdefault(wanted.key, {})
        part = known.get(wanted.name)
        if part is not None and not part.future.done() and place_of(part.wanted.stored) != place_of(wanted.stored):
            self._fail(part, OutputLost(wanted.key))  # it was made again, elsewhere
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
                self.early += part.ahead
                self._no_longer_ahead(part)
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

    # ---- in the loop ----

    def _send(self) -> None:
        """Ask for what may be asked for now."""
        self._woken = False
        with self._lock:
            sending = []
            for node, source in self._sources.items():
                while chunks := self._next(source):
                    sending.append((node, source, chunks))
        for each in sending:
            task = self._loop.create_task(self._fly(*each))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self, source: _Source) -> list[_Chunk]:
        """What the next message to a machine asks for."""
        chunks: list[_Chunk] = []
        nbytes = number = 0
        while source.queue and source.messages < AT_ONCE:
            (urgency, _), _, chunk = source.queue[0]
            if chunk.asked or chunk.part.gone:
                heapq.heappop(source.queue)
                continue
            if chunks and (nbytes + chunk.nbytes > MESSAGE or number + len(chunk.stretches) > MANY):
                break
            if source.nbytes and source.nbytes + nbytes + chunk.nbytes > min(FROM_ONE, self._most_ahead):
                break
            if self._flying and self._flying + nbytes + chunk.nbytes > min(FROM_ALL, self._most_ahead):
                break
            if urgency:
                if chunk.nbytes > self._most_ahead:
                    heapq.heappop(source.queue)  # it has to wait until somebody asks
                    continue
                if self._ahead + chunk.nbytes > self._most_ahead:
                    break
                if not chunks and source.messages and source.waiting < _LITTLE:
                    break
                self._ahead += chunk.nbytes
                chunk.part.ahead += chunk.nbytes
            heapq.heappop(source.queue)
            chunk.asked = True
            chunks.append(chunk)
            nbytes += chunk.nbytes
            number += len(chunk.stretches)
        if chunks:
            source.waiting -= nbytes
            source.nbytes += nbytes
            source.messages += 1
            self._flying += nbytes
            self.most_flying = max(self.most_flying, self._flying)
        return chunks

    async def _fly(self, node: int, source: _Source, chunks: list[_Chunk]) -> None:
        """Send one message, and take note of what comes."""
        asks = [
            Ask(chunk.part.wanted.key, chunk.part.wanted.stored.number, chunk.part.wanted.stored.store, chunk.stretches)
            for chunk in chunks
        ]
        error: BaseException | None = None
        places: list[Any] = [None] * len(chunks)
        held: LocalitySet | None = None
        try:
            lost, sent = await self._ref(node).read(asks, self.compression)
            if sent:
                places, held = await asyncio.to_thread(self._kept, len(chunks), set(lost), sent)
        except (ConnectionError, xo.ActorNotExist):
            pass  # its machine is gone, and all that was there
        except BaseException as raised:
            error = raised
        with self._lock:
            nbytes = sum(chunk.nbytes for chunk in chunks)
            source.nbytes -= nbytes
            source.messages -= 1
            self._flying -= nbytes
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

    def _kept(self, asks: int, lost: set[int], sent: list[Sent]) -> tuple[list[Any], LocalitySet | None]:
        """Write what has come into the store; return for each ask where it is, None where it was lost."""
        sink = PageSink(self._store, asks, self._node)
        try:
            for pieces, data in sent:
                sink.write_joined(pieces, table_of(data))
            stored = sink.finish()._replace(schema=None)  # outputs of different columns come together
        except BaseException:
            sink.abandon()
            raise
        self.moved += sum(part.nbytes for part in stored.sizes())
        return [None if number in lost else (stored, number) for number in range(asks)], sink.pages

    def _fail(self, part: _Part, error: BaseException) -> None:
        """Have those know who wait for a part; it may be asked for again, and is another then."""
        known = self._parts.get(part.wanted.key)
        if known is not None and known.get(part.wanted.name) is part:
            del known[part.wanted.name]
            if not known:
                del self._parts[part.wanted.key]
        self._let_go(part)
        if not part.future.done():
            part.future.set_exception(error)

    def _let_go(self, part: _Part) -> list[LocalitySet | None]:
        """Have a part be none any more; return what was held for it."""
        part.gone = True
        self._no_longer_ahead(part)
        self._source(part).waiting -= sum(chunk.nbytes for chunk in part.chunks if not chunk.asked)
        held, part.held, part.chunks = part.held, [], []
        return held

    def _no_longer_ahead(self, part: _Part) -> None:
        self._expected -= part.expected
        self._ahead -= part.ahead
        part.expected = part.ahead = 0

    def forget(self, keys: Iterable[int]) -> None:
        """Let go of what was brought."""
        if not self._parts:
            return
        held: list[LocalitySet | None] = []
        with self._lock:
            for key in keys:
                for part in self._parts.pop(key, {}).values():
                    held += self._let_go(part)
                    if not part.future.done():
                        part.future.set_exception(OutputLost(key))
        del held  # the store is told, outside of the lock
        self._wake()
