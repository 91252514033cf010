"""The jobs of a run: reading sources, calling steps and checks, joining partitions, and writing tables that are to be kept."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from craton.locks import KeyedLocks
from craton.pipeline.manager import Request
from craton.pipeline.runs.cache import Remembered, StepCache
from craton.pipeline.runs.checking import CheckFunction, check_message
from craton.pipeline.runs.imports import Unknown
from craton.pipeline.runs.pickling import pickled_by_value
from craton.pipeline.runs.publishing import publish
from craton.pipeline.runs.records import Record
from craton.pipeline.runs.scheduling import Job
from craton.pipeline.runs.tables import InputPages, Table, TableRequest, divided, joined, part_of
from craton.pipeline.steps.definition import ExpectOptions, StepOptions
from craton.pipeline.steps.functions import Step
from craton.pipeline.steps.graph import StepGraph
from craton.pipeline.tasks import Form, Outcome, StepError, StepRunner, StepTask, Stored
from craton.store.store import Store

__all__ = ["Execution"]

#: Locks of steps that run, by the key of their results: another pipeline that needs the same result waits for it.
_running = KeyedLocks()


@dataclass(eq=False)
class Execution:
    """One run of a pipeline.

    Parameters
    ----------
    pipeline
        The pipeline's name.
    graph, store, runner
        Its graph; the store and the processes that it uses.
    parameters
        The arguments of each step.
    keys
        For steps whose results are kept: a hash of what they are made from.
    priority
        Added to the priorities of the steps.
    again
        Steps that run even if their results are kept.
    """

    pipeline: str
    graph: StepGraph
    store: Store
    runner: StepRunner
    parameters: Mapping[str, Mapping[str, Any]]
    keys: Mapping[str, bytes]
    priority: int = 0
    again: frozenset[str] = frozenset()
    depths: dict[str, int] = field(default_factory=dict)
    tables: dict[tuple[str, str | None], Table] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    _read: dict[TableRequest, Table] = field(default_factory=dict)
    _uses: Counter[TableRequest] = field(default_factory=Counter)
    _labels: dict[TableRequest, str] = field(default_factory=dict)
    _calls: dict[str, list[Stored]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for name in self.graph.steps:
            self.depths[name] = max((self.depths.get(other, 0) + 1 for other in self.graph.before(name)), default=0)

    # ---- the jobs ----

    def jobs(self, names: Iterable[str]) -> list[Job]:
        """The jobs of steps and checks that have to run; tables of other steps are there."""
        made: dict[str, Job] = {}
        for name in names:
            step = self.graph.steps[name]
            needs = {gate for gate in self.graph.gates.get(name, ()) if gate in names}
            for parameter in step.inputs:
                request, where = self.request(step, parameter)
                self._uses[request] += 1
                if request.name in self.graph.sources:
                    job = self._reading(request, where)
                    made.setdefault(job.name, job)
                    needs.add(job.name)
                elif request.name in names:
                    needs.add(request.name)
            for job in self._jobs_of(step, needs):
                made[job.name] = job
        for name in {*names, *(name for name, _ in self.tables)}:
            made |= {job.name: job for job in self._publishing(self.graph.steps[name], set(made))}
        return list(made.values())

    def request(self, step: Step, parameter: str) -> tuple[TableRequest, Any]:
        """What a parameter of a step takes, and the condition on its rows."""
        given = step.inputs[parameter]
        options = step.options
        by_part = isinstance(options, StepOptions) and options.map_over == parameter and options.partitions is None
        request = TableRequest.of(
            self.graph.producer(str(given.of)), given, self._asked_form(step, parameter), by_part=by_part
        )
        return request, given.where

    def _asked_form(self, step: Step, parameter: str) -> Form | None:
        """The form that a parameter asks for, or that of its source; None for that of the step that makes its table."""
        form = step.forms.get(parameter)
        name, _ = self.graph.producer(str(step.inputs[parameter].of))
        return form or (self.graph.sources[name].form if name in self.graph.sources else None)

    def _jobs_of(self, step: Step, needs: set[str]) -> list[Job]:
        options = step.options
        if isinstance(options, ExpectOptions):
            return [Job(step.name, step.name, needs, partial(self._check, step, options), partial(self._demand, step))]
        if options.map_over is None:
            return [Job(step.name, step.name, needs, partial(self._whole_step, step), partial(self._demand, step))]
        first = f"{step.name}: partitions"
        return [
            Job(first, step.name, needs, partial(self._partitions, step, options), last=step.name),
            Job(step.name, step.name, {*needs, first}, partial(self._join, step)),
        ]

    def _demand(self, step: Step, part: Stored | None = None) -> Request:
        """What a step needs to run; `part` if it is called for a partition."""
        limits, options = step.options.limits, step.options
        own = options.priority if isinstance(options, StepOptions) else 0
        mapped = options.map_over if isinstance(options, StepOptions) else None
        return Request(
            self.pipeline,
            step.name,
            f"{step.name} at {step.place}",
            sum(
                part.nbytes if part is not None and one == mapped else self._input_bytes(step, one)
                for one in step.inputs
            ),
            limits.memory,
            limits.cpus or 1,
            self.depths.get(step.name, 0),
            self.priority + own,
            InputPages(
                [
                    stored.pages
                    for one in step.inputs
                    if (stored := part if part is not None and one == mapped else self._known_input(step, one))
                    is not None
                ]
            ),
        )

    def _known_input(self, step: Step, parameter: str) -> Stored | None:
        """The table that a parameter takes, or all of the table that it takes a part of."""
        request, _ = self.request(step, parameter)
        with self._lock:
            found = self._read.get(request) or self.tables.get((request.name, request.output))
        return None if found is None else found.stored

    def _input_bytes(self, step: Step, parameter: str) -> int:
        found = self._known_input(step, parameter)
        return 0 if found is None else found.nbytes

    def record(self, name: str, kind: str) -> Record:
        """The record of a part of the run."""
        with self._lock:
            return self.records.setdefault(name, Record(name, kind))

    def ordered_records(self) -> dict[str, Record]:
        """The records: of sources as the steps name them, then of steps in their order."""
        order = {name: place for place, name in enumerate([*self._labels.values(), *self.graph.steps])}
        return dict(sorted(self.records.items(), key=lambda one: order.get(one[0], len(order))))

    # ---- sources ----

    def _reading(self, request: TableRequest, where: Any) -> Job:
        source = self.graph.sources[request.name]
        label = self._labels.setdefault(request, request.label())
        if list(self._labels.values()).count(label) > 1:  # another part of the source with the same text
            label = self._labels[request] = f"{label} #{len(self._labels)}"
        name = f"read {label}"
        key = f"{label} at {source.place}"
        demand = Request(self.pipeline, request.name, key, memory=source.memory() or None, priority=self.priority)
        return Job(name, label, set(), partial(self._load, request, where), lambda: demand)

    def _load(self, request: TableRequest, where: Any, job: Job) -> None:
        source = self.graph.sources[request.name]
        record = self.record(self._labels[request], "source")
        try:
            parts = []
            for one in source.partitions() if request.by_part else [source]:
                loaded = one.load(self.store, request.columns, where, request.index)
                parts.append(Stored(loaded.pages, loaded.form, loaded.rows, loaded.nbytes))
                record.rows += loaded.rows
                record.nbytes += loaded.nbytes
                record.new += loaded.new
                record.copied += loaded.copied
                record.shared += loaded.shared
        except Exception as error:
            text = error.args[0] if isinstance(error, KeyError) and error.args else error
            raise StepError(
                request.name, "environment", f"the source at {source.place} cannot be read: {text}"
            ) from error
        table = Table(parts[0], tuple(parts) if request.by_part else None)
        with self._lock:
            self._read[request] = table

    # ---- steps ----

    def _whole_step(self, step: Step, job: Job) -> None:
        key = self.keys.get(step.name)
        record = self.record(step.name, step.kind)
        if key is None:
            self._finish(step, self._call(step, self._inputs(step), record, job))
            self._release_inputs(step)
            return
        with _running.hold((step.name, key)):
            # another pipeline may have made it meanwhile
            found = None if step.name in self.again else StepCache(self.store).find(step.name, key)
            if found is not None:
                record.state = "cached"
                self.have(step.name, found)
            else:
                self._finish(step, self._call(step, self._inputs(step), record, job))
        self._release_inputs(step)

    def _release_inputs(self, step: Step) -> None:
        """Drop the parts of tables that were read for a step, if no other step takes them."""
        with self._lock:
            for parameter in step.inputs:
                request, _ = self.request(step, parameter)
                self._uses[request] -= 1
                if self._uses[request] <= 0:
                    self._read.pop(request, None)

    def _inputs(self, step: Step, instead: tuple[str, Stored] | None = None) -> dict[str, tuple[Stored, Form]]:
        """The tables that a step takes, with `instead` in place of one of them."""
        made: dict[str, tuple[Stored, Form]] = {}
        for parameter in step.inputs:
            stored = (
                instead[1] if instead is not None and parameter == instead[0] else self._taken(step, parameter).stored
            )
            made[parameter] = (stored, step.forms.get(parameter) or stored.form)
        return made

    def _taken(self, step: Step, parameter: str) -> Table:
        """The table that a parameter takes: its columns and rows."""
        request, where = self.request(step, parameter)
        with self._lock:
            found = self._read.get(request)
        if found is not None:
            return found
        table = self.table(step, request)
        if request.by_part and table.parts is not None:
            parts = tuple(part_of(self.store, part, request, where) for part in table.parts)
            found = Table(parts[0], parts)
        else:
            found = Table(part_of(self.store, table.stored, request, where))
        with self._lock:
            return self._read.setdefault(request, found)

    def table(self, step: Step, request: TableRequest) -> Table:
        """The table of a step that has run.

        Raises
        ------
        StepError
            If that step did not make it.
        """
        found = self.tables.get((request.name, request.output))
        if found is None:
            there = sorted(str(output) for name, output in self.tables if name == request.name and output is not None)
            asked = "one table" if request.output is None else f"a table {request.output!r}"
            raise StepError(
                step.name,
                "environment",
                f"it takes {asked} of {request.name!r}, which made {', '.join(there) or 'one table'}",
            )
        return found

    def _call(self, step: Step, inputs: Mapping[str, tuple[Stored, Form]], record: Record, job: Job) -> Remembered:
        """Call a step's function, again if it fails and may be retried."""
        options = step.options
        assert isinstance(options, StepOptions)
        function = _pickled(step, step.function)
        parameters = self.parameters[step.name]
        task = StepTask(step.name, function, inputs, parameters, options.limits, options.setting, job.taking)
        for attempt in range(options.retries + 1):
            with self._lock:
                record.attempts += 1
            try:
                outcome = self.runner.run(task)
            except StepError as error:
                record.printed += error.printed
                if attempt == options.retries:
                    raise
                continue
            with self._lock:
                record.add(outcome)
            job.peak, job.output = outcome.peak_memory, sum(one.nbytes for one in outcome.outputs.values())
            self._check_outputs(step, options, outcome)
            return outcome.outputs
        raise AssertionError("unreachable")

    def _check_outputs(self, step: Step, options: StepOptions, outcome: Outcome) -> None:
        """Raise if a step did not return the tables or the columns that it declares."""
        names = tuple(sorted(str(name) for name in outcome.outputs if name is not None))
        if options.outputs and sorted(options.outputs) != list(names):
            made = f"tables {', '.join(names)}" if names else "one table"
            raise StepError(step.name, "output", f"returned {made}; outputs= declares {', '.join(options.outputs)}")
        if not outcome.outputs:
            raise StepError(step.name, "output", "returned a dict without tables")
        if None in outcome.outputs and options.schema is not None:
            schema = outcome.outputs[None].pages.to_arrow().schema
            found = {field.name: str(field.type) for field in schema}
            for column, kind in options.schema:
                if found.get(column) != kind:
                    text = f"is {found[column]}" if column in found else f"is missing (there are {', '.join(found)})"
                    raise StepError(step.name, "output", f"the column {column!r} {text}; schema= promises {kind}")

    def _finish(self, step: Step, outputs: Remembered) -> None:
        """Remember the tables of a step."""
        self.have(step.name, outputs)
        key = self.keys.get(step.name)
        if key is not None:
            StepCache(self.store).keep(step.name, key, outputs)

    def have(self, name: str, outputs: Remembered) -> None:
        """Set the tables of a step."""
        record = self.record(name, "step")
        record.rows = sum(one.rows for one in outputs.values())
        record.nbytes = sum(one.nbytes for one in outputs.values())
        with self._lock:
            self.tables |= {(name, output): Table(one) for output, one in outputs.items()}

    # ---- partitions ----

    def _partitions(self, step: Step, options: StepOptions, _job: Job) -> list[Job]:
        parameter = str(options.map_over)
        self.record(step.name, step.kind)
        parts = divided(self.store, self._taken(step, parameter), options.partitions)
        self._calls[step.name] = made = list(parts)  # replaced by the results
        return [self._mapped(step, parameter, number, part, made) for number, part in enumerate(parts)]

    def _mapped(self, step: Step, parameter: str, number: int, part: Stored, made: list[Stored]) -> Job:
        def work(job: Job) -> None:
            outputs = self._call(step, self._inputs(step, (parameter, part)), self.record(step.name, step.kind), job)
            if None not in outputs:
                raise StepError(step.name, "output", "returned a dict of tables for a partition; return one table")
            made[number] = outputs[None]

        return Job(f"{step.name}[{number}]", step.name, set(), work, partial(self._demand, step, part))

    def _join(self, step: Step, _job: Job) -> None:
        parts = self._calls.pop(step.name)
        try:
            whole = joined(self.store, parts)
        except ValueError as error:
            raise StepError(step.name, "output", str(error)) from None
        self._finish(step, {None: whole})
        self._release_inputs(step)
        with self._lock:
            self.tables[step.name, None] = Table(whole, tuple(parts))

    # ---- checks, and what is kept ----

    def _check(self, step: Step, options: ExpectOptions, job: Job) -> None:
        record = self.record(step.name, "check")
        function = _pickled(step, CheckFunction(step.function))
        inputs = self._inputs(step)
        outcome = self.runner.run(
            StepTask(step.name, function, inputs, self.parameters[step.name], options.limits, options.setting)
        )
        record.add(outcome)
        record.attempts, record.new, record.copied, job.peak = 1, 0, 0, outcome.peak_memory
        self._release_inputs(step)
        message = check_message(outcome)
        if message is None:
            return
        text = f"{step.place}: check {step.name!r} failed{message and ': ' + message}"
        if options.action == "warn":
            record.state, record.reason = "warned", message
            self.warnings.append((step.name, text))
            return
        raise StepError(step.name, "raised", text)

    def _publishing(self, step: Step, jobs: set[str]) -> list[Job]:
        """The job that keeps a step's table as it asks, after the checks that read it."""
        options = step.options
        if not isinstance(options, StepOptions) or (options.persist is None and options.to_parquet is None):
            return []
        needs = {step.name} if step.name in jobs else set()
        for check in self.graph.steps.values():
            stops = isinstance(check.options, ExpectOptions) and check.options.action == "stop"
            if (
                stops
                and check.name in jobs
                and step.name in {self.graph.producer(str(one.of))[0] for one in check.inputs.values()}
            ):
                needs.add(check.name)
        file = None if options.to_parquet is None else os.path.expanduser(options.to_parquet)

        def work(_job: Job) -> None:
            stored = self.tables[step.name, None].stored
            publish(self.store, step.name, stored, set_name=options.persist, file=file, key=self.keys.get(step.name))

        return [Job(f"{step.name}: publish", step.name, needs, work)]


def _pickled(step: Step, function: Callable[..., Any]) -> bytes:
    """A function for the process that calls it."""
    try:
        return pickled_by_value(function)
    except Unknown as error:
        raise StepError(step.name, "environment", str(error)) from error
