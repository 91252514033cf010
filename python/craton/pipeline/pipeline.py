"""Pipelines: graphs of functions that take tables and return tables."""

from __future__ import annotations

import time
import warnings as python_warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from craton.pipeline.manager import Decision, Manager, TooLarge
from craton.pipeline.runs.cache import StepCache
from craton.pipeline.runs.execution import Execution
from craton.pipeline.runs.in_process import InProcess
from craton.pipeline.runs.keys import step_keys
from craton.pipeline.runs.managers import manager_of, unique_name
from craton.pipeline.runs.result import PipelineFailed, Result
from craton.pipeline.runs.runners import processes
from craton.pipeline.runs.scheduling import Ended, run_jobs
from craton.pipeline.steps.draw import Drawing, draw_graph
from craton.pipeline.steps.graph import InvalidPipeline, build_graph, check_parameters, did_you_mean
from craton.pipeline.tasks import StepError, StepRunner
from craton.store.process import default_store
from craton.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ExpectationWarning", "Pipeline"]


class ExpectationWarning(UserWarning):
    """A check failed that only warns."""


class Pipeline:
    """A graph of functions that take tables and return tables.

    It is checked when it is made: every name, parameter and column that can be known before anything runs.

    Parameters
    ----------
    parts : module, or list of functions, modules and sources
        The steps. Of a module all functions with ``@craton.step`` or ``@craton.expect`` and all sources.
    sources : mapping, optional
        More sources, by name. Tables in memory are sources, too.
    name : str, optional
        Its name, for messages.
    parameters : mapping, optional
        Values of parameters, for all runs.

    Raises
    ------
    InvalidPipeline
        If it cannot run, with the step's name and its line.

    Examples
    --------
    >>> import craton
    >>> import pyarrow as pa
    >>> @craton.step
    ... def large(orders: pa.Table, *, least: int = 10) -> pa.Table:
    ...     return orders.filter(pa.compute.field("price") >= least)
    >>> pipeline = craton.Pipeline([large], sources={"orders": pa.table({"price": [5, 10, 20]})})
    >>> pipeline.run(in_process=True)["large"]["price"].to_pylist()
    [10, 20]
    """

    def __init__(
        self,
        parts: Any,
        *,
        sources: Mapping[str, Any] | None = None,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self._graph = build_graph(parts, sources or {})
        problems = [
            f"{one.place}: source {key!r}: {text}"
            for key, one in self._graph.sources.items()
            for text in one.problems()
        ]
        if problems:
            raise InvalidPipeline(problems)
        self.name = str(name or getattr(parts, "__name__", "pipeline"))
        self._parameters = dict(parameters or {})

    @property
    def steps(self) -> list[str]:
        """The names of the steps and checks, each after those that it needs."""
        return list(self._graph.steps)

    @property
    def sources(self) -> list[str]:
        """The names of the sources."""
        return list(self._graph.sources)

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The names of the parameters, and the steps that have them."""
        return self._graph.parameters()

    def parameter_kind(self, name: str) -> type | None:
        """The class of a parameter, ``"name"`` or ``"step.name"``; None if it is unknown."""
        owner, _, parameter = name.rpartition(".")
        steps = [owner] if owner else self._graph.parameters().get(parameter, [])
        kinds = {self._graph.steps[one].kinds.get(parameter) for one in steps if one in self._graph.steps}
        return kinds.pop() if len(kinds) == 1 else None

    def run(
        self,
        *,
        only: str | Iterable[str] | None = None,
        start: str | Iterable[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        store: Store | None = None,
        runner: StepRunner | None = None,
        manager: Manager | None = None,
        in_process: bool = False,
        settings: RunSettings | None = None,
    ) -> Result:
        """Run the steps, as many at once as memory and processors allow.

        Parameters
        ----------
        only
            Run only these steps, and those that they need.
        start
            Run these steps and those that need them, even if nothing has changed.
        parameters
            Values of parameters: ``"name"`` for all steps that have it, ``"step.name"`` for one.
        store
            The store; by default that of this process.
        runner
            What calls the functions; by default processes of their own.
        manager
            Says when a step may start; by default one for all runs on the store.
        in_process
            Call the functions in this process, for debuggers.
        settings
            Further settings.

        Returns
        -------
        Result
            The tables.

        Raises
        ------
        PipelineFailed
            If a step failed. The steps that do not need it have run.
        InvalidPipeline
            If a step or a parameter is unknown.
        """
        settings = settings or RunSettings()
        store = default_store() if store is None else store
        arguments = check_parameters(self._graph, {**self._parameters, **(parameters or {})})
        wanted, again = self._selected(only, start)
        started = time.perf_counter()
        keys, reasons = step_keys(self._graph, arguments, store) if settings.cache else ({}, {})
        name = unique_name(self.name)
        with processes(store, in_process, runner) as calling:
            manager = manager or manager_of(store, getattr(calling, "cpus", None))
            execution = Execution(
                name, self._graph, store, calling, arguments, keys, settings.priority, frozenset(again)
            )
            names = self._to_run(execution, wanted, again, reasons)
            with manager.pipeline(name):
                ended = run_jobs(execution.jobs(names), manager, settings.report)
        decisions = [one for one in manager.decisions if one.pipeline == name]
        return self._result(execution, ended, time.perf_counter() - started, settings, decisions)

    def plan(
        self,
        *,
        only: str | Iterable[str] | None = None,
        start: str | Iterable[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        store: Store | None = None,
    ) -> pd.DataFrame:
        """What :meth:`run` would do: for each step whether it would run, what it needs, and why it would not be taken from the cache."""
        import pandas as pd

        store = default_store() if store is None else store
        arguments = check_parameters(self._graph, {**self._parameters, **(parameters or {})})
        wanted, again = self._selected(only, start)
        keys, reasons = step_keys(self._graph, arguments, store)
        execution = Execution(self.name, self._graph, store, InProcess(store), arguments, keys)
        names = self._to_run(execution, wanted, again, reasons)
        rows = []
        for name, step in self._graph.steps.items():
            if name in wanted:
                state = "run" if name in names else "cached"
                rows.append(
                    (
                        step.kind,
                        state,
                        ", ".join(sorted(self._graph.before(name))),
                        reasons.get(name, ""),
                        str(step.place),
                    )
                )
        index = pd.Index([name for name in self._graph.steps if name in wanted], name="step")
        return pd.DataFrame(rows, columns=["kind", "state", "needs", "not cached since", "place"], index=index)

    def draw(self, path: str | None = None) -> Drawing:
        """Draw the graph.

        Parameters
        ----------
        path
            A file to write, ``.svg`` or ``.png``; PNG needs the library cairosvg.

        Returns
        -------
        Drawing
            The drawing, which notebooks show.
        """
        return draw_graph(self._graph, path)

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}: {', '.join([*self.sources, *self.steps])}>"

    def _repr_html_(self) -> str:
        return self.draw().text

    # ---- what runs ----

    def _selected(
        self, only: str | Iterable[str] | None, start: str | Iterable[str] | None
    ) -> tuple[set[str], set[str]]:
        """The steps of a run, and those of them that run even if nothing has changed."""
        steps = set(self._graph.steps)
        wanted, again = steps, set()
        if only is not None:
            wanted = self._graph.ancestors(self._known(only)) & steps
            # a check of a step that runs, and that needs nothing else, runs, too
            wanted |= {
                name
                for name in steps
                if self._graph.steps[name].kind == "check"
                and self._graph.before(name) & steps
                and self._graph.before(name) & steps <= wanted
            }
        if start is not None:
            again = self._graph.descendants(self._known(start)) & wanted
            wanted = self._graph.ancestors(again) & steps
        return wanted, again

    def _known(self, names: str | Iterable[str]) -> list[str]:
        found = [names] if isinstance(names, str) else list(names)
        for name in found:
            if name not in self._graph.steps:
                raise InvalidPipeline(
                    [f"there is no step {name!r}{did_you_mean(name, self.steps)}; steps are {', '.join(self.steps)}"]
                )
        return found

    def _to_run(self, execution: Execution, wanted: set[str], again: set[str], reasons: Mapping[str, str]) -> list[str]:
        """The steps that have to run, in their order; the tables of the others are taken from the cache."""
        cache = StepCache(execution.store)
        names = []
        for name in self._graph.steps:
            if name not in wanted:
                continue
            step = self._graph.steps[name]
            key = execution.keys.get(name)
            found = None if key is None or name in again else cache.find(name, key)
            if found is None:
                names.append(name)
                execution.record(name, step.kind).reason = reasons.get(name, "")
            else:
                execution.record(name, step.kind).state = "cached"
                execution.have(name, found)
        return names

    def _result(
        self,
        execution: Execution,
        ended: Mapping[str, Ended],
        seconds: float,
        settings: RunSettings,
        decisions: list[Decision],
    ) -> Result:
        errors = _record_ends(execution, ended)
        texts = [text for _, text in execution.warnings]
        result = Result(self._graph, execution.tables, execution.ordered_records(), seconds, texts, errors, decisions)
        for text in result.warnings:
            python_warnings.warn(text, ExpectationWarning, stacklevel=3)
        if errors and settings.check:
            raise PipelineFailed(errors, result)
        return result


class RunSettings:
    """Settings of a run that few need.

    Parameters
    ----------
    cache
        Whether results of earlier runs are used, and kept.
    check
        Whether a failed step raises :class:`PipelineFailed`; otherwise the result has the errors.
    priority
        Added to the priorities of the steps, against other pipelines.
    report
        Called when a part of the run has ended, with its name and how it ended.
    """

    def __init__(
        self,
        *,
        cache: bool = True,
        check: bool = True,
        priority: int = 0,
        report: Callable[[str, Ended], None] | None = None,
    ) -> None:
        self.cache, self.check, self.priority, self.report = cache, check, priority, report


def _record_ends(execution: Execution, ended: Mapping[str, Ended]) -> dict[str, BaseException]:
    """Write how jobs ended into the records, and return the error of each step and source that failed."""
    errors: dict[str, BaseException] = {}
    for one in ended.values():
        step = execution.graph.steps.get(one.owner)
        record = execution.record(one.owner, "source" if step is None else step.kind)
        record.waited += one.waited
        record.seconds += one.seconds
        if one.state == "failed" and one.error is not None:
            error = StepError(one.owner, "memory", str(one.error)) if isinstance(one.error, TooLarge) else one.error
            record.state, record.reason = "failed", getattr(error, "message", str(error))
            errors.setdefault(one.owner, error)
            if not isinstance(error, StepError):
                error.add_note(f"in {one.owner!r} of pipeline {execution.pipeline!r}")
        elif one.state == "skipped" and record.state != "failed":
            record.state, record.reason = "skipped", f"{one.because} failed"
    return errors
