"""Columns whose values depend on other rows: cumulative functions, shifts and differences, ranks, forward and backward fills.

Result dtypes and errors come from pandas, which runs on a stand-in column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.extensions import no_default
from pandas.api.types import is_integer, is_scalar
from pandas.core.arrays import BaseMaskedArray

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.dtypes import DtypeObj, family, kind_of, physical
from craton.pandas.core.execute import has_rows, resolved
from craton.pandas.core.lazy import consolidated, finished, lazy, view
from craton.pandas.core.native import native
from craton.pandas.core.view import Value, View
from craton.pandas.reductions.reductions import along_columns, arguments, numeric_columns
from craton.pandas.window.shifts import several_shifts, shifted_labels
from craton.plan.expr import Call, Expr, Literal, Options, WindowCall, options
from craton.refusals import Refusal

_CUMULATIVE = {"cumsum": "cum_sum", "cumprod": "cum_prod", "cummin": "cum_min", "cummax": "cum_max"}
_RANKS = {
    "average": "rank_average",
    "min": "rank_min",
    "max": "rank_max",
    "first": "rank_ordinal",
    "dense": "rank_dense",
}


def _window(function: str, args: tuple[Expr, ...], dtype: pl.DataType, choice: Options = ()) -> Expr:
    return WindowCall(function, args, dtype, (), choice)


def _cast(expr: Expr, dtype: pl.DataType, of: pl.DataType) -> Expr:
    return expr if dtype == of else Call("cast", (expr,), dtype)


def stand_in_result(value: Value, method: str, /, **named: Any) -> pd.Series:
    """The result of a pandas method on a stand-in of a column."""
    return stand_ins.probe_cached(  # type: ignore[no-any-return]
        "window", (value.dtype, method, named), lambda: getattr(stand_ins.column(value.dtype, 2), method)(**named)
    )


def _usable(value: Value) -> Value:
    from craton.pandas.reductions.statistics import normalised

    if family(value.dtype) in ("category", "object"):
        raise Unsupported(Refusal.OPERATION, f"a window function of {value.dtype}")
    return normalised(value)


def _checked_value(expr: Expr, dtype: DtypeObj, nulls: bool, nans: bool = False) -> Value:
    if physical(dtype) != expr.dtype:  # type: ignore[attr-defined]
        raise Unsupported(Refusal.WINDOW_RESULT, dtype)
    return Value(expr, dtype, nulls, nans)


def cumulated(value: Value, name: str, skipna: bool) -> Value:
    """A cumulative sum, product, minimum or maximum."""
    value = _usable(value)
    kinds = "biufmM" if name in ("cummin", "cummax") else "biuf"
    if kind_of(value.dtype) not in kinds or family(value.dtype) == "arrow":
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
    dtype = stand_in_result(value, name, skipna=skipna).dtype
    kind = physical(dtype)
    if name == "cumprod" and kind == pl.Float32():
        raise Unsupported(Refusal.SINGLE_PRODUCTS)
    if name in ("cumsum", "cumprod") and family(value.dtype) == "masked" and kind.is_float():
        raise Unsupported(Refusal.NULLABLE_TOTALS)
    arg, floating = _cast(value.expr, kind, value.physical), kind.is_float()
    missing: Expr = Call("is_null", (arg,), pl.Boolean())
    bounded = floating and value.nulls and family(value.dtype) == "masked"
    if bounded:  # pandas treats a missing number as the largest finite one (cummin) or the smallest (cummax)
        farthest = float(np.finfo(dtype.numpy_dtype).max) * (1 if name == "cummin" else -1)  # type: ignore[union-attr]
        arg = Call("when", (missing, Literal(farthest, kind), arg), kind)
    expr = _window(_CUMULATIVE[name], (arg,), kind)
    if bounded:
        expr = Call("when", (missing, Literal(None, kind), expr), kind)
    if not skipna and value.nulls:
        seen = _window("cum_max", (Call("is_null", (value.expr,), pl.Boolean()),), pl.Boolean())
        expr = Call("when", (seen, Literal(None, kind), expr), kind)
    return _checked_value(expr, dtype, value.nulls, floating)


def shifted(value: Value, periods: int, fill_value: Any) -> Value:
    """The values of the rows ``periods`` before."""
    from craton.pandas.values.constants import constant_of

    value = _usable(value)
    result = stand_in_result(value, "shift", periods=1 if periods else 0, fill_value=fill_value)
    kind = physical(result.dtype)
    if not periods:
        return value
    filler = constant_of(result._values[:1], result.dtype)
    arg = _cast(value.expr, kind, value.physical)
    missing = filler.expr.value is None  # type: ignore[attr-defined]
    args = (arg,) if missing else (arg, filler.expr)
    return _checked_value(_window("shift", args, kind, options(periods=periods)), result.dtype, value.nulls or missing)


def differences(held: View, value: Value, periods: int) -> Value:
    """The difference of each value and the one ``periods`` rows before; with pandas' overflow check for datetimes and timedeltas."""
    from craton.pandas.values.arithmetic import arithmetic

    value = _usable(value)
    dtype = stand_in_result(value, "diff", periods=1).dtype
    kind = kind_of(value.dtype)
    if family(value.dtype) != "numpy" or kind not in "ifmM" or getattr(value.dtype, "tz", None) is not None:
        raise Unsupported(Refusal.OPERATION, f"diff of {value.dtype}")
    if kind in "mM":
        return arithmetic("sub", value, shifted(value, periods, no_default), dtype, held)
    target = physical(dtype)
    # pandas subtracts 32-bit and 64-bit integers in their own dtype, and converts smaller ones first, so that no difference overflows.
    wide: pl.DataType = pl.Int64() if value.dtype in (np.dtype("int8"), np.dtype("int16")) else value.physical
    now = _cast(value.expr, wide, value.physical)
    before = _window("shift", (now,), wide, options(periods=periods))
    difference = Call("sub", (now, before), wide)
    return _checked_value(_cast(difference, target, difference.dtype), dtype, True, target.is_float())


