"""A piece of a job: the task that calls a function for some of the items in a worker, and its result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from craton.cluster.worker_tasks import Cancelled
from craton.refusals import Reason, Refusal
from craton.remote.captured import State
from craton.remote.functions import CallerSettings, UserFunction, call_lock, forget_function, load_function
from craton.remote.session import running_piece
from craton.remote.side_output import SideOutput, pack_exception, record_output
from craton.schedule.tasks import Input, Sink

__all__ = ["Body", "Piece", "PieceResult"]


#: Exceptions that a function may raise in a worker because something of the program is missing there: the program repeats the calls.
_OF_THE_PROGRAM = (AttributeError, NameError, KeyError, ImportError, RecursionError)


class Body(Protocol):
    """Makes the calls of a piece and packs their results. It is pickled to workers."""

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> Any:
        """Call the function for each item in `rows`, in order, and append the results; return a small value or None.

        Exceptions of the function propagate; `results` then has those of the calls before.
        """

    def pack(self, results: list[Any]) -> pa.Table:
        """Return the results as a table."""


@dataclass(slots=True)
class PieceResult:
    """The result of a piece, apart from the calls' results.

    Attributes
    ----------
    seconds
        How long its calls took.
    output
        The text that the function printed, and its warnings.
    value
        The value that the body returned.
    refused
        Why the results cannot be used, so that the program makes these calls itself; else None.
    failure
        The exception that a call raised, packed; else None.
    """

    seconds: float
    output: SideOutput = field(default_factory=SideOutput)
    value: Any = None
    refused: Reason | None = None
    failure: bytes | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """The work of a task whose inputs are the rows and the pickled function.

    Parameters
    ----------
    body
        Makes the calls.
    digest
        The identifier of the function's payload.
    settings
        The program's settings, which apply to the calls.
    watched
        Whether the function's state is compared before and after the piece.
    """

    body: Body
    digest: bytes
    settings: CallerSettings
    watched: bool = True

    def run(self, inputs: Sequence[Input], sink: Sink) -> PieceResult:
        """Make the calls of the piece; see :meth:`craton.schedule.tasks.Work.run`."""
        self.settings.extend_path()
        if not self.watched:
            return self._run(inputs, sink)
        with call_lock(self.digest):
            result = self._run(inputs, sink)
            if result.refused is not None:
                forget_function(self.digest)
            return result

    def _run(self, inputs: Sequence[Input], sink: Sink) -> PieceResult:
        try:
            function = load_function(self.digest, inputs[1].table)
        except Exception as error:
            # Pickle refers by name to what the program's main module defines, such as a function with a cache.
            return PieceResult(0.0, refused=Reason(Refusal.FUNCTION_NOT_PICKLED, f"{type(error).__name__}: {error}"))
        rows = inputs[0].table()
        results: list[Any] = []
        before = State(function).digest() if self.watched else b""
        filters = self.settings.warning_filters()
        float_errors: Any = dict(self.settings.float_errors)
        failed: BaseException | None = None
        value = None
        with (
            running_piece(),
            record_output(filters) as output,
            np.errstate(**float_errors),
            self.settings.formats(),
            self.settings.decimal_context(),
        ):
            started = time.perf_counter()
            try:
                value = self.body.call(function, rows, results)
            except Cancelled:
                raise
            except BaseException as error:
                failed = error
            seconds = time.perf_counter() - started
        result = PieceResult(seconds, output, value)
        try:
            if self.watched and State(function).digest() != before:
                result.refused = Reason(Refusal.FUNCTION_CHANGED_CAPTURED)
        except Exception as error:
            result.refused = Reason(Refusal.FUNCTION_CAPTURED_NOT_PICKLED, str(error))
        if self.watched and isinstance(failed, _OF_THE_PROGRAM) and result.refused is None:
            # The program may have set the attribute on a library's class: a pandas accessor, a method, a mock in a test.
            result.refused = Reason(Refusal.FUNCTION_MISSES_ATTRIBUTE, str(failed))
        if failed is not None:
            # After the state was compared: pickling the exception may recreate its class.
            result.failure = pack_exception(failed)
        elif result.refused is None:
            try:
                table = self.body.pack(results)
            except Exception as error:
                result.refused = Reason(Refusal.FUNCTION_RESULTS_NOT_PICKLED, f"{type(error).__name__}: {error}")
            else:
                sink.write(0, table)
        return result
