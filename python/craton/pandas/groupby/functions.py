"""The named aggregations: the plan function that computes each, and the dtype and missing values of its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pandas.api.types import is_integer

from craton.errors import Unsupported
from craton.pandas.core.dtypes import (
    FLOAT64,
    INT64,
    DtypeObj,
    distinguishes_nan,
    distinguishes_signed_zeros,
    family,
    kind_of,
    physical,
    with_missing,
)
from craton.pandas.core.view import Value
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, Options, options
from craton.plan.operators import Operator
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class PlannedAggregate:
    """A plan's aggregate of one column, with the dtype and the missing values of its result.

    Parameters
    ----------
    function, args, options
        The plan function, its arguments and its options.
    dtype
        The pandas dtype of the result.
    nulls, nans, source
        As of :class:`~craton.pandas.core.view.Value`.
    narrow
        The dtype that the result has instead if all its values fit: one of fewer bits, or integers instead of floats.
    """

    function: str
    args: tuple[Expr, ...]
    dtype: DtypeObj
    options: Options = ()
    nulls: bool = False
    nans: bool = False
    source: tuple[Operator, str] | None = None
    narrow: DtypeObj | None = None

    @property
    def physical(self) -> pl.DataType:
        return physical(self.dtype)

    @property
    def undecided(self) -> bool:
        """Whether the dtype depends on whether the result of any group is missing."""
        return self.nulls and self.source is None and with_missing(self.dtype) != self.dtype


class UndecidedDtype(Unsupported):
    """The plan depends on a column's dtype, which depends on the data. The call is repeated after a query has found the dtype."""


DOWNCAST = frozenset(["mean", "var", "std", "sem", "median", "skew", "kurt"])
AggregateBuilder = Callable[[Value, DtypeObj, Mapping[str, Any]], PlannedAggregate]
NUMBERS = "biuf"
# Aggregations of a column of integers that becomes a column of floats if a value is missing:
UNAFFECTED = frozenset(["count", "nunique"])  # the result has the same dtype in both cases
FOLLOWING = frozenset(["sum", "min", "max"])  # the result has floats if the column has floats


def _function_equals_aggregation(name: str, value: Value) -> bool:
    """Whether a function of NumPy or Python, called with each group's values, returns what the aggregation of that name returns."""
    if name == JOIN:
        return kind_of(value.dtype) == "T"
    totals = name in ("sum", "prod") and family(value.dtype) == "numpy" and kind_of(value.dtype) in "iu"
    return totals or value.dtype in (INT64, FLOAT64)


