"""Conditions on rows: as texts, as tuples, and as expressions of Arrow."""

from __future__ import annotations

import ast
import functools
import operator
import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from craton.records import dataclass

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = ["TextCondition", "bound", "condition", "condition_bytes"]


@dataclass(frozen=True, slots=True)
class TextCondition:
    """A condition as a text. What it means depends on the types of the columns: a text is a time where it is compared with times."""

    text: str

    def __str__(self) -> str:
        return self.text

    def expression(self, schema: pa.Schema) -> pc.Expression:
        """The condition on the rows of a table."""
        return _Reader(schema).condition(ast.parse(self.text, mode="eval").body)


def condition(given: Any) -> Any:
    """Check a condition: a text, tuples as for `pandas.read_parquet`, or an expression of Arrow.

    Raises
    ------
    ValueError
        If a text is not understood.
    TypeError
        If it is of another type.
    """
    if given is None or isinstance(given, TextCondition):
        return given
    if isinstance(given, str):
        made = TextCondition(given.strip())
        try:
            made.expression(pa.schema([]))
        except SyntaxError as error:
            raise ValueError(f"the condition {given!r} is not understood: {error.msg}") from None
        except _NotUnderstood as error:
            raise ValueError(f"the condition {given!r} is not understood: {error}; {_UNDERSTOOD}") from None
        return made
    import pyarrow.compute as pc

    if isinstance(given, pc.Expression):
        return given
    if isinstance(given, (list, tuple)):
        import pyarrow.parquet as pq

        return pq.filters_to_expression([given] if isinstance(given, tuple) else given)
    raise TypeError(
        f"where is a text, a list of tuples or an expression of pyarrow.compute, not {type(given).__name__}"
    )


def bound(schema: pa.Schema, *conditions: Any) -> pc.Expression | None:
    """The conditions, all of which must be true, as an expression on the rows of a table; None if there are none.

    Examples
    --------
    >>> str(bound(pa.schema({"a": "int64"}), condition("a > 1"), None, condition("not a == 5")))
    '((a > 1) and invert((a == 5)))'
    """
    given = [one.expression(schema) if isinstance(one, TextCondition) else one for one in conditions if one is not None]
    return functools.reduce(operator.and_, given) if given else None


def condition_bytes(given: Any) -> bytes:
    """Bytes that are equal for equal conditions."""
    return b"" if given is None else pickle.dumps(given)


class _NotUnderstood(Exception):
    """A part of a condition that has no meaning here."""


_UNDERSTOOD = "it may have columns, numbers, texts, comparisons, `in`, `and`, `or`, `not`, + - * / and parentheses"
_COMPARISONS = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class _Reader:
    """Makes expressions of the syntax of Python.

    Parameters
    ----------
    schema
        The columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def condition(self, node: ast.expr) -> pc.Expression:
        """A part that is true or false for each row."""
        match node:
            case ast.UnaryOp(ast.Not(), inner):
                return ~self.condition(inner)
            case ast.BoolOp(joint, parts):
                join = operator.and_ if isinstance(joint, ast.And) else operator.or_
                return functools.reduce(join, map(self.condition, parts))
            case ast.Compare(left, kinds, rights):
                sides = zip([left, *rights], kinds, rights, strict=False)
                return functools.reduce(operator.and_, (self._comparison(*side) for side in sides))
            case ast.Name():
                return self._value(node)  # type: ignore[no-any-return]
        raise _NotUnderstood(f"{ast.unparse(node)} is neither true nor false")

    def _comparison(self, left: ast.expr, kind: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(kind, (ast.In, ast.NotIn)):
            return self._membership(left, right, isinstance(kind, ast.In))
        if type(kind) not in _COMPARISONS:
            raise _NotUnderstood(ast.unparse(ast.Compare(left, [kind], [right])))
        if not (_names(left) or _names(right)):
            raise _NotUnderstood(f"{ast.unparse(ast.Compare(left, [kind], [right]))} names no column")
        return _COMPARISONS[type(kind)](self._value(left, right), self._value(right, left))

    def _membership(self, left: ast.expr, right: ast.expr, within: bool) -> Any:
        try:
            values = [_literal(value, self._type(left)) for value in ast.literal_eval(right)]
        except (ValueError, TypeError):
            raise _NotUnderstood(f"`in {ast.unparse(right)}` needs a list of constants") from None
        if not _names(left):
            raise _NotUnderstood(f"{ast.unparse(left)} names no column")
        found = self._value(left).isin(values)
        return found if within else ~found

    def _value(self, node: ast.expr, other: ast.expr | None = None) -> Any:
        """A column, a constant, or arithmetic; a constant in the type of what it is compared with."""
        import pyarrow.compute as pc

        match node:
            case ast.Name(name):
                return pc.field(name)
            case ast.Constant(value) if isinstance(value, (bool, int, float, str)):
                return pc.scalar(_literal(value, None if other is None else self._type(other)))
            case ast.UnaryOp(ast.USub(), ast.Constant(value)) if isinstance(value, (int, float)):
                return self._value(ast.Constant(-value), other)
            case ast.BinOp(left, kind, right) if type(kind) in _ARITHMETIC:
                return _ARITHMETIC[type(kind)](self._value(left), self._value(right))
        raise _NotUnderstood(ast.unparse(node))

    def _type(self, node: ast.expr) -> pa.DataType | None:
        """The type of a column; None if it is none that is known."""
        if isinstance(node, ast.Name) and self._schema.names.count(node.id) == 1:
            return self._schema.field(node.id).type
        return None


def _names(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Name) for one in ast.walk(node))


def _literal(value: Any, kind: pa.DataType | None) -> Any:
    """A constant in the type of a column: texts as times, numbers as decimals."""
    if kind is None:
        return value
    if isinstance(value, str) and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        import pandas as pd

        moment = pd.Timestamp(value)
        if pa.types.is_date(kind):
            return moment.date() if moment == moment.normalize() else moment
        if kind.tz is not None:
            moment = moment.tz_localize(kind.tz) if moment.tzinfo is None else moment.tz_convert(kind.tz)
        return moment
    if pa.types.is_decimal(kind) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return Decimal(repr(value))
    return value
