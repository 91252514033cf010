"""The operators of DataFrame and Series (``+``, ``<``, ``&``), and their method forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas._libs.lib import item_from_zerodim
from pandas.api.types import is_integer, is_scalar
from pandas.core.ops.common import _maybe_match_name

from craton.errors import Unsupported
from craton.pandas.core.dtypes import BOOL, kind_of, numeric_dtype, with_missing
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, replace_state, view
from craton.pandas.core.native import by_operands, by_reflected_operands, native
from craton.pandas.core.view import Value, View
from craton.pandas.values.gathering import aligned_or_joined
from craton.pandas.values.operands import ARITHMETIC, COMPARISON, LOGIC, is_na, is_row, probe
from craton.plan.expr import Call
from craton.refusals import Refusal


def operate(name: str, left: Any, right: Any, reverse: bool = False, equal: bool = False) -> Any:
    """The lazy result of a binary operator on two pandas objects, or on one and a scalar.

    With ``equal``, the row labels of two objects must be equal.
    """
    held = view(left)
    right = item_from_zerodim(right)
    if is_scalar(right):
        held = resolved(held, lambda value: _depends_on_dtype(name, value, right))
        values = [_binary_in_order(name, value, right, reverse, held) for value in held.values]
        return lazy(type(left), held.with_values(values), left)
    if isinstance(left, pd.Series) and isinstance(right, pd.Series):
        held, other = _with_decided_dtypes(name, *aligned_or_joined(held, view(right), equal or name in COMPARISON))
        value = _binary_in_order(name, held.values[0], other.values[0], reverse, held)
        return lazy(type(left), held.series(value, _maybe_match_name(left, right)), left, right)
    if isinstance(left, pd.DataFrame) and isinstance(right, pd.DataFrame):
        return _frames(name, left, right, reverse, equal)
    if isinstance(left, pd.DataFrame) and is_row(right):
        from craton.pandas.values.column_operators import operate_by_column

        return operate_by_column(name, left, right, reverse)
    raise Unsupported(Refusal.OPERAND_TYPE, type(right).__name__)


def _frames(name: str, left: Any, right: Any, reverse: bool, equal: bool) -> Any:
    held, other = view(left), view(right)
    if not held.labels.is_unique or not held.labels.identical(other.labels):
        raise Unsupported(Refusal.COLUMNS_DIFFER)
    held, other = aligned_or_joined(held, other, equal or name in COMPARISON, (True, True))
    held, other = _with_decided_dtypes(name, held, other)
    pairs = zip(held.values, other.values, strict=True)
    values = [_binary_in_order(name, one, another, reverse, held) for one, another in pairs]
    return lazy(type(left), held.with_values(values), left, right)


def _with_decided_dtypes(name: str, held: View, other: View) -> tuple[View, View]:
    """Both views, with the dtypes resolved that depend on the data and affect the operator's result; runs a query.

    ``other`` has one column for each column of ``held``, or a single column for all of them.
    """
    others = other.values if len(other.values) == len(held.values) else other.values * len(held.values)
    pairs = list(zip(held.values, others, strict=True))
    on_the_left = {one.source for one, another in pairs if _depends_on_dtype(name, one, another)}
    on_the_right = {another.source for one, another in pairs if _depends_on_dtype(name, another, one)}
    return (
        resolved(held, lambda value: value.source in on_the_left),
        resolved(other, lambda value: value.source in on_the_right),
    )


def _depends_on_dtype(name: str, value: Value, other: Any) -> bool:
    """Whether an operator's result depends on whether missing values turned a column of integers into floats."""
    if value.definite:
        return False
    if value.dtype == BOOL or name in LOGIC:
        return True
    if name in COMPARISON:
        if isinstance(other, Value):
            return value.may_round and kind_of(other.dtype) in "iu" and numeric_dtype(other.dtype).itemsize == 8
        return value.may_round and not isinstance(other, (float, np.floating)) and not _is_exact_float(other)
    dtype = probe(name, value, other)
    return kind_of(dtype) != "f" or probe(name, replace(value, dtype=with_missing(value.dtype)), other) != dtype


