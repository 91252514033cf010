"""A piece of a job: what a worker does with some of the rows, and what it tells of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from craton.cluster.jobs import Cancelled
from craton.refusals import Reason, Refusal
from craton.remote.captured import State
from craton.remote.functions import Function, Surroundings, forget, loaded, turn
from craton.remote.session import serving
from craton.remote.surfaces import Said, failure_of, heard
from craton.schedule.tasks import Input, Sink

__all__ = ["Body", "Piece", "PieceResult"]


class Body(Protocol):
    """What is done with the rows of a piece. Pickled to workers."""

    def call(self, function: Function, rows: pa.Table, results: list[Any]) -> Any:
        """Call the function for each of the rows, in order, and append what it returns; return a small value or None.

        What the function raises is let through: there are as many results then as calls that returned.
        """

    def pack(self, results: list[Any]) -> pa.Table:
        """The results as a table."""


@dataclass(slots=True)
class PieceResult:
    """What became of a piece.

    Attributes
    ----------
    seconds
        How long its calls took.
    said
        What the function printed and warned of.
    value
        What the body returned.
    refused
        Why the results cannot be used, and the rows are to be run by the program itself; else None.
    failure
        The exception that a call raised; else None.
    """

    seconds: float
    said: Said = field(default_factory=Said)
    value: Any = None
    refused: Reason | None = None
    failure: bytes | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """The work of a task. Its inputs are the rows, and the pickled function.

    Parameters
    ----------
    body
        What is done.
    digest
        Of the function's payload.
    surroundings
        What the function may ask for.
    watched
        Whether the function's state is compared after the piece.
    """

    body: Body
    digest: bytes
    surroundings: Surroundings
    watched: bool = True

    def run(self, inputs: Sequence[Input], sink: Sink) -> PieceResult:
        """Call the function for each row."""
        self.surroundings.complete_path()
        if not self.watched:
            return self._run(inputs, sink)
        with turn(self.digest):
            told = self._run(inputs, sink)
            if told.refused is not None:
                forget(self.digest)
            return told

    def _run(self, inputs: Sequence[Input], sink: Sink) -> PieceResult:
        function = loaded(self.digest, inputs[1].table)
        rows = inputs[0].table()
        results: list[Any] = []
        before = State(function).digest() if self.watched else b""
        filters = self.surroundings.warning_filters()
        floating: Any = dict(self.surroundings.floating)
        failed: BaseException | None = None
        value = None
        with serving(), heard(filters) as said, np.errstate(**floating), self.surroundings.arithmetic():
            started = time.perf_counter()
            try:
                value = self.body.call(function, rows, results)
            except Cancelled:
                raise
            except BaseException as error:
                failed = error
            seconds = time.perf_counter() - started
        told = PieceResult(seconds, said, value)
        try:
            if self.watched and State(function).digest() != before:
                told.refused = Reason(Refusal.FUNCTION_CHANGED_CAPTURED)
        except Exception as error:
            told.refused = Reason(Refusal.FUNCTION_CAPTURED_NOT_PICKLED, str(error))
        if self.watched and isinstance(failed, AttributeError) and told.refused is None:
            # The program may have set it on a class of a library: a method or an accessor of pandas', a substitute in a test.
            told.refused = Reason(Refusal.FUNCTION_MISSES_ATTRIBUTE, str(failed))
        if failed is not None:
            # Not before the state was looked at: pickling the exception may make its class anew.
            told.failure = failure_of(failed)
        elif told.refused is None:
            try:
                table = self.body.pack(results)
            except Exception as error:
                told.refused = Reason(Refusal.FUNCTION_RESULTS_NOT_PICKLED, f"{type(error).__name__}: {error}")
            else:
                sink.write(0, table)
        return told
