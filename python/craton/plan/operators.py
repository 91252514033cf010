"""The relational operators: a plan is a tree of these.

Each is frozen and validated when built; its schema (column name → physical dtype, in order) is derived on demand and
never stored in the tree. Names are unique within an operator. Row order is part of an operator's *meaning* (each
docstring says which order its rows have); whether anybody can observe it is derived in :mod:`craton.plan.order`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Column, Expr, Options, dtype_of, has_window, roots
from craton.plan.functions import FUNCTIONS, Kind
from craton.plan.node import Node
from craton.plan.sources import Source

Named = tuple[str, Expr]
Schema = dict[str, pl.DataType]
JoinHow = Literal["inner", "left", "right", "outer", "semi", "anti", "cross"]


@dataclass(frozen=True, slots=True, eq=False)
class Operator(Node):
    """The base of all operators."""

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The operators that this one reads."""
        return tuple(
            value for name in ("input", "left", "right") if isinstance(value := getattr(self, name, None), Operator)
        )

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Operator:
        """The same operator over other inputs; itself if they are the same."""
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):
            return self
        names = [name for name in ("input", "left", "right") if isinstance(getattr(self, name, None), Operator)]
        return replace(self, **dict(zip(names, inputs, strict=True)))  # type: ignore[type-var]

    def column(self, name: str) -> Column:
        """A reference to an output column."""
        return Column(name, schema(self)[name])


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Operator):
    """Rows of a source, in file order.

    Parameters
    ----------
    columns
        The columns that are read, in order.
    predicate
        Rows that fail it are not produced; ``None`` keeps all.
    row_number
        Name of an extra first column (UInt32): the row's position in the source before the predicate.
    """

    source: Source
    columns: tuple[str, ...]
    predicate: Expr | None = None
    row_number: str | None = None

    def _validate(self) -> None:
        known = {name for name, _ in self.source.columns}
        if unknown := [name for name in self.columns if name not in known]:
            raise PlanError(f"{self.source!r} has no columns {unknown}; it has {sorted(known)}")


@dataclass(frozen=True, slots=True, eq=False)
class Project(Operator):
    """One output column an expression, a row for a row, in the input's order. Expressions may hold windows."""

    input: Operator
    columns: tuple[Named, ...]

    def _validate(self) -> None:
        _unique([name for name, _ in self.columns])
        _known(self.input, [expr for _, expr in self.columns])

    @property
    def windowed(self) -> bool:
        """Whether a value depends on other rows."""
        return any(has_window(expr) for _, expr in self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Operator):
    """The rows where the predicate is true (not null), in the input's order."""

    input: Operator
    predicate: Expr

    def _validate(self) -> None:
        _known(self.input, [self.predicate])
        if dtype_of(self.predicate) != pl.Boolean():
            raise PlanError(f"a predicate is boolean, not {dtype_of(self.predicate)}")


@dataclass(frozen=True, slots=True, eq=False)
class RowNumber(Operator):
    """The input with an extra first column: the position of each row, from 0 (UInt32)."""

    input: Operator
    name: str

    def _validate(self) -> None:
        _unique([self.name, *schema(self.input)])


@dataclass(frozen=True, slots=True, eq=False)
class Attach(Operator):
    """The input with columns of data in memory beside it, row by row, in the input's order.

    Both must have the same number of rows; a run fails otherwise.
    """

    input: Operator
    source: Source
    columns: tuple[str, ...]

    def _validate(self) -> None:
        _unique([*schema(self.input), *self.columns])
        known = {name for name, _ in self.source.columns}
        if unknown := [name for name in self.columns if name not in known]:
            raise PlanError(f"{self.source!r} has no columns {unknown}; it has {sorted(known)}")


@dataclass(frozen=True, slots=True, eq=False)
class Join(Operator):
    """Rows of two inputs that agree on keys: all columns of the left, then of the right (left only for semi, anti).

    Order: of the left rows, then of the right matches; for ``right`` the other way round; for ``outer`` the left's rows,
    then the right rows without a match.

    Parameters
    ----------
    left_on, right_on
        Expressions over each side, as many on both.
    nulls_equal
        Whether null keys match null keys.
    """

    left: Operator
    right: Operator
    how: JoinHow
    left_on: tuple[Expr, ...]
    right_on: tuple[Expr, ...]
    nulls_equal: bool = True
    one_to_one: str = "m:m"

    def _validate(self) -> None:
        if len(self.left_on) != len(self.right_on):
            raise PlanError("a join has as many keys on the left as on the right")
        if (self.how == "cross") != (not self.left_on):
            raise PlanError("a cross join, and no other, has no keys")
        _known(self.left, list(self.left_on))
        _known(self.right, list(self.right_on))
        if self.how not in ("semi", "anti"):
            _unique([*schema(self.left), *schema(self.right)])


