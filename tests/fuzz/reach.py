"""Measures coverage: of the native calls and parameters in ``docs/native.md``, and of pairs of operators in plans."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from craton.plan import operators
from craton.plan.operators import Operator

#: Entries of the page that are accessors, not calls.
ACCESSORS = {"Series.str", "Series.dt"}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "native.md"


def native_calls() -> dict[str, list[str]]:
    """The native calls in the documentation, with their native parameters."""
    found: dict[str, list[str]] = {}
    family = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            family = line[3:].strip()
        row = re.match(r"\| `(\w+)`[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|$", line)
        if row and family not in ("In numbers", "Indexing and operators"):
            found[f"{family}.{row[1]}"] = re.findall(r"`(\w+)`", row[2])
    return {call: names for call, names in found.items() if call not in ACCESSORS}


def kinds() -> list[type[Operator]]:
    """All classes of plan operators."""
    found = [
        kind
        for kind in vars(operators).values()
        if isinstance(kind, type) and issubclass(kind, Operator) and kind is not Operator
    ]
    return sorted(found, key=lambda kind: kind.__name__)


def possible_pairs() -> list[tuple[str, str]]:
    """All pairs of an operator that has inputs and an operator."""
    every = kinds()
    fields = {"input", "left", "right", "parts"}
    parents = [kind for kind in every if fields & set(getattr(kind, "__dataclass_fields__", {}))]
    return [(parent.__name__, child.__name__) for parent in parents for child in every]


@functools.lru_cache(1)
def _callers(_loaded: int) -> list[Any]:
    """The modules that import ``optimize``. The argument, the number of loaded modules, is the cache key."""
    from craton.plan import stages

    return [
        module
        for name, module in sys.modules.items()
        if name.startswith("craton") and module is not stages and getattr(module, "optimize", None) is stages.optimize
    ]


class Pairs:
    """Counts, within the block, the pairs of an operator and its input in executed plans, before and after the rewrite rules.

    Since the front end puts a projection between most operators, the input of a projection also counts as input of the operator above.

    Parameters
    ----------
    counts
        The counter to which pairs are added.
    """

    def __init__(self, counts: Counter[tuple[str, str]]) -> None:
        self.counts = counts
        self._patched: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Pairs:
        from craton.plan import stages

        original = stages.optimize

        def optimize(plan: Operator, *args: Any, **kwargs: Any) -> Operator:
            optimized: Operator = original(plan, *args, **kwargs)
            self.count(plan)
            self.count(optimized)
            return optimized

        for module in _callers(len(sys.modules)):
            self._patch(module, "optimize", optimize)
        return self

    def __exit__(self, *exc: object) -> None:
        for module, name, before in self._patched:
            setattr(module, name, before)
        self._patched.clear()

    def _patch(self, module: Any, name: str, function: Callable[..., Any]) -> None:
        self._patched.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def count(self, plan: Operator) -> None:
        """Add the pairs of a plan; a pair that occurs repeatedly in the plan counts once."""
        found: set[tuple[str, str]] = set()
        seen: set[int] = set()
        stack = [plan]
        while stack:
            op = stack.pop()
            if id(op) in seen:
                continue
            seen.add(id(op))
            for child in op.inputs:
                stack.append(child)
                found.add((type(op).__name__, type(child).__name__))
                while type(child).__name__ == "Project":
                    (child,) = child.inputs
                    found.add((type(op).__name__, type(child).__name__))
        for pair in found:
            self.counts[pair] += 1


def table(emitted: Counter[tuple[str, str]], native: Counter[str], pairs: Counter[tuple[str, str]]) -> str:
    """A report of what was covered and what was not."""
    calls = native_calls()
    parameters = [(call, parameter) for call, names in calls.items() for parameter in names]
    missed = [call for call in calls if not emitted[call, ""]]
    unused = [f"{call}({parameter})" for call, parameter in parameters if not emitted[call, parameter]]
    fallen = [call for call in calls if emitted[call, ""] and not native[call]]
    possible = possible_pairs()
    absent = [f"{parent}({child})" for parent, child in possible if not pairs[parent, child]]
    lines = [
        f"native calls emitted: {len(calls) - len(missed)} of {len(calls)}; not: {', '.join(missed) or 'none'}",
        f"of these never planned: {', '.join(fallen) or 'none'}",
        f"their parameters given: {len(parameters) - len(unused)} of {len(parameters)}; not: {', '.join(unused) or 'none'}",
        f"pairs of operators in plans: {len(possible) - len(absent)} of {len(possible)}; not: {', '.join(absent) or 'none'}",
    ]
    most = max((len(name) for name in calls), default=0)
    lines += ["", "calls, how often emitted, how often planned:"]
    lines += [f"  {call:<{most}} {emitted[call, '']:>8} {native[call]:>8}" for call in calls]
    return "\n".join(lines)
