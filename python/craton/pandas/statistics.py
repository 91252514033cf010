"""Reductions of one column to a scalar: which aggregates they need, and the exact scalar that pandas would return.

The engine computes plain aggregates that skip missing values. What pandas returns around them (NaN, NA or NaT for
columns without values, the class of the scalar, ``skipna`` and ``min_count``) is asked of pandas itself on a stand-in: a
column of the same dtype with the same shape of emptiness. So corner cases and errors are pandas' own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.convert import to_array
from craton.pandas.dtypes import DtypeObj, family, kind_of, physical, with_missing
from craton.pandas.sharing import answer
from craton.pandas.view import Value, View
from craton.plan.expr import Call, Expr, Literal, options
from craton.plan.operators import Aggregate, AggregateCall, Operator

LENGTH = AggregateCall("len", (), pl.Int64())

Fetch = Callable[[AggregateCall], pl.Series]


@dataclass(frozen=True, slots=True)
class Statistic:
    """A reduction as aggregates, and how their results become pandas' scalar.

    Parameters
    ----------
    calls
        What the engine computes.
    finish
        Takes a function from an aggregate to its one-row result.
    """

    calls: tuple[AggregateCall, ...]
    finish: Callable[[Fetch], Any]


def prepared(value: Value) -> Value:
    """A column with missing values as null and in the physical dtype of its pandas dtype."""
    value = value.clean
    wanted = physical(value.dtype)
    if value.physical != wanted:
        value = replace(value, expr=Call("cast", (value.expr,), wanted))
    return value


def aggregate(function: str, arg: Expr, dtype: pl.DataType, **named: Any) -> AggregateCall:
    """An aggregate of one expression."""
    return AggregateCall(function, (arg,), dtype, options(**named))


def stand_in(dtype: DtypeObj, filled: int, missing: int) -> pd.Series:
    """A small column of a dtype: some ones (or ``"a"``, or the epoch), then some missing values."""
    return _stand_in(dtype, filled, missing).copy()


@lru_cache(maxsize=1024)
def _stand_in(dtype: DtypeObj, filled: int, missing: int) -> pd.Series:
    kind = kind_of(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Series(pd.Categorical.from_codes([0] * filled + [-1] * missing, dtype=dtype))
    one: Any = "a" if kind == "T" else True if kind == "b" else 1
    if missing and isinstance(dtype, np.dtype) and dtype.kind in "iub":
        raise Unsupported(f"missing values in {dtype}")
    if kind in "mM":
        zero = pd.Series([pd.NaT] * (filled + missing), dtype=dtype)
        return zero.fillna(pd.Timestamp(0, tz=getattr(dtype, "tz", None)) if kind == "M" else pd.Timedelta(0)) if not missing else zero
    return pd.Series([one] * filled + [None] * missing, dtype=dtype)


def ask(series: pd.Series, name: str, named: dict[str, Any]) -> Any:
    """What pandas returns for a stand-in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(series, name)(**named)


@lru_cache(maxsize=1024)
def _class_of(dtype: DtypeObj, name: str, rows: int) -> type:
    return type(ask(stand_in(dtype, rows, 0), name, {}))


def typed(dtype: DtypeObj, name: str, raw: Any) -> Any:
    """A number from the engine in the class that pandas gives it."""
    rows = {"skew": 3, "kurt": 4}.get(name, 2)
    return _class_of(dtype, name, rows)(raw)


def statistic(name: str, value: Value, **named: Any) -> Statistic:
    """A reduction of a column.

    Parameters
    ----------
    name
        The method of Series.
    value
        The column; its dtype must be definite.
    named
        The method's options that are not at their defaults.

    Raises
    ------
    Unsupported
        If the engine has no exact form of it.
    """
    if not value.definite:
        raise Unsupported("a dtype that depends on the data")
    builder = _BUILDERS.get(name)
    if builder is None:
        raise Unsupported(f"{name} is not planned")
    if name not in ("count", "nunique"):
        _refuse_bad(name, value.dtype, named)
    return builder(name, prepared(value), named)


def _refuse_bad(name: str, dtype: DtypeObj, named: dict[str, Any]) -> None:
    """Refuse what pandas refuses, so that pandas words the error."""
    try:
        ask(stand_in(dtype, 2, 0), name, named)
    except Unsupported:
        raise
    except Exception as error:
        raise Unsupported(f"{name}: {type(error).__name__}") from error


def _guarded(
    name: str,
    value: Value,
    named: dict[str, Any],
    calls: Sequence[AggregateCall],
    finish: Callable[[Fetch, int], Any],
    least: int = 1,
) -> Statistic:
    """A statistic whose corner cases are asked of pandas: no rows, no values, too few, missing ones that count."""
    skipna = named.get("skipna", True)
    least = max(least, named.get("min_count", 0) or 0)
    count = aggregate("count", value.expr, pl.Int64()) if value.nulls else LENGTH

    def done(fetch: Fetch) -> Any:
        rows, present = int(fetch(LENGTH).item()), int(fetch(count).item())
        if present == 0 or (present < rows and not skipna):
            return ask(stand_in(value.dtype, 0, 1 if rows else 0), name, named)
        if present < least:
            if (name in ("var", "std", "sem") and family(value.dtype) == "masked") or name == "sem":
                raise Unsupported(f"{name} of fewer values than ddof")
            return ask(stand_in(value.dtype, min(present, 32), int(present < rows)), name, named)
        return finish(fetch, present)

    return Statistic((LENGTH, count, *calls), done)


