"""Reductions of one column to a scalar: the aggregates that they need, and the exact scalar that pandas would return.

The engine computes plain aggregates, which skip missing values. For the corner cases (columns without values, ``skipna``,
``min_count``) and the class of the scalar, pandas reduces a stand-in: a column of the same dtype with similarly few values. So
results and errors in corner cases are pandas' own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from craton.engine import collect_scalars
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.array_conversion import to_array
from craton.pandas.core.data_checks import is_negative_zero
from craton.pandas.core.dtypes import (
    DtypeObj,
    distinguishes_nan,
    distinguishes_signed_zeros,
    family,
    kind_of,
    physical,
    with_missing,
)
from craton.pandas.core.execute import null_count
from craton.pandas.core.view import Value, View
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, options
from craton.plan.operators import AggregateCall, Operator
from craton.records import dataclass
from craton.refusals import Refusal

Fetch = Callable[[AggregateCall], pl.Series]


@dataclass(frozen=True, slots=True)
class Statistic:
    """The aggregates of a reduction, and the functions that make pandas' scalar from their results.

    Parameters
    ----------
    calls
        The aggregates that the engine computes.
    finish
        Returns the scalar. Its argument is a function that returns the one-row result of an aggregate.
    stand_in
        With the same argument, returns a stand-in, whose reduction as a DataFrame has the dtype of the result.
    """

    calls: tuple[AggregateCall, ...]
    finish: Callable[[Fetch], Any]
    stand_in: Callable[[Fetch], pd.Series]


def normalised(value: Value) -> Value:
    """A column with missing values as null, cast to the physical dtype of its pandas dtype."""
    value = value.clean
    wanted = physical(value.dtype)
    if value.physical != wanted:
        value = replace(value, expr=Call("cast", (value.expr,), wanted))
    return value


def aggregate(function: str, arg: Expr, dtype: pl.DataType, **named: Any) -> AggregateCall:
    """An aggregate of one expression."""
    return AggregateCall(function, (arg,), dtype, options(**named))


def pandas_result(series: pd.Series | pd.DataFrame, name: str, named: dict[str, Any]) -> Any:
    """The result of pandas' method for a stand-in, which is the result for the user."""
    return stand_ins.result(getattr(series, name), **named)


def _class_of(dtype: DtypeObj, name: str, rows: int) -> type:
    return stand_ins.probe_cached(  # type: ignore[no-any-return]
        "class", (dtype, name, rows), lambda: type(pandas_result(stand_ins.column(dtype, rows), name, {}))
    )


def to_pandas_scalar(dtype: DtypeObj, name: str, raw: Any) -> Any:
    """A number from the engine as a scalar of the class that pandas returns; NaN becomes NA for nullable dtypes."""
    if raw != raw and family(dtype) == "masked":
        return pd.NA
    rows = {"skew": 3, "kurt": 4}.get(name, 2)
    return _class_of(dtype, name, rows)(raw)


def statistic(name: str, value: Value, **named: Any) -> Statistic:
    """A reduction of a column.

    Parameters
    ----------
    name
        The method of Series.
    value
        The column.
    named
        The method's options that differ from their defaults.

    Raises
    ------
    Unsupported
        If the engine cannot compute it exactly, or the column's dtype depends on the data.
    """
    if not value.definite:
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    builder = _BUILDERS.get(name)
    if builder is None:
        raise Unsupported(Refusal.OPERATION, name)
    if name not in ("count", "size", "nunique", "quantile"):
        _refuse_invalid(name, value.dtype, named)
    return builder(name, normalised(_as_arrow_computes(name, value)), named)


#: Statistics for which Arrow converts 32-bit floats to 64 bits, and returns 64 bits.
_DOUBLES = frozenset(["sum", "prod", "mean", "var", "std", "sem", "median", "skew", "kurt", "quantile"])


def _as_arrow_computes(name: str, value: Value) -> Value:
    """The column from which a statistic is computed: Arrow's 32-bit floats are cast to 64 bits."""
    if name not in _DOUBLES or family(value.dtype) != "arrow" or value.physical != pl.Float32():
        return value
    return Value(Call("cast", (value.expr,), pl.Float64()), pd.ArrowDtype(pa.float64()), value.nulls, value.nans)