@dataclass(frozen=True, slots=True, eq=False)
class AggregateCall(Node):
    """An aggregate as data: a function of expressions over the rows of a group."""

    function: str
    args: tuple[Expr, ...]
    dtype: pl.DataType
    options: Options = ()

    def _validate(self) -> None:
        if self.function not in FUNCTIONS or FUNCTIONS[self.function].kind is not Kind.AGGREGATE:
            raise PlanError(f"{self.function!r} is no aggregate")

    @property
    def ordered(self) -> bool:
        """Whether the value depends on the order of the rows."""
        return FUNCTIONS[self.function].ordered

    def option(self, name: str, default: Any = None) -> Any:
        """The named option's value."""
        return dict(self.options).get(name, default)

    def __repr__(self) -> str:
        named = [f"{key}={value!r}" for key, value in self.options]
        return f"{self.function}({', '.join([*map(repr, self.args), *named])})"


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Operator):
    """One row a group of equal keys (null is a key): the keys, then the aggregates. Without keys, one row.

    Order: by the keys ascending, nulls last, if ``sort``; else by each group's first row.
    """

    input: Operator
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    sort: bool = True

    def _validate(self) -> None:
        _unique([name for name, _ in self.keys] + [name for name, _ in self.aggregates])
        _known(self.input, [expr for _, expr in self.keys])
        _known(self.input, [arg for _, call in self.aggregates for arg in call.args])


@dataclass(frozen=True, slots=True, eq=False)
class SortKey(Node):
    """One key of a sort."""

    expr: Expr
    descending: bool = False
    nulls_last: bool = True

    def __repr__(self) -> str:
        return f"{self.expr!r}{' desc' if self.descending else ''}{'' if self.nulls_last else ' nulls first'}"


@dataclass(frozen=True, slots=True, eq=False)
class Sort(Operator):
    """The input's rows by the keys; rows with equal keys keep the input's order."""

    input: Operator
    keys: tuple[SortKey, ...]

    def _validate(self) -> None:
        if not self.keys:
            raise PlanError("a sort has keys")
        _known(self.input, [key.expr for key in self.keys])


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Operator):
    """``length`` rows from ``offset`` (negative: counted from the end); ``None`` is to the end."""

    input: Operator
    offset: int
    length: int | None

    def _validate(self) -> None:
        if self.length is not None and self.length < 0:
            raise PlanError("a slice's length is not negative")


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(Operator):
    """One row for each combination of ``subset``'s values: the first or last, or none of those that have a double."""

    input: Operator
    subset: tuple[str, ...]
    keep: Literal["first", "last", "none", "any"] = "first"

    def _validate(self) -> None:
        _known_names(self.input, self.subset)


@dataclass(frozen=True, slots=True, eq=False)
class Union(Operator):
    """The rows of the inputs, one after the other; all have the same schema."""

    parts: tuple[Operator, ...]

    def _validate(self) -> None:
        if not self.parts:
            raise PlanError("a union has inputs")
        first = schema(self.parts[0])
        for part in self.parts[1:]:
            if list(schema(part).items()) != list(first.items()):
                raise PlanError(f"union of different schemas: {first} and {schema(part)}")

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The parts."""
        return self.parts

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Operator:
        """The same union over other parts; itself if they are the same."""
        return self if all(new is old for new, old in zip(inputs, self.parts, strict=True)) else Union(inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Unpivot(Operator):
    """For each column of ``values``, in turn, all rows: the ``keep`` columns, the column's number, its value."""

    input: Operator
    keep: tuple[str, ...]
    values: tuple[str, ...]
    variable: str
    value: str

    def _validate(self) -> None:
        _known_names(self.input, (*self.keep, *self.values))
        _unique([*self.keep, self.variable, self.value])


_schemas: WeakKeyDictionary[Operator, Schema] = WeakKeyDictionary()


def schema(op: Operator) -> Schema:
    """Column names and physical dtypes of an operator's output, in order. Do not change the result."""
    known = _schemas.get(op)
    if known is None:
        known = _schemas[op] = _derive_schema(op)
    return known


def _derive_schema(op: Operator) -> Schema:
    match op:
        case Scan():
            dtypes = dict(op.source.columns)
            head: Schema = {op.row_number: pl.UInt32()} if op.row_number else {}
            return head | {name: dtypes[name] for name in op.columns}
        case Project():
            return {name: dtype_of(expr) for name, expr in op.columns}
        case Filter() | Sort() | Slice() | Distinct():
            return schema(op.input)
        case RowNumber():
            return {op.name: pl.UInt32(), **schema(op.input)}
        case Attach():
            dtypes = dict(op.source.columns)
            return schema(op.input) | {name: dtypes[name] for name in op.columns}
        case Join():
            if op.how in ("semi", "anti"):
                return schema(op.left)
            return schema(op.left) | schema(op.right)
        case Aggregate():
            keys: Schema = {name: dtype_of(expr) for name, expr in op.keys}
            return keys | {name: call.dtype for name, call in op.aggregates}
        case Union():
            return schema(op.parts[0])
        case Unpivot():
            inner = schema(op.input)
            kept = {name: inner[name] for name in op.keep}
            return kept | {op.variable: pl.UInt32(), op.value: inner[op.values[0]]}
        case _:
            raise PlanError(f"no schema rule for {type(op).__name__}")


def _unique(names: list[str]) -> None:
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise PlanError(f"column names of an operator are unique; given twice: {twice}")


def _known(op: Operator, exprs: list[Expr]) -> None:
    known = schema(op)
    for expr in exprs:
        if unknown := roots(expr) - known.keys():
            raise PlanError(f"{expr!r} reads {sorted(unknown)}; the input has {list(known)}")


def _known_names(op: Operator, names: tuple[str, ...]) -> None:
    known = schema(op)
    if unknown := [name for name in names if name not in known]:
        raise PlanError(f"the input has no columns {unknown}; it has {list(known)}")
