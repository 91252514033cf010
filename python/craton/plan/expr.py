"""Expressions, which compute the columns of an operator.

The main kinds are a :class:`Column` of the input, a :class:`Literal`, a row-wise :class:`Call`, and a :class:`WindowCall`,
whose value in a row depends on other rows and which only a Window operator computes. Every expression has its physical
(Polars) dtype and represents missing values as null. Functions are referred to by name, so that rules can inspect calls and
aggregates can be computed in phases; :mod:`craton.plan.functions` has a record of each function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import polars as pl

from craton.errors import PlanError
from craton.plan.names import is_kernel_pattern
from craton.plan.node import Node
from craton.plan.registry import FUNCTIONS, Cost, Kind, function
from craton.records import dataclass

#: Expressions with more nodes than this when written out are long: they are not repeated, and are split before they are computed.
LONG = 150

Options = tuple[tuple[str, Hashable], ...]


def options(**named: Hashable) -> Options:
    """Options sorted by name, so that equal options have equal digests."""
    return tuple(sorted(named.items()))


@dataclass(frozen=True, slots=True, eq=False)
class Expr(Node):
    """The base of all expressions.

    Expressions share their parts: ``y + y`` holds ``y`` once. Written out, each part is repeated, and the length doubles with each
    step of a loop ``y = y + y``; so every traversal of an expression visits each part once.
    """

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expr):
    """A column of the operator's input, by name."""

    name: str
    dtype: pl.DataType

    def _validate(self) -> None:
        if is_kernel_pattern(self.name):
            raise PlanError(f"the kernel takes the name {self.name!r} for a pattern of names")

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant; ``None`` is the null of its dtype."""

    value: Any
    dtype: pl.DataType

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """A row-wise function of other expressions."""

    function: str
    args: tuple[Expr, ...]
    dtype: pl.DataType
    options: Options = ()
    payload: Any = field(default=None, repr=False)

    def _validate(self) -> None:
        function(self.function, (Kind.ROWWISE,)).check(self)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def option(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)

    def __repr__(self) -> str:
        if size([self]) > LONG:
            return f"{self.function}(…)"
        named = [f"{key}={value!r}" for key, value in self.options]
        return f"{self.function}({', '.join([*map(repr, self.args), *named])})"


@dataclass(frozen=True, slots=True, eq=False)
class WindowCall(Expr):
    """A window function as data: a value for each row, over the rows with equal ``partition`` (over all rows if it is empty).

    ``function`` is an aggregate, whose value every row of the partition gets, or a window function such as ``cum_sum``.
    """

    function: str
    args: tuple[Expr, ...]
    dtype: pl.DataType
    partition: tuple[Expr, ...] = ()
    options: Options = ()

    def _validate(self) -> None:
        function(self.function, (Kind.WINDOW, Kind.AGGREGATE)).check(self)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args + self.partition

    @property
    def ordered(self) -> bool:
        return FUNCTIONS[self.function].ordered

    def option(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)

    def __repr__(self) -> str:
        if size([self]) > LONG:
            return f"{self.function}(…)"
        inner = ", ".join([*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.options)])
        over = f" over {list(self.partition)!r}" if self.partition else " over ()"
        return f"{self.function}({inner}){over}"


@dataclass(frozen=True, slots=True, eq=False)
class Values(Expr):
    """A column of constants in the plan, such as the list of an ``is_in`` or one side of a mapping.

    Columns are compared by ``key``, a digest of ``series``. ``series`` owns its memory, so that the digest stays valid.
    """

    key: bytes
    series: pl.Series = field(compare=False, repr=False)
    dtype: pl.DataType = field(compare=False)

    @classmethod
    def of(cls, series: pl.Series) -> Values:
        import hashlib
        import io

        sink = io.BytesIO()
        series.rename("v").to_frame().write_ipc_stream(sink)
        content = sink.getvalue()
        key = hashlib.blake2b(content, digest_size=16).digest()
        held = pl.read_ipc_stream(content).get_column("v").rename(series.name)
        return cls(key, held, series.dtype)

    def __repr__(self) -> str:
        head = ", ".join(map(repr, self.series.head(3).to_list()))
        return f"[{head}{', …' if len(self.series) > 3 else ''}]"


@dataclass(frozen=True, slots=True, eq=False)
class Member(Expr):
    """Whether a value is among the values of a column of another plan; never null, and null is a member of null.

    The rule :func:`~craton.plan.rules.unnest.unnest` replaces it by a semi join, an anti join (below ``not``), or a join with
    a marker column, so that later rules and the lowerings never see one.

    Parameters
    ----------
    value
        An expression of the dtype of the other plan's column.
    plan
        An operator with that one column.
    """

    value: Expr
    plan: Node

    @property
    def dtype(self) -> pl.DataType:
        return pl.Boolean()

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def __repr__(self) -> str:
        return f"{self.value!r} in (plan {self.plan.digest.hex()[:8]})"


def dtype_of(expr: Expr) -> pl.DataType:
    """The physical dtype of an expression."""
    return expr.dtype  # type: ignore[attr-defined, no-any-return]


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and everything below it, each part once, parents first."""
    stack = [expr]
    seen = {id(expr)}
    while stack:
        node = stack.pop()
        yield node
        for child in node.children:
            if id(child) not in seen:
                seen.add(id(child))
                stack.append(child)


