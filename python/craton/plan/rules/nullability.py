"""Rules for columns that are known to have no nulls, or no NaN."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from craton.plan.expr import Call, Column, Expr, Literal
from craton.plan.operators import Aggregate, AggregateCall, Join, JoinHow, Operator, Project
from craton.plan.origin import origin
from craton.plan.sources import FileSource, MemorySource
from craton.plan.visit import rewritten

_KEEPING_VALUES: tuple[JoinHow, ...] = ("inner", "left", "semi", "anti")
_MOST_KNOWN = 256
#: Whether the columns in memory that were used last contain NaN, by the source's token and the column's name.
_with_nan: OrderedDict[tuple[int, str], bool] = OrderedDict()


def keep_numbers(root: Operator) -> Operator:
    """Do not convert NaN to null in columns without NaN.

    ``Project[y = fill_nan(x, null)](L)`` becomes ``Project[y = x](L)``, and ``Aggregate[mean(fill_nan(x, null)) by k](L)``
    becomes ``Aggregate[mean(x) by k](L)``.

    Valid where ``x`` is a column in memory without NaN, and no operator in between computes it: joins only add nulls. The
    column is read once to see this, which takes a tenth of the time of the conversion.
    """
    return rewritten(root, lambda op, inputs: _of_numbers(op.with_inputs(inputs)))


def _of_numbers(op: Operator) -> Operator:
    if isinstance(op, Project):
        columns = tuple((name, _number(op.input, expr)) for name, expr in op.columns)
        return op if columns == op.columns else replace(op, columns=columns)
    if not isinstance(op, Aggregate) or not op.keys:
        return op
    calls = tuple(
        (name, replace(call, args=tuple(_number(op.input, arg) for arg in call.args))) for name, call in op.aggregates
    )
    return op if calls == op.aggregates else replace(op, aggregates=calls)


def _number(below: Operator, arg: Expr) -> Expr:
    if not isinstance(arg, Call) or arg.function != "fill_nan":
        return arg
    column, other = arg.args
    if not isinstance(column, Column) or not isinstance(other, Literal) or other.value is not None:
        return arg
    found = origin(below, column.name, joins=_KEEPING_VALUES)
    if found is None or not isinstance(found[0].source, MemorySource):
        return arg
    return arg if _has_nan(found[0].source, found[1]) else column


def _has_nan(source: MemorySource, name: str) -> bool:
    key = source.token, name
    known = _with_nan.get(key)
    if known is None:
        known = _with_nan[key] = bool(source.get_column(name).is_nan().any())
        while len(_with_nan) > _MOST_KNOWN:
            _with_nan.popitem(last=False)
    return known


def count_rows(root: Operator) -> Operator:
    """Count rows instead of values that are never null, so that the values need not be read.

    ``Aggregate[count(x)](L)`` becomes ``Aggregate[len()](L)``.

    Valid where ``x`` is a stored column without nulls, by its null count in memory or by a file's metadata, and no operator
    in between computes it or adds nulls to it, as an outer join does.
    """
    return rewritten(root, lambda op, inputs: _counted(op.with_inputs(inputs)))


def _counted(op: Operator) -> Operator:
    if not isinstance(op, Aggregate) or not any(call.function == "count" for _, call in op.aggregates):
        return op
    calls = tuple(
        (name, AggregateCall("len", (), call.dtype) if _counts_rows(op.input, call) else call)
        for name, call in op.aggregates
    )
    return op if calls == op.aggregates else replace(op, aggregates=calls)


def _counts_rows(below: Operator, call: AggregateCall) -> bool:
    return call.function == "count" and not call.options and _is_non_null(below, call.args[0])


def ignore_null_keys(root: Operator) -> Operator:
    """Do not match null keys in joins where one side has none.

    ``Join[a = b, nulls equal](L, R)`` becomes ``Join[a = b](L, R)``. The kernel can then skip rows of one side by the keys of
    the other while it reads them.

    Valid where in each pair of keys one key is never null: a null of the other has no match either way.
    """
    return rewritten(root, lambda op, inputs: _without_null_keys(op.with_inputs(inputs)))


def _without_null_keys(op: Operator) -> Operator:
    if not isinstance(op, Join) or not op.nulls_equal or not op.left_on:
        return op
    pairs = zip(op.left_on, op.right_on, strict=True)
    if all(_is_non_null(op.left, ours) or _is_non_null(op.right, theirs) for ours, theirs in pairs):
        return replace(op, nulls_equal=False)
    return op


def _is_non_null(below: Operator, expr: Expr) -> bool:
    """Whether an expression over an operator is a stored column without nulls to which no operator in between adds any."""
    if not isinstance(expr, Column):
        return False
    found = origin(below, expr.name, joins=_KEEPING_VALUES, groups=True)
    if found is None:
        return False
    source, name = found[0].source, found[1]
    if isinstance(source, MemorySource):
        return name in dict(source.columns) and not source.has_nulls(name)
    return isinstance(source, FileSource) and name in source.complete