def _refuse_invalid(name: str, dtype: DtypeObj, named: dict[str, Any]) -> None:
    """Refuse calls for which pandas raises an error, so that pandas raises it."""
    stand_ins.probe_cached(
        "reduction", (dtype, name, named), lambda: pandas_result(stand_ins.column(dtype, 2), name, named), name
    )


def _with_corner_cases(
    name: str,
    value: Value,
    named: dict[str, Any],
    calls: Sequence[AggregateCall],
    finish: Callable[[Fetch, int], Any],
    least: int = 1,
) -> Statistic:
    """A statistic for whose corner cases pandas reduces a stand-in.

    The corner cases are: no rows, no values or too few, and missing values with ``skipna=False``.
    """
    skipna = named.get("skipna", True)
    least = max(least, named.get("min_count", 0) or 0)
    count = aggregate("count", value.expr, pl.Int64()) if value.nulls else build.row_count()

    def done(fetch: Fetch) -> Any:
        rows, present = int(fetch(build.row_count()).item()), int(fetch(count).item())
        if present == 0 or (present < rows and not skipna):
            return pandas_result(stand_ins.column(value.dtype, 0, 1 if rows else 0), name, named)
        if present < least:
            if (name in ("var", "std", "sem") and family(value.dtype) == "masked") or name == "sem":
                raise Unsupported(Refusal.OPERATION, f"{name} of too few values for ddof")
            return pandas_result(stand_ins.column(value.dtype, min(present, 32), int(present < rows)), name, named)
        return finish(fetch, present)

    def stand_in(fetch: Fetch) -> pd.Series:
        rows, present = int(fetch(build.row_count()).item()), int(fetch(count).item())
        return stand_ins.column(value.dtype, min(present, 4), int(present < rows))

    return Statistic((build.row_count(), count, *calls), done, stand_in)


def _negative_zeros(value: Value) -> list[AggregateCall]:
    """The aggregate that finds -0.0 in a column whose zeros pandas distinguishes by their sign; otherwise none."""
    if not distinguishes_signed_zeros(value.dtype):
        return []
    return [aggregate("any", is_negative_zero(value.expr), pl.Boolean())]


def _refuse_either_zero(name: str, result: Any, zeros: Sequence[AggregateCall], fetch: Fetch) -> Any:
    """The result of a reduction; refused if it is a zero whose sign in pandas depends on the positions of the zeros."""
    if zeros and not pd.isna(result) and result == 0 and any(fetch(call).item() for call in zeros):
        raise Unsupported(Refusal.ARROW_FLOATS_EITHER_ZERO, name)
    return result


