"""``cut`` and ``qcut``: a query finds the edges, and pandas' own ``cut`` finds the bin of each value, one batch of rows at a time.

The edges of a number of bins depend on the least and the greatest value only, those of ``qcut`` on quantiles. With explicit edges,
the bin of a value depends on that value alone, and the categories on the edges alone. So pandas computes the edges and the
categories on a few values when the function is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_integer, is_list_like, is_scalar

from craton.engine import may_keep
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.dtypes import BOOL, FLOAT64, INT64, family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas, plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.reductions.statistics import compute
from craton.pandas.values.batches import COLUMN, batched, computed
from craton.plan import build
from craton.plan.expr import Call
from craton.refusals import Refusal


@native_function(pd.cut, stays=in_plain_pandas("x"))
def cut(
    x: Any,
    bins: Any,
    right: Any = True,
    labels: Any = None,
    retbins: Any = False,
    precision: Any = 3,
    include_lowest: Any = False,
    duplicates: Any = "raise",
    ordered: Any = True,
) -> Any:
    """Sort values into bins; see :func:`pandas.cut`."""
    held, value = _column(x)
    options = {
        "right": right,
        "labels": labels,
        "precision": precision,
        "include_lowest": include_lowest,
        "duplicates": duplicates,
        "ordered": ordered,
    }
    if not np.iterable(bins):
        bins = _edges_of_number(held, value, bins, options)
    elif not isinstance(bins, pd.Index):
        if not is_list_like(bins) or getattr(bins, "ndim", 1) != 1:
            raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
        with plain_pandas():
            bins = stand_ins.probe(pd.Index, bins)
    return _binned(held, value, bins, options, retbins)


@native_function(pd.qcut, stays=in_plain_pandas("x"))
def qcut(
    x: Any, q: Any, labels: Any = None, retbins: Any = False, precision: Any = 3, duplicates: Any = "raise"
) -> Any:
    """Sort values into bins of about equal size; see :func:`pandas.qcut`."""
    held, value = _column(x)
    if retbins and kind_of(value.dtype) in "mM":
        raise Unsupported(Refusal.OPERATION, f"quantiles of {value.dtype}")
    edges = pd.Index(_quantiles(held, value, _shares(q)), name=None)
    options = {"labels": labels, "precision": precision, "include_lowest": True, "duplicates": duplicates}
    return _binned(held, value, edges, options, retbins)


def _column(x: Any) -> tuple[View, Value]:
    """The view of a Series, and its values as pandas sorts them into bins."""
    if not isinstance(x, pd.Series):
        raise Unsupported(Refusal.COLUMN_FROM, type(x).__name__)
    held = resolved(view(x))
    (value,) = held.values
    kind = kind_of(value.dtype)
    if value.dtype == BOOL:
        return held, Value(Call("cast", (value.expr,), pl.Int64()), INT64, value.nulls)
    if kind not in "iuf" and not (kind in "mM" and family(value.dtype) == "numpy"):
        raise Unsupported(Refusal.DTYPE, value.dtype)
    if family(value.dtype) != "numpy":  # pandas converts nullable numbers to floats
        return held, Value(Call("cast", (value.expr,), pl.Float64()), FLOAT64, value.nulls, True)
    return held, value


def _edges_of_number(held: View, value: Value, number: Any, options: dict[str, Any]) -> pd.Index:
    """The edges of a number of bins of equal width, from pandas' own ``cut`` of the least and the greatest value."""
    if not is_integer(number) or isinstance(number, bool) or number < 1:
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    ends = compute(held, [("min", value, {}), ("max", value, {})])
    if any(map(pd.isna, ends)):
        raise Unsupported(Refusal.NO_VALUE)
    sample = pd.Series(ends, dtype=value.dtype)
    _, edges = stand_ins.probe(pd.cut, sample, number, right=options["right"], labels=False, retbins=True)
    return pd.Index(edges)


def _shares(q: Any) -> tuple[float, ...]:
    """The quantiles of a number of bins, as pandas rounds them, or those given."""
    if is_integer(q) and not isinstance(q, bool) and 1 <= q < 1000:
        # A quantile that is not exact is rounded up, so that its edge is not below the value that it stands for.
        steps = np.linspace(0, 1, int(q) + 1)
        inexact = int(q) * steps != np.arange(int(q) + 1)
        return tuple(np.where(inexact, np.nextafter(steps, 1), steps).tolist())
    if not is_list_like(q) or getattr(q, "ndim", 1) != 1 or not all(map(is_scalar, q)):
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    try:
        shares = tuple(float(share) for share in q)
    except (TypeError, ValueError) as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    if len(shares) < 2 or not all(0 <= share <= 1 for share in shares) or sorted(shares) != list(shares):
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    return shares


def _quantiles(held: View, value: Value, shares: tuple[float, ...]) -> pd.Series:
    """Quantiles of the values that are not missing."""
    value = value.clean
    if value.nulls:
        held, (expr,) = held.projected_with([value.expr])
        missing = Call("is_null", (expr,), pl.Boolean())
        held = held.filtered(Call("not", (missing,), pl.Boolean()))
        value = Value(expr, value.dtype, nulls=False)
    (found,) = compute(held, [("quantile", value, {"q": shares, "interpolation": "linear"})])
    if found.isna().any():
        raise Unsupported(Refusal.NO_VALUE)
    return found  # type: ignore[no-any-return]


def _binned(held: View, value: Value, edges: pd.Index, options: dict[str, Any], retbins: Any) -> Any:
    """The bin of each value, and with ``retbins`` the edges."""
    if isinstance(options["labels"], (pd.DataFrame, pd.Series, dict)) or hasattr(options["labels"], "__next__"):
        raise Unsupported(Refusal.ARGUMENT_TYPE, type(options["labels"]).__name__)
    kind = edges.dtype.kind
    if not isinstance(edges, (pd.IntervalIndex, pd.DatetimeIndex)) and not isinstance(edges.dtype, np.dtype):
        raise Unsupported(Refusal.DTYPE, edges.dtype)
    if isinstance(edges, pd.MultiIndex) or (not isinstance(edges, pd.IntervalIndex) and kind not in "iufmM"):
        raise Unsupported(Refusal.DTYPE, edges.dtype)
    sample = pd.Series(stand_ins.values(value.dtype))
    like, used = stand_ins.probe(pd.cut, sample, edges, retbins=True, **options)
    numbers = options["labels"] is False and not isinstance(edges, pd.IntervalIndex)
    result = batched("function", "cut", [value], INT64 if numbers else like.dtype, (COLUMN, edges), **options)
    # pandas raises an error for a timestamp or timedelta that does not fit the unit of the edges, so these are computed now.
    kept = may_keep(held.base)
    if kept or (kind in "mM" and edges.dtype != value.dtype):
        held, result = computed(held, result)
    if numbers:
        result = Value(result.expr, INT64, True, False, (build.project(held.base, (("bin", result.expr),)), "bin"))
        held = resolved(held.series(result, held.labels[0])) if kept else held
        result = held.values[0] if kept else result
    made = lazy(series_class(), held.series(result, held.labels[0]))
    return (made, used) if retbins else made


__all__ = ["cut", "qcut"]
