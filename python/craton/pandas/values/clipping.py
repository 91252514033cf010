"""``clip``: by scalars, by columns, or by one bound for each column."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.types import is_scalar

from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.dtypes import family, kind_of, same_dtype
from craton.pandas.core.lazy import view
from craton.pandas.core.view import Value, View
from craton.pandas.values.by_label import clipped_by_series
from craton.pandas.values.elementwise import binary
from craton.pandas.values.filling import constant
from craton.pandas.values.operands import is_na
from craton.plan.expr import Call
from craton.refusals import Refusal


def clipped(value: Value, lower: Any, upper: Any) -> Value:
    """``clip`` between scalars; ``None`` is no bound."""
    if not value.definite or kind_of(value.dtype) not in "iufM" or family(value.dtype) not in ("numpy", "masked"):
        raise Unsupported(Refusal.OPERATION, f"clip of {value.dtype}")
    limits = {}
    for bound, name in ((lower, "lt"), (upper, "gt")):
        if bound is not None:
            limits[name] = constant(bound, value), bound
    if len(limits) == 2 and lower > upper:
        limits = {"lt": (limits["gt"][0], upper), "gt": (limits["lt"][0], lower)}
    expr = value.expr
    for name, (limit, bound) in limits.items():
        outside = binary(name, value, bound)
        expr = Call("when", (outside.expr, limit.expr, expr), value.physical)
    return Value(expr, value.dtype, value.nulls, value.nans)


def clipped_by_column(value: Value, given: Value, bound: Value, outside: str) -> Value:
    """``clip`` by a column of the same rows; a missing bound is none.

    Parameters
    ----------
    value
        The column, perhaps clipped by the lower bound.
    given
        The column that pandas compares with the bound: the one before any clipping, unless it is clipped in place.
    outside
        ``lt`` if the bound is the lower one, ``gt`` if it is the upper one.
    """
    if not (value.definite and bound.definite and same_dtype(value.dtype, bound.dtype)):
        raise Unsupported(Refusal.OPERATION, f"clip of {value.dtype} by {bound.dtype}")
    if kind_of(value.dtype) not in "iuf" or family(value.dtype) != "numpy":
        raise Unsupported(Refusal.OPERATION, f"clip of {value.dtype}")
    beyond = binary(outside, given, bound)
    expr = Call("when", (beyond.expr, bound.expr, value.expr), value.physical)
    return Value(expr, value.dtype, value.nulls, value.nans)


def clipped_view(obj: Any, lower: Any, upper: Any, axis: Any, inplace: Any, kwargs: dict[str, Any]) -> View | None:
    """``clip`` of a frame or a series; None if pandas returns the object itself, so that later writes change both."""
    if isinstance(obj, pd.Series) and (isinstance(lower, pd.Series) or isinstance(upper, pd.Series)):
        return _clip_by_columns(obj, lower, upper, axis, inplace, kwargs)
    if kwargs:
        raise Unsupported(Refusal.PARAMETERS, "axis, lower and upper")
    if not is_scalar(lower) or not is_scalar(upper):
        return clipped_by_series(obj, lower, upper, axis, inplace is True)
    if axis not in (None, 0):
        raise Unsupported(Refusal.PARAMETERS, "axis, lower and upper")
    lower = None if is_na(lower) else lower
    upper = None if is_na(upper) else upper
    if lower is None and upper is None and isinstance(inplace, bool):
        return None
    held = view(obj)
    return held.with_values([clipped(value, lower, upper) for value in held.values])


def _clip_by_columns(obj: Any, lower: Any, upper: Any, axis: Any, inplace: Any, kwargs: dict[str, Any]) -> View:
    """``clip`` of a Series by others, or by another and a scalar."""
    if axis not in (None, 0, "index") or kwargs:
        raise Unsupported(Refusal.PARAMETER, "axis")
    held = view(obj)
    held = held.with_values(held.values * 2, held.labels.repeat(2))
    for bound, outside in ((lower, "lt"), (upper, "gt")):
        if isinstance(bound, pd.Series):
            held, other = aligned(held, view(bound))
            clipped_before, given = held.values
            value = clipped_by_column(
                clipped_before, clipped_before if inplace is True else given, other.values[0], outside
            )
        elif not is_scalar(bound):
            raise Unsupported(Refusal.PARAMETERS, "axis, lower and upper")
        elif is_na(bound):
            continue
        else:
            limits = (bound, None) if outside == "lt" else (None, bound)
            value = clipped(held.values[0], *limits)
        held = held.with_values([value, held.values[1]])
    return held.take([0])