def ranked(value: Value, method: str, ascending: bool, pct: bool) -> Value:
    """The rank of each value; missing values have no rank."""
    value = _usable(value)
    if family(value.dtype) not in ("numpy", "str"):
        raise Unsupported(Refusal.OPERATION, f"rank of {value.dtype}")
    dtype = stand_in_result(value, "rank", method=method, ascending=ascending, pct=pct).dtype
    choice = options(descending=not ascending)
    expr = _window(_RANKS[method], (value.expr,), pl.Float64(), choice)
    if pct:
        total = (
            _window("max", (expr,), pl.Float64())
            if method == "dense"
            else _cast(_window("count", (value.expr,), pl.Int64()), pl.Float64(), pl.Int64())
        )
        expr = Call("truediv", (expr, total), pl.Float64())
    return _checked_value(expr, dtype, value.nulls)


def fill_from_neighbours(value: Value, name: str, limit: int | None) -> Value:
    """Fill missing values from the previous (``ffill``) or the next row (``bfill``)."""
    from craton.pandas.reductions.statistics import normalised

    if not value.nulls and not value.nans:
        return value
    value = normalised(value)
    if family(value.dtype) == "object":
        raise Unsupported(Refusal.OBJECTS)
    function = "forward_fill" if name == "ffill" else "backward_fill"
    return replace(value, expr=_window(function, (value.expr,), value.physical, options(limit=limit)))


# -- methods ---------------------------------------------------------------------------------------------------------


def _map_columns(self: Any, change: Callable[[Value], Value], held: View | None = None) -> Any:
    held = resolved(view(self) if held is None else held)
    return lazy(type(self), held.with_values([change(value) for value in held.values]), self)


def _rows_only(named: dict[str, Any]) -> None:
    if named.pop("axis", 0) not in (0, "index", "rows", None):
        raise Unsupported(Refusal.PARAMETER, "axis")


def _along_columns(self: Any, name: str, named: dict[str, Any]) -> Any:
    """The method with ``axis=1``, with plain arguments."""
    from craton.pandas.reductions.row_reductions import transform_rows

    held = view(self)
    if named.pop("numeric_only", False) is not False:
        held = numeric_columns(held, "numeric_only")
    if not all(isinstance(item, (bool, int, str)) for item in named.values()):
        raise Unsupported(Refusal.PARAMETERS, ", ".join(sorted(named)))
    return transform_rows(self, name, held, named)