def _is_exact_float(scalar: Any) -> bool:
    """Whether a scalar is an integer in the range in which floats represent every integer exactly."""
    return is_integer(scalar) and -(2**53) < int(scalar) < 2**53


def _binary_in_order(name: str, left: Any, right: Any, reverse: bool, held: View) -> Any:
    from craton.pandas.values.elementwise import binary

    return binary(name, right, left, held) if reverse else binary(name, left, right, held)


def _operator(name: str, reverse: bool) -> Callable[[Any, Any], Any]:
    def native_operator(self: Any, other: Any) -> Any:
        if isinstance(self, pd.Series) and isinstance(other, pd.DataFrame):
            return NotImplemented  # as pandas: Python then calls the operator of the frame
        return operate(name, self, other, reverse)

    return native_operator


def _unary_operator(name: str) -> Callable[[Any], Any]:
    """The operator that a function of :mod:`craton.pandas.values.arithmetic` computes."""

    def native_unary(self: Any) -> Any:
        from craton.pandas.values import arithmetic

        function = getattr(arithmetic, name)
        held = resolved(view(self))
        return lazy(type(self), held.with_values([function(value) for value in held.values]), self)

    return native_unary


def _inplace(name: str) -> Callable[[Any, Any], Any]:
    def native_inplace(self: Any, other: Any) -> Any:
        result = view(operate(name, self, other, equal=True))
        if isinstance(self, pd.Series):
            result = result.series(result.values[0], self.name)
        replace_state(self, result)
        return self

    return native_inplace


def _filled_operands(held: View, other: Any, fill: Any) -> tuple[View, Any]:
    """Both operands, with ``fill_value`` in the rows where exactly one of them is missing."""
    from craton.pandas.values.filling import filled

    if not is_scalar(fill) or is_na(fill):
        raise Unsupported(Refusal.FILL_VALUE_NOT_SCALAR)
    if not isinstance(other, View):
        return held.with_values([filled(value, fill) for value in held.values]), other
    lefts, rights = [], []
    for one, another in zip(held.values, other.values, strict=True):
        lefts.append(_filled_unless_both_missing(one, another, fill))
        rights.append(_filled_unless_both_missing(another, one, fill))
    return held.with_values(lefts), other.with_values(rights)


def _filled_unless_both_missing(value: Value, other: Value, fill: Any) -> Value:
    from craton.pandas.values.comparison import is_missing
    from craton.pandas.values.filling import filled

    new = filled(value, fill)
    if new is value or not (other.nulls or other.nans):
        return new
    expr = Call("when", (is_missing(other).expr, value.clean.expr, new.expr), value.physical)
    return Value(expr, value.dtype, nulls=True)


def _method(base: type, method_name: str, name: str, reverse: bool) -> Callable[..., Any]:
    """The method form of an operator: ``add``, ``rsub``, ``eq``."""

    def flexible(
        self: Any, other: Any, *args: Any, level: Any = None, fill_value: Any = None, axis: Any = "default"
    ) -> Any:
        if args or level is not None or (axis != "default" and not isinstance(other, pd.Series)):
            raise Unsupported(Refusal.PARAMETERS, "level and axis")
        if base is pd.Series and axis not in ("default", 0, "index", None):
            raise Unsupported(Refusal.OPERATOR_ALONG_AXIS)
        if base is pd.DataFrame and isinstance(other, pd.Series):
            if fill_value is not None:
                raise Unsupported(Refusal.OPERATOR_ALONG_COLUMNS)
            if axis in ("default", 1, "columns") and axis is not True:
                return operate(name, self, other, reverse)
            if axis not in (0, "index"):
                raise Unsupported(Refusal.OPERATOR_ALONG_AXIS)
            return _columns_with_series(name, self, other, reverse)
        if fill_value is None or name in COMPARISON:
            if fill_value is not None:
                raise Unsupported(Refusal.FILLING_BEFORE_COMPARISON)
            return operate(name, self, other, reverse)
        return _filled_operation(name, self, other, reverse, fill_value)

    flexible.__name__ = method_name
    return native(base, method_name)(flexible)


