"""Splits expressions that are long when written out, as those of a loop ``y = (y + 2 / y) / 2`` are, and those that repeat Python calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from craton.plan.expr import Call, Column, Expr, calls_python, dtype_of, parts, replaced
from craton.plan.lengths import is_long, length_of, repeats
from craton.plan.names import derived_name
from craton.plan.operators import Aggregate, Filter, Join, Operator, Project, Sort, Window, schema
from craton.plan.protocol import columns_read
from craton.plan.visit import rewritten

#: A part of a long expression that occurs several times gets a column if it has at least this many nodes: fewer are computed again.
_SHARED = 12
#: Any part gets a column if it has more nodes than this: the kernel descends into expressions recursively.
_DEEP = 100


def split_long_expressions(root: Operator) -> Operator:
    """Compute parts of long expressions, and Python calls that would be repeated, in projections below, each part once.

    ``Project[c = f(g(a) + 1) * f(g(a) + 2)](S)`` becomes ``Project[c = f(h + 1) * f(h + 2)](Project[a, h = g(a)](S))``, if it is long
    or if g calls Python. Aggregates and windows are lowered to expressions that repeat their arguments, so Python calls in them
    always become columns.

    Always valid: a projection keeps the rows and their order, and expressions compute the same value wherever they are evaluated.
    """
    return rewritten(root, lambda op, inputs: _split(op.with_inputs(inputs)))


def _split(op: Operator) -> Operator:
    if not isinstance(op, (Project, Window, Filter, Sort, Aggregate, Join)):
        return op
    inputs, expressions = list(op.inputs), [list(exprs) for exprs in op.expressions]
    repeating = isinstance(op, (Aggregate, Window))
    long = [
        number for number, exprs in enumerate(expressions) if is_long(exprs) or _repeats_python_calls(exprs, repeating)
    ]
    if not long:
        return op
    passes = not isinstance(op, (Project, Aggregate))  # whether the operator's output has the columns of its input
    for number in long:
        kept = set(schema(inputs[number])) if passes else set()
        inputs[number], expressions[number] = _below(inputs[number], expressions[number], kept, repeating)
    made = op.with_expressions(expressions, tuple(inputs))
    if list(schema(made)) == list(schema(op)):
        return made
    return Project(made, tuple((name, made.column(name)) for name in schema(op)))


def _below(op: Operator, exprs: list[Expr], kept: set[str], repeating: bool) -> tuple[Operator, list[Expr]]:
    """An operator with parts of expressions as columns, and the expressions in terms of these.

    The operator has the columns `kept` and those that the expressions read. A projection passes on only what is read later, so
    that the number of columns does not grow with the number of levels.
    """
    taken = set(schema(op))
    known: dict[Expr, Expr] = {}
    computed: list[dict[str, Expr]] = []
    for level in _levels(exprs, repeating):
        names = {derived_name("part", part.digest, taken): part for part in level}
        computed.append({name: replaced(part, known) for name, part in names.items()})
        known |= {part: Column(name, dtype_of(part)) for name, part in names.items()}
        taken |= names.keys()
    exprs = [replaced(expr, known) for expr in exprs]
    needed = kept | columns_read(exprs)
    passed = []  # for each level, the columns of the level below that are read later
    for columns in reversed(computed):
        passed.append(needed - columns.keys())
        needed = passed[-1] | columns_read(list(columns.values()))
    for columns, names_below in zip(computed, reversed(passed), strict=True):
        below = ((name, op.column(name)) for name in schema(op) if name in names_below)
        op = Project(op, (*below, *columns.items()))
    return op, exprs


def _repeats_python_calls(exprs: Sequence[Expr], repeating: bool) -> bool:
    """Whether the kernel's expressions repeat a Python call; ``repeating``: whether the operator repeats its arguments."""
    nodes = list(dict.fromkeys(parts(exprs)))
    if not any(map(calls_python, nodes)):
        return False
    uses = _uses(exprs, nodes)
    return repeating or any(uses[node] > 1 for node in nodes if calls_python(node))


def _uses(exprs: Sequence[Expr], nodes: Sequence[Expr]) -> Counter[Expr]:
    """How often each node is an argument of another one, or an expression itself."""
    uses = Counter(exprs)
    for node in nodes:
        for child, times in zip(node.children, repeats(node), strict=True):
            uses[child] += times
    return uses


def _levels(exprs: Sequence[Expr], repeating: bool) -> list[list[Expr]]:
    """The parts that get a column; those of one level contain only parts of the levels before it."""
    nodes = list(dict.fromkeys(parts(exprs)))
    uses = _uses(exprs, nodes)
    lengths: dict[Expr, int] = {}  # of the expressions in terms of the parts
    depths: dict[Expr, int] = {}
    levels: list[list[Expr]] = []
    for node in nodes:
        length = length_of(node, lengths)
        depth = max((depths[child] for child in node.children), default=0)
        shared = length >= _SHARED or calls_python(node)
        if isinstance(node, Call) and (
            (uses[node] > 1 and shared) or length > _DEEP or (repeating and calls_python(node))
        ):
            if depth == len(levels):
                levels.append([])
            levels[depth].append(node)
            length, depth = 1, depth + 1
        lengths[node], depths[node] = length, depth
    return levels
