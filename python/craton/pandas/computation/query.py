"""``query`` and ``eval``: expressions in strings become the same operations as if they were written in Python.

pandas' own tokeniser prepares the text (backticks, ``@`` variables, ``&`` and ``|`` as ``and`` and ``or``), Python parses it, and
the expression is evaluated on lazy Series. Columns, variables, constants, operators, comparisons, attributes and method calls are
supported. Anything else is refused, and pandas evaluates it.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.computation.expr import _compose, _preparse, _replace_booleans, _replace_locals
from pandas.core.computation.ops import LOCAL_TAG
from pandas.core.computation.parsing import clean_backtick_quoted_toks, clean_column_name

from craton import warning_filters
from craton.errors import Unsupported
from craton.pandas.computation.expression_types import RESERVED_NAMES, check_types
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.dtypes import kind_of
from craton.pandas.core.lazy import lazy, view
from craton.refusals import Refusal

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.Invert: operator.invert,
    ast.Not: operator.invert,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def calling_frame() -> FrameType:
    """The innermost stack frame outside of pandas and Craton."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal_module(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    assert frame is not None
    return frame


def _is_internal_module(module: str) -> bool:
    if module.startswith("pandas.tests"):
        return False
    return module.partition(".")[0] in ("craton", "pandas")


def statements(text: str) -> list[ast.stmt]:
    """The lines of an expression as parsed Python statements, after pandas' preparation of the text.

    Raises
    ------
    Unsupported
        If a line is not valid, in which case pandas raises the error; or if the lines are not supported.
    """
    found: list[ast.stmt] = []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        try:
            clean = _preparse(line, f=_compose(_replace_locals, _replace_booleans, clean_backtick_quoted_toks))
            found += ast.parse(clean).body
        except Exception as error:
            raise Unsupported(Refusal.ERROR_OF_PANDAS, f"{type(error).__name__}: {error}") from error
    if not found or (len(lines) > 1 and any(not isinstance(node, ast.Assign) for node in found)):
        raise Unsupported(Refusal.EXPRESSION)
    if len(found) != len(lines):
        raise Unsupported(Refusal.EXPRESSION_LINES)
    return found


