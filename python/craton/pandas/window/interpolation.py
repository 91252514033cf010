"""``interpolate``: missing values between their neighbours, by position or by the row labels."""

from __future__ import annotations

from typing import Any

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.data_checks import any_missing
from craton.pandas.core.dtypes import family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.view import Value, View
from craton.plan.expr import Call, Expr, WindowCall, options
from craton.refusals import Refusal


def interpolated(self: Any, named: dict[str, Any]) -> Any:
    """``interpolate`` with arguments that differ from their defaults.

    Raises
    ------
    Unsupported
        If the method needs SciPy, or the columns are not numbers of NumPy.
    """
    how, limit = named.pop("method", "linear"), named.pop("limit", None)
    direction, area = named.pop("limit_direction", None) or "forward", named.pop("limit_area", None)
    if named.pop("axis", 0) not in (0, "index") or named:
        raise Unsupported(Refusal.PARAMETERS, "axis and inplace")
    if direction not in ("forward", "backward", "both") or area not in (None, "inside", "outside"):
        raise Unsupported(Refusal.PARAMETERS, "limit_direction and limit_area")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise Unsupported(Refusal.PARAMETER, f"limit={limit!r}")
    held = resolved(view(self))
    position = _positions(held, how)
    choice = options(limit=limit, direction=direction, area=area)
    return lazy(type(self), held.with_values([_filled(value, position, choice) for value in held.values]), self)


def _positions(held: View, how: Any) -> tuple[Expr, ...]:
    """The axis on which missing values are interpolated, if it is not that of the row numbers."""
    if how == "linear" or (how in ("index", "values") and held.index.kind == "default"):
        return ()
    if how not in ("index", "values", "time") or held.index.kind not in ("range", "labels"):
        raise Unsupported(Refusal.PARAMETER, f"method={how!r}")
    (label,) = held.index.values
    kind = kind_of(label.dtype)
    if family(label.dtype) != "numpy" or kind not in ("mM" if how == "time" else "ifmM") or any_missing(held, label):
        raise Unsupported(Refusal.PARAMETER, f"method={how!r}")
    return (Call("cast", (label.expr,), pl.Int64()) if kind in "mM" else label.expr,)


def _filled(value: Value, position: tuple[Expr, ...], choice: Any) -> Value:
    kind = kind_of(value.dtype)
    if family(value.dtype) != "numpy" or kind not in "biuf":
        raise Unsupported(Refusal.OPERATION, f"interpolate of {value.dtype}")
    if kind != "f":
        return value
    clean = value.clean
    expr = WindowCall("interpolate", (clean.expr, *position), clean.physical, (), choice)
    return Value(expr, value.dtype, nulls=True)
