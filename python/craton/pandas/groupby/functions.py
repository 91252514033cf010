"""The named aggregations: which plan function computes each, and what is known of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

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
from craton.plan.expr import Call, Expr, Literal, Options, options
from craton.plan.functions.aggregates import product_of
from craton.plan.operators import Operator
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Outcome:
    """An aggregate of a column, and what is known of missing values in its result.

    ``narrow`` is a dtype that the result has if all its values fit in: of fewer bits, or, of floats, one of integers.
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
        """The physical dtype of the result."""
        return physical(self.dtype)

    @property
    def undecided(self) -> bool:
        """Whether the dtype depends on whether a result is missing."""
        return self.nulls and self.source is None and with_missing(self.dtype) != self.dtype


class Undecided(Unsupported):
    """A column's dtype depends on the data, and the plan with it: to be settled by a query first."""


DOWNCAST = frozenset(["mean", "var", "std", "sem", "median", "skew", "kurt"])
Builder = Callable[[Value, DtypeObj, Mapping[str, Any]], Outcome]
NUMBERS = "biuf"
# Of a column that is of integers, or of floats if some are missing:
UNAFFECTED = frozenset(["count", "nunique"])  # the dtype of the result is the same in both cases
FOLLOWING = frozenset(["sum", "min", "max"])  # the result is of floats in the same case


def _same_by_function(name: str, value: Value) -> bool:
    """Whether a function that is called with each group's values gives what the aggregation of its name gives."""
    totals = name in ("sum", "prod") and family(value.dtype) == "numpy" and kind_of(value.dtype) in "iu"
    return totals or value.dtype in (INT64, FLOAT64)


def outcome(
    name: str, value: Value | None, dtype: DtypeObj, parameters: Mapping[str, Any], label: Value | None = None
) -> Outcome:
    """Plan one aggregation of one column.

    Parameters
    ----------
    name
        pandas' name of it.
    value
        The column; ``None`` only for ``size`` of the group's rows.
    dtype
        The dtype of the result if no group's value is missing, as pandas has it for a template.
    parameters
        What the user gave: ``ddof``, ``min_count``, ``skipna`` and so on; ``numeric_only`` is dealt with before.
    label
        The row labels, for ``idxmin`` and ``idxmax``.

    Raises
    ------
    Unsupported
        If a plan can't compute exactly that.
    """
    given = {key: item for key, item in parameters.items() if key not in ("numeric_only", "engine", "engine_kwargs")}
    if parameters.get("engine") is not None or parameters.get("engine_kwargs") is not None:
        raise Unsupported(Refusal.PARAMETER, "engine")
    by_function = given.pop("by_function", False)
    if by_function and name != "size" and (value is None or not _same_by_function(name, value)):
        raise Unsupported(Refusal.FUNCTION_DTYPE)
    if name == "size":
        if by_function and value is not None and not value.definite:
            raise Undecided(Refusal.OPERATION, "len of a column whose dtype depends on the data")
        return Outcome("len", (), dtype)
    if name not in NAMES:
        raise Unsupported(Refusal.OPERATION, f"agg by {name}")
    assert value is not None
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
    raise Undecided(Refusal.OPERATION, f"{name} of a column whose dtype depends on the data")


def _refuse(value: Value, kinds: str, rest: Mapping[str, Any]) -> None:
    if rest:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(rest)))
    if kind_of(value.dtype) not in kinds or family(value.dtype) == "category":
        raise Unsupported(Refusal.OPERATION, f"an aggregation of {value.dtype}")


def _pop(parameters: Mapping[str, Any], name: str, default: Any) -> tuple[Any, dict[str, Any]]:
    rest = dict(parameters)
    return rest.pop(name, default), rest