def plan_aggregate(
    name: str, value: Value | None, dtype: DtypeObj, parameters: Mapping[str, Any], label: Value | None = None
) -> PlannedAggregate:
    """Plan one aggregation of one column.

    Parameters
    ----------
    name
        The aggregation's name in pandas.
    value
        The column; ``None`` only for ``size``.
    dtype
        The dtype of pandas' result for the stand-in, in which no group's result is missing.
    parameters
        The user's arguments: ``ddof``, ``min_count``, ``skipna`` and so on. The caller has already applied ``numeric_only``.
    label
        The row labels, for ``idxmin`` and ``idxmax``.

    Raises
    ------
    UndecidedDtype
        If the result depends on the column's dtype, which depends on the data.
    Unsupported
        If a plan can't compute exactly what pandas computes.
    """
    given = {key: item for key, item in parameters.items() if key not in ("numeric_only", "engine", "engine_kwargs")}
    if parameters.get("engine") is not None or parameters.get("engine_kwargs") is not None:
        raise Unsupported(Refusal.PARAMETER, "engine")
    by_function = given.pop("by_function", False)
    if by_function and name != "size" and (value is None or not _function_equals_aggregation(name, value)):
        raise Unsupported(Refusal.FUNCTION_DTYPE)
    if name == "size":
        if by_function and value is not None and not value.definite:
            raise UndecidedDtype(Refusal.OPERATION, "len of a column whose dtype depends on the data")
        return _size(dtype) if by_function else PlannedAggregate("len", (), dtype)
    if name not in NAMES and name != JOIN:
        raise Unsupported(Refusal.OPERATION, f"agg by {name}")
    assert value is not None
    if name == JOIN:
        if value.dtype != dtype:
            raise Unsupported(Refusal.FUNCTION_DTYPE)
        return PlannedAggregate("str_join", (value.clean.expr,), dtype, options(**given))
    if given.pop("skipna", True) is not True:
        raise Unsupported(Refusal.PARAMETER, "skipna=False")
    if name in LABELS:
        return _label_of(name, value.clean, label, dtype, given)
    out = BUILDERS[name](value.clean, dtype, given)
    if value.physical == pl.Float32() and name in DOWNCAST:
        raise Unsupported(Refusal.OPERATION, f"{name} of 32-bit floats, whose dtype depends on rounding")
    of_floats = out.dtype == FLOAT64 and out.narrow is None and kind_of(value.dtype) != "b"
    if value.definite or name in UNAFFECTED or of_floats:
        return out
    wraps = name == "sum" and value.may_round
    if name in FOLLOWING and not wraps and not out.options and out.narrow is None and kind_of(value.dtype) in "iu":
        return replace(out, source=value.source)
    raise UndecidedDtype(Refusal.OPERATION, f"{name} of a column whose dtype depends on the data")


def _require_kinds(value: Value, kinds: str, rest: Mapping[str, Any]) -> None:
    if rest:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(rest)))
    if kind_of(value.dtype) not in kinds or family(value.dtype) == "category":
        raise Unsupported(Refusal.OPERATION, f"an aggregation of {value.dtype}")


def _pop(parameters: Mapping[str, Any], name: str, default: Any) -> tuple[Any, dict[str, Any]]:
    rest = dict(parameters)
    return rest.pop(name, default), rest


