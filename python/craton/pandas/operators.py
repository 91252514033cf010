"""``+``, ``<``, ``&`` and their kin on DataFrame and Series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from pandas._libs.lib import item_from_zerodim
from pandas.api.types import is_scalar
from pandas.core.ops.common import _maybe_match_name

from craton.errors import Unsupported
from craton.pandas.align import aligned
from craton.pandas.elementwise import ARITHMETIC, COMPARISON, LOGIC, binary, invert
from craton.pandas.lazy import lazy, view
from craton.pandas.native import dispatch, stays_in_pandas
from craton.pandas.view import View


def operate(name: str, left: Any, right: Any, reverse: bool = False) -> Any:
    """A binary operator on two pandas objects, or one and a scalar, as a plan."""
    held = view(left)
    right = item_from_zerodim(right)
    if is_scalar(right):
        values = [_ordered(name, value, right, reverse, held) for value in held.values]
        return lazy(type(left), held.with_values(values), left)
    if isinstance(left, pd.Series) and isinstance(right, pd.Series):
        held, other = aligned(held, view(right))
        value = _ordered(name, held.values[0], other.values[0], reverse, held)
        return lazy(type(left), held.series(value, _maybe_match_name(left, right)), left)
    raise Unsupported(f"an operand of type {type(right).__name__}")


def _ordered(name: str, left: Any, right: Any, reverse: bool, held: View) -> Any:
    return binary(name, right, left, held) if reverse else binary(name, left, right, held)


def _operator(dunder: str, name: str, reverse: bool) -> Callable[[Any, Any], Any]:
    def native_operator(self: Any, other: Any) -> Any:
        return operate(name, self, other, reverse)

    def method(self: Any, other: Any) -> Any:
        base = pd.DataFrame if isinstance(self, pd.DataFrame) else pd.Series
        fallback = getattr(base, dunder)
        if stays_in_pandas(self) and (not isinstance(other, (pd.DataFrame, pd.Series)) or stays_in_pandas(other)):
            return fallback(self, other)
        return dispatch(f"{base.__name__}.{dunder}", native_operator, fallback, self, (other,), {})

    method.__name__ = dunder
    method.__craton_native__ = native_operator  # type: ignore[attr-defined]
    return method


class BinaryOperators:
    """The operators of both classes."""

    def __invert__(self: Any) -> Any:
        base = pd.DataFrame if isinstance(self, pd.DataFrame) else pd.Series
        if stays_in_pandas(self):
            return base.__invert__(self)
        return dispatch(f"{base.__name__}.__invert__", _invert, base.__invert__, self, (), {})


def _invert(self: Any) -> Any:
    held = view(self)
    return lazy(type(self), held.with_values([invert(value) for value in held.values]), self)


for _name in (*ARITHMETIC, *COMPARISON, *LOGIC):
    _dunder = f"__{_name}__"
    setattr(BinaryOperators, _dunder, _operator(_dunder, _name, reverse=False))
    if _name not in COMPARISON:
        _reversed = f"__r{_name}__"
        setattr(BinaryOperators, _reversed, _operator(_reversed, _name, reverse=True))
BinaryOperators.__hash__ = None  # type: ignore[method-assign,assignment]
