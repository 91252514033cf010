"""Craton: a scalable data science engine. ``import craton.pandas as pd`` runs pandas programs as plans."""

from __future__ import annotations

from typing import Any

from craton.config import option_context, options
from craton.kernel.memory import configure_allocator

configure_allocator(options.memory_limit)  # before anything imports Polars

_LAZY = {
    "__version__": "craton._native",
    "explain": "craton.pandas.explain",
    "explain_fallbacks": "craton.fallbacks",
    "install": "craton.accelerate",
    "uninstall": "craton.accelerate",
    "profile": "craton.profiling",
    "load_ipython_extension": "craton.accelerate",
    "unload_ipython_extension": "craton.accelerate",
    "clear_memory": "craton.memory",
    "put": "craton.store",
    "get": "craton.store",
    "cache": "craton.store",
    "connect": "craton.store",
    "default_store": "craton.store",
    "deserialize": "craton.serialize",
    "init": "craton.cluster",
    "shutdown": "craton.cluster",
    "map": "craton.remote",
    "read_delta": "craton.pandas.io.delta",
    "save": "craton.pandas.io.sets.tables",
    "read_set": "craton.pandas.io.sets.tables",
    "catalog": "craton.pandas.io.sets.tables",
    "drop_set": "craton.pandas.io.sets.tables",
    "open_set": "craton.pandas.io.sets.tables",
    "step": "craton.pipeline.steps.definition",
    "expect": "craton.pipeline.steps.definition",
    "Pipeline": "craton.pipeline.pipeline",
}
_MODULES = ("cluster", "ml", "pipeline", "remote", "serialize", "spmd", "store")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        found = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
        return found
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"craton.{name}")
    raise AttributeError(f"module 'craton' has no attribute {name!r}")


__all__ = ["option_context", "options", *_LAZY, *_MODULES]
