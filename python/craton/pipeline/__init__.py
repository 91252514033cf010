"""Pipelines: graphs of functions that take and return tables, run in processes of their own, between which no table is copied."""

from __future__ import annotations

from typing import Any

#: The modules of what users import from here, imported when it is used.
_LAZY = {
    "CSV": "sources.files",
    "ExpectationWarning": "pipeline",
    "InMemory": "sources.base",
    "Input": "steps.inputs",
    "InvalidPipeline": "steps.graph",
    "NamedSet": "sources.base",
    "Parquet": "sources.files",
    "Pipeline": "pipeline",
    "PipelineFailed": "runs.result",
    "Query": "sources.base",
    "Result": "runs.result",
    "RunSettings": "pipeline",
    "SQL": "sources.sql",
    "StepError": "tasks",
    "TableSource": "sources.base",
    "expect": "steps.definition",
    "step": "steps.definition",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'craton.pipeline' has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"craton.pipeline.{_LAZY[name]}"), name)
    return found


__all__ = list(_LAZY)
