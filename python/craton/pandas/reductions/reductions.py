"""Reductions of Series and DataFrame: sum, mean, min, max, count, nunique, quantile, agg, describe and others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from pandas.api.types import is_float, is_integer, is_list_like
from pandas.core.dtypes.cast import maybe_unbox_numpy_scalar
from pandas.core.methods.describe import DataFrameDescriber
from pandas.core.methods.describe import _refine_percentiles as refine_percentiles

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.call_arguments import bound_arguments, signature_of
from craton.pandas.core.counterparts import as_craton, frame_class, series_class
from craton.pandas.core.dtypes import FLOAT64, family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import view
from craton.pandas.core.native import native
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.refusals import Refusal

REDUCTIONS = ("sum", "prod", "mean", "median", "min", "max", "var", "std", "sem", "count", "nunique", "any", "all")


def arguments(base: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, without those that equal their defaults.

    Raises
    ------
    Unsupported
        If the arguments do not fit the signature; pandas then raises the error.
    """
    named = bound_arguments(base, name, args, kwargs)
    named |= named.pop("kwargs", {}) if name in ("eval", "query") else {}
    if named.pop("kwargs", None) or named.pop("args", None):
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    signature = signature_of(base, name)
    return {key: value for key, value in named.items() if not _at_default(signature, key, value)}


def _at_default(signature: inspect.Signature, key: str, value: Any) -> bool:
    if key not in signature.parameters:  # one of **kwargs
        return False
    default = signature.parameters[key].default
    return value is default or _same(value, default)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and isinstance(value, (bool, int, str)) and value == default


def check_options(named: dict[str, Any]) -> dict[str, Any]:
    """Check the options of a reduction along the rows, and return them without ``axis``.

    Raises
    ------
    Unsupported
        If an option has a type for which pandas raises an error, or the axis is another one.
    """
    if named.pop("axis", 0) not in (0, "index", "rows"):
        raise Unsupported(Refusal.PARAMETER, "axis")
    for key in ("skipna", "numeric_only", "bool_only", "dropna"):
        if key in named and not isinstance(named[key], bool):
            raise Unsupported(Refusal.PARAMETER, f"{key}={named[key]!r}")
    least = named.get("min_count", 0)
    if isinstance(least, bool) or not isinstance(least, int):
        raise Unsupported(Refusal.PARAMETER, f"min_count={least!r}")
    return named


def _series_reduction(name: str) -> Callable[..., Any]:

    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.reductions.statistics import compute

        named = check_options(arguments(pd.Series, name, args, kwargs))
        if named.pop("numeric_only", False) or named.pop("bool_only", False):
            raise Unsupported(Refusal.PARAMETER, "numeric_only")
        held = view(self)
        return maybe_unbox_numpy_scalar(compute(held, [(name, held.values[0], named)])[0])

    reduction.__name__ = name
    return native(pd.Series, name)(reduction)


def reduced(self: Any, name: str, held: View, named: dict[str, Any]) -> Any:
    """The reductions of all columns as a Series by column label, with the common dtype that pandas finds for them."""
    from craton.pandas.reductions.statistics import compute_columns

    if not held.values:
        raise Unsupported(Refusal.NO_COLUMNS)
    columns = compute_columns(held, [(name, value, named) for value in held.values])
    row = pd.concat(columns, axis=1, ignore_index=True)
    result = row.iloc[0]
    result.index = held.labels.view()
    result.name = None
    arrow = any(family(value.dtype) == "arrow" for value in held.values)
    if name in ("any", "all") and (arrow or result.dtype != "boolean"):
        result = result.astype("bool")
    elif name == "count" or name == "nunique":
        result = result.astype("int64")

    made = series_class()(result)
    return made.__finalize__(self)


def numeric_columns(held: View, kind: str) -> View:
    """The numeric (or boolean) columns, as pandas selects them."""
    held = resolved(held)
    empty = stand_ins.columns([value.dtype for value in held.values])
    chosen = empty._get_numeric_data() if kind == "numeric_only" else empty._get_bool_data()
    return held.take(list(chosen.columns))


def _frame_reduction(name: str) -> Callable[..., Any]:
    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = check_options(arguments(pd.DataFrame, name, args, kwargs))
        held = view(self)
        for kind in ("numeric_only", "bool_only"):
            if named.pop(kind, False):
                held = numeric_columns(held, kind)
        return reduced(self, name, held, named)

    reduction.__name__ = name
    return native(pd.DataFrame, name)(reduction)


def _quantile_arguments(base: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    named = arguments(base, "quantile", args, kwargs)
    q = named.pop("q", 0.5)
    stand_ins.column(FLOAT64, 1).quantile(q)  # raises if q is not between 0 and 1
    if named.get("method", "single") != "single":
        raise Unsupported(Refusal.QUANTILES_OF_TABLE)
    return q, named


def _quantiles(held: View, q: Any, named: dict[str, Any]) -> list[pd.Series]:
    """The quantiles of each column."""
    from craton.pandas.reductions.statistics import compute

    given = list(q) if is_list_like(q) else [q]
    if not all(is_float(share) or is_integer(share) or isinstance(share, bool) for share in given):
        raise Unsupported(Refusal.PARAMETER, "q")
    shares = tuple(map(float, given))
    options = {"q": shares, "interpolation": named.get("interpolation", "linear")}
    found: list[pd.Series] = compute(held, [("quantile", value, options) for value in held.values])
    return found


def named_functions(func: Any) -> list[str]:
    """The reductions that an argument of ``agg`` names.

    Raises
    ------
    Unsupported
        If the argument contains anything else.
    """
    names = [func] if isinstance(func, str) else func
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name in REDUCTIONS for name in names):
        raise Unsupported(Refusal.REDUCTION_FUNCTIONS)
    return list(names)


