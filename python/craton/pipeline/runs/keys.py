"""What a step's result depends on, as a hash: its code, its parameters, and the hashes of what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from craton.pipeline.runs.fingerprint import fingerprint
from craton.pipeline.runs.imports import Unknown
from craton.pipeline.steps.conditions import condition_bytes
from craton.pipeline.steps.definition import StepOptions
from craton.pipeline.steps.functions import Step
from craton.pipeline.steps.graph import StepGraph
from craton.store.store import Store

__all__ = ["step_keys"]


def step_keys(
    graph: StepGraph, parameters: Mapping[str, Mapping[str, Any]], store: Store
) -> tuple[dict[str, bytes], dict[str, str]]:
    """The hash of each step whose result may be kept, and for each other one why it may not.

    Parameters
    ----------
    graph
        The pipeline's graph.
    parameters
        The arguments of each step.
    store
        The store, whose sets may be sources.
    """
    made: dict[str, bytes] = {}
    reasons: dict[str, str] = {}
    versions = {name: source.version(store) for name, source in graph.sources.items()}
    for step in graph.steps.values():
        options = step.options
        if not isinstance(options, StepOptions):
            continue
        if options.cache is False or (options.source and options.cache is None):
            reasons[step.name] = "reads from elsewhere" if options.source else "cache=False"
            continue
        inputs = []
        for parameter, given in step.inputs.items():
            name, output = graph.producer(str(given.of))
            known = versions.get(name) if name in graph.sources else made.get(name)
            if known is None:
                reasons[step.name] = (
                    f"the version of {name!r} is unknown" if name in graph.sources else f"{name!r} is not cached"
                )
                break
            form = step.forms.get(parameter) or (graph.sources[name].form if name in graph.sources else None)
            inputs.append((parameter, known, output, given.columns, condition_bytes(given.where), form))
        else:
            try:
                made[step.name] = _key(step, options, tuple(inputs), parameters[step.name])
            except Unknown as error:
                reasons[step.name] = str(error)
    return made, reasons


def _key(step: Step, options: StepOptions, inputs: tuple[Any, ...], parameters: Mapping[str, Any]) -> bytes:
    setting = (options.setting.packages, options.setting.variables)
    division = (options.map_over, options.partitions)
    return fingerprint(step.function, dict(sorted(parameters.items())), inputs, setting, division)
