"""Shares partial results among several aggregates that are computed in two phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from craton.plan.expr import Column, Expr, substitute
from craton.plan.functions.strategies import Phases
from craton.plan.operators import AggregateCall


def share_partials(phases: Sequence[Phases]) -> list[Phases]:
    """The same phases, in which each distinct partial aggregate is computed only once."""
    known: dict[AggregateCall, Column] = {}
    found = []
    for phase in phases:
        same: dict[str, Expr] = {}
        partial = []
        for name, call in phase.partial:
            if phase.before is None and call in known:
                same[name] = known[call]
            else:
                known.setdefault(call, Column(name, call.dtype))
                partial.append((name, call))
        combine = tuple(
            (name, replace(call, args=tuple(substitute(arg, same) for arg in call.args)))
            for name, call in phase.combine
        )
        found.append(replace(phase, partial=tuple(partial), combine=combine))
    return found
