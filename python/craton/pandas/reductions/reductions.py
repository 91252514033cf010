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
from craton.pandas.core.counterparts import as_craton, as_pandas, frame_class, series_class
from craton.pandas.core.dtypes import FLOAT64, INT64, family, kind_of
from craton.pandas.core.execute import has_rows, resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.core.view import Value, View
from craton.refusals import Refusal

#: Reductions for which pandas' own routine runs on timestamps and timedeltas.
_OF_TIMES = frozenset(["sum", "mean", "median", "std", "sem"])
REDUCTIONS = ("sum", "prod", "mean", "median", "min", "max", "var", "std", "sem", "count", "nunique", "any", "all")

#: Parameters of NumPy's functions, which np.sum(df) and np.mean(df) pass with the value None.
_NUMPY_DEFAULTS = {
    **dict.fromkeys(("sum", "prod", "mean", "median", "std", "var"), ("dtype", "out")),
    **dict.fromkeys(("min", "max", "any", "all"), ("out",)),
}


def arguments(base: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, without those that equal their defaults.

    Raises
    ------
    Unsupported
        If the arguments do not fit the signature; pandas then raises the error.
    """
    named = bound_arguments(base, name, args, kwargs)
    extra = named.pop("kwargs", {})
    if name in ("eval", "query"):
        named |= extra
    elif any(value is not None or key not in _NUMPY_DEFAULTS.get(name, ()) for key, value in extra.items()):
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    if named.pop("args", None):
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


#: Names of methods that ``agg`` accepts: reductions, and methods of Series that are native.
_AGGREGATES = frozenset([*REDUCTIONS, "skew", "kurt", "idxmax", "idxmin", "size"])


def along_columns(named: dict[str, Any]) -> bool:
    """Whether the arguments of a method choose the columns as its axis; the argument is removed then."""
    axis = named.get("axis", 0)
    if pd.api.types.is_bool(axis) or not (axis == "columns" or (is_integer(axis) and axis == 1)):
        return False
    del named["axis"]
    return True


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
        if name in _OF_TIMES and kind_of(held.values[0].dtype) in "mM" and family(held.values[0].dtype) == "numpy":
            from craton.pandas.reductions.needed_columns import pandas_statistic

            return pandas_statistic(self, name, named)
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


def is_plain_number(value: Value) -> bool:
    """Whether a column has a NumPy dtype of integers or floats."""
    return family(value.dtype) == "numpy" and kind_of(value.dtype) in "iuf"


def numeric_columns(held: View, kind: str) -> View:
    """The numeric (or boolean) columns, as pandas selects them."""
    held = resolved(held)
    empty = stand_ins.columns([value.dtype for value in held.values])
    chosen = empty._get_numeric_data() if kind == "numeric_only" else empty._get_bool_data()
    return held.take(list(chosen.columns))


def _frame_reduction(name: str) -> Callable[..., Any]:
    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, name, args, kwargs)
        across = along_columns(named)
        both = named.pop("axis", 0) is None if named.get("axis", 0) is None else False
        named = check_options(named)
        held = view(self)
        for kind in ("numeric_only", "bool_only"):
            if named.pop(kind, False):
                held = numeric_columns(held, kind)
        if both:
            return _reduced_to_scalar(self, name, held, named)
        if across:
            from craton.pandas.reductions.row_reductions import reduce_rows

            return reduce_rows(self, name, held, named)
        return reduced(self, name, held, named)

    reduction.__name__ = name
    return native(pd.DataFrame, name)(reduction)


def _reduced_to_scalar(self: Any, name: str, held: View, named: dict[str, Any]) -> Any:
    """A reduction of all values of a frame, whose columns have one dtype (``axis=None``)."""
    held = resolved(held)
    dtypes = {value.dtype for value in held.values}
    if name not in ("any", "all", "min", "max") or len(dtypes) != 1 or named:
        raise Unsupported(Refusal.PARAMETER, "axis=None")
    (dtype,) = dtypes
    if family(dtype) != "numpy" or kind_of(dtype) not in ("b" if name in ("any", "all") else "if"):
        raise Unsupported(Refusal.PARAMETER, "axis=None")
    columns = reduced(self, name, held, named)
    with plain_pandas():
        found = getattr(as_pandas(columns).to_frame(), name)(axis=None)
    if pd.isna(found):
        raise Unsupported(Refusal.NO_VALUE)
    return found


def _quantile_arguments(base: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    named = arguments(base, "quantile", args, kwargs)
    q = named.pop("q", 0.5)
    stand_ins.column(FLOAT64, 1).quantile(q)  # raises if q is not between 0 and 1
    if named.get("method", "single") != "single":
        raise Unsupported(Refusal.QUANTILES_OF_TABLE)
    return q, named


def _quantile_of_rows(self: Any, q: Any, named: dict[str, Any]) -> Any:
    """One quantile of each row of numbers."""
    from craton.pandas.reductions.row_reductions import reduce_rows

    held = resolved(view(self))
    if named.pop("numeric_only", False) is not False:
        held = numeric_columns(held, "numeric_only")
    if type(q) is not float or any(value.dtype not in (INT64, FLOAT64) for value in held.values) or not has_rows(held):
        raise Unsupported(Refusal.PARAMETER, "axis")
    return reduce_rows(self, "quantile", held, {"q": q, **named}, q)


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
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name in _AGGREGATES for name in names):
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
    labelled = kwargs if not args and kwargs and all(_is_labelled(item) for item in kwargs.values()) else {}
    named = {} if labelled else arguments(pd.DataFrame, "agg", args, kwargs)
    func = named.get("func")
    if along_columns(named):
        if not isinstance(func, str) or named.keys() != {"func"}:
            raise Unsupported(Refusal.PARAMETERS, "axis and func")
        (name,) = named_functions(func)
        if name not in REDUCTIONS or not all(is_plain_number(value) for value in resolved(view(self)).values):
            raise Unsupported(
                Refusal.REDUCTION_FUNCTIONS
            )  # pandas reduces the transposed frame, whose dtype may be object
        return getattr(self, name)(axis=1)
    if not labelled and (named.pop("axis", 0) not in (0, "index") or named.keys() != {"func"}):
        raise Unsupported(Refusal.PARAMETERS, "axis and func")
    held = view(self)
    if labelled:
        pairs = [
            (held.position(key), named_functions(name)[0]) for key, name in labelled.values() if key in held.labels
        ]
    elif isinstance(func, dict):
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
            if func == "size":
                raise Unsupported(Refusal.REDUCTION_FUNCTIONS)
            return getattr(self, func)()
        pairs = [(i, name) for i in range(len(held.values)) for name in names]
    prefetch(held, [(name, held.values[i], {}) for i, name in pairs])
    with plain_pandas():  # lazy columns stay lazy; pandas combines the small results
        return as_craton(pd.DataFrame.agg(self, **labelled) if labelled else pd.DataFrame.agg(self, func))


def _is_labelled(item: Any) -> bool:
    """Whether a keyword argument of ``agg`` names a column and a function: ``total=("x", "sum")``."""
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str)


def _series_agg(self: Any, *args: Any, **kwargs: Any) -> Any:
    named = arguments(pd.Series, "agg", args, kwargs)
    func = named.pop("func", None)
    if isinstance(func, str) and named_functions(func):
        if named.pop("axis", 0) not in (0, "index"):
            raise Unsupported(Refusal.PARAMETER, "axis")
        if func == "size":
            raise Unsupported(Refusal.REDUCTION_FUNCTIONS)
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
    given = view(self)
    held = resolved(given)
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
    # An object in memory would compute them again, and one whose dtype is not known yet would be evaluated for it.
    planned = self if is_lazy(self) and held is given else lazy(type(self), held, self)
    with plain_pandas():
        return as_craton(base.describe(planned, **named))


class FrameReductions:
    """Methods of DataFrame."""

    agg = native(pd.DataFrame, "agg")(_frame_agg)
    aggregate = native(pd.DataFrame, "aggregate")(_frame_agg)
    describe = native(pd.DataFrame, "describe")(_describe)

    @native(pd.DataFrame)
    def quantile(self: Any, *args: Any, **kwargs: Any) -> Any:
        q, named = _quantile_arguments(pd.DataFrame, args, kwargs)
        if along_columns(named):
            return _quantile_of_rows(self, q, named)
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