class Evaluator:
    """Evaluates parsed expressions on a frame.

    Parameters
    ----------
    frame
        The DataFrame to whose columns and index names refer.
    variables
        The values of ``@name``, by name.
    """

    def __init__(self, frame: Any, variables: Mapping[str, Any]) -> None:
        self._frame = frame
        self.variables = variables
        self._found: dict[int, Any] = {}  # values of names, attributes and calls, by the ids of their nodes
        held = view(frame)
        if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
            raise Unsupported(Refusal.DUPLICATE_LABELS)
        for name in {name for name in held.index.names if held.index.names.count(name) > 1} - {None}:
            raise Unsupported(Refusal.LEVEL_AMBIGUOUS, repr(name))
        self._columns = {clean_column_name(label): label for label in held.labels}

    def evaluate(self, node: ast.AST) -> Any:
        """The value of an expression.

        Raises
        ------
        Unsupported
            If pandas must evaluate the expression: its operators accept more than Python's, and it raises the errors.
        """
        self._found.clear()
        try:
            value, warns = warning_filters.detect_warnings(lambda: self(node))
            check_types(node, self._found)
        except Unsupported:
            raise
        except Exception as error:
            raise Unsupported(Refusal.ERROR_OF_PANDAS, f"{type(error).__name__}: {error}") from error
        if warns:
            raise Unsupported(Refusal.EXPRESSION_WARNS)
        return value

    def __call__(self, node: ast.AST) -> Any:
        """The value of a node."""
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            return self._value(node)
        self._found[id(node)] = value = self._value(node)
        return value

    def _value(self, node: ast.AST) -> Any:
        match node:
            case ast.Expr():
                return self(node.value)
            case ast.Constant():
                return node.value
            case ast.Name():
                return self._name(node.id)
            case ast.List() | ast.Tuple():
                return [self(item) for item in node.elts]
            case ast.UnaryOp() if type(node.op) in _UNARY:
                return self._unary(node.op, self(node.operand))
            case ast.BinOp() if type(node.op) in _BINARY:
                return self._binary(node.op, self(node.left), self(node.right))
            case ast.BoolOp():
                values = [self(value) for value in node.values]
                join: Any = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
                result = values[0]
                for value in values[1:]:
                    result = self._binary(join, result, value)
                return result
            case ast.Compare():
                return self._compare(node)
            case ast.Attribute():
                return getattr(self._object(node.value), node.attr)
            case ast.Call() if isinstance(node.func, ast.Attribute):
                named = {str(keyword.arg): self(keyword.value) for keyword in node.keywords}
                return self(node.func)(*[self(arg) for arg in node.args], **named)
            case _:
                raise Unsupported(Refusal.EXPRESSION_NODE, type(node).__name__)

    def _name(self, name: str) -> Any:
        if name.startswith(LOCAL_TAG):
            name = name.removeprefix(LOCAL_TAG)
            if name not in self.variables:
                raise Unsupported(Refusal.EXPRESSION_VARIABLE)
            return self.variables[name]
        if name in RESERVED_NAMES:
            raise Unsupported(Refusal.EXPRESSION_NAME, repr(name))
        if name in self._columns:
            return self._frame[self._columns[name]]
        held = view(self._frame)
        if held.index.kind != "multi" and (name == "index" or name == held.index.names[0]):
            held = held.numbered()

            return lazy(series_class(), replace(held.series(held.index.values[0], None)))
        raise Unsupported(Refusal.EXPRESSION_NAME, repr(name))

    def _object(self, node: ast.AST) -> Any:
        found = self(node)
        if not isinstance(found, pd.Series) and not isinstance(node, ast.Attribute):
            raise Unsupported(Refusal.EXPRESSION_ATTRIBUTE, type(found).__name__)
        return found

    def _unary(self, op: ast.unaryop, value: Any) -> Any:
        if isinstance(op, ast.Not) and not isinstance(value, pd.Series):
            raise Unsupported(Refusal.EXPRESSION_NEGATION)
        return _UNARY[type(op)](value)

    def _compare(self, node: ast.Compare) -> Any:
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            if len(node.ops) > 1:
                raise Unsupported(Refusal.EXPRESSION_MEMBER_CHAIN)
            (sought,) = node.comparators
            if isinstance(sought, (ast.List, ast.Tuple)) and any(isinstance(item, ast.Name) for item in sought.elts):
                return self._compare_one_by_one(node, sought.elts)
        left: Any = self(node.left)
        result: Any = None
        for op, (before, comparator) in zip(node.ops, pairwise([node.left, *node.comparators]), strict=True):
            right = self(comparator)
            _refuse_variable_beside_expression(op, (before, left), (comparator, right))
            part = self._binary(op, left, right)
            result = part if result is None else self._binary(ast.BitAnd(), result, part)
            left = right
        return result

    def _compare_one_by_one(self, node: ast.Compare, items: list[ast.expr]) -> Any:
        """Membership in a list that contains names of columns or variables: pandas compares with each item."""
        if len(items) < 2:
            raise Unsupported(Refusal.EXPRESSION_LIST)
        inside = isinstance(node.ops[0], ast.In)
        equal: ast.cmpop = ast.Eq() if inside else ast.NotEq()
        parts: list[ast.expr] = [ast.Compare(node.left, [equal], [item]) for item in items]
        return self(ast.BoolOp(ast.Or() if inside else ast.And(), parts))

    def _binary(self, op: ast.AST, left: Any, right: Any) -> Any:
        one, other = isinstance(left, pd.Series), isinstance(right, pd.Series)
        if isinstance(op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) and not (one and other):
            if isinstance(right, (list, str)) or isinstance(op, (ast.In, ast.NotIn)):
                return self._membership(op, left, right)
            if isinstance(left, (list, str)):
                return self._membership(op, right, left)
        if type(op) not in _BINARY:
            raise Unsupported(Refusal.EXPRESSION_NODE, type(op).__name__)
        if isinstance(left, (list, pd.DataFrame)) or isinstance(right, (list, pd.DataFrame)):
            raise Unsupported(Refusal.EXPRESSION_OPERAND)
        if not one and not other and isinstance(op, (ast.BitAnd, ast.BitOr)):
            raise Unsupported(Refusal.EXPRESSION_CONSTANTS)
        if isinstance(op, _ARITHMETIC) and any(_is_non_numeric(operand) for operand in (left, right)):
            raise Unsupported(Refusal.EXPRESSION_ARITHMETIC)
        if _is_converted_to_float32(left, right) or _is_converted_to_float32(right, left):
            raise Unsupported(Refusal.EXPRESSION_OPERAND)
        if _is_converted_to_timestamp(left, right) or _is_converted_to_timestamp(right, left):
            raise Unsupported(Refusal.EXPRESSION_DATES)
        return _BINARY[type(op)](left, right)

    def _membership(self, op: ast.AST, left: Any, right: Any) -> Any:
        if not isinstance(left, pd.Series):
            raise Unsupported(Refusal.EXPRESSION_MEMBER)
        if isinstance(right, str):
            if isinstance(op, (ast.In, ast.NotIn)):
                raise Unsupported(Refusal.EXPRESSION_MEMBER_STRING)
            right = [right]
        if isinstance(right, list) and any(isinstance(item, pd.Series) for item in right):
            raise Unsupported(Refusal.EXPRESSION_MEMBER_COLUMNS)
        found = left.isin(right)
        return ~found if isinstance(op, (ast.NotEq, ast.NotIn)) else found