def _cumulation(base: type, name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(base, name, args, kwargs)
        if base is pd.DataFrame and along_columns(named):
            return _along_columns(self, name, named)
        _rows_only(named)
        skipna = named.pop("skipna", True)
        if not isinstance(skipna, bool):
            raise Unsupported(Refusal.PARAMETER, f"skipna={skipna!r}")
        held = view(self)
        if named.pop("numeric_only", False):
            held = numeric_columns(held, "numeric_only")
        if named:
            raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(named)))
        return _map_columns(self, lambda value: cumulated(value, name, skipna), held)

    own = getattr(base, name)

    def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
        _own_masked_arrays(self)
        return own(self, *args, **kwargs)

    return native(base, name, theirs=theirs, like=own)(method)


def _own_masked_arrays(obj: Any) -> None:
    """Copy masked arrays that are views of read-only memory: pandas' cumulative functions write to the masked values.

    The results of Craton are read-only arrays over Arrow memory, and ``convert_dtypes``, ``astype`` and ``Series(dtype=…)`` of pandas make
    a masked array of such an array without a copy.
    """
    for block in obj._mgr.blocks:
        values = block.values
        if isinstance(values, BaseMaskedArray) and not values._data.flags.writeable:
            block.values = values.copy()


def _periods(named: dict[str, Any]) -> int:
    periods = named.pop("periods", 1)
    if not is_integer(periods) or abs(int(periods)) >= 2**31:
        raise Unsupported(Refusal.PARAMETER, f"periods={periods!r}")
    return int(periods)


def _shift(base: type) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(base, "shift", args, kwargs)
        if base is pd.DataFrame and along_columns(named):
            return _along_columns(self, "shift", named)
        _rows_only(named)
        freq, suffix = named.pop("freq", None), named.pop("suffix", None)
        fill_value = named.pop("fill_value", no_default)
        if freq is not None:
            if suffix is not None or fill_value is not no_default or set(named) - {"periods"}:
                raise Unsupported(Refusal.SHIFT_PERIODS)
            return finished(self, shifted_labels(view(self), _periods(named), freq))
        several = named.pop("periods") if isinstance(named.get("periods"), (list, tuple)) else None
        if several is None and suffix is not None:
            raise Unsupported(Refusal.PARAMETER, "suffix")
        periods = 1 if several is not None else _periods(named)
        if named or not (fill_value is no_default or is_scalar(fill_value)):
            raise Unsupported(Refusal.SHIFT_PERIODS)
        held = view(self)
        if base is pd.DataFrame and any(kind_of(value.dtype) in "biu" for value in held.values) and not has_rows(held):
            raise Unsupported(Refusal.NO_ROWS_DTYPES_KEPT)
        if several is not None:
            shift = partial(shifted, fill_value=fill_value)
            return several_shifts(self, resolved(held), list(several), suffix, shift)
        return _map_columns(self, lambda value: shifted(value, periods, fill_value), held)

    return native(base, "shift", fallback=_shift_in_blocks if base is pd.DataFrame else None)(method)


def _shift_in_blocks(frame: Any, *args: Any, **kwargs: Any) -> Any:
    """Pandas' own ``shift``. Along the columns its result depends on the blocks, so the frame is consolidated as in pandas."""
    axis = kwargs["axis"] if "axis" in kwargs else args[2] if len(args) > 2 else 0
    return pd.DataFrame.shift(frame if axis in (0, "index") else consolidated(frame, False), *args, **kwargs)


def _diff(base: type) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(base, "diff", args, kwargs)
        if base is pd.DataFrame and along_columns(named):
            return _along_columns(self, "diff", named)
        _rows_only(named)
        periods = _periods(named)
        if named:
            raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(named)))
        held = resolved(view(self))
        return _map_columns(self, lambda value: differences(held, value, periods), held)

    return native(base, "diff")(method)


