"""Parts of outputs from one machine's store to another's; the only place that knows how.

Each machine has a node actor in the process of its store. It holds the outputs that lie there, so that the death of a
worker takes none of them, and sends parts to whoever asks, as tables whose buffers are not copied on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

import craton.actor as xo
from craton.schedule.pages import OutputLost, PageInput, PageSink, Piece, Stored, identify, identity_of
from craton.schedule.tasks import Traffic
from craton.schedule.watching import store_traffic
from craton.store import LocalitySet, Store, default_store

#: The name of a node's actor in its pool.
UID = "craton-node"


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

    async def read(self, key: int, stored: Stored, parts: Sequence[int]) -> list[pa.Table]:
        """Parts of an output, a table each.

        Raises
        ------
        OutputLost
            If it is gone.
        """
        store = default_store()
        inputs = [PageInput(store, [Piece(key, stored, part)]) for part in parts]
        tables = await asyncio.to_thread(lambda: [one.table() for one in inputs])
        self.sent += sum(one.nbytes for one in inputs)
        return tables


#: A part of an output that is elsewhere: the task's key, where it is, and which part.
Wanted = tuple[int, Stored, int]


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
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store, node: int, ref: Callable[[int], Any]) -> None:
        self._loop, self._store, self._node, self._ref = loop, store, node, ref
        self._lock = threading.Lock()
        self._brought: dict[int, dict[int, Future[tuple[Stored, LocalitySet | None]]]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.moved = 0
        """Bytes that were brought."""

    def bring(self, wanted: Sequence[Wanted]) -> dict[tuple[int, int], Stored]:
        """Where parts are in this machine's store, by task and part: each the only part of an output.

        Raises
        ------
        OutputLost
            If one is gone, or its machine is.
        """
        found: dict[tuple[int, int], Future[tuple[Stored, LocalitySet | None]]] = {}
        missing: dict[int, tuple[Stored, list[int]]] = {}
        with self._lock:
            for key, stored, part in wanted:
                known = self._brought.setdefault(key, {})
                if part not in known:
                    known[part] = Future()
                    missing.setdefault(key, (stored, []))[1].append(part)
                found[key, part] = known[part]
        for key, (stored, parts) in missing.items():
            asyncio.run_coroutine_threadsafe(self._bring(key, stored, parts, found), self._loop)
        try:
            return {which: future.result()[0] for which, future in found.items()}
        except OutputLost as error:
            self.forget([error.key])  # it may be made again, elsewhere
            raise

    async def _bring(
        self,
        key: int,
        stored: Stored,
        parts: list[int],
        found: dict[tuple[int, int], Future[tuple[Stored, LocalitySet | None]]],
    ) -> None:
        try:
            async with self._turns:
                tables = await self._ref(stored.node).read(key, stored, parts)
                kept = await asyncio.to_thread(self._kept, tables)
        except ConnectionError:
            error: BaseException = OutputLost(key)
        except BaseException as raised:
            error = raised
        else:
            for part, each in zip(parts, kept, strict=True):
                found[key, part].set_result(each)
            return
        for part in parts:
            found[key, part].set_exception(error)

    def _kept(self, tables: list[pa.Table]) -> list[tuple[Stored, LocalitySet | None]]:
        kept = []
        for table in tables:
            sink = PageSink(self._store, 1, self._node)
            sink.write(0, table)
            stored = sink.finish()
            self.moved += sum(part.nbytes for part in stored.sizes())
            kept.append((stored, sink.pages))
        return kept

    def forget(self, keys: Iterable[int]) -> None:
        """Let go of what was brought."""
        if self._brought:
            with self._lock:
                gone = [self._brought.pop(key, None) for key in keys]
            del gone


# Transfers of one worker at the same time.
_AT_ONCE = 8
