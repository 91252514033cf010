"""The lengths of expressions as the kernel gets them: written out, and with what the lowering repeats.

The division ``x / 2`` is lowered to an expression that has ``x`` twice. In nested divisions the length doubles with each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import polars as pl

from craton.plan.expr import LONG, Call, Expr, parts, size
from craton.plan.registry import FUNCTIONS, Cost

#: Expressions with no more nodes than this are not long.
_SHORT = 12


def is_long(exprs: Sequence[Expr]) -> bool:
    """Whether the kernel's expressions are long."""
    if size(exprs) <= _SHORT:
        return False
    lengths: dict[Expr, int] = {}
    for node in parts(exprs):
        lengths[node] = length_of(node, lengths)
    return sum(lengths[expr] for expr in exprs) > LONG


def length_of(node: Expr, lengths: Mapping[Expr, int]) -> int:
    """The length of an expression, given those of its children."""
    return 1 + sum(times * lengths[child] for child, times in zip(node.children, repeats(node), strict=True))


_repeated: WeakKeyDictionary[Expr, tuple[int, ...]] = WeakKeyDictionary()


def repeats(node: Expr) -> tuple[int, ...]:
    """How often each child occurs in the kernel's expression: the lowering of a division, for one, repeats the dividend."""
    if not isinstance(node, Call) or FUNCTIONS[node.function].cost is Cost.PYTHON:
        return (1,) * len(node.children)
    found = _repeated.get(node)
    if found is None:
        names = [str(number) for number in range(len(node.args))]
        lowered = FUNCTIONS[node.function].lower([pl.col(name) for name in names], node)
        counts = Counter(lowered.meta.root_names())
        found = _repeated[node] = tuple(max(counts[name], 1) for name in names)
    return found
