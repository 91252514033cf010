"""Runs the functions of steps in this process: for debuggers and tests, without limits and without protection from their errors."""

from __future__ import annotations

import time
import traceback
from typing import Any

import cloudpickle

from craton import _native
from craton.pipeline.conversion import given, outputs_of
from craton.pipeline.returned import NotATable, Returned
from craton.pipeline.tasks import Outcome, StepError, StepTask, Stored
from craton.store.store import Store

__all__ = ["InProcess"]


class InProcess:
    """A :class:`~craton.pipeline.tasks.StepRunner` that calls functions in this process.

    Parameters
    ----------
    store
        The store that gets the tables.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, task: StepTask) -> Outcome:
        """See :meth:`craton.pipeline.tasks.StepRunner.run`."""
        if task.setting.packages:
            raise StepError(
                task.step, "environment", "a step that runs in this process cannot have packages of its own"
            )
        function = cloudpickle.loads(task.function)
        inputs = {name: given(one.pages.to_arrow(), one.form, form) for name, (one, form) in task.inputs.items()}
        started, cpu = time.perf_counter(), time.thread_time()
        try:
            made = function(**inputs, **task.parameters)
            returned = outputs_of(made)
            counts = {"copied": 0, "shared": 0}
            with task.taking():
                outputs = {name: self._keep(one, counts) for name, one in returned.items()}
        except NotATable as error:
            raise StepError(task.step, "output", str(error)) from error
        except Exception as error:
            text = "".join(traceback.format_exception(type(error), error, _users(error)))
            raise StepError(task.step, "raised", f"{type(error).__name__}: {error}", text) from error
        seconds, cpu = time.perf_counter() - started, time.thread_time() - cpu
        return Outcome(outputs, counts["copied"], counts["copied"], counts["shared"], seconds, cpu, 0)

    def _keep(self, output: Returned, counts: dict[str, int]) -> Stored:
        """Put a table into the store, and count the bytes that were copied and those that are the store's."""
        pages = self._store.create_set()
        nbytes = 0
        for table in output.tables:
            nbytes += sum(info.nbytes for info in pages.append(table))
            for batch in _native.encode_batches(table):
                for _, length, place in batch.buffers():
                    counts["copied" if place is None else "shared"] += length
        return Stored(pages, output.form, output.rows, nbytes)

    def close(self) -> None:
        """Nothing runs."""


def _users(error: Exception) -> Any:
    """The traceback from the first frame that is not of this module."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename == __file__ and found.tb_next is not None:
        found = found.tb_next
    return found