def parts(exprs: Iterable[Expr]) -> list[Expr]:
    """The expressions and everything below them, each part once, children before parents."""
    found: dict[int, Expr] = {}
    stack = [(expr, False) for expr in exprs]
    while stack:
        node, done = stack.pop()
        if done:
            found.setdefault(id(node), node)
        elif id(node) not in found:
            stack.append((node, True))
            stack.extend((child, False) for child in node.children if id(child) not in found)
    return list(found.values())


def occurrences(exprs: Sequence[Expr]) -> list[tuple[Expr, int]]:
    """Each part of some expressions, and how often it occurs in them as they are written out; parents before children."""
    counts: Counter[int] = Counter(map(id, exprs))
    found = []
    for node in reversed(parts(exprs)):
        found.append((node, counts[id(node)]))
        for child in node.children:
            counts[id(child)] += counts[id(node)]
    return found


def size(exprs: Sequence[Expr]) -> int:
    """The number of nodes of some expressions as they are written out."""
    return sum(count for _, count in occurrences(exprs))


def roots(expr: Expr) -> set[str]:
    """The names of the input columns that an expression reads."""
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def has_window(expr: Expr) -> bool:
    """Whether an expression contains a window call, so that its value in a row depends on other rows."""
    return any(isinstance(node, WindowCall) for node in walk(expr))


def calls_python(node: Expr) -> bool:
    """Whether an expression itself, not its arguments, is a call of a Python function."""
    return isinstance(node, Call) and FUNCTIONS[node.function].cost is Cost.PYTHON


def is_cheap(expr: Expr) -> bool:
    """Whether an expression may be computed twice: it calls no Python function."""
    return not any(map(calls_python, walk(expr)))


def is_costly(expr: Expr) -> bool:
    """Whether computing an expression takes far longer than reading its values: it searches, parses or writes text, or calls Python."""
    return any(map(is_costly_call, walk(expr)))


def is_costly_call(node: Expr) -> bool:
    """As `is_costly`, for the outermost function of an expression."""
    if not isinstance(node, Call):
        return False
    if node.function == "cast":
        return (node.dtype == pl.String()) != (dtype_of(node.args[0]) == pl.String())
    return FUNCTIONS[node.function].cost in (Cost.TEXTS, Cost.PYTHON)


def may_raise(expr: Expr) -> bool:
    """Whether an expression may raise an error for a row: it must not be evaluated for rows that a program has dropped before."""
    return any(isinstance(node, Call) and FUNCTIONS[node.function].raises(node) for node in walk(expr))


def has_unique_representation(dtype: pl.DataType) -> bool:
    """Whether equal values of a dtype are always identical. Those of floats are not: 0.0 equals -0.0."""
    return dtype.is_integer() or dtype.is_temporal() or dtype in (pl.Boolean, pl.String)


def rebuild(expr: Expr, recurse: Callable[[Expr], Expr]) -> Expr:
    """The same expression over ``recurse(child)`` for each child; the expression itself if no child changed."""
    children = expr.children
    made = tuple(map(recurse, children))
    if all(new is old for new, old in zip(made, children, strict=True)):
        return expr
    if isinstance(expr, Call):
        return Call(expr.function, made, expr.dtype, expr.options, expr.payload)
    if isinstance(expr, WindowCall):
        count = len(expr.args)
        return WindowCall(expr.function, made[:count], expr.dtype, made[count:], expr.options)
    if isinstance(expr, Member):
        return Member(made[0], expr.plan)
    raise PlanError(f"an expression of type {type(expr).__name__} has no parts to replace")


def changed(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """An expression with parts replaced wherever they occur.

    Parameters
    ----------
    change
        Given a part: what replaces it, or ``None`` to look inside. An outer match takes precedence over an inner one.
    """
    done: dict[int, Expr] = {}
    stack = [(expr, False)]
    while stack:
        node, visited = stack.pop()
        if id(node) in done:
            continue
        if visited:
            done[id(node)] = rebuild(node, lambda child: done[id(child)])
        elif (instead := change(node)) is not None:
            done[id(node)] = instead
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in node.children)
    return done[id(expr)]


def substitute(expr: Expr, mapping: Mapping[str, Expr]) -> Expr:
    """Replace input columns by expressions."""
    return changed(expr, lambda node: mapping.get(node.name, node) if isinstance(node, Column) else None)


def replaced(expr: Expr, change: Mapping[Expr, Expr]) -> Expr:
    """An expression with subexpressions replaced wherever they occur; an outer match takes precedence over an inner one."""
    return changed(expr, change.get) if change else expr


def conjuncts(expr: Expr) -> list[Expr]:
    """Split a predicate at its top-level ``and``.

    A filter drops rows where a conjunct is null, so ``fill_null(x, False)`` is simplified to ``x``.
    """
    found: dict[Expr, None] = {}
    stack = [expr]
    seen = set()
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Call) and part.function == "and":
            stack.extend(reversed(part.args))
        elif isinstance(part, Call) and part.function == "fill_null" and _is_false(part.args[1]):
            stack.append(part.args[0])
        else:
            found[part] = None
    return list(found)


def _is_false(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is False


def conjunction(parts: Sequence[Expr]) -> Expr:
    """Join predicates with ``and``."""
    result = parts[0]
    for part in parts[1:]:
        result = Call("and", (result, part), pl.Boolean())
    return result


#: The comparison of two operands in the other order.
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def column_first(call: Call) -> tuple[Expr, str, Expr]:
    """The first operand, the function and the second operand of a call; a column that is compared with a constant is the first operand."""
    left, right = call.args
    if isinstance(left, Literal) and isinstance(right, Column) and call.function in MIRRORED:
        return right, MIRRORED[call.function], left
    return left, call.function, right
