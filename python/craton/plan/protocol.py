"""The interface of operators, which every pass over a plan relies on.

An operator declares its expressions, its schema, the columns that it requires of its inputs, the row order that it produces
and the row order that it needs, and where a filter above it can be pushed down to. It can be rebuilt over other expressions
and inputs. Every pass (order, pruning, push-down, fusing, size, explain, both lowerings) uses these declarations and a
visitor of :mod:`craton.plan.visit`.
"""

from __future__ import annotations

import enum
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Column, Expr, has_window, replaced, roots
from craton.plan.node import Node
from craton.records import dataclass

Named = tuple[str, Expr]
Schema = dict[str, pl.DataType]
Expressions = Sequence[Sequence[Expr]]
_T = TypeVar("_T")


class RowOrder(enum.Enum):
    """The order of an operator's output rows.

    If it depends on the order of the inputs, the inputs must be in order too: see :meth:`Operator.needs_order`.
    """

    STORED = "as stored"
    INPUT = "of the input"
    SIDES = "of the left rows, then of the right matches"
    PARTS = "of the inputs, one after the other"
    SORTED = "by the keys, rows of equal keys as in the input"
    GROUPS = "by the keys of the groups"
    FIRST_ROWS = "by each group's first row"


#: Orders that do not depend on the order of the inputs.
_OWN = frozenset({RowOrder.STORED, RowOrder.GROUPS})


@dataclass(frozen=True, slots=True, eq=False)
class Operator(Node):
    """The base of all operators."""

    # -- inputs and expressions ----------------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The operators that this one reads."""
        return tuple([getattr(self, name) for name in _read_by(type(self))])

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Operator:
        """The same operator over other inputs; the operator itself if the inputs are unchanged."""
        names = _read_by(type(self))
        if all(new is getattr(self, name) for name, new in zip(names, inputs, strict=True)):
            return self
        return replace(self, **dict(zip(names, inputs, strict=True)))  # type: ignore[type-var]

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        """The expressions over the columns of each input, as a tuple for each input; a scan has one tuple, over its source."""
        return ((),) * len(self.inputs)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        """The same operator over other expressions, shaped like :attr:`expressions`, and optionally over other inputs."""
        if any(map(len, expressions)):
            raise PlanError(f"{type(self).__name__} has no expressions; it was given {expressions!r}")
        return self if inputs is None else self.with_inputs(inputs)

    # -- output ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def derive_schema(self) -> Schema:
        """Column names and physical dtypes of the output, in order. Call :func:`schema` instead, which caches it."""
        raise NotImplementedError(f"no schema rule for {type(self).__name__}")

    def column(self, name: str) -> Column:
        """A reference to an output column."""
        return Column(name, schema(self)[name])

    @abstractmethod
    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """The columns of each input that the needed columns of the output are computed from, as a set for each input."""
        raise NotImplementedError(f"no pruning rule for {type(self).__name__}")

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The operator without the columns that are not needed, over pruned inputs."""
        return self.with_inputs(inputs)

    # -- order -------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def row_order(self) -> RowOrder:
        """The order of the output's rows."""
        raise NotImplementedError(f"no order rule for {type(self).__name__}")

    @property
    def reads_order(self) -> bool:
        """Whether values or the choice of rows depend on the input's order, even if the output's order is not observed."""
        return False

    def needs_order(self, observed: bool) -> tuple[bool, ...]:
        """Whether each input must be in order.

        Parameters
        ----------
        observed
            Whether the order of this operator's rows is observed.
        """
        return (self.reads_order or (observed and self.row_order not in _OWN),) * len(self.inputs)

    @property
    def keeps_rows(self) -> bool:
        """Whether every row of the inputs becomes a row of the output."""
        return False

    # -- predicate push-down -------------------------------------------------------------------------------------------

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """The inputs that a filter above this operator can be pushed into: input number, and the predicate over its columns.

        Empty if the filter must stay above. Otherwise the filter must be pushed into every input that is listed.
        """
        return ()

    # -- explain ---------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def detail(self) -> str:
        """What the operator does, in one line, for ``explain``."""
        raise NotImplementedError(f"no description of {type(self).__name__}")

    # -- validation ----------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        for read, expressions in zip(self.inputs, self.expressions, strict=False):
            known = schema(read)
            for expr in expressions:
                if unknown := roots(expr) - known.keys():
                    raise PlanError(f"{expr!r} reads {sorted(unknown)}; the input has {list(known)}")
        for expressions in self.expressions:
            for expr in expressions:
                self._check_windows(expr)
        self._check()

    def _check_windows(self, expr: Expr) -> None:
        """Check that windows are in Window operators only, and never in each other."""
        if has_window(expr):
            raise PlanError(f"{type(self).__name__} cannot compute a window; put it into a Window below: {expr!r}")

    def _check(self) -> None:
        """Check the invariants of a subclass; raise :class:`PlanError` if one does not hold."""


