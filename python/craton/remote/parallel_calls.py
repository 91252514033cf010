"""Calls a function for many items in order: in this process while that is quick, then in workers, in pieces.

The first calls are made and timed in this process. If the rest is expected to take at most :data:`MIN_PARALLEL_SECONDS`, it is
finished here, so that cheap functions and small frames have no overhead. Otherwise the rest is cut into pieces of some tenths of a
second. Each worker has several pieces in flight, and results are used in order. A call is repeated only if the results of its
piece cannot be used; then this process makes the calls of that piece.
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

from craton import forks
from craton.config import options
from craton.kernel.interrupts import InterruptGuard
from craton.refusals import Reason, Refusal
from craton.remote import session as sessions
from craton.remote.captured import State, attributes_read, refusal
from craton.remote.functions import CallerSettings, Payload, UserFunction, changed_options
from craton.remote.pieces import Body, Piece, PieceResult
from craton.remote.session import FunctionSession
from craton.remote.side_output import replay_output, unpack_exception
from craton.remote.values import Values, values_of
from craton.schedule.tasks import Read, Runner, Task, new_key

__all__ = ["Job", "Results", "one_piece", "put", "run"]

MIN_PARALLEL_SECONDS = 0.5
"""Seconds that the remaining calls must be expected to take for workers to be used."""

INTERRUPT_SECONDS = 0.25
"""Seconds of calls in this process between two checks for interrupts, if workers cannot be used."""

SAMPLE_SECONDS = 0.02
"""Seconds of calls that are made in this process before each decision."""

PIECE_SECONDS = (0.08, 0.5)
"""The least and the most seconds that a piece should take."""

MAX_PIECE_BYTES = 64 << 20
"""The most bytes of rows that a piece should have."""

_UNFINISHED_PIECES = 2
"""The most unfinished pieces for each worker: one that runs, and one that waits."""

_UNUSED_PIECES = 2 * _UNFINISHED_PIECES
"""The most pieces for each worker that are unfinished, or finished but waiting for an earlier piece."""


class Job(Protocol):
    """A function, and the items that it is called for."""

    @property
    def function(self) -> UserFunction:
        """The function."""

    @property
    def weights(self) -> np.ndarray[Any, Any] | None:
        """The cumulative sum of the items' relative costs; None if all items cost the same."""

    @property
    def planned(self) -> bool:
        """Whether calls in this process run in the kernel, with all of its threads, so that workers would be slower."""

    def __len__(self) -> int:
        """Return the number of items."""

    def here(self, start: int, stop: int, results: list[Any]) -> Any:
        """Call the function for the items from `start` to `stop` in this process, as :meth:`craton.remote.pieces.Body.call`."""

    def rows(self, start: int, stop: int) -> pa.Table:
        """Return the items from `start` to `stop` in the form that the body's `call` takes."""

    @property
    def body(self) -> Body:
        """Makes the calls in a worker."""

    def unpack(self, table: pa.Table) -> Values:
        """Return the results that the body packed."""


@dataclass
class Results:
    """The results of all calls.

    Attributes
    ----------
    chunks
        The results, in order.
    values
        The values that the bodies returned for pieces, in order.
    refused
        Why calls that would take long were not made by workers; else None.
    pieces
        The number of pieces that workers ran.
    """

    chunks: list[Values] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    refused: Reason | None = None
    pieces: int = 0

    def to_list(self) -> list[Any]:
        """Return the results as the objects that the function returned."""
        if len(self.chunks) == 1:
            return self.chunks[0].to_list()
        return [one for chunk in self.chunks for one in chunk.to_list()]

    def array(self) -> np.ndarray[Any, Any] | None:
        """Return the results as an array if all are numbers of one dtype; else None."""
        arrays = [chunk.array for chunk in self.chunks if len(chunk)]
        if not arrays or any(one is None or one.dtype != arrays[0].dtype for one in arrays):  # type: ignore[union-attr]
            return None
        return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]  # type: ignore[arg-type]


_PiecesInFlight: TypeAlias = deque[tuple[int, int, Future[tuple[PieceResult, pa.Table | None]]]]
"""Pieces that were sent and whose results are not used yet, in order: start, stop, and the future of the result."""


def run(job: Job, name: str, chunk: int | None = None) -> Results:
    """Make all calls of a job.

    Parameters
    ----------
    job
        The function and the items.
    name
        The name of the user's call, for display.
    chunk
        The number of items in a piece; by default as many as take some tenths of a second.

    Raises
    ------
    BaseException
        The exception of the first item, in order, for which the function raises one.
    """
    return _Run(job, name, chunk).run()