def _sum(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    return _total("sum", value, dtype, parameters)


def _prod(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    return _total(product_of(value.physical), value, dtype, parameters)


def _total(function: str, value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    count, rest = _pop(parameters, "min_count", 0)
    if function == "sum" and kind_of(value.dtype) == "m" and count <= 0:
        return Outcome(function, (value.expr,), dtype)
    narrow = dtype if kind_of(value.dtype) in "iu" and value.physical not in (pl.Int64(), pl.UInt64()) else None
    if narrow is not None:
        dtype = _widest(value.dtype)
    _refuse(value, NUMBERS, rest)
    if not isinstance(count, (int, np.integer)) or isinstance(count, bool):
        raise Unsupported(Refusal.PARAMETER, "min_count")
    if count <= 0:
        return Outcome(function, (value.expr,), dtype, nans=kind_of(dtype) == "f", narrow=narrow)
    choice = options(min_count=int(count))
    return Outcome(function, (value.expr,), dtype, choice, nulls=True, nans=kind_of(dtype) == "f", narrow=narrow)


def _widest(dtype: DtypeObj) -> DtypeObj:
    """The 64-bit dtype of a kind of integers."""
    signed = kind_of(dtype) == "i"
    match family(dtype):
        case "numpy":
            return np.dtype("int64" if signed else "uint64")
        case "masked":
            return pd.Int64Dtype() if signed else pd.UInt64Dtype()
        case _:
            return pd.ArrowDtype(pa.int64() if signed else pa.uint64())


def _mean(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    _refuse(value, NUMBERS, parameters)
    return Outcome("mean", (value.expr,), dtype, nulls=value.nulls, nans=True)


def _extreme(function: str) -> Builder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
        count, rest = _pop(parameters, "min_count", -1)
        _refuse(value, "biufMmT", rest)
        if count not in (-1, 0, 1):
            raise Unsupported(Refusal.PARAMETER, "min_count")
        value = without_nan(value, -np.inf if function == "max" else np.inf)
        return Outcome(function, (_as_result(value, dtype),), dtype, nulls=value.nulls)

    return build


def without_nan(value: Value, filler: float) -> Value:
    """A column in which pandas' extremes of groups pass over the NaN of Arrow floats: what they begin with stands for it."""
    if not distinguishes_nan(value.dtype):
        return value
    return replace(value, expr=Call("fill_nan", (value.expr, Literal(filler, value.physical)), value.physical))


def _as_result(value: Value, dtype: DtypeObj) -> Expr:
    """A column as what its own values are in a result: ``describe`` gives the least of some integers as a float."""
    wanted = physical(dtype)
    numbers = wanted.is_numeric() and value.physical.is_numeric()
    return Call("cast", (value.expr,), wanted) if numbers and wanted != value.physical else value.expr


def _count(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    if parameters:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(parameters)))
    return Outcome("count", (value.expr,), dtype) if value.nulls else Outcome("len", (), dtype)


def _nunique(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    dropna, rest = _pop(parameters, "dropna", True)
    if rest or dropna is not True:
        raise Unsupported(Refusal.PARAMETER, "dropna")
    if distinguishes_signed_zeros(value.dtype):
        raise Unsupported(Refusal.ARROW_FLOATS_DISTINCT)
    return Outcome("n_unique", (value.expr,), dtype, options(nulls=value.nulls))


def _end(function: str) -> Builder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
        count, rest = _pop(parameters, "min_count", -1)
        if rest or count not in (-1, 0, 1):
            raise Unsupported(Refusal.PARAMETER, "min_count")
        return Outcome(function, (value.expr,), dtype, options(skip_nulls=value.nulls), nulls=value.nulls)

    return build


def _moment(function: str) -> Builder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
        ddof, rest = _pop(parameters, "ddof", 1)
        _refuse(value, NUMBERS, rest)
        if not isinstance(ddof, (int, np.integer)) or isinstance(ddof, bool) or ddof < 0:
            raise Unsupported(Refusal.PARAMETER, "ddof")
        chosen = options(ddof=int(ddof), of_groups=True) if function == "sem" else options(ddof=int(ddof))
        return Outcome(function, (_number(value),), dtype, chosen, nulls=True, nans=True)

    return build


def _median(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    _refuse(value, NUMBERS, parameters)
    return Outcome("median", (_number(value),), dtype, nulls=value.nulls, nans=True)


def _number(value: Value) -> Expr:
    """A column as one that the kernel computes moments of."""
    return Call("cast", (value.expr,), pl.Float64()) if value.physical == pl.Boolean() else value.expr


def _quantile(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    q, rest = _pop(parameters, "q", 0.5)
    interpolation, rest = _pop(rest, "interpolation", "linear")
    _refuse(value, "iuf", rest)
    if not isinstance(q, (float, int)) or isinstance(q, bool) or not 0 <= q <= 1:
        raise Unsupported(Refusal.PARAMETER, "q")
    if interpolation not in ("linear", "lower", "higher", "midpoint"):
        raise Unsupported(Refusal.PARAMETER, f"interpolation={interpolation!r}")
    choice = options(q=float(q), interpolation=interpolation)
    # pandas goes the way between two values in 64 bits, and so has what lies between those of 32.
    expr = Call("cast", (value.expr,), pl.Float64()) if value.physical == pl.Float32() else value.expr
    return Outcome("quantile", (expr,), dtype, choice, nulls=value.nulls, nans=kind_of(dtype) == "f")


def _truth(function: str) -> Builder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
        _refuse(value, "biufT", parameters)
        expr = value.expr
        if value.physical == pl.String():
            expr = Call("ne", (expr, Literal("", pl.String())), pl.Boolean())
        elif value.physical != pl.Boolean():
            expr = Call("cast", (expr,), pl.Boolean())
        return Outcome(function, (expr,), dtype)

    return build


def _label_of(name: str, value: Value, label: Value | None, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
    _refuse(value, "biufmM", parameters)
    if label is None or not value.definite or label.dtype != dtype:
        raise Unsupported(Refusal.OPERATION, f"{name} with labels or values of a dtype that depends on the data")
    return Outcome(f"label_of_{name[3:]}", (label.expr, value.expr), dtype, nulls=label.nulls, nans=label.nans)


def _shape(function: str) -> Builder:
    def build(value: Value, dtype: DtypeObj, parameters: Mapping[str, Any]) -> Outcome:
        _refuse(value, NUMBERS, parameters)
        narrow = value.dtype if kind_of(value.dtype) in "biu" else None
        return Outcome(function, (_number(value),), dtype, nulls=True, nans=True, narrow=narrow)

    return build


BUILDERS: dict[str, Builder] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "count": _count,
    "nunique": _nunique,
    "first": _end("first"),
    "last": _end("last"),
    "var": _moment("var"),
    "std": _moment("std"),
    "sem": _moment("sem"),
    "skew": _shape("skew"),
    "kurt": _shape("kurtosis"),
    "median": _median,
    "quantile": _quantile,
    "any": _truth("any"),
    "all": _truth("all"),
}
LABELS = frozenset(["idxmin", "idxmax"])
#: In pandas, these come to different results for NaN among Arrow floats, depending on where it stands.
UNSURE_OF_NAN = frozenset(["median", "quantile", *LABELS])
NAMES = frozenset([*BUILDERS, *LABELS, "size"])