def prefetch(held: View, wanted: Sequence[tuple[str, Value, dict[str, Any]]]) -> None:
    """Compute reductions in one run, for pandas methods that then compute them one by one and find them cached.

    Reductions without a native implementation are skipped.
    """
    from craton.pandas.reductions.statistics import compute, statistic

    ready = []
    for name, value, named in wanted:
        try:
            statistic(name, replace(value, source=None), **named)
        except Unsupported:
            continue
        ready.append((name, value, named))
    if ready:
        compute(held, ready)


def _frame_agg(self: Any, *args: Any, **kwargs: Any) -> Any:
    named = arguments(pd.DataFrame, "agg", args, kwargs)
    func = named.get("func")
    if named.pop("axis", 0) not in (0, "index") or named.keys() != {"func"}:
        raise Unsupported(Refusal.PARAMETERS, "axis and func")
    held = view(self)
    if isinstance(func, dict):
        if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
            raise Unsupported(Refusal.DUPLICATE_LABELS)
        pairs = [
            (held.position(key), name)
            for key, item in func.items()
            for name in named_functions(item)
            if key in held.labels
        ]
    else:
        names = named_functions(func)
        if isinstance(func, str):
            return getattr(self, func)()
        pairs = [(i, name) for i in range(len(held.values)) for name in names]
    prefetch(held, [(name, held.values[i], {}) for i, name in pairs])
    with plain_pandas():  # lazy columns stay lazy; pandas combines the small results
        return as_craton(pd.DataFrame.agg(self, func))


def _series_agg(self: Any, *args: Any, **kwargs: Any) -> Any:
    named = arguments(pd.Series, "agg", args, kwargs)
    func = named.pop("func", None)
    if isinstance(func, str) and named_functions(func):
        if named.pop("axis", 0) not in (0, "index"):
            raise Unsupported(Refusal.PARAMETER, "axis")
        return getattr(self, func)(*named.pop("args", ()), **named)
    if named.pop("axis", 0) not in (0, "index") or named:
        raise Unsupported(Refusal.PARAMETERS, "axis and func")
    names = named_functions(list(func.values()) if isinstance(func, dict) else func)
    held = view(self)
    prefetch(held, [(name, held.values[0], {}) for name in names])
    with plain_pandas():
        return as_craton(pd.Series.agg(self, func))


DESCRIBED = ("count", "mean", "std", "min", "max")


def _describe(self: Any, *args: Any, **kwargs: Any) -> Any:
    base = pd.DataFrame if isinstance(self, pd.DataFrame) else pd.Series
    named = arguments(base, "describe", args, kwargs)
    shares = tuple(float(share) for share in refine_percentiles(named.get("percentiles")))
    held = resolved(view(self))
    if base is pd.DataFrame:
        empty = stand_ins.columns([value.dtype for value in held.values])
        kinds = {key: named.get(key) for key in ("include", "exclude")}
        chosen = [held.values[i] for i in DataFrameDescriber(empty, **kinds)._select_data().columns]
        if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
            raise Unsupported(Refusal.DUPLICATE_LABELS)
    else:
        chosen = list(held.values)
    wanted: list[tuple[str, Value, dict[str, Any]]] = []
    for value in chosen:
        names = [name for name in DESCRIBED if kind_of(value.dtype) in "iufMm" or name == "count"]
        wanted += [(name, value, {}) for name in names]
        if len(names) > 1 and shares:
            wanted.append(("quantile", value, {"q": shares, "interpolation": "linear"}))
    prefetch(held, wanted)
    with plain_pandas():
        return as_craton(base.describe(self, **named))


class FrameReductions:
    """Methods of DataFrame."""

    agg = native(pd.DataFrame, "agg")(_frame_agg)
    aggregate = native(pd.DataFrame, "aggregate")(_frame_agg)
    describe = native(pd.DataFrame, "describe")(_describe)

    @native(pd.DataFrame)
    def quantile(self: Any, *args: Any, **kwargs: Any) -> Any:
        q, named = _quantile_arguments(pd.DataFrame, args, kwargs)
        if named.pop("axis", 0) not in (0, "index", "rows"):
            raise Unsupported(Refusal.PARAMETER, "axis")
        held = view(self)
        if named.pop("numeric_only", False):
            held = numeric_columns(held, "numeric_only")
        if not held.values or (is_list_like(q) and len(q) == 0):
            raise Unsupported(Refusal.NOTHING_TO_COMPUTE)
        frame = pd.concat(_quantiles(resolved(held), q, named), axis=1, ignore_index=True)
        frame.columns = held.labels.view()
        frame.index = pd.Index([q] if not is_list_like(q) else q, dtype="float64")
        if not is_list_like(q):
            return series_class()(frame.iloc[0]).__finalize__(self)

        return frame_class()(frame).__finalize__(self)


class SeriesReductions:
    """Methods of Series."""

    agg = native(pd.Series, "agg")(_series_agg)
    aggregate = native(pd.Series, "aggregate")(_series_agg)
    describe = native(pd.Series, "describe")(_describe)

    @native(pd.Series)
    def quantile(self: Any, *args: Any, **kwargs: Any) -> Any:
        q, named = _quantile_arguments(pd.Series, args, kwargs)
        held = resolved(view(self))
        if is_list_like(q) and len(q) == 0:
            raise Unsupported(Refusal.NOTHING_TO_COMPUTE)
        (values,) = _quantiles(held, q, named)
        if not is_list_like(q):
            return values.iloc[0]

        return series_class()(values._values, index=pd.Index(q, dtype="float64"), name=self.name)


for _name in REDUCTIONS:
    setattr(SeriesReductions, _name, _series_reduction(_name))
    setattr(FrameReductions, _name, _frame_reduction(_name))
