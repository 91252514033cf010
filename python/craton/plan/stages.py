"""The named stages of planning; ``craton.explain(frame, stage=…)`` shows the plan after any of them."""

from __future__ import annotations

from collections.abc import Callable

from craton.plan.operators import Operator
from craton.plan.rules.distinct_counts import compare_distinct_counts
from craton.plan.rules.eager import group_before_joins, join_filtered_first
from craton.plan.rules.fuse import fuse
from craton.plan.rules.late_materialisation import group_by_rows
from craton.plan.rules.nullability import count_rows, ignore_null_keys, keep_numbers
from craton.plan.rules.positions import keep_stored_order, number_by_position
from craton.plan.rules.prune import prune_columns
from craton.plan.rules.pushdown import push_predicates
from craton.plan.rules.replicas import choose_replicas
from craton.plan.rules.semi_join_merging import merge_semi_joins
from craton.plan.rules.semi_join_reduction import delay_semi_joins, restrict_groups
from craton.plan.rules.slices import join_slices
from craton.plan.rules.split import split_long_expressions
from craton.plan.rules.unnest import unnest

Rule = Callable[[Operator], Operator]

STAGES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("logical", ()),
    ("unnested", (unnest, join_slices, number_by_position)),
    ("pruned", (prune_columns, fuse)),
    ("pushed", (push_predicates, fuse)),
    (
        "joined",
        (
            compare_distinct_counts,
            delay_semi_joins,
            merge_semi_joins,
            restrict_groups,
            join_filtered_first,
            group_before_joins,
            group_by_rows,
            keep_numbers,
            count_rows,
            ignore_null_keys,
        ),
    ),
    ("optimized", (prune_columns, fuse, choose_replicas, keep_stored_order, split_long_expressions)),
)


def optimize(root: Operator, stage: str = "optimized") -> Operator:
    """Run the rewrite rules up to a stage.

    Parameters
    ----------
    root
        A plan as the front end built it.
    stage
        ``logical`` (as built), ``unnested``, ``pruned``, ``pushed``, ``joined`` or ``optimized``.

    Raises
    ------
    ValueError
        If the stage is unknown.
    """
    names = [name for name, _ in STAGES]
    if stage not in names:
        raise ValueError(f"unknown stage {stage!r}; it must be one of {names}")
    for name, rules in STAGES:
        for rule in rules:
            root = rule(root)
        if name == stage:
            break
    return root