def _sum(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    kind = kind_of(value.dtype)
    if kind not in "biuf":
        raise Unsupported(f"{name} of {value.dtype}")
    dtype = value.physical if kind == "f" else pl.UInt64() if kind == "u" else pl.Int64()
    if family(value.dtype) == "arrow" and kind != "f" and name == "prod":
        raise Unsupported("an Arrow product, which checks for overflow")
    call = aggregate("sum" if name == "sum" else "product", value.expr, dtype)
    return _guarded(name, value, named, [call], lambda fetch, _: typed(value.dtype, name, fetch(call).item()))


def _mean(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    if kind_of(value.dtype) not in "biuf":
        raise Unsupported(f"{name} of {value.dtype}")
    dtype = value.physical if value.physical == pl.Float32() else pl.Float64()
    call = aggregate(name, value.expr, dtype)
    return _guarded(name, value, named, [call], lambda fetch, _: typed(value.dtype, name, fetch(call).item()))


def _extreme(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    if isinstance(value.dtype, pd.CategoricalDtype):
        raise Unsupported(f"{name} of categories")
    call = aggregate(name, value.expr, value.physical)

    def finish(fetch: Fetch, _: int) -> Any:
        return pd.Series(to_array(fetch(call), value.dtype), copy=False).iloc[0]

    return _guarded(name, value, named, [call], finish)


def _moment(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    if kind_of(value.dtype) not in "biuf":
        raise Unsupported(f"{name} of {value.dtype}")
    ddof = named.get("ddof", 1)
    if isinstance(ddof, bool) or not isinstance(ddof, int) or ddof < 0:
        raise Unsupported(f"ddof={ddof!r}")
    dtype = value.physical if value.physical == pl.Float32() else pl.Float64()
    call = aggregate(name, value.expr, dtype, ddof=ddof)
    return _guarded(
        name, value, named, [call], lambda fetch, _: typed(value.dtype, name, fetch(call).item()), least=ddof + 1
    )


def _count(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    call = aggregate("count", value.expr, pl.Int64()) if value.nulls else LENGTH
    return Statistic((call,), lambda fetch: np.int64(fetch(call).item()))


def _nunique(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    call = aggregate("n_unique", value.expr, pl.Int64())
    if named.get("dropna", True) or not value.nulls:
        return Statistic((call,), lambda fetch: int(fetch(call).item()))
    nulls = aggregate("null_count", value.expr, pl.Int64())
    return Statistic((call, nulls), lambda fetch: int(fetch(call).item()) + (fetch(nulls).item() > 0))


def _any_all(name: str, value: Value, named: dict[str, Any]) -> Statistic:
    kind = kind_of(value.dtype)
    if kind not in "biuf":
        raise Unsupported(f"{name} of {value.dtype}")
    if not named.get("skipna", True) and value.nulls:
        raise Unsupported(f"{name} that counts missing values")
    expr = value.expr
    if kind != "b":
        expr = Call("ne", (expr, Literal(0, value.physical)), pl.Boolean())
    call = aggregate(name, expr, pl.Boolean())
    return Statistic((call,), lambda fetch: typed(value.dtype, name, fetch(call).item()))


_BUILDERS: dict[str, Callable[[str, Value, dict[str, Any]], Statistic]] = {
    "sum": _sum,
    "prod": _sum,
    "mean": _mean,
    "median": _mean,
    "min": _extreme,
    "max": _extreme,
    "var": _moment,
    "std": _moment,
    "sem": _moment,
    "count": _count,
    "nunique": _nunique,
    "any": _any_all,
    "all": _any_all,
}


def compute(held: View, wanted: Sequence[tuple[str, Value, dict[str, Any]]]) -> list[Any]:
    """Run reductions of columns over one base, all in one pass.

    Parameters
    ----------
    held
        The view whose base the columns are over.
    wanted
        The method's name, the column, the options.

    Returns
    -------
    list
        The scalars.
    """
    plans: list[Operator] = []
    decided: dict[tuple[Operator, str], int] = {}
    candidates: list[list[Statistic]] = []
    for name, value, named in wanted:
        if value.source is None:
            candidates.append([statistic(name, value, **named)])
            continue
        # The dtype depends on missing values in the source: be ready for both.
        plain = replace(value, source=None)
        candidates.append(
            [statistic(name, replace(plain, dtype=dtype), **named) for dtype in (value.dtype, with_missing(value.dtype))]
        )
        decided.setdefault(value.source, len(decided))
    calls: dict[AggregateCall, str] = {}
    for both in candidates:
        for one in both:
            for call in one.calls:
                calls.setdefault(call, f"s{len(calls)}")
    plans.append(Aggregate(held.base, (), tuple((name, call) for call, name in calls.items())))
    for operator, column in decided:
        nulls = AggregateCall("null_count", (operator.column(column),), pl.Int64())
        plans.append(Aggregate(operator, (), (("missing", nulls),)))
    frames = answer(plans)

    def fetch(call: AggregateCall) -> pl.Series:
        return frames[0].get_column(calls[call])

    results = []
    for (_, value, _), both in zip(wanted, candidates, strict=True):
        promoted = value.source is not None and frames[1 + decided[value.source]].item() > 0
        results.append(both[-1 if promoted else 0].finish(fetch))
    return results


