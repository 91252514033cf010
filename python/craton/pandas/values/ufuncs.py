"""NumPy's universal functions on lazy objects: ``np.sqrt(series)``, ``np.maximum(frame, 0)``.

NumPy itself computes them, batch by batch, so that results are equal to the last bit. If ``np.errstate`` makes NumPy raise
or report floating-point errors, the call computes the function on all rows; if that raises, the call goes to pandas, which
raises the error. Functions that are operators (``np.add``) are planned as operators.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_scalar
from pandas.core.arraylike import array_ufunc
from pandas.core.ops.common import _maybe_match_name

from craton.errors import Unsupported
from craton.pandas.core import numpy_errors, stand_ins
from craton.pandas.core.align import aligned
from craton.pandas.core.counterparts import Counterpart, as_pandas
from craton.pandas.core.dtypes import family, numeric_dtype
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import by_arguments, native
from craton.pandas.core.routing import stays_in_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.operators import operate
from craton.refusals import Refusal

_OPERATORS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "true_divide": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_UNARY_OPERATORS = {"negative": "__neg__", "positive": "__pos__", "absolute": "__abs__"}


def _compute(ufunc: Any, operands: list[Any], held: View) -> Value:
    from craton.pandas.values.batches import COLUMN, batched, verified

    columns = [item for item in operands if isinstance(item, Value)]
    for column in columns:
        if family(column.dtype) != "numpy" or numeric_dtype(column.dtype).kind not in "biuf":
            raise Unsupported(Refusal.OPERATION, f"np.{ufunc.__name__} of {column.dtype}")
    few = [stand_ins.column(numeric_dtype(item.dtype), 1) if isinstance(item, Value) else item for item in operands]
    dtype = stand_ins.probe(stand_ins.result, ufunc, *few, about=f"np.{ufunc.__name__}").dtype
    # np.maximum of numbers and a timedelta gives timedeltas, some of them NaT.
    if dtype.kind not in "biuf":
        raise Unsupported(Refusal.OPERATION, f"np.{ufunc.__name__} with a result of {dtype}")
    args = tuple(COLUMN if isinstance(item, Value) else item for item in operands)
    if kinds := numpy_errors.reported_kinds():
        verified(held, batched("ufunc", ufunc.__name__, columns, dtype, args, raised=tuple(kinds)))
    result = batched("ufunc", ufunc.__name__, columns, dtype, args)
    if dtype.kind != "f":
        return Value(result.expr, dtype, nulls=False)
    return result


def apply_ufunc(self: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The plan of a ufunc call.

    Raises
    ------
    Unsupported
        For reductions and other methods, several outputs, and operands that are neither scalars nor lazy objects.
    """
    if method != "__call__" or kwargs or ufunc.nout != 1 or vars(np).get(ufunc.__name__) != ufunc:
        raise Unsupported(Refusal.OPTIONS_OF_UFUNC, f"np.{ufunc.__name__}.{method}")
    if ufunc.signature is not None or len(inputs) > 2:
        raise Unsupported(Refusal.FUNCTION_OF_OPERANDS, f"np.{ufunc.__name__}")
    if ufunc.__name__ in _OPERATORS and len(inputs) == 2:
        if inputs[0] is self:
            return operate(_OPERATORS[ufunc.__name__], self, inputs[1])
        if isinstance(inputs[0], (pd.DataFrame, pd.Series)):  # the left operand decides the names of the row labels
            return operate(_OPERATORS[ufunc.__name__], inputs[0], self)
        return operate(_OPERATORS[ufunc.__name__], self, inputs[0], reverse=True)
    if ufunc.__name__ in _UNARY_OPERATORS:
        return getattr(self, _UNARY_OPERATORS[ufunc.__name__])()
    others = [item for item in inputs if isinstance(item, (pd.Series, pd.DataFrame))]
    if any(not is_scalar(item) for item in inputs if not isinstance(item, (pd.Series, pd.DataFrame))):
        raise Unsupported(Refusal.FUNCTION_OF_ARRAY, f"np.{ufunc.__name__}")
    if len(others) == 1:
        held = resolved(view(self))
        values = [_compute(ufunc, [value if item is self else item for item in inputs], held) for value in held.values]
        if isinstance(self, pd.DataFrame) and len(inputs) > 1:
            raise Unsupported(Refusal.FUNCTION_OF_FRAME_AND_SCALAR)
        return lazy(type(self), held.with_values(values), self)
    if not all(isinstance(item, pd.Series) for item in others):
        raise Unsupported(Refusal.FUNCTION_OF_FRAMES)
    held, other = aligned(resolved(view(others[0])), resolved(view(others[1])))
    value = _compute(ufunc, [held.values[0], other.values[0]], held)
    # As in pandas, the result has the attrs and flags of neither operand.
    return lazy(type(self), held.series(value, _maybe_match_name(others[0], others[1])))