def _is_non_numeric(operand: Any) -> bool:
    if isinstance(operand, pd.Series):
        return kind_of(view(operand).values[0].dtype) not in "biuf"
    return isinstance(operand, (str, bytes))


def _is_time(operand: Any) -> bool:
    return isinstance(operand, pd.Series) and kind_of(view(operand).values[0].dtype) == "M"


def _is_converted_to_timestamp(item: Any, beside: Any) -> bool:
    """Whether pandas converts a constant to a Timestamp, because the other operand is a column of datetimes.

    It does so for numbers and dates, and for strings and times without a time zone if the datetimes have one.
    """
    if isinstance(item, date) and not isinstance(item, datetime):
        return _is_time(beside)
    return (_is_number(item) and _is_time(beside)) or (_is_without_zone(item) and _is_zoned(beside))


def _is_converted_to_float32(item: Any, beside: Any) -> bool:
    """Whether pandas converts a constant to float32, the dtype of the other operand, by other rules than in its operators."""
    if isinstance(item, pd.Series) or type(item) in (int, float) or not isinstance(beside, pd.Series):
        return False
    return bool(view(beside).values[0].dtype == np.dtype("float32"))


def _refuse_variable_beside_expression(op: ast.AST, *sides: tuple[ast.AST, Any]) -> None:
    """Refuse ``a * 2 == @values``: pandas tests membership in a list only for names and constants."""
    operations = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare)
    if not isinstance(op, (ast.Eq, ast.NotEq)) or not any(isinstance(node, operations) for node, _ in sides):
        return
    if any(isinstance(value, (list, str)) and not isinstance(node, (ast.List, ast.Tuple)) for node, value in sides):
        raise Unsupported(Refusal.EXPRESSION_OPERAND)


def _is_zoned(operand: Any) -> bool:
    if not _is_time(operand):
        return False
    dtype: Any = view(operand).values[0].dtype
    return getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None) is not None


def _is_without_zone(operand: Any) -> bool:
    return isinstance(operand, (str, date, np.datetime64)) and getattr(operand, "tzinfo", None) is None


def _is_number(operand: Any) -> bool:
    return isinstance(operand, (int, float, np.number)) and not isinstance(operand, np.timedelta64)


def variables(named: dict[str, Any]) -> dict[str, Any]:
    """The values of ``@name`` in a call of ``query`` or ``eval``. Removes the arguments that define them from ``named``."""
    local, outer = named.pop("local_dict", None), named.pop("global_dict", None)
    level = named.pop("level", 0)
    frame: FrameType | None = calling_frame()
    for _ in range(level):
        frame = frame.f_back if frame is not None else None
    if frame is not None:
        local = frame.f_locals if local is None else local
        outer = frame.f_globals if outer is None else outer
    return {**(outer or {}), **(local or {})}