class _Run:
    """A job in progress."""

    def __init__(self, job: Job, name: str, chunk: int | None) -> None:
        self.job, self.name, self.chunk = job, name, chunk
        self.total = len(job)
        self.weights = job.weights
        self.done = 0
        self.rate = 0.0
        self.local: list[Any] = []
        self.results = Results()

    # -- estimates --------------------------------------------------------------------------------------------------

    def weight(self, start: int, stop: int) -> float:
        """Return the cost of the items from `start` to `stop`; multiplied by :attr:`rate` it is in seconds."""
        if self.weights is None:
            return float(stop - start)
        return float(self.weights[stop - 1] - (self.weights[start - 1] if start else 0)) if stop > start else 0.0

    def reach(self, start: int, weight: float) -> int:
        """Return where items of that total cost end, at least one item after `start`."""
        if self.weights is None:
            stop = start + int(weight)
        else:
            before = self.weights[start - 1] if start else 0
            stop = int(np.searchsorted(self.weights, before + weight, "right"))
        return min(max(stop, start + 1), self.total)

    @property
    def left(self) -> float:
        """Seconds that the remaining calls are expected to take in this process."""
        return self.rate * self.weight(self.done, self.total)

    # -- calls in this process --------------------------------------------------------------------------------------

    def advance(self, stop: int) -> None:
        """Make the calls up to `stop` in this process."""
        started = time.perf_counter()
        with InterruptGuard():
            value = self.job.here(self.done, stop, self.local)
        elapsed = time.perf_counter() - started
        if value is not None:
            self.results.values.append(value)
        # The very first calls may have imported or compiled something, so only the last measurement counts.
        self.rate = elapsed / max(self.weight(self.done, stop), 1e-9)
        self.done = stop

    def advance_for(self, seconds: float) -> None:
        """Make calls in this process for about this many seconds."""
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
        """Make the remaining calls in this process, in pieces: if a call swallows Ctrl-C, it is raised at the end of the piece."""
        while self.done < self.total:
            self.advance_for(INTERRUPT_SECONDS)

    def keep(self) -> None:
        """Append the results of calls in this process to the results."""
        if self.local:
            self.results.chunks.append(values_of(self.local))
            self.local = []

    # -- calls in workers -------------------------------------------------------------------------------------------

    def run(self) -> Results:
        """Make all calls."""
        self.advance_for(SAMPLE_SECONDS)
        while self.done < self.total:
            if self.job.planned:
                self.finish_here()
            elif self.left <= MIN_PARALLEL_SECONDS:
                # The rest is expected to be quick; the estimate is updated, in case later items take longer.
                self.advance_for(max(min(self.left, MIN_PARALLEL_SECONDS), SAMPLE_SECONDS))
            else:
                self.results.refused = self.spread()
                if self.results.refused is not None:
                    self.finish_here()
        self.keep()
        return self.results

    def spread(self) -> Reason | None:
        """Make the remaining calls in workers; return None, or the reason why some of them were not made."""
        reason = _general_refusal() or refusal(self.job.function)
        if reason is not None:
            return reason
        state = State(self.job.function)
        try:
            before = state.digest()
        except Exception as error:
            return _unpicklable(error)
        self.advance_for(SAMPLE_SECONDS)
        if self.done == self.total or self.job.planned:
            return None
        try:
            after = state.digest()
        except Exception as error:
            return _unpicklable(error)
        if before != after:
            return Reason(Refusal.FUNCTION_CHANGED_CAPTURED)
        waiting = sessions.start(type(self.job.body).__module__)
        while not waiting.done() and self.done < self.total:
            self.advance_for(SAMPLE_SECONDS)
        if self.done == self.total or self.left <= MIN_PARALLEL_SECONDS / 5:
            return None
        try:
            session = waiting.result()
        except Exception as error:
            return Reason(Refusal.NO_WORKERS, str(error))
        try:
            payload = Payload.of(self.job.function, attributes_read(self.job.function))
            held = session.submit(put(session.runner, payload.table)).result()
        except Exception as error:
            return _unpicklable(error)
        self.keep()
        return self.in_workers(session, Piece(self.job.body, payload.digest, CallerSettings.current()), held)

    def in_workers(self, session: FunctionSession, piece: Piece, held: int) -> Reason | None:
        """Send pieces to workers and use their results in order; return why some calls are left to this process, or None."""
        in_flight: _PiecesInFlight = deque()
        sent = self.done
        by_bytes = self.weight(self.done, self.total)
        try:
            while self.done < self.total:
                while sent < self.total and _room(in_flight, session.workers):
                    stop = self.reach(sent, min(self.share(sent, session.workers, len(in_flight)), by_bytes))
                    if self.chunk is not None:
                        stop = min(sent + self.chunk, self.total)
                    try:
                        rows = self.job.rows(sent, stop)
                    except Exception as error:
                        if not in_flight:
                            return Reason(Refusal.FUNCTION_ROWS_NOT_PICKLED, f"{type(error).__name__}: {error}")
                        break
                    weight = self.weight(sent, stop)
                    by_bytes = max(MAX_PIECE_BYTES * weight / max(rows.nbytes, 1), 1.0)
                    in_flight.append(
                        (sent, stop, session.submit(one_piece(session.runner, piece, rows, held, self.name)))
                    )
                    sent = stop
                if not in_flight[0][2].done():
                    # Any finished piece makes room for another, so that no worker idles because of one slow piece.
                    wait([future for _, _, future in in_flight if not future.done()], return_when=FIRST_COMPLETED)
                    continue
                start, stop, future = in_flight.popleft()
                result, table = future.result()
                if result.refused is not None:
                    return result.refused
                replay_output(result.output)
                if result.failure is not None:
                    raise unpack_exception(result.failure)
                self.take(start, stop, result, table)
        finally:
            for _, _, future in in_flight:
                future.cancel()
            session.release(held)
        return None

    def share(self, start: int, workers: int, in_flight: int) -> float:
        """Return the cost of the next piece (guided self-scheduling): smaller at the beginning and at the end.

        The first pieces are small, so that all workers start soon. Later, each piece is an equal share of half of the remaining
        calls, within the limits of :data:`PIECE_SECONDS`.
        """
        least, most = PIECE_SECONDS
        left = self.weight(start, self.total)
        expected = self.rate * left
        if not expected:
            return left / workers
        wanted = expected / (2 * workers) if in_flight >= workers else least
        return left / math.ceil(expected / min(max(wanted, least), most))

    def take(self, start: int, stop: int, result: PieceResult, table: pa.Table | None) -> None:
        """Keep the results of a piece."""
        values = self.job.unpack(table)
        if len(values) != stop - start:
            raise RuntimeError(f"a piece of {self.name} has {len(values)} results for {stop - start} calls")
        self.results.chunks.append(values)
        self.results.pieces += 1
        if result.value is not None:
            self.results.values.append(result.value)
        self.rate = 0.5 * self.rate + 0.5 * result.seconds / max(self.weight(start, stop), 1e-9)
        self.done = stop