def _filled_operation(name: str, left: Any, right: Any, reverse: bool, fill: Any) -> Any:
    held = resolved(view(left))
    if is_scalar(right):
        if is_na(right):
            raise Unsupported(Refusal.MISSING_OPERAND)
        held, other = _filled_operands(held, right, fill)
        return operate(name, lazy(type(left), held, left), right, reverse)
    if type(left) is not type(right):
        raise Unsupported(Refusal.OPERAND_TYPE, type(right).__name__)
    other, frames = resolved(view(right)), isinstance(left, pd.DataFrame)
    if frames and (not held.labels.is_unique or not held.labels.identical(other.labels)):
        raise Unsupported(Refusal.COLUMNS_DIFFER)
    held, other = aligned_or_joined(held, other, False, (frames, frames))
    held, other = _filled_operands(held, other, fill)
    return operate(name, lazy(type(left), held, left), lazy(type(right), other, right), reverse)


def _columns_with_series(name: str, frame: Any, series: Any, reverse: bool) -> Any:
    """An operator between each column and a Series, aligned by row labels: ``df.mul(series, axis=0)``."""
    held, other = _with_decided_dtypes(name, *aligned_or_joined(view(frame), view(series), False, (True, False)))
    values = [_binary_in_order(name, value, other.values[0], reverse, held) for value in held.values]
    return lazy(type(frame), held.with_values(values), frame, series)


class SeriesOperators:
    """The operators of Series, and their method forms."""


def _dot(self: Any, other: Any) -> Any:
    from craton.pandas.values.products import dot

    return dot(self, other)


class FrameOperators:
    """The operators of DataFrame, and their method forms."""

    dot = native(pd.DataFrame, "dot")(_dot)
    __matmul__ = native(pd.DataFrame, "__matmul__", route=by_operands)(_dot)


def _define_operators(owner: type, base: type) -> None:
    """Define the operators and their method forms on a class."""
    for name in (*ARITHMETIC, *COMPARISON, *LOGIC):
        dunder = f"__{name}__"
        setattr(owner, dunder, native(base, dunder, route=by_operands)(_operator(name, reverse=False)))
        if name not in COMPARISON:
            dunder = f"__r{name}__"
            setattr(owner, dunder, native(base, dunder, route=by_reflected_operands)(_operator(name, reverse=True)))
            dunder = f"__i{name}__"
            setattr(owner, dunder, native(base, dunder)(_inplace(name)))
        if name not in LOGIC:
            setattr(owner, name, _method(base, name, name, reverse=False))
            if name not in COMPARISON:
                setattr(owner, f"r{name}", _method(base, f"r{name}", name, reverse=True))
    owner.__rdivmod__ = native(base, "__rdivmod__", route=by_reflected_operands)(None)  # type: ignore[attr-defined]
    for alias, name in (("div", "truediv"), ("divide", "truediv"), ("multiply", "mul"), ("subtract", "sub")):
        setattr(owner, alias, _method(base, alias, name, reverse=False))
    setattr(owner, "rdiv", _method(base, "rdiv", "truediv", reverse=True))  # noqa: B010 - one of two classes
    unary = {"__invert__": "inverted", "__neg__": "negative", "__pos__": "positive", "__abs__": "absolute"}
    for dunder, name in unary.items():
        setattr(owner, dunder, native(base, dunder)(_unary_operator(name)))
    owner.__hash__ = None  # type: ignore[method-assign,assignment]


_define_operators(SeriesOperators, pd.Series)
_define_operators(FrameOperators, pd.DataFrame)
