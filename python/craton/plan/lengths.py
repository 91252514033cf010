"""The lengths of the kernel's expressions, in which shared parts are written out and the lowering may repeat arguments.

The division ``x / 2`` is lowered to an expression that has ``x`` twice, so the length doubles with each nested division.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from craton.plan.expr import LONG, Call, Expr, Literal, calls_python, dtype_of, parts
from craton.plan.registry import FUNCTIONS

#: Expressions with no more nodes than this are not long.
_SHORT = 15


def is_long(exprs: Sequence[Expr]) -> bool:
    """Whether the kernel's expressions are long."""
    stack, count = list(exprs), 0
    while stack and count <= _SHORT:
        count += 1
        stack.extend(stack.pop().children)
    if count <= _SHORT:
        return False
    lengths: dict[Expr, int] = {}
    for node in parts(exprs):
        lengths[node] = length_of(node, lengths)
    return sum(lengths[expr] for expr in exprs) > LONG


def length_of(node: Expr, lengths: Mapping[Expr, int]) -> int:
    """The length of an expression, given those of its children."""
    return 1 + sum(times * lengths[child] for child, times in zip(node.children, repeats(node), strict=True))


#: How often each argument occurs in a lowering, by what the lowering depends on: the function, its options, dtypes and constants.
_repeated: dict[tuple[object, ...], tuple[int, ...]] = {}
_MOST_KEPT = 4096


def repeats(node: Expr) -> tuple[int, ...]:
    """How often each child occurs in the kernel's expression: the lowering of a division, for one, repeats the dividend."""
    if not isinstance(node, Call) or calls_python(node):
        return (1,) * len(node.children)
    read = tuple(arg if isinstance(arg, Literal) else dtype_of(arg) for arg in node.args)
    key = (node.function, node.options, node.dtype, read)
    found = _repeated.get(key)
    if found is None:
        names = [str(number) for number in range(len(node.args))]
        lowered = FUNCTIONS[node.function].lower([pl.col(name) for name in names], node)
        counts = Counter(lowered.meta.root_names())
        if len(_repeated) >= _MOST_KEPT:
            _repeated.clear()
        found = _repeated[key] = tuple(max(counts[name], 1) for name in names)
    return found