def _inputs_of(kind: type[Operator]) -> tuple[str, ...]:
    """The fields of an operator class that hold its inputs."""
    return tuple(field.name for field in fields(kind) if field.name in ("input", "left", "right"))


_read_by: Any = functools.cache(_inputs_of)


_MISSING: Any = object()


def derived(rule: Callable[[Operator], _T]) -> Callable[[Operator], _T]:
    """Decorate a bottom-up pass: a value for each operator, computed once and cached for as long as the operator exists.

    The rule calls the decorated function for the operator's inputs.
    """
    known: WeakKeyDictionary[Operator, _T] = WeakKeyDictionary()

    def value(op: Operator) -> _T:
        # Look the value up only once: the entry's key is an equal operator, and another thread may drop the last reference to it.
        found = known.get(op, _MISSING)
        if found is not _MISSING:
            return found
        stack = [op]
        while stack:  # the inputs first, so that the rule finds their values, however deep the plan is
            current = stack[-1]
            found = known.get(current, _MISSING)
            if found is _MISSING:
                if missing := [child for child in current.inputs if child not in known]:
                    stack.extend(missing)
                    continue
                found = known[current] = rule(current)
            stack.pop()
        return found

    value.__doc__, value.__name__, value.__wrapped__ = rule.__doc__, rule.__name__, rule  # type: ignore[attr-defined]
    return value


@derived
def schema(op: Operator) -> Schema:
    """Column names and physical dtypes of an operator's output, in order. The result is cached: do not change it."""
    return op.derive_schema()


def mapped(op: Operator, change: Mapping[Expr, Expr], inputs: tuple[Operator, ...] | None = None) -> Operator:
    """An operator with expressions replaced wherever they occur, and optionally over other inputs."""
    return op.with_expressions([[replaced(expr, change) for expr in exprs] for exprs in op.expressions], inputs)


def check_unique(names: Sequence[str]) -> None:
    """Raise if a column name is given twice."""
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise PlanError(f"column names of an operator must be unique; these occur twice: {twice}")


def check_known(op: Operator, names: Sequence[str]) -> None:
    """Raise if an operator lacks a column."""
    known = schema(op)
    if unknown := [name for name in names if name not in known]:
        raise PlanError(f"the input has no columns {unknown}; it has {list(known)}")


def columns_read(exprs: Sequence[Expr]) -> set[str]:
    """The names of the columns that expressions read."""
    return set().union(*map(roots, exprs)) if exprs else set()


def needed_or_one(columns: tuple[tuple[str, _T], ...], needed: set[str]) -> tuple[tuple[str, _T], ...]:
    """The needed columns, or the first column if none is needed: an operator without columns would have no rows."""
    return tuple(column for column in columns if column[0] in needed) or columns[:1]


def listed(names: Sequence[str]) -> str:
    """A list of column names as ``explain`` shows it."""
    return f"[{', '.join(names)}]"


def renamed(columns: Sequence[tuple[str, Expr]]) -> str:
    """Named expressions as ``explain`` shows them: ``b = a + 1``, but just ``a`` for a column that keeps its name."""
    return ", ".join(name if repr(expr) == name else f"{name} = {expr!r}" for name, expr in columns)
