"""Steps on the machines of a session: one actor on each machine, beside its store, runs steps in processes of that machine.

The driver's store has every table. A machine that runs a step gets the tables that it does not have yet, keeps them as long as the driver
does, and sends the outputs, so that a chain of steps on one machine sends each table once.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

import craton.actor as xo
from craton.cluster.sessions import ClusterSession
from craton.pipeline.sandboxes import Sandboxes
from craton.pipeline.tasks import Form, Outcome, StepError, StepTask, Stored
from craton.store.process import default_store
from craton.store.sets import LocalitySet
from craton.store.store import Store

__all__ = ["OnSession", "StepHost"]

#: The name of a machine's actor in its pool.
UID = "craton-steps"

#: Seconds for which a machine that was lost gets no step, if there is another one.
_AVOIDED = 10.0

#: A table of the driver: a number that no other table of this session has.
Key = int
Sent = tuple[Form, int, Any]
"""The form of an output, its rows, and the table."""


class StepHost(xo.StatelessActor):
    """Runs steps in processes of this machine, on the store of this process."""

    def __init__(self) -> None:
        super().__init__()
        self._sandboxes = Sandboxes(default_store())
        self._held: dict[Key, Stored] = {}

    async def __pre_destroy__(self) -> None:
        await asyncio.to_thread(self._sandboxes.close)

    def has(self, keys: Sequence[Key]) -> list[Key]:
        """Return those of the tables that this machine has."""
        return [key for key in keys if key in self._held]

    async def take(self, key: Key, form: Form, table: Any) -> None:
        """Keep a table of the driver."""
        self._held[key] = await asyncio.to_thread(_stored, default_store(), form, table)

    def drop(self, keys: Sequence[Key]) -> None:
        """Drop tables that the driver has dropped."""
        for key in keys:
            self._held.pop(key, None)

    async def run(
        self, task: bytes, inputs: Mapping[str, tuple[Key, Form]], keys: Sequence[Key]
    ) -> tuple[bytes, dict[str | None, Sent]]:
        """Run a task with tables that this machine has; return the outcome without its outputs, and these.

        Parameters
        ----------
        task
            The pickled task, without its inputs.
        inputs
            For each parameter the table and the form.
        keys
            Numbers for the outputs, which this machine keeps.

        Raises
        ------
        StepError
            If it failed.
        """
        given = {name: (self._held[key], form) for name, (key, form) in inputs.items()}
        outcome = await asyncio.to_thread(self._sandboxes.run, replace(pickle.loads(task), inputs=given))
        sent: dict[str | None, Sent] = {}
        for (name, stored), key in zip(
            outcome.outputs.items(), itertools.chain(keys, itertools.repeat(None)), strict=False
        ):
            if key is not None:
                self._held[key] = stored
            sent[name] = (stored.form, stored.rows, await asyncio.to_thread(stored.pages.to_arrow))
        return pickle.dumps(replace(outcome, outputs={})), sent


def _stored(store: Store, form: Form, table: pa.Table) -> Stored:
    """Put a table into a store."""
    pages = store.create_set()
    batches = table.to_batches()
    for batch in batches or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
        pages.append(batch)
    return Stored(pages, form, table.num_rows, sum(page.nbytes for page in pages.pages()))


class OnSession:
    """Runs tasks on the machines of a session; a :class:`craton.pipeline.tasks.StepRunner`.

    Parameters
    ----------
    session
        The session, whose workers are on several machines.
    store
        The driver's store.
    here
        Runs tasks on this machine.
    """

    #: The most outputs of a step that its machine keeps.
    KEPT = 64

    def __init__(self, session: ClusterSession, store: Store, here: Sandboxes) -> None:
        self._session, self._store, self._here = session, store, here
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._keys: weakref.WeakKeyDictionary[LocalitySet, Key] = weakref.WeakKeyDictionary()
        self._threads: dict[int, int] = {}
        for band in session.runner.bands:
            self._threads[band.node] = self._threads.get(band.node, 0) + band.threads
        self._running = dict.fromkeys(self._threads, 0)
        self._has: dict[int, set[Key]] = {node: set() for node in self._threads}
        self._hosts: dict[int, Any] = {}
        self._dropped: dict[int, list[Key]] = {node: [] for node in self._threads}
        self._lost: dict[int, float] = {}

    @property
    def cpus(self) -> int:
        """Threads of all machines."""
        return sum(self._threads.values())

    def run(self, task: StepTask) -> Outcome:
        """Run a task on the machine that is the least busy, and of these on the one that has most of its inputs.

        Raises
        ------
        StepError
            If it failed. The store has nothing of it then.
        """
        node = self._chosen(task)
        try:
            if node == 0:
                return self._here.run(task)
            return self._session.call(self._run_there(node, task))
        except (ConnectionError, xo.ServerClosed, xo.ActorNotExist) as error:
            with self._lock:  # the machine, or its store, has ended: it has no tables any more
                self._hosts.pop(node, None)
                self._has[node].clear()
                self._lost[node] = time.monotonic()
            raise StepError(task.step, "ended", f"its machine was lost: {error}") from error
        except RuntimeError as error:
            if not self._session.closed:
                raise
            raise StepError(task.step, "ended", str(error)) from error
        finally:
            with self._lock:
                self._running[node] -= task.limits.cpus or 1

    def close(self) -> None:
        """Drop the tables that other machines have."""
        if self._session.closed:
            return
        with suppress(Exception):
            self._session.call(self._drop_hosts())

    async def _drop_hosts(self) -> None:
        for host in self._hosts.values():
            await xo.destroy_actor(host)
        self._hosts.clear()

    def _chosen(self, task: StepTask) -> int:
        tables = [stored for stored, _ in task.inputs.values()]
        need = task.limits.cpus or 1
        with self._lock:

            def rank(node: int) -> tuple[bool, float, int, int]:
                here = node == 0
                lost = time.monotonic() - self._lost.get(node, -_AVOIDED) < _AVOIDED
                there = sum(one.nbytes for one in tables if here or self._keys.get(one.pages) in self._has[node])
                return (
                    lost,
                    max(self._running[node] + need - self._threads[node], 0) / self._threads[node],
                    -there,
                    node,
                )

            node = min(self._threads, key=rank)
            self._running[node] += need
            return node

    async def _run_there(self, node: int, task: StepTask) -> Outcome:
        host = await self._host(node)
        inputs: dict[str, tuple[Key, Form]] = {}
        copied = 0
        for name, (stored, form) in task.inputs.items():
            key = self._key(stored.pages)
            if key not in self._has[node]:
                table = await asyncio.to_thread(stored.pages.to_arrow)
                await host.take(key, stored.form, table)
                self._has[node].add(key)
                copied += stored.nbytes
            inputs[name] = (key, form)
        keys = [next(self._numbers) for _ in range(self.KEPT)]
        said, sent = await host.run(pickle.dumps(replace(task, inputs={}, taking=nullcontext)), inputs, keys)
        outcome: Outcome = pickle.loads(said)
        outputs: dict[str | None, Stored] = {}
        for (name, (form, _, table)), number in zip(
            sent.items(), itertools.chain(keys, itertools.repeat(None)), strict=False
        ):
            outputs[name] = stored = await asyncio.to_thread(_stored, self._store, form, table)
            copied += stored.nbytes
            if number is not None:
                self._keys[stored.pages] = number
                self._has[node].add(number)
                weakref.finalize(stored.pages, self._forget, number)
        return replace(outcome, outputs=outputs, copied=outcome.copied + copied)

    async def _host(self, node: int) -> Any:
        host, gone, dropped = self._hosts.get(node), [], self._dropped[node]
        while dropped:
            gone.append(dropped.pop())
        if host is None:
            address = self._session.runner.store_address(node)
            made = xo.create_actor_ref(address, UID)
            host = made if await xo.has_actor(made) else await xo.create_actor(StepHost, uid=UID, address=address)
            self._hosts[node] = host
        elif gone:
            await host.drop(gone)
        return host

    def _key(self, pages: LocalitySet) -> Key:
        with self._lock:
            key = self._keys.get(pages)
            if key is None:
                key = self._keys[pages] = next(self._numbers)
                weakref.finalize(pages, self._forget, key)
            return key

    def _forget(self, key: Key) -> None:
        """A table of the driver is gone: machines drop it before their next step. Called in any thread."""
        for node, has in self._has.items():
            if key in has:
                has.discard(key)
                self._dropped[node].append(key)
