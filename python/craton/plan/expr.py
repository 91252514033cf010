"""Expressions: what one operator computes for a column.

Four kinds: a :class:`Column` of the input, a :class:`Literal`, a row-wise :class:`Call`, and a :class:`WindowCall`
whose value on a row depends on other rows, and which only a Window operator computes. Expressions carry their physical
(Polars) dtype, hold missing values as null, and name their functions, so that rules can look inside and tiles can
compute aggregates in phases. What a function means, and how it is computed, is in its record in
:mod:`craton.plan.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import field
from typing import Any

import polars as pl

from craton.plan.node import Node
from craton.plan.registry import FUNCTIONS, Cost, Kind, function
from craton.records import dataclass

Options = tuple[tuple[str, Hashable], ...]


def options(**named: Hashable) -> Options:
    """Named options in canonical order."""
    return tuple(sorted(named.items()))


@dataclass(frozen=True, slots=True, eq=False)
class Expr(Node):
    """The base of all expressions."""

    @property
    def children(self) -> tuple[Expr, ...]:
        """The expressions that this one reads."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expr):
    """A column of the operator's input, by name."""

    name: str
    dtype: pl.DataType

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
        """The arguments."""
        return self.args

    def option(self, name: str, default: Any = None) -> Any:
        """The named option's value."""
        return dict(self.options).get(name, default)

    def __repr__(self) -> str:
        named = [f"{key}={value!r}" for key, value in self.options]
        return f"{self.function}({', '.join([*map(repr, self.args), *named])})"


@dataclass(frozen=True, slots=True, eq=False)
class WindowCall(Expr):
    """A window function as data: over the rows that share ``partition`` (over all rows if it is empty), one value a row.

    ``function`` is an aggregate, broadcast to its rows, or a window function such as ``cum_sum`` or ``shift``.
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
        """The arguments, then the partition."""
        return self.args + self.partition

    @property
    def ordered(self) -> bool:
        """Whether the value depends on the order of the rows."""
        return FUNCTIONS[self.function].ordered

    def option(self, name: str, default: Any = None) -> Any:
        """The named option's value."""
        return dict(self.options).get(name, default)

    def __repr__(self) -> str:
        inner = ", ".join([*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.options)])
        over = f" over {list(self.partition)!r}" if self.partition else " over ()"
        return f"{self.function}({inner}){over}"


@dataclass(frozen=True, slots=True, eq=False)
class Values(Expr):
    """A column of constants that belongs to the plan: the list of an ``is_in``, the two sides of a mapping.

    ``series`` is compared by content through ``key``, a digest of it. It owns its memory, so that the two always agree.
    """

    key: bytes
    series: pl.Series = field(compare=False, repr=False)
    dtype: pl.DataType = field(compare=False)

    @classmethod
    def of(cls, series: pl.Series) -> Values:
        """Take a copy of a Polars series: what is written to its memory later is not seen."""
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

    A rewrite rule turns it into a semi join (an anti join below ``not``) or a join with a marker column before
    anything runs, so that rules and lowerings after it never see one.

    Parameters
    ----------
    value
        Of the dtype of the other plan's column.
    plan
        An operator with that one column.
    """

    value: Expr
    plan: Node

    @property
    def dtype(self) -> pl.DataType:
        """Boolean."""
        return pl.Boolean()

    @property
    def children(self) -> tuple[Expr, ...]:
        """The value; the plan is not an expression over the same input."""
        return (self.value,)

    def __repr__(self) -> str:
        return f"{self.value!r} in (plan {self.plan.digest.hex()[:8]})"


def dtype_of(expr: Expr) -> pl.DataType:
    """The physical dtype of an expression."""
    return expr.dtype  # type: ignore[attr-defined, no-any-return]


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and everything below it, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


def roots(expr: Expr) -> set[str]:
    """Names of the input columns that an expression reads."""
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def has_window(expr: Expr) -> bool:
    """Whether the value on a row depends on other rows."""
    return any(isinstance(node, WindowCall) for node in walk(expr))


def is_cheap(expr: Expr) -> bool:
    """Whether an expression may be computed twice: it calls no Python function on batches."""
    return not any(isinstance(node, Call) and FUNCTIONS[node.function].cost is Cost.PYTHON for node in walk(expr))


def has_one_form(dtype: pl.DataType) -> bool:
    """Whether equal values of a type look the same: there are two zeros among floats."""
    return dtype.is_integer() or dtype.is_temporal() or dtype in (pl.Boolean, pl.String)


def rebuild(expr: Expr, recurse: Callable[[Expr], Expr]) -> Expr:
    """The same expression over ``recurse(child)`` for each child; itself if nothing changed."""
    if isinstance(expr, Call):
        args = tuple(recurse(arg) for arg in expr.args)
        if all(new is old for new, old in zip(args, expr.args, strict=True)):
            return expr
        return Call(expr.function, args, expr.dtype, expr.options, expr.payload)
    if isinstance(expr, WindowCall):
        args = tuple(recurse(arg) for arg in expr.args)
        keys = tuple(recurse(key) for key in expr.partition)
        return WindowCall(expr.function, args, expr.dtype, keys, expr.options)
    if isinstance(expr, Member):
        value = recurse(expr.value)
        return expr if value is expr.value else Member(value, expr.plan)
    return expr


def substitute(expr: Expr, mapping: Mapping[str, Expr]) -> Expr:
    """Replace input columns by expressions."""
    if isinstance(expr, Column):
        return mapping.get(expr.name, expr)
    return rebuild(expr, lambda child: substitute(child, mapping))


def replaced(expr: Expr, change: Mapping[Expr, Expr]) -> Expr:
    """An expression with some expressions, wherever they stand in it, replaced by others; the outermost first."""
    if not change:
        return expr
    return change[expr] if expr in change else rebuild(expr, lambda child: replaced(child, change))


def conjuncts(expr: Expr) -> list[Expr]:
    """Split a predicate at its top-level ``and``; rows where a conjunct is null or false are dropped.

    In that position ``fill_null(x, False)`` means ``x``, and is taken off.
    """
    if isinstance(expr, Call):
        if expr.function == "and":
            return [part for arg in expr.args for part in conjuncts(arg)]
        if expr.function == "fill_null" and isinstance(expr.args[1], Literal) and expr.args[1].value is False:
            return conjuncts(expr.args[0])
    return [expr]


def conjunction(parts: list[Expr]) -> Expr:
    """Join predicates with ``and``."""
    result = parts[0]
    for part in parts[1:]:
        result = Call("and", (result, part), pl.Boolean())
    return result