def _room(in_flight: _PiecesInFlight, workers: int) -> bool:
    """Return whether another piece may be sent."""
    if len(in_flight) >= _UNUSED_PIECES * workers:
        return False
    return sum(not future.done() for _, _, future in in_flight) < _UNFINISHED_PIECES * workers


def _general_refusal() -> Reason | None:
    """Return why functions in this thread are not run in workers now, or None."""
    if not options.parallel_functions:
        return Reason(Refusal.FUNCTIONS_NOT_PARALLEL)
    if sessions.inside_worker():
        return Reason(Refusal.FUNCTION_IN_WORKER)
    if multiprocessing.parent_process() is not None:
        return Reason(Refusal.FUNCTION_IN_CHILD)
    if forks.kernel_lost():
        return Reason(Refusal.FORKED)
    changed = [name for name, value in changed_options() if not name.startswith("display.") or callable(value)]
    changed += [
        f"numpy's {name}" for name in ("formatter", "override_repr") if np.get_printoptions().get(name) is not None
    ]
    return Reason(Refusal.FUNCTION_OPTIONS, ", ".join(changed)) if changed else None


def _unpicklable(error: Exception) -> Reason:
    return Reason(Refusal.FUNCTION_NOT_PICKLED, f"{type(error).__name__}: {error}")


async def put(runner: Runner, table: pa.Table) -> int:
    """Store a table for workers to read; return its key."""
    return (await runner.put(table)).key


async def one_piece(
    runner: Runner, piece: Piece, rows: pa.Table, function: int, name: str
) -> tuple[PieceResult, pa.Table | None]:
    """Run one piece, and release its rows and its output."""
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
