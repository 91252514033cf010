"""Computes parts of a plan beforehand that it repeats too often.

A plan is a graph: ``d = d.merge(d.groupby("k").sum(), on="k")`` in a loop reads each ``d`` twice. The kernel writes a plan out as a tree,
which doubles with each step of such a loop, so that twenty steps would not end. Parts that several operators read are computed
first if the tree is large, and the plan reads their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl

from craton.plan.operators import Operator, Scan, schema
from craton.plan.protocol import derived
from craton.plan.rules.unnest import nested_plans, with_nested_plans
from craton.plan.sources import MemorySource
from craton.plan.visit import rewritten

#: The number of operators of a plan, written out as a tree, above which repeated parts are computed beforehand.
LARGE_TREE = 1_000
#: The number of operators of such a part, written out as a tree, from which on it is computed beforehand.
LARGE_PART = 60


@derived
def tree_size(op: Operator) -> int:
    """The number of operators of a plan if it is written out as a tree."""
    return 1 + sum(map(tree_size, (*op.inputs, *nested_plans(op))))


def without_repeated_parts(plan: Operator, compute: Callable[[Operator], pl.DataFrame]) -> Operator:
    """The plan, in which scans of computed rows replace repeated parts; unchanged unless its tree is large.

    Parameters
    ----------
    compute
        Returns the rows of a part in order.
    """
    while tree_size(plan) > LARGE_TREE:
        repeated = [op for op, count in _readers(plan).items() if count > 1 and not isinstance(op, Scan)]
        large = [op for op in repeated if tree_size(op) > LARGE_PART]
        if not large:
            break
        part = min(large, key=tree_size)
        source = MemorySource.of(compute(part))
        plan = _replaced(plan, {part: Scan(source, tuple(schema(part)))})
    return plan


def _readers(root: Operator) -> Counter[Operator]:
    """How many operators and expressions read each operator, subqueries included."""
    found: Counter[Operator] = Counter()
    stack, seen = [root], {root}
    while stack:
        for below in (*(op := stack.pop()).inputs, *nested_plans(op)):
            found[below] += 1
            if below not in seen:
                seen.add(below)
                stack.append(below)
    return found


def _replaced(root: Operator, done: dict[Operator, Operator]) -> Operator:
    if root not in done:
        changed = rewritten(root, lambda op, inputs: op.with_inputs(inputs), done)
        done[root] = with_nested_plans(changed, lambda plan: _replaced(plan, done))
    return done[root]