def _sum(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    kind = kind_of(value.dtype)
    if kind not in "biuf":
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
    dtype = value.physical if kind == "f" else pl.UInt64() if kind == "u" else pl.Int64()
    if family(value.dtype) == "arrow" and kind != "f" and name == "prod":
        raise Unsupported(Refusal.ARROW_PRODUCT)
    call = aggregate("sum" if name == "sum" else build.product_of(dtype), value.expr, dtype)
    return _with_corner_cases(
        name, value, named, [call], lambda fetch, _: to_pandas_scalar(value.dtype, name, fetch(call).item())
    )


def _mean(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    if kind_of(value.dtype) not in "biuf":
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
    dtype = value.physical if value.physical == pl.Float32() else pl.Float64()
    call = aggregate(name, value.expr, dtype)
    zeros = _negative_zeros(value) if name == "median" else []

    def finish(fetch: Fetch, _: int) -> Any:
        return to_pandas_scalar(value.dtype, name, _refuse_either_zero(name, fetch(call).item(), zeros, fetch))

    return _with_corner_cases(name, value, named, [call, *zeros], finish)


def _median(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    """The median. Arrow computes it as a quantile, which skips NaN as well as missing values."""
    if not distinguishes_nan(value.dtype):
        return _mean(name, value, named)
    if not named.get("skipna", True):
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype} that counts missing values")
    return _mean(name, replace(value, nans=True).clean, named)


def _extreme(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    if isinstance(value.dtype, pd.CategoricalDtype):
        raise Unsupported(Refusal.OPERATION, f"{name} of categories")
    call = aggregate(name, value.expr, value.physical)
    zeros = _negative_zeros(value)

    def finish(fetch: Fetch, _: int) -> Any:
        result = pd.Series(to_array(fetch(call), value.dtype), copy=False).iloc[0]
        return _refuse_either_zero(name, result, zeros, fetch)

    return _with_corner_cases(name, value, named, [call, *zeros], finish)


def _moment(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    if kind_of(value.dtype) not in "biuf":
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
    ddof = named.get("ddof", 1)
    if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
        raise Unsupported(Refusal.PARAMETER, f"ddof={ddof!r}")
    dtype = value.physical if value.physical == pl.Float32() else pl.Float64()
    call = aggregate(name, value.expr, dtype, ddof=ddof)
    return _with_corner_cases(
        name,
        value,
        named,
        [call],
        lambda fetch, _: to_pandas_scalar(value.dtype, name, fetch(call).item()),
        least=ddof + 1,
    )


def _count(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    call = aggregate("count", value.expr, pl.Int64()) if value.nulls else build.row_count()
    return Statistic((call,), lambda fetch: np.int64(fetch(call).item()), _two_row_stand_in(value))


def _size(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    return Statistic((build.row_count(),), lambda fetch: int(fetch(build.row_count()).item()), _two_row_stand_in(value))


def _two_row_stand_in(value: Value) -> Callable[[Fetch], pd.Series]:
    return lambda _: stand_ins.column(value.dtype, 2, 0)


def _nunique(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    if distinguishes_signed_zeros(value.dtype):
        raise Unsupported(Refusal.ARROW_FLOATS_DISTINCT)
    call = aggregate("n_unique", value.expr, pl.Int64())
    if named.get("dropna", True) or not value.nulls:
        return Statistic((call,), lambda fetch: int(fetch(call).item()), _two_row_stand_in(value))
    nulls = aggregate("null_count", value.expr, pl.Int64())
    return Statistic(
        (call, nulls), lambda fetch: int(fetch(call).item()) + (fetch(nulls).item() > 0), _two_row_stand_in(value)
    )


def _any_all(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    kind = kind_of(value.dtype)
    if kind not in "biuf":
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
    if not named.get("skipna", True) and value.nulls:
        raise Unsupported(Refusal.OPERATION, f"{name} that counts missing values")
    expr = value.expr
    if kind != "b":
        expr = Call("ne", (expr, Literal(0, value.physical)), pl.Boolean())
    call = aggregate(name, expr, pl.Boolean())
    return Statistic(
        (call,), lambda fetch: to_pandas_scalar(value.dtype, name, fetch(call).item()), _two_row_stand_in(value)
    )


def _quantile(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    """Quantiles as a Series. The engine finds the two values next to each quantile, and pandas interpolates between them."""
    shares, how = named["q"], named["interpolation"]
    if kind_of(value.dtype) not in "iufMm" or isinstance(value.dtype, pd.ArrowDtype) or how not in _INTERPOLATIONS:
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
    count = aggregate("count", value.expr, pl.Int64()) if value.nulls else build.row_count()
    call = aggregate("order_statistics", value.expr, pl.List(value.physical), q=shares)

    def finish(fetch: Fetch) -> Any:
        rows, present = int(fetch(build.row_count()).item()), int(fetch(count).item())
        if present == 0:
            nothing = stand_ins.column(value.dtype, 0, int(rows > 0)).to_frame(0)
            return nothing.quantile(list(shares), interpolation=how)[0].reset_index(drop=True)
        around = fetch(call).explode()
        parts = []
        for i, share in enumerate(shares):
            position = (present - 1) * share
            both = around[2 * i : 2 * i + 2]
            if how == "nearest":
                both = both[[int(np.around(position) - np.floor(position))] * 2]
            if present < rows:
                both = both.extend_constant(None, 1)
            beside = pd.Series(to_array(both, value.dtype), copy=False).to_frame(0)
            parts.append(beside.quantile([position - np.floor(position)], interpolation=how)[0])
        return pd.concat(parts, ignore_index=True)

    return Statistic((build.row_count(), count, call), finish, _two_row_stand_in(value))


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


_BUILDERS: dict[str, Callable[[str, Value, dict[str, Any]], Statistic]] = {
    "sum": _sum,
    "prod": _sum,
    "mean": _mean,
    "median": _median,
    "min": _extreme,
    "max": _extreme,
    "var": _moment,
    "std": _moment,
    "sem": _moment,
    "count": _count,
    "size": _size,
    "nunique": _nunique,
    "quantile": _quantile,
    "any": _any_all,
    "all": _any_all,
}


def compute(held: View, wanted: Sequence[tuple[str, Value, dict[str, Any]]]) -> list[Any]:
    """Compute reductions of columns over one base in one run.

    Parameters
    ----------
    held
        The view, over whose base the columns are expressions.
    wanted
        For each reduction: the name of the method, the column, and the options.

    Returns
    -------
    list
        The scalars, in the order of ``wanted``.
    """
    found, fetch = _run(held, wanted)
    return [one.finish(fetch) for one in found]


def compute_columns(held: View, wanted: Sequence[tuple[str, Value, dict[str, Any]]]) -> list[pd.Series]:
    """As :func:`compute`, but each result is a Series of one row with the dtype that it has in a DataFrame's reduction."""
    found, fetch = _run(held, wanted)
    columns = []
    for one, (name, _, named) in zip(found, wanted, strict=True):
        like = pandas_result(one.stand_in(fetch).to_frame(), name, named)
        columns.append(_one_row(one.finish(fetch), like.dtype))
    return columns


def _one_row(scalar: Any, dtype: DtypeObj) -> pd.Series:
    if isinstance(dtype, pd.ArrowDtype) and isinstance(scalar, float):  # NaN is a number here
        row = pa.chunked_array([pa.array([scalar], type=dtype.pyarrow_dtype, from_pandas=False)])
        return pd.Series(pd.arrays.ArrowExtensionArray(row))  # type: ignore[attr-defined]
    return pd.Series([scalar], dtype=dtype)


def _run(held: View, wanted: Sequence[tuple[str, Value, dict[str, Any]]]) -> tuple[list[Statistic], Fetch]:
    decided: dict[tuple[Operator, str], int] = {}
    candidates: list[list[Statistic]] = []
    for name, value, named in wanted:
        if value.source is None:
            candidates.append([statistic(name, value, **named)])
            continue
        # The dtype depends on missing values in the source, so the aggregates of both dtypes are computed.
        plain = replace(value, source=None)
        dtypes = (value.dtype, with_missing(value.dtype))
        candidates.append([statistic(name, replace(plain, dtype=dtype), **named) for dtype in dtypes])
        decided.setdefault(value.source, len(decided))
    calls = dict.fromkeys(call for both in candidates for one in both for call in one.calls)
    from craton.engine.result_cache import results

    known = {call: results.get_value(held.base, call) for call in calls}
    missing = {call: f"s{i}" for i, call in enumerate(call for call, series in known.items() if series is None)}
    plans: list[Operator] = []
    if missing:
        plans.append(build.aggregate(held.base, (), tuple((name, call) for call, name in missing.items())))
    plans += [null_count(source) for source in decided]
    frames = collect_scalars(plans) if plans else []
    for call, name in missing.items():
        known[call] = frames[0].get_column(name)
        results.put_value(held.base, call, frames[0].get_column(name))
    chosen = []
    for (_, value, _), both in zip(wanted, candidates, strict=True):
        promoted = value.source is not None and frames[bool(missing) + decided[value.source]].item() > 0
        chosen.append(both[-1 if promoted else 0])
    return chosen, known.__getitem__  # type: ignore[return-value]
