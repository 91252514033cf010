"""A function called for many things in order: here as long as that is quick, then in workers, piece after piece.

The first calls are made in this process and measured. What would be done within :data:`WORTH` seconds is finished here, so a
cheap function or a small frame pays nothing. Otherwise the rest is cut into pieces that take some tenths of a second each,
several of them on their way per worker; their results come back in order. No call is made twice, unless what a worker did
cannot be used: then the program makes those calls itself.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pandas._config import config

from craton import filters, forks
from craton.config import options
from craton.kernel.interrupts import InterruptGuard
from craton.refusals import Reason, Refusal
from craton.remote import session as sessions
from craton.remote.captured import State, held_elsewhere, refusal
from craton.remote.functions import Function, Payload, Surroundings
from craton.remote.pieces import Body, Piece, PieceResult
from craton.remote.session import Session
from craton.remote.surfaces import raised, say
from craton.remote.values import Values, values_of
from craton.schedule.tasks import Read, Runner, Task, new_key

__all__ = ["Job", "Results", "one_piece", "put", "run"]

WORTH = 0.5
"""Seconds that all calls together must be expected to take yet, to be worth workers."""

HEARD_AFTER = 0.25
"""Seconds of calls that are made here between two looks for interrupts, where no worker takes them."""

SAMPLE = 0.02
"""Seconds of calls that are made here before anything is decided, and between the looks at the clock."""

PIECE = (0.08, 0.5)
"""Seconds that a piece should take, at the least and at the most."""

LARGEST = 64 << 20
"""Bytes of rows that a piece should have at the most."""

_AHEAD = 2
"""Pieces that are on their way for each worker: one that runs, and one that waits."""

_KEPT = 2 * _AHEAD
"""Pieces for each worker that are on their way, or done before an earlier one is."""


class Job(Protocol):
    """What is called for what."""

    @property
    def function(self) -> Function:
        """What is called."""

    @property
    def weights(self) -> np.ndarray[Any, Any] | None:
        """Where each thing ends if all are laid side by side, as long as they are expected to take; None: all alike."""

    def __len__(self) -> int:
        """How many things there are."""

    def here(self, start: int, stop: int, results: list[Any]) -> Any:
        """Make the calls from ``start`` to ``stop`` in this process, as :meth:`craton.remote.pieces.Body.call`."""

    def rows(self, start: int, stop: int) -> pa.Table:
        """What a piece of them needs."""

    @property
    def body(self) -> Body:
        """What a worker does."""

    def unpack(self, table: pa.Table) -> Values:
        """What the body packed."""


@dataclass
class Results:
    """What all calls returned.

    Attributes
    ----------
    chunks
        Their results, in order.
    values
        What the bodies of the pieces returned, in order.
    refused
        Why the calls were not spread though they would take long; or None.
    pieces
        How many pieces were run by workers.
    """

    chunks: list[Values] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    refused: Reason | None = None
    pieces: int = 0

    def to_list(self) -> list[Any]:
        """All of them as the objects that the function returned."""
        if len(self.chunks) == 1:
            return self.chunks[0].to_list()
        return [one for chunk in self.chunks for one in chunk.to_list()]

    def array(self) -> np.ndarray[Any, Any] | None:
        """All of them as an array, if they are numbers of one kind."""
        arrays = [chunk.array for chunk in self.chunks if len(chunk)]
        if not arrays or any(one is None or one.dtype != arrays[0].dtype for one in arrays):  # type: ignore[union-attr]
            return None
        return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]  # type: ignore[arg-type]


_Underway: TypeAlias = deque[tuple[int, int, Future[tuple[PieceResult, pa.Table | None]]]]
"""Pieces that were sent and are not used yet, in order: where each starts and stops, and what becomes of it."""


def run(job: Job, name: str, chunk: int | None = None) -> Results:
    """Make all calls of a job.

    Parameters
    ----------
    job
        What to call.
    name
        Of the user's call, for people.
    chunk
        How many things a piece has; by default as many as take some tenths of a second.

    Raises
    ------
    BaseException
        What the function raises for the first thing, in their order, for which it raises.
    """
    return _Run(job, name, chunk).run()


class _Run:
    """One job on its way."""

    def __init__(self, job: Job, name: str, chunk: int | None) -> None:
        self.job, self.name, self.chunk = job, name, chunk
        self.total = len(job)
        self.weights = job.weights
        self.done = 0
        self.rate = 0.0
        self.local: list[Any] = []
        self.results = Results()

    # -- how much ---------------------------------------------------------------------------------------------------

    def weight(self, start: int, stop: int) -> float:
        """How long some of the things are expected to take, in units of :attr:`rate`."""
        if self.weights is None:
            return float(stop - start)
        return float(self.weights[stop - 1] - (self.weights[start - 1] if start else 0)) if stop > start else 0.0

    def reach(self, start: int, weight: float) -> int:
        """Where things of that weight end; one thing at the least."""
        if self.weights is None:
            stop = start + int(weight)
        else:
            before = self.weights[start - 1] if start else 0
            stop = int(np.searchsorted(self.weights, before + weight, "right"))
        return min(max(stop, start + 1), self.total)

    @property
    def left(self) -> float:
        """Seconds that the rest is expected to take here."""
        return self.rate * self.weight(self.done, self.total)

    # -- here -------------------------------------------------------------------------------------------------------

    def advance(self, stop: int) -> None:
        """Make calls here."""
        started = time.perf_counter()
        with InterruptGuard():
            value = self.job.here(self.done, stop, self.local)
        elapsed = time.perf_counter() - started
        if value is not None:
            self.results.values.append(value)
        # The first calls of all may have loaded or compiled something: what was measured last counts.
        self.rate = elapsed / max(self.weight(self.done, stop), 1e-9)
        self.done = stop

    def advance_for(self, seconds: float) -> None:
        """Make calls here for about so long."""
        started = time.perf_counter()
        step = 1
        left = seconds
        while self.done < self.total:
            if self.rate:
                step = max(min(int(left / self.rate / self.weight(self.done, self.done + 1)), step), 1)
            self.advance(min(self.done + step, self.total))
            step *= 4
            left = seconds - (time.perf_counter() - started)
            if left <= 0:
                break

    def finish_here(self) -> None:
        """Make the rest of the calls here, in pieces: an interrupt that one of them loses is raised at its end."""
        while self.done < self.total:
            self.advance_for(HEARD_AFTER)

    def keep(self) -> None:
        """Close the chunk of what was done here."""
        if self.local:
            self.results.chunks.append(values_of(self.local))
            self.local = []

    # -- all --------------------------------------------------------------------------------------------------------

    def run(self) -> Results:
        """Make all calls."""
        self.advance_for(SAMPLE)
        while self.done < self.total:
            if self.left <= WORTH:
                # The rest is expected to be quick; things that take longer than others are noticed.
                self.advance_for(max(min(self.left, WORTH), SAMPLE))
                continue
            self.results.refused = self.spread()
            if self.results.refused is not None:
                self.finish_here()
        self.keep()
        return self.results

    def spread(self) -> Reason | None:
        """Have the rest of the calls made by workers, or return why not; then some are left."""
        reason = _general_refusal() or refusal(self.job.function)
        if reason is not None:
            return reason
        state = State(self.job.function)
        try:
            before = state.digest()
        except Exception as error:
            return _unpicklable(error)
        self.advance_for(SAMPLE)
        if self.done == self.total:
            return None
        try:
            after = state.digest()
        except Exception as error:
            return _unpicklable(error)
        if before != after:
            return Reason(Refusal.FUNCTION_CHANGED_CAPTURED)
        waiting = sessions.start(type(self.job.body).__module__)
        while not waiting.done() and self.done < self.total:
            self.advance_for(SAMPLE)
        if self.done == self.total or self.left <= WORTH / 5:
            return None
        try:
            session = waiting.result()
        except Exception as error:
            return Reason(Refusal.NO_WORKERS, str(error))
        try:
            payload = Payload.of(self.job.function, held_elsewhere(self.job.function))
            held = session.submit(put(session.runner, payload.table)).result()
        except Exception as error:
            return _unpicklable(error)
        self.keep()
        return self.in_workers(session, Piece(self.job.body, payload.digest, Surroundings.here()), held)

    def in_workers(self, session: Session, piece: Piece, held: int) -> Reason | None:
        """Have the rest done by workers; return why that could not be, with the rest left to do here."""
        underway: _Underway = deque()
        sent = self.done
        by_bytes = self.weight(self.done, self.total)
        try:
            while self.done < self.total:
                while sent < self.total and _room(underway, session.workers):
                    stop = self.reach(sent, min(self.share(sent, session.workers, len(underway)), by_bytes))
                    if self.chunk is not None:
                        stop = min(sent + self.chunk, self.total)
                    try:
                        rows = self.job.rows(sent, stop)
                    except Exception as error:
                        if not underway:
                            return Reason(Refusal.FUNCTION_ROWS_NOT_PICKLED, f"{type(error).__name__}: {error}")
                        break
                    weight = self.weight(sent, stop)
                    by_bytes = max(LARGEST * weight / max(rows.nbytes, 1), 1.0)
                    underway.append(
                        (sent, stop, session.submit(one_piece(session.runner, piece, rows, held, self.name)))
                    )
                    sent = stop
                if not underway[0][2].done():
                    # Whichever is done first makes room for another, so that no worker waits for a slow one.
                    wait([future for _, _, future in underway if not future.done()], return_when=FIRST_COMPLETED)
                    continue
                start, stop, future = underway.popleft()
                told, table = future.result()
                if told.refused is not None:
                    return told.refused
                say(told.said)
                if told.failure is not None:
                    raise raised(told.failure)
                self.take(start, stop, told, table)
        finally:
            for _, _, future in underway:
                future.cancel()
            session.release(held)
        return None

    def share(self, start: int, workers: int, underway: int) -> float:
        """How much the next piece should be: some tenths of a second, less at the beginning and at the end.

        The first ones are small, so that all workers begin at once. Of what is left, half is cut for the workers, and so on,
        down to pieces that are worth a round trip.
        """
        least, most = PIECE
        left = self.weight(start, self.total)
        expected = self.rate * left
        if not expected:
            return left / workers
        wanted = expected / (2 * workers) if underway >= workers else least
        return left / math.ceil(expected / min(max(wanted, least), most))

    def take(self, start: int, stop: int, told: PieceResult, table: pa.Table | None) -> None:
        """Keep the results of a piece."""
        values = self.job.unpack(table)
        if len(values) != stop - start:
            raise RuntimeError(f"a piece of {self.name} has {len(values)} results for {stop - start} calls")
        self.results.chunks.append(values)
        self.results.pieces += 1
        if told.value is not None:
            self.results.values.append(told.value)
        self.rate = 0.5 * self.rate + 0.5 * told.seconds / max(self.weight(start, stop), 1e-9)
        self.done = stop


def _room(underway: _Underway, workers: int) -> bool:
    """Whether another piece should be sent."""
    if len(underway) >= _KEPT * workers:
        return False
    return sum(not future.done() for _, _, future in underway) < _AHEAD * workers


def _general_refusal() -> Reason | None:
    """Why no function is spread in this thread now, or None."""
    if not options.parallel_functions:
        return Reason(Refusal.FUNCTIONS_NOT_PARALLEL)
    if sessions.inside_worker():
        return Reason(Refusal.FUNCTION_IN_WORKER)
    if multiprocessing.parent_process() is not None:
        return Reason(Refusal.FUNCTION_IN_CHILD)
    if forks.kernel_lost():
        return Reason(Refusal.FORKED)
    with filters.ignored():  # some options are deprecated
        changed = [
            name
            for name, option in config._registered_options.items()
            if not name.startswith("display.") and config.get_option(name) != option.defval
        ]
    return Reason(Refusal.FUNCTION_OPTIONS, ", ".join(changed)) if changed else None


def _unpicklable(error: Exception) -> Reason:
    return Reason(Refusal.FUNCTION_NOT_PICKLED, f"{type(error).__name__}: {error}")


async def put(runner: Runner, table: pa.Table) -> int:
    """Put a table where workers read it; return its key."""
    return (await runner.put(table)).key


async def one_piece(
    runner: Runner, piece: Piece, rows: pa.Table, function: int, name: str
) -> tuple[PieceResult, pa.Table | None]:
    """Run one piece, and leave nothing of it behind."""
    keys: list[int] = []
    try:
        data = await runner.put(rows)
        keys.append(data.key)
        task = Task(new_key(), piece, (Read((data.key,)), Read((function,))), memory=3 * rows.nbytes, stage=name)
        keys.append(task.key)
        (output,) = await runner.run([task])
        return output.value, await runner.fetch(task.key) if output.rows else None
    finally:
        runner.release(keys)