def _sum(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    return _total("sum", value, dtype, parameters)


def _prod(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    return _total(build.product_of(value.physical), value, dtype, parameters)


def _total(function: str, value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    count, rest = _pop(parameters, "min_count", 0)
    if function == "sum" and kind_of(value.dtype) == "m" and count <= 0:
        return PlannedAggregate(function, (value.expr,), dtype)
    narrow = dtype if kind_of(value.dtype) in "iu" and value.physical not in (pl.Int64(), pl.UInt64()) else None
    if narrow is not None:
        dtype = _widest(value.dtype)
    _require_kinds(value, NUMBERS, rest)
    if not is_integer(count):
        raise Unsupported(Refusal.PARAMETER, "min_count")
    if count <= 0:
        return PlannedAggregate(function, (value.expr,), dtype, nans=kind_of(dtype) == "f", narrow=narrow)
    choice = options(min_count=int(count))
    return PlannedAggregate(
        function, (value.expr,), dtype, choice, nulls=True, nans=kind_of(dtype) == "f", narrow=narrow
    )


def _widest(dtype: DtypeObj) -> DtypeObj:
    """The 64-bit integer dtype of the same signedness and dtype family."""
    signed = kind_of(dtype) == "i"
    match family(dtype):
        case "numpy":
            return np.dtype("int64" if signed else "uint64")
        case "masked":
            return pd.Int64Dtype() if signed else pd.UInt64Dtype()
        case _:
            return pd.ArrowDtype(pa.int64() if signed else pa.uint64())


def _mean(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    _require_kinds(value, NUMBERS, parameters)
    return PlannedAggregate("mean", (value.expr,), dtype, nulls=value.nulls, nans=True)


def _extreme(function: str) -> AggregateBuilder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
        count, rest = _pop(parameters, "min_count", -1)
        _require_kinds(value, "biufMmT", rest)
        if count not in (-1, 0, 1):
            raise Unsupported(Refusal.PARAMETER, "min_count")
        value = without_nan(value, -np.inf if function == "max" else np.inf)
        return PlannedAggregate(function, (_cast_to_result(value, dtype),), dtype, nulls=value.nulls)

    return build


def without_nan(value: Value, filler: float) -> Value:
    """The column with NaN of Arrow floats replaced by ``filler``, so that it never is a group's extreme.

    pandas' extremes of groups start from an infinity and skip NaN.
    """
    if not distinguishes_nan(value.dtype):
        return value
    return replace(value, expr=Call("fill_nan", (value.expr, Literal(filler, value.physical)), value.physical))


def _cast_to_result(value: Value, dtype: DtypeObj) -> Expr:
    """The column cast to the result's dtype: in ``describe`` the minimum of integers is a float."""
    wanted = physical(dtype)
    numbers = wanted.is_numeric() and value.physical.is_numeric()
    return Call("cast", (value.expr,), wanted) if numbers and wanted != value.physical else value.expr


def _size(dtype: DtypeObj) -> PlannedAggregate:
    """The sizes of groups as pandas casts them to a column's dtype: not to small integers, unless all fit."""
    kind = physical(dtype)
    if not kind.is_integer() or kind in (pl.Int32(), pl.UInt32(), pl.Int64(), pl.UInt64()):
        return PlannedAggregate("len", (), dtype)
    wide: dict[str, DtypeObj] = {"masked": pd.Int64Dtype(), "arrow": pd.ArrowDtype(pa.int64())}
    return PlannedAggregate("len", (), wide.get(family(dtype), INT64), narrow=dtype)


def _count(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    if parameters:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(parameters)))
    return PlannedAggregate("count", (value.expr,), dtype) if value.nulls else PlannedAggregate("len", (), dtype)


def _nunique(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    dropna, rest = _pop(parameters, "dropna", True)
    if rest or dropna is not True:
        raise Unsupported(Refusal.PARAMETER, "dropna")
    if distinguishes_signed_zeros(value.dtype):
        raise Unsupported(Refusal.ARROW_FLOATS_DISTINCT)
    return PlannedAggregate("n_unique", (value.expr,), dtype, options(nulls=value.nulls))


def _first_or_last(function: str) -> AggregateBuilder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
        count, rest = _pop(parameters, "min_count", -1)
        if rest or count not in (-1, 0, 1):
            raise Unsupported(Refusal.PARAMETER, "min_count")
        return PlannedAggregate(function, (value.expr,), dtype, options(skip_nulls=value.nulls), nulls=value.nulls)

    return build


def _moment(function: str) -> AggregateBuilder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
        ddof, rest = _pop(parameters, "ddof", 1)
        _require_kinds(value, NUMBERS, rest)
        if not is_integer(ddof) or ddof < 0:
            raise Unsupported(Refusal.PARAMETER, "ddof")
        chosen = options(ddof=int(ddof), of_groups=True) if function == "sem" else options(ddof=int(ddof))
        return PlannedAggregate(function, (_number(value),), dtype, chosen, nulls=True, nans=True)

    return build


def _median(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    _require_kinds(value, NUMBERS, parameters)
    return PlannedAggregate("median", (_number(value),), dtype, nulls=value.nulls, nans=True)


def _number(value: Value) -> Expr:
    """The column as numbers, because the kernel computes no moments of booleans."""
    return Call("cast", (value.expr,), pl.Float64()) if value.physical == pl.Boolean() else value.expr


def _quantile(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
    q, rest = _pop(parameters, "q", 0.5)
    interpolation, rest = _pop(rest, "interpolation", "linear")
    _require_kinds(value, "iuf", rest)
    if not isinstance(q, (float, int)) or isinstance(q, bool) or not 0 <= q <= 1:
        raise Unsupported(Refusal.PARAMETER, "q")
    if interpolation not in ("linear", "lower", "higher", "midpoint"):
        raise Unsupported(Refusal.PARAMETER, f"interpolation={interpolation!r}")
    choice = options(q=float(q), interpolation=interpolation)
    # pandas interpolates in 64 bits, also between 32-bit floats.
    expr = Call("cast", (value.expr,), pl.Float64()) if value.physical == pl.Float32() else value.expr
    return PlannedAggregate("quantile", (expr,), dtype, choice, nulls=value.nulls, nans=kind_of(dtype) == "f")


def _any_or_all(function: str) -> AggregateBuilder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
        _require_kinds(value, "biufT", parameters)
        expr = value.expr
        if value.physical == pl.String():
            expr = Call("ne", (expr, Literal("", pl.String())), pl.Boolean())
        elif value.physical != pl.Boolean():
            expr = Call("cast", (expr,), pl.Boolean())
        return PlannedAggregate(function, (expr,), dtype)

    return build


def _label_of(
    name: str, value: Value, label: Value | None, dtype: DtypeObj, parameters: Mapping[str, Any]
) -> PlannedAggregate:
    _require_kinds(value, "biufmM", parameters)
    if label is None or not value.definite or label.dtype != dtype:
        raise Unsupported(Refusal.OPERATION, f"{name} with labels or values of a dtype that depends on the data")
    return PlannedAggregate(f"label_of_{name[3:]}", (label.expr, value.expr), dtype, nulls=label.nulls, nans=label.nans)


def _skew_or_kurtosis(function: str) -> AggregateBuilder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> PlannedAggregate:
        _require_kinds(value, NUMBERS, parameters)
        narrow = value.dtype if kind_of(value.dtype) in "biu" else None
        return PlannedAggregate(function, (_number(value),), dtype, nulls=True, nans=True, narrow=narrow)

    return build


def is_infinite(value: Value) -> Expr:
    """A predicate: whether a float is infinite."""
    size = Call("abs", (value.clean.expr,), value.physical)
    return Call("eq", (size, Literal(math.inf, value.physical)), pl.Boolean())


def as_number(value: Value) -> Expr:
    """A column of numbers as floats, with nulls for missing values."""
    if not value.definite:
        raise UndecidedDtype(Refusal.DTYPE_OF_DATA)
    if family(value.dtype) != "numpy" or kind_of(value.dtype) not in "iuf":
        raise Unsupported(Refusal.OPERATION, f"a correlation of {value.dtype}")
    expr = value.clean.expr
    return expr if value.physical == pl.Float64() else Call("cast", (expr,), pl.Float64())


def of_two(name: str, one: Value, other: Value) -> PlannedAggregate:
    """The correlation (``corr``) or covariance (``cov``) of two columns."""
    function = "correlation" if name == "corr" else "covariance"
    return PlannedAggregate(function, (as_number(one), as_number(other)), FLOAT64, nulls=True, nans=True)


BUILDERS: dict[str, AggregateBuilder] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "count": _count,
    "nunique": _nunique,
    "first": _first_or_last("first"),
    "last": _first_or_last("last"),
    "var": _moment("var"),
    "std": _moment("std"),
    "sem": _moment("sem"),
    "skew": _skew_or_kurtosis("skew"),
    "kurt": _skew_or_kurtosis("kurtosis"),
    "median": _median,
    "quantile": _quantile,
    "any": _any_or_all("any"),
    "all": _any_or_all("all"),
}
LABELS = frozenset(["idxmin", "idxmax"])
#: Aggregations whose results in pandas depend on the positions of NaN in a column of Arrow floats.
NAN_ORDER_DEPENDENT = frozenset(["median", "quantile", *LABELS])
#: Aggregations whose results in pandas depend on the positions of 0.0 and -0.0 in a column of Arrow floats.
ZERO_ORDER_DEPENDENT = frozenset(["min", "max", "median", "quantile"])
NAMES = frozenset([*BUILDERS, *LABELS, "size"])
#: The aggregation by a bound method ``separator.join``, which is no name that ``agg`` accepts.
JOIN = "str.join"