def _is_craton(item: Any) -> bool:
    return isinstance(type(item), Counterpart)


def _theirs(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Call pandas' own ``__array_ufunc__``, with plain pandas objects if frames and Series, or both libraries' objects, are combined.

    pandas refuses a frame with a Series, and recognises them by their exact classes. If the class of an operand has another
    ``__array_ufunc__``, pandas returns ``NotImplemented``; for an object of Craton and one of pandas, both would return it.
    """
    tables = [item for item in inputs if isinstance(item, (pd.Series, pd.DataFrame))]
    if len({item.ndim for item in tables}) > 1 or not all(map(_is_craton, tables)):
        plain = (as_pandas(item) if _is_craton(item) else item for item in inputs)
        return getattr(ufunc, method)(*plain, **kwargs)
    return pd.DataFrame.__array_ufunc__(self, ufunc, method, *inputs, **kwargs)


def _planned(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    return apply_ufunc(self, ufunc, method, inputs, kwargs)


def _stay(self: Any, ufunc: Any, method: str, *inputs: Any, **_: Any) -> bool:
    return all(stays_in_pandas(item) for item in inputs if isinstance(item, (pd.Series, pd.DataFrame)))


def _named(_: Any, ufunc: Any, *args: Any) -> str:
    return f"np.{ufunc.__name__}"


class _Priority:
    """``__pandas_priority__``: an operator of a pandas object returns ``NotImplemented`` if the operand has a higher priority.

    NumPy first calls the ``__array_ufunc__`` of the operand of the most derived class, which it finds by ``isinstance``. Craton's
    classes accept pandas' objects as instances, so for ``np.add(craton, theirs)`` NumPy first calls pandas' method. This would compute
    the reflected operator of ``theirs``, with the row labels of ``theirs`` first. In this call Craton's priority is higher, so that
    NumPy calls Craton's method next. In any other call the priority is that of pandas, because ``theirs += craton`` does not handle
    ``NotImplemented``.
    """

    def __get__(self, instance: Any, owner: type) -> int:
        priority = int(owner._stands_for.__pandas_priority__)  # type: ignore[attr-defined]
        operator = sys._getframe(1)
        from_ufunc = operator.f_back is not None and operator.f_back.f_code is array_ufunc.__code__
        return priority + 1 if from_ufunc else priority


class Ufuncs:
    """``__array_ufunc__`` of DataFrame and Series: one function for both, because pandas compares the operands' functions."""

    __pandas_priority__ = _Priority()
    __array_priority__ = pd.DataFrame.__array_priority__ + 1
    """Higher than pandas' own; otherwise pandas' frames would treat a Series of Craton as an array."""

    __array_ufunc__ = native(
        pd.DataFrame,
        "__array_ufunc__",
        theirs=_theirs,
        like=pd.DataFrame.__array_ufunc__,
        route=by_arguments(_stay),
        named=_named,
    )(_planned)
