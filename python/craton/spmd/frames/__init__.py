"""Distributed frames inside a program: the operators of pandas on the rows of all ranks.

Each function takes the rank's part of each frame, and `env`, and returns the rank's part of the result. All ranks call it. The whole
of a frame is the concatenation of its parts, by rank.
"""

from __future__ import annotations

from craton.spmd.frames.grouping import Groups, groupby
from craton.spmd.frames.joining import merge
from craton.spmd.frames.reducing import count, max, mean, min, nunique, std, sum, var
from craton.spmd.frames.rows import difference, drop_duplicates, equals, intersection, union
from craton.spmd.frames.sorting import concat, head, rebalance, repartition, sort_values, tail

__all__ = [
    "Groups", "concat", "count", "difference", "drop_duplicates", "equals", "groupby", "head", "intersection", "max", "mean", "merge",
    "min", "nunique", "rebalance", "repartition", "sort_values", "std", "sum", "tail", "union", "var",
]  # fmt: skip