def _in_pandas(obj: Any, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The result of pandas' own method, which has the row labels of the object."""
    from craton.pandas.values.whole_results import computed_by_pandas

    return computed_by_pandas(obj, lambda whole: method(whole, *args, **kwargs))


def _pct_change(base: Any) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(base, "pct_change", args, kwargs)
        periods = _periods(named)
        if named:
            return _in_pandas(self, base.pct_change, args, kwargs)
        return self / self.shift(periods=periods) - 1

    return native(base, "pct_change")(method)


def _rank(base: Any) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(base, "rank", args, kwargs)
        if base is pd.DataFrame and along_columns(named):
            return _along_columns(self, "rank", named)
        _rows_only(named)
        how, ascending, pct = named.pop("method", "average"), named.pop("ascending", True), named.pop("pct", False)
        if how not in _RANKS or not isinstance(ascending, bool) or not isinstance(pct, bool):
            raise Unsupported(Refusal.PARAMETERS, "method, ascending and pct")
        held = view(self)
        if base is pd.DataFrame and named.pop("numeric_only", False):
            held = numeric_columns(held, "numeric_only")
        numbers = all(family(v.dtype) == "numpy" and kind_of(v.dtype) in "iuf" for v in held.values)
        if named or (base is pd.DataFrame and not numbers):  # missing values that have ranks, and mixed columns
            return _in_pandas(self, base.rank, args, kwargs)
        return _map_columns(self, lambda value: ranked(value, how, ascending, pct), held)

    return native(base, "rank")(method)


def _fill_method(base: type, name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(base, name, args, kwargs)
        if base is pd.DataFrame and along_columns(named):
            if named:
                raise Unsupported(Refusal.PARAMETER, "axis")
            return _fill_from_columns(self, name)
        _rows_only(named)
        limit = named.pop("limit", None)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise Unsupported(Refusal.PARAMETER, f"limit={limit!r}")
        if named.keys() - {"inplace"}:
            raise Unsupported(Refusal.PARAMETER, f"{', '.join(sorted(named.keys() - {'inplace'}))}")
        held = resolved(view(self))
        result = held.with_values([fill_from_neighbours(value, name, limit) for value in held.values])
        inplace = named.pop("inplace", False)
        if not isinstance(inplace, bool):
            raise Unsupported(Refusal.PARAMETER, f"inplace={inplace!r}")
        new = finished(self, result, inplace)
        return self if inplace else new  # with inplace=True, too, pandas returns the object

    return native(base, name)(method)


def _interpolate(base: type) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.window.interpolation import interpolated

        return interpolated(self, arguments(base, "interpolate", args, kwargs))

    return native(base, "interpolate")(method)


def _fill_from_columns(self: Any, name: str) -> Any:
    """``ffill(axis=1)`` and ``bfill(axis=1)`` of columns of 64-bit floats."""
    held = resolved(view(self))
    if not held.values or any(value.dtype != np.float64 for value in held.values):
        raise Unsupported(Refusal.PARAMETER, "axis")
    values = [value.clean for value in held.values]
    filled = []
    for i, value in enumerate(values):
        others = values[:i][::-1] if name == "ffill" else values[i + 1 :]
        if others and value.nulls:
            expr = Call("coalesce", (value.expr, *(other.expr for other in others)), value.physical)
            value = replace(value, expr=expr)
        filled.append(value)
    return lazy(type(self), held.with_values(filled), self)


class FrameWindows:
    """Methods of DataFrame."""


class SeriesWindows:
    """Methods of Series."""


for _mixin, _base in ((FrameWindows, pd.DataFrame), (SeriesWindows, pd.Series)):
    for _name in _CUMULATIVE:
        setattr(_mixin, _name, _cumulation(_base, _name))
    for _name, _method in (
        ("shift", _shift),
        ("diff", _diff),
        ("pct_change", _pct_change),
        ("rank", _rank),
        ("interpolate", _interpolate),
    ):
        setattr(_mixin, _name, _method(_base))
    for _name in ("ffill", "bfill"):
        setattr(_mixin, _name, _fill_method(_base, _name))
