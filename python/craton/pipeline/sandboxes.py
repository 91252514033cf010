"""Runs the functions of steps, each in a process of its own, and puts what they return into a store."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType

import cloudpickle

from craton.fork_server.starting import module_path
from craton.pipeline.calls import Call, Ending
from craton.pipeline.environments import InstallationFailed
from craton.pipeline.tasks import Outcome, Setting, StepError, StepTask, Stored
from craton.pipeline.worker import Order
from craton.pipeline.zygotes import Zygote, ZygoteEnded, variables_of
from craton.store.store import Store

__all__ = ["Sandboxes"]

#: Settings whose zygotes are kept.
_KEPT_ZYGOTES = 8


class SandboxesClosed(Exception):
    """The sandboxes were closed."""


class Sandboxes:
    """Runs tasks in processes of their own; a :class:`craton.pipeline.tasks.StepRunner`.

    A process is forked from one that has imported pandas, Polars, pyarrow and Craton, reads its inputs from the store without a copy, and
    hands its output over to the store without a copy, as far as it lies in memory that can be shared.

    Parameters
    ----------
    store
        Where inputs are and outputs go. One in another process cannot take memory over, so outputs are copied there.
    size
        The most processes at once; by default as many as there are calls.
    holds_store
        Whether the store lives as long as these do; else they can no longer be used when all other references to it are gone.

    Raises
    ------
    OSError
        If the system is not Linux.

    Examples
    --------
    >>> import cloudpickle, pyarrow as pa
    >>> from craton.store import Store
    >>> from craton.pipeline.sandboxes import Sandboxes
    >>> from craton.pipeline.tasks import StepTask
    >>> def numbers(count):
    ...     return pa.table({"n": range(count)})
    >>> with Store.open(1 << 28) as store, Sandboxes(store) as sandboxes:
    ...     outcome = sandboxes.run(StepTask("numbers", cloudpickle.dumps(numbers), {}, {"count": 3}))
    ...     outcome.outputs[None].pages.to_arrow()["n"].to_pylist()
    [0, 1, 2]
    """

    def __init__(self, store: Store, size: int | None = None, *, holds_store: bool = True) -> None:
        if not hasattr(os, "pidfd_open"):
            raise OSError("the functions of pipelines run in processes of their own on Linux only")
        if size is not None and size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self._store: Callable[[], Store | None] = (lambda: store) if holds_store else weakref.ref(store)
        self._slots = None if size is None else threading.BoundedSemaphore(size)
        self._changed = threading.Condition()
        self._zygotes: OrderedDict[Setting, Zygote] = OrderedDict()
        self._starting: set[Setting] = set()
        self._calls: set[Call] = set()
        self._closed = False
        self._processors = _Processors()

    def warm(self, setting: Setting = Setting()) -> None:  # noqa: B008 -- immutable
        """Start the process that those of this setting are forked from, so that the first task does not wait for it.

        Raises
        ------
        craton.pipeline.environments.InstallationFailed
            If the setting's packages do not install.
        SandboxesClosed
            If they were closed.
        """
        self._zygote(setting)

    def forget(self, setting: Setting) -> None:
        """End the process that those of this setting are forked from, if there is one; the next task of the setting starts another."""
        with self._changed:
            self._changed.wait_for(lambda: setting not in self._starting)
            found = self._zygotes.pop(setting, None)
        if found is not None:
            found.close()

    def run(self, task: StepTask) -> Outcome:
        """Run a task to its end, and return what it made.

        Raises
        ------
        StepError
            If it failed. The store has nothing of it then.
        """
        if self._slots is None:
            return self._run(task)
        with self._slots:
            return self._run(task)

    def _run(self, task: StepTask) -> Outcome:
        cpus = self._processors.take(task.limits.cpus)
        try:
            store = self._store()
            if store is None:
                raise SandboxesClosed("the store is closed")
            order = self._order(task, store, cpus)
            said = ""
            for _ in range(3):
                zygote = self._zygote_for(task)
                try:
                    call, ending = self._call(task, order, store, zygote)
                except ZygoteEnded as error:
                    said = str(error)
                else:
                    if ending.begun:
                        return self._outcome(task, call, ending)
                    said = zygote.explanation()
                self._replace(task.setting, zygote)  # it ended before it forked the process, so nothing has run
            raise StepError(task.step, "environment", said)
        except SandboxesClosed as error:
            raise StepError(task.step, "ended", str(error)) from error
        finally:
            self._processors.give_back(cpus)

    def _call(self, task: StepTask, order: Order, store: Store, zygote: Zygote) -> tuple[Call, Ending]:
        process = zygote.start()
        call = Call(task, process)
        try:
            with self._changed:
                if self._closed:
                    raise SandboxesClosed("the sandboxes are closed")
                self._calls.add(call)
            return call, call.run(order, store)
        finally:
            call.close()
            with self._changed:
                self._calls.discard(call)
                self._changed.notify_all()

    def _order(self, task: StepTask, store: Store, cpus: tuple[int, ...] | None) -> Order:
        try:
            parameters = cloudpickle.dumps(dict(task.parameters), 5)
        except Exception as error:
            raise StepError(task.step, "environment", f"its parameters cannot be pickled: {error}") from error
        return Order(
            store.address or store.serve(),
            task.function,
            parameters,
            {name: (stored.pages.number, stored.form, form) for name, (stored, form) in task.inputs.items()},
            task.limits,
            cpus,
            variables_of(task.setting),
            tuple(module_path()),
            os.getcwd(),
            not store.connected,
        )

    def _zygote_for(self, task: StepTask) -> Zygote:
        try:
            return self._zygote(task.setting)
        except InstallationFailed as error:
            raise StepError(task.step, "environment", str(error)) from error

    def _replace(self, setting: Setting, ended: Zygote) -> None:
        with self._changed:
            if self._zygotes.get(setting) is ended:
                del self._zygotes[setting]
        ended.close()

    def _zygote(self, setting: Setting) -> Zygote:
        with self._changed:
            self._changed.wait_for(lambda: setting not in self._starting)
            if self._closed:
                raise SandboxesClosed("the sandboxes are closed")
            if found := self._zygotes.get(setting):
                self._zygotes.move_to_end(setting)
                return found
            self._starting.add(setting)
        made: Zygote | None = None
        idle: list[Zygote] = []
        try:
            made = Zygote(setting)
        finally:
            with self._changed:
                self._starting.discard(setting)
                if made is not None:
                    self._zygotes[setting] = made
                    while len(self._zygotes) > _KEPT_ZYGOTES:
                        idle.append(self._zygotes.popitem(last=False)[1])
                self._changed.notify_all()
        for one in idle:
            one.close()
        return made

    def _outcome(self, task: StepTask, call: Call, ending: Ending) -> Outcome:
        if self._closed and not ending.done:
            raise StepError(task.step, "ended", "the sandboxes were closed while it ran", "", ending.printed)
        if ending.failure is not None:
            cause, message, traceback = ending.failure
            raise StepError(task.step, cause, message, traceback, ending.printed)
        outputs = {
            name: Stored(pages, form, rows, sum(info.nbytes for info in pages.pages()))
            for name, (form, rows, pages) in ending.outputs.items()
        }
        return Outcome(
            outputs,
            *ending.counts,
            ending.seconds,
            ending.cpu_seconds,
            ending.peak_memory,
            ending.printed,
        )

    def close(self) -> None:
        """End all processes. Tasks that run fail."""
        with self._changed:
            self._closed = True
            for call in self._calls:
                call.kill()
            self._changed.wait_for(lambda: not self._calls and not self._starting)
            zygotes = list(self._zygotes.values())
            self._zygotes.clear()
        for zygote in zygotes:
            zygote.close()

    def __enter__(self) -> Sandboxes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sandboxes of {self._store()!r}, {len(self._calls)} running>"


class _Processors:
    """Gives tasks that are limited to some processors those that the fewest others have."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = dict.fromkeys(sorted(os.sched_getaffinity(0)), 0)

    def take(self, count: int | None) -> tuple[int, ...] | None:
        if count is None:
            return None
        with self._lock:
            taken = sorted(self._users, key=lambda one: self._users[one])[: max(count, 1)]
            for one in taken:
                self._users[one] += 1
            return tuple(taken)

    def give_back(self, taken: tuple[int, ...] | None) -> None:
        with self._lock:
            for one in taken or ():
                self._users[one] -= 1
